//! The command line as users see it, on the `model` backend: its times are computed, so that output
//! is the same every time.

mod check;
#[path = "../common/mod.rs"]
mod common;
mod compare;
mod damaged;
mod disks;
mod files;
mod hosts;
mod inputs;
mod join;
mod limits;
mod locks;
mod names;
mod plain_words;
mod plan;
mod rehearse;
mod resume;
mod spread;
mod submit;
mod terminal;

use common::{alone, csv, golden, json, run};

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

const MODEL: [&str; 4] = ["--backend", "model", "--ranks", "4"];

#[test]
fn table_csv_and_json() {
    let folder = folder();
    let arguments = [
        "all_reduce",
        "all_gather",
        "-b",
        "8",
        "-e",
        "1G",
        "-f",
        "64",
        "-d",
        "float,half",
    ];
    let files = ["--csv", "x.csv", "--json", "x.json"];
    let ended = run(alone(folder.path()).args(arguments).args(MODEL).args(files)).expect_code(0);
    golden("table.txt", &ended.stdout);
    golden(
        "results.csv",
        &std::fs::read_to_string(folder.path().join("x.csv")).expect("the CSV"),
    );
    let mut results = json(&folder.path().join("x.json"));
    // The run part names this machine; its keys are what matters.
    let keys: Vec<_> = results["run"]
        .as_object()
        .expect("an object")
        .keys()
        .cloned()
        .collect();
    results["run"] = keys.into();
    golden(
        "results.json",
        &serde_json::to_string_pretty(&results).expect("JSON"),
    );
}

#[test]
fn help_is_complete() {
    let folder = folder();
    let ended = run(alone(folder.path()).arg("--help")).expect_code(0);
    golden("help.txt", &ended.stdout);
    for flag in [
        "-b", "-e", "-i", "-f", "-n", "-w", "-c", "-d", "-o", "-r", "--list", "--csv", "--json",
        "--out",
    ] {
        assert!(ended.stdout.contains(flag), "{flag}");
    }
}

#[test]
fn list_says_what_would_run_and_runs_nothing() {
    let folder = folder();
    let arguments = [
        "broadcast",
        "alltoall",
        "-b",
        "64",
        "-e",
        "4K",
        "-f",
        "64",
        "-r",
        "all",
        "--list",
        "--ranks",
        "3",
    ];
    let ended = run(alone(folder.path()).args(arguments)).expect_code(0);
    golden("list.txt", &ended.stdout);
    assert_eq!(
        std::fs::read_dir(folder.path()).expect("a folder").count(),
        0,
        "nothing is written"
    );
}

/// Each one sentence on stderr, nothing on stdout, exit 6.
#[test]
fn bad_input_gets_one_sentence() {
    let folder = folder();
    for (arguments, words) in [
        (&["all_reduce", "-b", "0"] as &[&str], "'0'"),
        (
            &["all_reduce", "-b", "2G", "-e", "1G"],
            "-b 2G is larger than the largest -e 1G",
        ),
        (&["all_reduce", "-n", "abc"], "'abc'"),
        (&["all_reduce", "-n", "1.5"], "at least 0"),
        (&["all_reduce", "-b", "12Q"], "'12Q'"),
        (
            &["all_reduce", "-f", "0", "-i", "0"],
            "-i 0 never reaches the next size",
        ),
        (
            &["all_reduce", "-d", "float16"],
            "there is no type 'float16'",
        ),
        (&["all_reduce", "-o", "xor"], "there is no operation 'xor'"),
        (&["allreduce"], "did you mean all_reduce?"),
        (&["all_reduce_perf"], "did you mean all_reduce?"),
        (&["all_reduce", "-d", "fp16"], "did you mean half?"),
        (&["all_reduce", "-d", "bf16"], "did you mean bfloat16?"),
        (
            &["all_reduce", "-np", "4"],
            "-np is an option of the launcher",
        ),
        (
            &["all_reduce", "--nprocs", "4"],
            "--nprocs is an option of the launcher",
        ),
        (&["all_reduce", "-ngpus", "4"], "did you mean --ngpus?"),
        (&["doctr"], "'doctr' (did you mean doctor?)"),
        (&["topoo"], "'topoo' (did you mean topo?)"),
        (
            &["submitt", "--dry-run"],
            "'submitt' (did you mean submit?)",
        ),
        (&["all_recude"], "'all_recude' (did you mean all_reduce?)"),
        (&["all_reduce", "--frobnicate"], "--frobnicate"),
        (&["all_reduce", "-X"], "-X"),
        (&["all_reduce", "--backend", "gloo"], "gloo"),
        (
            &["all_reduce", "--level", "extreme"],
            "Use one of off, conservative, balanced, aggressive, default",
        ),
        (
            &["broadcast", "-r", "4"],
            "root 4 does not exist among 4 ranks",
        ),
        (&["all_reduce", "--out", "/proc/no/such"], "/proc/no/such"),
        (&["all_reduce", "--csv", "/proc/x.csv"], "/proc/x.csv"),
        (
            &["all_reduce", "-b", "8", "-e", "64M", "-i", "1"],
            "more than a million cases",
        ),
        (
            &["compare"],
            "arguments were not provided: <DIR>...; see pxnbench compare --help",
        ),
        (&[], "no collective given"),
    ] {
        let mut command = alone(folder.path());
        let has_backend = arguments.contains(&"gloo") || arguments.contains(&"compare");
        command
            .args(arguments)
            .args(if has_backend { &[] as &[&str] } else { &MODEL });
        let ended = run(&mut command).expect_code(6);
        let sentences: Vec<_> = ended
            .sentences()
            .into_iter()
            .filter(|line| !line.contains(" backend model"))
            .collect();
        assert_eq!(sentences.len(), 1, "{arguments:?}: {}", ended.stderr);
        assert!(
            sentences[0].contains(words),
            "{arguments:?}: {}",
            sentences[0]
        );
        assert_eq!(ended.stdout, "", "{arguments:?}");
    }
}

