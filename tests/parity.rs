//! In place of nccl-tests: the same names, flags, variables, table and exit codes. [`PARITY`] is the list of all of them,
//! and what `docs/PARITY.md` is made from.

mod common;

use std::{fmt::Write, fs, path::Path, process::Command};

use common::{Ended, alone, clean, csv, has_mpi, json, launcher, mpirun, run};
use pxnbench::collective::Collective;

/// A flag or a variable of nccl-tests 2.19.6; what it does here, where that is not the same; and what shows it: a test of
/// this folder, or a check of `scripts/gpu-check.sh` in quotes.
const PARITY: &[(&str, &str, &str)] = &[
    (
        "-t, --nthreads",
        "`# Out of bounds values` counts processes with wrong data; nccl-tests counts threads",
        "'two threads'",
    ),
    ("-g, --ngpus", "", "'two GPUs, one process'"),
    (
        "-b, --minbytes",
        "0 is refused; nccl-tests never ends",
        "bad_input_gets_one_sentence",
    ),
    (
        "-e, --maxbytes",
        "reduced to what is free on the GPU with the least free memory; nccl-tests reduces it to a fraction of the total",
        "sizes_are_cut_to_the_memory_of_the_fullest_gpu",
    ),
    (
        "-i, --stepbytes",
        "0 is accepted only with a factor (`-f`)",
        "every_flag_is_taken_in_all_of_its_spellings",
    ),
    (
        "-f, --stepfactor",
        "0 means 1: `-i` is used",
        "every_flag_is_taken_in_all_of_its_spellings",
    ),
    (
        "-n, --iters",
        "anything but a number is refused; nccl-tests reads it as 0",
        "bad_input_gets_one_sentence",
    ),
    (
        "-m, --agg_iters",
        "refused with `-z 1` and `-z 2`, which would wait inside an open group",
        "'operations in groups'",
    ),
    (
        "-w, --warmup_iters",
        "",
        "as_many_operations_run_as_are_asked_for",
    ),
    (
        "-N, --run_cycles",
        "the column `repeat` has the number of the cycle",
        "sizes_are_run_through_again_and_again",
    ),
    ("-p, --parallel_init", "", "'two threads that join at once'"),
    (
        "-c, --check",
        "0 prints `# Nothing was checked` above the totals",
        "as_many_operations_run_as_are_asked_for",
    ),
    (
        "-o, --op",
        "an unknown one is refused; nccl-tests uses sum. sendrecv is not repeated for each reduction",
        "'all types and operations'",
    ),
    (
        "-d, --datatype",
        "an unknown one is refused; nccl-tests uses float. Comma-separated lists are accepted",
        "'all types and operations'",
    ),
    (
        "-r, --root",
        "`all` is accepted; nccl-tests reads it as 0",
        "a_root_matters_only_where_there_is_one",
    ),
    (
        "-z, --blocking",
        "refused with `-G`, which launches all operations as one",
        "'waiting after each operation'",
    ),
    (
        "-y, --stream_null",
        "refused with `-G`, because CUDA does not capture the null stream",
        "'the null stream'",
    ),
    (
        "-T, --timeout",
        "every wait has a limit; 0 means 600 s",
        "a_rank_that_hangs_ends_the_job_at_its_deadline",
    ),
    ("-G, --cudagraph", "", "'as a CUDA graph'"),
    (
        "-C, --report_cputime",
        "the time of rank 0; column `issue_us`",
        "the_time_of_issuing_takes_the_place_of_the_time",
    ),
    (
        "-S, --report_timestamps",
        "",
        "rows_end_with_the_time_of_day",
    ),
    (
        "-J, --output_file",
        "any file name; see below",
        "json_has_the_keys_of_nccl_tests",
    ),
    (
        "-a, --average",
        "0: the time of rank 0 is used for all ranks",
        "each_average_is_what_it_says",
    ),
    ("-R, --local_register", "", "'registered buffers'"),
    ("-x, --cta_policy", "", "'CTA policies'"),
    (
        "-D, --device_implementation",
        "not supported: anything but 0 is refused (exit code 6)",
        "device_kernels_are_refused_with_the_reason",
    ),
    (
        "-V, --device_cta_count",
        "accepted, but has no effect",
        "every_flag_is_taken_in_all_of_its_spellings",
    ),
    (
        "-M, --memory",
        "printed below the last table; `memory` in `run.json`",
        "'memory in use'",
    ),
    ("-u, --unalign", "", "'unaligned buffers'"),
    (
        "-I, --per_iter_timing",
        "refused with `-G`; columns `iter_…`",
        "'single iterations'",
    ),
    (
        "-K, --per_iter_skip",
        "a value of `-n` or more is refused; nccl-tests then skips none",
        "'single iterations'",
    ),
    ("-h, --help", "", "help_is_complete"),
    (
        "NCCL_TESTS_SPLIT",
        "CSV and JSON have a row per communicator, and the mean busbw is over those rows; rows of the table are means over all ranks, as in nccl-tests. An invalid value is refused; nccl-tests then uses one communicator",
        "each_communicator_has_its_own_rows",
    ),
    (
        "NCCL_TESTS_SPLIT_MASK",
        "",
        "each_communicator_has_its_own_rows",
    ),
    ("NCCL_TESTS_DEVICE", "", "'a first GPU that is given'"),
    (
        "NCCL_TESTS_MIN_BW",
        "also FAILED if nothing ran; the exit code is then 5",
        "a_mean_below_the_threshold_is_exit_7",
    ),
    (
        "NCCL_TESTS_ALLTOALLV_SPREAD",
        "a value outside 0 to 1 is refused; nccl-tests clamps it",
        "alltoallv_is_as_its_variables_say",
    ),
    (
        "NCCL_TESTS_ALLTOALLV_MATRIX_FILE",
        "",
        "alltoallv_is_as_its_variables_say",
    ),
    (
        "NCCL_TESTS_ALLTOALLV_MATRIX_SCALE",
        "",
        "alltoallv_is_as_its_variables_say",
    ),
    (
        "NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY",
        "",
        "alltoallv_is_as_its_variables_say",
    ),
];

