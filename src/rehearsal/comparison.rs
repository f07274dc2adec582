//! [`Comparison`]: theory, NCCL's log and the counters of the rails, side by side.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::{
    cluster::Cluster,
    counters::RunCounters,
    theory::{Relays, Theory},
};
use crate::{
    exit::{Code, Failure},
    nccl_log::SendCounts,
    units::counted,
    visible::excerpt,
};

/// The most numbers that the sentence about a disagreement has.
const MOST_DIFFERENCES: usize = 3;

/// What a run shows of one operation, which it repeated.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    /// The network connections that the log shows for this kind of traffic, if there is a log.
    pub log: Option<SendCounts>,
    /// The counters of its rails, if there are any.
    pub counters: Option<&'a RunCounters>,
    /// How often the operation ran.
    pub operations: u64,
}

/// A number from up to three sources.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComparedNumber {
    /// What it counts.
    pub what: String,
    /// By theory.
    pub theory: Option<u64>,
    /// In NCCL's log.
    pub log: Option<u64>,
    /// By the counters of the rails.
    pub counters: Option<u64>,
}

impl ComparedNumber {
    fn known(&self) -> impl Iterator<Item = u64> {
        [self.theory, self.log, self.counters].into_iter().flatten()
    }

    /// Returns whether at least two sources have the number.
    pub fn is_compared(&self) -> bool {
        self.known().count() > 1
    }

    /// Returns whether all sources that have the number have the same.
    pub fn agrees(&self) -> bool {
        let mut known = self.known();
        let first = known.next();
        known.all(|number| Some(number) == first)
    }
}

/// A theory compared with what a run shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Comparison {
    /// The level.
    pub level: String,
    /// The collective and its algorithm.
    pub what: String,
    /// The numbers.
    pub numbers: Vec<ComparedNumber>,
}

impl Comparison {
    /// Compares a theory with what a run of the same cluster shows.
    ///
    /// # Errors
    /// Returns a sentence if the counters do not tell what was relayed.
    pub fn new(
        cluster: &Cluster,
        theory: &Theory,
        shown: &Shown<'_>,
    ) -> Result<Comparison, String> {
        let mut numbers = of_connections(theory, shown);
        numbers.extend(of_rails(cluster, theory, shown)?);
        Ok(Comparison {
            level: theory.level.clone(),
            what: theory.label(),
            numbers,
        })
    }

    /// Returns the numbers in which sources differ.
    pub fn disagreements(&self) -> impl Iterator<Item = &ComparedNumber> {
        self.numbers.iter().filter(|number| !number.agrees())
    }

    /// Returns whether all sources agree; `None` if no number is known from two of them.
    pub fn agreement(&self) -> Option<bool> {
        let is_compared = self.numbers.iter().any(ComparedNumber::is_compared);
        is_compared.then(|| self.disagreements().next().is_none())
    }

    /// Checks that all sources agree, in at least one number.
    ///
    /// # Errors
    /// Returns an error with the three numbers of each disagreement, or one if there was nothing to
    /// compare.
    pub fn check(&self) -> anyhow::Result<()> {
        let (level, what) = (excerpt(&self.level), excerpt(&self.what));
        if self.agreement().is_none() {
            let sentence = format!(
                "the rehearsal of {what} at level {level} cannot be judged: no number is known \
                 from two sources. NCCL's rules leave this case open; set --channels, or rehearse \
                 fewer GPUs per node"
            );
            return Err(Failure::on_all_ranks(Code::NothingRan, sentence));
        }
        let mut differences = Vec::new();
        for number in self.disagreements().take(MOST_DIFFERENCES) {
            differences.push(format!(
                "{}: {} by theory, {} in NCCL's log, {} by the rails' counters",
                excerpt(&number.what),
                shown_number(number.theory),
                shown_number(number.log),
                shown_number(number.counters)
            ));
        }
        if differences.is_empty() {
            return Ok(());
        }
        let more = self.disagreements().count() - differences.len();
        if more > 0 {
            let numbers = counted(more as u64, "more number");
            differences.push(format!("{numbers}, which the table has"));
        }
        let sentence = format!(
            "theory, log and counters disagree on {what} at level {level}: {}",
            differences.join("; ")
        );
        Err(Failure::on_all_ranks(Code::WrongData, sentence))
    }

