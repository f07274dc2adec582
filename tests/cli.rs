//! The command line as users see it, on the `model` backend: its times are computed, so that output is the same every
//! time.

mod common;

use std::path::Path;

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
        (&["all_reduce", "-n", "0"], "at least 1"),
        (&["all_reduce", "-b", "12Q"], "'12Q'"),
        (
            &["all_reduce", "-f", "0", "-i", "0"],
            "-i 0 never reaches a next size",
        ),
        (
            &["all_reduce", "-d", "float16"],
            "there is no type 'float16'",
        ),
        (&["all_reduce", "-o", "xor"], "there is no operation 'xor'"),
        (&["allreduce"], "did you mean all_reduce?"),
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
            "use one of off, conservative, balanced, aggressive, default",
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
        (&["compare"], "arguments were not provided: <DIR>; see"),
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
            .contains("no NCCL runs here: nothing is proved"),
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
            .contains("NCCL_DEBUG_FILE=/tmp/mine sends it elsewhere: unset it"),
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
fn an_earlier_result_is_kept() {
    let folder = folder();
    let measure = |size: &str| {
        let arguments = ["all_reduce", "-b", size, "-e", size, "--out", "here"];
        run(alone(folder.path()).args(arguments).args(MODEL)).expect_code(0)
    };
    measure("8");
    let second = measure("1K");
    assert!(
        second
            .stderr
            .contains("keeping the earlier here/results.csv as here/results.csv.1"),
        "{}",
        second.stderr
    );
    let here = folder.path().join("here");
    assert_eq!(csv(&here.join("results.csv"))[0]["size_bytes"], "1024");
    assert_eq!(csv(&here.join("results.csv.1"))[0]["size_bytes"], "8");
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
fn a_run_goes_on_where_an_earlier_one_stopped_without_measuring_a_case_twice() {
    let folder = folder();
    let arguments = [
        "all_gather",
        "alltoallv",
        "-b",
        "64",
        "-e",
        "64K",
        "-f",
        "32",
        "-d",
        "float,f8e5m2",
        "--out",
        "here",
    ];
    let all = |command: &mut std::process::Command| {
        run(command.args(arguments).args(MODEL)).expect_code(0)
    };
    let whole = all(&mut alone(folder.path()));
    let path = folder.path().join("here/results.csv");
    let text = std::fs::read_to_string(&path).expect("the CSV");
    // Killed while the sixth row was being written, with the first half of a table's row behind it.
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    std::fs::write(&path, lines[..6].concat() + &lines[6][..20]).expect("written");

    let rest = all(alone(folder.path()).env("SLURM_RESTART_COUNT", "1"));
    let again = std::fs::read_to_string(&path).expect("the CSV");
    assert!(
        again.starts_with(&lines[..6].concat()),
        "the earlier rows are as they were"
    );
    assert_eq!(again.lines().count(), text.lines().count());
    let cases = |text: &str| {
        let rows = text.lines().map(|line| {
            line.split(',')
                .skip(2)
                .take(17)
                .collect::<Vec<_>>()
                .join(",")
        });
        rows.collect::<Vec<_>>()
    };
    assert_eq!(cases(&again), cases(&text));
    // Not the times: the file has six digits of them, which round to two decimals in another way.
    let rows = |ended: &common::Ended| {
        ended
            .rows()
            .iter()
            .map(|row| row[..5].join(" "))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        rows(&rest),
        rows(&whole),
        "the table has the earlier rows too"
    );

    // A run that was complete goes on with nothing to do.
    let nothing = all(alone(folder.path()).arg("--resume"));
    assert_eq!(rows(&nothing), rows(&whole));
    assert_eq!(std::fs::read_to_string(&path).expect("the CSV"), again);
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

/// A run that cannot go on with the rows of the first one.
struct OtherRun {
    variables: &'static [(&'static str, &'static str)],
    options: &'static [&'static str],
    /// A part of the message.
    difference: &'static str,
}

#[test]
fn a_run_goes_on_only_with_rows_that_were_measured_alike() {
    let folder = folder();
    let sweep = |variables: &[(&str, &str)], more: &[&str], code| {
        let mut command = alone(folder.path());
        command
            .args(["all_reduce", "-b", "8", "-e", "16", "-f", "2", "--out", "r"])
            .args(MODEL)
            .args(more);
        run(command.envs(variables.iter().copied()))
            .expect_code(code)
            .stderr
    };
    sweep(&[], &["--level", "off"], 0);
    let files = || {
        ["results.csv", "run.json", "results.json"]
            .map(|name| std::fs::read(folder.path().join("r").join(name)))
    };
    let before = files().map(|file| file.expect("a file"));
    for OtherRun {
        variables,
        options,
        difference,
    } in [
        OtherRun {
            variables: &[],
            options: &["--level", "aggressive", "--resume"],
            difference: "was measured with level off, and this run has level aggressive",
        },
        OtherRun {
            variables: &[("SLURM_RESTART_COUNT", "1")],
            options: &["--level", "aggressive"],
            difference: "level off, and this run has level aggressive",
        },
        OtherRun {
            variables: &[],
            options: &["--level", "off", "-a", "3", "--resume"],
            difference: "-a 1, and this run has -a 3",
        },
        OtherRun {
            variables: &[],
            options: &["--level", "off", "-z", "1", "--resume"],
            difference: "-z 0, and this run has -z 1",
        },
        OtherRun {
            variables: &[("NCCL_ALGO", "Ring")],
            options: &["--level", "off", "--resume"],
            difference: "NCCL_ALGO unset, and this run has NCCL_ALGO Ring",
        },
        OtherRun {
            variables: &[],
            options: &["--level", "off", "--resources", "lean", "--resume"],
            difference: "resources none, and this run has resources lean",
        },
    ] {
        let refused = sweep(variables, options, 6);
        assert!(
            refused.contains(difference) && refused.contains("r/results.csv "),
            "{options:?}: {refused}"
        );
        assert_eq!(
            files().map(|file| file.expect("a file")),
            before,
            "{options:?}"
        );
    }
    // Where NCCL logs does not change what is measured.
    let resumes = sweep(
        &[("NCCL_DEBUG", "WARN")],
        &["--level", "off", "--resume"],
        0,
    );
    assert!(
        resumes.contains("going on with r/results.csv: 4 rows are there"),
        "{resumes}"
    );
    let ids = |name: &str| json(&folder.path().join("r").join(name));
    assert_eq!(
        ids("run.json")["run_id"].as_str(),
        csv(&folder.path().join("r/results.csv"))[0]
            .get("run_id")
            .map(|id| &id[..])
    );
}

#[test]
fn sizes_that_round_alike_are_as_many_cases_when_a_run_goes_on() {
    let folder = folder();
    let sweep = |more: &[&str]| {
        let mut command = alone(folder.path());
        run(command
            .args([
                "all_reduce",
                "-b",
                "8",
                "-e",
                "20",
                "-i",
                "3",
                "--csv",
                "x.csv",
            ])
            .args(MODEL)
            .args(more))
        .expect_code(0);
        csv(&folder.path().join("x.csv")).len()
    };
    assert_eq!(sweep(&[]), 10, "8, 11, 14, 17 and 20 bytes");
    let path = folder.path().join("x.csv");
    let text = std::fs::read_to_string(&path).expect("the CSV");
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    std::fs::write(&path, lines[..2].concat()).expect("written");
    assert_eq!(sweep(&["--resume"]), 10);
}

#[test]
fn a_csv_of_an_earlier_version_gets_the_later_columns() {
    let folder = folder();
    let sweep = |more: &[&str]| {
        let mut command = alone(folder.path());
        run(command
            .args(["all_reduce", "-b", "8", "-e", "8", "--csv", "x.csv"])
            .args(MODEL)
            .args(more))
        .expect_code(0);
    };
    sweep(&[]);
    let path = folder.path().join("x.csv");
    let text = std::fs::read_to_string(&path).expect("the CSV");
    // Up to the note, which has a comma of its own in a row.
    let narrow = |(at, line): (usize, &str)| {
        line.split(',').take(25 + at).collect::<Vec<_>>().join(",") + "\r\n"
    };
    std::fs::write(
        &path,
        text.lines()
            .take(2)
            .enumerate()
            .map(narrow)
            .collect::<String>(),
    )
    .expect("written");
    sweep(&["--resume"]);
    let again = std::fs::read_to_string(&path).expect("the CSV");
    assert_eq!(again.lines().next(), text.lines().next());
    // The reader refuses rows that are not as long as the header.
    assert_eq!(csv(&path).len(), 2, "{again}");
}

#[test]
fn links_lead_to_the_files_that_they_stand_for() {
    let folder = folder();
    std::fs::create_dir(folder.path().join("store")).expect("made");
    for name in ["c.csv", "j.json", "n.json"] {
        std::os::unix::fs::symlink(format!("store/{name}"), folder.path().join(name))
            .expect("linked");
    }
    let sweep = || {
        let mut command = alone(folder.path());
        command
            .args([
                "all_reduce",
                "--csv",
                "c.csv",
                "--json",
                "j.json",
                "-J",
                "n.json",
            ])
            .args(MODEL);
        run(&mut command).expect_code(0);
    };
    sweep();
    sweep();
    for name in ["c.csv", "j.json", "n.json"] {
        assert!(folder.path().join(name).is_symlink(), "{name}");
        assert!(folder.path().join("store").join(name).is_file(), "{name}");
        assert!(
            folder
                .path()
                .join("store")
                .join(format!("{name}.1"))
                .is_file(),
            "what was there is kept: {name}"
        );
    }
}

#[test]
fn what_goes_to_stdout_is_in_the_file_that_stdout_is() {
    let folder = folder();
    // Also by a link of the user's own: `/dev/stdout` is one.
    std::os::unix::fs::symlink("/proc/self/fd/1", folder.path().join("mine")).expect("linked");
    for to in ["/dev/stdout", "/dev/fd/1", "mine"] {
        let table = folder.path().join("table");
        let mut command = alone(folder.path());
        command
            .args([
                "all_reduce",
                "-b",
                "8",
                "-e",
                "16",
                "-f",
                "2",
                "--csv",
                to,
                "--json",
                "x.json",
            ])
            .args(MODEL);
        let status = command
            .stdout(std::fs::File::create(&table).expect("a file"))
            .status()
            .expect("it ran");
        assert!(status.success());
        let text = std::fs::read_to_string(&table).expect("the table");
        assert_eq!(
            text.lines()
                .filter(|line| line.contains(",all_reduce,model,"))
                .count(),
            4,
            "{to}\n{text}"
        );
        assert!(text.contains("# Collective test concluded"), "{to}\n{text}");
        let mut command = alone(folder.path());
        command
            .args(["all_reduce", "--csv", "y.csv", "-J", to])
            .args(MODEL);
        let status = command
            .stdout(std::fs::File::create(&table).expect("a file"))
            .status()
            .expect("it ran");
        assert!(status.success());
        let text = std::fs::read_to_string(&table).expect("the table");
        assert!(
            text.contains("# Collective test concluded") && text.contains("\n{"),
            "{to}\n{text}"
        );
        assert!(folder.path().join("mine").is_symlink() && Path::new("/dev/stdout").is_symlink());
    }
}

#[test]
fn two_results_never_go_to_one_file() {
    let folder = folder();
    for arguments in [
        ["--csv", "x", "--json", "x"],
        ["--csv", "x", "-J", "./x"],
        ["--out", "d", "--csv", "d/run.json"],
        ["--out", "d", "-J", "d/../d/results.json"],
    ] {
        let ended = run(alone(folder.path())
            .args(["all_reduce"])
            .args(MODEL)
            .args(arguments))
        .expect_code(6);
        assert!(
            ended
                .stderr
                .contains("two of the results would go to this file"),
            "{}",
            ended.stderr
        );
    }
}

#[test]
fn a_path_that_cannot_be_a_file_leaves_all_others_as_they_are() {
    let folder = folder();
    std::fs::write(folder.path().join("q.csv"), "mine\n").expect("written");
    for path in [".", "/", "..", "sub/"] {
        std::fs::create_dir_all(folder.path().join("sub")).expect("made");
        let ended = run(alone(folder.path())
            .args(["all_reduce", "--csv", "q.csv", "-J", path])
            .args(MODEL));
        assert!(
            ended.expect_code(6).stderr.contains("cannot be written: "),
            "{path}"
        );
        assert_eq!(
            std::fs::read_to_string(folder.path().join("q.csv")).expect("the file"),
            "mine\n"
        );
        let names: Vec<_> = std::fs::read_dir(folder.path())
            .expect("read")
            .flatten()
            .map(|e| e.file_name())
            .collect();
        assert!(
            names.iter().all(|name| name == "q.csv" || name == "sub"),
            "{names:?}"
        );
    }
}

#[test]
fn two_runs_of_one_second_have_a_folder_each() {
    let folder = folder();
    for _ in 0..3 {
        run(alone(folder.path()).args(["all_reduce"]).args(MODEL)).expect_code(0);
    }
    let folders = std::fs::read_dir(folder.path().join("results")).expect("results");
    let complete = folders.filter(|run| {
        run.as_ref()
            .expect("a run")
            .path()
            .join("run.json")
            .is_file()
    });
    assert_eq!(complete.count(), 3);
}

#[test]
fn odd_bytes_and_closed_pipes_are_no_bugs() {
    use std::os::unix::ffi::OsStrExt;
    let folder = folder();
    let name = std::ffi::OsStr::from_bytes(b"o\xff");
    run(alone(folder.path())
        .args(["all_reduce", "--out"])
        .arg(name)
        .args(MODEL))
    .expect_code(0);
    let shell = |line: &str| {
        let mut command = std::process::Command::new("bash");
        command
            .current_dir(folder.path())
            .args(["-c", &format!("set -o pipefail; {line}")]);
        run(command.env("B", common::BINARY))
    };
    for line in [
        "\"$B\" all --list --ranks 4 -b 8 -e 1G -f 2 | head -n 1",
        "\"$B\" levels | head -n 1",
        "\"$B\" all_reduce --backend model 2>/dev/full",
        "\"$B\" all_reduce --backend model 2>&- >/dev/null",
    ] {
        let ended = shell(line).expect_code(0);
        assert!(
            !ended.stderr.contains("internal error"),
            "{line}: {}",
            ended.stderr
        );
    }
    let full = shell("\"$B\" all_reduce --backend model >/dev/full").expect_code(1);
    assert!(
        full.stderr
            .contains("the table cannot be written to stdout"),
        "{}",
        full.stderr
    );
}

/// Each one sentence on stderr and exit 1.
#[test]
fn what_only_prints_fails_where_nothing_can_be_printed() {
    let folder = folder();
    run(alone(folder.path())
        .args(["alltoall", "-b", "8", "-e", "8", "--out", "steps/0-default"])
        .args(MODEL))
    .expect_code(0);
    let log = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/data/nccl-logs/a2a.split.default.log"
    );
    for arguments in [
        &["--help"] as &[&str],
        &["--version"],
        &["topo", "--help"],
        &["all_reduce", "--list", "--ranks", "2"],
        &["levels"],
        &["levels", "balanced", "--export"],
        &["topo", "--format", "json"],
        &["doctor"],
        &["proof", log],
        &["proof", "--json", log],
        &["links", "bin"],
        &["compare", "steps"],
        &["submit", "--dry-run"],
    ] {
        let full = std::fs::File::options()
            .write(true)
            .open("/dev/full")
            .expect("/dev/full");
        let ended = alone(folder.path())
            .args(arguments)
            .stdout(full)
            .output()
            .expect("started");
        let stderr = String::from_utf8_lossy(&ended.stderr);
        let words = "cannot be written to stdout: No space left on device";
        assert_eq!(ended.status.code(), Some(1), "{arguments:?}: {stderr}");
        assert_eq!(stderr.matches(words).count(), 1, "{arguments:?}: {stderr}");
        assert!(
            !stderr.contains("internal error"),
            "{arguments:?}: {stderr}"
        );

        let (read, write) = std::io::pipe().expect("a pipe");
        drop(read);
        let ended = alone(folder.path())
            .args(arguments)
            .stdout(write)
            .output()
            .expect("started");
        let stderr = String::from_utf8_lossy(&ended.stderr);
        assert!(
            matches!(ended.status.code(), Some(0 | 10)),
            "{arguments:?}: {stderr}"
        );
        assert!(!stderr.contains("stdout"), "{arguments:?}: {stderr}");
    }
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
        "4294967295",
    ]);
    assert!(
        run(&mut command)
            .expect_code(6)
            .stderr
            .contains("more than a million cases")
    );
}