fn parity_md() -> String {
    let mut text = String::from(
        "# As a replacement for nccl-tests\n\n\
         Generated from the table in `tests/parity.rs` by `UPDATE_GOLDEN=1 cargo test --test parity`.\n\n\
         `pxnbench links DIR` creates links with the names of nccl-tests' programs. Called as `all_reduce_perf` (or \
         `all_reduce_perf_mpi`), pxnbench runs that collective with nccl-tests' command line: the same flags, the same table, \
         and no files except those that are asked for. This page lists what differs from nccl-tests 2.19.6; [METHOD.md](METHOD.md) \
         explains how both measure.\n\n\
         ```\npxnbench links bin\nmpirun -np 8 bin/all_reduce_perf -b 8 -e 4G -f 2 -g 1\nbin/all_reduce_perf -b 8 -e 4G -f 2 -g 8\n```\n\n\
         ## Flags and variables\n\n| nccl-tests | what differs here | tested by |\n|---|---|---|\n",
    );
    for (flag, differs, shown) in PARITY {
        let by = match shown.strip_prefix('\'') {
            Some(check) => format!("`scripts/gpu-check.sh`: {}", check.trim_end_matches('\'')),
            None => format!("`{shown}`"),
        };
        let _ = writeln!(text, "| `{flag}` | {differs} | {by} |");
    }
    text.push_str(
        "\n## Numbers and exit codes\n\n[Exit codes](FORMAT.md#exit-codes) 0 to 7 are those of nccl-tests. An unknown flag and \
         a value that cannot be read are exit code 6. nccl-tests exits with 0 after an unknown flag, and reads such a value as \
         some other one. Whole numbers are decimal: `010` is 10, and `0x10` is refused except in `NCCL_TESTS_SPLIT`. nccl-tests \
         reads them as 8 and 16.\n\n\
         ## JSON\n\n`-J FILE` writes the keys of nccl-tests' format, version 3. These things differ:\n\n\
         - Numbers are JSON numbers: `root` is not padded text, and what was not measured is null. Strings that nccl-tests uses for \
         truth values are kept.\n\
         - All GPUs are listed, not only the first one of each process.\n\
         - `env` has only the recorded variables, never the whole environment.\n\
         - Strings are complete, whatever characters they contain.\n\
         - `experiment_name` is the collective.\n\
         - An existing file is kept as `FILE.1`, and the new one is `FILE`. nccl-tests writes the new one to `FILE.0`.\n\n\
         ## Not supported\n\nKernels that use NCCL's device API (`-D`), because they must be compiled against one particular \
         version of NCCL's headers.\n",
    );
    text
}

/// All Rust code under `folder`.
fn sources(folder: &Path) -> String {
    let paths = fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path());
    paths
        .map(|path| match path.extension() {
            _ if path.is_dir() => sources(&path),
            Some(end) if end == "rs" => fs::read_to_string(&path).expect("text"),
            _ => String::new(),
        })
        .collect()
}

#[test]
fn parity_md_is_up_to_date_and_names_tests_that_are_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let tests: String = ["tests", "src/sweep"]
        .into_iter()
        .map(|folder| sources(&root.join(folder)))
        .collect();
    let checks = fs::read_to_string(root.join("scripts/gpu-check.sh")).expect("gpu-check.sh");
    for (flag, _, shown) in PARITY {
        let is_there = match shown.strip_prefix('\'') {
            Some(check) => checks.contains(&format!("check \"{}\"", check.trim_end_matches('\''))),
            None => tests.contains(&format!("fn {shown}()")),
        };
        assert!(is_there, "{flag}: there is no {shown}");
    }
    let path = root.join("docs/PARITY.md");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, parity_md()).expect("written");
    }
    assert_eq!(
        fs::read_to_string(&path).unwrap_or_default(),
        parity_md(),
        "UPDATE_GOLDEN=1 rewrites it"
    );
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

