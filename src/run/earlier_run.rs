//! The run that `--resume` continues if no place is named: the latest one below `results` with the
//! same arguments.

use std::{fs, path::Path};

use chrono::{DateTime, FixedOffset};
use serde_json::Value;

use crate::record::read;

/// An option in which the arguments of two runs may differ: it changes neither cases nor how they
/// are measured.
struct FreeOption {
    /// The long name.
    name: &'static str,
    /// The shortest part of it that no other long option begins with.
    shortest: &'static str,
    /// The short name, if it has one.
    short: Option<&'static str>,
    /// Whether a value follows.
    has_value: bool,
}

const FREE_OPTIONS: [FreeOption; 4] = [
    FreeOption {
        name: "--resume",
        shortest: "--resu",
        short: None,
        has_value: false,
    },
    // The limit that a slow run asks for when it is repeated.
    FreeOption {
        name: "--timeout",
        shortest: "--timeo",
        short: Some("-T"),
        has_value: true,
    },
    FreeOption {
        name: "--stacks",
        shortest: "--sta",
        short: None,
        has_value: false,
    },
    FreeOption {
        name: "--quiet",
        shortest: "--q",
        short: None,
        has_value: false,
    },
];

impl FreeOption {
    /// Returns whether `word` is this option, without a value or with one behind `=` or, for the
    /// short name, directly behind it.
    fn is(&self, word: &str) -> bool {
        let name = word.split('=').next().unwrap_or(word);
        if name.starts_with(self.shortest) && self.name.starts_with(name) {
            return true;
        }
        self.short.is_some_and(|short| word.starts_with(short))
    }

    /// Returns whether the value of `word`, which is this option, is the next word.
    fn takes_next(&self, word: &str) -> bool {
        self.has_value
            && (self.short == Some(word) || (word.starts_with("--") && !word.contains('=')))
    }
}

/// Returns the name of the latest run below `results` that has rows and was started with `command`,
/// apart from [`FREE_OPTIONS`]; in a Slurm job the name has two parts.
pub(super) fn find(results: &Path, command: &[String]) -> Option<String> {
    let wanted = arguments(command);
    let mut latest: Option<(DateTime<FixedOffset>, String)> = None;
    for name in names(results) {
        let folder = results.join(&name);
        let Some(run) = read::read_run_json(&folder.join("run.json")) else {
            continue;
        };
        if !folder.join("results.csv").is_file() || arguments(&words(&run["command"])) != wanted {
            continue;
        }
        let Some(start) = start(&run) else { continue };
        if latest.as_ref().is_none_or(|(before, _)| *before <= start) {
            latest = Some((start, name));
        }
    }
    latest.map(|(_, name)| name)
}

/// Returns the folders below `results`, and those of the steps of a job below these.
fn names(results: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for run in folders(results) {
        for step in folders(&results.join(&run)) {
            names.push(format!("{run}/{step}"));
        }
        names.push(run);
    }
    names.sort();
    names
}

fn folders(path: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        // A link may lead to a folder of somebody else.
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if let (true, Ok(name)) = (is_folder, entry.file_name().into_string()) {
            names.push(name);
        }
    }
    names
}

/// Returns the arguments of a command line without the program and [`FREE_OPTIONS`].
fn arguments(command: &[String]) -> Vec<&str> {
    let mut kept = Vec::new();
    let mut words = command.iter().skip(1).map(String::as_str);
    while let Some(word) = words.next() {
        let Some(option) = FREE_OPTIONS.iter().find(|option| option.is(word)) else {
            kept.push(word);
            continue;
        };
        if option.takes_next(word) {
            words.next();
        }
    }
    kept
}

fn words(command: &Value) -> Vec<String> {
    let words = command.as_array().into_iter().flatten();
    let words = words.filter_map(Value::as_str);
    words.map(str::to_owned).collect()
}

fn start(run: &Value) -> Option<DateTime<FixedOffset>> {
    DateTime::parse_from_rfc3339(run["started_at"].as_str()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_run_with_the_same_arguments_is_found() {
        let results = tempfile::tempdir().expect("a folder");
        let make = |name: &str, command: &[&str], start: &str, has_rows: bool| {
            let folder = results.path().join(name);
            fs::create_dir_all(&folder).expect("made");
            let run = serde_json::json!({"command": command, "started_at": start});
            fs::write(folder.join("run.json"), run.to_string()).expect("written");
            if has_rows {
                fs::write(folder.join("results.csv"), "").expect("written");
            }
        };
        let command = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let sweep = ["pxnbench", "all_reduce", "-b", "8"];
        let other = ["pxnbench", "all_reduce", "-b", "16"];
        make("a", &sweep, "2026-01-01T10:00:00+00:00", true);
        // An hour later, although its clock shows less.
        make("job-1/0", &sweep, "2026-01-01T09:00:00-02:00", true);
        make("c", &other, "2026-01-01T12:00:00+00:00", true);
        make("d", &sweep, "2026-01-01T13:00:00+00:00", false);
        let found = |line: &str| find(results.path(), &command(line));
        assert_eq!(
            found("x all_reduce -b 8 --resume").as_deref(),
            Some("job-1/0")
        );
        assert_eq!(found("x all_reduce --resu -b 16").as_deref(), Some("c"));
        assert_eq!(found("x all_gather --resume"), None);
        // A run that took too long is continued with another limit.
        for again in [
            "x -T 60 all_reduce -b 8 --resume",
            "x all_reduce -T60 -b 8 --resume --quiet",
            "x all_reduce --timeout 60 --resume -b 8",
            "x all_reduce --timeout=60 -b 8 --resume",
        ] {
            assert_eq!(found(again).as_deref(), Some("job-1/0"), "{again}");
        }
        assert_eq!(found("x all_reduce --time 60 -b 8 --resume"), None);
    }
}
