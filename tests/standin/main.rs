//! All of the program's code for GPUs, where there is none: on stand-ins for libcuda and libnccl
//! (`standin.h`), which run the real kernels on the processor and refuse what the real libraries
//! refuse.
//!
//! What they cannot show is left to `scripts/gpu-check.sh` on real GPUs; that script itself is run
//! here too.

mod cause;
#[path = "../common/mod.rs"]
mod common;
mod faults;
mod guard;
mod hosts;
mod kube;
mod logs;
mod machine;
mod nodes;
mod peak;
mod predict;
mod ras;
mod ready;
mod rehearse;
mod replay;
mod steps;
mod stuck;
mod tcp;
mod telemetry;

use std::{collections::BTreeMap, env, path::Path, process::Command, time::Duration};

use common::{csv, json, launcher, run, run_within};
use machine::Machine;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

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
fn ranks_and_memory_of_several_gpus_are_told_apart() {
    let Some(machine) = Machine::with(4) else {
        return;
    };
    let words = "all_reduce -b 64 -e 64 -n 2 -t 2 -g 2 -I 1 --time 1s --out here";
    run(&mut machine.start(1, words)).expect_code(0);
    let here = machine.path().join("here");
    let run_json = json(&here.join("run.json"));
    let found = &run_json["over_time"];
    for memory in ["resident", "gpu"] {
        let first = found[memory]["first"].as_u64();
        assert!(first > Some(0), "{memory}: {found}");
        assert!(found[memory]["most"].as_u64() >= first, "{memory}: {found}");
    }
    let ranks = csv(&here.join("ranks.csv"));
    for (at, row) in ranks.iter().enumerate() {
        let device = &run_json["processes"][at % 4]["device"];
        assert_eq!(row["rank"], (at % 4).to_string());
        assert_eq!(row["gpu"], device["index"].to_string());
        assert_eq!(Some(&row["bus"][..]), device["bus"].as_str());
        assert!(!row["iter_p99_us"].is_empty(), "{row:?}");
    }
    for threads in ranks.chunks(2) {
        assert_eq!(
            threads[0]["time_us"], threads[1]["time_us"],
            "GPUs of a thread share its time"
        );
    }
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
fn sizes_are_cut_to_the_memory_of_the_fullest_gpu() {
    let Some(machine) = Machine::with(2) else {
        return;
    };
    // 1 GiB is left for NCCL, and the rest has two buffers with their guard zones.
    let ended = run(machine
        .start(1, "all_reduce -g 2 -b 1M -e 8G -f 2 -n 1 -w 0")
        .env("STANDIN_MEMORY", "1100000000"))
    .expect_code(0);
    assert!(
        ended
            .stdout
            .contains("# Reducing maxBytes to 10485760 due to memory limitation\n"),
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
        (0..4).map(|power| 1 << (20 + power)).collect::<Vec<u64>>()
    );
}

/// `-U 1`: from the log of a process that runs each case once, so that the timed one logs nothing.
#[test]
fn tuning_columns_say_how_nccl_ran_each_case() {
    let Some(machine) = Machine::with(2) else {
        return;
    };
    let words = "all_reduce alltoall -g 2 -b 64K -e 1M -f 16 -n 1 -U 1 -J x.json --csv x.csv";
    let ended = run(&mut machine.start(1, words)).expect_code(0);
    let heads = ended.stdout.lines().filter(|line| line.contains("#wrong"));
    assert!(
        heads.clone().count() == 2
            && heads
                .clone()
                .all(|head| head.ends_with("#wrong            algo   proto  nchannels ")),
        "{}",
        ended.stdout
    );
    let tuning: Vec<Vec<&str>> = ended.rows().iter().map(|row| row[13..].to_vec()).collect();
    assert_eq!(
        tuning,
        [
            ["RING", "LL", "1"],
            ["RING", "SIMPLE", "8"],
            ["N/A", "N/A", "N/A"],
            ["N/A", "N/A", "N/A"],
        ]
    );
    let all = json(&machine.path().join("x.json"));
    assert_eq!(all["config"]["tuning"], "true");
    let expected = serde_json::json!({ "algo": "RING", "proto": "SIMPLE", "nchannels": 8 });
    for half in ["out_of_place_tuning", "in_place_tuning"] {
        assert_eq!(all["results"][1][half], expected, "{all}");
    }
    let unknown = serde_json::json!({ "algo": null, "proto": null, "nchannels": null });
    assert_eq!(all["results"][2]["in_place_tuning"], unknown);
    let rows = csv(&machine.path().join("x.csv"));
    assert_eq!(
        (rows[0]["algo"].as_str(), rows[0]["proto"].as_str()),
        ("RING", "LL")
    );
    assert!(
        rows.iter().all(|row| row["pxn"].is_empty()),
        "nothing is said of what was not looked at"
    );
    let mut several = machine.start(2, "all_reduce -b 8 -e 8 -n 1 -U 1");
    let refused = run(several.env("NCCL_TESTS_SPLIT", "%2")).expect_code(6);
    assert!(
        refused
            .stderr
            .contains("--proof and -U are for one communicator"),
        "{}",
        refused.stderr
    );
}

#[test]
fn a_gpu_without_free_memory_is_said_to_have_none() {
    let Some(machine) = Machine::with(1) else {
        return;
    };
    for sizes in ["-b 8 -e 8G -f 2", "-b 1M -e 1M"] {
        let words = format!("all_reduce -n 1 -w 0 {sizes}");
        let mut command = machine.start(1, &words);
        let ended = run(command.env("STANDIN_MEMORY", "1048576")).expect_code(5);
        let sentence = "there is too little free memory for any size: none is left for buffers. \
                        Something else is using it";
        assert!(ended.stderr.contains(sentence), "{}", ended.stderr);
    }
}

/// Sizes that are left out for lack of memory are named wherever results are, and one that was
/// asked for alone is an error.
#[test]
fn a_size_that_does_not_fit_is_said_in_every_output() {
    let Some(machine) = Machine::with(2) else {
        return;
    };
    let small = |words: &str| {
        let mut command = machine.start(1, words);
        run(command.env("STANDIN_MEMORY", "1100000000"))
    };
    let ended =
        small("all_reduce -g 2 -b 4M -e 8G -f 2 -n 1 -w 0 --out o -J x.json").expect_code(0);
    let sentence = "sizes above 10M and up to 8G do not fit into memory: they are not measured";
    assert!(ended.stderr.contains(sentence), "{}", ended.stderr);
    assert!(
        ended
            .stdout
            .contains("# Reducing maxBytes to 10485760 due to memory limitation\n"),
        "{}",
        ended.stdout
    );
    let rows = csv(&machine.path().join("o/results.csv"));
    let notes: Vec<(&str, &str)> = rows
        .iter()
        .map(|row| (row["size_bytes"].as_str(), row["note"].as_str()))
        .collect();
    assert_eq!(
        notes,
        [
            ("4194304", ""),
            ("4194304", ""),
            ("8388608", sentence),
            ("8388608", sentence),
        ]
    );
    let results = json(&machine.path().join("o/results.json"));
    assert_eq!(results["records"][3]["note"], sentence);
    for run in [&results["run"], &json(&machine.path().join("o/run.json"))] {
        assert_eq!(run["sweep"]["reduced_to"], 10_485_760);
        let remarks = run["remarks"].as_array().expect("a list");
        assert!(remarks.contains(&sentence.into()), "{remarks:?}");
    }
    let nccl_tests = json(&machine.path().join("x.json"));
    assert_eq!(nccl_tests["config"]["maximum_bytes"], 8_u64 << 30);
    assert_eq!(nccl_tests["config"]["reduced_maximum_bytes"], 10_485_760);
    // The smallest size does not fit either.
    let ended = small("all_reduce -g 2 -b 4G -e 8G -f 2 -n 1 -w 0 --csv y.csv").expect_code(0);
    let sentence = "4G to 8G do not fit into memory: 10M is measured instead";
    assert!(ended.stderr.contains(sentence), "{}", ended.stderr);
    assert_eq!(csv(&machine.path().join("y.csv"))[0]["note"], sentence);
    // Only one size was asked for.
    for words in ["all_reduce -g 2 -b 4G -e 4G", "all_reduce -g 2 -b 4G"] {
        let refused = small(words).expect_code(5);
        assert!(
            refused.stderr.contains(
                "4G does not fit into memory: each of the two buffers can have at most 10M. Use a \
                 smaller size"
            ),
            "{}",
            refused.stderr
        );
        assert_eq!(refused.rows().len(), 0);
    }
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
            message: "Use at most 1000000 of them with -n",
        },
    ] {
        let mut command = machine.start(1, &format!("all_reduce -b 8 -e 8 {options}"));
        let ended = run(command.envs(variable)).expect_code(6);
        assert!(ended.stderr.contains(message), "{}", ended.stderr);
    }
}

#[test]
fn the_script_for_real_gpus_finds_sweeps_in_order() {
    check_gpus("sweeps");
}

/// It has the machine for itself (.config/nextest.toml).
#[test]
fn the_script_for_real_gpus_finds_ends_in_order() {
    check_gpus("ends");
}

/// Runs some parts of the script for real GPUs. The rehearsals are no part: the stand-in for
/// libnccl loads no plugin.
///
/// Its runs are in memory: while the disk of a busy machine answers nobody, a job cannot describe
/// its end in the second that mpirun leaves it.
fn check_gpus(parts: &str) {
    let Some(machine) = Machine::with(2) else {
        return;
    };
    let memory = common::folder_in_memory();
    let path = env::var("PATH").unwrap_or_default();
    let script = Command::new(Path::new(ROOT).join("scripts/gpu-check.sh"));
    let mut command = machine.with_nvml(machine.on(script), "");
    common::clean(&mut command);
    command
        .args(["--quick", "--only", parts, common::BINARY])
        .current_dir(machine.path())
        .envs([
            ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
            ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
        ])
        .env("TMPDIR", memory.path())
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
