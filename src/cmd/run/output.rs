//! The files of a run and what is written when it ends, in good order or not.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{args::Args, log};
use crate::{
    collective::Collective,
    env::{self, Env},
    exit::{Code, Failure},
    output::{files::Files, stdout, table, target::OutputError},
    record::{self, MemoryUse, Phase, Record, RunEnd, RunMeta, Status},
    slurm::SlurmJob,
    sweep::{
        EarlierRecords,
        measure::Measure,
        plan::{Plan, SweepSpec},
    },
    units::Bytes,
    world::{
        self, World,
        abort::{self, Moment},
    },
};

/// The run's meta data and its open files, shared with the threads that may end the job.
#[derive(Clone)]
pub(super) struct Session(Arc<Mutex<State>>);

struct State {
    run: RunMeta,
    /// Only process 0 writes.
    files: Option<Files>,
    folder: Option<PathBuf>,
    /// How far the table is, while it is open; only process 0 shows one.
    table: Option<Extent>,
}

/// How many cases of a sweep are done.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    done: u64,
    /// `None` where there is no end.
    all: Option<u64>,
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.all {
            Some(all) => write!(f, "{} of {all} cases", self.done),
            None => write!(f, "{} cases", self.done),
        }
    }
}

impl Session {
    /// Opens the files on process 0, and sets what is saved if the job is ended by a signal, a deadline or a fault.
    ///
    /// # Errors
    /// On every process where process 0 cannot write.
    pub(super) fn open(
        args: &Args,
        ask: &SweepSpec,
        mut run: RunMeta,
        world: &dyn World,
    ) -> anyhow::Result<Session> {
        log::clear();
        let default = Path::new("results").join(&run.run_id);
        let paths = args.paths(&default);
        let folder = paths.folder.clone();
        let open = || match args.resumes(&env::var) {
            true => Files::go_on(paths, &mut run, ask.traffic),
            false => Files::create(paths, &run),
        };
        let opened = match world.rank() {
            0 => open()
                .map(Some)
                .map_err(|error| cannot_write(Code::Usage, &error)),
            _ => Ok(None),
        };
        let files = world::agree(world, opened).map_err(without_rank)?;
        let output = Session(Arc::new(Mutex::new(State {
            run,
            files,
            folder,
            table: None,
        })));
        let last = output.clone();
        abort::set_last_words(Box::new(move |code, message, moment| {
            last.end_if_free(code, message, moment)
        }));
        Ok(output)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What an earlier run measured, the same on every process.
    ///
    /// # Errors
    /// Where a record does not survive the way to the other processes; that would be a bug.
    pub(super) fn earlier(
        &self,
        plan: &Plan,
        measure: &Measure,
        world: &dyn World,
    ) -> anyhow::Result<EarlierRecords> {
        let operations = measure.iters.saturating_mul(measure.operations.max(1));
        let pattern = plan.ask.traffic.label();
        // What was measured with other numbers of operations, sent other amounts, or was not checked, is not what is asked
        // for now.
        let is_as_asked = |record: &Record| {
            let is_alltoallv = record.case.collective == Collective::AllToAllV;
            let is_checked =
                record.wrong.is_some() || measure.checks == 0 || !record.case.is_checked();
            match record.status {
                Status::Waived => false,
                _ if is_alltoallv && record.pattern != pattern => false,
                Status::Computed => record.iters == operations,
                _ => record.iters == operations && is_checked,
            }
        };
        let mine = self
            .lock()
            .files
            .as_ref()
            .map_or_else(Vec::new, |files| files.records().to_vec());
        let all: Vec<Record> = world::broadcast(world, &mine)?;
        let whole = |record: Record| Record {
            case: record.case.carrying(plan.ask.traffic),
            ..record
        };
        Ok(all.into_iter().filter(is_as_asked).map(whole).collect())
    }

    /// The run's meta data as they stand.
    pub(super) fn run(&self) -> RunMeta {
        self.lock().run.clone()
    }

    /// Notes that the first case begins now.
    pub(super) fn started(&self, startup_s: Option<f64>) {
        self.lock().run.startup_s = startup_s;
    }

    /// Notes the largest size that fits, where it is less than what was asked for.
    pub(super) fn reduced_to(&self, size: Option<Bytes>) {
        self.lock().run.sweep.reduced_to = size;
    }

    /// Notes what memory was used for.
    pub(super) fn memory(&self, used: Option<MemoryUse>) {
        self.lock().run.memory = used;
    }

    /// Notes where the time went.
    pub(super) fn phases(&self, phases: Vec<Phase>) {
        self.lock().run.phases = phases;
    }

    /// Notes the version of a library that is known only now.
    #[cfg(feature = "nccl")]
    pub(super) fn version(&self, name: &str, version: String) {
        self.lock().run.versions.insert(name.into(), version);
    }

    /// Notes what there is to say of the run's settings.
    pub(super) fn remark(&self, remarks: Vec<String>) {
        self.lock().run.remarks.extend(remarks);
    }

    /// Notes that a table begins, of so many cases; 0 where there is no end.
    pub(super) fn begin_table(&self, cases: u64) {
        self.lock().table = Some(Extent {
            done: 0,
            all: (cases > 0).then_some(cases),
        });
    }

    /// Notes that the table shows one case more.
    pub(super) fn count_case(&self) {
        if let Some(table) = &mut self.lock().table {
            table.done += 1;
        }
    }

    /// Notes that the table is at its end, and says how far it came.
    pub(super) fn end_table(&self) -> Option<Extent> {
        self.lock().table.take()
    }

    /// Adds a record; it is on disk when this returns.
    ///
    /// # Errors
    /// Where the disk is full or gone.
    pub(super) fn add(&self, record: &Record) -> anyhow::Result<()> {
        let state = &mut *self.lock();
        let Some(files) = &mut state.files else {
            return Ok(());
        };
        let kept = record.kept();
        kept.iter()
            .try_for_each(|one| files.add(&state.run, one))
            .map_err(|error| cannot_write(Code::Internal, &error))
    }

    /// Writes the end of the run to its files.
    ///
    /// # Errors
    /// Where the disk is full or gone.
    pub(super) fn end(&self, code: Code, message: &str) -> anyhow::Result<()> {
        self.lock().end(code, message, Moment::End, true)
    }

    /// As [`Session::end`], from a thread that must not wait for the one that works.
    fn end_if_free(&self, code: Code, message: &str, moment: Moment) {
        // It holds them for a moment at a time, many times a second where cases are short.
        for _ in 0..40 {
            let Ok(mut state) = self.0.try_lock() else {
                std::thread::sleep(std::time::Duration::from_millis(5));
                continue;
            };
            if let Err(error) = state.end(code, message, moment, false) {
                say!("pxnbench: {error}");
            }
            return;
        }
    }

    /// The run's folder, where it has one.
    pub(super) fn folder(&self) -> Option<PathBuf> {
        self.lock().folder.clone()
    }

    /// Where a reader should look.
    pub(super) fn main_path(&self) -> Option<PathBuf> {
        self.lock().files.as_ref()?.main_path().map(Path::to_owned)
    }
}

impl State {
    fn end(
        &mut self,
        code: Code,
        message: &str,
        moment: Moment,
        nccl_is_done: bool,
    ) -> anyhow::Result<()> {
        log::collect(self.folder.as_deref(), nccl_is_done);
        self.run.ended_at = Some(record::now());
        self.run.end = Some(RunEnd {
            code: code as u8,
            name: code,
            message: message.to_owned(),
        });
        let saved = self
            .files
            .as_ref()
            .map_or(Ok(()), |files| files.save(&self.run, true));
        if moment == Moment::End
            && let Some(extent) = self.table.take()
        {
            // Where stdout is what failed there is nobody to tell.
            let _ = stdout::write(&table::unfinished(extent, message));
        }
        saved.map_err(|error| cannot_write(Code::Internal, &error))
    }
}

fn cannot_write(code: Code, why: &OutputError) -> anyhow::Error {
    Failure::on_this_rank(code, why.to_string())
}

/// Only process 0 writes, so its rank says nothing.
fn without_rank(error: anyhow::Error) -> anyhow::Error {
    let text = error.to_string();
    Failure::on_all_ranks(
        crate::exit::code_of(&error),
        text.strip_prefix("rank 0: ").unwrap_or(&text),
    )
}

/// The run's name: the job's name and id inside a Slurm job, with the step where there are several; else the first
/// collective and the time.
pub(super) fn run_id(env: Env, collectives: &str) -> String {
    match SlurmJob::from(env) {
        Ok(Some(job)) => {
            let step = job.step.map_or_else(String::new, |step| format!("/{step}"));
            format!("{}{step}", job.folder())
        }
        _ => format!("{collectives}-{}", record::now().format("%Y%m%dT%H%M%S")),
    }
}

/// The run's name, from process 0.
pub(super) fn run_name(args: &Args, ask: &SweepSpec, world: &dyn World) -> String {
    let what = match &ask.collectives[..] {
        all if all.len() == Collective::ALL.len() => "all".to_owned(),
        [one] => one.name().to_owned(),
        [first, rest @ ..] => format!("{first}+{}", rest.len()),
        [] => String::new(),
    };
    let mut id = run_id(&env::var, &what);
    let default = Path::new("results").join(&id);
    // In a job the folder is the job's own, and a restarted one goes on in it.
    let is_free = env::var("SLURM_JOB_ID").is_none() && !args.resumes(&env::var);
    if world.rank() == 0 && is_free && args.folder(&default) == Some(default) {
        id = reserve(id);
    }
    String::from_utf8_lossy(&world.broadcast(id.as_bytes())).into_owned()
}

/// `id`, or with `-2`, `-3`, … where another run has a folder of that name: two runs of one second do not share one. The
/// folder is made, so that it is taken.
fn reserve(id: String) -> String {
    let numbered = |n: u32| {
        if n == 1 {
            id.clone()
        } else {
            format!("{id}-{n}")
        }
    };
    for name in (1..1000).map(numbered) {
        let folder = Path::new("results").join(&name);
        let made = std::fs::create_dir_all("results").and_then(|()| std::fs::create_dir(folder));
        match made {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            // What cannot be made is said when the files are opened.
            _ => return name,
        }
    }
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_in_a_job_is_named_after_it() {
        let env = |pairs: &'static [(&str, &str)]| {
            move |name: &str| {
                pairs
                    .iter()
                    .find(|(n, _)| *n == name)
                    .map(|(_, v)| (*v).to_owned())
            }
        };
        let job = env(&[
            ("SLURM_JOB_NAME", "pxn a/b"),
            ("SLURM_JOB_ID", "17"),
            ("SLURM_STEP_ID", "2"),
        ]);
        assert_eq!(run_id(&job, "all_reduce"), "pxn_a_b-17/2");
        // The batch shell's own step has no small number.
        let batch = env(&[
            ("SLURM_JOB_NAME", "x"),
            ("SLURM_JOB_ID", "17"),
            ("SLURM_STEP_ID", "4294967291"),
        ]);
        assert_eq!(run_id(&batch, "all_reduce"), "x-17");
        assert!(run_id(&|_| None, "all_reduce").starts_with("all_reduce-2"));
    }
}
