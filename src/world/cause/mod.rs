//! Who failed first, and why.
//!
//! When a rank fails, its launcher stops the others, and these learn of a signal only. So each process of a job leaves a mark
//! in a private folder of its node ([`arrive`]), and a rank that fails leaves a note there, and in the run's folder if there is
//! one ([`share`]). A process that is told to stop looks for such notes first (`behind_stop`). One that is killed leaves
//! nothing: those that live on its node notice (`losses`), and the first of them writes the note in its place.

mod job_key;
mod losses;
mod mpi_start;
mod note;
mod rank_folder;
mod system_logs;

use std::{
    path::{Path, PathBuf},
    sync::{
        Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use self::{
    mpi_start::{Expected, StartedRank},
    rank_folder::{ProcessState, RankFolder, RankMark},
};
pub use self::{
    note::{FailureNote, first_at, shared},
    system_logs::{LossCause, SystemLogs, set_system_logs},
};
use super::{
    end_of_job::EndOfJob, launch, placement::host_name, private::Owner, process_stat::ExitStatus,
};
use crate::{env, exit::Code, record::FailedProcess};

/// The mark of this process.
static OWN: OnceLock<RankFolder> = OnceLock::new();
/// The other processes of the job on this node that have lived since all of them met.
static PEERS: Mutex<Vec<RankFolder>> = Mutex::new(Vec::new());
/// The folder of the run, which other nodes may see.
static SHARED: OnceLock<PathBuf> = OnceLock::new();
/// The failure that ended the job, as far as this process knows.
static FIRST: OnceLock<FailureNote> = OnceLock::new();

/// The failure of another process that this one found out.
static FOUND_HERE: Mutex<Option<FailureNote>> = Mutex::new(None);
/// Whether this process was asked to stop, and knew of no failure then.
static IS_STOPPING: AtomicBool = AtomicBool::new(false);

/// How long a note in the run's folder may take to write: its file system may be what fails.
const SHARED_NOTE_TAKES: Duration = Duration::from_millis(500);

/// How much later than its consequences a failure may be noted.
const CAUSE_FOLLOWS: Duration = Duration::from_millis(300);

/// What a process learned of the failure that ended the job.
#[derive(Clone, Debug)]
pub struct Learned {
    /// The failure.
    pub note: FailureNote,
    /// Whether this process found it out, so that nobody has printed it yet.
    pub is_new: bool,
}

impl Learned {
    fn of(note: FailureNote) -> Learned {
        let is_new = found_here().as_ref() == Some(&note);
        Learned { note, is_new }
    }
}

fn found_here() -> MutexGuard<'static, Option<FailureNote>> {
    FOUND_HERE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Leaves the mark of this process, if a launcher started several. To be called before MPI starts. Nothing is left where that
/// is not possible; less is then known of failures.
pub fn arrive() {
    let (Some(process), Some(rank)) = (Owner::this(), launch::rank(&env::var)) else {
        return;
    };
    let parent = parent_name();
    let Some(job) = job_key::job_key(&env::var, &parent) else {
        return;
    };
    let mark = RankMark { job, rank, process };
    if let Ok(folder) = RankFolder::make(&std::env::temp_dir(), mark) {
        // A process joins one job.
        let _ = OWN.set(folder);
    }
}

fn parent_name() -> String {
    let parent = std::os::unix::process::parent_id();
    let started = Owner::of(parent).map(|owner| owner.text());
    started.unwrap_or_else(|| parent.to_string())
}

/// Returns whom the start of MPI waits for, such as a rank of this node that has not reached it; `None` if that is unknown.
pub(super) fn awaited() -> Option<String> {
    let own = OWN.get()?;
    let expected = Expected {
        all: launch::processes(&env::var)?.count,
        here: launch::processes_on_node(&env::var),
    };
    let folders = RankFolder::of_job(&std::env::temp_dir(), &own.mark.job);
    let started: Vec<StartedRank> = folders
        .iter()
        .map(|folder| StartedRank {
            rank: folder.mark.rank,
            pid: folder.mark.process.pid,
            state: folder.state(),
        })
        .collect();
    mpi_start::awaited(&started, expected, &host_name())
}

/// Observes the other processes of the job on this node, once all processes have met: calls `end` on a thread when one dies
/// without a note, unless `is_over` returns true.
pub(super) fn report_losses(is_over: fn() -> bool, end: fn(&Learned)) {
    let Some(own) = OWN.get() else { return };
    let mut folders = RankFolder::of_job(&std::env::temp_dir(), &own.mark.job);
    folders.retain(|folder| {
        folder.mark.process != own.mark.process && folder.state() == ProcessState::Running
    });
    peers().clone_from(&folders);
    losses::observe_all(&folders, own.mark.rank, move |folder, status| {
        if !is_over() {
            let learned = note_loss(folder, status);
            remember(&learned.note);
            end(&learned);
        }
    });
}

fn peers() -> MutexGuard<'static, Vec<RankFolder>> {
    PEERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes the run's folder, in which a rank that fails leaves a note for the other nodes.
pub fn share(folder: &Path) {
    // A process has one run.
    let _ = SHARED.set(folder.to_owned());
}

/// Removes the notes that an earlier run left in the folder of this one.
pub fn remove_earlier(folder: &Path) {
    for path in shared(folder) {
        // One that stays has an earlier time, and `launch` knows it from before.
        let _ = std::fs::remove_file(path);
    }
}

/// Removes the mark of this process, which ends in good order; not if it has noted a failure.
pub fn leave() {
    if let Some(own) = OWN.get()
        && own.failure().is_none()
    {
        own.remove();
    }
}

/// Notes what another process says of the failure that ended the job.
pub(super) fn learn(note: &FailureNote) {
    remember(note);
}

/// Returns the failure of rank `rank`, whose connection is gone; `None` if it is not on this node, or nothing is known.
pub(super) fn of_lost_rank(rank: u32) -> Option<Learned> {
    /// The kernel closes the connections of a process a moment before it is gone.
    const GONE_WITHIN: Duration = Duration::from_millis(500);
    let known = peers().clone();
    let folder = known.iter().find(|folder| folder.mark.rank == rank)?;
    let asked = Instant::now();
    loop {
        match folder.state() {
            ProcessState::Failed(note) => {
                remember(&note);
                return Some(Learned::of(note));
            }
            ProcessState::Lost => {
                let learned = note_loss(folder, None);
                remember(&learned.note);
                return Some(learned);
            }
            ProcessState::Left => return None,
            ProcessState::Running | ProcessState::Stopped if asked.elapsed() > GONE_WITHIN => {
                return None;
            }
            ProcessState::Running | ProcessState::Stopped => {
                thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

/// Returns the failure that ended the job, if this process knows it.
pub fn first() -> Option<&'static FailureNote> {
    FIRST.get()
}

/// What ended the job, as a process that ends it records it.
pub(super) struct Settled {
    pub(super) end: EndOfJob,
    /// The failure of another rank that came first, if there is one.
    pub(super) other: Option<Learned>,
    /// Whether the failure of this process follows from it.
    pub(super) is_consequence: bool,
}

impl Settled {
    /// Returns what ended the job if nothing of another rank came first.
    fn here(code: Code, sentence: String, is_consequence: bool) -> Settled {
        Settled {
            end: EndOfJob { code, sentence },
            other: None,
            is_consequence,
        }
    }
}

/// Finds out what ended the job when this process, `name`, ends it with `code` for `reason`: a failure of another rank before
/// this one, or this one, which is noted.
pub(super) fn settle(code: Code, reason: &str, name: &str) -> Settled {
    if code == Code::Stopped {
        leave();
        return Settled::here(code, reason.to_owned(), false);
    }
    let is_consequence = note::is_consequence(code, reason);
    let earlier = match is_consequence {
        true => cause_within(CAUSE_FOLLOWS),
        false => earlier_failure(),
    };
    if let Some(learned) = earlier {
        leave();
        remember(&learned.note);
        return Settled {
            end: learned.note.end.clone(),
            other: Some(learned),
            is_consequence,
        };
    }
    let reason = match system_logs::on_own_failure(code) {
        Some(clause) => format!("{reason}; {clause}"),
        None => reason.to_owned(),
    };
    if let Some(own) = OWN.get() {
        let note = FailureNote {
            process: failed_now(&own.mark),
            end: EndOfJob {
                code,
                sentence: format!("{name}: {reason}"),
            },
        };
        // Without a note the others know less.
        let _ = own.note_failure(&note);
        write_shared(&note);
        remember(&note);
    }
    Settled::here(code, reason, is_consequence)
}

/// Returns the process of `mark`, which is on this node and has just failed.
fn failed_now(mark: &RankMark) -> FailedProcess {
    FailedProcess {
        rank: mark.rank,
        host: host_name(),
        pid: mark.process.pid,
        at: chrono::Local::now().fixed_offset(),
    }
}

/// Returns the failure behind a signal that asks this process to stop: launchers send one when a rank has failed. `None` if
/// there is none.
pub(super) fn behind_stop() -> Option<Learned> {
    let learned = match first() {
        Some(note) => Learned::of(note.clone()),
        None => {
            let learned = earlier_failure();
            IS_STOPPING.store(true, Ordering::SeqCst);
            learned?
        }
    };
    remember(&learned.note);
    Some(learned)
}

/// Waits for the failure from which that of this process follows. A rank may learn of it before it is noted.
fn cause_within(limit: Duration) -> Option<Learned> {
    const LOOK: Duration = Duration::from_millis(20);
    let began = Instant::now();
    loop {
        match earlier_failure() {
            Some(learned) if !learned.note.is_consequence() => return Some(learned),
            learned if began.elapsed() > limit => return learned,
            _ => thread::sleep(LOOK),
        }
    }
}

/// Returns the failure of another process that came before that of this one, if there is one.
fn earlier_failure() -> Option<Learned> {
    OWN.get()?;
    let known = peers().clone();
    let local = known.iter().filter_map(RankFolder::failure);
    let elsewhere = SHARED.get().and_then(|folder| first_at(&shared(folder)));
    if let Some(note) = note::first_of(local.chain(elsewhere)) {
        return Some(Learned::of(note));
    }
    // The launcher kills those that do not stop, so this counts only before that.
    if IS_STOPPING.load(Ordering::SeqCst) {
        return None;
    }
    let lost = known
        .iter()
        .find(|folder| folder.state() == ProcessState::Lost)?;
    Some(note_loss(lost, None))
}

/// Notes that the process of `folder` is gone, unless another process has.
fn note_loss(folder: &RankFolder, status: Option<ExitStatus>) -> Learned {
    let note = loss(folder, status);
    // Held until it is known whose note it is: several threads may find out the same.
    let mut found_here = found_here();
    if folder.note_failure(&note).is_ok() {
        *found_here = Some(note.clone());
        drop(found_here);
        write_shared(&note);
        return Learned::of(note);
    }
    drop(found_here);
    // If there is no other note, the folder cannot be written to.
    match folder.failure() {
        Some(note) => Learned::of(note),
        None => Learned { note, is_new: true },
    }
}

/// Returns the failure of a process that is gone without a word.
fn loss(folder: &RankFolder, status: Option<ExitStatus>) -> FailureNote {
    let process = failed_now(&folder.mark);
    let FailedProcess {
        rank, host, pid, ..
    } = &process;
    let LossCause { is_killed, clause } = system_logs::on_lost_process(*pid);
    let what = match status {
        Some(ExitStatus::Signal(number)) => {
            let signal = signal_hook::low_level::signal_name(number).unwrap_or("a signal");
            format!("was killed by {signal}")
        }
        Some(ExitStatus::Exit(code)) => format!("ended with exit code {code} and without a word"),
        None if is_killed => "was killed".into(),
        None => "was killed, or a library ended it without a word".into(),
    };
    let sentence = format!("rank {rank} on {host} (pid {pid}) {what}; {clause}");
    FailureNote {
        process,
        end: EndOfJob {
            code: Code::Launch,
            sentence,
        },
    }
}

fn remember(note: &FailureNote) {
    // The first one stays.
    let _ = FIRST.set(note.clone());
}

/// Writes a note for other nodes, without waiting for a file system that does not answer. Process 0 writes to `run.json`.
fn write_shared(note: &FailureNote) {
    let is_first = OWN.get().is_some_and(|own| own.mark.rank == 0);
    let Some(folder) = SHARED.get().filter(|_| !is_first) else {
        return;
    };
    let (done, is_done) = mpsc::channel();
    let note = note.clone();
    let work = move || {
        // Other nodes then know less.
        let _ = note::write_shared(folder, &note);
        // Nobody waits any more if it took too long.
        let _ = done.send(());
    };
    if thread::Builder::new().spawn(work).is_ok() {
        // Its end and the end of patience mean the same.
        let _ = is_done.recv_timeout(SHARED_NOTE_TAKES);
    }
}
