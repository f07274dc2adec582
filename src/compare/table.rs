//! The table: one line per case, one column per variant.

use std::fmt::Write;

use super::{
    judge::{Comparison, Verdict},
    key_columns::KeyColumn,
    replicate::Replicate,
    samples::Samples,
};
use crate::units::counted;

/// The width of a variant's column.
const WIDTH: usize = 26;

/// Renders the time of the reference in each case, and the ratio of each other variant to it. What
/// all cases have in common is said above the table. If one column per variant does not fit into
/// `width`, each variant has a line of its own.
pub(super) fn render(
    samples: &Samples,
    comparisons: &[Vec<Comparison>],
    width: Option<usize>,
) -> String {
    let (common, columns) = KeyColumn::common_and_other(samples);
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
        let mut case: Vec<String> = columns.iter().map(|column| (column.cell)(key)).collect();
        for variant in variants(samples) {
            let mut line = case.clone();
            // The lines of a case follow each other, and only the first names it.
            case.fill(String::new());
            line.push(samples.variants[variant].label.to_owned());
            line.push(cell(samples, index, variant, comparisons[index][variant]));
            lines.push(line);
        }
    }
    aligned(&lines)
}

/// Renders lines of cells, of which the first are the heads of the columns.
fn aligned(lines: &[Vec<String>]) -> String {
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
        "# {times}: time of {reference} in us, and the ratio of the others to it (geometric \
         means) with its 95 % interval; below 1 is faster\n"
    )
}

/// Returns the line for one measurement of each variant.
fn alone(samples: &Samples) -> &'static str {
    if samples.roles.is_paired {
        "# Time in us. One block says nothing about the spread, so there are no ratios: repeat the \
         steps.\n"
    } else {
        "# Time in us. Cannot tell which is faster: one measurement each says nothing about the \
         spread. Repeat the runs and name all of them, or measure several cycles in each run with \
         -N.\n"
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
#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{
        judge::judge,
        replicate::Origin,
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
}
