//! The counters of a rehearsed rail, a recorded rehearsal, and the theory of nodes of any kind.

use crate::{
    collective::Collective,
    levels,
    rehearsal::{
        cluster::Cluster,
        counters::{ProcessCounters, RunCounters},
        picture,
        rehearsed::Rehearsal,
        rehearsed_table, table, theory,
        virtual_node::NodeShape,
    },
    topology::{self, Topology},
    units::Bytes,
};

/// Reads the counters of a process: written again, they are the same. They are added up as those of
/// a job of one rank.
pub(super) fn counters(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let Ok(counters) = ProcessCounters::parse(&text) else {
        return;
    };
    let again = serde_json::to_string(&counters).expect("JSON");
    assert_eq!(ProcessCounters::parse(&again).as_ref(), Ok(&counters));
    let cluster = Cluster::of_virtual_nodes(1, NodeShape::Split, 1, 1).expect("a cluster");
    if let Ok(run) = RunCounters::new(&cluster, vec![counters]) {
        let _ = run.rail_bytes(&cluster);
        let crossing = run.crossing();
        assert!(crossing.part <= crossing.whole);
    }
}

/// Reads a recorded rehearsal: written again, it is the same, and all forms of it can be rendered.
pub(super) fn recorded(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let Ok(mut rehearsal) = Rehearsal::parse(&text) else {
        return;
    };
    let again = rehearsed_table::json(&rehearsal).expect("JSON");
    assert_eq!(Rehearsal::parse(&again).as_ref(), Ok(&rehearsal));
    rehearsed_table::text(&rehearsal);
    rehearsed_table::csv(&rehearsal).expect("CSV");
    let _ = rehearsal.check();
    let count = rehearsal.cases.len();
    rehearsal.retain(|_| true);
    assert_eq!(rehearsal.cases.len(), count);
}

/// Derives the theory of two nodes like each of the topology's hosts: no part is larger than its
/// whole.
pub(super) fn theory(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for node in topology::read(&text).unwrap_or_default() {
        derive(node);
    }
}

fn derive(node: Topology) {
    let Ok(cluster) = Cluster::of_nodes_like(2, node) else {
        return;
    };
    let levels: Vec<_> = levels::all().iter().collect();
    let collectives = [
        Collective::SendRecv,
        Collective::Gather,
        Collective::AllReduce,
    ];
    let theories = theory::of_levels(&cluster, &levels, &collectives, Bytes(1 << 20), 0);
    for theory in &theories {
        let rails = theory.rails.known().into_iter().flatten();
        assert!(rails.clone().all(|rail| rail.relayed <= rail.sent));
        if let Some(crossing) = theory.crossing.known() {
            assert!(crossing.part <= crossing.whole);
            assert_eq!(rails.map(|rail| rail.sent).sum::<u64>(), crossing.whole);
        }
        if theory.level == "off" {
            assert!(theory.flows.iter().all(|flow| flow.relay.is_none()));
        }
    }
    table::text(&cluster, Bytes(1 << 20), &theories);
    table::csv(&theories).expect("CSV");
    let svg = picture::draw(&cluster, &theories);
    roxmltree::Document::parse(&svg).expect("a picture that can be read");
}
