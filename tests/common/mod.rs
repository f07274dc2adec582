//! What the tests share: the binary, alone and under mpirun, and what it wrote.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test file uses a part of it"
)]
#![allow(missing_docs, reason = "tests")]

pub mod disk_fault;
pub mod evidence;
pub mod guard;
pub mod pages;
pub mod preload;
pub mod sentences;
mod skipping;
pub mod steps;
pub mod wall_clock;

use std::{
    collections::BTreeMap,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU16, AtomicU32, Ordering},
    time::{Duration, Instant},
};

pub use skipping::skip;

pub const BINARY: &str = env!("CARGO_BIN_EXE_pxnbench");

/// Nothing that the tests run takes longer, also on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

/// How a run ended.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
    pub took: Duration,
}

impl Ended {
    /// The lines on stderr that the program itself wrote as errors or remarks; mpirun adds its own.
    pub fn sentences(&self) -> Vec<&str> {
        self.stderr
            .lines()
            .filter(|line| line.starts_with("pxnbench: "))
            .collect()
    }

    /// The rows of the table: those that do not begin with `#`.
    pub fn rows(&self) -> Vec<Vec<&str>> {
        let lines = self
            .stdout
            .lines()
            .filter(|line| !line.starts_with('#') && !line.trim().is_empty());
        lines
            .map(|line| line.split_whitespace().collect())
            .collect()
    }

    #[track_caller]
    pub fn expect_code(self, code: i32) -> Ended {
        assert_eq!(
            self.code,
            Some(code),
            "stdout:\n{}\nstderr:\n{}",
            self.stdout,
            self.stderr
        );
        self
    }
}

/// Runs `command` to its end, and fails the test if it does not come.
#[track_caller]
pub fn run(command: &mut Command) -> Ended {
    run_within(command, LIMIT)
}

/// As [`run`], for what takes longer than a test should.
#[track_caller]
pub fn run_within(command: &mut Command, limit: Duration) -> Ended {
    let started = Instant::now();
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let child = child.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let ended = ended_within(child, limit);
    let ended = ended.unwrap_or_else(|| panic!("{command:?} did not end within {limit:?}"));
    Ended {
        took: started.elapsed(),
        ..ended
    }
}

/// Waits for the end of a child whose output is piped, and fails the test if it does not come.
#[track_caller]
pub fn ended(child: Child) -> Ended {
    ended_within(child, LIMIT).expect("it ends in time")
}

/// Returns how a child ended, or nothing if it has not within `limit`, and was killed.
fn ended_within(child: Child, limit: Duration) -> Option<Ended> {
    let started = Instant::now();
    let pid = child.id();
    let watch = std::thread::spawn(move || child.wait_with_output());
    while !watch.is_finished() {
        if started.elapsed() > limit {
            send_signal("-KILL", pid);
            return None;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let output = watch
        .join()
        .expect("the watching thread")
        .expect("its output");
    Some(Ended {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        took: started.elapsed(),
    })
}

/// Waits until something holds, and fails the test if that takes too long.
#[track_caller]
pub fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < LIMIT, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Sends a signal, such as `-TERM`, and returns whether there is such a process.
pub fn send_signal(signal: &str, process: u32) -> bool {
    let words = [signal.to_owned(), process.to_string()];
    let status = Command::new("kill").args(words).status();
    status.expect("kill").success()
}

/// The binary alone, in `folder`, without what a launcher or the user may have set.
pub fn alone(folder: &Path) -> Command {
    program(Path::new(BINARY), folder)
}

/// As [`alone`], in a shell that runs `before` first, such as `ulimit -n 16`.
pub fn after(before: &str, folder: &Path) -> Command {
    let mut command = program(Path::new("bash"), folder);
    let script = format!("{before}\nexec \"$0\" \"$@\"");
    command.args(["-c", &script, BINARY]);
    command
}

/// As [`alone`], under another name of the binary.
pub fn program(path: &Path, folder: &Path) -> Command {
    let mut command = Command::new(path);
    clean(&mut command);
    own_mpi_session(&mut command, folder);
    command.current_dir(folder);
    command
}

/// The binary under mpirun on `ranks` ranks of this machine.
pub fn mpirun(ranks: u32, folder: &Path) -> Command {
    let mut command = launcher(folder);
    command.args(["-np", &ranks.to_string(), BINARY]);
    command
}

/// mpirun, without what it is to start.
pub fn launcher(folder: &Path) -> Command {
    let mut command = Command::new("mpirun");
    clean(&mut command);
    own_mpi_session(&mut command, folder);
    command.current_dir(folder).envs(MPIRUN_VARIABLES);
    command
}

/// What mpirun needs on a machine with few cores, and in a container.
pub const MPIRUN_VARIABLES: [(&str, &str); 4] = [
    ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
    ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
    ("OMPI_MCA_rmaps_base_oversubscribe", "1"),
    ("OMPI_MCA_mpi_yield_when_idle", "1"),
];

/// Gives `command` a session folder of its own below `folder`, if it starts Open MPI. All jobs of a
/// user on a machine share one otherwise, `/tmp/ompi.HOST.UID`, which a job that ends removes while
/// the next one makes its own in it: "mkdir … File exists", and `orte_init` fails. Open MPI makes
/// the folder; who removes `folder` removes it too.
fn own_mpi_session(command: &mut Command, folder: &Path) {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let session = folder.join(format!(".mpi/{number}"));
    let session = std::path::absolute(session).expect("a current folder");
    for name in MPI_SESSION_VARIABLES {
        command.env(name, &session);
    }
}

/// The variables that name the parent of the session folder: those of Open MPI 4, and of Open MPI
/// 5's mpirun.
const MPI_SESSION_VARIABLES: [&str; 2] = ["OMPI_MCA_orte_tmpdir_base", "PRTE_MCA_prte_tmpdir_base"];

/// Takes out what a launcher or the user may have set.
pub fn clean(command: &mut Command) {
    for (name, _) in std::env::vars() {
        if [
            "SLURM",
            "PMI",
            "OMPI_COMM",
            "NCCL",
            "CUDA",
            "TORCHELASTIC",
            "MASTER_",
        ]
        .iter()
        .any(|prefix| name.starts_with(prefix))
        {
            command.env_remove(name);
        }
    }
}

/// Can ranks be started here? Says aloud when a test is skipped; where `PXNBENCH_REQUIRE` names MPI
/// that is a failure.
#[must_use]
pub fn has_mpi() -> bool {
    let there = cfg!(feature = "mpi") && Command::new("mpirun").arg("--version").output().is_ok();
    there || skip("mpi", "mpirun is not here, or the feature mpi is off")
}

/// Returns a port of this machine that is free. It is below those that the system gives to
/// connections.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let process = std::process::id() as u16 % 120;
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed) % 100;
        let port = 20_000 + process * 100 + number;
        if TcpListener::bind(("0.0.0.0", port)).is_ok() {
            return port;
        }
    }
}

