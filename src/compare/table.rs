//! The table: one line per case, one column per variant.

use std::fmt::Write;

use super::{
    can_differ::anything_can_differ,
    case_key::CaseKey,
    dimension::Dimension,
    judge::{Comparison, Verdict},
    samples::{Replicate, Samples},
};
use crate::{collective::Collective, levels, units::counted};

/// A column that identifies the case.
struct KeyColumn {
    name: &'static str,
    width: usize,
    cell: fn(&CaseKey) -> String,
}

const KEY_COLUMNS: [KeyColumn; 9] = [
    KeyColumn {
        name: "workload",
        width: 14,
        cell: |key| key.workload.to_string(),
    },
    KeyColumn {
        name: "time of",
        width: 12,
        cell: |key| {
            let is_of_step = key.is_of_step();
            (if is_of_step { key.collective } else { "" }).to_owned()
        },
    },
    KeyColumn {
        name: "collective",
        width: 14,
        cell: |key| of_sweep(key, || key.collective.to_owned()),
    },
    KeyColumn {
        name: "size (B)",
        width: 12,
        cell: |key| of_sweep(key, || key.size.to_string()),
    },
    KeyColumn {
        name: "type",
        width: 8,
        cell: |key| key.dtype.to_owned(),
    },
    KeyColumn {
        name: "redop",
        width: 6,
        cell: |key| of_sweep(key, || key.redop.to_owned()),
    },
    KeyColumn {
        name: "root",
        width: 4,
        cell: |key| of_sweep(key, || key.root.to_string()),
    },
    KeyColumn {
        name: "pattern",
        width: 12,
        cell: |key| {
            let pattern = match &*key.pattern {
                "" => "-",
                pattern => pattern,
            };
            of_sweep(key, || pattern.to_owned())
        },
    },
    KeyColumn {
        name: "place",
        width: 5,
        cell: |key| {
            of_sweep(key, || {
                (if key.is_in_place { "in" } else { "out" }).to_owned()
            })
        },
    },
];

/// Returns the cell of a collective; that of a training step is empty.
fn of_sweep(key: &CaseKey, cell: impl FnOnce() -> String) -> String {
    if key.is_of_step() {
        String::new()
    } else {
        cell()
    }
}

/// The width of a variant's column.
const WIDTH: usize = 26;

/// Renders the time of the reference in each case, and the ratio of each other variant to it. What all cases have in common
/// is said above the table. If one column per variant does not fit into `width`, each variant has a line of its own.
pub(super) fn render(
    samples: &Samples,
    comparisons: &[Vec<Comparison>],
    width: Option<usize>,
) -> String {
    let (common, columns): (Vec<&KeyColumn>, Vec<&KeyColumn>) = KEY_COLUMNS
        .iter()
        .filter(|column| applies(samples, column))
        .partition(|column| is_common(samples, column));
    let mut text = header(samples);
    if let (Some(key), false) = (samples.keys.first(), common.is_empty()) {
        let cells: Vec<String> = common
            .iter()
            .map(|column| format!("{} {}", column.name, (column.cell)(key)))
            .collect();
        let _ = writeln!(text, "# All cases: {}", cells.join(", "));
    }
    let needed = 1
        + columns.iter().map(|column| 1 + column.width).sum::<usize>()
        + (2 + WIDTH) * samples.variants.len();
    match width {
        Some(width) if width < needed => text += &stacked(samples, comparisons, &columns),
        _ => text += &side_by_side(samples, comparisons, &columns),
    }
    text
}

