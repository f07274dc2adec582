//! [`RunFacts`]: what a `run.json` says of all rows of its run.

use serde_json::Value;

use crate::{
    levels::{self, Axis, table::variables},
    output::earlier::{nccl_settings, shown},
    record::{MeasuredOn, run_meta::SWEEP_FLAGS},
};

/// What stands between two flags or settings.
pub(super) const SEPARATOR: &str = ", ";

/// What a `run.json` says of all rows of its run. Everything is empty if there is none.
#[derive(Default)]
pub(super) struct RunFacts {
    /// What the run was measured on.
    pub(super) measured_on: MeasuredOn,
    /// Version of the kernel's GPU driver.
    pub(super) driver: String,
    /// Version of this program.
    pub(super) program: String,
    /// Timed operations per case, as requested.
    pub(super) iters: Option<u32>,
    /// The day on which the run began.
    pub(super) date: String,
    /// The flags that change what a time means, as words.
    pub(super) flags: String,
    /// NCCL's settings, as words.
    pub(super) settings: String,
}

impl RunFacts {
    /// Returns the facts of a `run.json`, which `measured_on` was read from too.
    pub(super) fn of(run: &Value, measured_on: MeasuredOn) -> RunFacts {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let iters = run["sweep"]["iters"].as_u64().unwrap_or(0);
        let started_at = text(&run["started_at"]);
        let day = started_at.split('T').next().unwrap_or_default();
        RunFacts {
            measured_on,
            driver: text(&run["versions"]["driver"]),
            program: text(&run["pxnbench"]),
            // Earlier versions did not write it.
            iters: u32::try_from(iters).ok().filter(|iters| *iters > 0),
            date: day.to_owned(),
            flags: flags(run),
            settings: settings(run),
        }
    }
}

/// Returns the flags of a run that change what a time means.
fn flags(run: &Value) -> String {
    let mut words = Vec::new();
    for (key, flag) in SWEEP_FLAGS {
        // A flag that was not given is no difference from a version that did not have it.
        let given = run["sweep"].get(key).filter(|value| !value.is_null());
        if let Some(value) = given {
            words.push(format!("{flag} {}", shown(value)));
        }
    }
    words.join(SEPARATOR)
}

/// Returns NCCL's settings of a run that its level, its resources and its network do not tell.
fn settings(run: &Value) -> String {
    let mut told = Vec::new();
    for (key, axis) in [("level", Axis::Level), ("resources", Axis::Resources)] {
        if run[key] != levels::CUSTOM {
            told.extend(variables(axis));
        }
    }
    // A network is recorded if it was requested: only what it sets itself follows from its name.
    if let Ok(network) = levels::network(run["network"].as_str().unwrap_or_default()) {
        told.extend(network.set.iter().map(|setting| setting.name.as_str()));
    }
    let mut words = Vec::new();
    for (name, value) in nccl_settings(run) {
        if !told.contains(&name.as_str()) {
            words.push(format!("{name}={value}"));
        }
    }
    words.join(SEPARATOR)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_flag_that_was_not_given_is_no_difference_from_a_version_without_it() {
        let flags = |sweep: Value| {
            let run = json!({ "sweep": sweep });
            RunFacts::of(&run, MeasuredOn::default()).flags
        };
        let earlier = flags(json!({ "aggregate": 1 }));
        assert_eq!(earlier, "-m 1");
        assert_eq!(
            flags(json!({ "aggregate": 1, "cta_policy": null })),
            earlier
        );
        assert_eq!(
            flags(json!({ "aggregate": 1, "cta_policy": 2 })),
            "-m 1, -x 2"
        );
    }

    #[test]
    fn what_a_network_sets_itself_is_not_another_setting() {
        let settings = |network: &str| {
            let run = json!({
                "level": "off", "resources": "none", "network": network,
                "environment": { "NCCL_NET": "Socket", "NCCL_ALGO": "Ring" },
            });
            RunFacts::of(&run, MeasuredOn::default()).settings
        };
        let own = levels::network("socket").expect("a network");
        assert!(own.set.iter().any(|setting| setting.name == "NCCL_NET"));
        assert_eq!(settings("socket"), "NCCL_ALGO=Ring");
        assert_eq!(settings("auto"), "NCCL_ALGO=Ring, NCCL_NET=Socket");
    }
}
