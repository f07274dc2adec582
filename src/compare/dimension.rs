//! [`Dimension`]: what is compared.

use std::collections::{BTreeMap, BTreeSet};

use super::{conditions::Conditions, experiment_record::Variant, step::Step};

/// What differs between the runs that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dimension {
    /// PXN levels.
    Level,
    /// Networks.
    Network,
    /// Resources.
    Resources,
    /// Sizes of the buckets of a training step.
    Bucket,
    /// Level, network, resources and size of the buckets together.
    Settings,
    /// Versions of NCCL.
    Nccl,
    /// Versions of the kernel's GPU driver.
    Driver,
    /// Versions of MPI.
    Mpi,
    /// Versions of this program.
    Program,
    /// Numbers of nodes.
    Nodes,
    /// Hosts.
    Hosts,
    /// Runs, whatever they were measured with.
    Run,
    /// Days on which the runs began.
    Date,
}

/// The label of what is not known.
const UNKNOWN: &str = "unknown";

/// The words with which sentences name a dimension.
struct Words {
    /// Its name on the command line.
    name: &'static str,
    /// One of what is compared.
    one: &'static str,
    /// Several of them.
    several: &'static str,
}

impl Dimension {
    /// All dimensions.
    pub const ALL: [Dimension; 13] = [
        Dimension::Level,
        Dimension::Network,
        Dimension::Resources,
        Dimension::Bucket,
        Dimension::Settings,
        Dimension::Nccl,
        Dimension::Driver,
        Dimension::Mpi,
        Dimension::Program,
        Dimension::Nodes,
        Dimension::Hosts,
        Dimension::Run,
        Dimension::Date,
    ];

    fn words(self) -> Words {
        let (name, one, several) = match self {
            Dimension::Level => ("level", "level", "levels"),
            Dimension::Network => ("network", "network", "networks"),
            Dimension::Resources => ("resources", "set of resources", "sets of resources"),
            Dimension::Bucket => ("bucket", "bucket size", "bucket sizes"),
            Dimension::Settings => ("settings", "set of settings", "sets of settings"),
            Dimension::Nccl => ("nccl", "version of NCCL", "versions of NCCL"),
            Dimension::Driver => ("driver", "version of the driver", "versions of the driver"),
            Dimension::Mpi => ("mpi", "version of MPI", "versions of MPI"),
            Dimension::Program => ("pxnbench", "version of pxnbench", "versions of pxnbench"),
            Dimension::Nodes => ("nodes", "number of nodes", "numbers of nodes"),
            Dimension::Hosts => ("hosts", "set of hosts", "sets of hosts"),
            Dimension::Run => ("run", "run", "runs"),
            Dimension::Date => ("date", "date", "dates"),
        };
        Words { name, one, several }
    }

    /// Returns the dimension with this name on the command line.
    ///
    /// # Errors
    ///
    /// Returns a sentence that lists the names if there is none.
    pub fn named(name: &str) -> Result<Dimension, String> {
        let mut all = Dimension::ALL.into_iter();
        all.find(|dimension| dimension.name() == name)
            .ok_or_else(|| {
                let names = Dimension::ALL.map(Dimension::name).join(", ");
                format!("unknown dimension. Use one of {names}")
            })
    }

    /// Returns its name on the command line.
    pub fn name(self) -> &'static str {
        self.words().name
    }

    /// Returns the noun for one of what is compared.
    pub(super) fn one(self) -> &'static str {
        self.words().one
    }

    /// Returns the noun for several of what is compared.
    pub(super) fn several(self) -> &'static str {
        self.words().several
    }

    /// Returns what a time with these conditions, of this step, is compared as.
    pub(super) fn label(self, conditions: &Conditions, step: &Step) -> String {
        match self {
            Dimension::Level => conditions.level.clone(),
            Dimension::Network => conditions.network.clone(),
            Dimension::Resources => conditions.resources.clone(),
            Dimension::Bucket => version("", &conditions.bucket),
            Dimension::Settings => settings(conditions),
            Dimension::Nccl => version("NCCL", &conditions.nccl_version),
            Dimension::Driver => version("driver", &conditions.driver),
            Dimension::Mpi => version("", &conditions.mpi_version),
            Dimension::Program => version("pxnbench", &conditions.program),
            Dimension::Nodes => crate::units::counted(conditions.nodes, "node"),
            Dimension::Hosts => version("", &conditions.hosts),
            Dimension::Run => step.run.clone(),
            Dimension::Date => version("", &step.facts.date),
        }
    }

    /// Makes conditions the same that differ in this dimension only, or in what follows from it:
    /// other nodes are other hosts and other ranks.
    pub(super) fn ignore(self, conditions: &mut Conditions) {
        self.ignore_itself(conditions);
        if self == Dimension::Nodes {
            conditions.ranks = 0;
            conditions.hosts.clear();
        }
    }

    /// Makes conditions the same that differ in this dimension only.
    pub(super) fn ignore_itself(self, conditions: &mut Conditions) {
        match self {
            Dimension::Level => conditions.level.clear(),
            Dimension::Network => conditions.network.clear(),
            Dimension::Resources => conditions.resources.clear(),
            Dimension::Bucket => conditions.bucket.clear(),
            Dimension::Settings => {
                conditions.level.clear();
                conditions.network.clear();
                conditions.resources.clear();
                conditions.bucket.clear();
            }
            Dimension::Nccl => conditions.nccl_version.clear(),
            Dimension::Driver => conditions.driver.clear(),
            Dimension::Mpi => conditions.mpi_version.clear(),
            Dimension::Program => conditions.program.clear(),
            Dimension::Nodes => conditions.nodes = 0,
            Dimension::Hosts => conditions.hosts.clear(),
            Dimension::Run | Dimension::Date => {}
        }
    }
}

