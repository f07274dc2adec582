//! [`ReplayProgress`]: what is kept of a replay while it runs and when it ends.

use super::{
    context::RunContext, log, outcome::stopped_by, replay_files::ReplayFiles,
    replay_log::ReplayLog, transport,
};
use crate::{
    exit::{self, Code, Failure},
    output::stdout,
    record::{self, RunEnd},
    replay::{ReplayObserver, ReplayResult, files::Replayed, table},
    world::World,
};

/// The files of a replay, and what NCCL's log shows meanwhile.
pub(super) struct ReplayProgress<'a> {
    pub(super) replayed: Replayed<'a>,
    pub(super) files: &'a ReplayFiles,
    pub(super) log: Option<ReplayLog>,
    pub(super) world: &'a dyn World,
}

impl ReplayObserver for ReplayProgress<'_> {
    fn checked(&mut self, communicator: usize) {
        if let Some(log) = &mut self.log {
            log.checked(communicator);
        }
    }

    fn measured(&mut self, result: &ReplayResult) -> anyhow::Result<()> {
        self.prove()?;
        self.files.save(&self.replayed, result)
    }
}

impl ReplayProgress<'_> {
    /// Adds what NCCL's logs show so far.
    fn prove(&mut self) -> anyhow::Result<()> {
        if let Some(log) = &mut self.log {
            self.replayed.proof = Some(log.proof(self.world)?);
        }
        Ok(())
    }

    /// Writes the files for the last time, with what NCCL's log shows of the whole replay, and
    /// prints the table. Every process calls it alike, after the last operation.
    ///
    /// # Errors
    ///
    /// Returns an error if a file or the table cannot be written, or if what a rank saw does not
    /// reach the others.
    pub(super) fn end(mut self, context: &RunContext, result: &ReplayResult) -> anyhow::Result<()> {
        self.prove()?;
        let mut remarks = Vec::from_iter(transport::remark(context)?);
        if let Some(log) = &mut self.log {
            let verdict = log.verdict(&self.files.folder, self.world)?;
            remarks.push(verdict.verdict.clone());
            self.replayed.run.proof = Some(verdict);
        }
        self.replayed.run.remarks.extend(remarks.clone());
        self.replayed.run.ended_at = Some(record::now());
        self.replayed.run.end = Some(run_end(conclude(result)));
        self.files.save(&self.replayed, result)?;
        log::collect(Some(&self.files.folder));
        if self.world.rank() != 0 {
            return Ok(());
        }
        let Replayed { step, proof, .. } = &self.replayed;
        print(&table::text(step, result, proof.as_ref()))?;
        print(&(table::verification(result) + "\n"))?;
        for remark in remarks {
            print(&format!("# {remark}\n"))?;
        }
        note!("pxnbench: results are in {}", self.files.folder.display());
        Ok(())
    }
}

/// Returns the exit code of a replay that was measured.
///
/// # Errors
///
/// Returns an error if data were wrong, or if a signal ended it.
pub(super) fn conclude(result: &ReplayResult) -> anyhow::Result<Code> {
    if result.wrong > 0 {
        let what = format!(
            "{} elements are wrong after {}",
            result.wrong,
            result.wrong_operations.join(", ")
        );
        return Err(Failure::on_all_ranks(Code::WrongData, what));
    }
    if result.is_stopped {
        let what = format!("{}; finished blocks are kept", stopped_by());
        return Err(Failure::on_all_ranks(Code::Stopped, what));
    }
    Ok(Code::Fine)
}

fn run_end(end: anyhow::Result<Code>) -> RunEnd {
    let (code, message) = match end {
        Ok(code) => (code, String::new()),
        Err(error) => (exit::code_of(&error), format!("{error:#}")),
    };
    RunEnd {
        code: code as u8,
        name: code,
        message,
        failed: None,
    }
}

/// Writes `text` to stdout.
///
/// # Errors
///
/// Returns an error if it cannot be written.
pub(super) fn print(text: &str) -> anyhow::Result<()> {
    stdout::write(text).map_err(|error| stdout::failure(&error))
}