/// The links, in `folder`.
fn links(folder: &Path) {
    let made = run(alone(folder).args(["links", "bin"])).expect_code(0);
    assert_eq!(made.stdout.lines().count(), Collective::ALL.len());
}

/// A link of `folder`, by its name.
fn by_name(folder: &Path, name: &str) -> Command {
    let mut command = Command::new(folder.join("bin").join(name));
    clean(&mut command);
    command.current_dir(folder);
    command
}

const MODEL: [&str; 4] = ["--backend", "model", "--ranks", "4"];

#[test]
fn each_program_of_nccl_tests_has_a_link_that_leaves_no_files() {
    let folder = folder();
    links(folder.path());
    for collective in Collective::ALL {
        let name = format!("{collective}_perf");
        let ended = run(by_name(folder.path(), &name)
            .args(["-b", "1K", "-e", "1M", "-f", "4"])
            .args(MODEL));
        let ended = ended.expect_code(0);
        assert!(
            ended
                .stdout
                .contains(&format!("# Collective test starting: {name}\n")),
            "{}",
            ended.stdout
        );
        assert_eq!(ended.rows().len(), 6);
    }
    let entries = fs::read_dir(folder.path()).expect("the folder").count();
    assert_eq!(entries, 1, "bin and nothing else");
    // Made again, they are replaced; a file of the name is not.
    links(folder.path());
    fs::create_dir(folder.path().join("other")).expect("made");
    fs::write(folder.path().join("other/all_reduce_perf"), "mine").expect("written");
    let refused = run(alone(folder.path()).args(["links", "other"])).expect_code(6);
    assert!(
        refused.stderr.contains("a file of that name is there"),
        "{}",
        refused.stderr
    );
}