    /// Returns the numbers as a table.
    pub fn table(&self) -> String {
        let (level, what) = (excerpt(&self.level), excerpt(&self.what));
        let mut out = format!("{what} at level {level}\n");
        let names: Vec<_> = self
            .numbers
            .iter()
            .map(|number| excerpt(&number.what))
            .collect();
        let width = names.iter().map(|name| name.chars().count()).max();
        let width = width.unwrap_or_default();
        let _ = writeln!(
            out,
            "{:width$}  {:>15}  {:>15}  {:>15}",
            "", "theory", "log", "counters"
        );
        for (number, name) in self.numbers.iter().zip(&names) {
            let verdict = match (number.agrees(), number.is_compared()) {
                (false, _) => "  differs",
                (true, true) => "",
                (true, false) => "  not compared",
            };
            let _ = writeln!(
                out,
                "{name:width$}  {:>15}  {:>15}  {:>15}{verdict}",
                shown_number(number.theory),
                shown_number(number.log),
                shown_number(number.counters)
            );
        }
        out
    }
}

fn shown_number(number: Option<u64>) -> String {
    number.map_or_else(|| "-".to_owned(), |number| number.to_string())
}

/// Returns the numbers of connections, which the rails do not count.
fn of_connections(theory: &Theory, shown: &Shown<'_>) -> Vec<ComparedNumber> {
    let (sends, relayed) = match &theory.relays {
        Relays::Connections(share) => (Some(share.whole), Some(share.part)),
        Relays::Pairs { pairs, .. } => (None, (pairs.part == 0).then_some(0)),
        Relays::Nothing { .. } => (None, Some(0)),
        Relays::CannotTell(_) => (None, None),
    };
    vec![
        ComparedNumber {
            what: "send connections".into(),
            theory: sends,
            log: shown.log.map(|counts| counts.sends),
            counters: None,
        },
        ComparedNumber {
            what: "relayed send connections".into(),
            theory: relayed,
            log: shown.log.map(|counts| counts.relayed),
            counters: None,
        },
    ]
}

