//! [`Experiment`]: the steps of an experiment, block by block.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    budget::Deadline,
    folder::{OpenedFolder, cannot_make, usage},
    progress::Progress,
    request::Request,
    step::{self, StepEnd},
    variants,
};
use crate::{
    compare::{
        self,
        experiment_record::{EliminatedVariant, ExperimentRecord, StepRecord, Variant},
        folders::MeasuredRun,
    },
    env,
    exit::{Code, Failure},
    output::lock::PathLock,
    stats::BlockOrder,
    units::counted,
    world::signal,
};

/// The number of failures after which a variant is left out.
const MOST_FAILURES: usize = 2;

/// A running experiment.
pub(super) struct Experiment<'a> {
    request: &'a Request,
    /// Keeps other experiments out of the folder; `None` where there are no locks.
    _lock: Option<PathLock>,
    record: ExperimentRecord,
    order: BlockOrder,
    deadline: Deadline,
    progress: Progress,
    /// The exit code of the first step that failed.
    failure: Option<Code>,
    /// Whether a signal ended a step, even if this process got none.
    was_stopped: bool,
    /// Whether a step was ended because the time was over.
    was_late: bool,
}

impl<'a> Experiment<'a> {
    /// Makes the folder of a new experiment, or opens that of an experiment to continue.
    ///
    /// # Errors
    ///
    /// Returns an error if the folder cannot be used: see [`OpenedFolder::open`].
    pub(super) fn open(request: &'a Request) -> anyhow::Result<Experiment<'a>> {
        let OpenedFolder { lock, record } = OpenedFolder::open(request)?;
        let mut order = BlockOrder::new(record.variants.len(), record.seed);
        for _ in 0..record.blocks() {
            order.next_block();
        }
        let cycle = order.cycle() as u32;
        let experiment = Experiment {
            request,
            _lock: lock,
            record,
            order,
            deadline: Deadline::new(request.limits.time, &env::var),
            progress: Progress {
                quiet: request.quiet,
                blocks: request.limits.blocks.unwrap_or(cycle),
            },
            failure: None,
            was_stopped: false,
            was_late: false,
        };
        experiment.save()?;
        experiment.announce();
        Ok(experiment)
    }

    fn announce(&self) {
        if self.request.quiet {
            return;
        }
        say!(
            "pxnbench: {} in up to {}, seed {}; {} and {} are the same, so their difference is \
             noise",
            counted(self.record.variants.len(), "step"),
            counted(self.progress.blocks, "block"),
            self.record.seed,
            self.record.reference,
            self.record.control,
        );
    }

    /// Runs the reference once, without using its times: the first step of all takes longer than
    /// later ones. If it fails, every step would.
    ///
    /// # Errors
    ///
    /// Returns an error with the step's exit code if it fails.
    pub(super) fn warm_up(&mut self) -> anyhow::Result<()> {
        let reference = self.request.variants.reference().clone();
        let end = self.run_step(&reference, None)?;
        match end.code {
            // Data would be wrong in every step, and the times can still be compared.
            Code::Fine | Code::WrongData => Ok(()),
            Code::Stopped => {
                let by_signal = self.reason_to_end();
                let reason = by_signal.unwrap_or_else(|| "a signal ended the step".to_owned());
                self.record.end = Some(reason.clone());
                self.save()?;
                let what = format!("the experiment ends during its first step: {reason}");
                Err(Failure::on_all_ranks(Code::Stopped, what))
            }
            code => {
                self.record.end = Some("the warm-up step failed".to_owned());
                self.save()?;
                let why = match end.was_late {
                    true => {
                        "No time was left for the other steps. Allow more time, or find out what \
                         the first one was waiting for"
                    }
                    false => "The other steps would fail for the same reason, so none was started",
                };
                let message = end.message.trim_end_matches('.');
                let what = format!("the first step failed: {message}. {why}");
                Err(Failure::on_all_ranks(code, what))
            }
        }
    }

    /// Returns whether another block is wanted and fits; if not, records why.
    ///
    /// # Errors
    ///
    /// Returns an error if the record cannot be written.
    pub(super) fn has_another_block(&mut self) -> anyhow::Result<bool> {
        let Some(reason) = self.reason_to_end() else {
            return Ok(true);
        };
        self.finish(&reason)?;
        Ok(false)
    }

    fn reason_to_end(&self) -> Option<String> {
        if let Some(signal) = signal::received() {
            return Some(format!("it was stopped by {signal}"));
        }
        if self.was_stopped {
            return Some("a step was stopped".to_owned());
        }
        if self.was_late {
            return Some("a step was still running after the time was over".to_owned());
        }
        let active = self.active();
        let has_reference = active.contains(self.request.variants.reference());
        if has_reference && active.len() < 3 && !self.record.eliminated.is_empty() {
            return Some("all others were eliminated".to_owned());
        }
        if !has_reference || active.len() < 3 {
            return Some("too few variants are left that can run".to_owned());
        }
        let done = self.record.blocks();
        if done >= self.progress.blocks {
            return Some(format!("{} ran", counted(done, "block")));
        }
        if self.deadline.is_too_close(self.expected_block()) {
            return Some("no time is left for another block".to_owned());
        }
        let precision = self.request.limits.precision?;
        compare::is_as_precise_as(&self.request.folder, precision)
            .then(|| "all intervals are as narrow as requested".to_owned())
    }

    /// Returns the expected time of a block: that of the slowest block so far, without the variants
    /// that were eliminated since. Before the first block, each variant is expected to take as long
    /// as the warm-up step.
    fn expected_block(&self) -> Duration {
        let steps = &self.record.steps;
        let mut slowest = 0.0f64;
        for block in 0..self.record.blocks() {
            let is_of_block = |step: &&StepRecord| step.block == Some(block);
            // How long one took that was ended says nothing about the next.
            let runs_again = |step: &&StepRecord| {
                let was_ended = matches!(step.code, Code::Stopped | Code::TimedOut);
                !was_ended && !self.is_eliminated(&step.label)
            };
            let steps = steps.iter().filter(is_of_block).filter(runs_again);
            slowest = slowest.max(steps.map(|step| step.seconds).sum());
        }
        if slowest == 0.0 {
            let warm_up = steps.last().map_or(0.0, |step| step.seconds);
            slowest = warm_up * self.record.variants.len() as f64;
        }
        Duration::from_secs_f64(slowest)
    }

    /// Returns the time of the longest step that was not ended early.
    fn longest_step(&self) -> Duration {
        let steps = self.record.steps.iter();
        let ended_by_themselves =
            steps.filter(|step| !matches!(step.code, Code::Stopped | Code::TimedOut));
        let seconds = ended_by_themselves.map(|step| step.seconds);
        Duration::from_secs_f64(seconds.fold(0.0, f64::max))
    }

    /// Runs each variant once.
    ///
    /// # Errors
    ///
    /// Returns an error if a step cannot be started.
    pub(super) fn run_block(&mut self) -> anyhow::Result<()> {
        let block = self.record.blocks();
        let active = self.active();
        for index in self.order.next_block() {
            let variant = self.record.variants[index].clone();
            if !active.contains(&variant) {
                continue;
            }
            let end = self.run_step(&variant, Some(block))?;
            self.was_stopped = end.code == Code::Stopped;
            self.was_late = end.was_late;
            if self.was_stopped || self.was_late {
                break;
            }
        }
        Ok(())
    }

    /// Returns the variants that run in the next block.
    fn active(&self) -> Vec<Variant> {
        let variants = self.record.variants.iter();
        variants
            .filter(|variant| self.is_active(&variant.label))
            .cloned()
            .collect()
    }

    /// Returns whether a variant runs in the next block. A level that was refused is not tried
    /// again; other failures may be chance, and are tried again once.
    fn is_active(&self, label: &str) -> bool {
        let mut failures = 0;
        for step in &self.record.steps {
            if step.label != label {
                continue;
            }
            match step.code {
                Code::Usage => return false,
                // A step that a signal ended tells nothing about its variant.
                Code::Stopped => {}
                code => failures += usize::from(is_failure(code)),
            }
        }
        failures < MOST_FAILURES && !self.is_eliminated(label)
    }

    fn is_eliminated(&self, label: &str) -> bool {
        let mut eliminated = self.record.eliminated.iter();
        eliminated.any(|variant| variant.label == label)
    }

    fn run_step(&mut self, variant: &Variant, block: Option<u32>) -> anyhow::Result<StepEnd> {
        let name = match block {
            Some(block) => format!("{:03}-{}-{block}", self.record.steps.len(), variant.label),
            None => format!("{:03}-warm-up", self.record.steps.len()),
        };
        let folder = self.request.folder.join(&name);
        let words = self.words(variant, block, &folder)?;
        let limit = self.deadline.of_step(self.longest_step());
        let end = step::run(&words, &folder, limit)?;
        // A failed warm-up step ends the experiment, and its error says why.
        if block.is_some() || end.code == Code::Fine {
            self.progress.step(&variant.label, block, &folder, &end);
        }
        // A refused level is left out, which is no failure of the experiment.
        if is_failure(end.code) && (block.is_some() || end.code == Code::WrongData) {
            self.failure.get_or_insert(end.code);
        }
        self.record.steps.push(StepRecord {
            folder: name,
            label: variant.label.clone(),
            block,
            seconds: end.seconds,
            code: end.code,
        });
        self.save()?;
        Ok(end)
    }

    /// Returns the command of a step.
    fn words(
        &self,
        variant: &Variant,
        block: Option<u32>,
        folder: &Path,
    ) -> anyhow::Result<Vec<String>> {
        let mut words = self.request.start.clone();
        words.extend(self.record.arguments.iter().cloned());
        let repeat = block.unwrap_or(0).to_string();
        let folder = absolute(folder)?.display().to_string();
        words.extend(variants::options(variant));
        let number = match self.request.measured {
            MeasuredRun::Sweep => ["--repeat".to_owned(), repeat],
            // The experiment counts the blocks; each replay has one.
            MeasuredRun::Replay => ["--blocks".to_owned(), "1".to_owned()],
        };
        words.extend(number);
        words.extend(["--out".to_owned(), folder]);
        Ok(words)
    }

    /// Records the end of the experiment.
    ///
    /// # Errors
    ///
    /// Returns an error if the record cannot be written.
    fn finish(&mut self, reason: &str) -> anyhow::Result<()> {
        self.record.end = Some(reason.to_owned());
        if !self.progress.quiet {
            say!(
                "pxnbench: the experiment ends: {reason}{}",
                self.how_to_go_on()
            );
        }
        self.save()
    }

    /// Returns how the rest is measured, if a step or a signal has cut the experiment short.
    fn how_to_go_on(&self) -> String {
        let was_cut = self.was_stopped || self.was_late || signal::received().is_some();
        if !was_cut || self.record.blocks() == 0 {
            return String::new();
        }
        let folder = self.request.folder.display();
        format!(". To measure the rest, repeat the command with --resume --out {folder}")
    }

    /// Returns the record so far.
    pub(super) fn record(&self) -> &ExperimentRecord {
        &self.record
    }

    /// Leaves these variants out of the blocks that follow.
    ///
    /// # Errors
    ///
    /// Returns an error if the record cannot be written.
    pub(super) fn eliminate(&mut self, mut variants: Vec<EliminatedVariant>) -> anyhow::Result<()> {
        // The record of a continued experiment may have some of them.
        variants.retain(|variant| !self.is_eliminated(&variant.label));
        if variants.is_empty() {
            return Ok(());
        }
        for EliminatedVariant { label, why, blocks } in &variants {
            let when = match blocks {
                0 => "before the first block".to_owned(),
                blocks => format!("after {}", counted(*blocks, "block")),
            };
            if !self.progress.quiet {
                say!("pxnbench: {label} is eliminated {when}: {why}");
            }
        }
        self.record.eliminated.extend(variants);
        self.save()
    }

    /// Returns the exit code of the first step that failed. If none did, it is that of what cut the
    /// experiment short: a signal, or a step that was ended because the time was over, even if it
    /// had recorded a good end.
    pub(super) fn failure(&self) -> Option<Code> {
        let is_stopped = self.was_stopped || signal::received().is_some();
        let cut = match (is_stopped, self.was_late) {
            (true, _) => Some(Code::Stopped),
            (false, true) => Some(Code::TimedOut),
            (false, false) => None,
        };
        self.failure.or(cut)
    }

    fn save(&self) -> anyhow::Result<()> {
        self.record.write(&self.request.folder).map_err(usage)
    }
}

/// Returns whether a step that ends with `code` failed. One whose level was refused did not.
fn is_failure(code: Code) -> bool {
    !matches!(code, Code::Fine | Code::Usage)
}

fn absolute(folder: &Path) -> anyhow::Result<PathBuf> {
    std::path::absolute(folder).map_err(|error| cannot_make(folder, &error))
}
