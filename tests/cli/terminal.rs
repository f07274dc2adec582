//! What a terminal shows: the table in its width, and a bar, also under mpirun; and what `--quiet`
//! leaves.

use std::process::Command;

use crate::{
    MODEL,
    common::{self, BINARY, alone, clean, run},
    folder,
};

/// Runs a shell command on a terminal of 100 columns, and returns what the terminal shows.
fn on_a_terminal(line: &str, folder: &std::path::Path) -> Option<String> {
    let mut command = Command::new("script");
    clean(&mut command);
    command
        .current_dir(folder)
        .args([
            "-qec",
            &format!("stty cols 100 rows 40; {line}"),
            "/dev/null",
        ])
        .env("B", BINARY)
        .env("TERM", "xterm")
        .env_remove("COLUMNS");
    if Command::new("script").arg("--version").output().is_err() {
        common::skip("script", "script of util-linux is not here");
        return None;
    }
    Some(run(&mut command).stdout)
}

/// The lines of the table, without what a bar wrote and took away.
fn lines(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| !line.contains("pxnbench: "));
    let last = |line: &str| {
        line.trim_end()
            .rsplit(['\r', 'K'])
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    lines.map(last).collect()
}

#[test]
fn the_table_fits_a_terminal_of_100_columns() {
    let folder = folder();
    let sweep = "all_reduce -b 8 -e 1G -f 64 --backend model --ranks 4 --csv x.csv";
    let Some(text) = on_a_terminal(&format!("\"$B\" {sweep} 2>/dev/null"), folder.path()) else {
        return;
    };
    for line in lines(&text) {
        assert!(line.chars().count() <= 100, "{} {line}", line.len());
    }
    assert!(
        text.contains("busbw") && text.contains(" computed"),
        "{text}"
    );
    assert!(
        !text.contains("(elements)"),
        "the least important column: {text}"
    );
    // Through a pipe on the same terminal it is the usual one, also if COLUMNS is exported.
    let piped = format!("COLUMNS=80 \"$B\" {sweep} 2>/dev/null | cat");
    let piped = on_a_terminal(&piped, folder.path()).expect("script is here");
    let usual = run(alone(folder.path()).args(sweep.split(' ')))
        .expect_code(0)
        .stdout;
    let rows = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| !line.contains("  Rank "));
        lines
            .map(|line| line.trim_end_matches('\r').to_owned())
            .collect()
    };
    assert_eq!(rows(&piped), rows(&usual));
}

#[test]
fn a_bar_is_on_the_terminal_of_mpirun_and_not_in_its_files() {
    if !common::has_mpi() {
        return;
    }
    let folder = folder();
    let mpirun = "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
                  OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1 timeout -s \
                  USR1 4 mpirun -np 2 \"$B\" all_reduce -b 8 -e 64K -f 2 --backend host -N 0 -n 2 \
                  --csv x.csv";
    let shown =
        |redirection: &str| on_a_terminal(&format!("{mpirun} {redirection}"), folder.path());
    let Some(text) = shown("") else { return };
    let bar =
        |text: &str| text.contains("all_reduce") && text.contains("\u{1b}[") && text.contains('\r');
    assert!(bar(&text), "{text:?}");
    let to_file = shown("2> errors").expect("script is here");
    assert!(!to_file.contains('\u{1b}'), "{to_file:?}");
    let errors = std::fs::read_to_string(folder.path().join("errors")).expect("the file");
    assert!(
        !errors.contains('\u{1b}') && !errors.contains("cases after"),
        "{errors}"
    );
}

/// mpirun's own stdout is a narrow terminal, but what the rank writes does not go there.
#[test]
fn a_rank_that_writes_into_a_file_or_through_a_pipe_keeps_all_columns() {
    if !common::has_mpi() {
        return;
    }
    let folder = folder();
    let sweep = "all_reduce -b 8 -e 8 --backend host -n 2 --csv x.csv";
    for (file, redirection) in [("a.txt", "> a.txt"), ("b.txt", "| cat > b.txt")] {
        let mpirun = format!(
            "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun -np 1 sh -c '\"$B\" \
             {sweep} {redirection}'"
        );
        if on_a_terminal(&mpirun, folder.path()).is_none() {
            return;
        }
        let text = std::fs::read_to_string(folder.path().join(file)).expect("the file");
        assert!(text.contains("(elements)"), "{text}");
    }
}

#[test]
fn quiet_leaves_rows_and_errors() {
    let folder = folder();
    let sweep = [
        "all_reduce",
        "-b",
        "8",
        "-e",
        "16",
        "-f",
        "2",
        "--quiet",
        "--out",
        "x",
    ];
    for _ in 0..2 {
        let ended = run(alone(folder.path()).args(sweep).args(MODEL)).expect_code(0);
        let lines: Vec<&str> = ended.stdout.lines().collect();
        assert_eq!(lines.len(), 2, "{}", ended.stdout);
        assert!(lines.iter().all(|line| !line.starts_with('#')));
        assert_eq!(ended.stderr, "");
    }
    assert!(folder.path().join("x/results.csv.1").is_file());
    let untimed = run(alone(folder.path())
        .args(sweep)
        .args(["-n", "0"])
        .args(MODEL))
    .expect_code(0);
    assert!(
        untimed.stdout.lines().all(|line| !line.starts_with('#')),
        "{}",
        untimed.stdout
    );
    let failed = run(alone(folder.path())
        .args(["broadcast", "-r", "9", "--quiet"])
        .args(MODEL))
    .expect_code(6);
    assert!(
        failed.stderr.contains("root 9 does not exist"),
        "{}",
        failed.stderr
    );
}
