//! [`ReplayProof`]: what NCCL's logs show of the connections that each kind of collective uses.
//!
//! NCCL's lines do not say to which communicator a connection belongs. Connections that appear
//! while a collective is checked, and nothing else runs, belong to the communicator of that
//! collective. Of the others, the communicator is known only if no second one can have made them.

use serde::{Deserialize, Serialize};

use super::kind::CollectiveKind;
use crate::{
    nccl_log::{Connections, PxnVerdict, SendCounts},
    record::NcclEvidence,
    workload::{Step, StepWork},
};

/// The connections of a replay, by the time at which they were made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepConnections {
    /// Those made while communicators were created: by NCCL before 2.22, or with
    /// `NCCL_RUNTIME_CONNECT=0`.
    pub joined: Connections,
    /// For each communicator, those made while its collectives were checked.
    pub checked: Vec<Connections>,
    /// Those made during the steps, in which several communicators run at the same time.
    pub later: Connections,
}

impl StepConnections {
    /// Returns an empty list of connections for each of a step's communicators.
    pub fn none(communicators: usize) -> StepConnections {
        StepConnections {
            checked: vec![Connections::default(); communicators],
            ..StepConnections::default()
        }
    }

    /// Adds the connections of another rank.
    pub fn add(&mut self, other: &StepConnections) {
        self.joined.add(&other.joined);
        for (own, others) in self.checked.iter_mut().zip(&other.checked) {
            own.add(others);
        }
        self.later.add(&other.later);
    }
}

/// The connections in the logs of all ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayProof {
    /// The connections of all ranks.
    pub connections: StepConnections,
    /// Whether lines may be missing in the log of a rank.
    pub is_cut: bool,
}

/// What the logs show of the connections that a kind of collective uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindProof {
    /// Whether a connection leaves through the NIC of another GPU.
    pub pxn: PxnVerdict,
    /// The transports of the connections, joined by `+`; empty if they are not known.
    pub transport: String,
    /// The connections that send over a network; `None` if they may be those of another
    /// communicator.
    pub sends: Option<SendCounts>,
}

impl ReplayProof {
    /// Returns what is shown of `kind`, which is a kind of collective of `step`.
    pub fn of(&self, step: &Step, kind: &CollectiveKind) -> KindProof {
        let is_pairwise = kind.case.collective.spec().pairwise;
        let own = &self.connections.checked[kind.communicator];
        let mut all = own.clone();
        all.add(&self.connections.joined);
        all.add(&self.connections.later);
        let proof = if self.has_connections_of_others(step, is_pairwise) {
            shown_in_part(own, &all, is_pairwise)
        } else {
            shown(&all, is_pairwise)
        };
        // A missing line may be that of a relayed connection.
        if self.is_cut && proof.pxn != PxnVerdict::Used {
            return KindProof {
                pxn: PxnVerdict::CannotTell,
                sends: None,
                ..proof
            };
        }
        proof
    }

    /// Returns whether any connection for this traffic that was not made in a check may belong to
    /// one of several communicators.
    fn has_connections_of_others(&self, step: &Step, is_pairwise: bool) -> bool {
        let StepConnections { joined, later, .. } = &self.connections;
        let has_any = |some: &Connections| !some.transports(is_pairwise).is_empty();
        if !has_any(joined) && !has_any(later) {
            return false;
        }
        // Communicators that connect when they are joined connect their rings, whether they run
        // collectives or not.
        let are_from_joining = !is_pairwise && has_any(joined);
        let owners = if are_from_joining {
            step.communicators.len()
        } else {
            users(step, is_pairwise)
        };
        owners > 1
    }
}

/// Returns how many communicators of `step` run collectives that are made of sends and receives, or
/// how many run others.
fn users(step: &Step, of_send_recv: bool) -> usize {
    let mut users = vec![false; step.communicators.len()];
    for operation in &step.operations {
        if let StepWork::Collective { communicator, case } = &operation.work {
            users[*communicator] |= case.collective.spec().pairwise == of_send_recv;
        }
    }
    users.into_iter().filter(|is_user| *is_user).count()
}

