//! [`Settings`]: the variables of the plugin.

use std::{fmt::Display, fs, path::PathBuf, str::FromStr, time::Duration};

use crate::failure::{Code, Failure, Result};

const RAILS: &str = "PXNBENCH_RAILS";
const SPEED: &str = "PXNBENCH_RAIL_SPEED";
const BANDWIDTH: &str = "PXNBENCH_RAIL_BANDWIDTH";
const LATENCY: &str = "PXNBENCH_RAIL_LATENCY";
const FAULT: &str = "PXNBENCH_RAIL_FAULT";
const COUNTERS: &str = "PXNBENCH_RAIL_COUNTERS";
const WORLD: &str = "PXNBENCH_RAIL_WORLD";

/// Variables in which launchers give a process its rank, in the order in which they are tried.
const RANKS: [&str; 5] = [
    "OMPI_COMM_WORLD_RANK",
    "PMIX_RANK",
    "PMI_RANK",
    "SLURM_PROCID",
    "RANK",
];

/// The most rails of a node, which is more than the NICs of real nodes.
const MOST_RAILS: u32 = 64;

/// The kinds of faults that a rail can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultKind {
    /// Messages are accepted from NCCL and never sent.
    Stall,
    /// NCCL gets an error.
    Error,
}

/// A fault of a rail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) kind: FaultKind,
    /// The number of messages that the rail of this process sends before the fault.
    pub(crate) after: u64,
}

/// The limits and the fault of a rail.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RailSettings {
    /// The most bytes per second; `None` for no limit.
    pub(crate) bandwidth: Option<f64>,
    /// The least time between NCCL's passing of a message and its first byte.
    pub(crate) latency: Duration,
    pub(crate) fault: Option<Fault>,
}

/// The variables of the plugin.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The limits and faults of each rail.
    pub(crate) rails: Vec<RailSettings>,
    /// The speed of a rail that NCCL is told, in megabits per second.
    pub(crate) speed: i32,
    /// The folder for counters, if they are written.
    pub(crate) counters: Option<PathBuf>,
    /// This process's rank in the job; `None` if no launcher gives it.
    pub(crate) rank: Option<i32>,
    /// Whether the job has a single communicator with the same ranks as the job.
    pub(crate) is_world: bool,
    /// The name of the virtual node.
    pub(crate) node: String,
}

impl Settings {
    /// Reads the settings. `variable` returns the value of a variable.
    ///
    /// # Errors
    /// Returns an error if the value of a variable is not valid.
    pub(crate) fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Settings> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let rank = RANKS.iter().find_map(|name| set(name)?.parse().ok());
        let count = match set(RAILS) {
            Some(value) => number(RAILS, &value, 1, MOST_RAILS)?,
            None => 2,
        };
        let mut rails = vec![RailSettings::default(); count as usize];
        for (rail, value) in list(BANDWIDTH, set(BANDWIDTH), rails.len())? {
            rails[rail].bandwidth = Some(positive(BANDWIDTH, &value)? * 1e9);
        }
        for (rail, value) in list(LATENCY, set(LATENCY), rails.len())? {
            let microseconds: u64 = number(LATENCY, &value, 0, 60_000_000)?;
            rails[rail].latency = Duration::from_micros(microseconds);
        }
        for (rail, value) in list(FAULT, set(FAULT), rails.len())? {
            if let Some(fault) = fault(&value, rank)? {
                rails[rail].fault = Some(fault);
            }
        }
        Ok(Settings {
            rails,
            speed: match set(SPEED) {
                Some(value) => number(SPEED, &value, 1, i32::MAX)?,
                None => 400_000,
            },
            counters: set(COUNTERS).map(PathBuf::from),
            rank,
            is_world: match set(WORLD) {
                Some(value) => number(WORLD, &value, 0, 1)? == 1,
                None => false,
            },
            node: set("NCCL_HOSTID").unwrap_or_else(host_name),
        })
    }
}

fn host_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim_end().to_owned()
}

fn refused(name: &str, value: &str, needs: impl Display) -> Failure {
    let sentence = format!("{name} is \"{}\": {needs}.", value.escape_debug());
    Failure::new(Code::Usage, sentence)
}

fn number<N: FromStr + PartialOrd + Display>(
    name: &str,
    value: &str,
    least: N,
    most: N,
) -> Result<N> {
    let parsed = value.parse().ok();
    parsed
        .filter(|number| (&least..=&most).contains(&number))
        .ok_or_else(|| refused(name, value, format!("give a number from {least} to {most}")))
}

fn positive(name: &str, value: &str) -> Result<f64> {
    let parsed = value.parse::<f64>().ok();
    parsed
        .filter(|number| number.is_finite() && *number >= 1e-6)
        .ok_or_else(|| {
            refused(
                name,
                value,
                "give 10⁹ bytes per second, such as 1=0.5 for rail 1",
            )
        })
}

