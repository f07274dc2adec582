//! Whether NCCL took the network that was requested. Its log of connections says so after the run:
//! since 2.22 NCCL makes a connection when the first operation needs it.

use super::{context::RunContext, log};
use crate::{nccl_log::Connections, world};

/// Returns a sentence if the log shows something else than was requested, the same on every rank;
/// `None` if all is well, if nothing was requested, or if NCCL wrote no log.
///
/// # Errors
///
/// Returns an error if what a rank saw does not reach the others; that would be a bug.
pub(super) fn remark(context: &RunContext) -> anyhow::Result<Option<String>> {
    let Some(network) = context.request.presets.network else {
        return Ok(None);
    };
    if network.set.is_empty() {
        return Ok(None);
    }
    let own = Connections::read(log::text().as_bytes());
    let mut all = Connections::default();
    for of_rank in world::all_gather(context.world, &own)? {
        all.add(&of_rank);
    }
    Ok(mismatch(&network.name, &all))
}

/// Returns whether a transport of the log is one that `network` asks for.
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

fn mismatch(network: &str, seen: &Connections) -> Option<String> {
    if network == "pxn" {
        if seen.relayed() > 0 || seen.by.is_empty() {
            return None;
        }
        let what = "network pxn was requested, but NCCL's log shows no connection through the NIC \
                    of another GPU";
        return Some(what.to_owned());
    }
    let mut others = Vec::new();
    for (transport, count) in &seen.by {
        if !fits(network, transport) {
            others.push(format!("{transport} in {count}"));
        }
    }
    if others.is_empty() {
        return None;
    }
    let total: u64 = seen.by.values().sum();
    Some(format!(
        "network {network} was requested, but of {total} connections NCCL's log shows {}",
        others.join(", ")
    ))
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
        assert_eq!(mismatch("nvlink", &seen(&[("P2P", 48)], 0)), None);
        assert_eq!(mismatch("shm", &seen(&[], 0)), None, "no log, no verdict");
        let other =
            mismatch("socket", &seen(&[("NET/IB", 4), ("NET/Socket", 2)], 0)).expect("a remark");
        assert_eq!(
            other,
            "network socket was requested, but of 6 connections NCCL's log shows NET/IB in 4"
        );
        assert_eq!(mismatch("ib", &seen(&[("NET/AWS Libfabric", 4)], 0)), None);
        assert!(mismatch("ib", &seen(&[("NET/Socket", 4)], 0)).is_some());
        assert!(mismatch("pxn", &seen(&[("NET/IB", 4)], 0)).is_some());
        assert_eq!(mismatch("pxn", &seen(&[("NET/IB", 4)], 2)), None);
    }
}
