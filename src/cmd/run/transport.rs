//! Did NCCL take the network that was asked for? Its log of connections tells, after the run: since 2.22 a connection is
//! made when the first operation needs it.

use super::{args::Args, log};
use crate::{
    levels::Axis,
    nccl_log::Connections,
    world::{self, World},
};

/// The sentence that says so where the log shows something else than was asked for, the same on every rank; `None` where all
/// is well, or nothing was asked for, or NCCL wrote no log.
///
/// # Errors
/// Where what a rank saw does not reach the others; that would be a bug.
pub(super) fn remark(args: &Args, world: &dyn World) -> anyhow::Result<Option<String>> {
    let Some(asked) = args.asked(Axis::Network).filter(|row| !row.set.is_empty()) else {
        return Ok(None);
    };
    let mine = Connections::read(log::text().as_bytes());
    let mut all = Connections::default();
    for one in world::all_gather(world, &mine)? {
        all.add(&one);
    }
    Ok(judge(&asked.name, &all))
}

/// Is a transport of the log the one that `network` asks for?
fn fits(network: &str, transport: &str) -> bool {
    match network {
        "nvlink" | "pcie" => transport == "P2P",
        "shm" => transport == "SHM",
        // These join nodes; GPUs of one node go on to talk directly.
        "socket" => !transport.starts_with("NET/") || transport == "NET/Socket",
        // A plugin of the site drives the same adapters under a name of its own.
        "ib" | "ethernet" => transport != "NET/Socket",
        _ => true,
    }
}

fn judge(network: &str, seen: &Connections) -> Option<String> {
    if network == "pxn" {
        let is_seen = seen.relayed() > 0 || seen.by.is_empty();
        let what = "network pxn was asked for, but NCCL's log shows no connection through the NIC of another GPU";
        return (!is_seen).then(|| what.to_owned());
    }
    let total: u64 = seen.by.values().sum();
    let other: Vec<String> = seen
        .by
        .iter()
        .filter(|(transport, _)| !fits(network, transport))
        .map(|(transport, count)| format!("{transport} in {count}"))
        .collect();
    (!other.is_empty()).then(|| {
        format!(
            "network {network} was asked for, but of {total} connections NCCL's log shows {}",
            other.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nccl_log::SendCounts;

    fn seen(by: &[(&str, u64)], relayed: u64) -> Connections {
        let by = by
            .iter()
            .map(|(name, count)| ((*name).to_owned(), *count))
            .collect();
        Connections {
            by,
            send_recv: SendCounts {
                relayed,
                ..SendCounts::default()
            },
            ..Connections::default()
        }
    }

    #[test]
    fn another_transport_than_asked_for_is_said() {
        assert_eq!(judge("nvlink", &seen(&[("P2P", 48)], 0)), None);
        assert_eq!(judge("shm", &seen(&[], 0)), None, "no log, no verdict");
        let other =
            judge("socket", &seen(&[("NET/IB", 4), ("NET/Socket", 2)], 0)).expect("a remark");
        assert_eq!(
            other,
            "network socket was asked for, but of 6 connections NCCL's log shows NET/IB in 4"
        );
        assert_eq!(judge("ib", &seen(&[("NET/AWS Libfabric", 4)], 0)), None);
        assert!(judge("ib", &seen(&[("NET/Socket", 4)], 0)).is_some());
        assert!(judge("pxn", &seen(&[("NET/IB", 4)], 0)).is_some());
        assert_eq!(judge("pxn", &seen(&[("NET/IB", 4)], 2)), None);
    }
}
