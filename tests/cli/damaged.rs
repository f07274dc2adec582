//! `--resume` on files that are damaged, of somebody else, or of other conditions.

use std::{fs, path::Path};

use crate::{
    MODEL,
    common::{Ended, alone, csv, json, run},
    folder,
};

/// A sweep of six cases in the folder `r`.
fn sweep(folder: &Path, more: &[&str], code: i32) -> Ended {
    let mut command = alone(folder);
    command
        .args(["all_reduce", "-b", "8", "-e", "32", "-f", "2", "--out", "r"])
        .args(MODEL);
    run(command.args(more)).expect_code(code)
}

/// A change of the lines of a CSV.
type Damage = fn(&mut Vec<String>);

#[test]
fn lines_that_cannot_be_read_are_taken_out_and_their_cases_measured_again() {
    let damages: [(&str, Damage); 6] = [
        ("line 2", |lines| lines[1].insert(0, '"')),
        ("line 4", |lines| lines[3].truncate(40)),
        ("line 3", |lines| {
            lines[2] = lines[2].replace(",ok,", ",,").replace(",model,", ",,")
        }),
        ("lines 2, 5", |lines| {
            lines[1] = "\u{0}\u{1}".into();
            lines[4] = "a,\"b".into();
        }),
        ("line 3", |lines| lines[2] = with_ranks(&lines[2], "0")),
        ("line 3", |lines| {
            lines[2] = with_ranks(&lines[2], "1000000000000")
        }),
    ];
    for (what, damage) in damages {
        let folder = folder();
        sweep(folder.path(), &[], 0);
        let path = folder.path().join("r/results.csv");
        let text = fs::read_to_string(&path).expect("the CSV");
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        damage(&mut lines);
        let damaged = lines.join("\r\n") + "\r\n";
        fs::write(&path, &damaged).expect("written");
        let resumed = sweep(folder.path(), &["--resume"], 0);
        let words = format!(
            "r/results.csv: leaving out {what}, which cannot be read, and measuring again what is \
             missing. The file as it was is r/results.csv.1"
        );
        assert!(
            resumed.stderr.contains(&words),
            "{what}: {}",
            resumed.stderr
        );
        let rows = csv(&path);
        let keys = ["size_bytes", "in_place"];
        let cases: std::collections::BTreeSet<_> =
            rows.iter().map(|row| keys.map(|key| &row[key])).collect();
        assert_eq!((rows.len(), cases.len()), (6, 6), "{what}");
        let kept = fs::read_to_string(folder.path().join("r/results.csv.1")).expect("kept");
        assert_eq!(kept, damaged);
        let again = sweep(folder.path(), &["--resume"], 0);
        assert!(again.stderr.contains("6 of 6 cases are kept, 0 remain"));
    }
}

#[test]
fn rows_that_the_file_has_twice_are_taken_out() {
    let folder = folder();
    sweep(folder.path(), &[], 0);
    let path = folder.path().join("r/results.csv");
    let text = fs::read_to_string(&path).expect("the CSV");
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let damaged = text.clone() + lines[2] + lines[5];
    fs::write(&path, &damaged).expect("written");
    let resumed = sweep(folder.path(), &["--resume"], 0);
    let words = "r/results.csv: leaving out lines 8, 9, which the file has twice. The file as it \
                 was is r/results.csv.1";
    assert!(resumed.stderr.contains(words), "{}", resumed.stderr);
    assert_eq!(fs::read_to_string(&path).expect("the CSV"), text);
    let kept = fs::read_to_string(folder.path().join("r/results.csv.1"));
    assert_eq!(kept.expect("kept"), damaged);
}

#[test]
fn a_file_that_a_spreadsheet_saved_is_told_from_one_of_somebody_else() {
    let folder = folder();
    sweep(folder.path(), &[], 0);
    let path = folder.path().join("r/results.csv");
    let text = fs::read_to_string(&path).expect("the CSV");
    for (saved, how) in [
        (text.replace(',', ";"), "without commas between the columns"),
        (format!("\u{feff}{text}"), "with a byte order mark"),
        (
            text.replacen("run_id", "\"run_id\"", 1),
            "with quotation marks around its cells",
        ),
    ] {
        fs::write(&path, &saved).expect("written");
        let refused = sweep(folder.path(), &["--resume"], 6);
        let words = format!(
            "r/results.csv was saved by another program {how}, so rows cannot be added to it"
        );
        assert!(refused.stderr.contains(&words), "{}", refused.stderr);
        assert_eq!(fs::read_to_string(&path).expect("the CSV"), saved);
    }
    fs::write(&path, text.replace(',', ";")).expect("written");
    let mut report =
        crate::common::program(std::path::Path::new(crate::common::BINARY), folder.path());
    let refused = crate::common::run(report.args(["report", "r"])).expect_code(6);
    let words =
        "it was saved by another program without commas between the columns. Save it with commas";
    assert!(refused.stderr.contains(words), "{}", refused.stderr);
}