/// Returns what is shown if `all` are connections of the communicator.
fn shown(all: &Connections, is_pairwise: bool) -> KindProof {
    let seen = NcclEvidence::of_connections(all, is_pairwise);
    KindProof {
        pxn: match seen.pxn {
            Some(true) => PxnVerdict::Used,
            Some(false) => PxnVerdict::NotUsed,
            None => PxnVerdict::CannotTell,
        },
        sends: seen.pxn.map(|_| *all.sends_of(is_pairwise)),
        transport: seen.transport,
    }
}

/// Returns what is shown if only the `own` connections are known to belong to the communicator, and
/// the others of `all` may belong to another one. If no connection of all is relayed, none of the
/// communicator's is.
fn shown_in_part(own: &Connections, all: &Connections, is_pairwise: bool) -> KindProof {
    let known = shown(own, is_pairwise);
    let pxn = match (known.pxn, shown(all, is_pairwise).pxn) {
        (PxnVerdict::Used, _) => PxnVerdict::Used,
        (_, PxnVerdict::NotUsed) => PxnVerdict::NotUsed,
        _ => PxnVerdict::CannotTell,
    };
    KindProof {
        pxn,
        transport: known.transport,
        sends: None,
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;
    use crate::{
        replay::ReplayResult,
        workload::{Workload, WorkloadOptions},
    };

    const RELAYED: &str = "Channel 04/1 : 0[0] -> 3[1] [send] via NET/IB/1(1)/GDRDMA";
    const DIRECT: &str = "Channel 04/1 : 0[0] -> 2[0] [send] via NET/IB/0/GDRDMA";
    const RING: &str = "Channel 00/0 : 1[1] -> 2[0] [send] via NET/IB/0(0)/GDRDMA";
    const DIRECT_RING: &str = "Channel 00/0 : 1[1] -> 2[0] [send] via NET/IB/1/GDRDMA";

    fn log(lines: &[&str]) -> Connections {
        let mut text = String::new();
        for line in lines {
            text += &format!("h:1:1 [0] NCCL INFO {line}\n");
        }
        Connections::read(text.as_bytes())
    }

    /// Returns the step of Mixtral on four ranks: tokens use one communicator, gradients one or two
    /// others.
    fn step(expert: Option<u64>) -> Step {
        let options = WorkloadOptions {
            layers: Some(1),
            expert,
            ..WorkloadOptions::default()
        };
        let workload = Workload::built_in("moe-8x7b", &options).expect("built in");
        workload.on(4).expect("a step")
    }

    /// Returns for each kind of collective its group, the verdict, how many sends are relayed, and
    /// the transports.
    fn proofs(step: &Step, connections: StepConnections, is_cut: bool) -> Vec<String> {
        let proof = ReplayProof {
            connections,
            is_cut,
        };
        let mut all = Vec::new();
        for kind in CollectiveKind::of_step(step, &ReplayResult::default()) {
            let KindProof {
                pxn,
                transport,
                sends,
            } = proof.of(step, &kind);
            let sends = sends.map_or_else(
                || "unknown".into(),
                |sends| format!("{} of {}", sends.relayed, sends.sends),
            );
            let name = kind.case.collective.name();
            let text = format!(
                "{name} {}: {}, {sends} {transport}",
                kind.group,
                pxn.label()
            );
            if !all.contains(&text) {
                all.push(text);
            }
        }
        all
    }

    #[test]
    fn connections_belong_to_the_communicator_that_is_checked_when_they_are_made() {
        let step = step(None);
        let names: Vec<&str> = step.communicators.iter().map(|one| &*one.name).collect();
        assert_eq!(names, ["expert", "expert"]);
        let connections = StepConnections {
            checked: vec![log(&[RELAYED, DIRECT]), log(&[DIRECT_RING])],
            ..StepConnections::none(2)
        };
        let told = proofs(&step, connections.clone(), false);
        assert_eq!(
            told,
            [
                "alltoallv expert: used, 1 of 2 NET/IB",
                "all_reduce expert: not used, 0 of 1 NET/IB"
            ]
        );
        let cut = proofs(&step, connections, true);
        assert_eq!(
            cut,
            [
                "alltoallv expert: used, 1 of 2 NET/IB",
                "all_reduce expert: cannot tell, unknown NET/IB"
            ]
        );
    }

    /// Returns the connections in the log of a run of NCCL 2.28.3 on four ranks of two virtual
    /// nodes.
    fn recorded(name: &str) -> Connections {
        let logs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/nccl-logs");
        let log = fs::read(logs.join(format!("{name}.log"))).expect("a log");
        Connections::read(&log)
    }

    #[test]
    fn recorded_logs_show_which_traffic_each_level_relays() {
        let step = step(None);
        for (level, tokens, gradients) in [
            ("disable", "not used, 0 of 16", "not used, 0 of 16"),
            ("level0", "not used, 0 of 16", "used, 16 of 16"),
            ("level1", "used, 8 of 16", "used, 16 of 16"),
            ("level2", "used, 8 of 16", "used, 16 of 16"),
            ("default", "used, 8 of 16", "used, 16 of 16"),
        ] {
            let connections = StepConnections {
                checked: vec![
                    recorded(&format!("a2a.split.{level}")),
                    recorded(&format!("ring.split.{level}")),
                ],
                ..StepConnections::none(2)
            };
            assert_eq!(
                proofs(&step, connections, false),
                [
                    format!("alltoallv expert: {tokens} NET/vrail+P2P"),
                    format!("all_reduce expert: {gradients} NET/vrail+P2P"),
                ],
                "{level}"
            );
        }
    }

    #[test]
    fn without_a_check_the_kind_of_traffic_tells_whose_connections_they_are() {
        let step = step(None);
        let connections = StepConnections {
            later: log(&[RELAYED, DIRECT, DIRECT_RING]),
            ..StepConnections::none(2)
        };
        assert_eq!(
            proofs(&step, connections, false),
            [
                "alltoallv expert: used, 1 of 2 NET/IB",
                "all_reduce expert: not used, 0 of 1 NET/IB"
            ]
        );
        // An older NCCL connects rings of all communicators when they are joined.
        let mut connections = StepConnections {
            joined: log(&[RING, DIRECT_RING]),
            ..StepConnections::none(2)
        };
        connections.checked[0] = log(&[RELAYED]);
        assert_eq!(
            proofs(&step, connections, false),
            [
                "alltoallv expert: used, 1 of 1 NET/IB",
                "all_reduce expert: cannot tell, unknown "
            ]
        );
    }

    #[test]
    fn connections_of_several_communicators_give_only_a_verdict_that_holds_for_all_of_them() {
        let step = step(Some(2));
        let gradients = |later: &[&str]| {
            let connections = StepConnections {
                later: log(later),
                ..StepConnections::none(step.communicators.len())
            };
            let mut all = proofs(&step, connections, false);
            all.retain(|line| line.starts_with("all_reduce"));
            all
        };
        assert_eq!(
            gradients(&[RING, DIRECT_RING]),
            [
                "all_reduce data: cannot tell, unknown ",
                "all_reduce expert+data: cannot tell, unknown "
            ]
        );
        assert_eq!(
            gradients(&[DIRECT_RING]),
            [
                "all_reduce data: not used, unknown ",
                "all_reduce expert+data: not used, unknown "
            ]
        );
        assert_eq!(
            gradients(&[]),
            [
                "all_reduce data: cannot tell, unknown ",
                "all_reduce expert+data: cannot tell, unknown "
            ]
        );
    }
}
