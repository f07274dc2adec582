//! The scripts of `slurm/`, which are compiled in, and what each asks Slurm for.

use crate::levels;

/// What the ranks of a template do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TemplateKind {
    /// A sweep at the level of the template's name.
    Level,
    /// Sweeps at several levels, in turn.
    Experiment,
    /// Sweeps with NCCL's own settings.
    Sweep,
    /// The replay of a training step.
    Replay,
    /// The doctor.
    Doctor,
}

/// A script that can be submitted.
#[derive(Debug)]
pub struct Template {
    /// The name on the command line.
    pub name: &'static str,
    kind: TemplateKind,
    /// The text of the script.
    pub script: &'static str,
}

/// All templates.
static TEMPLATES: [Template; 9] = [
    Template {
        name: "off",
        kind: TemplateKind::Level,
        script: include_str!("../../slurm/pxn_off.sbatch"),
    },
    Template {
        name: "conservative",
        kind: TemplateKind::Level,
        script: include_str!("../../slurm/pxn_conservative.sbatch"),
    },
    Template {
        name: "balanced",
        kind: TemplateKind::Level,
        script: include_str!("../../slurm/pxn_balanced.sbatch"),
    },
    Template {
        name: "aggressive",
        kind: TemplateKind::Level,
        script: include_str!("../../slurm/pxn_aggressive.sbatch"),
    },
    Template {
        name: "default",
        kind: TemplateKind::Level,
        script: include_str!("../../slurm/pxn_default.sbatch"),
    },
    Template {
        name: "compare",
        kind: TemplateKind::Experiment,
        script: include_str!("../../slurm/compare_levels.sbatch"),
    },
    Template {
        name: "suite",
        kind: TemplateKind::Sweep,
        script: include_str!("../../slurm/suite.sbatch"),
    },
    Template {
        name: "training",
        kind: TemplateKind::Replay,
        script: include_str!("../../slurm/training.sbatch"),
    },
    Template {
        name: "doctor",
        kind: TemplateKind::Doctor,
        script: include_str!("../../slurm/doctor.sbatch"),
    },
];

fn find(name: &str) -> Option<&'static Template> {
    TEMPLATES.iter().find(|template| template.name == name)
}

/// Returns the template of a level.
///
/// # Errors
///
/// Returns an error that lists the levels if there is none of this name.
pub fn of_level(name: &str) -> Result<&'static Template, String> {
    match find(name) {
        Some(template) if template.kind == TemplateKind::Level => Ok(template),
        Some(_) => Err(format!("{name} is not a level. Use --template {name}")),
        None => Err(levels::level(name).err().unwrap_or_default()),
    }
}

/// Returns the template of something other than a level.
///
/// # Errors
///
/// Returns an error that lists these templates if there is none of this name.
pub fn by_name(name: &str) -> Result<&'static Template, String> {
    match find(name) {
        Some(template) if template.kind != TemplateKind::Level => Ok(template),
        Some(_) => Err(format!("{name} is a level. Use --level {name}")),
        None => {
            let others = TEMPLATES
                .iter()
                .filter(|one| one.kind != TemplateKind::Level);
            let names: Vec<&str> = others.map(|one| one.name).collect();
            Err(format!("use one of {}", names.join(", ")))
        }
    }
}

impl Template {
    /// Returns whether the ranks run the doctor instead of a sweep.
    pub fn is_doctor(&self) -> bool {
        self.kind == TemplateKind::Doctor
    }

    /// Returns whether the ranks replay a training step instead of a sweep.
    pub fn is_replay(&self) -> bool {
        self.kind == TemplateKind::Replay
    }

    /// Returns whether the script runs an experiment.
    pub fn is_experiment(&self) -> bool {
        self.kind == TemplateKind::Experiment
    }

    /// Returns the sweep that the script starts with if it is given none.
    pub fn default_sweep(&self) -> Option<&'static str> {
        let (_, rest) = self.script.split_once("--default-sweep '")?;
        rest.split('\'').next()
    }

    /// Returns the workload that the script replays if it is given none.
    pub fn default_workload(&self) -> Option<&'static str> {
        let (_, rest) = self.script.split_once("\nworkload=(")?;
        rest.split(')').next()
    }

    /// Returns the value of a directive of the script: an option of `sbatch`.
    pub fn directive(&self, name: &str) -> Option<&'static str> {
        let lines = self.script.lines();
        let mut directives = lines.filter_map(|line| line.strip_prefix("#SBATCH --"));
        directives.find_map(|directive| directive.strip_prefix(name)?.strip_prefix('='))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_has_a_template_and_what_is_no_level_has_another_option() {
        for level in levels::all() {
            let template = of_level(&level.name).expect("a template");
            assert!(template.script.contains(&format!("--level {}", level.name)));
            assert!(
                by_name(&level.name)
                    .expect_err("a level")
                    .contains("--level")
            );
        }
        for name in ["compare", "suite", "training", "doctor"] {
            assert_eq!(by_name(name).expect("a template").name, name);
            let error = of_level(name).expect_err("no level");
            assert_eq!(
                error,
                format!("{name} is not a level. Use --template {name}")
            );
        }
        let error = of_level("agressive").expect_err("no level");
        assert!(
            error.contains("off, conservative, balanced, aggressive, default"),
            "{error}"
        );
        assert!(by_name("sweet").is_err());
    }

    #[test]
    fn a_script_tells_what_it_asks_for_and_what_it_runs() {
        for template in &TEMPLATES {
            assert_eq!(template.directive("nodes"), Some("2"), "{}", template.name);
            assert_eq!(template.directive("gpus-per-node"), Some("8"));
            assert_eq!(template.directive("gpus"), None);
            let is_sweep = !template.is_doctor() && !template.is_replay();
            assert_eq!(template.default_sweep().is_some(), is_sweep);
            assert_eq!(template.default_workload().is_some(), template.is_replay());
        }
        let training = by_name("training").expect("a template");
        assert_eq!(training.default_workload(), Some("fsdp-7b"));
        let suite = by_name("suite").expect("a template");
        assert_eq!(suite.default_sweep(), Some("all -b 8 -e 1G -f 4"));
    }
}
