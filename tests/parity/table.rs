//! The table, its mean, and how other programs read it.

use crate::{
    MODEL,
    common::{Ended, alone, has_mpi, json, launcher, run},
    folder, links,
};

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
    // `# Avg bus bandwidth    : 12.3 `: the last field, and the sixth of those that whitespace
    // parts.
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

/// Finds the line of names by its words, and counts columns from the end of a row: some programs
/// leave a cell empty.
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
