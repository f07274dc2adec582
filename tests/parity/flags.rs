//! What each flag of nccl-tests does.

use crate::{
    MODEL, by_name,
    common::{alone, csv, run},
    folder, links,
};

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
}

/// The sizes in the table of a run with `flags`.
#[track_caller]
fn sizes(flags: &[&str]) -> Vec<String> {
    let folder = folder();
    links(folder.path());
    let ended = run(by_name(folder.path(), "all_reduce_perf")
        .args(flags)
        .args(MODEL))
    .expect_code(0);
    ended.rows().iter().map(|row| row[0].to_owned()).collect()
}

#[test]
fn flags_of_the_sizes_count_as_in_nccl_tests() {
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
    assert_eq!(
        sizes(&["-b", "8", "-e", "16", "-f", "2", "-i", "0"]),
        ["8", "16"]
    );
}

#[test]
fn the_header_repeats_the_numbers_asked_for() {
    let folder = folder();
    links(folder.path());
    let header = run(by_name(folder.path(), "all_reduce_perf")
        .args(["-n", "7", "-w", "3", "-c", "0", "-m", "2"])
        .args(MODEL));
    let header = header.expect_code(0).stdout;
    assert!(
        header.contains("warmup iters: 3 iters: 7 agg iters: 2 validation: 0 graph: 0"),
        "{header}"
    );
    assert!(header.contains("# Nothing was checked"), "{header}");
}

#[test]
fn a_command_line_that_cannot_be_read_is_refused_with_one_sentence() {
    let folder = folder();
    links(folder.path());
    // The end of all flags is none of these.
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
        two.stderr
            .contains("under a name of nccl-tests only that collective runs"),
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
        (&["-G", "2", "-I", "1"], "a graph (-G) runs them as one"),
        (&["-G", "2", "-y", "1"], "cannot capture the null stream"),
        (&["-m", "2", "-z", "2"], "Use -z 3"),
        (
            &["-I", "1", "-n", "5", "-K", "5"],
            "-K skips all of the -n iterations",
        ),
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
