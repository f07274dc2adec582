//! The watch over 10,000 processes, in simulated time: who is named, how soon, and what it costs
//! each process.

use std::{
    collections::VecDeque,
    io::{self, Write},
    time::Duration,
};

use super::{
    member::{BeatDown, BeatUp, Member},
    report::ProgressReport,
    report::tests::report,
    start::place_in,
    verdict::StuckJob,
};
use crate::world::tcp::tree::Tree;

/// How long a rank may be silent, and be without progress.
const T: Duration = Duration::from_secs(3);

/// How long who speaks may ask before that.
const ASKING: Duration = Duration::from_secs(2);

/// The time between two beats of a process, and between two steps of the simulation.
const BEAT: Duration = Duration::from_millis(250);
const STEP: Duration = Duration::from_millis(50);

/// Of so many processes the messages of one are measured; the first of some nodes are among them.
const MEASURED: u32 = 64;

enum Message {
    Up(u32, Box<BeatUp>),
    Down(BeatDown),
}

/// A job of `nodes` nodes with 8 processes each.
struct Job {
    tree: Tree,
    members: Vec<Member>,
    inboxes: Vec<VecDeque<Message>>,
    sent: Vec<u64>,
    /// The bytes of the messages that were measured, and how many these are.
    bytes: (u64, u64),
    now: Duration,
}

/// Returns what a process says; all have stood since `stands`.
type Report<'a> = &'a dyn Fn(u32, Duration) -> ProgressReport;

impl Job {
    fn new(nodes: u32) -> Job {
        let hosts: Vec<String> = (0..nodes * 8).map(|rank| (rank / 8).to_string()).collect();
        let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
        let tree = Tree::new(&hosts);
        let name = |rank: u32| format!("rank {rank} on node{}", rank / 8);
        let mut members = Vec::new();
        for rank in 0..nodes * 8 {
            members.push(Member::new(place_in(&tree, rank, &name)));
        }
        Job {
            tree,
            inboxes: members.iter().map(|_| VecDeque::new()).collect(),
            sent: vec![0; members.len()],
            members,
            bytes: (0, 0),
            now: Duration::ZERO,
        }
    }

    /// Runs until somebody has a finding, but not beyond `until`. Those of `stopped` do nothing.
    fn run(&mut self, until: Duration, stopped: &[u32], report: Report) -> Option<(u32, StuckJob)> {
        while self.now < until {
            self.now += STEP;
            for rank in 0..self.members.len() as u32 {
                // The processes do not beat at the same moments.
                let phase = STEP * (rank % 5);
                let is_due = (self.now + phase)
                    .as_millis()
                    .is_multiple_of(BEAT.as_millis());
                if is_due && !stopped.contains(&rank) {
                    let found = self.turn(rank, report);
                    if found.is_some() {
                        return found;
                    }
                }
            }
        }
        None
    }

    fn turn(&mut self, rank: u32, report: Report) -> Option<(u32, StuckJob)> {
        let own = report(rank, self.now);
        let member = &mut self.members[rank as usize];
        for message in std::mem::take(&mut self.inboxes[rank as usize]) {
            match message {
                Message::Up(child, beat) => member.hear_child(child, self.now, *beat),
                Message::Down(beat) => member.hear_parent(self.now, beat),
            }
        }
        if let Some(finding) = member.finding(&own, self.now, T, ASKING) {
            return Some((rank, finding));
        }
        let all = member.summary(&own, self.now, T);
        let children = self.tree.children(rank);
        for child in children {
            let beat = BeatDown { own: own.clone() };
            self.inboxes[*child as usize].push_back(Message::Down(beat));
        }
        self.sent[rank as usize] += children.len() as u64;
        if let Some(parent) = self.tree.parent(rank) {
            let beat = BeatUp { own, all };
            if rank.is_multiple_of(MEASURED) {
                self.bytes.0 += size(&beat);
                self.bytes.1 += 1;
            }
            self.inboxes[parent as usize].push_back(Message::Up(rank, Box::new(beat)));
            self.sent[rank as usize] += 1;
        }
        None
    }

    fn connections(&self, rank: u32) -> usize {
        self.tree.children(rank).len() + usize::from(self.tree.parent(rank).is_some())
    }
}

