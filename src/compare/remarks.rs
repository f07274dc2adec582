//! What a reader has to know before believing a ratio.

use super::{
    can_differ::anything_can_differ, case_key::CaseKey, dimension::Dimension, replicate::Replicate,
    samples::Samples,
};
use crate::{collective::Collective, levels, units::counted};

/// Returns what a reader has to know before believing a ratio.
pub(super) fn remarks(samples: &Samples) -> Vec<String> {
    let mut remarks = Vec::new();
    match samples.roles.control {
        Some(control) => remarks.push(on_control(samples, control)),
        None if samples.variants.len() > 1 => remarks.extend(without_control(samples)),
        None => {}
    }
    remarks.extend(side_differences(samples));
    remarks.extend(what_can_differ(samples));
    remarks.extend(cases_without_partner(samples));
    remarks.extend(without_comparison(samples));
    let is_custom = |variant| samples.level(variant) == levels::CUSTOM;
    if (0..samples.variants.len()).any(is_custom) {
        remarks.push(
            "custom: a variable that was already set overrode the level; run.json of the step \
             says which."
                .into(),
        );
    }
    remarks
}

/// Returns what the control tells.
fn on_control(samples: &Samples, control: usize) -> String {
    format!(
        "{} repeats {}, so any difference between the two is noise. Other {} are called better or \
         worse only if they differ from both; up to one in twenty of these verdicts may be wrong.",
        samples.variants[control].label,
        samples.reference().unwrap_or_default(),
        samples.table.dimension.several(),
    )
}

/// Returns what is not known about the noise if no variant was measured twice under two labels.
fn without_control(samples: &Samples) -> Vec<String> {
    let one = samples.table.dimension.one();
    if samples.table.dimension == Dimension::Level && samples.roles.is_paired {
        return vec![
            "No level ran twice, so the noise was not measured. pxnbench experiment runs one \
             twice, in a fair order."
                .into(),
        ];
    }
    let mut remarks = Vec::new();
    if samples.replicate == Replicate::Repetition && samples.blocks > 1 {
        remarks.push(format!(
            "The interval has the spread within one run of each. What differs from run to run is \
             not in it, and may be taken for an effect of the {one}: name several runs of each to \
             see."
        ));
    }
    if samples.replicate == Replicate::Run {
        remarks.push(format!(
            "The runs were not made in a common order, so a change of the machine between them \
             may be taken for an effect of the {one}."
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
        "Between conservative, balanced and aggressive only {} and {last} can differ; in the \
         others that is noise.",
        others.join(", ")
    ))
}

/// Returns how many cases only one of the variants has.
fn cases_without_partner(samples: &Samples) -> Option<String> {
    let lonely = samples.cases_without_partner();
    if samples.variants.len() < 2 || lonely == 0 {
        return None;
    }
    Some(format!(
        "{} of {}: measured for one of the {} only, so there is nothing to compare.",
        lonely,
        counted(samples.keys.len(), "case"),
        samples.table.dimension.several(),
    ))
}

/// Returns what was measured if it is one variant only.
fn without_comparison(samples: &Samples) -> Option<String> {
    let [only] = samples.variants.as_slice() else {
        return None;
    };
    let what = match samples.table.dimension {
        Dimension::Level => format!("level {} was in force", only.label),
        _ => format!("{} was measured", only.label),
    };
    Some(format!("Only {what}: there is nothing to compare it with."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{
        replicate::Origin,
        step::tests::steps,
        tables::{split, tests::LEVELS},
    };

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
