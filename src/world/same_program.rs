//! The first exchange of a job, which checks that all ranks are the same program: others would
//! misread the later exchanges.

use serde::{Deserialize, Serialize};

use super::{World, placement::host_name};
use crate::exit::{Code, Failure};

/// The program that a process runs. Fields may be added, but these stay: other versions read them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Program {
    /// The version of the program.
    pxnbench: String,
    /// What it does: `a sweep`, `pxnbench doctor`.
    work: String,
    host: String,
}

/// Checks that all processes are the same version and do the same `work`.
///
/// # Errors
/// Returns an error on every process if one differs from the first.
pub(super) fn check(world: &dyn World, work: &str) -> anyhow::Result<()> {
    let own = Program {
        pxnbench: env!("CARGO_PKG_VERSION").into(),
        work: work.into(),
        host: host_name(),
    };
    let all = world.all_gather(&serde_json::to_vec(&own)?);
    match difference(&all) {
        None => Ok(()),
        Some(what) => Err(Failure::on_all_ranks(Code::Usage, what)),
    }
}

/// Returns how the first process that differs from process 0 does so; `None` if all are alike.
fn difference(all: &[Vec<u8>]) -> Option<String> {
    let parse = |bytes: &[u8]| serde_json::from_slice::<Program>(bytes).ok();
    let Some(first) = parse(all.first()?) else {
        return Some(unknown(0, None));
    };
    all.iter()
        .enumerate()
        .skip(1)
        .find_map(|(rank, bytes)| match parse(bytes) {
            None => Some(unknown(rank, Some(&first))),
            Some(other) => differs(rank, &other, &first),
        })
}

fn unknown(rank: usize, first: Option<&Program>) -> String {
    let beside = first.map_or(String::new(), |first| {
        format!(
            ", and rank 0 on {} is pxnbench {}",
            first.host, first.pxnbench
        )
    });
    format!(
        "rank {rank} is another program, or a version of pxnbench that does not say what it \
         is{beside}. Start the same program on all ranks"
    )
}

fn differs(rank: usize, other: &Program, first: &Program) -> Option<String> {
    let (host, host_0) = (&other.host, &first.host);
    if other.pxnbench != first.pxnbench {
        return Some(format!(
            "rank {rank} on {host} is pxnbench {}, and rank 0 on {host_0} is pxnbench {}. Start \
             the same version on all ranks",
            other.pxnbench, first.pxnbench
        ));
    }
    (other.work != first.work).then(|| {
        format!(
            "rank {rank} on {host} runs {}, and rank 0 on {host_0} runs {}. Start the same \
             program on all ranks",
            other.work, first.work
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(version: &str, work: &str, host: &str) -> Vec<u8> {
        let program = Program {
            pxnbench: version.into(),
            work: work.into(),
            host: host.into(),
        };
        serde_json::to_vec(&program).expect("JSON")
    }

    #[test]
    fn the_rank_that_differs_is_named_with_its_host() {
        let sweep = || bytes("1.2.0", "a sweep", "n1");
        assert_eq!(difference(&[sweep()]), None);
        assert_eq!(
            difference(&[sweep(), bytes("1.2.0", "a sweep", "n2")]),
            None
        );
        for (other, says) in [
            (
                bytes("1.1.0", "a sweep", "n2"),
                "rank 2 on n2 is pxnbench 1.1.0, and rank 0 on n1 is pxnbench 1.2.0. Start the \
                 same version",
            ),
            (
                bytes("1.2.0", "pxnbench doctor", "n2"),
                "rank 2 on n2 runs pxnbench doctor, and rank 0 on n1 runs a sweep. Start the same \
                 program",
            ),
            (
                b"[\"0.1.0\",\"Request\",[]]".to_vec(),
                "rank 2 is another program, or a version of pxnbench that does not say what it \
                 is, and rank 0 on n1 is pxnbench 1.2.0",
            ),
            (vec![0xff, 0], "rank 2 is another program"),
        ] {
            let what = difference(&[sweep(), sweep(), other]).expect("a difference");
            assert!(what.starts_with(says), "{what}");
        }
        let what = difference(&[b"{}".to_vec(), sweep()]).expect("a difference");
        assert!(what.starts_with("rank 0 is another program"), "{what}");
    }

    #[test]
    fn later_versions_may_say_more() {
        let more = br#"{"pxnbench":"1.2.0","work":"a sweep","host":"n2","build":"x"}"#;
        let all = [bytes("1.2.0", "a sweep", "n1"), more.to_vec()];
        assert_eq!(difference(&all), None);
    }
}