/// Returns the bytes by node and rail, and those that crossed rails.
fn of_rails(
    cluster: &Cluster,
    theory: &Theory,
    shown: &Shown<'_>,
) -> Result<Vec<ComparedNumber>, String> {
    let counted = shown
        .counters
        .map(|counters| counters.rail_bytes(cluster))
        .transpose()?;
    let expected = theory.rails.known();
    let times = |bytes: u64| bytes.checked_mul(shown.operations);
    // A log without relays is one in which no relayed bytes are possible.
    let log_has_no_relay = shown.log.is_some_and(|counts| counts.relayed == 0);
    let mut numbers = Vec::new();
    for node in 0..cluster.nodes {
        for rail in 0..cluster.rails() {
            let at = node as usize * cluster.rails() + rail;
            let theory = expected.and_then(|rails| rails.get(at));
            let counters = counted.as_ref().and_then(|rails| rails.get(at));
            numbers.push(ComparedNumber {
                what: format!("bytes of node {node} on rail {rail}"),
                theory: theory.and_then(|rail| times(rail.sent)),
                log: None,
                counters: counters.map(|rail| rail.sent),
            });
            numbers.push(ComparedNumber {
                what: format!("relayed bytes of node {node} on rail {rail}"),
                theory: theory.and_then(|rail| times(rail.relayed)),
                log: log_has_no_relay.then_some(0),
                counters: counters.map(|rail| rail.relayed),
            });
        }
    }
    numbers.push(ComparedNumber {
        what: "bytes across rails".into(),
        theory: theory.crossing.known().and_then(|share| times(share.part)),
        log: None,
        counters: shown.counters.map(|counters| counters.crossing().part),
    });
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        collective::Collective,
        exit, levels,
        rehearsal::{
            counters::ProcessCounters,
            theory::{self, Algorithm},
            virtual_node::NodeShape,
        },
        units::Bytes,
    };

    /// The relayed and all send connections of the recorded run, and how often its operation ran.
    const SENDS: u64 = 16;
    const RELAYED: u64 = 8;
    const OPERATIONS: u64 = 15;

    fn cluster() -> Cluster {
        Cluster::of_virtual_nodes(2, NodeShape::Split, 2, 2).expect("a cluster")
    }

    fn theory_at(level: &str) -> Theory {
        let levels = [levels::level(level).expect("a level")];
        let all = theory::of_levels(
            &cluster(),
            &levels,
            &[Collective::AllToAll],
            Bytes(1 << 20),
            0,
        );
        assert_eq!(all[0].algorithm, Algorithm::SendRecv);
        all[0].clone()
    }

    fn counters() -> RunCounters {
        let texts = [
            include_str!("../../tests/data/rehearsal/alltoall-split-default/rails-0.json"),
            include_str!("../../tests/data/rehearsal/alltoall-split-default/rails-1.json"),
            include_str!("../../tests/data/rehearsal/alltoall-split-default/rails-2.json"),
            include_str!("../../tests/data/rehearsal/alltoall-split-default/rails-3.json"),
        ];
        let parse = |text| ProcessCounters::parse(text).expect("counters");
        RunCounters::new(&cluster(), texts.map(parse).into()).expect("counters")
    }

    fn compared(level: &str, relayed: u64, operations: u64) -> Comparison {
        let counters = counters();
        let shown = Shown {
            log: Some(SendCounts {
                sends: SENDS,
                relayed,
                ..SendCounts::default()
            }),
            counters: Some(&counters),
            operations,
        };
        Comparison::new(&cluster(), &theory_at(level), &shown).expect("counters tell it")
    }

    #[test]
    fn a_recorded_run_agrees_with_the_theory_of_its_level() {
        let comparison = compared("default", RELAYED, OPERATIONS);
        comparison.check().expect("agreement");
        assert!(comparison.numbers.iter().all(ComparedNumber::is_compared));
        assert!(comparison.table().contains("7864320"));
    }

    #[test]
    fn a_disagreement_has_the_three_numbers_and_its_exit_code() {
        let error = compared("off", RELAYED, OPERATIONS)
            .check()
            .expect_err("another level");
        let failure = error.downcast_ref::<exit::Failure>().expect("a failure");
        assert_eq!(failure.code, Code::WrongData);
        assert!(
            failure.what.starts_with(
                "theory, log and counters disagree on alltoall at level off: relayed send \
                 connections: 0 by theory, 8 in NCCL's log, - by the rails' counters; relayed \
                 bytes of node 0 on rail 0: 0 by theory, - in NCCL's log, 3932160 by the rails' \
                 counters"
            ),
            "{}",
            failure.what
        );
        assert!(failure.what.contains("more numbers, which the table has"));
        let table = compared("off", RELAYED, OPERATIONS).table();
        let across = table
            .lines()
            .find(|line| line.starts_with("bytes across rails"));
        assert!(
            across.is_some_and(|line| line.contains("15728640")),
            "{table}"
        );
        let wrong_log = compared("default", 0, OPERATIONS);
        let differing: Vec<&str> = wrong_log
            .disagreements()
            .map(|number| number.what.as_str())
            .collect();
        assert_eq!(differing.len(), 5, "{differing:?}");
        let one_operation_more = compared("default", RELAYED, OPERATIONS + 1);
        assert!(one_operation_more.check().is_err());
    }

    #[test]
    fn a_comparison_of_nothing_is_no_agreement() {
        let shown = Shown {
            log: None,
            counters: None,
            operations: OPERATIONS,
        };
        let comparison =
            Comparison::new(&cluster(), &theory_at("default"), &shown).expect("no counters");
        let error = comparison.check().expect_err("nothing");
        let failure = error.downcast_ref::<exit::Failure>().expect("a failure");
        assert_eq!(failure.code, Code::NothingRan);
        assert!(comparison.table().contains("not compared"));
    }
}
