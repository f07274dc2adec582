//! The files of a run, and what is written when it ends, in good order or not.

use std::{
    fmt,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use super::{context::RunContext, log, name, shared_run::SharedRun, wanted_files::WantedFiles};
use crate::{
    collective::{Case, Collective, traffic::Traffic},
    exit::{self, Code, Failure},
    output::{
        error::OutputError,
        files::Files,
        json,
        samples::Sample,
        stdout, table,
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

/// How long the end of a job that is only warned waits for a file that is being written.
const WAITS_WHEN_WARNED: Duration = Duration::from_millis(800);

/// How long the end of a job does that ends now: less than all of it may take.
const WAITS_AT_END: Duration = Duration::from_millis(2500);

/// The run's meta data and its open files, shared with the threads that may end the job.
#[derive(Clone)]
pub(super) struct Session {
    run: SharedRun,
    /// Where the run is described, on process 0.
    run_json: Option<PathBuf>,
    state: Arc<Mutex<State>>,
}

/// What is held while a file is written.
struct State {
    run: SharedRun,
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
        let world = context.world;
        let name = name::agreed(context.request, world)?;
        let opened = if world.rank() == 0 {
            let wanted = WantedFiles::of(context, &run)?;
            wanted.open(name, &mut run, traffic).map(Some)
        } else {
            Ok(None)
        };
        let opened = opened.map_err(|error| cannot_write(Code::Usage, &error));
        let opened = world::agree(world, opened).map_err(without_rank)?;
        let (files, id) = opened.map_or((None, String::new()), |(files, id)| (Some(files), id));
        let folder_of = |id: &str| context.request.files.paths(&name::folder(id)).folder;
        if world.rank() == 0
            && let Some(folder) = folder_of(&id)
        {
            // Before the other ranks know the folder, where each may leave a note of its failure.
            cause::remove_earlier(&folder);
        }
        // A name of its own, if another run has the one that was agreed on; in the files, that of the run that is continued.
        let (id, run_id) = world::broadcast(world, &(id, run.run_id.clone()))?;
        run.run_id = run_id;
        let folder = folder_of(&id);
        let run = SharedRun::new(run);
        let session = Session {
            run: run.clone(),
            run_json: files.as_ref().and_then(Files::run_json),
            state: Arc::new(Mutex::new(State {
                run,
                files,
                folder,
                table: None,
                telemetry: None,
                sampler: None,
            })),
        };
        if let Some(remark) = session.lock_remark() {
            session.keep_remark(remark, world);
        }
        let last = session.clone();
        abort::set_last_words(
            "finished cases",
            Box::new(move |code, message, moment| last.end_if_free(code, message, moment)),
        );
        Ok(session)
    }

    fn lock_remark(&self) -> Option<String> {
        self.lock().files.as_mut()?.lock_remark()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
        let kept: EarlierRecords = kept.into_iter().collect();
        self.note_extent(plan, &kept);
        Ok(kept)
    }

    /// Notes how much of `plan` an earlier run has measured, if this one continues it.
    fn note_extent(&self, plan: &Plan, kept: &EarlierRecords) {
        let is_continued = match &self.lock().files {
            Some(files) => files.is_continued(),
            None => false,
        };
        if !is_continued {
            return;
        }
        let cases: Vec<Case> = plan.cases().copied().collect();
        let done = kept.count_of(&cases);
        let rest = cases.len() - done;
        note!(
            "pxnbench: {done} of {} are kept, {rest} remain to be measured",
            counted(cases.len(), "case")
        );
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
        (*self.run.get()).clone()
    }

    /// Notes that the first case begins now, `seconds` after the start of the process.
    pub(super) fn set_startup(&self, seconds: Option<f64>) {
        self.run.change(|run| run.startup_s = seconds);
    }

    /// Notes the largest size that fits, if it is less than what was requested.
    pub(super) fn set_largest_size(&self, size: Option<Bytes>) {
        self.run.change(|run| run.sweep.reduced_to = size);
    }

    /// Notes what memory was used for.
    pub(super) fn set_memory(&self, used: Option<MemoryUse>) {
        self.run.change(|run| run.memory = used);
    }

    /// Notes which ranks are late.
    pub(super) fn set_stragglers(&self, report: StragglerReport) {
        self.run.change(|run| run.stragglers = Some(report));
    }

    /// Notes what NCCL's log shows of PXN.
    pub(super) fn set_proof(&self, proof: Option<ProofMeta>) {
        self.run.change(|run| run.proof = proof);
    }

    /// Notes the most busbw that the links allow.
    pub(super) fn set_peak(&self, peak: PeakMeta) {
        self.run.change(|run| run.peak = peak);
    }

    /// Notes how a sweep went that was repeated for a time.
    pub(super) fn set_over_time(&self, found: OverTime) {
        self.run.change(|run| run.over_time = Some(found));
    }

    /// Adds samples of a sweep that is repeated for a time.
    pub(super) fn add_samples(&self, samples: &[Sample]) {
        let mut said = Vec::new();
        {
            let state = &mut *self.lock();
            if let Some(files) = &mut state.files {
                said = files.add_samples(&self.run.get(), samples);
            }
        }
        self.say_of_files(said);
    }

    /// Says what there is to say of files, and keeps it in the record of the run.
    fn say_of_files(&self, said: Vec<String>) {
        // Without the lock: standard error may be a pipe that nobody reads.
        say_all(&said);
        self.add_remarks(said);
    }

    /// Notes how long each phase of the run took.
    pub(super) fn set_phases(&self, phases: Vec<Phase>) {
        self.run.change(|run| run.phases = phases);
    }

    /// Notes the version of a library that is known only now.
    pub(super) fn set_version(&self, name: &str, version: String) {
        self.run.change(|run| {
            run.versions.insert(name.into(), version);
        });
    }

    /// Notes what there is to say of the run's settings.
    pub(super) fn add_remarks(&self, remarks: Vec<String>) {
        self.run.change(|run| run.remarks.extend(remarks));
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
    pub(super) fn add_telemetry(&self, rows: &[TelemetryRow]) {
        let mut said = Vec::new();
        {
            let state = &mut *self.lock();
            if let Some(file) = &mut state.telemetry {
                said = file.append(&self.run.get(), rows);
            }
        }
        self.say_of_files(said);
    }

    /// Notes the telemetry so far, in short.
    pub(super) fn set_telemetry(&self, telemetry: TelemetryMeta) {
        self.run.change(|run| run.telemetry = Some(telemetry));
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
        state.files.as_mut()?.expect(self.run.get().ranks, cases)
    }

    /// Adds a record; it is on disk when this returns, unless it waits for a disk that is full or gone.
    pub(super) fn add(&self, record: &Record) {
        let mut said = Vec::new();
        for kept in record.kept().iter() {
            let state = &mut *self.lock();
            if let Some(files) = &mut state.files {
                said.extend(files.add(&self.run.get(), kept));
            }
        }
        self.say_of_files(said);
    }

    /// Writes the end of the run to its files. Returns how it ended: not with `code` if a file lacks something.
    pub(super) fn end(&self, code: Code, message: &str) -> SessionEnd {
        let end = self.lock().end(code, message, Moment::End);
        say_all(&end.said);
        end
    }

    /// Does what [`Session::end`] does, from a thread that must not wait for the one that works.
    fn end_if_free(&self, code: Code, message: &str, moment: Moment) -> Code {
        self.describe_end_first(code, message);
        let patience = match moment {
            Moment::Warned => WAITS_WHEN_WARNED,
            Moment::End => WAITS_AT_END,
        };
        let began = Instant::now();
        // The working thread holds the lock while it writes: for an instant, many times a second, or as long as a slow disk takes.
        while began.elapsed() < patience {
            let Ok(mut state) = self.state.try_lock() else {
                thread::sleep(Duration::from_millis(5));
                continue;
            };
            let end = state.end(code, message, moment);
            if moment == Moment::End {
                state.release();
            }
            drop(state);
            say_all(&end.said);
            // At a warning there is still time to write what is missing.
            if moment == Moment::End {
                say_all(&end.missing);
            }
            return end.code;
        }
        // The run's folder is not known without the lock.
        log::collect(None);
        code
    }

    /// Writes into `run.json` how the run ends, before anything that takes longer on a slow disk: the launcher may kill this process
    /// within a second.
    fn describe_end_first(&self, code: Code, message: &str) {
        let Some(path) = &self.run_json else {
            return;
        };
        let mut run = self.run();
        run.ended_at = Some(record::now());
        run.end = Some(run_end(code, message, &[]));
        // If it cannot be written, that is said when all files are.
        let _ = json::describe_at_once(path, &run);
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

/// How a run ended, as its files have it.
pub(super) struct SessionEnd {
    /// The exit code.
    pub(super) code: Code,
    /// What there is to say of the files beside that.
    said: Vec<String>,
    /// A sentence for each file that lacks something.
    pub(super) missing: Vec<String>,
}

impl State {
    fn end(&mut self, code: Code, message: &str, moment: Moment) -> SessionEnd {
        log::collect(self.folder.as_deref());
        let mut said = self.keep_waiting_samples(moment);
        self.run.change(|run| run.ended_at = Some(record::now()));
        let missing = self.finish_rows(&mut said);
        self.run.change(|run| run.remarks.extend(said.clone()));
        let missing = self.save(code, message, missing);
        if moment == Moment::End
            && let Some(extent) = self.table.take()
        {
            // If stdout is what failed, there is nobody to tell.
            let _ = stdout::write(&table::unfinished(extent, message));
        }
        SessionEnd {
            code: code_if(code, &missing),
            said,
            missing,
        }
    }

    /// Writes the rows that could not be written so far. Returns a sentence for each file that lacks rows.
    fn finish_rows(&mut self, said: &mut Vec<String>) -> Vec<String> {
        let mut missing = Vec::new();
        if let Some(files) = &mut self.files {
            said.extend(files.finish_rows());
            missing.extend(files.missing_rows());
        }
        if let Some(file) = &mut self.telemetry {
            said.extend(file.finish());
            missing.extend(file.missing());
        }
        missing
    }

    /// Writes the files that are written as a whole. None says that the run ended well if another one lacks something. Adds a
    /// sentence to `missing` if one cannot be written.
    fn save(&mut self, code: Code, message: &str, mut missing: Vec<String>) -> Vec<String> {
        self.set_end(code, message, &missing);
        let saved = match &self.files {
            Some(files) => files.save(&self.run.get()),
            None => Ok(()),
        };
        if let Err(error) = saved {
            missing.push(error.to_string());
            self.set_end(code, message, &missing);
            if let Some(files) = &self.files {
                files.save_what_can_be(&self.run.get());
            }
        }
        missing
    }

    fn set_end(&self, code: Code, message: &str, missing: &[String]) {
        self.run
            .change(|run| run.end = Some(run_end(code, message, missing)));
    }

    /// Lets other runs write to the paths of this one, after which this one must not.
    fn release(&mut self) {
        if let Some(files) = &mut self.files {
            files.release();
        }
    }
}

/// Returns how a run ends with `code`, if files were not `missing` something.
fn run_end(code: Code, message: &str, missing: &[String]) -> RunEnd {
    let code = code_if(code, missing);
    let mut sentences: Vec<&str> = vec![message];
    sentences.extend(missing.iter().map(String::as_str));
    sentences.retain(|sentence| !sentence.is_empty());
    RunEnd {
        code: code as u8,
        name: code,
        message: sentences.join("; "),
        failed: cause::first().map(Into::into),
    }
}

/// Says what there is to say of files.
fn say_all(sentences: &[String]) {
    for sentence in sentences {
        say!("pxnbench: {sentence}");
    }
}

/// Returns the exit code of a run that would end with `code` if files were not `missing` something.
fn code_if(code: Code, missing: &[String]) -> Code {
    match code {
        // The others say more.
        Code::Fine | Code::Stopped if !missing.is_empty() => Code::Disk,
        code => code,
    }
}

impl State {
    /// Writes the samples that wait to be gathered. A process other than 0 has a file of its own for them. Returns what to
    /// say of the file.
    fn keep_waiting_samples(&mut self, moment: Moment) -> Vec<String> {
        let Some(NodeSampler {
            sampler,
            host,
            node,
        }) = &self.sampler
        else {
            return Vec::new();
        };
        let is_first = self.files.is_some();
        if !is_first && moment == Moment::Warned {
            return Vec::new();
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
            match TelemetryCsv::create(folder, &name) {
                Ok(file) => self.telemetry = Some(file),
                Err(error) => return vec![error.to_string()],
            }
        }
        match &mut self.telemetry {
            Some(file) => file.append(&self.run.get(), &rows),
            None => Vec::new(),
        }
    }
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

fn cannot_write(code: Code, why: &OutputError) -> anyhow::Error {
    Failure::on_this_rank(code, why.to_string())
}

/// Removes the rank from a sentence: only process 0 writes, so its rank says nothing.
fn without_rank(error: anyhow::Error) -> anyhow::Error {
    let text = error.to_string();
    let sentence = text.strip_prefix("rank 0: ").unwrap_or(&text);
    Failure::on_all_ranks(exit::code_of(&error), sentence)
}
