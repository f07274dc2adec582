//! [`Outcome`]: the result of a tuning.

use super::{
    candidates::{CONTROL, DEFAULT, MeasuredCandidates},
    names::CandidateNames,
};
use crate::{
    compare::experiment_record::{EliminatedVariant, ExperimentRecord, Variant},
    experiment::variants,
    stats::TimeRatio,
    units::counted,
};

/// The verdict on a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CandidateVerdict {
    /// The default, with which the others are compared.
    Default,
    /// The second copy of the default.
    Control,
    /// It is faster than both copies of the default.
    Faster,
    /// It is slower than both copies of the default.
    Slower,
    /// It may be faster, slower or equally fast: the intervals include 1.
    NotShown,
    /// It was measured in fewer than two blocks.
    TooFewBlocks,
    /// It was not measured.
    NotMeasured,
}

impl CandidateVerdict {
    /// Returns its name in tables and files.
    pub(super) fn name(self) -> &'static str {
        match self {
            CandidateVerdict::Default => "default",
            CandidateVerdict::Control => "control",
            CandidateVerdict::Faster => "faster",
            CandidateVerdict::Slower => "slower",
            CandidateVerdict::NotShown => "no difference shown",
            CandidateVerdict::TooFewBlocks => "too few blocks",
            CandidateVerdict::NotMeasured => "not measured",
        }
    }
}

/// A candidate with its times and its verdict.
#[derive(Clone, Debug)]
pub(super) struct CandidateStanding<'a> {
    pub(super) variant: &'a Variant,
    pub(super) blocks: usize,
    /// The geometric mean of the step's time in us.
    pub(super) step: Option<f64>,
    /// The geometric mean of exposed communication in us.
    pub(super) exposed: Option<f64>,
    /// The geometric mean of the computation alone in us.
    pub(super) computation: Option<f64>,
    /// The ratio of the step's time to that of the default.
    pub(super) ratio: Option<TimeRatio>,
    pub(super) verdict: CandidateVerdict,
    pub(super) eliminated: Option<&'a EliminatedVariant>,
}

/// The result of a tuning.
#[derive(Debug)]
pub(super) struct Outcome<'a> {
    /// All candidates, in the order of the variants.
    pub(super) standings: Vec<CandidateStanding<'a>>,
    /// The index of the recommended candidate, if one is faster than the default.
    pub(super) recommended: Option<usize>,
    /// The indices of the candidates that cannot be told apart from the recommended one.
    alike: Vec<usize>,
}

