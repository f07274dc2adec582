//! Whether an experiment can run what its steps are to do.

use super::variants::VariedSettings;
use crate::{
    exit::{Code, Failure},
    run::target::Target,
};

impl VariedSettings {
    /// Checks that an experiment that varies these settings can run `target`.
    ///
    /// # Errors
    ///
    /// Returns an error if the target is nothing that is measured, or has what the experiment
    /// decides.
    pub fn check(&self, target: &Target) -> anyhow::Result<()> {
        let usage = |what: &str| Err(Failure::on_all_ranks(Code::Usage, what));
        let Some(presets) = target.presets() else {
            return usage(
                "an experiment runs sweeps and training steps only. Name collectives, or replay \
                 and a workload",
            );
        };
        if presets.level.is_some() && !self.levels.0.is_empty() {
            return usage("an experiment sets the level of each step. Use --levels");
        }
        if presets.network.is_some() && !self.networks.0.is_empty() {
            return usage("an experiment sets the network of each step. Use --networks");
        }
        if target.names_files() || target.repeat() != 0 {
            return usage("an experiment decides where each step writes. Use --out for its folder");
        }
        if target.bucket_mb().is_none() && !self.buckets.0.is_empty() {
            return usage(
                "only training steps of data parallelism that are built in have buckets, such as \
                 replay ddp-resnet50. Leave out --bucket-mb",
            );
        }
        Ok(())
    }
}
