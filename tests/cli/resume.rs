//! Runs that go on where an earlier one stopped.

use crate::{
    MODEL,
    common::{self, alone, csv, json, run},
    folder,
};

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
            difference: "was measured with level off, but this run has level aggressive",
        },
        OtherRun {
            variables: &[("SLURM_RESTART_COUNT", "1")],
            options: &["--level", "aggressive"],
            difference: "level off, but this run has level aggressive",
        },
        OtherRun {
            variables: &[],
            options: &["--level", "off", "-a", "3", "--resume"],
            difference: "-a 1, but this run has -a 3",
        },
        OtherRun {
            variables: &[],
            options: &["--level", "off", "-z", "1", "--resume"],
            difference: "-z 0, but this run has -z 1",
        },
        OtherRun {
            variables: &[("NCCL_ALGO", "Ring")],
            options: &["--level", "off", "--resume"],
            difference: "NCCL_ALGO unset, but this run has NCCL_ALGO Ring",
        },
        OtherRun {
            variables: &[],
            options: &["--level", "off", "--resources", "lean", "--resume"],
            difference: "resources none, but this run has resources lean",
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
        resumes.contains("continuing r/results.csv, which has 4 rows"),
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

/// The cells of a column, in the order of the rows.
fn column(path: &std::path::Path, name: &str) -> Vec<String> {
    let rows = csv(path);
    rows.iter().map(|row| row[name].clone()).collect()
}

#[test]
fn rows_tell_the_machine_and_the_versions_and_keep_them_when_a_run_goes_on() {
    let folder = folder();
    let sweep = |more: &[&str]| {
        let mut command = alone(folder.path());
        run(command
            .args([
                "all_reduce",
                "-b",
                "8",
                "-e",
                "16",
                "-f",
                "2",
                "--csv",
                "x.csv",
            ])
            .args(["--backend", "host"])
            .args(more))
        .expect_code(0)
    };
    if !common::has_mpi() {
        return;
    }
    sweep(&[]);
    let path = folder.path().join("x.csv");
    let first = csv(&path).remove(0);
    assert!(!first["hosts"].is_empty() && !first["device"].is_empty());
    assert!(!first["mpi_version"].is_empty(), "{first:?}");
    assert_eq!(first["nccl_version"], "", "no NCCL ran");

    // Rows of another host stay, and stay those of that host; a row of another MPI is measured
    // again.
    let text = std::fs::read_to_string(&path).expect("the CSV");
    let (host, mpi) = (&first["hosts"], &first["mpi_version"]);
    let mut lines: Vec<String> = text.lines().take(4).map(str::to_owned).collect();
    lines[1] = lines[1].replace(&format!(",{host},"), ",elsewhere,");
    lines[3] = lines[3].replace(mpi.as_str(), "Open MPI v1.0.0");
    std::fs::write(&path, lines.join("\r\n") + "\r\n").expect("written");
    let ended = sweep(&["--resume", "--json", "x.json"]);
    assert!(
        ended.stderr.contains(&format!(
            "earlier rows were measured on elsewhere, and the others on {host}."
        )),
        "{}",
        ended.stderr
    );
    let hosts = column(&path, "hosts");
    assert_eq!(hosts, ["elsewhere", host, host, host, host]);
    assert_eq!(column(&path, "mpi_version")[2..4], ["Open MPI v1.0.0", mpi]);
    let records = &json(&folder.path().join("x.json"))["records"];
    assert_eq!(records[0]["hosts"], "elsewhere", "also in results.json");
}

#[test]
fn without_a_place_the_latest_run_with_the_same_arguments_goes_on() {
    let folder = folder();
    let sweep = |size: &str, more: &[&str], code| {
        let mut command = alone(folder.path());
        command.args(["all_reduce", "-b", size, "-e", "1K", "-f", "2"]);
        run(command.args(MODEL).args(more)).expect_code(code)
    };
    let refused = sweep("8", &["--resume"], 6);
    assert_eq!(
        refused.sentences().last(),
        Some(
            &"pxnbench: --resume finds no earlier run below results/ that was started with these \
              arguments. Name its folder with --out, or its CSV with --csv"
        )
    );
    assert!(!folder.path().join("results").exists());
    sweep("8", &[], 0);
    let earlier = common::only_entry(&folder.path().join("results"));
    let path = earlier.join("results.csv");
    let whole = std::fs::read_to_string(&path).expect("the CSV");
    let lines: Vec<&str> = whole.split_inclusive('\n').collect();
    std::fs::write(&path, lines[..4].concat()).expect("written");
    sweep("16", &[], 0);
    let resumed = sweep("8", &["--resume"], 0);
    let name = earlier.file_name().expect("a name").to_string_lossy();
    assert!(
        resumed.stderr.contains(&format!(
            "continuing results/{name}/results.csv, which has 3 rows"
        )),
        "{}",
        resumed.stderr
    );
    assert_eq!(csv(&path).len(), lines.len() - 1);
    let runs = std::fs::read_dir(folder.path().join("results")).expect("results");
    assert_eq!(runs.count(), 2, "no third folder");
}

#[test]
fn what_has_no_rows_cannot_be_resumed() {
    let folder = folder();
    let links = folder.path().join("bin");
    run(alone(folder.path()).args(["links", "bin"])).expect_code(0);
    let sentence =
        "--resume needs the CSV of the earlier run. Name it with --csv, or its folder with --out";
    let drop_in = common::program(&links.join("all_reduce_perf"), folder.path());
    let json_only = {
        let mut command = alone(folder.path());
        command.args(["all_reduce", "--json", "x.json"]);
        command
    };
    for mut command in [drop_in, json_only] {
        let ended = run(command.arg("--resume").args(MODEL)).expect_code(6);
        assert!(ended.stderr.contains(sentence), "{}", ended.stderr);
    }
}
