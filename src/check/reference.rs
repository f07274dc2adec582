//! Values of busbw that others published: `data/reference.toml`, compiled in.

use std::sync::LazyLock;

use serde::Deserialize;

use super::threshold::Threshold;
use crate::{
    collective::Collective,
    units::{Bytes, counted},
};

/// The part of a published run's value that is required: nccl-tests' slack for `NCCL_TESTS_MIN_BW`.
const OF_MEASURED: f64 = 0.9;

/// A value that was published.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    /// Its name.
    pub name: String,
    /// The collective.
    pub collective: Collective,
    /// The size, as on the command line.
    pub size: String,
    /// A part of the GPU's name.
    pub gpu: String,
    /// Ranks.
    pub ranks: u64,
    /// Nodes.
    pub nodes: u32,
    /// The busbw in GB/s below which the source calls a machine slow.
    #[serde(default)]
    pub least: Option<f64>,
    /// The highest busbw that the source expects.
    #[serde(default)]
    pub most: Option<f64>,
    /// The busbw of one published run.
    #[serde(default)]
    pub measured: Option<f64>,
    /// How much it counts.
    pub authority: Authority,
    /// The publication, or its address.
    pub source: String,
    /// The machines and cases that it holds for.
    pub holds_for: String,
}

/// The weight of a value, the highest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub enum Authority {
    /// The operator of such machines checks them with it.
    #[serde(rename = "vendor threshold")]
    VendorThreshold,
    /// One run that somebody published.
    #[serde(rename = "published run")]
    PublishedRun,
    /// A guide, without the circumstances.
    #[serde(rename = "guide")]
    Guide,
}

impl Authority {
    fn name(self) -> &'static str {
        match self {
            Authority::VendorThreshold => "vendor threshold",
            Authority::PublishedRun => "published run",
            Authority::Guide => "guide",
        }
    }
}

/// What a run is measured on.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Models of the GPUs, joined by `+`.
    pub device: String,
    /// Ranks.
    pub ranks: u64,
    /// Nodes.
    pub nodes: u32,
    /// The collectives of the run.
    pub collectives: Vec<Collective>,
}

/// The content of the file.
#[derive(Deserialize)]
pub(crate) struct File {
    reference: Vec<Reference>,
}

static ALL: LazyLock<Vec<Reference>> = LazyLock::new(|| {
    let text = include_str!("../../data/reference.toml");
    parse(text)
        .expect("data/reference.toml is tested")
        .reference
});

/// Reads the text of the file.
///
/// # Errors
/// Returns an error if it is no such file.
pub(crate) fn parse(text: &str) -> Result<File, toml::de::Error> {
    toml::from_str(text)
}

impl Reference {
    /// Returns all values.
    pub fn all() -> &'static [Reference] {
        &ALL
    }

    /// Returns the busbw that is required, in GB/s.
    fn required(&self) -> f64 {
        let of_run = self.measured.map(|measured| OF_MEASURED * measured);
        self.least.or(of_run).unwrap_or_default()
    }

    /// Returns the requirement that it stands for.
    pub fn threshold(&self) -> Threshold {
        Threshold {
            flag: format!(
                "--reference {} ({}, {})",
                self.name,
                self.authority.name(),
                self.source
            ),
            collective: Some(self.collective),
            size: self.size.parse::<Bytes>().ok(),
            gbps: self.required(),
        }
    }

    /// Returns why it does not hold for `setup`; `None` if it does.
    fn mismatch(&self, setup: &Setup) -> Option<String> {
        let is_same = setup.ranks == self.ranks
            && setup.nodes == self.nodes
            && setup
                .device
                .split('+')
                .all(|device| has_word(device, &self.gpu));
        let device = match setup.device.as_str() {
            "" => "unknown devices",
            device => device,
        };
        (!is_same).then(|| {
            format!(
                "{} is for {} of {} on {}, and this run has {} of {device} on {}",
                self.name,
                counted(self.ranks, "rank"),
                self.gpu,
                counted(self.nodes, "node"),
                counted(setup.ranks, "rank"),
                counted(setup.nodes, "node"),
            )
        })
    }

    /// Returns the value as a line of the list.
    pub fn line(&self) -> String {
        let value = match (self.least, self.most, self.measured) {
            (Some(least), Some(most), _) => format!("{least} to {most} GB/s"),
            (Some(least), ..) => format!("at least {least} GB/s"),
            (_, _, Some(measured)) => format!("{measured} GB/s measured"),
            _ => String::new(),
        };
        format!(
            "{}: {} {} on {} of {}, {}: busbw {value} ({}; {}). Source: {}",
            self.name,
            self.collective,
            self.size,
            counted(self.ranks, "rank"),
            self.gpu,
            counted(self.nodes, "node"),
            self.authority.name(),
            self.holds_for,
            self.source
        )
    }
}