#[test]
fn every_flag_is_taken_in_all_of_its_spellings() {
    let folder = folder();
    links(folder.path());
    let each: [&[&str]; 12] = [
        &["-b", "8", "-e", "64", "-i", "8"],
        &["-b8", "-e64", "-f2", "-n3", "-w2", "-c0"],
        &[
            "--minbytes=8",
            "--maxbytes=64",
            "--stepfactor=2",
            "--iters=3",
            "--warmup_iters=2",
            "--check=0",
        ],
        &["--minb", "8", "--maxb", "64", "--stepf", "2"],
        &["-b", "1M", "-b", "8", "-e", "64", "-f", "3", "-f", "2"],
        &[
            "-t", "1", "-g", "1", "-m", "1", "-N", "1", "-p", "0", "-z", "0", "-y", "0", "-T", "0",
            "-G", "0",
        ],
        &[
            "-C", "0", "-S", "0", "-a", "1", "-R", "0", "-x", "0", "-D", "0", "-V", "16", "-M",
            "0", "-u", "0",
        ],
        &["-I", "0", "-K", "0", "-o", "sum", "-d", "float", "-r", "0"],
        &[
            "--nthreads",
            "1",
            "--ngpus",
            "1",
            "--agg_iters",
            "1",
            "--run_cycles",
            "1",
            "--parallel_init",
            "0",
        ],
        &[
            "--blocking",
            "0",
            "--stream_null",
            "0",
            "--timeout",
            "9",
            "--cudagraph",
            "0",
            "--report_cputime",
            "0",
        ],
        &[
            "--report_timestamps",
            "0",
            "--average",
            "1",
            "--local_register",
            "0",
            "--cta_policy",
            "1",
            "--memory",
            "0",
        ],
        &[
            "--unalign",
            "0",
            "--per_iter_timing",
            "0",
            "--per_iter_skip",
            "0",
            "--device_implementation",
            "0",
        ],
    ];
    for flags in each {
        run(by_name(folder.path(), "all_reduce_perf")
            .args(flags)
            .args(MODEL))
        .expect_code(0);
    }
    let sizes = |flags: &[&str]| {
        let ended = run(by_name(folder.path(), "all_reduce_perf")
            .args(flags)
            .args(MODEL))
        .expect_code(0);
        ended
            .rows()
            .iter()
            .map(|row| row[0].to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        sizes(&["-b", "16", "-e", "64", "-i", "16"]),
        ["16", "32", "48", "64"]
    );
    assert_eq!(
        sizes(&["-b", "16", "-e", "256", "-f", "4", "-i", "16"]),
        ["16", "64", "256"],
        "-f wins"
    );
    assert_eq!(
        sizes(&["-b", "8", "-e", "64", "-f", "3", "-f", "8"]),
        ["8", "64"],
        "the last counts"
    );
    let said = run(by_name(folder.path(), "all_reduce_perf")
        .args(["-n", "7", "-w", "3", "-c", "0", "-m", "2"])
        .args(MODEL));
    let said = said.expect_code(0).stdout;
    assert!(
        said.contains("warmup iters: 3 iters: 7 agg iters: 2 validation: 0 graph: 0"),
        "{said}"
    );
    assert!(said.contains("# Nothing was checked"), "{said}");
    assert_eq!(
        sizes(&["-b", "8", "-e", "16", "-f", "2", "-i", "0"]),
        ["8", "16"]
    );
    run(by_name(folder.path(), "all_reduce_perf")
        .args(["-b", "8", "-e", "8"])
        .args(MODEL)
        .arg("--"))
    .expect_code(0);
    let two = run(by_name(folder.path(), "all_reduce_perf")
        .arg("alltoall")
        .args(MODEL))
    .expect_code(6);
    assert!(
        two.stderr.contains("runs that collective only"),
        "{}",
        two.stderr
    );
    let missing =
        run(by_name(folder.path(), "all_reduce_perf").args(["-b", "8", "-J"])).expect_code(6);
    assert!(
        missing.stderr.contains("'--output_file <FILE>'"),
        "{}",
        missing.stderr
    );
    let unknown = run(by_name(folder.path(), "all_reduce_perf").arg("-Q")).expect_code(6);
    assert_eq!(unknown.sentences().len(), 1, "{}", unknown.stderr);
    assert_eq!(unknown.stdout, "");
}

#[test]
fn device_kernels_are_refused_with_the_reason() {
    let refused = run(alone(folder().path())
        .args(["all_reduce", "-D", "1"])
        .args(MODEL))
    .expect_code(6);
    assert!(
        refused.stderr.contains("device API are not built in"),
        "{}",
        refused.stderr
    );
}

#[test]
fn flags_that_exclude_each_other_are_refused() {
    let folder = folder();
    for (flags, why) in [
        (
            &["-G", "2", "-z", "1"] as &[&str],
            "a graph (-G) runs as one",
        ),
        (&["-G", "2", "-I", "1"], "a graph (-G) has none"),
        (&["-G", "2", "-y", "1"], "cannot capture the null stream"),
        (&["-m", "2", "-z", "2"], "use -z 3"),
        (&["-I", "1", "-n", "5", "-K", "5"], "-K leaves out"),
        (
            &["-N", "2", "--resume"],
            "--resume cannot be combined with -N",
        ),
        (&["-z", "4"], "a number from 0 to 3"),
        (&["-S", "yes"], "0 for no or 1 for yes"),
    ] {
        let refused = run(alone(folder.path())
            .arg("all_reduce")
            .args(flags)
            .args(MODEL))
        .expect_code(6);
        assert!(
            refused.stderr.contains(why),
            "{flags:?}: {}",
            refused.stderr
        );
    }
}

#[test]
fn sizes_are_run_through_again_and_again() {
    let folder = folder();
    let ended = run(alone(folder.path())
        .args([
            "all_reduce",
            "-b",
            "8",
            "-e",
            "32",
            "-f",
            "2",
            "-N",
            "3",
            "--csv",
            "x.csv",
        ])
        .args(MODEL))
    .expect_code(0);
    let sizes: Vec<String> = ended.rows().iter().map(|row| row[0].to_owned()).collect();
    assert_eq!(sizes, ["8", "16", "32"].repeat(3));
    let rows = csv(&folder.path().join("x.csv"));
    let repeats: Vec<&str> = rows.iter().map(|row| row["repeat"].as_str()).collect();
    assert_eq!(repeats, [["0"; 6], ["1"; 6], ["2"; 6]].concat());
}

#[test]
fn rows_end_with_the_time_of_day() {
    let ended = run(alone(folder().path())
        .args(["all_reduce", "-b", "8", "-e", "8", "-S", "1"])
        .args(MODEL));
    let ended = ended.expect_code(0);
    let rows = ended.rows();
    let [date, time] = rows[0][13..15] else {
        panic!("{rows:?}")
    };
    assert_eq!((date.len(), time.len()), (10, 8), "{rows:?}");
    assert!(
        ended.stdout.contains("timestamp\n") && ended.stdout.contains("YYYY-MM-DD HH:MM:SS\n"),
        "{}",
        ended.stdout
    );
}

#[test]
fn the_time_of_issuing_takes_the_place_of_the_time() {
    let folder = folder();
    let ended = run(alone(folder.path())
        .args([
            "all_reduce",
            "-b",
            "8",
            "-e",
            "8",
            "-C",
            "1",
            "--csv",
            "x.csv",
        ])
        .args(MODEL))
    .expect_code(0);
    assert!(
        ended.stdout.contains(" cputime   algbw"),
        "{}",
        ended.stdout
    );
    assert!(!csv(&folder.path().join("x.csv"))[0]["issue_us"].is_empty());
}

#[test]
fn each_communicator_has_its_own_rows() {
    if !has_mpi() {
        return;
    }
    let folder = folder();
    for (name, value, groups, ranks) in [
        ("NCCL_TESTS_SPLIT", "MOD 2", ["0", "1"], ["2", "2"]),
        ("NCCL_TESTS_SPLIT", "DIV 3", ["0", "1"], ["3", "1"]),
        ("NCCL_TESTS_SPLIT", "&0x2", ["0", "2"], ["2", "2"]),
        ("NCCL_TESTS_SPLIT_MASK", "1", ["0", "1"], ["2", "2"]),
    ] {
        let mut command = mpirun(4, folder.path());
        command.env(name, value);
        let args = [
            "all_reduce",
            "alltoall",
            "-b",
            "64",
            "-e",
            "4K",
            "-f",
            "64",
            "-n",
            "2",
            "--csv",
            "x.csv",
        ];
        let ended = run(command.args(args).args(["-J", "x.json"])).expect_code(0);
        let _ = fs::remove_file(folder.path().join("x.csv.1"));
        let rows = csv(&folder.path().join("x.csv"));
        assert_eq!(
            rows.len(),
            2 * 2 * 2 * 2,
            "two collectives, sizes, placements, groups"
        );
        for pair in rows.chunks(2) {
            assert_eq!(
                [pair[0]["group"].as_str(), &pair[1]["group"]],
                groups,
                "{name}={value}"
            );
            assert_eq!(
                [pair[0]["ranks"].as_str(), &pair[1]["ranks"]],
                ranks,
                "{name}={value}"
            );
            assert!(
                pair.iter()
                    .all(|row| row["wrong"] == "0" || row["wrong"].is_empty()),
                "{pair:?}"
            );
        }
        assert!(
            ended
                .stdout
                .contains(&format!("Rank  3 Group {:>2}", groups[1])),
            "{}",
            ended.stdout
        );
        assert_eq!(ended.rows().len(), 4, "the table has the means");
        let all = json(&folder.path().join("x.json"));
        let results = all["results"].as_array().expect("a list");
        assert_eq!(
            results.len(),
            8,
            "both halves in one row, for each communicator"
        );
        assert!(
            results
                .iter()
                .all(|row| row["out_of_place"].is_object() && row["in_place"].is_object()),
            "{all}"
        );
        let of_json: Vec<String> = results.iter().map(|row| row["group"].to_string()).collect();
        assert_eq!(of_json, groups.repeat(4));
    }
    let mut fault = mpirun(4, folder.path());
    fault.env("NCCL_TESTS_SPLIT", "MOD 2");
    let args = [
        "all_reduce",
        "-b",
        "64",
        "-e",
        "64",
        "-n",
        "2",
        "--inject-fault",
        "3",
        "--csv",
        "y.csv",
    ];
    run(fault.args(args)).expect_code(7);
    let rows = csv(&folder.path().join("y.csv"));
    let wrong: Vec<(&str, &str)> = rows
        .iter()
        .map(|row| (row["group"].as_str(), row["wrong"].as_str()))
        .collect();
    assert_eq!(
        wrong,
        [("0", "0"), ("1", "1"), ("0", "0"), ("1", "0")],
        "the group with the fault is named"
    );
    let mut again = mpirun(4, folder.path());
    again.env("NCCL_TESTS_SPLIT", "MOD 2");
    let refused = run(again.args(["all_reduce", "--resume", "--csv", "y.csv"])).expect_code(6);
    assert!(
        refused
            .stderr
            .contains("--resume cannot be combined with NCCL_TESTS_SPLIT"),
        "{}",
        refused.stderr
    );
    let mut bad = mpirun(2, folder.path());
    bad.env("NCCL_TESTS_SPLIT", "XOR 1");
    let refused = run(bad.args(["all_reduce", "-b", "8", "-e", "8"])).expect_code(6);
    assert!(
        refused
            .stderr
            .contains("NCCL_TESTS_SPLIT=XOR 1 cannot be read"),
        "{}",
        refused.stderr
    );
}

/// A rank that is set up otherwise than rank 0 is named, and all end.
#[test]
fn what_is_not_the_same_on_all_ranks_is_one_sentence() {
    if !has_mpi() {
        return;
    }
    let folder = folder();
    let two = |first: &[&str], second: &[&str]| {
        let mut command = launcher(folder.path());
        let args = [
            "all_reduce",
            "-b",
            "64",
            "-e",
            "64",
            "-n",
            "2",
            "--csv",
            "x.csv",
        ];
        command
            .args(["-np", "1", "env"])
            .args(first)
            .arg(common::BINARY)
            .args(args);
        command
            .args([":", "-np", "1", "env"])
            .args(second)
            .arg(common::BINARY)
            .args(args);
        run(&mut command)
    };
    for (first, second) in [
        ("NCCL_TESTS_SPLIT=%2", "A=b"),
        ("A=b", "NCCL_TESTS_SPLIT_MASK=1"),
        ("NCCL_TESTS_SPLIT=%2", "NCCL_TESTS_SPLIT=/2"),
    ] {
        let ended = two(&[first], &[second]).expect_code(6);
        assert!(
            ended
                .stderr
                .contains("ranks 0 and 1 have different settings of NCCL_TESTS_SPLIT"),
            "{}",
            ended.stderr
        );
    }
    let ended = two(&["A=b"], &["NCCL_TESTS_SPLIT=XOR 1"]).expect_code(6);
    assert!(
        ended
            .stderr
            .contains("NCCL_TESTS_SPLIT=XOR 1 cannot be read"),
        "{}",
        ended.stderr
    );
    let ended = two(&["A=b"], &["NCCL_TESTS_MIN_BW=many"]).expect_code(6);
    assert!(
        ended
            .stderr
            .contains("NCCL_TESTS_MIN_BW=many is not a bandwidth"),
        "{}",
        ended.stderr
    );
    // What rank 0 shows decides.
    two(&["A=b"], &["NCCL_TESTS_MIN_BW=100000"]).expect_code(0);
    let ended = two(
        &["NCCL_TESTS_SPLIT=|2147483648"],
        &["NCCL_TESTS_SPLIT=|2147483648"],
    )
    .expect_code(6);
    assert!(
        ended
            .stderr
            .contains("the largest that MPI allows is 2147483647"),
        "{}",
        ended.stderr
    );
}

/// Table, JSON and exit code go by one mean also where communicators are of several sizes.
#[test]
fn communicators_of_several_sizes_have_one_mean() {
    if !has_mpi() {
        return;
    }
    let folder = folder();
    let mut command = mpirun(4, folder.path());
    command.envs([
        ("NCCL_TESTS_SPLIT", "%3"),
        ("NCCL_TESTS_MIN_BW", "0.000001"),
    ]);
    let ended = run(command.args([
        "all_reduce",
        "-b",
        "1M",
        "-e",
        "1M",
        "-n",
        "3",
        "-J",
        "x.json",
        "--csv",
        "x.csv",
    ]));
    let ended = ended.expect_code(0);
    let line = ended
        .stdout
        .lines()
        .find(|line| line.contains("Avg bus bandwidth"))
        .expect("the line");
    let shown: f64 = line
        .split_whitespace()
        .nth(5)
        .expect("a field")
        .parse()
        .expect("a number");
    let all = json(&folder.path().join("x.json"));
    let of_json = all["average_bus_bandwidth"]["bandwidth"]
        .as_f64()
        .expect("a number");
    assert!(
        (shown / of_json - 1.0).abs() < 1e-4,
        "{shown} and {of_json}"
    );
    let rows = csv(&folder.path().join("x.csv"));
    let busbw: Vec<f64> = rows
        .iter()
        .map(|row| row["busbw_GBps"].parse().expect("a number"))
        .collect();
    let of_csv = busbw.iter().sum::<f64>() / busbw.len() as f64;
    assert!((shown / of_csv - 1.0).abs() < 1e-3, "{shown} and {of_csv}");
    assert_eq!(all["average_bus_bandwidth"]["okay"], "true");
}

#[test]
fn a_pipe_gets_one_json() {
    let folder = folder();
    let args = [
        "all_reduce",
        "-b",
        "8",
        "-e",
        "8",
        "-J",
        "/dev/stdout",
        "--csv",
        "x.csv",
    ];
    let ended = run(alone(folder.path()).args(args).args(MODEL)).expect_code(0);
    let documents: Vec<&str> = ended
        .stdout
        .lines()
        .filter(|line| line.starts_with('{'))
        .collect();
    let [one] = documents[..] else {
        panic!("{}", ended.stdout)
    };
    let all: serde_json::Value = serde_json::from_str(one).expect("JSON");
    assert_eq!(all["results"].as_array().map(Vec::len), Some(1));
}

#[test]
fn what_was_measured_otherwise_is_not_taken_for_what_is_asked_for() {
    let folder = folder();
    let sweep = |more: &[&str], code| {
        let args = [
            "all_reduce",
            "-b",
            "8",
            "-e",
            "16",
            "-f",
            "2",
            "--csv",
            "x.csv",
        ];
        run(alone(folder.path()).args(args).args(more).args(MODEL)).expect_code(code)
    };
    sweep(&["-n", "2"], 0);
    sweep(&["-n", "2", "--resume"], 0);
    assert_eq!(csv(&folder.path().join("x.csv")).len(), 4, "all were there");
    sweep(&["-n", "5", "--resume"], 0);
    let iters: Vec<String> = csv(&folder.path().join("x.csv"))
        .iter()
        .map(|row| row["iters"].clone())
        .collect();
    assert_eq!(iters, ["2", "2", "2", "2", "5", "5", "5", "5"]);
    fs::write(folder.path().join("x.csv"), "name,value\nx,1\n").expect("written");
    let refused = sweep(&["--resume"], 6);
    assert!(
        refused
            .stderr
            .contains("x.csv is not a CSV of this program"),
        "{}",
        refused.stderr
    );
    assert_eq!(
        fs::read_to_string(folder.path().join("x.csv")).expect("the file"),
        "name,value\nx,1\n"
    );
}

#[test]
fn an_alltoallv_of_another_pattern_is_measured_again() {
    let folder = folder();
    let matrix = |text: &str| fs::write(folder.path().join("m"), text).expect("written");
    let patterns = |name: &str, value: &str, more: &[&str]| {
        let mut command = alone(folder.path());
        command.env(format!("NCCL_TESTS_ALLTOALLV_{name}"), value);
        let args = [
            "alltoallv",
            "-b",
            "4K",
            "-e",
            "4K",
            "--json",
            "x.json",
            "--csv",
            "x.csv",
        ];
        run(command
            .args(args)
            .args(more)
            .args(["--backend", "model", "--ranks", "2"]))
        .expect_code(0);
        let rows = csv(&folder.path().join("x.csv"));
        let of_json = json(&folder.path().join("x.json"));
        let patterns: Vec<String> = rows.iter().map(|row| row["pattern"].clone()).collect();
        let of_json: Vec<&str> = of_json["records"]
            .as_array()
            .expect("records")
            .iter()
            .map(|record| record["pattern"].as_str().expect("a pattern"))
            .collect();
        assert_eq!(of_json, patterns, "what was measured before is kept");
        patterns
    };
    matrix("0 160\n160 0\n");
    let first = patterns("MATRIX_FILE", "m", &[]);
    assert!(
        first.len() == 2 && first[0].starts_with("matrix 2 ") && first[0] == first[1],
        "{first:?}"
    );
    assert_eq!(
        patterns("MATRIX_FILE", "m", &["--resume"]),
        first,
        "all were there"
    );
    // The busiest rank has as much to send as before.
    matrix("80 80\n0 160\n");
    let second = patterns("MATRIX_FILE", "m", &["--resume"]);
    assert!(
        second.len() == 4 && second[..2] == first && second[2] != first[0],
        "{second:?}"
    );
    assert_eq!(
        patterns("SPREAD", "0.5", &["--resume"])[4..],
        ["spread 0.5", "spread 0.5"]
    );
    assert_eq!(
        patterns("SPREAD", "0.25", &["--resume"])[6..],
        ["spread 0.25", "spread 0.25"]
    );
    assert_eq!(patterns("SPREAD", "0.50", &["--resume"]).len(), 8);
}

#[test]
fn a_mean_below_the_threshold_is_exit_7() {
    let folder = folder();
    let run_with = |least: &str, code| {
        let mut command = alone(folder.path());
        command.env("NCCL_TESTS_MIN_BW", least);
        run(command
            .args([
                "all_reduce",
                "-b",
                "1G",
                "-e",
                "1G",
                "--csv",
                "x.csv",
                "-J",
                "x.json",
            ])
            .args(MODEL))
        .expect_code(code)
    };
    let average = |ended: &Ended| {
        let line = ended
            .stdout
            .lines()
            .find(|line| line.starts_with("# Avg bus bandwidth"))
            .expect("the line")
            .to_owned();
        line.split(':').nth(1).expect("a value").trim().to_owned()
    };
    let fine = run_with("100", 0);
    assert!(average(&fine).ends_with(" OK"), "{}", average(&fine));
    assert_eq!(
        json(&folder.path().join("x.json"))["average_bus_bandwidth"]["okay"],
        "true"
    );
    let slow = run_with("1000", 7);
    assert!(average(&slow).ends_with(" FAILED"), "{}", average(&slow));
    assert!(
        slow.stderr
            .contains("below nine tenths of NCCL_TESTS_MIN_BW=1000"),
        "{}",
        slow.stderr
    );
    assert!(
        run_with("many", 6)
            .stderr
            .contains("NCCL_TESTS_MIN_BW=many")
    );
}

#[test]
fn json_has_the_keys_of_nccl_tests() {
    let folder = folder();
    links(folder.path());
    let mut command = by_name(folder.path(), "reduce_perf");
    command
        .env("NCCL_DEBUG_FILE", "é\t\"/x")
        .env("SECRET_TOKEN", "hidden");
    let args = [
        "-b", "8", "-e", "32", "-f", "2", "-r", "2", "-J", "x.json", "-N", "2",
    ];
    run(command.args(args).args(MODEL)).expect_code(0);
    let text = fs::read_to_string(folder.path().join("x.json")).expect("the file");
    assert!(!text.contains("hidden") && text.contains("é"), "{text}");
    let all = json(&folder.path().join("x.json"));
    for key in [
        "version",
        "start_time",
        "args",
        "env",
        "nccl_version",
        "config",
        "results",
        "errors",
        "end_time",
    ] {
        assert!(all.get(key).is_some(), "{key}");
    }
    assert_eq!(all["version"], 3);
    assert_eq!(
        (
            &all["config"]["minimum_bytes"],
            &all["config"]["step_factor"]
        ),
        (&8.into(), &2.into())
    );
    let results = all["results"].as_array().expect("a list");
    assert_eq!(results.len(), 6);
    let row = &results[0];
    assert_eq!(
        (&row["size"], &row["count"], &row["root"]),
        (&8.into(), &2.into(), &2.into())
    );
    assert_eq!(
        (row["type"].as_str(), row["redop"].as_str()),
        (Some("float"), Some("sum"))
    );
    for half in ["out_of_place", "in_place"] {
        assert!(
            row[half]["time"].as_f64().is_some_and(|time| time > 0.0),
            "{row}"
        );
        assert!(
            row[half]["bus_bw"].is_number() && row[half]["alg_bw"].is_number(),
            "{row}"
        );
        assert!(
            row[half]["nwrong"].is_null(),
            "a computed time is not checked"
        );
    }
    assert!(all["average_bus_bandwidth"]["bandwidth"].is_number());
    assert_eq!(all["out_of_bounds"]["okay"], "true");
    // One that is there is kept, and the new one has the name.
    run(by_name(folder.path(), "reduce_perf")
        .args(["-b", "8", "-e", "8", "-J", "x.json"])
        .args(MODEL))
    .expect_code(0);
    assert_eq!(
        json(&folder.path().join("x.json"))["results"]
            .as_array()
            .map(Vec::len),
        Some(1)
    );
    assert_eq!(json(&folder.path().join("x.json.1")), all);
}

/// What others read from the table: each with a parser of its kind.
#[test]
fn parsers_that_people_use_read_the_table() {
    if !has_mpi() {
        return;
    }
    let folder = folder();
    links(folder.path());
    let mut command = launcher(folder.path());
    command.args([
        "-np",
        "2",
        "bin/alltoall_perf",
        "-b",
        "64K",
        "-e",
        "4M",
        "-f",
        "4",
        "-n",
        "3",
    ]);
    let ended = run(&mut command).expect_code(0);
    let by_header = by_header_names(&ended.stdout);
    let by_columns = by_columns(&ended.stdout);
    assert_eq!(by_header.len(), 4);
    assert_eq!(by_header, by_columns, "{}", ended.stdout);
    assert!(by_header.iter().all(|row| row.time > 0.0));
    // `# Avg bus bandwidth    : 12.3 `: the last field, and the sixth of those that whitespace parts.
    let line = ended
        .stdout
        .lines()
        .find(|line| line.contains("Avg bus bandwidth"))
        .expect("the line");
    let last: f64 = line
        .split_whitespace()
        .last()
        .expect("a field")
        .parse()
        .expect("a number");
    let sixth: f64 = line
        .split_whitespace()
        .nth(5)
        .expect("a field")
        .parse()
        .expect("a number");
    assert_eq!(last, sixth);
    // The mean over both placements, of cells with two decimals.
    let cells: Vec<f64> = ended
        .rows()
        .iter()
        .flat_map(|row| [row[7], row[11]].map(|cell| cell.parse::<f64>()))
        .flatten()
        .collect();
    assert_eq!(cells.len(), 2 * by_header.len());
    let mean = cells.iter().sum::<f64>() / cells.len() as f64;
    assert!(
        (last - mean).abs() < 0.006,
        "{last}, and {mean} from the rows"
    );
    assert!(ended.stdout.contains("# Out of bounds values : 0 OK"));
    assert!(!ended.stdout.contains("FAILED"));
}

#[derive(Debug, PartialEq)]
struct Row {
    size: u64,
    time: f64,
    algbw: f64,
    busbw: f64,
    wrong: u64,
}

/// Finds the line of names by its words, and counts columns from the end of a row: some programs leave a cell empty.
fn by_header_names(text: &str) -> Vec<Row> {
    let lines: Vec<&str> = text.lines().collect();
    let at = lines
        .iter()
        .position(|line| line.contains("out-of-place"))
        .expect("the line above the names");
    let names: Vec<&str> = lines[at + 1]
        .trim_start_matches('#')
        .split_whitespace()
        .collect();
    let from_end = |name: &str| {
        names.len()
            - names
                .iter()
                .position(|other| *other == name)
                .expect("a column")
    };
    let rows = lines[at + 2..]
        .iter()
        .filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    rows.map(|line| {
        let cells: Vec<&str> = line.split_whitespace().collect();
        let number = |name: &str| {
            cells[cells.len() - from_end(name)]
                .parse::<f64>()
                .expect("a number")
        };
        Row {
            size: cells[0].parse().expect("a size"),
            time: number("time"),
            algbw: number("algbw"),
            busbw: number("busbw"),
            wrong: number("#wrong") as u64,
        }
    })
    .collect()
}

/// Takes the columns by their places: size 0, time 5, algbw 6, busbw 7, #wrong 8.
fn by_columns(text: &str) -> Vec<Row> {
    let rows = text
        .lines()
        .filter(|line| line.trim_start().starts_with(|c: char| c.is_ascii_digit()));
    rows.map(|line| {
        let cells: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| cells[at].parse::<f64>().expect("a number");
        let (size, wrong) = (number(0) as u64, number(8) as u64);
        Row {
            size,
            time: number(5),
            algbw: number(6),
            busbw: number(7),
            wrong,
        }
    })
    .collect()
}
