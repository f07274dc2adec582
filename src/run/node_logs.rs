//! [`NodeLogs`]: the kernel log and the counters of memory control groups, asked for why a rank
//! died or its GPU failed.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::context::RunContext;
use crate::{
    exit::Code,
    facts::{
        self,
        kernel_log::{self, KernelLine},
        oom_kills::{self, OomKills},
    },
    units::counted,
    visible::beginning,
    world::cause::{LossCause, SystemLogs},
};

/// The logs of the node of this process, and their state when the run began: only what came later
/// counts.
pub(super) struct NodeLogs {
    /// The root of the file system.
    root: PathBuf,
    oom_kills: OomKills,
    /// When the run began, in microseconds since the machine started.
    since_us: u64,
    /// The addresses of the GPUs that the ranks of this node use.
    gpus: Vec<String>,
}

/// How many characters of a line of the kernel log are quoted.
const SHOWN: usize = 200;

impl NodeLogs {
    /// Opens the logs of this node for a run that begins now.
    pub(super) fn of_run(context: &RunContext) -> NodeLogs {
        let node = context.placements[context.world.rank() as usize].node;
        let gpus = context.gpus_of_node(node).into_iter();
        let gpus = gpus.map(|gpu| gpu.bus.clone()).collect();
        NodeLogs::new(Path::new("/"), gpus)
    }

    fn new(root: &Path, gpus: Vec<String>) -> NodeLogs {
        let uptime = fs::read_to_string(root.join("proc/uptime")).unwrap_or_default();
        let uptime: f64 = uptime
            .split(' ')
            .next()
            .and_then(|seconds| seconds.parse().ok())
            .unwrap_or_default();
        let began = uptime - facts::process_age_s().unwrap_or_default();
        NodeLogs {
            root: root.to_owned(),
            oom_kills: oom_kills::read(root),
            since_us: (began.max(0.0) * 1e6) as u64,
            gpus,
        }
    }

    /// Returns the lines of the kernel log since the run began.
    fn kernel_lines(&self) -> Result<Vec<KernelLine>, String> {
        let mut lines = kernel_log::read(&self.root)?;
        lines.retain(|line| line.at_us >= self.since_us);
        Ok(lines)
    }

    /// Returns what `lines` of the kernel log say of the GPUs of this node, if anything.
    fn gpu_error(&self, lines: &[KernelLine]) -> Option<String> {
        let errors = kernel_log::gpu_errors(lines, &self.gpus);
        let last = errors.last()?;
        let kind = match kernel_log::is_ecc_error(&last.text) {
            true => "an ECC error of a GPU",
            false => "an error of a GPU",
        };
        Some(format!(
            "the kernel log of this node has {kind}: {}",
            beginning(&last.text, SHOWN)
        ))
    }
}

impl SystemLogs for NodeLogs {
    fn on_lost_process(&self, pid: u32) -> LossCause {
        let lines = self.kernel_lines();
        let logged = lines.as_deref().unwrap_or_default();
        if kernel_log::has_our_process_ids(&self.root)
            && let Some(line) = kernel_log::end_of_process(logged, pid)
        {
            return LossCause {
                is_killed: true,
                clause: format!("the kernel log says: {}", beginning(&line.text, SHOWN)),
            };
        }
        if let Some((file, kills)) = oom_kills::grown(&self.oom_kills, &oom_kills::read(&self.root))
        {
            return LossCause {
                is_killed: true,
                clause: format!(
                    "memory ran out: {file} counts {} since the start. Request more memory \
                     (--mem), or use smaller sizes",
                    counted(kills, "out-of-memory kill")
                ),
            };
        }
        let clause = self.gpu_error(logged).unwrap_or_else(|| match &lines {
            Ok(_) => "the cause is unknown: neither the kernel log nor a memory control group \
                      shows one. Look at the output of that rank"
                .into(),
            Err(why) => format!(
                "the cause is unknown: no memory control group counted an out-of-memory kill, and \
                 the kernel log cannot be read ({why}). Look at dmesg there as root"
            ),
        });
        LossCause {
            is_killed: false,
            clause,
        }
    }

