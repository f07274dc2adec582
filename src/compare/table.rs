//! The table: one line per case, one column per variant.

use std::fmt::Write;

use super::{
    can_differ::anything_can_differ,
    judge::{Comparison, Verdict},
    key::CaseKey,
    samples::Samples,
};
use crate::{collective::Collective, levels, units::counted};

/// A column that identifies the case.
struct KeyColumn {
    name: &'static str,
    width: usize,
    cell: fn(&CaseKey) -> String,
}

const KEY_COLUMNS: [KeyColumn; 7] = [
    KeyColumn {
        name: "collective",
        width: 14,
        cell: |key| key.collective.to_owned(),
    },
    KeyColumn {
        name: "size (B)",
        width: 12,
        cell: |key| key.size.to_string(),
    },
    KeyColumn {
        name: "type",
        width: 8,
        cell: |key| key.dtype.to_owned(),
    },
    KeyColumn {
        name: "redop",
        width: 6,
        cell: |key| key.redop.to_owned(),
    },
    KeyColumn {
        name: "root",
        width: 4,
        cell: |key| key.root.to_string(),
    },
    KeyColumn {
        name: "pattern",
        width: 12,
        cell: |key| {
            (if key.pattern.is_empty() {
                "-"
            } else {
                key.pattern
            })
            .to_owned()
        },
    },
    KeyColumn {
        name: "place",
        width: 5,
        cell: |key| (if key.is_in_place { "in" } else { "out" }).to_owned(),
    },
];

/// The width of a variant's column.
const WIDTH: usize = 26;

/// Renders the time of the reference in each case, and the ratio of each other variant to it. What all cases have in common
/// is said above the table.
pub(super) fn render(samples: &Samples, comparisons: &[Vec<Comparison>]) -> String {
    let (common, columns): (Vec<&KeyColumn>, Vec<&KeyColumn>) = KEY_COLUMNS
        .iter()
        .partition(|column| is_common(samples, column));
    let mut text = header(samples);
    if let (Some(key), false) = (samples.keys.first(), common.is_empty()) {
        let cells: Vec<String> = common
            .iter()
            .map(|column| format!("{} {}", column.name, (column.cell)(key)))
            .collect();
        let _ = writeln!(text, "# All cases: {}", cells.join(", "));
    }
    text.push('#');
    for column in &columns {
        let _ = write!(text, " {:>width$}", column.name, width = column.width);
    }
    for variant in variants(samples) {
        let _ = write!(text, " {:>WIDTH$}", samples.labels[variant]);
    }
    text.push('\n');
    for (index, key) in samples.keys.iter().enumerate() {
        let mut line = String::from(" ");
        for column in &columns {
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

/// Returns whether all cases have the same value in a column. Size and collective are always shown.
fn is_common(samples: &Samples, column: &KeyColumn) -> bool {
    let Some(first) = samples.keys.first() else {
        return false;
    };
    let expected = (column.cell)(first);
    let is_optional = !matches!(column.name, "collective" | "size (B)");
    is_optional
        && samples
            .keys
            .iter()
            .all(|key| (column.cell)(key) == expected)
}

fn header(samples: &Samples) -> String {
    let Some(reference) = samples.labels.get(samples.roles.reference) else {
        return String::new();
    };
    if samples.labels.len() < 2 {
        return format!(
            "# {}: time of {reference} in us (geometric mean)\n",
            counted(samples.blocks, "block")
        );
    }
    if samples.blocks < 2 {
        return "# Time in us. One block says nothing about the spread, so there are no ratios: repeat the steps.\n".into();
    }
    format!(
        "# {}: time of {reference} in us, and the ratio of the others to it (geometric means) with its 95 % interval; below \
         1 is faster\n",
        counted(samples.blocks, "block")
    )
}

/// Returns the variants in the order of the columns: the reference first.
fn variants(samples: &Samples) -> Vec<usize> {
    let mut variants: Vec<usize> = (0..samples.labels.len()).collect();
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
    let mut remarks = Vec::new();
    if let Some(control) = samples.roles.control {
        remarks.push(format!(
            "{} is {} once more: what differs between the two is noise. Other levels are called better or worse only if \
             they differ from both; up to one in twenty of these verdicts may be wrong.",
            samples.labels[control], samples.labels[samples.roles.reference]
        ));
    } else if samples.labels.len() > 1 {
        remarks.push(
            "No level ran twice, so the noise was not measured. pxnbench experiment runs one twice, in a fair order.".into(),
        );
    }
    remarks.push(what_can_differ(samples));
    if samples.labels.len() == 1 {
        remarks.push(format!(
            "Only level {} was in force: there is nothing to compare it with.",
            samples.labels.join("")
        ));
    }
    if samples.levels.contains(&levels::CUSTOM) {
        remarks.push(
            "custom: a variable that was already set overrode the level; run.json of the step says which.".into(),
        );
    }
    remarks
}

fn what_can_differ(samples: &Samples) -> String {
    if let Err(sentence) = anything_can_differ(&samples.conditions) {
        return sentence.to_owned();
    }
    let pairwise = Collective::pairwise_names();
    let (last, others) = pairwise.split_last().unwrap_or((&"", &[]));
    format!(
        "Between conservative, balanced and aggressive only {} and {last} can differ; in the others that is noise.",
        others.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{judge::judge, step::tests::steps, tables::split};

    fn rendered(cells: &[(&str, u32, f64)]) -> String {
        let steps = steps("nccl", 2, cells);
        let tables = split(&steps);
        let samples = Samples::collect(&tables[0], None);
        render(&samples, &judge(&samples.cases, samples.roles))
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
    fn one_block_has_no_ratio() {
        let text = rendered(&[("off", 0, 10.0), ("aggressive", 0, 5.0)]);
        assert!(
            text.contains("One block says nothing about the spread"),
            "{text}"
        );
        let line = text.lines().last().expect("a row");
        let cells: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(cells, ["alltoall", "1024", "10.00", "5.00"]);
    }

    #[test]
    fn ratios_far_from_one_stay_narrow() {
        let shown: Vec<String> = [0.004, 0.25, 1.0, 12.34, 6579.0].map(three_digits).into();
        assert_eq!(shown, ["4e-3", "0.250", "1.00", "12.3", "7e3"]);
    }

    #[test]
    fn remarks_say_what_cannot_differ() {
        let remarks_of = |backend, nodes, cells: &[(&str, u32, f64)]| {
            let steps = steps(backend, nodes, cells);
            let tables = split(&steps);
            remarks(&Samples::collect(&tables[0], None)).join(" ")
        };
        let both = [("off", 0, 1.0), ("aggressive", 0, 1.0)];
        assert!(remarks_of("host", 4, &both).contains("no NCCL runs: the levels cannot differ"));
        assert!(remarks_of("nccl", 1, &both).contains("impossible on one node"));
        assert!(remarks_of("nccl", 2, &both).contains("the noise was not measured"));
        let custom = remarks_of("nccl", 2, &[("custom", 0, 1.0)]);
        assert!(
            custom.contains("nothing to compare it with") && custom.contains("overrode the level")
        );
    }
}