/// Returns a row with another number of ranks.
fn with_ranks(row: &str, ranks: &str) -> String {
    let mut cells: Vec<&str> = row.split(',').collect();
    // The columns up to this one hold no comma.
    cells[10] = ranks;
    cells.join(",")
}

#[test]
fn a_file_of_somebody_else_is_refused_and_stays_as_it_is() {
    let folder = folder();
    let path = folder.path().join("x.csv");
    for notes in [
        &b"my notes"[..],
        b"my notes\n",
        b"a,b\r\n1,2",
        b"\x7fELF\xff",
        b"\n",
    ] {
        fs::write(&path, notes).expect("written");
        let mut command = alone(folder.path());
        command.args(["all_reduce", "--csv", "x.csv", "--resume"]);
        let refused = run(command.args(MODEL)).expect_code(6);
        assert!(
            refused
                .stderr
                .contains("x.csv is not a CSV of this program"),
            "{}",
            refused.stderr
        );
        assert_eq!(fs::read(&path).expect("read"), notes);
    }
    // A run that was killed while it wrote the header is continued.
    for own in ["", "run_id,started_at,coll"] {
        fs::write(&path, own).expect("written");
        let mut command = alone(folder.path());
        command.args([
            "all_reduce",
            "-b",
            "8",
            "-e",
            "8",
            "--csv",
            "x.csv",
            "--resume",
        ]);
        run(command.args(MODEL)).expect_code(0);
        assert_eq!(csv(&path).len(), 2);
    }
}

#[test]
fn a_run_keeps_its_start_and_is_not_continued_by_another_version() {
    let folder = folder();
    sweep(folder.path(), &[], 0);
    let path = folder.path().join("r/run.json");
    let text = fs::read_to_string(&path).expect("run.json");
    let version = format!("\"pxnbench\": \"{}\"", env!("CARGO_PKG_VERSION"));
    assert!(text.contains(&version));
    fs::write(&path, text.replace(&version, "\"pxnbench\": \"0.0.1\"")).expect("written");
    let refused = sweep(folder.path(), &["--resume"], 6);
    let words = format!(
        "was measured with pxnbench 0.0.1, but this run has pxnbench {}",
        env!("CARGO_PKG_VERSION")
    );
    assert!(refused.stderr.contains(&words), "{}", refused.stderr);

    let begun = json(&path)["started_at"].clone();
    let start = begun.as_str().expect("a start");
    let earlier = "2026-01-02T03:04:05Z";
    fs::write(&path, text.replace(start, earlier)).expect("written");
    for continuations in 1..=2 {
        sweep(folder.path(), &["--resume"], 0);
        let run = json(&path);
        assert_eq!(run["started_at"], earlier);
        let continued = run["continued_at"].as_array().expect("continuations");
        assert_eq!(continued.len(), continuations);
    }
}

#[test]
fn a_damaged_ranks_csv_is_continued_with_what_is_readable() {
    if !crate::common::has_mpi() {
        return;
    }
    let folder = folder();
    let sweep = |more: &[&str]| {
        let mut command = crate::common::mpirun(2, folder.path());
        command
            .args(["all_reduce", "-b", "8", "-e", "16", "-f", "2", "--out", "r"])
            .args(["-n", "2", "-w", "1", "--backend", "host"]);
        run(command.args(more)).expect_code(0)
    };
    sweep(&[]);
    let path = folder.path().join("r/ranks.csv");
    let text = fs::read_to_string(&path).expect("ranks.csv");
    assert_eq!(text.lines().count(), 9);
    fs::write(&path, text.replacen("\r\n", "\r\n\"", 1)).expect("written");
    let resumed = sweep(&["--resume"]);
    let words = "r/ranks.csv: leaving out 1 line, which cannot be read. The file as it was is \
                 r/ranks.csv.1";
    assert!(resumed.stderr.contains(words), "{}", resumed.stderr);
    assert_eq!(csv(&path).len(), 7);
}
