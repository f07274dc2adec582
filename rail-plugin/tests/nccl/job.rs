//! Two processes that load the plugin.

use std::{
    env, fs,
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;
use tempfile::TempDir;

use crate::gpu;

/// Variables that tell a process what it is.
pub(crate) const FOLDER: &str = "RAILS_TEST_FOLDER";
pub(crate) const SCENARIO: &str = "RAILS_TEST_SCENARIO";
pub(crate) const VERSION: &str = "RAILS_TEST_VERSION";
pub(crate) const RANK: &str = "OMPI_COMM_WORLD_RANK";

/// Nothing here takes longer, also on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// Two processes that are to run.
pub(crate) struct Job {
    folder: TempDir,
    variables: Vec<(String, String)>,
    has_valgrind: bool,
}

impl Job {
    pub(crate) fn new(scenario: &str) -> Job {
        let job = Job {
            folder: tempfile::tempdir().expect("a folder"),
            variables: Vec::new(),
            has_valgrind: false,
        };
        fs::create_dir(job.folder.path().join("counters")).expect("a folder");
        job.set(SCENARIO, scenario)
    }

    pub(crate) fn set(mut self, name: &str, value: &str) -> Job {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn version(self, version: u32) -> Job {
        self.set(VERSION, &version.to_string())
    }

    /// Adds the stand-in for libcuda; `None`, with a message, if it cannot be built.
    pub(crate) fn with_gpu(self) -> Option<Job> {
        let folder = gpu::library_folder()?;
        Some(self.set("LD_LIBRARY_PATH", folder.to_str().expect("a name")))
    }

    pub(crate) fn under_valgrind(mut self) -> Job {
        self.has_valgrind = true;
        self
    }

    fn start(&self, rank: u32) -> Child {
        let test = env::current_exe().expect("this test");
        let mut command = if self.has_valgrind {
            let mut valgrind = Command::new("valgrind");
            valgrind.args(["--quiet", "--error-exitcode=99", "--exit-on-first-error=no"]);
            valgrind.arg(test);
            valgrind
        } else {
            Command::new(test)
        };
        for (name, _) in env::vars_os() {
            if name.to_string_lossy().starts_with("PXNBENCH_RAIL") {
                command.env_remove(name);
            }
        }
        command
            .args(["--exact", "process", "--ignored", "--nocapture"])
            .env(FOLDER, self.folder.path())
            .env(RANK, rank.to_string())
            .env("NCCL_HOSTID", format!("node{rank}"))
            .env(
                "PXNBENCH_RAIL_COUNTERS",
                self.folder.path().join("counters"),
            )
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.spawn().expect("a process")
    }

    /// Runs both processes to their ends.
    #[track_caller]
    pub(crate) fn run(self) -> EndedJob {
        let children = [0, 1].map(|rank| self.start(rank));
        let ended = thread::scope(|scope| {
            let waits = children.map(|child| scope.spawn(|| wait(child)));
            waits.map(|wait| wait.join().expect("a thread"))
        });
        EndedJob { job: self, ended }
    }
}

/// Waits for a process, and ends it if it takes too long.
fn wait(mut child: Child) -> Output {
    let pid = child.id();
    let began = Instant::now();
    let (mut stdout, mut stderr) = (
        child.stdout.take().expect("a pipe"),
        child.stderr.take().expect("a pipe"),
    );
    let read = |pipe: &mut dyn std::io::Read| {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).expect("its output");
        bytes
    };
    let (stdout, stderr, status) = thread::scope(|scope| {
        let stdout = scope.spawn(move || read(&mut stdout));
        let stderr = scope.spawn(move || read(&mut stderr));
        let status = loop {
            if let Some(status) = child.try_wait().expect("a child") {
                break status;
            }
            if began.elapsed() > LIMIT {
                child.kill().expect("ended");
            }
            thread::sleep(Duration::from_millis(5));
        };
        let joined = |handle: thread::ScopedJoinHandle<'_, Vec<u8>>| handle.join().expect("read");
        (joined(stdout), joined(stderr), status)
    });
    assert!(began.elapsed() < LIMIT, "process {pid} ends in time");
    Output {
        status,
        stdout,
        stderr,
    }
}

/// How both processes ended.
pub(crate) struct EndedJob {
    job: Job,
    ended: [Output; 2],
}

impl EndedJob {
    pub(crate) fn output(&self, rank: usize) -> String {
        let Output { stdout, stderr, .. } = &self.ended[rank];
        [stdout, stderr]
            .map(|text| String::from_utf8_lossy(text))
            .concat()
    }

    pub(crate) fn failed(&self, rank: usize) -> bool {
        !self.ended[rank].status.success()
    }

    #[track_caller]
    pub(crate) fn expect_success(self) -> EndedJob {
        for rank in [0, 1] {
            let output = self.output(rank);
            assert!(!self.failed(rank), "rank {rank}:\n{output}");
            // A name of a test that does not exist ends well too.
            assert!(output.contains("1 passed"), "rank {rank}:\n{output}");
        }
        self
    }

    /// Returns what both processes have counted.
    #[track_caller]
    pub(crate) fn counters(self) -> [Value; 2] {
        [0, 1].map(|rank| {
            let name = format!("counters/rails-{rank}.json");
            let text = fs::read(self.job.folder.path().join(name)).expect("counters");
            serde_json::from_slice(&text).expect("JSON")
        })
    }
}
