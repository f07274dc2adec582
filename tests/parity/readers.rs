//! What programs that read nccl-tests' output, and scripts that set its variables, rely on.

use serde_json::Value;

use crate::{
    MODEL, by_name,
    common::{Ended, alone, csv, has_mpi, json, launcher, run},
    folder, links,
};

/// Returns the words after `# nccl-tests version` if the line has the form of nccl-tests 2.20:
/// version, something in parentheses, and two numbers.
fn version_line(text: &str) -> Option<(String, String, u32, u32)> {
    let line = text.lines().next()?.strip_prefix("# nccl-tests version ")?;
    let (version, rest) = line.split_once(" (")?;
    let (who, rest) = rest.split_once(") nccl-headers=")?;
    let (headers, library) = rest.split_once(" nccl-library=")?;
    let (headers, library) = (headers.parse().ok()?, library.parse().ok()?);
    Some((version.to_owned(), who.to_owned(), headers, library))
}

#[test]
fn the_version_line_and_help_are_those_of_the_name() {
    let folder = folder();
    links(folder.path());
    let small = ["-b", "8", "-e", "8"];
    let named = |arguments: &[&str]| {
        run(by_name(folder.path(), "all_reduce_perf").args(arguments)).expect_code(0)
    };
    let table = named(&[&small[..], &MODEL].concat()).stdout;
    let (version, who, headers, library) =
        version_line(&table).unwrap_or_else(|| panic!("{table}"));
    let own = env!("CARGO_PKG_VERSION");
    assert_eq!(
        (version.as_str(), who),
        ("2.19.6", format!("pxnbench {own}"))
    );
    assert!(headers > 20_000 && library == 0, "no NCCL ran: {table}");
    let own_name = run(alone(folder.path())
        .arg("all_reduce")
        .args(small)
        .args(MODEL));
    let own_line = format!("# pxnbench version {own} backend=model\n");
    assert!(own_name.expect_code(0).stdout.starts_with(&own_line));

    for help in ["-h", "--help"] {
        let text = named(&[help]).stdout;
        assert!(
            text.contains("\nUsage: all_reduce_perf [OPTIONS]\n"),
            "{text}"
        );
        assert!(text.contains("-b, --minbytes <SIZE>"), "{text}");
        for foreign in ["[COLLECTIVE]", "Commands:", "doctor", "pxnbench all_reduce"] {
            assert!(!text.contains(foreign), "{foreign}: {text}");
        }
    }
    assert_eq!(
        named(&["--version"]).stdout,
        format!("all_reduce_perf 2.19.6 (pxnbench {own})\n")
    );
    let unknown = run(by_name(folder.path(), "all_reduce_perf").arg("-Q")).expect_code(6);
    assert!(
        unknown.stderr.ends_with("see all_reduce_perf --help\n"),
        "{}",
        unknown.stderr
    );
}

/// The types of the fields that nccl-tests 2.19.6 writes. `double` always has a fraction.
const TYPES: [(&str, &str); 36] = [
    ("/version", "int"),
    ("/start_time", "string"),
    ("/args/0", "string"),
    ("/env/0", "string"),
    ("/nccl_version", "int"),
    ("/config/nthreads", "int"),
    ("/config/ngpus", "int"),
    ("/config/minimum_bytes", "int"),
    ("/config/maximum_bytes", "int"),
    ("/config/step_factor", "int"),
    ("/config/warmup_iters", "int"),
    ("/config/iterations", "int"),
    ("/config/aggregated_iterations", "int"),
    ("/config/validation", "int"),
    ("/config/graph", "int"),
    ("/config/blocking_collectives", "string"),
    ("/config/per_iter_timing", "string"),
    ("/config/per_iter_skip", "int"),
    ("/config/parallel_init", "string"),
    ("/config/devices/0/rank", "int"),
    ("/config/devices/0/device_hex", "string"),
    ("/results/0/size", "int"),
    ("/results/0/count", "int"),
    ("/results/0/type", "string"),
    ("/results/0/redop", "string"),
    ("/results/0/root", "string"),
    ("/results/0/out_of_place/time", "double"),
    ("/results/0/out_of_place/alg_bw", "double"),
    ("/results/0/in_place/bus_bw", "double"),
    ("/results/0/in_place/nwrong", "double"),
    ("/results/0/actual_iterations", "int"),
    ("/results/0/experiment_name", "string"),
    ("/out_of_bounds/count", "int"),
    ("/out_of_bounds/okay", "string"),
    ("/average_bus_bandwidth/bandwidth", "double"),
    ("/end_time", "string"),
];

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::String(_) => "string",
        Value::Number(number) if number.is_f64() => "double",
        Value::Number(_) => "int",
        Value::Null => "null",
        _ => "other",
    }
}

