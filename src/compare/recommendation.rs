//! Which level to use for which collective and sizes.

use std::ops::RangeInclusive;

use super::{
    judge::{Comparison, Verdict},
    key::CaseKey,
    samples::Samples,
};
use crate::{levels, units::Bytes};

/// Neighbouring sizes with the same best variant.
struct SizeRange<'a> {
    key: CaseKey<'a>,
    sizes: RangeInclusive<u64>,
    best: Option<usize>,
    /// The lowest and the highest ratio of the best variant.
    ratios: (f64, f64),
}

/// Returns one sentence per range of sizes in which a variant is better than the reference, or one that none is, and the
/// settings of the levels that are named.
pub(super) fn sentences(samples: &Samples, comparisons: &[Vec<Comparison>]) -> Vec<String> {
    let Some(reference) = samples.labels.get(samples.roles.reference) else {
        return Vec::new();
    };
    let mut sentences = Vec::new();
    let mut named: Vec<&str> = Vec::new();
    for range in ranges(samples, comparisons) {
        let Some(best) = range.best else { continue };
        let level = samples.levels[best];
        if !named.contains(&level) {
            named.push(level);
        }
        sentences.push(sentence(&range, level, reference));
    }
    if sentences.is_empty() {
        return vec![format!(
            "No level is shown to be better than {reference} anywhere. More blocks would show smaller differences."
        )];
    }
    for level in named {
        sentences.push(how_to_use(level));
    }
    sentences
}

fn sentence(range: &SizeRange, level: &str, reference: &str) -> String {
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
    let (low, high) = (
        format!("{:.2}", range.ratios.0),
        format!("{:.2}", range.ratios.1),
    );
    let ratio = if low == high {
        low
    } else {
        format!("{low} to {high}")
    };
    format!(
        "{} ({}, {place} place) {sizes}: {level} takes {ratio} of the time of {reference}.",
        range.key.collective, range.key.dtype,
    )
}

fn how_to_use(level: &str) -> String {
    let mut settings = Vec::new();
    if let Ok(preset) = levels::level(level) {
        for setting in &preset.set {
            settings.push(format!("{}={}", setting.name, setting.value));
        }
    }
    if settings.is_empty() {
        return format!("Level {level} sets no variable.");
    }
    let settings = settings.join(" ");
    format!("Level {level} is {settings}; pxnbench levels {level} --export prints it for a shell.")
}

/// Joins neighbouring sizes with the same best variant.
fn ranges<'a>(samples: &Samples<'a>, comparisons: &[Vec<Comparison>]) -> Vec<SizeRange<'a>> {
    let mut ranges: Vec<SizeRange> = Vec::new();
    for (key, of_case) in samples.keys.iter().zip(comparisons) {
        let best = best(of_case);
        let ratio = best.map_or(1.0, |(_, ratio)| ratio);
        let variant = best.map(|(variant, _)| variant);
        match ranges.last_mut() {
            Some(last) if last.best == variant && is_same_series(&last.key, key) => {
                last.sizes = *last.sizes.start()..=key.size;
                last.ratios = (last.ratios.0.min(ratio), last.ratios.1.max(ratio));
            }
            _ => ranges.push(SizeRange {
                key: *key,
                sizes: key.size..=key.size,
                best: variant,
                ratios: (ratio, ratio),
            }),
        }
    }
    ranges
}

/// Returns the variant with the lowest ratio among those that are better than the reference, with its ratio.
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
    CaseKey { size: 0, ..*a } == CaseKey { size: 0, ..*b }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{judge::judge, step::tests::steps, tables::split};

    fn recommended(cells: &[(&str, u32, f64)]) -> Vec<String> {
        let steps = steps("nccl", 2, cells);
        let tables = split(&steps);
        let samples = Samples::collect(&tables[0], None);
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