/// Reads a list such as `0=VALUE,2=VALUE`: the rail and the value of each entry.
fn list(name: &str, text: Option<String>, rails: usize) -> Result<Vec<(usize, String)>> {
    let text = text.unwrap_or_default();
    let entries = text.split(',').filter(|entry| !entry.is_empty());
    let entry = |entry: &str| {
        let (rail, value) = entry
            .split_once('=')
            .ok_or_else(|| refused(name, entry, "give RAIL=VALUE, with commas between"))?;
        let most = u32::try_from(rails).unwrap_or(MOST_RAILS) - 1;
        let rail = number(name, rail, 0, most)?;
        Ok((rail as usize, value.to_owned()))
    };
    entries.map(entry).collect()
}

/// Reads a fault: `stall:MESSAGES` or `error:MESSAGES`, optionally followed by `@RANK`. Returns
/// `None` if it is for another rank than `own`.
fn fault(text: &str, own: Option<i32>) -> Result<Option<Fault>> {
    let needs = "give RAIL=stall:MESSAGES or RAIL=error:MESSAGES, and @RANK behind it for one rank";
    let (what, rank) = match text.split_once('@') {
        Some((what, rank)) => {
            let rank: i32 = rank.parse().map_err(|_| refused(FAULT, text, needs))?;
            (what, Some(rank))
        }
        None => (text, None),
    };
    let (kind, after) = what
        .split_once(':')
        .ok_or_else(|| refused(FAULT, text, needs))?;
    let kind = match kind {
        "stall" => FaultKind::Stall,
        "error" => FaultKind::Error,
        _ => return Err(refused(FAULT, text, needs)),
    };
    let after = after.parse().map_err(|_| refused(FAULT, text, needs))?;
    let is_here = rank.is_none() || rank == own;
    Ok(is_here.then_some(Fault { kind, after }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Settings> {
        Settings::read(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn without_variables_there_are_two_rails_and_nothing_is_played() {
        let settings = read(&[]).expect("settings");
        assert_eq!(settings.rails, vec![RailSettings::default(); 2]);
        assert_eq!(settings.speed, 400_000);
        assert_eq!(settings.rank, None);
        assert_eq!(settings.counters, None);
        assert!(!settings.node.is_empty());
    }

    #[test]
    fn each_rail_has_what_is_played_on_it() {
        let settings = read(&[
            ("PXNBENCH_RAILS", "3"),
            ("PXNBENCH_RAIL_BANDWIDTH", "1=0.5,2=100"),
            ("PXNBENCH_RAIL_LATENCY", "0=250"),
            ("PXNBENCH_RAIL_FAULT", "0=stall:100,1=error:5@3,2=error:7@2"),
            ("PMIX_RANK", "3"),
            ("NCCL_HOSTID", "node1"),
        ])
        .expect("settings");
        let [first, second, third] = &settings.rails[..] else {
            panic!("three rails");
        };
        assert_eq!(first.latency, Duration::from_micros(250));
        let stall = Fault {
            kind: FaultKind::Stall,
            after: 100,
        };
        assert_eq!(first.fault, Some(stall));
        assert_eq!(second.bandwidth, Some(0.5e9));
        let error = Fault {
            kind: FaultKind::Error,
            after: 5,
        };
        assert_eq!(second.fault, Some(error), "of this rank");
        assert_eq!(third.bandwidth, Some(100e9));
        assert_eq!(third.fault, None, "of another rank");
        assert_eq!(settings.node, "node1");
    }

    #[test]
    fn a_value_that_is_not_valid_is_refused_with_a_remedy() {
        for (name, value, words) in [
            ("PXNBENCH_RAILS", "0", "from 1 to 64"),
            ("PXNBENCH_RAILS", "two", "from 1 to 64"),
            ("PXNBENCH_RAIL_SPEED", "-1", "from 1 to"),
            ("PXNBENCH_RAIL_WORLD", "yes", "from 0 to 1"),
            ("PXNBENCH_RAIL_BANDWIDTH", "0.5", "RAIL=VALUE"),
            ("PXNBENCH_RAIL_BANDWIDTH", "1=0", "10⁹ bytes"),
            ("PXNBENCH_RAIL_BANDWIDTH", "1=NaN", "10⁹ bytes"),
            ("PXNBENCH_RAIL_LATENCY", "2=1", "from 0 to 1"),
            ("PXNBENCH_RAIL_FAULT", "1=stall", "stall:MESSAGES"),
            ("PXNBENCH_RAIL_FAULT", "1=slow:3", "stall:MESSAGES"),
            ("PXNBENCH_RAIL_FAULT", "1=stall:3@x", "@RANK"),
        ] {
            let failure = read(&[(name, value)]).expect_err(value);
            assert_eq!(failure.code, Code::Usage);
            assert!(failure.sentence.contains(name), "{}", failure.sentence);
            assert!(failure.sentence.contains(words), "{}", failure.sentence);
        }
    }
}
