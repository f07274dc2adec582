//! Which level to use for which collective and sizes.

use std::ops::RangeInclusive;

use super::{
    case_key::CaseKey,
    dimension::Dimension,
    judge::{Comparison, Verdict},
    samples::Samples,
};
use crate::{
    levels::{self, Axis},
    units::Bytes,
};

/// Neighbouring sizes with the same best variant.
struct SizeRange<'a> {
    key: &'a CaseKey,
    sizes: RangeInclusive<u64>,
    best: Option<usize>,
    /// The lowest and the highest ratio of the best variant.
    ratios: (f64, f64),
}

/// Returns one sentence per range of sizes in which a variant is better than the reference, or one
/// that none is, and the settings of the levels that are named.
pub(super) fn sentences(samples: &Samples, comparisons: &[Vec<Comparison>]) -> Vec<String> {
    let Some(reference) = samples.reference() else {
        return Vec::new();
    };
    let mut sentences = Vec::new();
    let mut named: Vec<&str> = Vec::new();
    for range in ranges(samples, comparisons) {
        let Some(best) = range.best else { continue };
        let label = samples.variants[best].label;
        if !named.contains(&label) {
            named.push(label);
        }
        sentences.push(sentence(&range, label, reference));
    }
    if sentences.is_empty() {
        return vec![format!(
            "No {} is shown to be better than {reference} anywhere. More {}s would show smaller \
             differences.",
            samples.table.dimension.one(),
            samples.replicate.noun(),
        )];
    }
    if let Some(axis) = axis(samples.table.dimension) {
        sentences.extend(named.into_iter().map(|name| how_to_use(axis, name)));
    }
    sentences
}

fn sentence(range: &SizeRange, level: &str, reference: &str) -> String {
    let ratio = ratio_text(range.ratios);
    if range.key.is_of_step() {
        let CaseKey {
            workload,
            collective: quantity,
            ..
        } = range.key;
        return format!(
            "{workload}, {quantity}: {level} takes {ratio} of the time of {reference}."
        );
    }
    let place = if range.key.is_in_place {
        "in"
    } else {
        "out of"
    };
    let (first, last) = (Bytes(*range.sizes.start()), Bytes(*range.sizes.end()));
    let sizes = if first == last {
        format!("at {first}")
    } else {
        format!("from {first} to {last}")
    };
    format!(
        "{} ({}, {place} place) {sizes}: {level} takes {ratio} of the time of {reference}.",
        range.key.collective, range.key.dtype,
    )
}

fn ratio_text((low, high): (f64, f64)) -> String {
    let (low, high) = (format!("{low:.2}"), format!("{high:.2}"));
    if low == high {
        low
    } else {
        format!("{low} to {high}")
    }
}

/// Returns the axis of the presets that a dimension compares.
fn axis(dimension: Dimension) -> Option<Axis> {
    match dimension {
        Dimension::Level => Some(Axis::Level),
        Dimension::Network => Some(Axis::Network),
        Dimension::Resources => Some(Axis::Resources),
        _ => None,
    }
}

fn how_to_use(axis: Axis, name: &str) -> String {
    let what = match axis {
        Axis::Level => "Level",
        Axis::Network => "Network",
        Axis::Resources => "Resources",
    };
    let mut settings = Vec::new();
    let presets = levels::rows(axis).iter();
    for preset in presets.filter(|preset| preset.name == name) {
        for setting in &preset.set {
            settings.push(format!("{}={}", setting.name, setting.value));
        }
    }
    if settings.is_empty() {
        return format!("{what} {name} sets no variable.");
    }
    let settings = settings.join(" ");
    format!("{what} {name} is {settings}; pxnbench levels {name} --export prints it for a shell.")
}

/// Joins neighbouring sizes with the same best variant.
fn ranges<'a>(samples: &'a Samples, comparisons: &[Vec<Comparison>]) -> Vec<SizeRange<'a>> {
    let mut ranges: Vec<SizeRange> = Vec::new();
    for (key, of_case) in samples.keys.iter().zip(comparisons) {
        let best = best(of_case);
        let ratio = best.map_or(1.0, |(_, ratio)| ratio);
        let variant = best.map(|(variant, _)| variant);
        match ranges.last_mut() {
            Some(last) if last.best == variant && is_same_series(last.key, key) => {
                last.sizes = *last.sizes.start()..=key.size;
                last.ratios = (last.ratios.0.min(ratio), last.ratios.1.max(ratio));
            }
            _ => ranges.push(SizeRange {
                key,
                sizes: key.size..=key.size,
                best: variant,
                ratios: (ratio, ratio),
            }),
        }
    }
    ranges
}

/// Returns the variant with the lowest ratio among those that are better than the reference, with
/// its ratio.
fn best(comparisons: &[Comparison]) -> Option<(usize, f64)> {
    let mut best: Option<(usize, f64)> = None;
    for (variant, comparison) in comparisons.iter().enumerate() {
        let Some(ratio) = comparison.ratio else {
            continue;
        };
        let is_lower = best.is_none_or(|(_, lowest)| ratio.ratio < lowest);
        if comparison.verdict == Verdict::Better && is_lower {
            best = Some((variant, ratio.ratio));
        }
    }
    best
}

fn is_same_series(a: &CaseKey, b: &CaseKey) -> bool {
    let without_size = |key: &CaseKey| CaseKey {
        size: 0,
        ..key.clone()
    };
    without_size(a) == without_size(b)
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

    fn recommended(cells: &[(&str, u32, f64)]) -> Vec<String> {
        let measured = steps("nccl", 2, cells);
        let tables = split(&measured.steps, LEVELS);
        let samples = Samples::collect(&tables[0], &measured.cases, Origin::Folder);
        sentences(&samples, &judge(&samples.cases, samples.roles))
    }

    #[test]
    fn the_best_level_comes_with_its_settings() {
        let mut cells = Vec::new();
        for block in 0..4 {
            let pace = 1.0 + f64::from(block);
            cells.push(("off", block, 10.0 * pace));
            cells.push(("balanced", block, 8.0 * pace));
            cells.push(("aggressive", block, 5.0 * pace));
        }
        let sentences = recommended(&cells);
        assert_eq!(
            sentences[0],
            "alltoall (float, out of place) at 1K: aggressive takes 0.50 of the time of off."
        );
        assert!(
            sentences[1].starts_with("Level aggressive is NCCL_PXN_DISABLE=0"),
            "{}",
            sentences[1]
        );
    }

    #[test]
    fn no_level_is_recommended_without_a_difference() {
        let cells = [
            ("off", 0, 10.0),
            ("aggressive", 0, 9.0),
            ("off", 1, 10.0),
            ("aggressive", 1, 11.0),
        ];
        let sentences = recommended(&cells);
        assert_eq!(sentences.len(), 1);
        assert!(sentences[0].contains("No level is shown to be better than off"));
    }
}
