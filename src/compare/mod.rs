//! `pxnbench compare DIR`: joins the steps of a comparison, each in its folder below DIR, into one CSV above them, and
//! prints medians by level with their ratios to the control.

use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use serde::Deserialize;

use crate::{
    exit::{Code, Failure},
    levels,
    output::target::write_whole,
    record::RunMeta,
};

/// What a comparison reads of a row of `results.csv`.
#[derive(Clone, Debug, Deserialize)]
pub struct CsvRow {
    collective: String,
    backend: String,
    level: String,
    nodes: u32,
    repeat: u32,
    size_bytes: u64,
    #[serde(rename = "type")]
    dtype: String,
    redop: String,
    root: i64,
    in_place: u8,
    time_us: Option<f64>,
    /// `ok`, `wrong`, `unchecked`, `computed` or `waived`.
    pub status: String,
}

/// The rows of a `results.csv`.
///
/// # Errors
/// Where it cannot be read.
pub fn rows(path: &Path) -> anyhow::Result<Vec<CsvRow>> {
    let unreadable = |error| {
        Failure::on_all_ranks(
            Code::Usage,
            format!("{} cannot be read: {error}", path.display()),
        )
    };
    let mut reader = csv::Reader::from_path(path).map_err(unreadable)?;
    reader
        .deserialize()
        .collect::<Result<_, _>>()
        .map_err(unreadable)
}

/// Joins, and prints the table.
///
/// # Errors
/// Where there is nothing to compare, or a file cannot be read or written.
pub fn run(folder: &Path) -> anyhow::Result<Code> {
    let steps = steps(folder)?;
    let joined = folder.join("results.csv");
    join(&steps, &joined)?;
    print_line!("{}", table(&rows(&joined)?).trim_end())?;
    for step in &steps {
        if let Some(sentence) = unfinished(step) {
            print_line!("# {sentence}")?;
        }
    }
    say!("pxnbench: all rows are in {}", joined.display());
    Ok(Code::Fine)
}

/// The folders of the steps that have results, in the order of the numbers that they begin with.
fn steps(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).map_err(|error| {
        Failure::on_all_ranks(
            Code::Usage,
            format!("{} cannot be read: {error}", folder.display()),
        )
    })?;
    let mut steps: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.join("results.csv").is_file())
        .collect();
    let number = |path: &Path| {
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        let digits: String = name.chars().take_while(char::is_ascii_digit).collect();
        (digits.parse::<u64>().unwrap_or(u64::MAX), name)
    };
    steps.sort_by_key(|path| number(path));
    if steps.is_empty() {
        let what = format!(
            "no folder below {} has a results.csv: nothing to compare",
            folder.display()
        );
        return Err(Failure::on_all_ranks(Code::NothingRan, what));
    }
    Ok(steps)
}

/// Writes the rows of all steps to one file, which a reader sees whole or not at all.
fn join(steps: &[PathBuf], target: &Path) -> anyhow::Result<()> {
    let cannot = |what: &str, path: &Path, why: &dyn std::fmt::Display| {
        Failure::on_all_ranks(
            Code::Usage,
            format!("{} cannot be {what}: {why}", path.display()),
        )
    };
    let mut header: Option<csv::StringRecord> = None;
    let mut writer = csv::WriterBuilder::new()
        .terminator(csv::Terminator::CRLF)
        .from_writer(Vec::new());
    for path in steps.iter().map(|step| step.join("results.csv")) {
        let unreadable = |error: csv::Error| cannot("read", &path, &error);
        let mut reader = csv::Reader::from_path(&path).map_err(unreadable)?;
        let own = reader.headers().map_err(unreadable)?.clone();
        match &header {
            Some(first) if *first != own => {
                return Err(cannot(
                    "joined",
                    &path,
                    &"its columns are not those of the others",
                ));
            }
            Some(_) => {}
            None => {
                writer.write_record(&own)?;
                header = Some(own);
            }
        }
        for row in reader.records() {
            writer.write_record(&row.map_err(unreadable)?)?;
        }
    }
    let text = writer
        .into_inner()
        .map_err(|error| cannot("written", target, &error))?;
    write_whole(target, |file| file.write_all(&text))
        .map_err(|error| cannot("written", target, &error))
}

/// A sentence where a step did not end well.
fn unfinished(step: &Path) -> Option<String> {
    let name = step.file_name()?.to_string_lossy().into_owned();
    let run: Option<RunMeta> = fs::read_to_string(step.join("run.json"))
        .ok()
        .and_then(|text| serde_json::from_str(&text).ok());
    match run.and_then(|run| run.end) {
        None => Some(format!(
            "step {name} did not finish: its rows are the cases it completed"
        )),
        Some(end) if end.name == Code::Usage => {
            Some(format!("Waived step {name}: {}", end.message))
        }
        Some(end) if end.code != 0 => Some(format!(
            "step {name} ended with exit code {}: {}",
            end.code, end.message
        )),
        Some(_) => None,
    }
}

/// What makes two rows comparable.
type Key = (usize, String, String, i64, u64, u8);

