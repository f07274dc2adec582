//! [`Variants`]: the combinations of settings that an experiment compares, and a second copy of the
//! first.

use std::fmt;

use crate::{
    compare::experiment_record::{Variant, bucket_label},
    levels::{self, Axis},
};

/// The most variants of an experiment.
const MOST_VARIANTS: usize = 64;

/// The variants of a sweep or a training step. The first is the reference, the second its control.
#[derive(Clone, Debug, PartialEq)]
pub struct Variants(Vec<Variant>);

/// The values of each setting, whose combinations are the variants. A setting without a value is
/// left to the environment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VariedSettings {
    /// PXN levels.
    pub levels: PresetNames,
    /// Networks.
    pub networks: PresetNames,
    /// Resources.
    pub resources: PresetNames,
    /// Sizes of the buckets of a training step.
    pub buckets: BucketSizes,
}

/// Names of levels, of networks or of resources, each once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PresetNames(pub Vec<String>);

/// Bucket sizes in MiB, each once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BucketSizes(pub Vec<f64>);

impl PresetNames {
    /// Returns the levels in `text`, separated by commas or spaces.
    ///
    /// # Errors
    ///
    /// Returns a sentence if one is unknown or named twice.
    pub fn levels(text: &str) -> Result<PresetNames, String> {
        PresetNames::parse(text, Axis::Level)
    }

    /// Returns the networks in `text`, as [`PresetNames::levels`] does.
    ///
    /// # Errors
    ///
    /// Returns a sentence if one is unknown or named twice.
    pub fn networks(text: &str) -> Result<PresetNames, String> {
        PresetNames::parse(text, Axis::Network)
    }

    /// Returns the resources in `text`, as [`PresetNames::levels`] does.
    ///
    /// # Errors
    ///
    /// Returns a sentence if one is unknown or named twice.
    pub fn resources(text: &str) -> Result<PresetNames, String> {
        PresetNames::parse(text, Axis::Resources)
    }

    /// Returns all levels.
    pub fn all_levels() -> PresetNames {
        PresetNames(
            levels::all()
                .iter()
                .map(|level| level.name.clone())
                .collect(),
        )
    }

    fn parse(text: &str, axis: Axis) -> Result<PresetNames, String> {
        let noun = match axis {
            Axis::Level => "level",
            Axis::Network => "network",
            Axis::Resources => "resources",
        };
        let mut names = Vec::new();
        for name in words(text) {
            let preset = match axis {
                Axis::Level => levels::level(name),
                Axis::Network => levels::network(name),
                Axis::Resources => levels::resources(name),
            };
            let preset = preset.map_err(|why| format!("{noun} '{name}': {why}"))?;
            names.push(preset.name.clone());
        }
        refuse_bad_list(noun, &names)?;
        Ok(PresetNames(names))
    }
}

impl BucketSizes {
    /// Returns the sizes in `text`, separated by commas or spaces.
    ///
    /// # Errors
    ///
    /// Returns a sentence if one is no size or is named twice.
    pub fn parse(text: &str) -> Result<BucketSizes, String> {
        let mut sizes: Vec<f64> = Vec::new();
        for word in words(text) {
            let size = word.parse().ok().filter(|size| *size > 0.0 && *size <= 1e6);
            let size = size.ok_or_else(|| {
                format!("'{word}' is no size of a bucket. Use numbers of MiB, such as 10,25,50")
            })?;
            sizes.push(size);
        }
        refuse_bad_list("bucket size", &sizes)?;
        Ok(BucketSizes(sizes))
    }
}

/// Returns the words of a list.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split([',', ' ']).filter(|word| !word.is_empty())
}

fn refuse_bad_list<T: PartialEq + fmt::Display>(noun: &str, values: &[T]) -> Result<(), String> {
    if values.is_empty() {
        return Err(format!("no {noun} is named. Name at least one"));
    }
    for (index, value) in values.iter().enumerate() {
        if values[..index].contains(value) {
            return Err(format!(
                "{noun} {value} is named twice. Name each {noun} once"
            ));
        }
    }
    Ok(())
}

impl VariedSettings {
    /// Returns whether a setting has several values.
    pub fn varies(&self) -> bool {
        let names = [&self.levels, &self.networks, &self.resources];
        self.buckets.0.len() > 1 || names.iter().any(|names| names.0.len() > 1)
    }

    /// Returns all combinations. The first has the first value of each setting.
    fn combinations(&self) -> Vec<Variant> {
        let mut all = vec![Variant::default()];
        cross(&mut all, &self.levels.0, |variant, level| {
            variant.level = level.clone();
        });
        cross(&mut all, &self.networks.0, |variant, network| {
            variant.network = Some(network.clone());
        });
        cross(&mut all, &self.resources.0, |variant, resources| {
            variant.resources = Some(resources.clone());
        });
        cross(&mut all, &self.buckets.0, |variant, bucket_mb| {
            variant.bucket_mb = Some(*bucket_mb);
        });
        for variant in &mut all {
            variant.label = self.label(variant);
        }
        all
    }

    /// Returns the name of a variant: the values of the settings that differ between variants,
    /// joined by `+`.
    fn label(&self, variant: &Variant) -> String {
        let mut parts: Vec<String> = Vec::new();
        if self.levels.0.len() > 1 {
            parts.push(variant.level.clone());
        }
        if self.networks.0.len() > 1 {
            parts.extend(variant.network.clone());
        }
        if self.resources.0.len() > 1 {
            parts.extend(variant.resources.clone());
        }
        if self.buckets.0.len() > 1 {
            parts.extend(variant.bucket_mb.map(bucket_label));
        }
        parts.join("+")
    }
}

