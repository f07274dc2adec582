//! The theory against rehearsals with the real NCCL, as this program recorded them, without flows
//! and compared numbers: two nodes with two, four and eight GPUs and as many rails.

use std::collections::BTreeMap;

use super::{
    cluster::Cluster,
    rehearsed::Rehearsal,
    rehearsed_case::RehearsedCase,
    settings::PxnSettings,
    theory::{self, RailBytes, Relays, Share, Theory},
    virtual_node::NodeShape,
};
use crate::{levels, units::Bytes};

const RECORDS: [&str; 4] = [
    include_str!("../../tests/data/rehearsal/two-gpus-2.28.3.json"),
    include_str!("../../tests/data/rehearsal/two-gpus-2.28.9.json"),
    include_str!("../../tests/data/rehearsal/four-gpus.json"),
    include_str!("../../tests/data/rehearsal/eight-gpus.json"),
];

/// The channels of collectives in the logs of two nodes with two GPUs. With as many, two ranks of
/// the other records have two connections, as their logs show.
const CHANNELS: u64 = 8;

/// Returns the theory of a case.
fn theory_of(rehearsal: &Rehearsal, case: &RehearsedCase) -> Theory {
    let shape = NodeShape::ALL
        .into_iter()
        .find(|shape| shape.word() == case.topology);
    let mut cluster = Cluster::of_virtual_nodes(
        rehearsal.nodes,
        shape.expect("a shape"),
        rehearsal.gpus_per_node as usize,
        rehearsal.rails_per_node as usize,
    )
    .expect("a cluster");
    cluster.channels = Some(CHANNELS);
    let level = levels::level(&case.level).expect("a level");
    let operation = theory::case(&cluster, case.collective, Bytes(rehearsal.size_bytes), 0);
    let settings = PxnSettings::of_level(level);
    Theory::new(&cluster, &level.name, &settings, &operation, case.algorithm)
}

/// Returns the bytes of all operations that rails sent, by node and rail: all, and those that were
/// relayed.
fn bytes(rails: &[RailBytes], operations: u64) -> BTreeMap<(u64, usize), (u64, u64)> {
    let mut bytes = BTreeMap::new();
    for rail in rails.iter().filter(|rail| rail.sent > 0) {
        let of_rail = (rail.sent * operations, rail.relayed * operations);
        bytes.insert((rail.node, rail.rail), of_rail);
    }
    bytes
}

#[test]
fn relays_and_bytes_are_those_of_every_rehearsal() {
    let mut relayed_cases = 0;
    for record in RECORDS {
        let rehearsal = Rehearsal::parse(record).expect("a record");
        for case in &rehearsal.cases {
            let name = format!("{} {} {}", case.topology, case.label(), case.level);
            let theory = theory_of(&rehearsal, case);
            assert_eq!(theory.relays, Relays::Connections(case.sends), "{name}");
            let rails = theory.rails.known().expect("known bytes");
            assert_eq!(
                bytes(rails, case.operations),
                bytes(&case.rails, 1),
                "{name}"
            );
            let Share { part, whole } = theory.crossing.known().expect("known bytes");
            let crossing = (part * case.operations, whole * case.operations);
            assert_eq!(
                crossing,
                (case.crossing.part, case.crossing.whole),
                "{name}"
            );
            assert_eq!(case.verified, Some(true), "{name}");
            relayed_cases += u64::from(case.sends.part > 0);
        }
    }
    assert_eq!(relayed_cases, 70, "cases with relays");
}