#[test]
fn json_has_the_types_of_nccl_tests() {
    if !has_mpi() {
        return;
    }
    let folder = folder();
    links(folder.path());
    let mut command = launcher(folder.path());
    command.env("NCCL_DEBUG", "VERSION");
    command.args([
        "-np",
        "2",
        "bin/all_reduce_perf",
        "-b",
        "8",
        "-e",
        "64",
        "-f",
        "2",
        "-n",
        "2",
    ]);
    let ended = run(command.args(["-J", "x.json"])).expect_code(0);
    assert!(
        ended
            .stdout
            .starts_with("# Writing JSON output to x.json\n# nccl-tests version "),
        "{}",
        ended.stdout
    );
    let all = json(&folder.path().join("x.json"));
    for (field, expected) in TYPES {
        let value = all
            .pointer(field)
            .unwrap_or_else(|| panic!("{field}: {all}"));
        assert_eq!(type_of(value), expected, "{field}: {value}");
    }
    assert_eq!(all["results"][0]["root"], "    -1");
    assert_eq!(all["results"][0]["in_place"]["nwrong"], 0.0);
    assert!(
        all["results"][0].get("computed").is_none(),
        "these were measured"
    );
}

#[test]
fn computed_rows_are_marked_in_json() {
    let folder = folder();
    let sweep = [
        "all_reduce",
        "-b",
        "8",
        "-e",
        "64",
        "-f",
        "8",
        "-J",
        "x.json",
    ];
    run(alone(folder.path())
        .args(sweep)
        .args(["--csv", "x.csv"])
        .args(MODEL))
    .expect_code(0);
    let all = json(&folder.path().join("x.json"));
    assert_eq!(all["config"]["backend"], "model");
    let results = all["results"].as_array().expect("a list");
    assert!(
        results.len() == 2 && results.iter().all(|row| row["computed"] == "true"),
        "{all}"
    );
}

/// Flags that need a GPU: what ran is told, not what was asked for.
#[test]
fn what_had_no_effect_is_not_reported_as_if_it_had() {
    let folder = folder();
    links(folder.path());
    let flags = [
        "-t", "2", "-g", "8", "-p", "1", "-G", "4", "-u", "3", "-J", "x.json",
    ];
    let ended = run(by_name(folder.path(), "all_reduce_perf")
        .args(["-b", "8", "-e", "8"])
        .args(flags)
        .args(MODEL))
    .expect_code(0);
    assert!(
        ended
            .stderr
            .contains("ignored, because NCCL does not run on GPUs here: -t -g -G -u")
    );
    assert!(
        ended.stdout.contains("\n# nThread 1 nGpus 1 minBytes 8 ")
            && ended.stdout.contains(" graph: 0 unalign: 0\n")
            && !ended.stdout.contains("# Parallel Init"),
        "{}",
        ended.stdout
    );
    let config = &json(&folder.path().join("x.json"))["config"];
    assert_eq!(
        [&config["nthreads"], &config["ngpus"], &config["graph"]],
        [1, 1, 0]
    );
    assert_eq!(config["parallel_init"], "false");
    let ended = run(by_name(folder.path(), "all_reduce_perf")
        .args(["-b", "8", "-e", "8", "-z", "1", "-U", "1", "-J", "z.json"])
        .args(MODEL))
    .expect_code(0);
    assert_eq!(ended.rows()[0][13..], ["N/A", "N/A", "N/A", "computed"]);
    assert!(!ended.stdout.contains("# Blocking"), "{}", ended.stdout);
    let config = &json(&folder.path().join("z.json"))["config"];
    for key in ["blocking_collectives", "per_iter_timing", "tuning"] {
        assert_eq!(config[key], "false", "{key}");
    }
}

