//! `pxnbench submit`: a template as a job, for people who do not want to edit files.
//!
//! The templates of `slurm/` are compiled in; what is submitted is one of them with the options of `sbatch` that were
//! asked for. The program in the job is this one.

use std::{
    ffi::OsString,
    io::Write,
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::NamedTempFile;

use super::follow;
use crate::exit::{Code, Failure};

/// A script that can be submitted.
#[derive(Debug)]
pub struct Template {
    /// The name on the command line.
    pub name: &'static str,
    script: &'static str,
}

/// All templates.
static TEMPLATES: [Template; 7] = [
    Template {
        name: "off",
        script: include_str!("../../slurm/pxn_off.sbatch"),
    },
    Template {
        name: "conservative",
        script: include_str!("../../slurm/pxn_conservative.sbatch"),
    },
    Template {
        name: "balanced",
        script: include_str!("../../slurm/pxn_balanced.sbatch"),
    },
    Template {
        name: "aggressive",
        script: include_str!("../../slurm/pxn_aggressive.sbatch"),
    },
    Template {
        name: "compare",
        script: include_str!("../../slurm/compare_levels.sbatch"),
    },
    Template {
        name: "suite",
        script: include_str!("../../slurm/suite.sbatch"),
    },
    Template {
        name: "doctor",
        script: include_str!("../../slurm/doctor.sbatch"),
    },
];

/// A submission that is asked for.
#[derive(Debug)]
pub struct Request {
    /// What is submitted.
    pub template: &'static Template,
    /// The options of `sbatch`, before the script.
    pub options: Vec<String>,
    /// The arguments of the sweep; without any, the template's own apply.
    pub arguments: Vec<OsString>,
    /// Whether the script is only printed.
    pub dry_run: bool,
    /// Whether the job is followed to its end.
    pub wait: bool,
}

/// Returns the template of this name.
///
/// # Errors
///
/// Returns an error that lists the templates if there is none of this name.
pub fn template(name: &str) -> Result<&'static Template, String> {
    let found = TEMPLATES.iter().find(|template| template.name == name);
    found.ok_or_else(|| {
        let names: Vec<&str> = TEMPLATES.iter().map(|template| template.name).collect();
        format!("there are {}", names.join(", "))
    })
}

/// Submits, and follows the job if asked to.
///
/// # Errors
///
/// Returns an error if there is no Slurm, or if it refuses the job.
pub fn run(request: &Request) -> anyhow::Result<Code> {
    let Template { name, script } = request.template;
    let arguments: Vec<String> = request
        .arguments
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    if request.dry_run {
        let options = request.options.join(" ");
        print_line!(
            "# sbatch {options} pxn_{name}.sbatch {}",
            arguments.join(" ")
        )?;
        print_line!("{script}")?;
        return Ok(Code::Fine);
    }
    let file = write(name, script)?;
    let submitted = sbatch(&request.options, file.path(), &arguments);
    // sbatch has made a copy: the file is removed when it is dropped.
    drop(file);
    let job = submitted?;
    if request.wait {
        return follow::to_the_end(&job);
    }
    say!(
        "pxnbench: submitted as job {job}; `squeue -j {job}` shows its state, and its output goes to a file named after it"
    );
    print_line!("{job}")?;
    Ok(Code::Fine)
}

/// The script as a file of our own, since a script on sbatch's standard input takes no arguments.
fn write(name: &str, script: &str) -> anyhow::Result<NamedTempFile> {
    let made = tempfile::Builder::new()
        .prefix(&format!("pxn_{name}."))
        .suffix(".sbatch")
        .tempfile();
    let written = made.and_then(|mut file| file.write_all(script.as_bytes()).map(|()| file));
    written.map_err(|error| {
        let folder = std::env::temp_dir();
        Failure::on_all_ranks(
            Code::Usage,
            format!(
                "{} cannot be written to: {error}; set TMPDIR",
                folder.display()
            ),
        )
    })
}

/// Submits and gives the job's number.
fn sbatch(options: &[String], file: &Path, sweep: &[String]) -> anyhow::Result<String> {
    let program = std::env::current_exe()?;
    let mut command = Command::new("sbatch");
    command
        .arg("--parsable")
        .args(options)
        .arg(file)
        .args(sweep)
        .env("PXNBENCH", &program);
    if let Some(home) = home(&program) {
        command.env("PXNBENCH_HOME", home);
    }
    // A job that is submitted from inside a job inherits what describes the outer one, and fails by it.
    std::env::vars()
        .filter(|(name, _)| name.starts_with("SLURM_") && name != "SLURM_CONF")
        .for_each(|(name, _)| {
            command.env_remove(name);
        });
    let output = command.output().map_err(|error| {
        let what = format!(
            "sbatch cannot be started ({error}): submit on a machine with Slurm, or use mpirun"
        );
        Failure::on_all_ranks(Code::Launch, what)
    })?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if !output.status.success() {
        let what = format!(
            "Slurm refuses the job: {}",
            text(&output.stderr).replace('\n', "; ")
        );
        return Err(Failure::on_all_ranks(Code::Launch, what));
    }
    // With several clusters it is `number;cluster`.
    Ok(text(&output.stdout)
        .split(';')
        .next()
        .unwrap_or_default()
        .to_owned())
}

/// Returns the folder of pxnbench, which holds `slurm/`: the checkout if the program is in its `target/release`, or
/// `share/pxnbench` if it is installed.
fn home(program: &Path) -> Option<PathBuf> {
    let mut above = program.ancestors().skip(2);
    let installed = above.next()?.join("share/pxnbench");
    let checkout = above.next().map(Path::to_owned);
    let mut candidates = checkout.into_iter().chain([installed]);
    candidates.find(|home| home.join("slurm/site.conf.example").is_file())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn templates_are_found_in_a_checkout_and_in_an_installation() {
        let root = tempfile::tempdir().expect("a folder");
        for (program, home_folder) in [
            ("checkout/target/release/pxnbench", "checkout"),
            ("usr/bin/pxnbench", "usr/share/pxnbench"),
        ] {
            let expected = root.path().join(home_folder);
            let program = root.path().join(program);
            assert_eq!(home(&program), None);
            fs::create_dir_all(expected.join("slurm")).expect("made");
            fs::write(expected.join("slurm/site.conf.example"), "").expect("written");
            assert_eq!(home(&program), Some(expected));
        }
    }
}
