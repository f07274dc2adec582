//! The table: median times by case and level.

use std::{collections::BTreeMap, fmt::Write};

use crate::{
    collective::{BufferMode, Collective},
    levels,
    record::{BackendKind, read::CsvRow},
    units::counted,
};

/// What two rows must have in common to be compared.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct CaseKey {
    /// The position of the collective in the order of the rows.
    collective: usize,
    dtype: &'static str,
    redop: &'static str,
    root: i64,
    size: u64,
    is_in_place: bool,
}

/// Renders the median time of each case by level, with its ratio to the first level, the control.
pub(super) fn render(rows: &[CsvRow]) -> String {
    let present = levels_in(rows);
    let control = present.first().copied().unwrap_or_default();
    let collectives = collectives_in(rows);
    let mut text = header(rows, &present, control);
    for (key, times_of_level) in times_by_case(rows, &collectives) {
        let mut medians = BTreeMap::new();
        for (level, mut times) in times_of_level {
            medians.insert(level, median(&mut times));
        }
        let place = if key.is_in_place { "in" } else { "out" };
        let _ = write!(
            text,
            "  {:>12} {:>12} {:>8} {:>6} {:>4} {place:>5}",
            collectives[key.collective].name(),
            key.size,
            key.dtype,
            key.redop,
            key.root
        );
        for level in &present {
            let _ = write!(text, " {:>19}", cell(level, control, &medians));
        }
        text.push('\n');
    }
    for remark in remarks(rows, &present) {
        let _ = writeln!(text, "# {remark}");
    }
    text
}

fn header(rows: &[CsvRow], present: &[&str], control: &str) -> String {
    let repeats = rows.iter().map(|row| row.repeat + 1).max().unwrap_or(0);
    let mut text = format!(
        "# Median time in us over {}; then its ratio to {control}: below 1 is faster\n",
        counted(repeats, "repetition")
    );
    let _ = write!(
        text,
        "# {:>12} {:>12} {:>8} {:>6} {:>4} {:>5}",
        "collective", "size (B)", "type", "redop", "root", "place"
    );
    for level in present {
        let _ = write!(text, " {level:>19}");
    }
    text.push('\n');
    text
}

/// Returns the levels of the rows, in the order of the table of levels.
fn levels_in(rows: &[CsvRow]) -> Vec<&'static str> {
    let known = levels::all().iter().map(|level| level.name.as_str());
    known
        .chain([levels::CUSTOM])
        .filter(|name| rows.iter().any(|row| row.level == *name))
        .collect()
}

/// Returns the collectives of the rows, in the order in which they come.
fn collectives_in(rows: &[CsvRow]) -> Vec<Collective> {
    let mut collectives = Vec::new();
    for row in rows {
        if !collectives.contains(&row.collective) {
            collectives.push(row.collective);
        }
    }
    collectives
}

type TimesByLevel<'a> = BTreeMap<&'a str, Vec<f64>>;

fn times_by_case<'a>(
    rows: &'a [CsvRow],
    collectives: &[Collective],
) -> BTreeMap<CaseKey, TimesByLevel<'a>> {
    let mut cases: BTreeMap<CaseKey, TimesByLevel> = BTreeMap::new();
    for row in rows {
        let Some(time) = row.time else { continue };
        let collective = collectives.iter().position(|one| *one == row.collective);
        let key = CaseKey {
            collective: collective.unwrap_or_default(),
            dtype: row.dtype.name(),
            redop: row.redop.map_or("none", |redop| redop.name()),
            root: row.root.map_or(-1, i64::from),
            size: row.size.0,
            is_in_place: row.buffer_mode == BufferMode::InPlace,
        };
        let of_case = cases.entry(key).or_default();
        of_case.entry(&row.level).or_default().push(time.0);
    }
    cases
}

fn cell(level: &str, control: &str, medians: &BTreeMap<&str, f64>) -> String {
    let Some(time) = medians.get(level) else {
        return "-".into();
    };
    if level == control {
        return format!("{time:.2}");
    }
    match medians.get(control) {
        Some(of_control) => format!("{time:.2} {:5.3}", time / of_control),
        None => format!("{time:.2}     -"),
    }
}

/// Returns what a reader has to know before believing a ratio.
fn remarks(rows: &[CsvRow], present: &[&str]) -> Vec<String> {
    let mut remarks = vec![why_levels_cannot_differ(rows)];
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

fn why_levels_cannot_differ(rows: &[CsvRow]) -> String {
    let has = |backend| rows.iter().any(|row| row.backend == backend);
    if has(BackendKind::Host) {
        "These are times of MPI on host memory, where no NCCL runs: the levels cannot differ here, and what differs is noise."
            .into()
    } else if has(BackendKind::Model) {
        "These times are computed: the levels cannot differ here.".into()
    } else if rows.iter().all(|row| row.nodes < 2) {
        "PXN is impossible on one node: the levels cannot differ here, and what differs is noise."
            .into()
    } else {
        let pairwise = Collective::pairwise_names();
        let (last, others) = pairwise.split_last().unwrap_or((&"", &[]));
        format!(
            "Between conservative, balanced and aggressive only {} and {last} can differ; in the others that is noise.",
            others.join(", ")
        )
    }
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

    /// Returns rows of host memory, read as from a file.
    fn rows(cells: &[(&str, u32, f64)]) -> Vec<CsvRow> {
        let mut text = String::from(
            "run_id,started_at,collective,backend,level,network,resources,step,repeat,nodes,ranks,gpus_per_process,\
             size_bytes,count,type,redop,root,in_place,iters,time_us,busbw_GBps,wrong,status,note,channels,group,issue_us,\
             iter_min_us,iter_max_us,iter_mean_us,iter_p50_us,iter_p95_us,iter_p99_us,iter_cv_pct\n",
        );
        for (level, repeat, time) in cells {
            text += &format!(
                "r,2026-01-01T00:00:00+00:00,alltoall,host,{level},auto,none,,{repeat},4,4,0,1024,256,float,none,-1,0,20,\
                 {time},1.0,0,ok,,,,,,,,,,,\n"
            );
        }
        let rows = crate::record::read::parse_rows(&text).into_iter();
        rows.map(|row| row.expect("a row")).collect()
    }

    #[test]
    fn medians_and_ratios_to_the_control() {
        let cells = [
            ("off", 0, 10.0),
            ("aggressive", 0, 4.0),
            ("off", 1, 30.0),
            ("aggressive", 1, 6.0),
            ("off", 2, 20.0),
        ];
        let text = render(&rows(&cells));
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
        let text = render(&rows(&[("custom", 0, 1.0)]));
        assert!(
            text.contains("nothing to compare it with") && text.contains("overrode the level"),
            "{text}"
        );
    }
}