/// Renders one line per case, with a column per variant.
fn side_by_side(
    samples: &Samples,
    comparisons: &[Vec<Comparison>],
    columns: &[&KeyColumn],
) -> String {
    let mut text = String::from("#");
    for column in columns {
        let _ = write!(text, " {:>width$}", column.name, width = column.width);
    }
    for variant in variants(samples) {
        let _ = write!(text, " {:>WIDTH$}", samples.variants[variant].label);
    }
    text.push('\n');
    for (index, key) in samples.keys.iter().enumerate() {
        let mut line = String::from(" ");
        for column in columns {
            let cell = (column.cell)(key);
            let _ = write!(line, " {cell:>width$}", width = column.width);
        }
        for variant in variants(samples) {
            let cell = cell(samples, index, variant, comparisons[index][variant]);
            let _ = write!(line, " {cell:>WIDTH$}");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Renders one line per case and variant, with columns as narrow as their cells.
fn stacked(samples: &Samples, comparisons: &[Vec<Comparison>], columns: &[&KeyColumn]) -> String {
    let mut head: Vec<String> = columns
        .iter()
        .map(|column| column.name.to_owned())
        .collect();
    head.extend([samples.table.dimension.name().to_owned(), String::new()]);
    let mut lines = vec![head];
    for (index, key) in samples.keys.iter().enumerate() {
        for (number, variant) in variants(samples).into_iter().enumerate() {
            let mut line = Vec::new();
            for column in columns {
                // The lines of a case follow each other.
                let is_first = number == 0;
                line.push(if is_first {
                    (column.cell)(key)
                } else {
                    String::new()
                });
            }
            line.push(samples.variants[variant].label.to_owned());
            line.push(cell(samples, index, variant, comparisons[index][variant]));
            lines.push(line);
        }
    }
    let width = |column: usize| {
        let cells = lines.iter().map(|line| line[column].chars().count());
        cells.max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..lines[0].len()).map(width).collect();
    let mut text = String::new();
    for (number, line) in lines.iter().enumerate() {
        let mut row = String::from(if number == 0 { "#" } else { " " });
        for (cell, width) in line.iter().zip(&widths) {
            let _ = write!(row, " {cell:>width$}");
        }
        text.push_str(row.trim_end());
        text.push('\n');
    }
    text
}

/// Returns whether a case has a value in a column. In a table without cases all columns are shown but those of training steps.
fn applies(samples: &Samples, column: &KeyColumn) -> bool {
    if samples.keys.is_empty() {
        return !matches!(column.name, "workload" | "time of");
    }
    samples
        .keys
        .iter()
        .any(|key| !(column.cell)(key).is_empty())
}

/// Returns whether all cases have the same value in a column. Size, collective and what is timed are always shown.
fn is_common(samples: &Samples, column: &KeyColumn) -> bool {
    let Some(first) = samples.keys.first() else {
        return false;
    };
    let expected = (column.cell)(first);
    let is_optional = !matches!(column.name, "collective" | "size (B)" | "time of");
    is_optional
        && samples
            .keys
            .iter()
            .all(|key| (column.cell)(key) == expected)
}

fn header(samples: &Samples) -> String {
    let Some(reference) = samples.reference() else {
        return String::new();
    };
    let times = counted(samples.blocks, samples.replicate.noun());
    if samples.variants.len() < 2 {
        return format!("# {times}: time of {reference} in us (geometric mean)\n");
    }
    if samples.blocks < 2 {
        return alone(samples).to_owned();
    }
    let times = match samples.replicate {
        Replicate::Block => times,
        Replicate::Run => format!("Up to {times} each"),
        Replicate::Repetition => format!("Up to {times} in one run each"),
    };
    format!(
        "# {times}: time of {reference} in us, and the ratio of the others to it (geometric means) with its 95 % interval; \
         below 1 is faster\n"
    )
}

/// Returns the line for one measurement of each variant.
fn alone(samples: &Samples) -> &'static str {
    if samples.roles.is_paired {
        "# Time in us. One block says nothing about the spread, so there are no ratios: repeat the steps.\n"
    } else {
        "# Time in us. Cannot tell which is faster: one measurement each says nothing about the spread. Repeat the runs and \
         name all of them, or measure several cycles in each run with -N.\n"
    }
}

/// Returns the variants in the order of the columns: the reference first.
fn variants(samples: &Samples) -> Vec<usize> {
    let mut variants: Vec<usize> = (0..samples.variants.len()).collect();
    variants.sort_by_key(|variant| *variant != samples.roles.reference);
    variants
}

fn cell(samples: &Samples, case: usize, variant: usize, comparison: Comparison) -> String {
    let Some(time) = samples.mean_time(case, variant) else {
        return "-".into();
    };
    if variant == samples.roles.reference {
        return format!("{time:.2}");
    }
    let Some(ratio) = comparison.ratio else {
        return format!("{time:.2}");
    };
    let word = match comparison.verdict {
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::NotShown | Verdict::CannotDiffer | Verdict::TooFewBlocks => "",
    };
    let interval = format!(
        "[{}, {}]",
        three_digits(ratio.low),
        three_digits(ratio.high)
    );
    format!("{} {interval} {word:6}", three_digits(ratio.ratio))
}

/// Returns a ratio with three significant digits, or as a power of ten if it is far from 1.
fn three_digits(ratio: f64) -> String {
    match ratio {
        0.1..1.0 => format!("{ratio:.3}"),
        1.0..10.0 => format!("{ratio:.2}"),
        10.0..100.0 => format!("{ratio:.1}"),
        _ => format!("{ratio:.0e}"),
    }
}

/// Returns what a reader has to know before believing a ratio.
pub(super) fn remarks(samples: &Samples) -> Vec<String> {
    let dimension = samples.table.dimension;
    let several = dimension.several();
    let mut remarks = Vec::new();
    if let Some(control) = samples.roles.control {
        remarks.push(format!(
            "{} is {} once more: what differs between the two is noise. Other {several} are called better or worse only \
             if they differ from both; up to one in twenty of these verdicts may be wrong.",
            samples.variants[control].label,
            samples.reference().unwrap_or_default(),
        ));
    } else if samples.variants.len() > 1 {
        remarks.extend(without_control(samples));
    }
    remarks.extend(side_differences(samples));
    remarks.extend(what_can_differ(samples));
    let lonely = samples.cases_without_partner();
    if samples.variants.len() > 1 && lonely > 0 {
        remarks.push(format!(
            "{} of {}: measured for one of the {several} only, so there is nothing to compare.",
            lonely,
            counted(samples.keys.len(), "case"),
        ));
    }
    if let [only] = samples.variants.as_slice() {
        let what = match dimension {
            Dimension::Level => format!("level {} was in force", only.label),
            _ => format!("{} was measured", only.label),
        };
        remarks.push(format!("Only {what}: there is nothing to compare it with."));
    }
    let is_custom = |variant| samples.level(variant) == levels::CUSTOM;
    if (0..samples.variants.len()).any(is_custom) {
        remarks.push(
            "custom: a variable that was already set overrode the level; run.json of the step says which.".into(),
        );
    }
    remarks
}

/// Returns what is not known about the noise if no variant was measured twice under two labels.
fn without_control(samples: &Samples) -> Vec<String> {
    let one = samples.table.dimension.one();
    if samples.table.dimension == Dimension::Level && samples.roles.is_paired {
        return vec![
            "No level ran twice, so the noise was not measured. pxnbench experiment runs one twice, in a fair order.".into(),
        ];
    }
    let mut remarks = Vec::new();
    if samples.replicate == Replicate::Repetition && samples.blocks > 1 {
        remarks.push(format!(
            "The interval has the spread within one run of each. What differs from run to run is not in it, and may be taken \
             for an effect of the {one}: name several runs of each to see."
        ));
    }
    if samples.replicate == Replicate::Run {
        remarks.push(format!(
            "The runs were not made in a common order, so a change of the machine between them may be taken for an effect \
             of the {one}."
        ));
    }
    remarks
}

/// Returns what differs apart from what is compared.
fn side_differences(samples: &Samples) -> Option<String> {
    let differences = samples.table.side_differences();
    let mut texts = Vec::new();
    for (variant, difference) in samples.table.variants.iter().zip(differences) {
        if !difference.is_empty() {
            texts.push(format!("{} has {difference}", variant.label));
        }
    }
    (!texts.is_empty()).then(|| format!("Beside this, they differ: {}.", texts.join("; ")))
}

fn what_can_differ(samples: &Samples) -> Option<String> {
    let dimension = samples.table.dimension;
    if let Err(sentence) = anything_can_differ(dimension, &samples.table.conditions) {
        return Some(sentence);
    }
    let are_steps = samples.keys.iter().any(CaseKey::is_of_step);
    if dimension != Dimension::Level || are_steps {
        return None;
    }
    let pairwise = Collective::pairwise_names();
    let (last, others) = pairwise.split_last().unwrap_or((&"", &[]));
    Some(format!(
        "Between conservative, balanced and aggressive only {} and {last} can differ; in the others that is noise.",
        others.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{
        judge::judge,
        samples::Origin,
        step::tests::steps,
        tables::{split, tests::LEVELS},
    };

    fn rendered(cells: &[(&str, u32, f64)]) -> String {
        rendered_as(Origin::Folder, None, cells)
    }

    fn rendered_as(origin: Origin, width: Option<usize>, cells: &[(&str, u32, f64)]) -> String {
        let measured = steps("nccl", 2, cells);
        let tables = split(&measured.steps, LEVELS);
        let samples = Samples::collect(&tables[0], &measured.cases, origin);
        let comparisons = judge(&samples.cases, samples.roles);
        render(&samples, &comparisons, width)
    }

    #[test]
    fn ratios_have_an_interval_and_a_verdict() {
        let text = rendered(&[
            ("off", 0, 10.0),
            ("aggressive", 0, 5.0),
            ("off", 1, 30.0),
            ("aggressive", 1, 15.3),
            ("off", 2, 20.0),
            ("aggressive", 2, 9.9),
        ]);
        let expected = "\
# 3 blocks: time of off in us, and the ratio of the others to it (geometric means) with its 95 % interval; below 1 is faster
# All cases: type float, redop none, root -1, pattern -, place out
#     collective     size (B)                        off                 aggressive
        alltoall         1024                      18.17 0.502 [0.483, 0.521] better
";
        assert_eq!(text, expected);
    }

    #[test]
    fn levels_stand_below_each_other_on_a_narrow_terminal() {
        let cells = [
            ("off", 0, 10.0),
            ("aggressive", 0, 5.0),
            ("off", 1, 30.0),
            ("aggressive", 1, 15.3),
            ("off", 2, 20.0),
            ("aggressive", 2, 9.9),
        ];
        let narrow = rendered_as(Origin::Folder, Some(80), &cells);
        let table: Vec<&str> = narrow.lines().skip(2).collect();
        assert_eq!(
            table,
            [
                "# collective size (B)      level",
                "    alltoall     1024        off                       18.17",
                "                      aggressive 0.502 [0.483, 0.521] better",
            ]
        );
        let wide = rendered_as(Origin::Folder, Some(85), &cells);
        assert_eq!(wide, rendered(&cells), "as wide as without a terminal");
    }

    #[test]
    fn one_block_has_no_ratio() {
        let text = rendered(&[("off", 0, 10.0), ("aggressive", 0, 5.0)]);
        assert!(
            text.contains("one measurement each says nothing about the spread"),
            "{text}"
        );
        let line = text.lines().last().expect("a row");
        let cells: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(cells, ["alltoall", "1024", "10.00", "5.00"]);
    }

    #[test]
    fn runs_that_were_named_are_not_paired() {
        let cells = [
            ("off", 0, 10.0),
            ("off", 0, 30.0),
            ("aggressive", 0, 5.0),
            ("aggressive", 0, 15.0),
        ];
        let text = rendered_as(Origin::Runs, None, &cells);
        assert!(
            text.starts_with("# Up to 2 runs each: time of off"),
            "{text}"
        );
        // In blocks the ratio would be certain. The runs spread by a factor of three.
        let line = text.lines().last().expect("a row");
        assert!(
            line.contains(" 0.500 [") && !line.contains("better"),
            "{line}"
        );
    }

    #[test]
    fn ratios_far_from_one_stay_narrow() {
        let shown: Vec<String> = [0.004, 0.25, 1.0, 12.34, 6579.0].map(three_digits).into();
        assert_eq!(shown, ["4e-3", "0.250", "1.00", "12.3", "7e3"]);
    }

    #[test]
    fn remarks_say_what_cannot_differ() {
        let remarks_of = |backend, nodes, cells: &[(&str, u32, f64)]| {
            let measured = steps(backend, nodes, cells);
            let tables = split(&measured.steps, LEVELS);
            let samples = Samples::collect(&tables[0], &measured.cases, Origin::Folder);
            remarks(&samples).join(" ")
        };
        let both = [
            ("off", 0, 1.0),
            ("aggressive", 0, 1.0),
            ("off", 0, 1.0),
            ("aggressive", 0, 1.0),
        ];
        assert!(remarks_of("host", 4, &both).contains("no NCCL runs: the levels cannot differ"));
        assert!(remarks_of("nccl", 1, &both).contains("impossible on one node"));
        assert!(remarks_of("nccl", 2, &both).contains("the noise was not measured"));
        let custom = remarks_of("nccl", 2, &[("custom", 0, 1.0)]);
        assert!(
            custom.contains("nothing to compare it with") && custom.contains("overrode the level")
        );
    }
}
