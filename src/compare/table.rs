//! The tables: median times by case and level, one table for each set of conditions.

use std::{
    collections::{BTreeMap, HashMap},
    fmt::Write,
};

use super::{
    key::{CaseKey, ComparisonKey, Conditions, differences, in_common},
    step::Step,
};
use crate::{
    collective::Collective,
    levels,
    record::{BackendKind, read::CsvRow},
    units::counted,
};

/// A row with its key.
type KeyedRow<'a> = (CaseKey<'a>, &'a CsvRow);

/// The rows of one table: all were measured under the same conditions.
pub(super) struct Table<'a> {
    conditions: Conditions<'a>,
    rows: Vec<KeyedRow<'a>>,
}

/// Splits the rows of all steps by their conditions, in the order in which these come.
pub(super) fn split(steps: &[Step]) -> Vec<Table<'_>> {
    let mut tables: Vec<Table> = Vec::new();
    let mut places: HashMap<Conditions, usize> = HashMap::new();
    for step in steps {
        for row in &step.rows {
            let ComparisonKey { conditions, case } = ComparisonKey::of(row, step);
            let place = *places.entry(conditions).or_insert(tables.len());
            if place == tables.len() {
                let rows = Vec::new();
                tables.push(Table { conditions, rows });
            }
            tables[place].rows.push((case, row));
        }
    }
    tables
}

/// Returns why nothing can be compared, if there are several levels but each was measured under other conditions.
pub(super) fn no_two_levels(tables: &[Table]) -> Option<String> {
    let all: Vec<Conditions> = tables.iter().map(|table| table.conditions).collect();
    let mut levels = Vec::new();
    let mut measured = Vec::new();
    for table in tables {
        let present = levels_in(&table.rows);
        let [level] = present[..] else { return None };
        if !levels.contains(&level) {
            levels.push(level);
            measured.push(format!(
                "{level} ({})",
                differences(&table.conditions, &all)
            ));
        }
    }
    if levels.len() < 2 {
        return None;
    }
    Some(format!(
        "no two levels were measured alike: {}. Put runs into the folder that differ in nothing but their level",
        measured.join(", ")
    ))
}

/// Renders one table after the other.
pub(super) fn render_all(tables: &[Table]) -> String {
    let all: Vec<Conditions> = tables.iter().map(|table| table.conditions).collect();
    let mut text = String::new();
    let common = in_common(&all);
    if !common.is_empty() {
        let _ = writeln!(text, "# Measured with {common}");
    }
    for (number, table) in tables.iter().enumerate() {
        if tables.len() > 1 {
            let what = differences(&table.conditions, &all);
            let _ = writeln!(
                text,
                "#\n# Table {} of {}: {what}",
                number + 1,
                tables.len()
            );
        }
        text += &render(&table.rows);
    }
    if tables.is_empty() {
        text += "# The steps have no rows\n";
    }
    text
}

/// Renders the median time of each case by level, with its ratio to the first level, the control.
fn render(rows: &[KeyedRow]) -> String {
    let present = levels_in(rows);
    let control = present.first().copied().unwrap_or_default();
    let cases = times_by_case(rows);
    let mut text = header(&cases, &present, control);
    for ((_, case), times_of_level) in cases {
        let mut medians = BTreeMap::new();
        for (level, mut times) in times_of_level {
            medians.insert(level, median(&mut times));
        }
        let place = if case.is_in_place { "in" } else { "out" };
        let _ = write!(
            text,
            "  {:>12} {:>12} {:>8} {:>6} {:>4} {place:>5}",
            case.collective, case.size, case.dtype, case.redop, case.root
        );
        for level in &present {
            let _ = write!(text, " {:>19}", cell(level, control, &medians));
        }
        if has_several_patterns(rows) {
            let _ = write!(text, "  {}", case.pattern);
        }
        text.push('\n');
    }
    for remark in remarks(rows, &present) {
        let _ = writeln!(text, "# {remark}");
    }
    text
}

/// Returns whether the pattern of an alltoallv is what tells rows apart.
fn has_several_patterns(rows: &[KeyedRow]) -> bool {
    let mut patterns = rows.iter().map(|(case, _)| case.pattern);
    let first = patterns.find(|pattern| !pattern.is_empty());
    patterns.any(|pattern| !pattern.is_empty() && Some(pattern) != first)
}

fn header(cases: &TimesByCase, present: &[&str], control: &str) -> String {
    let samples = cases.values().flat_map(BTreeMap::values).map(Vec::len);
    let mut text = format!(
        "# Median time in us over {}; then its ratio to {control}: below 1 is faster\n",
        counted(samples.max().unwrap_or(0) as u64, "repetition")
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

/// Returns the levels of the rows: those of the table of levels in its order, then others.
fn levels_in<'a>(rows: &[KeyedRow<'a>]) -> Vec<&'a str> {
    let mut levels: Vec<&str> = Vec::new();
    for (_, row) in rows {
        if !levels.contains(&row.level.as_str()) {
            levels.push(&row.level);
        }
    }
    let place = |level: &&str| {
        let known = levels::all().iter();
        let mut names = known.map(|known| known.name.as_str());
        names.position(|name| name == *level).unwrap_or(usize::MAX)
    };
    levels.sort_by_key(place);
    levels
}