#[test]
fn what_cannot_be_proved_is_reported() {
    let folder = folder();
    let model = [
        "all_reduce",
        "-b",
        "8",
        "-e",
        "8",
        "--proof",
        "--csv",
        "x.csv",
    ];
    let ended = run(alone(folder.path()).args(model).args(MODEL)).expect_code(0);
    assert!(
        ended
            .stderr
            .contains("no NCCL runs here: nothing can be proved"),
        "{}",
        ended.stderr
    );
    let csv = std::fs::read_to_string(folder.path().join("x.csv")).expect("a CSV");
    assert!(
        csv.lines().skip(1).all(|row| row.ends_with(",,,,,")),
        "{csv}"
    );

    let elsewhere = run(alone(folder.path())
        .env("NCCL_DEBUG_FILE", "/tmp/mine")
        .args(model)
        .args(MODEL));
    let elsewhere = elsewhere.expect_code(6);
    assert!(
        elsewhere
            .stderr
            .contains("NCCL_DEBUG_FILE=/tmp/mine sends it elsewhere. Unset it"),
        "{}",
        elsewhere.stderr
    );
    if !std::path::Path::new("/dev/nvidiactl").exists() {
        let ended = run(alone(folder.path()).args(["proof", "--self-test"])).expect_code(5);
        assert!(
            ended.stderr.contains("there is no NVIDIA device on "),
            "{}",
            ended.stderr
        );
    }
}

#[test]
fn sizes_may_be_written_in_the_usual_ways() {
    let folder = folder();
    for (text, size) in [
        ("1.5G", "1610612736"),
        ("1GB", "1073741824"),
        ("8KiB", "8192"),
        ("1e6", "1000000"),
    ] {
        let ended = run(alone(folder.path())
            .args(["all_reduce", "-b", text, "-e", text, "--list"])
            .args(MODEL));
        assert!(
            ended.expect_code(0).stdout.contains(&format!(" {size} B")),
            "{text}"
        );
    }
}

#[test]
fn a_computed_time_says_so_in_each_row() {
    let folder = folder();
    let ended = run(alone(folder.path())
        .args(["alltoall", "--csv", "x.csv"])
        .args(MODEL))
    .expect_code(0);
    assert!(
        ended
            .rows()
            .iter()
            .all(|row| row.last() == Some(&"computed"))
    );
    assert!(
        csv(&folder.path().join("x.csv"))
            .iter()
            .all(|row| row["status"] == "computed" && row["wrong"].is_empty())
    );
}

