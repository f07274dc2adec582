//! A machine whose GPUs are stand-ins.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use crate::{
    ROOT,
    common::{self, Ended, alone, csv, has_mpi, mpirun, run, skip},
};

/// The sources of the stand-ins.
const SOURCES: [&str; 9] = [
    include_str!("build.sh"),
    include_str!("builtins.h"),
    include_str!("kinds.h"),
    include_str!("standin.h"),
    include_str!("cuda.cpp"),
    include_str!("nccl.cpp"),
    include_str!("nvml.cpp"),
    include_str!("../../src/backend/nccl/kernels.cu"),
    include_str!("../../src/backend/nccl/compute.cu"),
];

/// Returns the folder with the libraries, which are built once for all tests; `None`, with a
/// message, if there is no C++ compiler.
fn libraries() -> Option<PathBuf> {
    if !cfg!(feature = "nccl") {
        skip("nccl", "the feature nccl is off");
        return None;
    }
    if Command::new("c++").arg("--version").output().is_err() {
        skip(
            "c++",
            "c++ does not run, so that no stand-in for a GPU can be built",
        );
        return None;
    }
    let hash = common::fnv(SOURCES.into_iter().flat_map(str::bytes));
    let all = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let built = all.join(format!("standin-{hash:016x}"));
    if !built.exists() {
        let fresh = tempfile::tempdir_in(all).expect("a folder").keep();
        let script = Path::new(ROOT).join("tests/standin/build.sh");
        run(Command::new(script).arg(&fresh)).expect_code(0);
        // Whole or not at all. Where another test process was faster, its libraries are the ones.
        if fs::rename(&fresh, &built).is_err() {
            fs::remove_dir_all(&fresh).expect("removed");
        }
    }
    Some(built)
}

/// A machine with GPUs.
pub(crate) struct Machine {
    pub(crate) libraries: PathBuf,
    folder: tempfile::TempDir,
    gpus: u32,
}

impl Machine {
    /// One with `gpus` GPUs, or nothing if there are no stand-ins.
    pub(crate) fn with(gpus: u32) -> Option<Machine> {
        has_mpi().then(|| Machine::without_mpi(gpus))?
    }

    /// As [`Machine::with`], whose files are in memory.
    pub(crate) fn in_memory(gpus: u32) -> Option<Machine> {
        let machine = Machine::with(gpus)?;
        Some(Machine {
            folder: common::folder_in_memory(),
            ..machine
        })
    }

    /// One with `gpus` GPUs, for ranks that need no MPI.
    pub(crate) fn without_mpi(gpus: u32) -> Option<Machine> {
        Some(Machine {
            libraries: libraries()?,
            folder: tempfile::tempdir().expect("a folder"),
            gpus,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// That command, on this machine.
    pub(crate) fn on(&self, mut command: Command) -> Command {
        command
            .env("LD_LIBRARY_PATH", &self.libraries)
            .env("STANDIN_GPUS", self.gpus.to_string())
            .env("STANDIN_FOLDER", self.path());
        command
    }

    /// `processes` of the program, or it alone without mpirun.
    pub(crate) fn start(&self, processes: u32, words: &str) -> Command {
        let bare = if processes == 1 {
            alone(self.path())
        } else {
            mpirun(processes, self.path())
        };
        let mut command = self.on(bare);
        command
            .args(words.split_whitespace())
            .args(["--backend", "nccl"]);
        command
    }

    /// That command, on this machine with NVML, whose GPUs follow `script`.
    pub(crate) fn with_nvml(&self, mut command: Command, script: &str) -> Command {
        let mut paths = self.libraries.join("nvml").into_os_string();
        paths.push(":");
        paths.push(&self.libraries);
        command
            .env("LD_LIBRARY_PATH", paths)
            .env("STANDIN_NVML", script);
        command
    }

    /// A sweep that finds nothing wrong; its rows.
    #[track_caller]
    pub(crate) fn sweep(&self, processes: u32, words: &str) -> Sweep {
        let file = self.path().join("sweep.csv");
        let _ = fs::remove_file(&file);
        let ended = run(self
            .start(processes, words)
            .args(["-c", "1", "--csv"])
            .arg(&file))
        .expect_code(0);
        let rows = csv(&file);
        let checked = rows.iter().filter(|row| row["wrong"] == "0").count();
        let unchecked = rows.iter().filter(|row| row["wrong"].is_empty()).count();
        assert!(
            checked > 0 && checked + unchecked == rows.len(),
            "{words}\n{}",
            ended.stdout
        );
        Sweep { ended, rows }
    }

    /// A sweep that ends in another way than it should, because of `fault`.
    pub(crate) fn broken(&self, processes: u32, fault: &str, words: &str) -> Ended {
        let began = Instant::now();
        let ended = run(self.start(processes, words).env("STANDIN_FAULT", fault));
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "{fault}: {:?}",
            began.elapsed()
        );
        assert!(
            !ended.stderr.contains("stand-in: ") && !ended.stderr.contains("panicked"),
            "{fault}\n{}",
            ended.stderr
        );
        ended
    }
}

pub(crate) struct Sweep {
    pub(crate) ended: Ended,
    pub(crate) rows: Vec<BTreeMap<String, String>>,
}