const VARIABLES: [&str; 8] = [
    "NCCL_TESTS_SPLIT",
    "NCCL_TESTS_SPLIT_MASK",
    "NCCL_TESTS_DEVICE",
    "NCCL_TESTS_MIN_BW",
    "NCCL_TESTS_ALLTOALLV_SPREAD",
    "NCCL_TESTS_ALLTOALLV_MATRIX_FILE",
    "NCCL_TESTS_ALLTOALLV_MATRIX_SCALE",
    "NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY",
];

#[test]
fn a_variable_that_is_set_and_empty_is_not_set() {
    let folder = folder();
    links(folder.path());
    let sweep = |command: &mut std::process::Command| -> Ended {
        run(command
            .args(["-b", "1K", "-e", "4K", "-f", "2"])
            .args(MODEL))
        .expect_code(0)
    };
    let unset = sweep(&mut by_name(folder.path(), "alltoallv_perf"));
    for value in ["", " "] {
        let empty = sweep(
            by_name(folder.path(), "alltoallv_perf").envs(VARIABLES.map(|name| (name, value))),
        );
        let rows = |ended: &Ended| ended.rows().concat().join(" ");
        assert_eq!(rows(&empty), rows(&unset), "{value:?}");
        assert!(!empty.stdout.contains("OK\n# Avg bus bandwidth    : 0 OK"));
    }
}

/// `-n 0`: what maintainers of nccl-tests recommend to check data only.
#[test]
fn no_iterations_check_the_data_without_timing() {
    if !has_mpi() {
        return;
    }
    let folder = folder();
    links(folder.path());
    let sweep = |more: &[&str], code| {
        let mut command = launcher(folder.path());
        command.args([
            "-np",
            "2",
            "bin/all_reduce_perf",
            "-b",
            "1K",
            "-e",
            "64K",
            "-f",
            "64",
        ]);
        command.args(["-n", "0", "--csv", "x.csv", "-J", "x.json"]);
        run(command.args(more)).expect_code(code)
    };
    let ended = sweep(&[], 0);
    let rows = ended.rows();
    assert_eq!(rows.len(), 2);
    for row in &rows {
        let zeros = ["0.00", "0.00", "0.00", "0"];
        assert_eq!([&row[5..9], &row[9..13]], [zeros, zeros], "{row:?}");
    }
    assert!(
        ended.stdout.contains(
            "# Nothing was timed\n# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 0 \n"
        ),
        "{}",
        ended.stdout
    );
    for row in csv(&folder.path().join("x.csv")) {
        assert_eq!(
            [&row["wrong"], &row["status"], &row["note"], &row["time_us"]],
            ["0", "ok", "not timed (-n 0)", ""]
        );
    }
    let all = json(&folder.path().join("x.json"));
    assert_eq!(all["results"][0]["out_of_place"]["nwrong"], 0.0);
    assert_eq!(all["results"][0]["out_of_place"]["time"], 0.0);
    let wrong = sweep(&["--inject-fault", "1"], 7);
    assert_eq!(wrong.rows()[0][8], "1", "{}", wrong.stdout);
    assert!(
        wrong.stdout.contains("# Out of bounds values : 1 FAILED"),
        "{}",
        wrong.stdout
    );
    let both = sweep(&["-I", "1"], 6);
    assert!(both.stderr.contains("-n 0 has none"), "{}", both.stderr);
}

#[test]
fn json_in_a_missing_folder_is_left_out_as_in_nccl_tests() {
    let folder = folder();
    links(folder.path());
    let ended = run(by_name(folder.path(), "all_reduce_perf")
        .args(["-b", "8", "-e", "8", "-J", "no/such/x.json"])
        .args(MODEL))
    .expect_code(0);
    assert!(
        ended
            .stdout
            .starts_with("# skipping json output; no/such/x.json not accessible\n"),
        "{}",
        ended.stdout
    );
    assert!(
        ended.stderr.contains("no/such/x.json is not written"),
        "{}",
        ended.stderr
    );
    assert_eq!(ended.rows().len(), 1);
    assert!(!folder.path().join("no").exists());
}