fn settings(conditions: &Conditions) -> String {
    let Conditions {
        level,
        network,
        resources,
        bucket,
        ..
    } = conditions;
    let mut parts = vec![level.as_str(), network, resources, bucket];
    parts.retain(|part| !part.is_empty());
    parts.join("+")
}

/// Returns what the variants of an experiment differ in.
pub(super) fn of_variants(variants: &[Variant]) -> Dimension {
    let differ = |is_same: fn(&Variant, &Variant) -> bool| {
        variants.windows(2).any(|pair| !is_same(&pair[0], &pair[1]))
    };
    let mut differing = Vec::new();
    if differ(|a, b| a.level == b.level) {
        differing.push(Dimension::Level);
    }
    if differ(|a, b| a.network == b.network) {
        differing.push(Dimension::Network);
    }
    if differ(|a, b| a.resources == b.resources) {
        differing.push(Dimension::Resources);
    }
    if differ(|a, b| a.bucket_mb == b.bucket_mb) {
        differing.push(Dimension::Bucket);
    }
    match differing.as_slice() {
        [] => Dimension::Level,
        [only] => *only,
        _ => Dimension::Settings,
    }
}

fn version(what: &str, value: &str) -> String {
    match (what, value) {
        (_, "") => UNKNOWN.to_owned(),
        ("", value) => value.to_owned(),
        (what, value) => format!("{what} {value}"),
    }
}

/// Returns the dimension in which the runs differ; runs if they differ in none. Runs that all have
/// several levels, as experiments do, do not differ in their level.
///
/// # Errors
///
/// Returns a sentence if they differ in several.
pub(super) fn the_one_that_differs(steps: &[Step]) -> Result<Dimension, String> {
    let mut differing = Vec::new();
    for dimension in Dimension::ALL {
        // The settings together differ if one of them does.
        let is_of_conditions = !matches!(
            dimension,
            Dimension::Run | Dimension::Date | Dimension::Settings
        );
        // Other nodes are other hosts.
        let differs_in_nodes = differing
            .iter()
            .any(|(known, _)| *known == Dimension::Nodes);
        let is_implied = dimension == Dimension::Hosts && differs_in_nodes;
        if is_of_conditions && !is_implied && differs(dimension, steps) {
            differing.push((dimension, labels(dimension, steps).join(", ")));
        }
    }
    match differing.as_slice() {
        [] => Ok(Dimension::Run),
        [(only, _)] => Ok(*only),
        several => {
            let mut differences = Vec::new();
            let mut choices = Vec::new();
            for (dimension, labels) in several {
                differences.push(format!("{} ({labels})", dimension.several()));
                choices.push(format!("--by {}", dimension.name()));
            }
            Err(format!(
                "the runs are of different {}. Choose one with {}",
                differences.join(" and "),
                choices.join(" or ")
            ))
        }
    }
}

/// Returns whether two runs are known to have different labels.
fn differs(dimension: Dimension, steps: &[Step]) -> bool {
    let mut of_runs: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for step in steps {
        let of_run = of_runs.entry(&step.run).or_default();
        for conditions in &step.conditions {
            let label = dimension.label(conditions, step);
            if label != UNKNOWN {
                of_run.insert(label);
            }
        }
    }
    let mut known = of_runs.into_values().filter(|labels| !labels.is_empty());
    match known.next() {
        Some(first) => known.any(|labels| labels != first),
        None => false,
    }
}

/// Returns the labels of the steps in a dimension, each once, as far as they are known.
pub(super) fn labels(dimension: Dimension, steps: &[Step]) -> Vec<String> {
    let mut labels = Vec::new();
    for step in steps {
        for conditions in &step.conditions {
            let label = dimension.label(conditions, step);
            if label != UNKNOWN && !labels.contains(&label) {
                labels.push(label);
            }
        }
    }
    labels
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::step::tests::steps;

    #[test]
    fn runs_with_the_same_levels_do_not_differ_in_them() {
        let cells = [
            ("off", 0, 1.0),
            ("balanced", 0, 1.0),
            ("off", 0, 1.0),
            ("balanced", 0, 1.0),
        ];
        let mut measured = steps("nccl", 2, &cells);
        for (step, run) in measured.steps.iter_mut().zip(["a", "a", "b", "b"]) {
            step.run = run.to_owned();
        }
        assert_eq!(the_one_that_differs(&measured.steps), Ok(Dimension::Run));
        for step in &mut measured.steps[2..] {
            step.conditions[0].nccl_version = "2.28.3".into();
        }
        assert_eq!(
            the_one_that_differs(&measured.steps),
            Ok(Dimension::Run),
            "the version of the others is unknown"
        );
        for step in &mut measured.steps[..2] {
            step.conditions[0].nccl_version = "2.27.3".into();
        }
        assert_eq!(the_one_that_differs(&measured.steps), Ok(Dimension::Nccl));
        measured.steps[1].conditions[0].level = "aggressive".into();
        let why = the_one_that_differs(&measured.steps).expect_err("two things differ");
        assert!(why.contains("--by level or --by nccl"), "{why}");
    }
}
