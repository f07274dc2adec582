//! [`Verdict`]: which requirements are met, which are missed, and what could not be judged.

use serde::{Deserialize, Serialize};

use crate::{
    exit::Code,
    units::{counted, significant},
};

/// The judgement of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Each requirement.
    pub judged: Vec<Judged>,
    /// What a reader should know of the files, and of the comparison with a baseline.
    pub remarks: Vec<String>,
    /// Results with wrong data, whose times prove nothing.
    #[serde(default)]
    pub wrong_cases: u64,
}

/// The judgement of one requirement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    /// The requirement, as on the command line.
    pub requirement: String,
    /// How many cases, or series of cases, meet it.
    pub met: u32,
    /// Those that miss it.
    pub missed: Vec<Miss>,
    /// Those that could not be judged.
    pub unjudged: Vec<Unjudged>,
}

/// A requirement that a case misses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Miss {
    /// The case, as messages name it.
    pub case: String,
    /// nccl-tests' name of the collective.
    pub collective: String,
    /// The size.
    pub size_bytes: u64,
    /// `in place` or `out of place`.
    pub placement: String,
    /// What was measured.
    pub found: f64,
    /// What is required.
    pub required: f64,
    /// The unit of both.
    pub unit: String,
    /// By how much it misses, and how sure that is.
    pub by: String,
}

/// A case that could not be judged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Unjudged {
    /// The case, or the series, as messages name it.
    pub case: String,
    /// Why.
    pub why: String,
}

impl Judged {
    /// Returns the judgement of nothing yet.
    pub fn new(requirement: &str) -> Judged {
        Judged {
            requirement: requirement.into(),
            ..Judged::default()
        }
    }

    /// Returns whether it was missed, met, or neither.
    pub fn outcome(&self) -> Outcome {
        if !self.missed.is_empty() {
            Outcome::Missed
        } else if self.met > 0 {
            Outcome::Met
        } else {
            Outcome::CannotTell
        }
    }

    fn summary(&self) -> String {
        let word = match self.outcome() {
            Outcome::Met => "met",
            Outcome::Missed => "MISSED",
            Outcome::CannotTell => "cannot tell",
        };
        let unjudged = match self.unjudged.len() {
            0 => String::new(),
            count => format!(", {count} not judged"),
        };
        format!(
            "{}: {word} ({} met, {} missed{unjudged})",
            self.requirement,
            self.met,
            self.missed.len()
        )
    }
}

/// The outcome of a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All that could be judged meet it.
    Met,
    /// At least one misses it.
    Missed,
    /// Nothing could be judged.
    CannotTell,
}

impl Verdict {
    /// Returns the exit code: a requirement of which nothing could be judged is not met, and a run
    /// with wrong data does not pass.
    pub fn code(&self) -> Code {
        let has = |outcome| self.judged.iter().any(|judged| judged.outcome() == outcome);
        if has(Outcome::Missed) || self.wrong_cases > 0 {
            Code::WrongData
        } else if has(Outcome::CannotTell) {
            Code::NothingRan
        } else {
            Code::Fine
        }
    }

    /// Returns one line per miss, one per case that could not be judged, and one per requirement.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = self.remarks.clone();
        if self.wrong_cases > 0 {
            lines.push(self.wrong_data());
        }
        for judged in &self.judged {
            let requirement = &judged.requirement;
            for miss in &judged.missed {
                let Miss {
                    case,
                    found,
                    required,
                    unit,
                    by,
                    ..
                } = miss;
                lines.push(format!(
                    "missed: {case}: {} found, {} {unit} required by {requirement}: {by}",
                    short(*found),
                    short(*required),
                ));
            }
            for Unjudged { case, why } in &judged.unjudged {
                lines.push(format!("not judged by {requirement}: {case}: {why}"));
            }
            lines.push(judged.summary());
        }
        lines
    }

    fn wrong_data(&self) -> String {
        format!("wrong data in {}", counted(self.wrong_cases, "case"))
    }

    /// Returns a sentence for the end of a run; empty if everything is met.
    pub fn sentence(&self) -> String {
        let missed: usize = self.judged.iter().map(|judged| judged.missed.len()).sum();
        if missed > 0 {
            let misses = match missed {
                1 => "1 miss".to_owned(),
                _ => format!("{missed} misses"),
            };
            return format!("the requirements are not met: {misses}");
        }
        if self.wrong_cases > 0 {
            return self.wrong_data();
        }
        let unknown = self.judged.iter();
        let unknown = unknown.filter(|judged| judged.outcome() == Outcome::CannotTell);
        match unknown.count() {
            0 => String::new(),
            count => format!(
                "cannot tell whether {} met: no case could be judged",
                match count {
                    1 => "1 requirement is".to_owned(),
                    _ => format!("{} are", counted(count, "requirement")),
                }
            ),
        }
    }
}

/// Writes a number to five significant digits, without a trailing fraction.
fn short(value: f64) -> String {
    significant(value, 5).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_told_does_not_pass() {
        let met = Judged {
            met: 1,
            ..Judged::new("a")
        };
        let unknown = Judged {
            unjudged: vec![Unjudged {
                case: "x".into(),
                why: "no peak".into(),
            }],
            ..Judged::new("b")
        };
        let verdict = |judged: &[&Judged]| Verdict {
            judged: judged.iter().copied().cloned().collect(),
            ..Verdict::default()
        };
        assert_eq!(verdict(&[&met]).code(), Code::Fine);
        assert_eq!(verdict(&[&met, &unknown]).code(), Code::NothingRan);
        let lines = verdict(&[&met, &unknown]).lines();
        assert_eq!(
            lines,
            [
                "a: met (1 met, 0 missed)",
                "not judged by b: x: no peak",
                "b: cannot tell (0 met, 0 missed, 1 not judged)"
            ]
        );
        assert_eq!(
            verdict(&[&unknown]).sentence(),
            "cannot tell whether 1 requirement is met: no case could be judged"
        );
    }

    #[test]
    fn wrong_data_do_not_pass_however_fast() {
        let met = Judged {
            met: 1,
            ..Judged::new("a")
        };
        let verdict = Verdict {
            judged: vec![met],
            wrong_cases: 2,
            ..Verdict::default()
        };
        assert_eq!(verdict.code(), Code::WrongData);
        assert_eq!(
            verdict.lines(),
            ["wrong data in 2 cases", "a: met (1 met, 0 missed)"]
        );
        assert_eq!(verdict.sentence(), "wrong data in 2 cases");
    }
}
