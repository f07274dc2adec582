//! What of a [`Request`] cannot be combined, or cannot be at all.

use super::{
    backend::BackendChoice,
    request::{Request, Timing},
    split::{SPLIT, Split},
};
use crate::{
    backend::options::{Blocking, ExecOptions},
    exit::{Code, Failure},
    levels::Preset,
    sweep::plan::{SizeStep, SweepSpec},
};

/// Iterations that can be timed one by one: each has an event or two on every GPU.
const MOST_TIMED_ITERATIONS: u32 = 1_000_000;

/// The most operations of a case that are timed: if each takes 10 us, they take 17 minutes.
const MOST_OPERATIONS: u64 = 100_000_000;

/// The most warm-up operations and checks of a case, and operations that start together.
const MOST_REPETITIONS: u32 = 1_000_000;

/// Options of operations and of timing that cannot be combined.
struct Conflict {
    exists: fn(&ExecOptions, &Timing) -> bool,
    /// What is wrong, and the remedy.
    sentence: &'static str,
}

const CONFLICTS: [Conflict; 10] = [
    Conflict {
        exists: |exec, _| exec.replays > 0 && exec.blocking != Blocking::AtTheEnd,
        sentence: "-z waits between operations, which a graph (-G) runs as one. Use only one of \
                   them",
    },
    Conflict {
        exists: |exec, _| exec.replays > 0 && exec.iteration_times,
        sentence: "-I times each iteration, but a graph (-G) runs them as one. Use only one of \
                   them",
    },
    Conflict {
        exists: |exec, _| exec.replays > 0 && exec.null_stream,
        sentence: "CUDA cannot capture the null stream (-y 1) as a graph (-G). Use only one of \
                   them",
    },
    Conflict {
        exists: |exec, timing| exec.iteration_times && timing.iters > MOST_TIMED_ITERATIONS,
        sentence: "-I stores the time of every iteration. Use at most 1000000 of them with -n",
    },
    Conflict {
        exists: |exec, timing| exec.iteration_times && timing.iters == 0,
        sentence: "-I times each iteration, but -n 0 has none. Use only one of them",
    },
    Conflict {
        exists: |exec, timing| exec.iteration_times && timing.skipped_iterations >= timing.iters,
        sentence: "-K skips all of the -n iterations. Use a smaller -K",
    },
    Conflict {
        exists: |_, timing| timing.precision.is_some() && timing.iters == 0,
        sentence: "--precision times until the mean is known, but -n 0 times nothing. Use only \
                   one of them",
    },
    Conflict {
        exists: |_, timing| timing.repeat_for.is_some() && timing.cycles != 1,
        sentence: "--time repeats the sweep until the time is over, and -N a number of times. Use \
                   only one of them",
    },
    Conflict {
        exists: |_, timing| timing.repeat_for.is_some() && timing.iters == 0,
        sentence: "--time measures throughput over time, but -n 0 times nothing. Use only one of \
                   them",
    },
    Conflict {
        exists: |exec, _| waits_inside(exec.blocking) && exec.aggregate > 1,
        sentence: "-z 1 and -z 2 wait for each operation, but those of a group (-m) start \
                   together. Use -z 3, or drop -m",
    },
];

impl Request {
    /// Refuses what cannot be combined, or cannot be at all.
    ///
    /// # Errors
    ///
    /// Returns an error if the request contradicts itself. Every rank has the same request and so
    /// the same error.
    pub fn check(&self) -> anyhow::Result<()> {
        self.check_sweep()?;
        self.check_execution()?;
        if self.inject_delay.is_some() && !self.stragglers {
            return usage(
                "an injected delay acts on the search for stragglers only. Add --stragglers",
            );
        }
        self.check_resume()
    }