impl<'a> Outcome<'a> {
    /// Judges all candidates of `record`.
    pub(super) fn of(record: &'a ExperimentRecord, measured: &MeasuredCandidates) -> Outcome<'a> {
        let places = 0..record.variants.len();
        let candidates = places.clone().skip(CONTROL + 1);
        let together = candidates
            .filter(|place| measured.step.blocks(*place) > 0)
            .count();
        let standings: Vec<CandidateStanding> = places
            .map(|place| standing(place, record, measured, together))
            .collect();
        let recommended = recommended(&standings);
        let is_alike = |place: &usize| {
            let ratio = recommended.and_then(|best| measured.step.ratio(*place, best, together));
            Some(*place) != recommended && ratio.is_some_and(|ratio| ratio.low <= 1.0)
        };
        let others = CONTROL + 1..standings.len();
        let alike = others
            .filter(|place| standings[*place].eliminated.is_none())
            .filter(is_alike)
            .collect();
        Outcome {
            standings,
            recommended,
            alike,
        }
    }

    /// Returns an outcome in which no candidate is recommended.
    #[cfg(test)]
    pub(super) fn of_standings(standings: Vec<CandidateStanding<'a>>) -> Outcome<'a> {
        Outcome {
            standings,
            recommended: None,
            alike: Vec::new(),
        }
    }

    /// Returns whether any candidate could be compared with the default.
    pub(super) fn is_judged(&self) -> bool {
        let others = &self.standings[CONTROL + 1..];
        others.iter().any(|standing| standing.ratio.is_some())
    }

    /// Returns the findings, a sentence each.
    pub(super) fn sentences(&self, names: &CandidateNames) -> Vec<String> {
        let mut sentences = Vec::new();
        if !self.is_judged() {
            return sentences;
        }
        match self.recommended {
            Some(place) => {
                sentences.push(self.recommendation(place, names));
                sentences.extend(self.equals(names));
                let options = variants::options(self.standings[place].variant);
                sentences.push(format!("It is chosen with {}.", options.join(" ")));
            }
            None => sentences.extend(self.nothing_better(names)),
        }
        sentences.extend(self.noise());
        sentences.extend(self.eliminations());
        sentences
    }

    fn recommendation(&self, place: usize, names: &CandidateNames) -> String {
        let best = &self.standings[place];
        let saved = best.ratio.map(saved).unwrap_or_default();
        format!(
            "Recommended: {}. The step takes {} ms, {saved} less than with the default, {}.",
            names.name(best.variant),
            milliseconds(best.step),
            names.name(self.standings[DEFAULT].variant),
        )
    }

    fn equals(&self, names: &CandidateNames) -> Option<String> {
        if self.alike.is_empty() {
            return None;
        }
        let mut alike = Vec::new();
        for place in &self.alike {
            alike.push(names.name(self.standings[*place].variant));
        }
        Some(format!(
            "Cannot be told apart from it: {}.",
            alike.join("; ")
        ))
    }

    fn nothing_better(&self, names: &CandidateNames) -> Vec<String> {
        let default = &self.standings[DEFAULT];
        let mut sentences = vec![format!(
            "No candidate is shown to be faster than the default, {}, whose step takes {} ms. \
             Keep it.",
            names.name(default.variant),
            milliseconds(default.step),
        )];
        let others = &self.standings[CONTROL + 1..];
        let lows = others.iter().filter_map(|standing| standing.ratio);
        let lowest = lows.map(|ratio| ratio.low).fold(1.0, f64::min);
        sentences.push(format!(
            "None saves more than {:.1} % of the step, with a confidence of 95 %.",
            100.0 * (1.0 - lowest)
        ));
        sentences
    }

    fn noise(&self) -> Option<String> {
        let ratio = self.standings[CONTROL].ratio?;
        Some(format!(
            "The two copies of the default differ by {:.1} %, which is noise.",
            100.0 * (ratio.ratio - 1.0).abs()
        ))
    }

    fn eliminations(&self) -> Option<String> {
        let eliminated = self
            .standings
            .iter()
            .filter_map(|standing| standing.eliminated);
        let raced = eliminated
            .filter(|eliminated| eliminated.blocks > 0)
            .count();
        let others = self.standings.len() - CONTROL - 1;
        (raced > 0).then(|| {
            format!(
                "Of {}, {raced} ended before the last block.",
                counted(others, "candidate")
            )
        })
    }
}

fn standing<'a>(
    place: usize,
    record: &'a ExperimentRecord,
    measured: &MeasuredCandidates,
    together: usize,
) -> CandidateStanding<'a> {
    let variant = &record.variants[place];
    let ratio_to = |reference| measured.step.ratio(place, reference, together);
    let ratio = if place == DEFAULT {
        None
    } else {
        ratio_to(DEFAULT)
    };
    let verdict = match place {
        DEFAULT => CandidateVerdict::Default,
        CONTROL => CandidateVerdict::Control,
        _ if measured.step.blocks(place) == 0 => CandidateVerdict::NotMeasured,
        _ => verdict(ratio, ratio_to(CONTROL)),
    };
    let mut eliminated = record.eliminated.iter();
    CandidateStanding {
        variant,
        blocks: measured.step.blocks(place),
        step: measured.step.mean(place),
        exposed: measured.exposed.mean(place),
        computation: measured.computation.mean(place),
        ratio,
        verdict,
        eliminated: eliminated.find(|eliminated| eliminated.label == variant.label),
    }
}

/// Returns the verdict from the ratios to both copies of the default.
fn verdict(to_default: Option<TimeRatio>, to_control: Option<TimeRatio>) -> CandidateVerdict {
    let (Some(first), Some(second)) = (to_default, to_control) else {
        return CandidateVerdict::TooFewBlocks;
    };
    if first.high.max(second.high) < 1.0 {
        CandidateVerdict::Faster
    } else if first.low.min(second.low) > 1.0 {
        CandidateVerdict::Slower
    } else {
        CandidateVerdict::NotShown
    }
}

/// Returns the index of the candidate with the lowest ratio among those that are faster than the
/// default; one that was eliminated only if all of them were.
fn recommended(standings: &[CandidateStanding]) -> Option<usize> {
    let mut best: Option<(usize, (bool, f64))> = None;
    for (place, standing) in standings.iter().enumerate() {
        let (CandidateVerdict::Faster, Some(ratio)) = (standing.verdict, standing.ratio) else {
            continue;
        };
        let own = (standing.eliminated.is_some(), ratio.ratio);
        if best.is_none_or(|(_, other)| own < other) {
            best = Some((place, own));
        }
    }
    best.map(|(place, _)| place)
}