#[test]
fn a_level_is_applied_and_the_users_own_setting_wins_aloud() {
    let folder = folder();
    let level = |command: &mut std::process::Command| {
        let ended = run(command.args(["alltoall", "--csv", "x.csv"]).args(MODEL)).expect_code(0);
        (
            csv(&folder.path().join("x.csv"))[0]["level"].clone(),
            ended.stderr,
        )
    };
    assert_eq!(level(&mut alone(folder.path())).0, "default");
    assert_eq!(
        level(alone(folder.path()).args(["--level", "balanced"])).0,
        "balanced"
    );
    let (effective, stderr) = level(
        alone(folder.path())
            .env("NCCL_P2P_PXN_LEVEL", "2")
            .args(["--level", "balanced"]),
    );
    assert_eq!(
        effective, "aggressive",
        "what is in force counts, not what was asked for"
    );
    assert!(
        stderr.contains("NCCL_P2P_PXN_LEVEL=2 is set and overrides level balanced"),
        "{stderr}"
    );
    assert_eq!(
        level(alone(folder.path()).env("NCCL_PXN_DISABLE", "0")).0,
        "custom"
    );
}

#[test]
fn a_table_that_a_signal_ends_says_how_far_it_came() {
    let folder = folder();
    let table = folder.path().join("table");
    let mut command = alone(folder.path());
    command
        .args([
            "all_reduce",
            "all_gather",
            "-b",
            "8",
            "-e",
            "16",
            "-f",
            "2",
            "-N",
            "1000000",
        ])
        .args(MODEL);
    command
        .args(["--csv", "x.csv"])
        .stdout(std::fs::File::create(&table).expect("a file"));
    let mut child = command
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("started");
    let text = || std::fs::read_to_string(&table).expect("the table");
    while text().lines().count() < 20 {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    run(std::process::Command::new("kill").args(["-USR1", &child.id().to_string()])).expect_code(0);
    assert_eq!(child.wait().expect("its end").code(), Some(9));
    let cases = csv(&folder.path().join("x.csv")).len();
    let text = text();
    let below: Vec<&str> = text
        .lines()
        .rev()
        .take_while(|line| line.is_empty() || line.starts_with('#'))
        .collect();
    let lines: Vec<&str> = below.into_iter().rev().collect();
    assert_eq!(
        lines[0],
        format!("# Not finished, {cases} of 8000000 cases: stopped by SIGUSR1"),
        "{lines:?}"
    );
    assert_eq!(
        lines[1..3],
        ["# Nothing was checked", "# Out of bounds values : 0 OK"],
        "{lines:?}"
    );
}

#[test]
fn a_root_matters_only_where_there_is_one() {
    let folder = folder();
    run(alone(folder.path())
        .args(["all_reduce", "-r", "5", "--list"])
        .args(MODEL))
    .expect_code(0);
    let mut command = alone(folder.path());
    command.args([
        "broadcast",
        "-r",
        "all",
        "--list",
        "--backend",
        "model",
        "--ranks",
        "1048576",
    ]);
    assert!(
        run(&mut command)
            .expect_code(6)
            .stderr
            .contains("more than a million cases")
    );
}

#[test]
fn a_misspelt_variable_of_nccl_tests_is_said_by_the_run() {
    let folder = folder();
    for (name, meant) in [
        ("NCCL_TESTS_MINBW", "did you mean NCCL_TESTS_MIN_BW?"),
        (
            "NCCL_TEST_SPLIT_MASK",
            "did you mean NCCL_TESTS_SPLIT_MASK?",
        ),
    ] {
        let mut command = alone(folder.path());
        command
            .args(["all_reduce", "-b", "8", "-e", "8"])
            .args(MODEL)
            .env(name, "7");
        let ended = run(&mut command).expect_code(0);
        let said = format!(
            "{name}=7 has no effect: neither nccl-tests nor pxnbench reads this name; {meant}"
        );
        assert!(ended.stderr.contains(&said), "{}", ended.stderr);
        assert!(ended.stderr.matches(name).count() == 1, "{}", ended.stderr);
    }
    let mut command = alone(folder.path());
    command
        .args(["all_reduce", "-b", "8", "-e", "8"])
        .args(MODEL);
    let ended = run(command.env("NCCL_TESTS_HOME", "/x")).expect_code(0);
    assert!(
        !ended.stderr.contains("NCCL_TESTS_HOME"),
        "{}",
        ended.stderr
    );
}