/// Median times by case and level; each level beside its ratio to the control.
fn table(rows: &[CsvRow]) -> String {
    let mut collectives: Vec<&str> = Vec::new();
    for row in rows {
        if !collectives.contains(&row.collective.as_str()) {
            collectives.push(&row.collective);
        }
    }
    let mut cases: BTreeMap<Key, BTreeMap<&str, Vec<f64>>> = BTreeMap::new();
    for row in rows {
        let Some(time) = row.time_us else { continue };
        let at = collectives
            .iter()
            .position(|name| *name == row.collective)
            .unwrap_or_default();
        let key = (
            at,
            row.dtype.clone(),
            row.redop.clone(),
            row.root,
            row.size_bytes,
            row.in_place,
        );
        cases
            .entry(key)
            .or_default()
            .entry(&row.level)
            .or_default()
            .push(time);
    }
    let known = levels::all()
        .iter()
        .map(|level| level.name.as_str())
        .chain([levels::CUSTOM]);
    let present: Vec<&str> = known
        .filter(|name| rows.iter().any(|row| row.level == *name))
        .collect();
    let control = present.first().copied().unwrap_or_default();
    let repeats = rows.iter().map(|row| row.repeat + 1).max().unwrap_or(0);

    let mut text = format!(
        "# Median time in us over {repeats} repetitions; then its ratio to {control}: below 1 is faster\n"
    );
    text += &format!(
        "# {:>12} {:>12} {:>8} {:>6} {:>4} {:>5}",
        "collective", "size (B)", "type", "redop", "root", "place"
    );
    for level in &present {
        text += &format!(" {:>19}", level);
    }
    text.push('\n');
    for ((at, dtype, redop, root, size, in_place), by_level) in &mut cases {
        let place = if *in_place == 1 { "in" } else { "out" };
        text += &format!(
            "  {:>12} {size:>12} {dtype:>8} {redop:>6} {root:>4} {place:>5}",
            collectives[*at]
        );
        let medians: BTreeMap<&str, f64> = by_level
            .iter_mut()
            .map(|(level, times)| (*level, median(times)))
            .collect();
        for level in &present {
            let cell = match (medians.get(level), medians.get(control)) {
                (Some(time), _) if *level == control => format!("{time:.2}"),
                (Some(time), Some(of_control)) => format!("{time:.2} {:5.3}", time / of_control),
                (Some(time), None) => format!("{time:.2}     -"),
                (None, _) => "-".into(),
            };
            text += &format!(" {cell:>19}");
        }
        text.push('\n');
    }
    for remark in remarks(rows, &present) {
        text += &format!("# {remark}\n");
    }
    text
}

/// What a reader has to know before believing a ratio.
fn remarks(rows: &[CsvRow], present: &[&str]) -> Vec<String> {
    let mut remarks = Vec::new();
    if rows.iter().any(|row| row.backend == "host") {
        remarks.push("These are times of MPI on host memory, where no NCCL runs: the levels cannot differ here, and what differs is noise.".into());
    } else if rows.iter().any(|row| row.backend == "model") {
        remarks.push("These times are computed: the levels cannot differ here.".into());
    } else if rows.iter().all(|row| row.nodes < 2) {
        remarks.push("PXN is impossible on one node: the levels cannot differ here, and what differs is noise.".into());
    } else {
        remarks.push(
            "Between conservative, balanced and aggressive only alltoall, alltoallv, gather, scatter, sendrecv and hypercube can differ; in the others that is noise."
                .into(),
        );
    }
    if present.len() < 2 {
        remarks.push(format!(
            "Only level {} was in force: there is nothing to compare it with.",
            present.join("")
        ));
    }
    if present.contains(&levels::CUSTOM) {
        remarks.push(
            "custom: a variable that was already set overrode the level; run.json of the step says which.".into(),
        );
    }
    remarks
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    let middle = times.len() / 2;
    if times.len().is_multiple_of(2) {
        (times[middle - 1] + times[middle]) / 2.0
    } else {
        times[middle]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(level: &str, repeat: u32, time_us: f64) -> CsvRow {
        CsvRow {
            collective: "alltoall".into(),
            backend: "host".into(),
            level: level.into(),
            nodes: 4,
            repeat,
            size_bytes: 1024,
            dtype: "float".into(),
            redop: "none".into(),
            root: -1,
            in_place: 0,
            time_us: Some(time_us),
            status: "ok".into(),
        }
    }

    #[test]
    fn medians_and_ratios_to_the_control() {
        let rows = [
            ("off", 0, 10.0),
            ("aggressive", 0, 4.0),
            ("off", 1, 30.0),
            ("aggressive", 1, 6.0),
            ("off", 2, 20.0),
        ];
        let text = table(&rows.map(|(level, repeat, time)| row(level, repeat, time)));
        let line = text
            .lines()
            .find(|line| line.starts_with("  "))
            .expect("a row");
        assert_eq!(
            line.split_whitespace().collect::<Vec<_>>(),
            [
                "alltoall", "1024", "float", "none", "-1", "out", "20.00", "5.00", "0.250"
            ]
        );
        assert!(
            text.contains("over 3 repetitions") && text.contains("ratio to off"),
            "{text}"
        );
        assert!(text.contains("the levels cannot differ here"), "{text}");
    }

    #[test]
    fn a_level_that_never_came_into_force_is_said() {
        let text = table(&[row("custom", 0, 1.0)]);
        assert!(
            text.contains("nothing to compare it with") && text.contains("overrode the level"),
            "{text}"
        );
    }

    #[test]
    fn steps_are_joined_in_their_order() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(steps(folder.path()).is_err(), "nothing to compare");
        for (name, row) in [("10-off-1", "b"), ("2-off-0", "a")] {
            fs::create_dir(folder.path().join(name)).expect("made");
            fs::write(
                folder.path().join(name).join("results.csv"),
                format!("x,y\r\n{row},1\r\n"),
            )
            .expect("written");
        }
        let target = folder.path().join("results.csv");
        join(&steps(folder.path()).expect("steps"), &target).expect("joined");
        assert_eq!(
            fs::read_to_string(target).expect("text"),
            "x,y\r\na,1\r\nb,1\r\n"
        );
    }
}
