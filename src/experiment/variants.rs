//! The variants of an experiment: levels, and a second copy of the first.

use crate::{
    compare::experiment_record::Variant,
    levels::{self, Preset},
};

/// Variants of one sweep. The first is the reference, the second its control.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variants(Vec<Variant>);

impl Variants {
    /// Returns one variant per level, and the control. The first level is the reference.
    ///
    /// # Errors
    ///
    /// Returns a sentence if a level is unknown or named twice, or if there are fewer than two.
    pub fn of_levels(names: &str) -> Result<Variants, String> {
        let mut variants: Vec<Variant> = Vec::new();
        for name in names.split([',', ' ']).filter(|name| !name.is_empty()) {
            let level: &Preset =
                levels::level(name).map_err(|why| format!("level '{name}': {why}"))?;
            if variants.iter().any(|variant| variant.level == level.name) {
                return Err(format!("level {name} is named twice. Name each level once"));
            }
            variants.push(Variant {
                label: level.name.clone(),
                level: level.name.clone(),
            });
        }
        let [reference, _, ..] = variants.as_slice() else {
            return Err(
                "a comparison needs at least two levels. Name them as in off,aggressive".into(),
            );
        };
        let control = Variant {
            label: format!("{}-again", reference.label),
            level: reference.level.clone(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_level_runs_twice() {
        let variants = Variants::of_levels("off conservative,aggressive").expect("levels");
        let labels: Vec<&str> = variants
            .all()
            .iter()
            .map(|one| one.label.as_str())
            .collect();
        assert_eq!(labels, ["off", "off-again", "conservative", "aggressive"]);
        assert_eq!(variants.control().level, "off");
    }

    #[test]
    fn what_is_no_comparison() {
        for (names, expected) in [
            ("off agressive", "agressive"),
            ("off", "at least two levels"),
            ("", "at least two levels"),
            ("off,aggressive,off", "named twice"),
        ] {
            let error = Variants::of_levels(names).expect_err(names);
            assert!(error.contains(expected), "{error}");
        }
    }
}
