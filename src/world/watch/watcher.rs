//! The thread of the watch: it listens to the neighbours, sends beats, and ends the job if there is
//! a finding.

use std::{
    process,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use serde::de::DeserializeOwned;

use super::{
    channel::{Channel, NeighbourNews},
    evidence,
    meeting::WatchEvent,
    member::{BeatDown, BeatUp, Member},
    report::{ProgressReport, StepPosition, milliseconds},
    summary::Unreached,
    verdict::StuckJob,
};
use crate::{
    exit::Code,
    record,
    units::counted,
    world::{
        abort, deadline,
        end_of_job::EndOfJob,
        inquiry::{self, Answers},
        placement, progress,
        running_clock::RunningClock,
    },
};

/// The longest time between two beats.
const BEAT: Duration = Duration::from_millis(250);

/// The least number of beats within the time that a rank may be silent.
const BEATS_PER_SILENCE: u32 = 8;

/// How long the process that ends the job may take to end the others.
const END_TAKES: Duration = Duration::from_secs(2);

/// How long a rank may be silent, in milliseconds.
static SILENCE_MS: AtomicU64 = AtomicU64::new(u64::MAX);
/// The ranks that the watch does not reach, as rank 0 knows them.
static UNREACHED: Mutex<Option<Unreached>> = Mutex::new(None);

/// Sets how long a rank may be silent while the others wait.
pub fn set_silence(time: Duration) {
    SILENCE_MS.store(milliseconds(time), Ordering::Relaxed);
}

fn silence() -> Duration {
    Duration::from_millis(SILENCE_MS.load(Ordering::Relaxed))
}

/// Returns, on rank 0, a remark on the ranks that the watch does not reach, if there are any.
pub fn remark() -> Option<String> {
    let unreached = UNREACHED.lock().unwrap_or_else(PoisonError::into_inner);
    unreached.as_ref().map(|unreached| {
        format!(
            "{}, such as {}, cannot be monitored: if one of them gets stuck, no message will name \
             it. Check that no firewall blocks connections between the hosts",
            counted(u64::from(unreached.ranks), "rank"),
            unreached.example
        )
    })
}

/// The part of this process in the watch, with its connections.
pub(super) struct Watcher {
    member: Member,
    events: Receiver<WatchEvent>,
    parent: Option<Channel>,
    children: Vec<(u32, Channel)>,
    clock: RunningClock,
    rank: u32,
    name: String,
    host: String,
    /// What this process is about to say of the job, once it is known.
    ending: Option<PendingEnd>,
}

/// The end of the job, which waits for what else there is to say. Meanwhile this process sends
/// beats as before: the others would find it silent.
struct PendingEnd {
    sentence: String,
    answers: Answers,
}

impl PendingEnd {
    /// Returns the whole sentence; `None` as long as more may follow.
    fn whole_sentence(&mut self) -> Option<String> {
        let more = self.answers.sentences()?;
        Some(self.sentence.clone() + &more)
    }
}

impl Watcher {
    /// Returns the part of rank `rank`, which gets its connections and the end of the job from
    /// `events`.
    pub(super) fn new(rank: u32, member: Member, events: Receiver<WatchEvent>) -> Watcher {
        Watcher {
            member,
            events,
            parent: None,
            children: Vec::new(),
            clock: RunningClock::start(Instant::now()),
            rank,
            name: abort::process_name(),
            host: placement::host_name(),
            ending: None,
        }
    }

    /// Watches until the job is over.
    pub(super) fn run(mut self) {
        loop {
            match self.events.recv_timeout(self.pause()) {
                Ok(WatchEvent::Parent(channel)) => self.parent = Some(channel),
                Ok(WatchEvent::Child(rank, channel)) => self.children.push((rank, channel)),
                Ok(WatchEvent::End) | Err(RecvTimeoutError::Disconnected) => return self.leave(),
                Err(RecvTimeoutError::Timeout) => {}
            }
            self.turn();
        }
    }

    /// Returns how long this process waits between two turns.
    fn pause(&self) -> Duration {
        match self.ending {
            Some(_) => inquiry::LOOK,
            None => beat_interval(),
        }
    }

    fn leave(&mut self) {
        deadline::set_watched(false);
        let children = self.children.iter_mut().map(|(_, channel)| channel);
        children.chain(&mut self.parent).for_each(Channel::leave);
    }

    fn turn(&mut self) {
        self.clock.look(Instant::now());
        let now = self.clock.elapsed();
        self.listen(now);
        let own = self.own_report();
        if self.ending.is_none() {
            let finding = self
                .member
                .finding(&own, now, silence(), inquiry::longest());
            self.ending = finding.map(|finding| self.ending_for(&finding));
        }
        if let Some(sentence) = self.ending.as_mut().and_then(PendingEnd::whole_sentence) {
            self.end_job(&sentence);
        }
        let all = self.member.summary(&own, now, silence());
        if self.rank == 0 {
            let mut unreached = UNREACHED.lock().unwrap_or_else(PoisonError::into_inner);
            unreached.clone_from(&all.unreached);
        }
        deadline::set_watched(self.member.is_reached());
        for (_, child) in &mut self.children {
            child.beat(&BeatDown { own: own.clone() });
        }
        if let Some(parent) = &mut self.parent {
            parent.beat(&BeatUp { own, all });
        }
    }

    fn listen(&mut self, now: Duration) {
        if let Some(parent) = &mut self.parent {
            let news = parent.listen();
            if let Some(beat) = parsed(&news) {
                self.member.hear_parent(now, beat);
            }
            if news.leaves {
                self.member.let_parent_go();
            }
            if let Some(end) = news.end {
                self.end_below(&end);
            }
        }
        for (rank, child) in &mut self.children {
            let news = child.listen();
            if let Some(beat) = parsed(&news) {
                self.member.hear_child(*rank, now, beat);
            }
            if news.leaves {
                self.member.let_child_go(*rank);
            }
            if let Some(end) = news.end {
                // It has printed the sentence.
                abort::follow(&end, false);
            }
        }
    }

    /// Tells the ranks below that the job ends, and ends this process if nothing else does.
    fn end_below(&mut self, end: &EndOfJob) -> ! {
        for (_, child) in &mut self.children {
            child.end_job(end);
        }
        thread::sleep(END_TAKES);
        abort::follow(end, false)
    }

    /// Returns what to say of what was found, and asks what else is known.
    fn ending_for(&self, finding: &StuckJob) -> PendingEnd {
        // The others do not know what this process writes, and so what they wait for.
        let own_write = finding
            .may_be_held_up_by(self.rank)
            .then(|| deadline::stuck_write(silence() / 2))
            .flatten();
        let answers = match own_write {
            Some(_) => Answers::none(),
            None => inquiry::ask_all(finding.rank()),
        };
        let now = record::exact_now().with_timezone(&chrono::Local);
        let mut sentence = own_write.unwrap_or_else(|| finding.sentence(now, deadline::remedy()));
        if let Some(known) = evidence::ask() {
            sentence += &format!(". On this rank {known}");
        }
        PendingEnd { sentence, answers }
    }

    /// Ends the job with `sentence`.
    fn end_job(&mut self, sentence: &str) -> ! {
        let code = Code::TimedOut;
        let end = EndOfJob {
            code,
            sentence: format!("{}: {sentence}", self.name),
        };
        // A parent that is silent may go on to be stopped by the launcher; it then knows why.
        let children = self.children.iter_mut().map(|(_, channel)| channel);
        for neighbour in children.chain(&mut self.parent) {
            neighbour.end_job(&end);
        }
        abort::job(code, sentence)
    }

    fn own_report(&self) -> ProgressReport {
        let progress = progress::snapshot();
        let wait = deadline::current_wait();
        let stands = wait.as_ref().map_or(Duration::ZERO, |wait| wait.stands);
        ProgressReport {
            rank: self.rank,
            name: self.name.clone(),
            host: self.host.clone(),
            pid: process::id(),
            gpus: progress::gpus(),
            position: StepPosition {
                step: progress.step,
                done: progress.done,
            },
            total: progress.total,
            stands_ms: milliseconds(stands),
            limit_ms: wait.as_ref().map(|wait| milliseconds(wait.limit)),
            what: wait.map(|wait| wait.what).unwrap_or_default(),
        }
    }
}

fn beat_interval() -> Duration {
    BEAT.min(silence() / BEATS_PER_SILENCE)
}

fn parsed<Beat: DeserializeOwned>(news: &NeighbourNews) -> Option<Beat> {
    serde_json::from_slice(news.beat.as_ref()?).ok()
}
