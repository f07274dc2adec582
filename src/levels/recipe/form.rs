//! The forms of a file that sets variables.

use std::path::Path;

use serde::Serialize;

use super::variable::{assignment, is_name};

/// The form of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// An nccl.conf.
    NcclConf,
    /// An env file, as `docker run --env-file` reads it.
    EnvFile,
    /// A shell or batch script.
    #[default]
    Script,
    /// A Kubernetes or Compose file.
    Yaml,
}

impl Form {
    /// Returns the form of a file with this name and text.
    pub(super) fn of(name: &str, text: &str) -> Form {
        let path = Path::new(name);
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        let ending = path.extension().unwrap_or_default().to_string_lossy();
        if file.ends_with("nccl.conf") {
            return Form::NcclConf;
        }
        if text.starts_with("#!") {
            return Form::Script;
        }
        match ending.as_ref() {
            "conf" => Form::NcclConf,
            "yaml" | "yml" => Form::Yaml,
            "sh" | "bash" | "sbatch" | "slurm" | "csh" => Form::Script,
            _ if is_yaml(text) => Form::Yaml,
            _ if is_env_file(text) => Form::EnvFile,
            _ => Form::Script,
        }
    }

    /// Returns what such a file is.
    pub fn text(self) -> &'static str {
        match self {
            Form::NcclConf => "an nccl.conf",
            Form::EnvFile => {
                "an env file, as docker --env-file reads it: quotes belong to the value"
            }
            Form::Script => "a shell script",
            Form::Yaml => "a YAML file",
        }
    }
}

fn is_yaml(text: &str) -> bool {
    const STARTS: [&str; 5] = ["apiVersion:", "kind:", "services:", "- name: ", "env:"];
    let mut lines = text.lines().map(str::trim);
    lines.any(|line| line == "---" || STARTS.iter().any(|start| line.starts_with(start)))
}

/// Returns whether each line is `NAME=value`, the name alone, a comment or blank.
fn is_env_file(text: &str) -> bool {
    let lines = text.lines().map(str::trim);
    let mut told = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    // A command with a variable before it begins like an assignment.
    let is_command = |value: &str| {
        let mut words = value.split_whitespace().skip(1);
        words.next().is_some() && !value.starts_with(['"', '\'']) && !value.contains(" #")
    };
    told.all(|line| {
        let Some((name, value)) = assignment(line) else {
            return is_name(line);
        };
        let is_shell = value.contains("$(") || name.starts_with("NCCL_") && is_command(value);
        !is_shell
    })
}