type TimesByLevel<'a> = BTreeMap<&'a str, Vec<f64>>;

/// The times of each case by level. The cases are sorted by the place at which their collective came first.
type TimesByCase<'a> = BTreeMap<(usize, CaseKey<'a>), TimesByLevel<'a>>;

fn times_by_case<'a>(rows: &[KeyedRow<'a>]) -> TimesByCase<'a> {
    let mut cases: TimesByCase = BTreeMap::new();
    let mut collectives = Vec::new();
    for (case, row) in rows {
        let Some(time) = row.time else { continue };
        let known = collectives.iter().position(|name| *name == case.collective);
        let place = known.unwrap_or(collectives.len());
        if known.is_none() {
            collectives.push(case.collective);
        }
        let of_case = cases.entry((place, *case)).or_default();
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
fn remarks(rows: &[KeyedRow], present: &[&str]) -> Vec<String> {
    let mut remarks = vec![why_levels_cannot_differ(rows)];
    if present.len() == 1 {
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

fn why_levels_cannot_differ(rows: &[KeyedRow]) -> String {
    let has = |backend| rows.iter().any(|(_, row)| row.backend == backend);
    if has(BackendKind::Host) {
        "These are times of MPI on host memory, where no NCCL runs: the levels cannot differ here, and what differs is noise."
            .into()
    } else if has(BackendKind::Model) {
        "These times are computed: the levels cannot differ here.".into()
    } else if rows.iter().all(|(_, row)| row.nodes < 2) {
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
    use crate::collective::data::{DType, RedOp};

    /// Renders the rows of one step.
    fn rendered(rows: Vec<CsvRow>) -> String {
        render_all(&split(&[Step::of_rows(rows)]))
    }

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
        let text = rendered(rows(&cells));
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
        let text = rendered(rows(&[("custom", 0, 1.0)]));
        assert!(
            text.contains("nothing to compare it with") && text.contains("overrode the level"),
            "{text}"
        );
    }

    /// Changes one condition of a row.
    type Change = fn(&mut CsvRow);

    /// Everything in a row that two runs can differ in, and how it reads.
    const CHANGES: [(Change, &str); 10] = [
        (|row| row.backend = BackendKind::Nccl, "backend nccl"),
        (|row| row.nodes = 2, "2 nodes"),
        (|row| row.ranks = 8, "8 ranks"),
        (|row| row.gpus_per_process = 2, "2 GPUs per process"),
        (|row| row.group = Some(1), "communicator 1"),
        (|row| row.network = "socket".into(), "network socket"),
        (|row| row.resources = "lean".into(), "resources lean"),
        (|row| row.hosts = "n[1-2]".into(), "hosts n[1-2]"),
        (|row| row.device = "H100".into(), "device H100"),
        (|row| row.nccl_version = "2.28.3".into(), "NCCL 2.28.3"),
    ];

    #[test]
    fn times_that_differ_in_more_than_the_level_stand_in_tables_of_their_own() {
        for (change, shown) in CHANGES {
            let mut all = rows(&[("off", 0, 10.0), ("off", 0, 30.0)]);
            change(&mut all[1]);
            let text = rendered(all);
            assert!(
                text.contains("# Table 2 of 2: ") && text.contains(shown),
                "{text}"
            );
            assert!(
                text.contains(" 10.00\n") && text.contains(" 30.00\n"),
                "{text}"
            );
            assert!(!text.contains("20.00"), "no median of both: {text}");
        }
    }

    #[test]
    fn levels_that_were_measured_under_different_conditions_are_not_compared() {
        for (change, shown) in CHANGES {
            let mut all = rows(&[("off", 0, 10.0), ("aggressive", 0, 30.0)]);
            change(&mut all[1]);
            let steps = [Step::of_rows(all)];
            let why = no_two_levels(&split(&steps)).expect("refused");
            assert!(
                why.starts_with("no two levels were measured alike: off ("),
                "{why}"
            );
            assert!(why.contains("aggressive (") && why.contains(shown), "{why}");
        }
        let alike = [Step::of_rows(rows(&[
            ("off", 0, 10.0),
            ("aggressive", 0, 30.0),
        ]))];
        assert_eq!(no_two_levels(&split(&alike)), None);
    }

    #[test]
    fn rows_of_different_cases_are_not_pooled() {
        let changes: [Change; 4] = [
            |row| row.dtype = DType::Half,
            |row| row.redop = Some(RedOp::Sum),
            |row| row.root = Some(0),
            |row| row.pattern = "spread 2".into(),
        ];
        for change in changes {
            let mut all = rows(&[("off", 0, 10.0), ("off", 0, 30.0)]);
            change(&mut all[1]);
            let text = rendered(all);
            assert!(text.contains(" 10.00") && text.contains(" 30.00"), "{text}");
        }
    }
}
