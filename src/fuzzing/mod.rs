//! What is done with bytes that may stand in each input: they are read as the program reads them,
//! and what must hold of the result is asserted. `fuzz/` does it with bytes that it makes up, the
//! test here with those in `tests/fuzz-corpus`.
//!
//! This module and those of the same name below others are in tests and in the fuzzer only. A
//! target whose parser is private has its function beside the parser.

mod command_line;
mod environment;
mod nccl_log;
mod rehearsal;
mod results;
mod text;
mod topology;
mod workload;

/// A parser, under the name of its corpus.
#[derive(Clone, Copy)]
pub struct FuzzTarget {
    /// Its name.
    pub name: &'static str,
    /// Reads bytes. It panics if something does not hold that must.
    pub read: fn(&[u8]),
}

/// All parsers.
pub const TARGETS: [FuzzTarget; 27] = [
    target("command_line", command_line::read),
    target("environment", environment::read),
    target("experiment", crate::compare::fuzzing::read),
    target("hostfile", text::hostfile),
    target("kube_archive", crate::kube::fuzzing::archive),
    target("kube_objects", crate::kube::fuzzing::objects),
    target("launch_json", crate::launch::fuzzing::memo),
    target("matrix", text::matrix),
    target("nccl_log", nccl_log::read),
    target("node_list", text::node_list),
    target("nvml_json", topology::nvml),
    target("rail_counters", rehearsal::counters),
    target("recipe", text::recipe),
    target("rehearsal", rehearsal::theory),
    target("rehearsal_json", rehearsal::recorded),
    target("replay_files", crate::compare::fuzzing::replay),
    target("report", crate::report::fuzzing::read),
    target("results_csv", results::csv),
    target("run_json", results::run_json),
    target("site_conf", crate::launch::fuzzing::site),
    target("size", text::size),
    target("tables", text::tables),
    target("tcp", crate::world::tcp::fuzzing::read),
    target("topology", topology::read),
    target("watch", crate::world::watch::fuzzing::read),
    target("workload", workload::file),
    target("workload_trace", workload::trace),
];

const fn target(name: &'static str, read: fn(&[u8])) -> FuzzTarget {
    FuzzTarget { name, read }
}

/// Returns the target of this name.
pub fn find(name: &str) -> Option<FuzzTarget> {
    TARGETS.into_iter().find(|target| target.name == name)
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path, time::Duration};

    use rustix::time::{ClockId, clock_gettime};

    use super::*;

    /// The most processor time for an input, in a build that is not optimized.
    const MOST_TIME: Duration = Duration::from_secs(10);

    fn processor_time() -> Duration {
        let now = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
    }

    #[test]
    fn every_kept_input_is_read() {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz-corpus");
        for target in TARGETS {
            let folder = corpus.join(target.name);
            let entries = fs::read_dir(&folder).expect("a corpus");
            let mut count = 0;
            for entry in entries {
                let path = entry.expect("an entry").path();
                let bytes = fs::read(&path).expect("bytes");
                eprintln!("{}", path.display());
                let before = processor_time();
                (target.read)(&bytes);
                assert!(processor_time() - before < MOST_TIME, "it takes too long");
                count += 1;
            }
            assert!(count > 0, "{} is empty", folder.display());
        }
    }

    #[test]
    fn every_corpus_has_a_target() {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz-corpus");
        let folders = fs::read_dir(corpus).expect("corpora");
        let folders: BTreeSet<String> = folders
            .map(|entry| entry.expect("an entry").file_name())
            .map(|name| name.to_string_lossy().into_owned())
            .collect();
        let targets: BTreeSet<String> = TARGETS.map(|target| target.name.to_owned()).into();
        assert_eq!(folders, targets);
    }
}
