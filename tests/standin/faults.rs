//! What fails in a library, and how the job then ends.

use std::{
    fs,
    process::Command,
    time::{Duration, Instant},
};

use crate::{
    Layout, TWO,
    common::{csv, json, only_entry, run},
    machine::Machine,
};

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
        // 64K of data, 2M before them and a guard zone of 16K behind.
        message: "while allocating 2128K bytes on GPU 0: ncclMemAlloc failed",
    },
    Fault {
        fault: "ncclCommWindowRegister:2:3",
        code: 3,
        message: "ncclCommWindowRegister failed: internal error (code 3)",
    },
    Fault {
        fault: "cuLaunchKernel:7:719",
        code: 2,
        message: "cannot launch one of the data kernels: unknown error (code 719)",
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
        message: "made no progress ",
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

#[test]
fn each_fault_ends_the_job_soon_with_its_code_and_one_sentence() {
    let Some(machine) = Machine::in_memory(2) else {
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
    let Some(machine) = Machine::in_memory(4) else {
        return;
    };
    for Fault {
        fault,
        code,
        message,
    } in [
        Fault {
            fault: "cuCtxSetCurrent@main:4:700",
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
    let Some(machine) = Machine::in_memory(4) else {
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
    let Some(machine) = Machine::in_memory(2) else {
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
    let Some(machine) = Machine::in_memory(2) else {
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
