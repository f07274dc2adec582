//! The doctor's report, as text and as JSON. Pure: strings from findings.

use std::{
    cmp::Reverse,
    collections::BTreeSet,
    fmt::{self, Write},
};

use serde_json::{Value, json};

use super::examine::{ReportLine, examine};
use crate::{exit::Code, facts::ranks::RankFacts, units::counted};

/// The findings of all checks on a job, ready to be printed.
pub struct Report<'a> {
    job: &'a [RankFacts],
    lines: Vec<ReportLine>,
    is_strict: bool,
}

impl<'a> Report<'a> {
    /// Examines a job, whose processes are in rank order. In a strict report warnings count as
    /// failures.
    pub fn new(job: &'a [RankFacts], is_strict: bool) -> Report<'a> {
        Report {
            job,
            lines: examine(job),
            is_strict,
        }
    }

    /// Returns the exit code that the findings amount to.
    pub fn code(&self) -> Code {
        let has_failure = self.lines.iter().any(|line| line.verdict.is_failure());
        let has_warning = self.lines.iter().any(|line| line.verdict.is_warning());
        if has_failure || self.is_strict && has_warning {
            Code::NotReady
        } else {
            Code::Fine
        }
    }

    /// Returns the report as JSON.
    pub fn json(&self) -> Value {
        json!({
            "ready": self.code() == Code::Fine,
            "ranks": self.job.len(),
            "hosts": self.hosts(),
            "failures": self.count("FAILURE"),
            "warnings": self.count("warning"),
            "checks": self.lines,
            "settings": self.job.first().map(|process| &process.settings),
        })
    }

    /// Returns the report as text: differences between nodes first, then failures, warnings, NCCL's
    /// settings and the summary. A verbose report lists the checks that found nothing as well.
    pub fn text(&self, is_verbose: bool) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(&mut text, is_verbose);
        text
    }

    fn write(&self, text: &mut String, is_verbose: bool) -> fmt::Result {
        self.write_findings(text)?;
        if is_verbose {
            self.write_other_lines(text)?;
        }
        self.write_settings(text)?;
        if !self.job.iter().any(RankFacts::is_for_gpus) {
            writeln!(
                text,
                "note     no NVIDIA device was found: only host-memory runs were checked"
            )?;
        }
        self.write_summary(text)
    }

    fn write_findings(&self, text: &mut String) -> fmt::Result {
        let mut findings: Vec<&ReportLine> = self
            .lines
            .iter()
            .filter(|line| line.verdict.is_finding())
            .collect();
        findings.sort_by_key(|line| (!line.across, Reverse(line.verdict.is_failure())));
        for line in findings {
            let verdict = &line.verdict;
            let (name, evidence, who) = (verdict.name(), verdict.evidence(), bracketed(&line.who));
            writeln!(text, "{name:<8} {:<22} {evidence}{who}", line.id)?;
            writeln!(text, "{:<31} {}", "  do:", verdict.remedy())?;
        }
        Ok(())
    }

    /// Writes the checks that found nothing.
    fn write_other_lines(&self, text: &mut String) -> fmt::Result {
        for line in self.lines.iter().filter(|line| !line.verdict.is_finding()) {
            let verdict = &line.verdict;
            let (name, evidence, who) = (verdict.name(), verdict.evidence(), bracketed(&line.who));
            writeln!(
                text,
                "{name:<8} {:<22} {}: {evidence}{who}",
                line.id, line.about
            )?;
        }
        Ok(())
    }

    /// Writes NCCL's settings in force on rank 0, and where each comes from.
    fn write_settings(&self, text: &mut String) -> fmt::Result {
        let Some(first) = self.job.first() else {
            return Ok(());
        };
        for (name, _) in first.settings.iter() {
            writeln!(text, "setting  {}", first.settings.describe(name))?;
        }
        Ok(())
    }

    fn write_summary(&self, text: &mut String) -> fmt::Result {
        let ready = match self.code() {
            Code::Fine => "ready",
            _ => "not ready",
        };
        let failures = counted(self.count("FAILURE"), "failure");
        let warnings = counted(self.count("warning"), "warning");
        let (ok, not_applicable) = (self.count("ok"), self.count("n/a"));
        let processes = match self.job.len() {
            1 => "1 process".to_owned(),
            ranks => format!("{ranks} ranks"),
        };
        let hosts = self.hosts();
        let hosts = match hosts.first() {
            Some(host) if hosts.len() == 1 => (*host).to_owned(),
            _ => format!("{} hosts", hosts.len()),
        };
        writeln!(
            text,
            "{ready}: {failures}, {warnings}, {ok} ok, {not_applicable} not applicable; \
             {processes} on {hosts}"
        )
    }

    /// Counts the lines whose outcome has this name.
    fn count(&self, name: &str) -> usize {
        self.lines
            .iter()
            .filter(|line| line.verdict.name() == name)
            .count()
    }

    fn hosts(&self) -> BTreeSet<&str> {
        self.job
            .iter()
            .map(|process| process.host.as_str())
            .collect()
    }
}

/// Formats the processes that have an outcome for the end of a line; nothing if all have it.
fn bracketed(who: &str) -> String {
    if who == "all" {
        String::new()
    } else {
        format!(" [{who}]")
    }
}
