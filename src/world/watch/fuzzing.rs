//! What the fuzzer does with messages of the watch.

use std::{io::Write, net::Shutdown, os::unix::net::UnixStream, time::Duration};

use chrono::{DateTime, Local};
use serde::de::DeserializeOwned;
use socket2::Socket;

use super::{
    channel::Channel,
    member::{BeatDown, BeatUp, Child, Member, Parent, TreePlace},
    report::{ProgressReport, StepPosition},
    summary::RankSummary,
};
use crate::world::tcp::frame::{Frame, FrameKind};

/// How long a rank may be silent.
const SILENCE: Duration = Duration::from_secs(3);

/// The longest message that is looked at.
const LIMIT: u32 = 16 << 10;

/// Hears bytes as those of a neighbour, and each message in them as a beat: of a child, and of the
/// parent.
pub(crate) fn read(bytes: &[u8]) {
    listen(bytes);
    let mut rest = bytes.to_vec();
    while let Ok(Some(frame)) = Frame::take(&mut rest, LIMIT) {
        if frame.kind != FrameKind::Data {
            continue;
        }
        if let Some(beat) = parsed::<BeatUp>(&frame.body) {
            hear_child(beat);
        }
        if let Some(beat) = parsed::<BeatDown>(&frame.body) {
            hear_parent(beat);
        }
    }
}

fn parsed<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    serde_json::from_slice(bytes).ok()
}

/// Listens to a connection on which all of `bytes` have come.
fn listen(bytes: &[u8]) {
    const SOCKET_HOLDS: usize = 64 << 10;
    let (mut other, own) = UnixStream::pair().expect("sockets");
    let sent = &bytes[..bytes.len().min(SOCKET_HOLDS)];
    other.write_all(sent).expect("sent");
    other.shutdown(Shutdown::Write).expect("ended");
    let mut channel = Channel::new(Socket::from(own)).expect("a channel");
    channel.listen();
    channel.listen();
}

fn hear_child(beat: BeatUp) {
    let mut member = Member::new(TreePlace {
        parent: None,
        children: vec![Child {
            rank: 1,
            name: "rank 1 on node".into(),
            ranks: 4,
        }],
    });
    member.hear_child(1, Duration::ZERO, beat);
    for seconds in [0, 2, 5, 60] {
        let now = Duration::from_secs(seconds);
        let all = member.summary(&own(), now, SILENCE);
        assert_eq!(as_sent(&all).as_ref(), Some(&all));
        say(&member, now);
    }
}

fn hear_parent(beat: BeatDown) {
    let mut member = Member::new(TreePlace {
        parent: Some(Parent { rank: 0, order: 0 }),
        children: Vec::new(),
    });
    member.hear_parent(Duration::ZERO, beat);
    say(&member, Duration::from_secs(60));
}

/// Makes the sentence of what `member` has to say.
fn say(member: &Member, now: Duration) {
    if let Some(stuck) = member.finding(&own(), now, SILENCE, Duration::ZERO) {
        let time = DateTime::<Local>::default();
        assert!(!stuck.sentence(time, "raise --timeout").is_empty());
    }
}

fn as_sent(all: &RankSummary) -> Option<RankSummary> {
    parsed(&serde_json::to_vec(all).expect("JSON"))
}

/// Returns what a rank says that has waited for a minute.
fn own() -> ProgressReport {
    ProgressReport {
        rank: 0,
        name: "rank 0 on node".into(),
        host: "node".into(),
        pid: 1,
        gpus: String::new(),
        position: StepPosition { step: 7, done: 20 },
        total: 20,
        stands_ms: 60_000,
        limit_ms: Some(3000),
        what: "20 times all_reduce 1G float sum".into(),
    }
}