    fn on_own_failure(&self, code: Code) -> Option<String> {
        let is_of_gpus = matches!(code, Code::Cuda | Code::Nccl | Code::TimedOut);
        if !is_of_gpus || self.gpus.is_empty() {
            return None;
        }
        self.gpu_error(&self.kernel_lines().ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUP: &str = "sys/fs/cgroup/job_7/memory.events";

    /// A machine that has run for an hour.
    struct Node(tempfile::TempDir);

    impl Node {
        fn new() -> Node {
            let node = Node(tempfile::tempdir().expect("a folder"));
            node.write("proc/uptime", "3600.00 7000.00\n");
            node.write("proc/self/cgroup", "0::/job_7\n");
            node.write(GROUP, "oom 0\noom_kill 0\n");
            fs::create_dir_all(node.0.path().join("proc/self/ns")).expect("made");
            let link = node.0.path().join("proc/self/ns/pid");
            std::os::unix::fs::symlink("pid:[4026531836]", link).expect("linked");
            node
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.0.path().join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            fs::write(path, text).expect("written");
        }

        fn log(&self, lines: &[(u64, &str)]) {
            let line =
                |(second, text): &(u64, &str)| format!("4,9,{},-;{text}\n", second * 1_000_000);
            self.write("dev/kmsg", &lines.iter().map(line).collect::<String>());
        }

        fn logs(&self) -> NodeLogs {
            NodeLogs::new(self.0.path(), vec!["0000:18:00".into()])
        }
    }

    #[test]
    fn memory_that_ran_out_is_the_reason() {
        let node = Node::new();
        let logs = node.logs();
        let killed = "Memory cgroup out of memory: Killed process 42 (pxnbench) total-vm:7kB";
        node.log(&[(3601, killed)]);
        let told = logs.on_lost_process(42);
        assert_eq!(
            told.clause,
            format!("the kernel log says: {killed}"),
            "{told:?}"
        );
        assert!(told.is_killed);
        assert!(!logs.on_lost_process(43).is_killed);
        node.write(GROUP, "oom 1\noom_kill 1\n");
        let told = logs.on_lost_process(43);
        assert!(
            told.is_killed
                && told
                    .clause
                    .contains("/job_7/memory.events counts 1 out-of-memory kill since"),
            "{told:?}"
        );
    }

    #[test]
    fn what_was_before_the_run_is_no_reason() {
        let node = Node::new();
        node.write(GROUP, "oom 1\noom_kill 1\n");
        let killed = "Out of memory: Killed process 42 (pxnbench) total-vm:7kB";
        node.log(&[(60, killed)]);
        let told = node.logs().on_lost_process(42);
        assert_eq!(
            told.clause,
            "the cause is unknown: neither the kernel log nor a memory control group shows one. \
             Look at the output of that rank"
        );
        fs::remove_file(node.0.path().join("dev/kmsg")).expect("removed");
        let told = node.logs().on_lost_process(42);
        assert!(
            told.clause.contains("cause is unknown") && told.clause.contains("(/dev/kmsg: No such"),
            "{told:?}"
        );
    }

    #[test]
    fn the_error_of_a_gpu_of_the_run_is_said() {
        let node = Node::new();
        let logs = node.logs();
        node.log(&[
            (
                3601,
                "NVRM: Xid (PCI:0000:18:00): 94, pid=42, name=pxnbench, Contained: SM (0x1)",
            ),
            (
                3602,
                "NVRM: Xid (PCI:0000:99:00): 79, GPU has fallen off the bus.",
            ),
        ]);
        let told = logs.on_own_failure(Code::Cuda).expect("an error");
        assert!(
            told.starts_with(
                "the kernel log of this node has an ECC error of a GPU: NVRM: Xid \
                 (PCI:0000:18:00): 94"
            ),
            "{told}"
        );
        assert_eq!(logs.on_own_failure(Code::Usage), None);
        assert!(
            logs.on_lost_process(42)
                .clause
                .contains("Xid (PCI:0000:18:00)")
        );
    }
}