/// Lets `command` find the ssh of `tests/data/ssh`, whose hosts are this machine.
pub fn use_test_ssh(command: &mut Command) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/ssh");
    let path = std::env::var("PATH").expect("a PATH");
    command.env("PATH", format!("{}:{path}", folder.display()));
}

/// FNV-1a of 64 bits, as in `scripts/make-ptx.sh`.
pub fn fnv(bytes: impl IntoIterator<Item = u8>) -> u64 {
    let step = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, step)
}

/// The rows of a CSV file, by column.
pub fn csv(path: &Path) -> Vec<BTreeMap<String, String>> {
    let mut reader =
        csv::Reader::from_path(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    reader
        .deserialize()
        .map(|row| row.expect("a row"))
        .collect()
}

/// A JSON file.
pub fn json(path: &Path) -> serde_json::Value {
    let text =
        std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).expect("valid JSON")
}

/// Returns a folder in memory, if this system has one. mpirun leaves a rank a second to save what
/// was measured, and the disk of a busy machine may take longer.
pub fn folder_in_memory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .expect("a folder")
}

/// The only entry of `folder`.
pub fn only_entry(folder: &Path) -> PathBuf {
    let entries: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("a folder")
        .map(|e| e.expect("an entry").path())
        .collect();
    assert_eq!(entries.len(), 1, "{entries:?}");
    entries[0].clone()
}

/// Processes whose command line names `what`.
pub fn processes_with(what: &str) -> Vec<u32> {
    let all = std::fs::read_dir("/proc").expect("/proc").flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(what)
    })
    .collect()
}

/// The process of a rank whose command line names `what` and whose environment has its number.
pub fn process_of_rank(what: &str, rank: u32) -> Option<u32> {
    process_with_variable(what, &format!("RANK={rank}"))
}

/// As [`process_of_rank`], of a rank that Open MPI's mpirun started.
pub fn process_of_mpi_rank(what: &str, rank: u32) -> Option<u32> {
    process_with_variable(what, &format!("OMPI_COMM_WORLD_RANK={rank}"))
}

fn process_with_variable(what: &str, variable: &str) -> Option<u32> {
    processes_with(what).into_iter().find(|pid| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let mut variables = environment.split(|byte| *byte == 0);
        variables.any(|one| one == variable.as_bytes())
    })
}

/// Compares `text` with a file in `tests/golden`, after taking out what differs from run to run.
/// `UPDATE_GOLDEN=1 cargo test` rewrites the files.
#[track_caller]
pub fn golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name);
    let text = stable(text);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &text).expect("written");
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        text,
        expected,
        "{}; UPDATE_GOLDEN=1 rewrites it",
        path.display()
    );
}

/// Times, the version, this machine's names and process ids as placeholders.
fn stable(text: &str) -> String {
    let lines = text.replace("\r\n", "\n");
    let stable = lines.lines().map(|line| {
        if line.starts_with("#  Rank") {
            return "#  Rank <device line>".to_owned();
        }
        let words = line.split_inclusive([' ', ',', '"', '\n']).map(|word| {
            let bare = word.trim_end_matches([' ', ',', '"', '\n']);
            let rest = &word[bare.len()..];
            let is_time = bare.len() == 25 && bare.as_bytes()[10] == b'T';
            let is_run_id = bare.len() > 16
                && bare.as_bytes()[bare.len() - 7] == b'T'
                && bare.starts_with("all_");
            match bare {
                _ if is_time => format!("<time>{rest}"),
                _ if is_run_id => format!("<run>{rest}"),
                env!("CARGO_PKG_VERSION") => format!("<version>{rest}"),
                _ => word.to_owned(),
            }
        });
        words.collect::<String>()
    });
    stable.map(|line| line + "\n").collect()
}