fn size(beat: &impl serde::Serialize) -> u64 {
    serde_json::to_vec(beat).expect("JSON").len() as u64
}

/// When the rank stops, and the others stand.
const STOPS: Duration = Duration::from_secs(1);

fn working_until_stop(rank: u32, now: Duration) -> ProgressReport {
    let stands = now.saturating_sub(STOPS);
    report(rank, 120, stands.as_millis() as u64)
}

#[test]
fn of_ten_thousand_processes_one_that_stops_is_named_in_time_at_a_constant_cost() {
    // A rank far down, the first of a node, the first of a node with others below it, and rank 0
    // itself.
    for stopped in [9_999, 9_992, 8, 0] {
        let mut job = Job::new(1250);
        assert_eq!(job.run(STOPS, &[], &working_until_stop), None);
        let seconds = STOPS.as_secs();
        let most_sent = job.sent.iter().max().expect("processes") / seconds;
        let all_sent: u64 = job.sent.iter().sum();
        let connections = (0..10_000).map(|rank| job.connections(rank));
        let connections = connections.max().expect("processes");
        let bytes = job.bytes.0 / job.bytes.1;
        let until = STOPS + T + Duration::from_secs(2);
        let (speaker, finding) = job
            .run(until, &[stopped], &working_until_stop)
            .expect("named within T + 2 s");
        let StuckJob::Silent(silent) = finding else {
            panic!("{finding:?}");
        };
        assert_eq!(silent.report.rank, stopped);
        assert_eq!(speaker, if stopped == 0 { 1 } else { 0 });
        let took = (job.now - STOPS).as_secs_f64();
        let each = all_sent as f64 / 1e4 / seconds as f64;
        // Seen with --no-capture.
        let _ = writeln!(
            io::stderr(),
            "10,000 processes, rank {stopped} stops: rank {speaker} names it after {took} s with \
             a limit of {} s. Connections per process: at most {connections}. Messages per \
             process and second: {each} on average, at most {most_sent}. Bytes of a message to \
             the parent: {bytes}",
            T.as_secs()
        );
        assert!(connections <= 33 && most_sent <= 33 * 4);
        assert!(all_sent <= 10_000 * 2 * 4 * seconds && bytes < 2000);
    }
}

#[test]
fn of_ten_thousand_processes_one_that_is_behind_is_named() {
    let behind = |rank, now| {
        let mut report = working_until_stop(rank, now);
        if rank == 7777 {
            report.position.done = 100;
        }
        report
    };
    let mut job = Job::new(1250);
    let until = STOPS + T + Duration::from_secs(2);
    let (speaker, finding) = job.run(until, &[], &behind).expect("named within T + 2 s");
    let StuckJob::Behind { last, others, .. } = finding else {
        panic!("{finding:?}");
    };
    assert_eq!((speaker, last.rank, others), (0, 7777, 0));
}

#[test]
fn a_process_that_goes_on_and_one_that_leaves_are_not_named() {
    let mut job = Job::new(4);
    let working = |rank, _| report(rank, 120, 0);
    assert_eq!(job.run(Duration::from_secs(20), &[9], &working), None);
    // Its messages arrive again.
    assert_eq!(job.run(Duration::from_secs(30), &[], &working), None);
    let children = job.tree.children(0).to_vec();
    for child in &children[1..] {
        job.members[0].let_child_go(*child);
    }
    let later = job.now + T;
    let all = job.members[0].summary(&report(0, 120, 0), later, T);
    let silent = all.silent.expect("the one that has not left");
    assert_eq!((silent.report.rank, all.heard), (children[0], 1));
}

#[test]
fn ranks_that_never_come_are_counted_and_nobody_is_ended_for_them() {
    let mut job = Job::new(4);
    let working = |rank, _| report(rank, 120, 0);
    let node_2: Vec<u32> = (16..24).collect();
    assert_eq!(job.run(Duration::from_secs(20), &node_2, &working), None);
    let all = job.members[0].summary(&report(0, 120, 0), job.now, T);
    let unreached = all.unreached.expect("some");
    assert_eq!(
        (unreached.ranks, unreached.example.as_str()),
        (8, "rank 16 on node2")
    );
    assert_eq!(all.heard, 24);
}
