//! [`CandidateNames`]: the names of candidates in sentences.

use crate::compare::experiment_record::Variant;

/// The names of candidates in sentences: the settings in which candidates differ.
#[derive(Debug)]
pub(super) struct CandidateNames {
    has_buckets: bool,
    has_levels: bool,
    has_resources: bool,
}

impl CandidateNames {
    /// Returns the names of `variants`.
    pub(super) fn of(variants: &[Variant]) -> CandidateNames {
        let differ = |is_same: fn(&Variant, &Variant) -> bool| {
            variants.windows(2).any(|pair| !is_same(&pair[0], &pair[1]))
        };
        CandidateNames {
            has_buckets: differ(|a, b| a.bucket_mb == b.bucket_mb),
            has_levels: differ(|a, b| a.level == b.level),
            has_resources: differ(|a, b| a.resources == b.resources),
        }
    }

    /// Returns the name of a candidate.
    pub(super) fn name(&self, variant: &Variant) -> String {
        let mut parts = Vec::new();
        if let (true, Some(size)) = (self.has_buckets, variant.bucket_mb) {
            parts.push(format!("buckets of {size} MiB"));
        }
        if self.has_levels {
            parts.push(format!("level {}", variant.level));
        }
        if let (true, Some(resources)) = (self.has_resources, &variant.resources) {
            parts.push(format!("resources {resources}"));
        }
        parts.join(" at ")
    }
}