/// Returns how much less than the default a candidate takes in percent, with the interval.
fn saved(ratio: TimeRatio) -> String {
    let percent = |ratio: f64| 100.0 * (1.0 - ratio);
    format!(
        "{:.1} % (95 % interval {:.1} to {:.1} %)",
        percent(ratio.ratio),
        percent(ratio.high),
        percent(ratio.low),
    )
}

/// Formats a time in us as ms.
pub(super) fn milliseconds(time: Option<f64>) -> String {
    time.map_or_else(|| "-".to_owned(), |time| format!("{:.3}", time / 1e3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        experiment::variants::{BucketSizes, Variants, VariedSettings},
        record,
    };

    /// Returns the record and the times of a tuning with the times in each block of the default,
    /// its control and two other bucket sizes.
    fn tuned(times: [&[f64]; 4]) -> (ExperimentRecord, MeasuredCandidates) {
        let settings = VariedSettings {
            buckets: BucketSizes(vec![25.0, 50.0, 100.0]),
            ..VariedSettings::default()
        };
        let variants = Variants::of(&settings).expect("variants");
        let mut measured = MeasuredCandidates::new(variants.all());
        for (place, times) in times.iter().enumerate() {
            for (block, time) in (0..).zip(*times) {
                measured.step.add(place, block, *time);
            }
        }
        let record = ExperimentRecord {
            started_at: record::now(),
            arguments: Vec::new(),
            seed: 0,
            variants: variants.all().to_vec(),
            reference: variants.reference().label.clone(),
            control: variants.control().label.clone(),
            steps: Vec::new(),
            eliminated: Vec::new(),
            end: None,
        };
        (record, measured)
    }

    fn sentences(times: [&[f64]; 4]) -> Vec<String> {
        let (record, measured) = tuned(times);
        let outcome = Outcome::of(&record, &measured);
        outcome.sentences(&CandidateNames::of(&record.variants))
    }

    #[test]
    fn the_fastest_is_recommended_with_what_cannot_be_told_apart() {
        let said = sentences([
            &[1000.0, 1010.0, 990.0, 1000.0],
            &[1001.0, 1009.0, 991.0, 1000.0],
            &[800.0, 808.0, 793.0, 801.0],
            &[802.0, 807.0, 794.0, 800.0],
        ]);
        assert!(
            said[0].starts_with(
                "Recommended: buckets of 50 MiB. The step takes 0.800 ms, 19.9 % (95 % interval"
            ),
            "{said:?}"
        );
        assert!(
            said[0].ends_with("less than with the default, buckets of 25 MiB."),
            "{said:?}"
        );
        assert_eq!(said[1], "Cannot be told apart from it: buckets of 100 MiB.");
        assert_eq!(said[2], "It is chosen with --bucket-mb 50.");
        assert_eq!(
            said[3],
            "The two copies of the default differ by 0.0 %, which is noise."
        );
    }

    #[test]
    fn if_no_candidate_is_faster_the_default_is_kept() {
        let said = sentences([
            &[1000.0, 1010.0, 990.0],
            &[1010.0, 1000.0, 995.0],
            &[995.0, 1015.0, 991.0],
            &[1400.0, 1390.0, 1420.0],
        ]);
        assert_eq!(
            said[0],
            "No candidate is shown to be faster than the default, buckets of 25 MiB, whose step \
             takes 1.000 ms. Keep it."
        );
        assert!(said[1].starts_with("None saves more than "), "{said:?}");
    }

    /// A candidate that is faster than one copy of the default only may be equally fast.
    #[test]
    fn a_faster_candidate_is_faster_than_both_copies_of_the_default() {
        let (record, measured) = tuned([
            &[1000.0, 1000.0, 1000.0],
            &[900.0, 900.0, 900.0],
            &[899.0, 901.0, 900.0],
            &[500.0],
        ]);
        let outcome = Outcome::of(&record, &measured);
        let verdicts: Vec<_> = outcome.standings.iter().map(|one| one.verdict).collect();
        assert_eq!(
            verdicts,
            [
                CandidateVerdict::Default,
                CandidateVerdict::Control,
                CandidateVerdict::NotShown,
                CandidateVerdict::TooFewBlocks,
            ]
        );
        assert_eq!(outcome.recommended, None);
    }
}