/// Replaces each variant by one variant for each value. Without values, the variants stay as they
/// are.
fn cross<T>(variants: &mut Vec<Variant>, values: &[T], set: impl Fn(&mut Variant, &T)) {
    if values.is_empty() {
        return;
    }
    let mut all = Vec::new();
    for variant in variants.iter() {
        for value in values {
            let mut variant = variant.clone();
            set(&mut variant, value);
            all.push(variant);
        }
    }
    *variants = all;
}

impl Variants {
    /// Returns all combinations of the settings, and the control. The reference has the first value
    /// of each setting.
    ///
    /// # Errors
    ///
    /// Returns a sentence if there are fewer than two combinations, or too many.
    pub fn of(settings: &VariedSettings) -> Result<Variants, String> {
        let mut variants = settings.combinations();
        let count = variants.len();
        if count > MOST_VARIANTS {
            return Err(format!(
                "these are {count} combinations, more than the {MOST_VARIANTS} that one \
                 experiment compares. Name fewer"
            ));
        }
        let [reference, _, ..] = variants.as_slice() else {
            return Err(
                "a comparison needs at least two levels, or two values of another setting. Name \
                 them as in --levels off,aggressive"
                    .into(),
            );
        };
        let control = Variant {
            label: format!("{}-again", reference.label),
            ..reference.clone()
        };
        variants.insert(1, control);
        Ok(Variants(variants))
    }

    /// Returns all variants, in the order of the table.
    pub fn all(&self) -> &[Variant] {
        &self.0
    }

    /// Returns the variant that the others are compared with.
    pub fn reference(&self) -> &Variant {
        &self.0[0]
    }

    /// Returns the second copy of the reference.
    pub fn control(&self) -> &Variant {
        &self.0[1]
    }
}

/// Returns the options that give a step the settings of `variant`.
pub(super) fn options(variant: &Variant) -> Vec<String> {
    let Variant {
        label: _,
        level,
        network,
        resources,
        bucket_mb,
    } = variant;
    let level = (!level.is_empty()).then(|| level.clone());
    let chosen = [
        ("--level", level),
        ("--network", network.clone()),
        ("--resources", resources.clone()),
        ("--bucket-mb", bucket_mb.map(|size| size.to_string())),
    ];
    let mut words = Vec::new();
    for (option, value) in chosen {
        if let Some(value) = value {
            words.extend([option.to_owned(), value]);
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(settings: &VariedSettings) -> Vec<String> {
        let variants = Variants::of(settings).expect("variants");
        let all = variants.all().iter();
        all.map(|variant| variant.label.clone()).collect()
    }

    #[test]
    fn the_first_level_runs_twice() {
        let settings = VariedSettings {
            levels: PresetNames::levels("off conservative,aggressive").expect("levels"),
            ..VariedSettings::default()
        };
        assert_eq!(
            labels(&settings),
            ["off", "off-again", "conservative", "aggressive"]
        );
        let variants = Variants::of(&settings).expect("variants");
        assert_eq!(variants.control().level, "off");
        assert_eq!(options(variants.control()), ["--level", "off"]);
    }

    #[test]
    fn settings_are_combined_and_named_if_they_differ() {
        let settings = VariedSettings {
            levels: PresetNames::levels("aggressive").expect("a level"),
            resources: PresetNames::resources("none,lean").expect("resources"),
            buckets: BucketSizes::parse("25,0.5").expect("sizes"),
            ..VariedSettings::default()
        };
        assert_eq!(
            labels(&settings),
            [
                "none+25MiB",
                "none+25MiB-again",
                "none+0.5MiB",
                "lean+25MiB",
                "lean+0.5MiB",
            ]
        );
        let variants = Variants::of(&settings).expect("variants");
        let words = options(&variants.all()[4]);
        assert_eq!(
            words.join(" "),
            "--level aggressive --resources lean --bucket-mb 0.5"
        );
    }

    #[test]
    fn bad_lists_and_single_settings_are_refused() {
        for (names, expected) in [
            ("off agressive", "agressive"),
            ("off,aggressive,off", "named twice"),
            (", ", "no level is named"),
        ] {
            let error = PresetNames::levels(names).expect_err(names);
            assert!(error.contains(expected), "{error}");
        }
        for sizes in ["10,ten", "10,0", "-1", "nan", "1e7", "5 5.0"] {
            BucketSizes::parse(sizes).expect_err(sizes);
        }
        let one = VariedSettings {
            levels: PresetNames::levels("off").expect("a level"),
            ..VariedSettings::default()
        };
        for settings in [one, VariedSettings::default()] {
            let error = Variants::of(&settings).expect_err("no comparison");
            assert!(error.contains("at least two levels"), "{error}");
        }
        let many: Vec<String> = (1..=65).map(|size| size.to_string()).collect();
        let settings = VariedSettings {
            buckets: BucketSizes::parse(&many.join(",")).expect("sizes"),
            ..VariedSettings::default()
        };
        let error = Variants::of(&settings).expect_err("too many");
        assert!(error.contains("65 combinations"), "{error}");
    }
}