    fn check_sweep(&self) -> anyhow::Result<()> {
        let SweepSpec {
            collectives,
            begin,
            end,
            ..
        } = &self.spec;
        if collectives.is_empty() {
            return usage("no collective given. Name one, such as all_reduce, or all");
        }
        if self.files.is_drop_in && collectives.len() > 1 {
            return usage(
                "under a name of nccl-tests only that collective runs. Remove the other one",
            );
        }
        if begin > end {
            return usage(&format!(
                "the smallest size -b {begin} is larger than the largest -e {end}"
            ));
        }
        if self.planned_ranks.is_some() && self.backend != BackendChoice::Model && !self.list {
            return usage(
                "--ranks plans for ranks that are not running. Use it with --backend model or \
                 --list",
            );
        }
        let is = |preset: Option<&Preset>, name| preset.is_some_and(|preset| preset.name == name);
        if is(self.presets.level, "off") && is(self.presets.network, "pxn") {
            return usage(
                "--level off forbids the relays that --network pxn asks for. Leave one of them out",
            );
        }
        if matches!(self.spec.step, SizeStep::Add(bytes) if bytes.0 == 0) {
            return usage(
                "-i 0 never reaches the next size. Use a larger step, or a factor with -f",
            );
        }
        Ok(())
    }

    fn check_execution(&self) -> anyhow::Result<()> {
        let mut conflicts = CONFLICTS.iter();
        if let Some(found) = conflicts.find(|one| (one.exists)(&self.exec, &self.timing)) {
            return Err(Failure::on_all_ranks(Code::Usage, found.sentence));
        }
        self.check_repetitions()
    }

    /// Refuses numbers that are a mistake: the run would take days, and looks as if it hung.
    fn check_repetitions(&self) -> anyhow::Result<()> {
        let numbers = [
            ("-w", self.timing.warmup),
            ("-c", self.timing.checks),
            ("-m", self.exec.aggregate),
        ];
        for (flag, number) in numbers {
            if number > MOST_REPETITIONS {
                let what = format!("{flag} {number} is too many. Use at most {MOST_REPETITIONS}");
                return usage(&what);
            }
        }
        let factors = [
            self.timing.iters,
            self.exec.operations(),
            self.exec.rounds(),
        ];
        let operations = factors
            .map(u64::from)
            .into_iter()
            .fold(1, u64::saturating_mul);
        if operations > MOST_OPERATIONS {
            let what = format!(
                "-n, -m and -G make {operations} timed operations of each case, more than \
                 {MOST_OPERATIONS}. To measure for a long time, use --time"
            );
            return usage(&what);
        }
        Ok(())
    }

    /// Refuses to resume from a CSV whose rows do not say which case they are.
    fn check_resume(&self) -> anyhow::Result<()> {
        if !self.files.resume {
            return Ok(());
        }
        if self.files.finds_earlier_run() && (self.files.json.is_some() || self.files.is_drop_in) {
            return usage(
                "--resume needs the CSV of the earlier run. Name it with --csv, or its folder \
                 with --out",
            );
        }
        // A value that cannot be read is reported later, by all ranks together.
        let split = Split::from_env(&crate::env::var).ok().flatten();
        let conflict = if self.timing.cycles != 1 {
            "-N: it resumes a single pass over the sizes".to_owned()
        } else if self.timing.repeat_for.is_some() {
            "--time: it resumes a single pass over the sizes".to_owned()
        } else if split.is_some() {
            format!("{SPLIT}: a case may have been measured on some communicators only")
        } else {
            return Ok(());
        };
        let what = format!("--resume cannot be combined with {conflict}");
        Err(Failure::on_all_ranks(Code::Usage, what))
    }
}

/// Returns whether a process waits for each operation.
fn waits_inside(blocking: Blocking) -> bool {
    matches!(blocking, Blocking::Operation | Blocking::OperationAndRanks)
}

fn usage(what: &str) -> anyhow::Result<()> {
    let what = format!("{what}. See pxnbench --help");
    Err(Failure::on_all_ranks(Code::Usage, what))
}
