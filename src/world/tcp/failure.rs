//! The end of a job that fails: every rank learns of it, also while it is inside NCCL, and ends
//! with the code of the rank that failed.
//!
//! A rank that ends the job says so to its neighbours in the tree, and these to theirs. A rank that
//! is killed says nothing, but its connections end. Its parent then says which rank it was; the
//! ranks below it only end, so that there is one sentence.

use std::{
    io,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::{
    frame::{Frame, FrameKind},
    identity::Identity,
    link::{Link, News},
};
use crate::{
    exit::Code,
    world::{
        abort,
        cause::{self, FailureNote, Learned},
        end_of_job::EndOfJob,
    },
};

/// The connections of this process, to which the end of the job is told.
static LINKS: Mutex<Vec<Arc<Link>>> = Mutex::new(Vec::new());
/// What ended the job, if another rank did.
static HEARD: OnceLock<EndNotice> = OnceLock::new();
/// What this process is.
static OWN: OnceLock<Identity> = OnceLock::new();
/// Whether this rank says that rank 0 is lost.
static SPEAKS_FOR_RANK_0: AtomicBool = AtomicBool::new(false);
/// Whether all is done and connections may end.
static IS_LEAVING: AtomicBool = AtomicBool::new(false);

/// How long an error of NCCL waits for the news that a rank is gone, which passes through the tree.
pub(super) const NEWS_TAKE: Duration = Duration::from_millis(700);

/// How long the ranks of a node take to find out why one of them is gone, and to say so.
const NEIGHBOURS_KNOW: Duration = Duration::from_millis(300);

/// How long the second rank of a node waits for the first to say what both found out, and for the
/// launcher to end it.
const LEADER_SPEAKS: Duration = Duration::from_millis(1500);

/// What ended the job, as a rank tells its neighbours.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct EndNotice {
    #[serde(flatten)]
    end: EndOfJob,
    /// The identity of the host on which it was found out.
    host_id: String,
    /// The process that failed first, if it is known.
    #[serde(default)]
    first: Option<FailureNote>,
}

/// Notes what this process is.
pub(super) fn set_own(identity: &Identity) {
    // A process joins one job.
    let _ = OWN.set(identity.clone());
}

/// Notes whether this rank says that rank 0 is lost.
pub(super) fn set_speaks_for_rank_0(speaks: bool) {
    SPEAKS_FOR_RANK_0.store(speaks, Ordering::SeqCst);
}

/// Adds a connection to those to which the end of the job is told.
pub(super) fn add(link: &Arc<Link>) {
    links().push(Arc::clone(link));
}

/// Takes a connection out again.
pub(super) fn remove(link: &Link) {
    links().retain(|other| !std::ptr::eq(Arc::as_ptr(other), link));
}

fn links() -> MutexGuard<'static, Vec<Arc<Link>>> {
    LINKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tells the neighbours that the job ends. `world::abort` calls it.
pub(super) fn tell_others(code: Code, reason: &str) {
    let own = || EndNotice {
        end: EndOfJob {
            code,
            sentence: format!("{}: {reason}", abort::process_name()),
        },
        host_id: own_host_id(),
        first: cause::first().cloned(),
    };
    let notice = HEARD.get().cloned().unwrap_or_else(own);
    let Ok(frame) = Frame::json(FrameKind::Abort, &notice) else {
        return;
    };
    let links = links().clone();
    for link in links {
        link.send_last(&frame);
    }
}

fn own_host_id() -> String {
    let own = OWN.get();
    own.map(|identity| identity.host_id.clone())
        .unwrap_or_default()
}

/// Ends this process if `news` of a connection says that another rank ended the job, or is gone.
pub(super) fn learn(link: &Link, news: &News) {
    match news {
        News::Message(frame) => heard(frame),
        News::Gone(error) => lost(link, error.as_ref()),
    }
}

/// Ends this process if the other side of a connection that has no thread of its own ended the job,
/// or is gone.
pub(super) fn check(link: &Link) {
    if let Some(news) = link.news() {
        learn(link, &news);
    }
}

/// Ends this process if `frame` says that another rank ended the job.
pub(super) fn heard(frame: &Frame) {
    let Ok(notice) = frame.parse::<EndNotice>(FrameKind::Abort) else {
        return;
    };
    let is_elsewhere = notice.host_id != own_host_id();
    // A signal reaches every rank, so only rank 0 speaks of it. Otherwise the rank that failed has
    // spoken, where the user of rank 0 may not see it.
    let speaks = abort::rank() == Some(0) && (is_elsewhere || notice.end.code == Code::Stopped);
    let mut end = notice.end.clone();
    if let Some(note) = &notice.first {
        end.sentence.clone_from(&note.end.sentence);
        cause::remember(note);
    }
    // The first notice is the one that is passed on.
    let _ = HEARD.set(notice);
    abort::follow(&end, speaks)
}

/// Ends this process because a neighbour is gone without a word, unless all is done.
pub(super) fn lost(link: &Link, error: Option<&io::Error>) {
    if IS_LEAVING.load(Ordering::SeqCst) {
        return;
    }
    abort::end_if_all_is_saved();
    if let Some(Learned { note, is_new }) = cause::of_lost_rank(link.rank) {
        abort::follow(&note.end, is_new);
    }
    // Another rank of its node may know more, and end this process meanwhile.
    thread::sleep(NEIGHBOURS_KNOW);
    let own_rank = abort::rank().unwrap_or_default();
    let is_below = link.rank > own_rank;
    let speaks_for_rank_0 = SPEAKS_FOR_RANK_0.load(Ordering::SeqCst);
    let sentence = gone(link, error);
    if is_below || (link.rank == 0 && speaks_for_rank_0) {
        abort::job(Code::Launch, &sentence);
    }
    let end = EndOfJob {
        code: Code::Launch,
        sentence,
    };
    abort::follow(&end, false)
}

/// Returns how messages say that a rank is gone.
pub(super) fn gone(link: &Link, error: Option<&io::Error>) -> String {
    let is_ended = error.is_none_or(|error| {
        let ends = [
            io::ErrorKind::UnexpectedEof,
            io::ErrorKind::ConnectionReset,
            io::ErrorKind::ConnectionAborted,
            io::ErrorKind::BrokenPipe,
        ];
        ends.contains(&error.kind())
    });
    match error {
        Some(error) if !is_ended => format!(
            "{} cannot be reached any more: {error}. Check that host and the network between",
            link.name()
        ),
        _ => format!(
            "{} ended without a word. See its output and the kernel log of that node: it may have \
             been killed",
            link.name()
        ),
    }
}

/// Ends the job because of what this rank found out while it looked for the others. Ranks of a node
/// find out the same, so the first of them speaks, and the others only if that does not end them.
pub(super) fn of_this_rank(local_rank: Option<u32>, code: Code, sentence: &str) -> ! {
    if local_rank.is_some_and(|local_rank| local_rank > 0) {
        thread::sleep(LEADER_SPEAKS);
    }
    abort::job(code, sentence)
}

/// Leaves the job: says so over `own`, the connections of this rank, and takes no end of a
/// connection for a failure any more.
pub(super) fn leave<'a>(own: impl Iterator<Item = &'a Arc<Link>>) {
    IS_LEAVING.store(true, Ordering::SeqCst);
    let bye = Frame {
        kind: FrameKind::Bye,
        body: Vec::new(),
    };
    for link in own {
        remove(link);
        link.send_last(&bye);
    }
}