/// Returns whether `device` names this GPU: `NVIDIA H100 80GB HBM3` is an H100, and a GH200 is no
/// H200.
fn has_word(device: &str, gpu: &str) -> bool {
    let is_inside = |at: usize| {
        let before = device[..at].chars().next_back();
        before.is_none_or(|letter| !letter.is_alphanumeric())
    };
    device.match_indices(gpu).any(|(at, _)| is_inside(at))
}

/// Returns the values that `name` stands for; `auto` stands for those of the highest authority for
/// this setup.
///
/// # Errors
/// Returns an error if there is none.
pub fn find(name: &str, setup: &Setup) -> Result<Vec<&'static Reference>, String> {
    const LIST: &str = "pxnbench check --list-references lists all";
    let all = Reference::all();
    if name == "auto" {
        let mut fitting: Vec<&Reference> = all
            .iter()
            .filter(|reference| setup.collectives.contains(&reference.collective))
            .filter(|reference| reference.mismatch(setup).is_none())
            .collect();
        let highest = fitting.iter().map(|reference| reference.authority).min();
        fitting.retain(|reference| Some(reference.authority) == highest);
        if fitting.is_empty() {
            return Err(format!(
                "--reference auto: there is no value for {} of {} on {}. Use --min-busbw; {LIST}",
                counted(setup.ranks, "rank"),
                if setup.device.is_empty() {
                    "unknown devices"
                } else {
                    &setup.device
                },
                counted(setup.nodes, "node"),
            ));
        }
        return Ok(fitting);
    }
    let found = all.iter().find(|reference| reference.name == name);
    let Some(reference) = found else {
        return Err(format!(
            "--reference {name}: there is no such value. {LIST}"
        ));
    };
    match reference.mismatch(setup) {
        Some(mismatch) => Err(format!("--reference: {mismatch}. {LIST}")),
        None => Ok(vec![reference]),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn setup(device: &str, ranks: u64, nodes: u32) -> Setup {
        Setup {
            device: device.into(),
            ranks,
            nodes,
            collectives: vec![Collective::AllReduce],
        }
    }

    #[test]
    fn every_value_is_whole_and_has_its_own_name() {
        let names: BTreeSet<&str> = Reference::all()
            .iter()
            .map(|one| one.name.as_str())
            .collect();
        assert_eq!(names.len(), Reference::all().len());
        for reference in Reference::all() {
            assert!(reference.required() > 0.0, "{}", reference.name);
            assert!(
                reference.size.parse::<Bytes>().is_ok(),
                "{}",
                reference.name
            );
            assert!(reference.least.is_some() != reference.measured.is_some());
            assert!(reference.line().contains(&reference.source));
        }
        assert!(!names.contains("auto"));
    }

    #[test]
    fn auto_takes_the_highest_authority_for_the_gpus() {
        let names = |setup: &Setup| -> Result<Vec<&str>, String> {
            let found = find("auto", setup)?;
            Ok(found.iter().map(|one| one.name.as_str()).collect())
        };
        let h100 = "NVIDIA H100 80GB HBM3";
        assert_eq!(names(&setup(h100, 8, 1)), Ok(vec!["azure-nd-h100-v5"]));
        assert_eq!(
            names(&setup("NVIDIA GeForce RTX 4090", 8, 1)),
            Ok(vec!["guide-rtx-4090-64m"])
        );
        assert_eq!(names(&setup(h100, 16, 2)).map(|all| all.len()), Ok(2));
        for unknown in [
            setup(h100, 4, 1),
            setup("AMD EPYC", 8, 1),
            setup("NVIDIA H100+NVIDIA A100", 8, 1),
            setup("NVIDIA GH200 480GB", 8, 1),
        ] {
            let error = names(&unknown).expect_err("none");
            assert!(error.contains("there is no value for"), "{error}");
        }
    }

    #[test]
    fn a_value_for_another_machine_is_refused() {
        let error = find("guide-v100-64m", &setup("NVIDIA H200", 2, 1)).expect_err("another");
        assert!(
            error.contains(
                "is for 8 ranks of V100 on 1 node, and this run has 2 ranks of NVIDIA H200 on 1 \
                 node"
            ),
            "{error}"
        );
        assert!(find("nonsense", &setup("NVIDIA H200", 8, 1)).is_err());
    }
}
