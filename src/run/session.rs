//! The files of a run, and what is written when it ends, in good order or not.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use super::{context::RunContext, log, name};
use crate::{
    collective::{Collective, traffic::Traffic},
    env,
    exit::{self, Code, Failure},
    output::{
        files::{Files, OutputPaths},
        samples::Sample,
        stdout, table,
        target::{self, OutputError},
        telemetry::{TelemetryCsv, TelemetryRow},
    },
    record::{
        self, MemoryUse, OverTime, Phase, ProofMeta, Record, RunEnd, RunMeta, Status,
        StragglerReport, TelemetryMeta, peak::PeakMeta, run_meta::differs,
    },
    sweep::{EarlierRecords, measure::Measure, plan::Plan},
    telemetry::{Origin, Sampler},
    units::{Bytes, counted},
    world::{
        self, World,
        abort::{self, Moment},
        cause,
    },
};

/// The run's meta data and its open files, shared with the threads that may end the job.
#[derive(Clone)]
pub(super) struct Session(Arc<Mutex<State>>);

struct State {
    run: RunMeta,
    /// The files; only process 0 has any.
    files: Option<Files>,
    folder: Option<PathBuf>,
    /// How far the table is, while it is open; only process 0 shows one.
    table: Option<Extent>,
    /// The file of the telemetry; only process 0 has it.
    telemetry: Option<TelemetryCsv>,
    /// The samples of this node that are not gathered yet, if this process takes them.
    sampler: Option<NodeSampler>,
}

/// The samples of a node.
pub(super) struct NodeSampler {
    pub(super) sampler: Arc<Sampler>,
    pub(super) host: String,
    pub(super) node: u32,
}

/// How many cases of a sweep are done.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    done: u64,
    /// All cases; `None` if the sweep repeats without end.
    all: Option<u64>,
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.all {
            Some(all) => write!(f, "{} of {}", self.done, counted(all, "case")),
            None => f.write_str(&counted(self.done, "case")),
        }
    }
}

