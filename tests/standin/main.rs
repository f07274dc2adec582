//! All of the program's code for GPUs, where there is none: on stand-ins for libcuda and libnccl (`standin.h`), which run
//! the real kernels on the processor and refuse what the real libraries refuse.
//!
//! What they cannot show is left to `scripts/gpu-check.sh` on real GPUs; that script itself is run here too.

#[path = "../common/mod.rs"]
mod common;

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use common::{
    Ended, alone, csv, has_mpi, json, launcher, mpirun, only_entry, run, run_within, skip,
};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// What the stand-ins are made of.
const SOURCES: [&str; 7] = [
    include_str!("build.sh"),
    include_str!("builtins.h"),
    include_str!("kinds.h"),
    include_str!("standin.h"),
    include_str!("cuda.cpp"),
    include_str!("nccl.cpp"),
    include_str!("../../src/backend/nccl/kernels.cu"),
];

/// The folder with the libraries; `None`, said aloud, where there is no C++ compiler. They are built once for all tests.
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
struct Machine {
    libraries: PathBuf,
    folder: tempfile::TempDir,
    gpus: u32,
}

impl Machine {
    /// One with `gpus` GPUs, or nothing where none can be had.
    fn with(gpus: u32) -> Option<Machine> {
        let libraries = has_mpi().then(libraries)??;
        Some(Machine {
            libraries,
            folder: tempfile::tempdir().expect("a folder"),
            gpus,
        })
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// That command, on this machine.
    fn on(&self, mut command: Command) -> Command {
        command
            .env("LD_LIBRARY_PATH", &self.libraries)
            .env("STANDIN_GPUS", self.gpus.to_string())
            .env("STANDIN_FOLDER", self.path());
        command
    }

    /// `processes` of the program, or it alone without mpirun.
    fn start(&self, processes: u32, words: &str) -> Command {
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

    /// A sweep that finds nothing wrong; its rows.
    #[track_caller]
    fn sweep(&self, processes: u32, words: &str) -> Sweep {
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
    fn broken(&self, processes: u32, fault: &str, words: &str) -> Ended {
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

struct Sweep {
    ended: Ended,
    rows: Vec<BTreeMap<String, String>>,
}

/// How ranks are spread over processes.
#[derive(Clone, Copy, Debug)]
struct Layout {
    processes: u32,
    /// What gives a process its GPUs.
    options: &'static str,
}

/// Ways to have four ranks on four GPUs.
const FOUR: [Layout; 6] = [
    Layout {
        processes: 4,
        options: "",
    },
    Layout {
        processes: 2,
        options: "-g 2",
    },
    Layout {
        processes: 2,
        options: "-t 2",
    },
    Layout {
        processes: 1,
        options: "-g 4",
    },
    Layout {
        processes: 1,
        options: "-t 4",
    },
    Layout {
        processes: 1,
        options: "-t 2 -g 2",
    },
];

#[test]
fn all_collectives_are_right_however_the_ranks_are_spread() {
    let Some(machine) = Machine::with(4) else {
        return;
    };
    let cases = |Layout { processes, options }: Layout| {
        let sweep = machine.sweep(
            processes,
            &format!("all -b 1000 -e 34000 -i 11000 -n 2 {options}"),
        );
        let of = |row: &BTreeMap<String, String>| {
            ["collective", "size_bytes", "count", "in_place", "wrong"]
                .map(|column| row[column].clone())
        };
        sweep.rows.iter().map(of).collect::<Vec<_>>()
    };
    let first = cases(FOUR[0]);
    assert_eq!(first.len(), 11 * 4 * 2);
    for layout in &FOUR[1..] {
        assert_eq!(cases(*layout), first, "{layout:?}");
    }
}

#[test]
fn ways_to_run_operations_work_on_four_gpus() {
    let Some(machine) = Machine::with(4) else {
        return;
    };
    const ALL: &str = "all_reduce hypercube alltoallv";
    // With -m a hypercube is waived: each of its rounds is a group of its own.
    let ways = [
        ("all_reduce alltoallv", "-m 3"),
        (ALL, "-G 2"),
        (ALL, "-z 1"),
        (ALL, "-z 2"),
        (ALL, "-z 3"),
        (ALL, "-R 1"),
        (ALL, "-R 2"),
        (ALL, "-u 3 -d half"),
        (ALL, "-I 1"),
        (ALL, "-p 1"),
        (ALL, "-M 1"),
    ];
    for (at, (collectives, way)) in ways.into_iter().enumerate() {
        // Each way with another layout: those of threads and of GPUs in turn.
        let Layout { processes, options } = FOUR[1 + at % 5];
        machine.sweep(
            processes,
            &format!("{collectives} -b 64 -e 4K -f 8 -n 3 {options} {way}"),
        );
    }
    machine.sweep(
        1,
        "all_reduce broadcast alltoall -b 64 -e 4K -f 8 -n 3 -g 4 -y 1",
    );
}

#[test]
fn groups_of_ranks_have_communicators_of_their_own() {
    let Some(machine) = Machine::with(4) else {
        return;
    };
    let sweep = |processes, spread: &str, split: &str| {
        let file = machine.path().join("split.csv");
        let mut command = machine.start(
            processes,
            &format!("all_reduce -b 1K -e 4K -f 4 -n 2 -I 1 -C 1 {spread}"),
        );
        run(command
            .env("NCCL_TESTS_SPLIT", split)
            .arg("--csv")
            .arg(&file))
        .expect_code(0);
        let rows = csv(&file);
        let clocked = |row: &BTreeMap<String, String>| {
            ["issue_us", "iter_p50_us"].map(|name| row[name].parse::<f64>())
        };
        assert!(
            rows.iter()
                .flat_map(clocked)
                .all(|time| time.is_ok_and(|time| time > 0.0)),
            "each of its own"
        );
        rows.into_iter()
            .map(|row| (row["group"].clone(), row["wrong"].clone()))
            .collect::<Vec<_>>()
    };
    let seen = sweep(4, "", "MOD 2");
    let groups: Vec<&str> = seen.iter().map(|(group, _)| group.as_str()).collect();
    assert!(groups.contains(&"0") && groups.contains(&"1"), "{seen:?}");
    assert!(seen.iter().all(|(_, wrong)| wrong == "0"), "{seen:?}");
    assert_eq!(sweep(2, "-g 2", "MOD 2").len(), seen.len());
}

/// A version of NCCL that lacks something.
struct OldLibrary {
    version: &'static str,
    /// A part of each remark on what it lacks.
    remarks: &'static [&'static str],
    /// Cases of 8-bit floats that run.
    float8_rows: usize,
}

#[test]
fn an_older_library_gets_what_it_has_and_remarks_on_the_rest() {
    let Some(machine) = Machine::with(2) else {
        return;
    };
    for OldLibrary {
        version,
        remarks,
        float8_rows,
    } in [
        OldLibrary {
            version: "2.18.5",
            remarks: &[
                "-R needs NCCL 2.19 or newer; with 2.18.5",
                "this -x needs NCCL 2.28.0 or newer",
            ],
            float8_rows: 0,
        },
        OldLibrary {
            version: "2.22.3",
            remarks: &[
                "-R 2 needs NCCL 2.27 or newer; with 2.22.3",
                "this -x needs NCCL 2.28.0 or newer",
            ],
            float8_rows: 0,
        },
        OldLibrary {
            version: "2.30.7",
            remarks: &[],
            float8_rows: 22,
        },
    ] {
        let library = machine.libraries.join(version).join("libnccl.so.2");
        let words = format!(
            "all -t 2 -R 2 -x 2 -n 2 -b 4K -e 4K -d half,f8e5m2 --nccl-lib {}",
            library.to_str().expect("a path")
        );
        let sweep = machine.sweep(1, &words);
        let printed: Vec<&str> = sweep
            .ended
            .sentences()
            .into_iter()
            .filter(|line| line.contains(" needs NCCL "))
            .collect();
        assert_eq!(printed.len(), remarks.len(), "{printed:?}");
        for (printed, remark) in printed.iter().zip(remarks) {
            assert!(printed.contains(remark), "{printed}");
        }
        let run = |dtype: &str| {
            sweep
                .rows
                .iter()
                .filter(|row| row["type"] == dtype && !row["time_us"].is_empty())
                .count()
        };
        assert_eq!((run("half"), run("f8e5m2")), (22, float8_rows), "{version}");
    }
}

/// Something that breaks.
struct Fault {
    /// The call, which of a process's calls of it, and the error that it gives.
    fault: &'static str,
    /// The exit code.
    code: i32,
    /// A part of the message.
    message: &'static str,
}

const FAULTS: [Fault; 14] = [
    Fault {
        fault: "cuInit:1:999",
        code: 2,
        message: "CUDA does not start: unknown error (code 999)",
    },
    Fault {
        fault: "cuDevicePrimaryCtxRetain:1:2",
        code: 2,
        message: "cuDevicePrimaryCtxRetain failed: CUDA_ERROR_OUT_OF_MEMORY (code 2)",
    },
    Fault {
        fault: "cuModuleLoadDataEx:1:218",
        code: 2,
        message: "the driver cannot compile the data kernels",
    },
    Fault {
        fault: "ncclGetUniqueId:1:2",
        code: 3,
        message: "ncclGetUniqueId failed: unhandled system error (code 2)",
    },
    Fault {
        fault: "ncclCommInitRankConfig:1:3",
        code: 3,
        message: "joined the communicator: ncclCommInitRankConfig failed: internal error (code 3)",
    },
    Fault {
        fault: "ncclMemAlloc:2:1",
        code: 3,
        message: "while allocating 64K bytes on GPU 0: ncclMemAlloc failed",
    },
    Fault {
        fault: "ncclCommWindowRegister:2:3",
        code: 3,
        message: "ncclCommWindowRegister failed: internal error (code 3)",
    },
    Fault {
        fault: "cuLaunchKernel:7:719",
        code: 2,
        message: "cannot launch a data kernel: unknown error (code 719)",
    },
    Fault {
        fault: "ncclAllReduce:20:2",
        code: 3,
        message: "ncclAllReduce failed: unhandled system error (code 2)",
    },
    Fault {
        fault: "async:20:3",
        code: 3,
        message: "NCCL reports",
    },
    Fault {
        fault: "broken:20:700",
        code: 2,
        message: "cuStreamQuery failed: CUDA_ERROR_ILLEGAL_ADDRESS (code 700)",
    },
    Fault {
        fault: "hang:20:1",
        code: 4,
        message: "did not end within 8 s",
    },
    Fault {
        fault: "ncclCommDestroy:1:3",
        code: 3,
        message: "while ending the communicator: ncclCommDestroy failed: internal error (code 3)",
    },
    Fault {
        fault: "flip:0:1",
        code: 7,
        message: "wrong data in 8 cases",
    },
];

/// Ways to have two ranks on two GPUs.
const TWO: [Layout; 3] = [
    Layout {
        processes: 2,
        options: "",
    },
    Layout {
        processes: 1,
        options: "-g 2",
    },
    Layout {
        processes: 1,
        options: "-t 2",
    },
];

#[test]
fn each_fault_ends_the_job_soon_with_its_code_and_one_sentence() {
    let Some(machine) = Machine::with(2) else {
        return;
    };
    for Fault {
        fault,
        code,
        message,
    } in FAULTS
    {
        for Layout { processes, options } in TWO {
            // A busy machine needs longer than that to start MPI.
            let limit = if fault.starts_with("hang") {
                "-T 8"
            } else {
                ""
            };
            let words = format!("all_reduce -b 1K -e 64K -f 4 -n 3 -R 2 {limit} {options}");
            let ended = machine.broken(processes, fault, &words);
            let what = format!("{fault} {processes} {options}\n{}", ended.stderr);
            assert_eq!(ended.code, Some(code), "{what}");
            let saying = ended
                .sentences()
                .into_iter()
                .filter(|line| line.contains(message))
                .count();
            // The ranks of a job may each have it; one process says it once.
            assert!(saying >= 1 && saying <= processes as usize, "{what}");
        }
    }
}

#[test]
fn a_rank_that_cannot_join_is_not_waited_for_by_those_of_its_process() {
    let Some(machine) = Machine::with(4) else {
        return;
    };
    for Fault {
        fault,
        code,
        message,
    } in [
        Fault {
            fault: "cuCtxSetCurrent:6:700",
            code: 2,
            message: "GPU 1 is lost: CUDA_ERROR_ILLEGAL_ADDRESS (code 700)",
        },
        Fault {
            fault: "ncclCommInitRankConfig:2:3",
            code: 3,
            message: "ncclCommInitRankConfig failed: internal error (code 3)",
        },
    ] {
        let ended = machine
            .broken(1, fault, "all_reduce -b 8 -e 8 -n 1 -g 2")
            .expect_code(code);
        assert!(ended.stderr.contains(message), "{fault}: {}", ended.stderr);
    }
}

#[test]
fn what_a_thread_was_doing_is_in_its_sentence() {
    let Some(machine) = Machine::with(4) else {
        return;
    };
    let ended = machine
        .broken(
            2,
            "ncclAllReduce:33:2:1",
            "all_reduce -b 1K -e 64K -f 4 -n 3 -t 2",
        )
        .expect_code(3);
    let first = ended
        .sentences()
        .into_iter()
        .find(|line| line.contains("ncclAllReduce"))
        .expect("a sentence");
    assert!(first.contains("process 1 on "), "{first}");
    assert!(
        first.contains(", as rank 2: ") || first.contains(", as rank 3: "),
        "{first}"
    );
    assert!(
        first.contains("while ") && first.contains("all_reduce 1K float sum"),
        "{first}"
    );
}

#[test]
fn what_was_measured_before_a_fault_is_kept() {
    let Some(machine) = Machine::with(2) else {
        return;
    };
    for Layout { processes, options } in [TWO[0], TWO[2]] {
        let results = machine.path().join("results");
        let _ = fs::remove_dir_all(&results);
        let words = format!("all_reduce -b 1K -e 64K -f 4 -n 20 -w 1 {options}");
        // Of some 180 operations a rank.
        machine
            .broken(processes, "ncclAllReduce:130:2:0", &words)
            .expect_code(3);
        let run = only_entry(&results);
        let rows = csv(&run.join("results.csv"));
        assert!(!rows.is_empty() && rows.len() < 8, "{} rows", rows.len());
        assert_eq!(json(&run.join("run.json"))["end"]["code"], 3);
    }
}

/// A fault at the last operation that is asked for happens, and one after it does not.
#[test]
fn as_many_operations_run_as_are_asked_for() {
    let Some(machine) = Machine::with(2) else {
        return;
    };
    for [iters, warm_up, checks] in [[1, 0, 0], [3, 0, 1], [3, 4, 1], [2, 1, 3]] {
        // One more of each placement is not timed.
        let rank = warm_up + 2 * (1 + iters + checks);
        let words = format!("all_reduce -b 1K -e 1K -g 2 -n {iters} -w {warm_up} -c {checks}");
        let fault = |call: u32| machine.broken(1, &format!("ncclAllReduce:{call}:2"), &words);
        fault(2 * rank).expect_code(3);
        fault(2 * rank + 1).expect_code(0);
    }
}

#[test]
fn sizes_are_cut_to_the_memory_of_the_fullest_gpu() {
    let Some(machine) = Machine::with(2) else {
        return;
    };
    // Of 1.5 GB 1 GiB is left for NCCL, and the rest has two buffers.
    let ended = run(machine
        .start(1, "all_reduce -g 2 -b 1M -e 8G -f 2 -n 1 -w 0")
        .env("STANDIN_MEMORY", "1600000000"))
    .expect_code(0);
    assert!(
        ended
            .stdout
            .contains("# Reducing maxBytes to 262144000 due to memory limitation\n"),
        "{}",
        ended.stdout
    );
    let sizes: Vec<u64> = ended
        .rows()
        .iter()
        .map(|row| row[0].parse().expect("a size"))
        .collect();
    assert_eq!(
        sizes,
        (0..8).map(|power| 1 << (20 + power)).collect::<Vec<u64>>()
    );
}

#[test]
fn ranks_that_see_one_gpu_each_find_it_and_two_on_one_are_refused() {
    let Some(machine) = Machine::with(2) else {
        return;
    };
    let shell = |visible: &str| {
        let mut command = machine.on(launcher(machine.path()));
        let script = format!("CUDA_VISIBLE_DEVICES={visible} exec \"$0\" \"$@\"");
        command.args(["-np", "2", "sh", "-c", &script, common::BINARY]);
        command.args("all_reduce -b 1K -e 1K -n 2 --backend nccl".split(' '));
        run(&mut command)
    };
    let each = shell("$OMPI_COMM_WORLD_RANK").expect_code(0);
    assert!(
        each.stdout.contains("[0000:10:00]") && each.stdout.contains("[0000:11:00]"),
        "{}",
        each.stdout
    );
    let same = shell("0");
    assert_eq!(same.code, Some(5), "{}", same.stderr);
    assert!(
        same.stderr.contains("ranks 0 and 1 on ") && same.stderr.contains("would share a GPU"),
        "{}",
        same.stderr
    );
}

#[test]
fn a_driver_that_is_too_old_and_a_gpu_that_cannot_are_reported() {
    let Some(machine) = Machine::with(2) else {
        return;
    };
    let old = run(machine
        .start(1, "all_reduce -g 2 -b 8 -e 8")
        .env("STANDIN_CUDA", "11080"))
    .expect_code(2);
    assert!(
        old.stderr
            .contains("the driver supports CUDA 11.8 only; 12.0 is needed"),
        "{}",
        old.stderr
    );
    let no_gpu = run(machine
        .start(1, "all_reduce -b 8 -e 8")
        .env("STANDIN_GPUS", "0"))
    .expect_code(2);
    assert!(
        no_gpu.stderr.contains("CUDA_ERROR_NO_DEVICE (code 100)"),
        "{}",
        no_gpu.stderr
    );
    let mut volta = machine.start(1, "all_reduce all_gather -t 2 -b 64 -e 64 -n 1 -d f8e4m3");
    let volta = run(volta.env("STANDIN_CAPABILITY", "8")).expect_code(0);
    assert!(
        volta
            .stdout
            .contains("NCCL reduces f8e4m3 only on GPUs of compute capability 9.0"),
        "{}",
        volta.stdout
    );
}

/// A command line that is refused.
struct Refused {
    /// A variable and its value.
    variable: Option<(&'static str, &'static str)>,
    options: &'static str,
    /// A part of the message.
    message: &'static str,
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let Some(machine) = Machine::with(2) else {
        return;
    };
    for Refused {
        variable,
        options,
        message,
    } in [
        Refused {
            variable: Some(("NCCL_TESTS_DEVICE", "0x1")),
            options: "",
            message: "NCCL_TESTS_DEVICE=0x1 on rank 0 is not the number of a GPU",
        },
        Refused {
            variable: None,
            options: "-I 1 -n 4294967295",
            message: "use at most 1000000 of them with -n",
        },
    ] {
        let mut command = machine.start(1, &format!("all_reduce -b 8 -e 8 {options}"));
        let ended = run(command.envs(variable)).expect_code(6);
        assert!(ended.stderr.contains(message), "{}", ended.stderr);
    }
}

#[test]
fn a_signal_keeps_what_is_there() {
    let Some(machine) = Machine::with(2) else {
        return;
    };
    for spread in ["-g 2", "-t 2"] {
        let results = machine.path().join("results");
        let _ = fs::remove_dir_all(&results);
        let mut started = machine.start(
            1,
            &format!("all_reduce -b 1K -e 16M -f 2 -n 50 -N 0 {spread}"),
        );
        started
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null());
        let mut child = started.spawn().expect("started");
        let began = Instant::now();
        let lines = || {
            let text = fs::read_dir(&results)
                .ok()?
                .next()?
                .ok()
                .map(|run| run.path().join("results.csv"))?;
            Some(fs::read_to_string(text).ok()?.lines().count())
        };
        while lines().unwrap_or(0) < 4 {
            assert!(began.elapsed() < Duration::from_secs(60), "no rows");
            std::thread::sleep(Duration::from_millis(20));
        }
        run(Command::new("kill").arg(child.id().to_string())).expect_code(0);
        assert_eq!(child.wait().expect("ended").code(), Some(9), "{spread}");
        let run = only_entry(&results);
        assert!(csv(&run.join("results.csv")).len() >= 3);
        assert_eq!(json(&run.join("run.json"))["end"]["code"], 9);
    }
}

#[test]
fn the_script_for_real_gpus_finds_all_in_order() {
    let Some(machine) = Machine::with(2) else {
        return;
    };
    let path = env::var("PATH").unwrap_or_default();
    let mut command = machine.on(Command::new(Path::new(ROOT).join("scripts/gpu-check.sh")));
    common::clean(&mut command);
    command
        .args(["--quick", common::BINARY])
        .current_dir(machine.path())
        .envs([
            ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
            ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
        ])
        .env(
            "PATH",
            format!("{}:{path}", machine.libraries.join("bin").display()),
        );
    let ended = run_within(&mut command, Duration::from_secs(600)).expect_code(0);
    assert!(
        ended.stdout.contains("all checks ok on 2 GPUs"),
        "{}",
        ended.stdout
    );
}

/// The program under `sh`, which runs `before` first: a link can be planted under a name with the process's own number.
fn prepared(machine: &Machine, before: &str, words: &str) -> Command {
    let mut command = machine.on(common::program(Path::new("sh"), machine.path()));
    let script = format!("{before}\nexec \"$0\" \"$@\"");
    command
        .env("TMPDIR", machine.path().join("tmp"))
        // The evidence of a GPU that the self-test asks for.
        .env("SLURM_JOB_GPUS", "0")
        .args(["-c", &script, common::BINARY])
        .args(words.split_whitespace());
    command
}

const PROVED: &str = "all_reduce -b 8 -e 8 -n 1 --out out --proof --backend nccl";

/// What the program left in the folder for temporary files; MPI has files of its own there.
fn left(machine: &Machine) -> Vec<PathBuf> {
    let all = fs::read_dir(machine.path().join("tmp")).expect("a folder");
    let paths = all.map(|entry| entry.expect("an entry").path());
    let is_ours = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy());
        name.is_some_and(|name| name.starts_with("pxnbench")) && !path.is_symlink()
    };
    paths.filter(is_ours).collect()
}

#[test]
fn nccls_log_is_not_written_through_links_that_somebody_planted() {
    let Some(machine) = Machine::with(1) else {
        return;
    };
    for folder in ["tmp", "out/nccl"] {
        fs::create_dir_all(machine.path().join(folder)).expect("made");
    }
    let precious = machine.path().join("precious");
    fs::write(&precious, "precious").expect("written");
    let plant = "host=$(cut -d. -f1 /proc/sys/kernel/hostname)
        for name in log tuning.log off.log asked.log; do
            ln -s \"$PWD/precious\" \"tmp/pxnbench-nccl.$host.$$.$name\" || exit 99
        done
        ln -s \"$PWD/precious\" \"out/nccl/$host.$$.log\"";
    run(&mut prepared(&machine, plant, PROVED)).expect_code(0);
    assert_eq!(fs::read_to_string(&precious).expect("read"), "precious");
    let log = only_entry(&machine.path().join("out/nccl"));
    assert!(!log.is_symlink());
    let text = fs::read_to_string(log).expect("NCCL's log");
    assert!(text.contains("NCCL INFO NCCL version"), "{text}");
    assert_eq!(left(&machine), [] as [PathBuf; 0]);

    let self_test = run(&mut prepared(&machine, plant, "proof --self-test")).expect_code(5);
    assert!(
        self_test.stdout.contains("cannot tell"),
        "{}",
        self_test.stdout
    );
    assert_eq!(fs::read_to_string(&precious).expect("read"), "precious");
    assert_eq!(left(&machine), [] as [PathBuf; 0]);
}

#[test]
fn nccls_log_of_a_worker_that_failed_stays_where_the_sentence_says() {
    let Some(machine) = Machine::with(1) else {
        return;
    };
    fs::create_dir(machine.path().join("tmp")).expect("made");
    let self_test = || {
        let mut command = prepared(&machine, "", "proof --self-test");
        command.env("STANDIN_FAULT", "ncclAlltoAll:1:5");
        let ended = run(&mut command).expect_code(3);
        let (_, log) = ended
            .stderr
            .trim_end()
            .split_once("NCCL's log of it is ")
            .unwrap_or_else(|| panic!("{}", ended.stderr));
        PathBuf::from(log)
    };
    let logs = [self_test(), self_test()];
    // The run that comes next does not remove what an earlier one told of.
    run(&mut prepared(&machine, "", PROVED)).expect_code(0);
    assert_eq!(left(&machine).len(), 2);
    for log in logs {
        let text = fs::read_to_string(&log).expect("NCCL's log");
        assert!(text.contains("NCCL INFO NCCL version"), "{text}");
        assert_eq!(only_entry(log.parent().expect("a folder")), log);
    }
}

#[test]
fn where_nccls_log_has_no_place_nothing_is_measured() {
    let Some(machine) = Machine::with(1) else {
        return;
    };
    fs::write(machine.path().join("tmp"), "no folder").expect("written");
    for words in [PROVED, "proof --self-test"] {
        let ended = run(&mut prepared(&machine, "", words)).expect_code(6);
        let sentences = ended.sentences();
        assert!(
            sentences.len() == 1
                && sentences[0].contains("tmp cannot hold NCCL's log: Not a directory")
                && sentences[0].ends_with("; set TMPDIR to a folder that can be written to"),
            "{sentences:?}"
        );
    }
}