impl Session {
    /// Opens the files on process 0, and arranges what is saved if the job is ended by a signal, a deadline or a fault.
    /// `run` gets its name here; `traffic` is the pattern of an alltoallv.
    ///
    /// # Errors
    ///
    /// Returns an error on every process if process 0 cannot write.
    pub(super) fn open(
        context: &RunContext,
        mut run: RunMeta,
        traffic: &'static Traffic,
    ) -> anyhow::Result<Session> {
        let (request, world) = (context.request, context.world);
        run.run_id = name::agreed(request, world)?;
        let default = Path::new(name::RESULTS).join(&run.run_id);
        let mut paths = request.files.paths(&default);
        if request.files.is_drop_in && world.rank() == 0 {
            announce_json(&mut paths).map_err(|error| stdout::failure(&error))?;
        }
        paths.has_samples = request.timing.repeat_for.is_some();
        paths.times_several_ranks = context.backend.measures() && run.ranks > 1;
        paths.looks_for_stragglers = request.stragglers;
        let folder = paths.folder.clone();
        let opened = if world.rank() != 0 {
            Ok(None)
        } else if let Some(refused) = planted_link(folder.as_deref(), &default) {
            Err(refused)
        } else if request.resumes(&env::var) {
            Files::go_on(paths, &mut run, traffic).map(Some)
        } else {
            Files::create(paths, &run).map(Some)
        };
        let opened = opened.map_err(|error| cannot_write(Code::Usage, &error));
        let files = world::agree(world, opened).map_err(without_rank)?;
        let session = Session(Arc::new(Mutex::new(State {
            run,
            files,
            folder,
            table: None,
            telemetry: None,
            sampler: None,
        })));
        let last = session.clone();
        abort::set_last_words(Box::new(move |code, message, moment| {
            last.end_if_free(code, message, moment);
        }));
        Ok(session)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the records of an earlier run that this one need not measure again, the same on every process.
    ///
    /// # Errors
    ///
    /// Returns an error if a record does not reach the other processes; that would be a bug.
    pub(super) fn earlier(
        &self,
        plan: &Plan,
        measure: &Measure,
        world: &dyn World,
    ) -> anyhow::Result<EarlierRecords> {
        let own = match &self.lock().files {
            Some(files) => files.records().to_vec(),
            None => Vec::new(),
        };
        let mut kept = Vec::new();
        let now = self.run().measured_on();
        let mut other_hosts = None;
        for record in world::broadcast(world, &own)? {
            let before = record.measured_on.clone().unwrap_or_default();
            if is_as_asked(&record, plan, measure) && before.is_alike(&now) {
                if differs(&before.hosts, &now.hosts) {
                    other_hosts = Some(before.hosts);
                }
                let case = record.case.with_traffic(plan.ask.traffic);
                kept.push(Record { case, ..record });
            }
        }
        if let Some(hosts) = other_hosts {
            self.note_other_hosts(&hosts, &now.hosts, world);
        }
        Ok(kept.into_iter().collect())
    }

    /// Notes that the earlier rows were measured on other hosts of the same kind. A job that Slurm restarts may get such
    /// hosts, and its results are kept.
    fn note_other_hosts(&self, before: &str, now: &str, world: &dyn World) {
        let remark = format!(
            "earlier rows were measured on {before}, and the others on {now}. The column hosts tells them apart"
        );
        if world.rank() == 0 {
            note!("pxnbench: {remark}");
        }
        self.add_remarks(vec![remark]);
    }

    /// Returns the run's meta data as they are now.
    pub(super) fn run(&self) -> RunMeta {
        self.lock().run.clone()
    }

    /// Notes that the first case begins now, `seconds` after the start of the process.
    pub(super) fn set_startup(&self, seconds: Option<f64>) {
        self.lock().run.startup_s = seconds;
    }

    /// Notes the largest size that fits, if it is less than what was requested.
    pub(super) fn set_largest_size(&self, size: Option<Bytes>) {
        self.lock().run.sweep.reduced_to = size;
    }

    /// Notes what memory was used for.
    pub(super) fn set_memory(&self, used: Option<MemoryUse>) {
        self.lock().run.memory = used;
    }

    /// Notes which ranks are late.
    pub(super) fn set_stragglers(&self, report: StragglerReport) {
        self.lock().run.stragglers = Some(report);
    }

    /// Notes what NCCL's log shows of PXN.
    pub(super) fn set_proof(&self, proof: Option<ProofMeta>) {
        self.lock().run.proof = proof;
    }

    /// Notes the most busbw that the links allow.
    pub(super) fn set_peak(&self, peak: PeakMeta) {
        self.lock().run.peak = peak;
    }

    /// Notes how a sweep went that was repeated for a time.
    pub(super) fn set_over_time(&self, found: OverTime) {
        self.lock().run.over_time = Some(found);
    }

    /// Adds samples of a sweep that is repeated for a time.
    ///
    /// # Errors
    ///
    /// Returns an error if the disk is full or gone.
    pub(super) fn add_samples(&self, samples: &[Sample]) -> anyhow::Result<()> {
        let state = &mut *self.lock();
        let Some(files) = &mut state.files else {
            return Ok(());
        };
        files
            .add_samples(&state.run, samples)
            .map_err(|error| cannot_write(Code::Internal, &error))
    }

    /// Notes how long each phase of the run took.
    pub(super) fn set_phases(&self, phases: Vec<Phase>) {
        self.lock().run.phases = phases;
    }

    /// Notes the version of a library that is known only now.
    pub(super) fn set_version(&self, name: &str, version: String) {
        self.lock().run.versions.insert(name.into(), version);
    }

    /// Notes what there is to say of the run's settings.
    pub(super) fn add_remarks(&self, remarks: Vec<String>) {
        self.lock().run.remarks.extend(remarks);
    }

    /// Prints a remark on rank 0, and keeps it in the record of the run.
    pub(super) fn keep_remark(&self, remark: String, world: &dyn World) {
        if world.rank() == 0 {
            note!("pxnbench: {remark}");
        }
        self.add_remarks(vec![remark]);
    }

    /// Opens `telemetry.csv` on process 0. Returns a remark there if the run has no folder for it.
    ///
    /// # Errors
    ///
    /// Returns an error on every process if process 0 cannot write.
    pub(super) fn open_telemetry(&self, world: &dyn World) -> anyhow::Result<Option<String>> {
        let state = &mut *self.lock();
        let mut opened = Ok(());
        let mut remark = None;
        match &state.folder {
            _ if world.rank() != 0 => {}
            None => {
                let what =
                    "telemetry.csv is not written, because this run has no folder. Use --out";
                remark = Some(what.to_owned());
            }
            Some(folder) => match TelemetryCsv::create(folder, "telemetry.csv") {
                Ok(file) => state.telemetry = Some(file),
                Err(error) => opened = Err(cannot_write(Code::Usage, &error)),
            },
        }
        world::agree(world, opened).map_err(without_rank)?;
        Ok(remark)
    }

    /// Adds rows to `telemetry.csv`.
    ///
    /// # Errors
    ///
    /// Returns an error if the disk is full or gone.
    pub(super) fn add_telemetry(&self, rows: &[TelemetryRow]) -> anyhow::Result<()> {
        let state = &mut *self.lock();
        match &mut state.telemetry {
            Some(file) => file
                .append(&state.run, rows)
                .map_err(|error| cannot_write(Code::Internal, &error)),
            None => Ok(()),
        }
    }

    /// Notes the telemetry so far, in short.
    pub(super) fn set_telemetry(&self, telemetry: TelemetryMeta) {
        self.lock().run.telemetry = Some(telemetry);
    }

    /// Notes where samples wait that would be lost if the job ended now.
    pub(super) fn set_sampler(&self, sampler: Option<NodeSampler>) {
        self.lock().sampler = sampler;
    }

    /// Notes that a table of `cases` cases begins; 0 if it has no end.
    pub(super) fn begin_table(&self, cases: u64) {
        let all = (cases > 0).then_some(cases);
        self.lock().table = Some(Extent { done: 0, all });
    }

    /// Notes that the table shows one more case.
    pub(super) fn count_case(&self) {
        if let Some(table) = &mut self.lock().table {
            table.done += 1;
        }
    }

    /// Notes that the table is complete, and returns how many cases it shows.
    pub(super) fn end_table(&self) -> Option<Extent> {
        self.lock().table.take()
    }

    /// Notes that `cases` cases follow; 0 if there is no end. Returns what to say of files that do not keep all of them.
    pub(super) fn expect_cases(&self, cases: u64) -> Option<String> {
        let state = &mut *self.lock();
        state.files.as_mut()?.expect(state.run.ranks, cases)
    }

    /// Adds a record; it is on disk when this returns.
    ///
    /// # Errors
    ///
    /// Returns an error if the disk is full or gone.
    pub(super) fn add(&self, record: &Record) -> anyhow::Result<()> {
        let mut remarks = Vec::new();
        for kept in record.kept().iter() {
            let state = &mut *self.lock();
            let Some(files) = &mut state.files else {
                return Ok(());
            };
            let remark = files
                .add(&state.run, kept)
                .map_err(|error| cannot_write(Code::Internal, &error))?;
            state.run.remarks.extend(remark.clone());
            remarks.extend(remark);
        }
        // Without the lock: standard error may be a pipe that nobody reads.
        for remark in remarks {
            note!("pxnbench: {remark}");
        }
        Ok(())
    }

    /// Writes the end of the run to its files.
    ///
    /// # Errors
    ///
    /// Returns an error if the disk is full or gone.
    pub(super) fn end(&self, code: Code, message: &str) -> anyhow::Result<()> {
        self.lock().end(code, message, Moment::End)
    }

    /// Does what [`Session::end`] does, from a thread that must not wait for the one that works.
    fn end_if_free(&self, code: Code, message: &str, moment: Moment) {
        // The working thread holds the lock for an instant at a time, many times a second if cases are short.
        for _ in 0..160 {
            let Ok(mut state) = self.0.try_lock() else {
                thread::sleep(Duration::from_millis(5));
                continue;
            };
            if let Err(error) = state.end(code, message, moment) {
                say!("pxnbench: {error}");
            }
            return;
        }
        // The run's folder is not known without the lock.
        log::collect(None);
    }

    /// Returns the run's folder, if it has one.
    pub(super) fn folder(&self) -> Option<PathBuf> {
        self.lock().folder.clone()
    }

    /// Returns the path where a reader should look first.
    pub(super) fn main_path(&self) -> Option<PathBuf> {
        let state = self.lock();
        let path = state.files.as_ref()?.main_path()?;
        Some(path.to_owned())
    }
}

impl State {
    fn end(&mut self, code: Code, message: &str, moment: Moment) -> anyhow::Result<()> {
        log::collect(self.folder.as_deref());
        if let Err(error) = self.keep_waiting_samples(moment) {
            say!("pxnbench: {error}");
        }
        self.run.ended_at = Some(record::now());
        self.run.end = Some(RunEnd {
            code: code as u8,
            name: code,
            message: message.to_owned(),
            failed: cause::first().map(Into::into),
        });
        let saved = match &self.files {
            Some(files) => files.save(&self.run, true),
            None => Ok(()),
        };
        if moment == Moment::End
            && let Some(extent) = self.table.take()
        {
            // If stdout is what failed, there is nobody to tell.
            let _ = stdout::write(&table::unfinished(extent, message));
        }
        saved.map_err(|error| cannot_write(Code::Internal, &error))
    }
}

impl State {
    /// Writes the samples that wait to be gathered. A process other than 0 has a file of its own for them.
    fn keep_waiting_samples(&mut self, moment: Moment) -> Result<(), OutputError> {
        let Some(NodeSampler {
            sampler,
            host,
            node,
        }) = &self.sampler
        else {
            return Ok(());
        };
        let is_first = self.files.is_some();
        if !is_first && moment == Moment::Warned {
            return Ok(());
        }
        let samples = sampler.take();
        let mut rows = Vec::new();
        for sample in &samples {
            let origin = Origin {
                host,
                node: Some(*node),
                gpu: &sampler.gpus()[sample.gpu],
            };
            rows.push(TelemetryRow {
                origin,
                sample,
                case: None,
            });
        }
        if let (None, false, Some(folder)) =
            (&self.telemetry, is_first || rows.is_empty(), &self.folder)
        {
            let name = format!("telemetry.{host}.csv");
            self.telemetry = Some(TelemetryCsv::create(folder, &name)?);
        }
        match &mut self.telemetry {
            Some(file) => file.append(&self.run, &rows),
            None => Ok(()),
        }
    }
}

/// Prints where the JSON of `-J` goes, as nccl-tests does. If no file can be made there, the run goes on without it, also as
/// there.
///
/// # Errors
///
/// Returns an error if stdout cannot be written.
fn announce_json(paths: &mut OutputPaths) -> std::io::Result<()> {
    let Some(path) = &paths.nccl_tests_json else {
        return Ok(());
    };
    let shown = path.display();
    if target::is_accessible(path) {
        return stdout::write(&format!("# Writing JSON output to {shown}\n"));
    }
    say!("pxnbench: {shown} is not written: no file can be made in its folder");
    stdout::write(&format!("# skipping json output; {shown} not accessible\n"))?;
    paths.nccl_tests_json = None;
    Ok(())
}

/// Returns whether an earlier record is what this run would measure. One that was measured with other numbers of operations,
/// sent other amounts, or was not checked, is not.
fn is_as_asked(record: &Record, plan: &Plan, measure: &Measure) -> bool {
    if record.blocks.is_some() != measure.precision.is_some() {
        return false;
    }
    let operations = measure
        .iters
        .saturating_mul(measure.operations.max(1))
        .saturating_mul(record.blocks.unwrap_or(1));
    let is_checked = record.wrong.is_some() || measure.checks == 0 || !record.case.is_checked();
    let is_alltoallv = record.case.collective == Collective::AllToAllV;
    if is_alltoallv && record.pattern != plan.ask.traffic.label() {
        return false;
    }
    match record.status {
        Status::Waived => false,
        Status::Computed => record.iters == operations,
        _ => record.iters == operations && is_checked,
    }
}

/// Refuses a link at the run's folder, or at one above it but below `results`, if the folder has the `default` name. Such
/// names can be guessed, and this program makes no links there; `results` itself may be one.
fn planted_link(folder: Option<&Path>, default: &Path) -> Option<OutputError> {
    if folder != Some(default) {
        return None;
    }
    let link = default
        .ancestors()
        .take_while(|folder| *folder != Path::new(name::RESULTS))
        .find(|folder| folder.is_symlink())?;
    let why = "is a symbolic link that pxnbench did not create";
    Some(OutputError::Other(link.to_owned(), why.into()))
}

fn cannot_write(code: Code, why: &OutputError) -> anyhow::Error {
    Failure::on_this_rank(code, why.to_string())
}

/// Removes the rank from a sentence: only process 0 writes, so its rank says nothing.
fn without_rank(error: anyhow::Error) -> anyhow::Error {
    let text = error.to_string();
    let sentence = text.strip_prefix("rank 0: ").unwrap_or(&text);
    Failure::on_all_ranks(exit::code_of(&error), sentence)
}
