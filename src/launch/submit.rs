//! `pxnbench submit`: a template as a job, for people who do not want to edit files.
//!
//! What is submitted is one of the templates with the options of `sbatch` that were requested. The
//! program in the job is this one.

use std::{
    ffi::OsString,
    io::Write,
    path::{Path, PathBuf},
    process::Command,
    str::FromStr,
};

use tempfile::NamedTempFile;

use super::{follow, template::Template};
use crate::{
    exit::{Code, Failure},
    run::{backend::BackendChoice, target::Target},
};

/// The GPUs per node that are requested, as sbatch takes them: `8`, or `h100:8`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpusPerNode {
    text: String,
    count: u32,
}

impl FromStr for GpusPerNode {
    type Err = String;

    fn from_str(text: &str) -> Result<GpusPerNode, String> {
        let number = text.rsplit(':').next().unwrap_or_default();
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        match number.parse() {
            Ok(count) if is_number => Ok(GpusPerNode {
                text: text.to_owned(),
                count,
            }),
            _ => Err("it must be a number of GPUs, such as 8, h100:8 or 0".into()),
        }
    }
}

/// A job to be submitted.
#[derive(Debug)]
pub struct Submission {
    /// What is submitted.
    pub template: &'static Template,
    /// The GPUs per node, if their number is given.
    pub gpus_per_node: Option<GpusPerNode>,
    /// The other options of `sbatch`, before the script.
    pub options: Vec<String>,
    /// The arguments of the script.
    pub arguments: Vec<OsString>,
    /// Whether the script is only printed.
    pub dry_run: bool,
    /// Whether the job is followed to its end.
    pub wait: bool,
}

impl Submission {
    /// Returns what the script passes to the ranks.
    pub fn arguments_of_the_ranks(&self) -> Vec<OsString> {
        let mut all = Vec::new();
        if self.template.is_doctor() {
            all.push("doctor".into());
        }
        if self.template.is_replay() {
            all.push("replay".into());
            all.extend(self.default_workload().map(OsString::from));
        }
        all.extend_from_slice(&self.arguments);
        all
    }

    /// Returns the workload that the script replays because the arguments name none.
    fn default_workload(&self) -> Option<&'static str> {
        let is_option = |word: &OsString| word.as_encoded_bytes().starts_with(b"-");
        let is_trace = |word: &OsString| word.as_encoded_bytes().starts_with(b"--from-trace");
        let is_named = self.arguments.first().is_some_and(|word| !is_option(word))
            || self.arguments.iter().any(is_trace);
        (!is_named).then(|| self.template.default_workload())?
    }

    /// Makes the job suit its ranks: without GPUs they measure host memory.
    ///
    /// # Errors
    ///
    /// Returns an error if the ranks need more GPUs than the job asks for.
    pub fn suit(&mut self, target: &Target) -> anyhow::Result<()> {
        let Some(gpus) = self.gpus() else {
            return Ok(());
        };
        let backend = target.backend();
        if gpus == 0 && backend == Some(BackendChoice::Auto) {
            self.arguments.extend(["--backend".into(), "host".into()]);
            return Ok(());
        }
        let needed = match backend {
            Some(BackendChoice::Auto | BackendChoice::Nccl) => target.gpus_per_process(),
            _ => 0,
        };
        if needed <= gpus {
            return Ok(());
        }
        let what = if gpus == 0 {
            "--gpus-per-node 0 leaves no GPU for --backend nccl. Ask for GPUs, or use --backend \
             host"
                .to_owned()
        } else {
            format!(
                "each process uses {needed} GPUs (-t times -g), but the job asks for {gpus} per \
                 node. Use fewer per process, or set --gpus-per-node to at least {needed}"
            )
        };
        Err(Failure::on_all_ranks(Code::Usage, what))
    }

    /// Returns how many GPUs per node the job asks for; `None` if another option of sbatch asks for
    /// them.
    fn gpus(&self) -> Option<u32> {
        if let Some(gpus) = &self.gpus_per_node {
            return Some(gpus.count);
        }
        if self
            .options
            .iter()
            .any(|option| option.contains("gpu") || option.contains("gres"))
        {
            return None;
        }
        self.template.directive("gpus-per-node")?.parse().ok()
    }

    /// Returns the options of `sbatch`.
    fn sbatch_options(&self) -> Vec<String> {
        let gpus = self.gpus_per_node.iter();
        let mut options: Vec<String> = gpus
            .map(|gpus| format!("--gpus-per-node={}", gpus.text))
            .collect();
        options.extend_from_slice(&self.options);
        options
    }

    /// Submits, and follows the job if asked to.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no Slurm, or if it refuses the job.
    pub fn submit(&self) -> anyhow::Result<Code> {
        let Template { name, script, .. } = self.template;
        let words = self.arguments.iter();
        let arguments: Vec<String> = words
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        if self.dry_run {
            print_line!(
                "# sbatch {} pxn_{name}.sbatch {}",
                self.sbatch_options().join(" "),
                arguments.join(" ")
            )?;
            print_line!("{script}")?;
            return Ok(Code::Fine);
        }
        let file = write(name, script)?;
        let submitted = self.sbatch(file.path(), &arguments);
        // sbatch has made a copy: the file is removed when it is dropped.
        drop(file);
        let job = submitted?;
        if self.wait {
            return follow::to_the_end(&job);
        }
        say!(
            "pxnbench: submitted as job {job}; `squeue -j {job}` shows its state, and its output \
             goes to a file named after it"
        );
        print_line!("{job}")?;
        Ok(Code::Fine)
    }

    /// Submits and gives the job's number.
    fn sbatch(&self, file: &Path, arguments: &[String]) -> anyhow::Result<String> {
        let program = std::env::current_exe()?;
        let mut command = Command::new("sbatch");
        command
            .arg("--parsable")
            .args(self.sbatch_options())
            .arg(file)
            .args(arguments)
            .env("PXNBENCH", &program);
        if let Some(home) = home(&program) {
            command.env("PXNBENCH_HOME", home);
        }
        // A job that is submitted from inside a job inherits what describes the outer one, and
        // fails by it.
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
            let why = text(&output.stderr).replace('\n', "; ");
            return Err(Failure::on_all_ranks(Code::Launch, self.refused(&why)));
        }
        // With several clusters it is `number;cluster`.
        Ok(text(&output.stdout)
            .split(';')
            .next()
            .unwrap_or_default()
            .to_owned())
    }

    /// Returns the message for a job that Slurm refuses because of `why`: what was requested, and
    /// how to change it.
    fn refused(&self, why: &str) -> String {
        if UNREACHABLE.iter().any(|words| why.contains(words)) {
            return format!(
                "Slurm does not answer: {why}. Submit on a login node of the cluster, or use \
                 mpirun"
            );
        }
        let given = self.sbatch_options();
        let mut asked = Vec::new();
        for name in ["nodes", "gpus-per-node", "time", "mem"] {
            let option = format!("--{name}=");
            if let Some(value) = self.template.directive(name)
                && !given.iter().any(|given| given.starts_with(&option))
            {
                asked.push(format!("{option}{value} (the template's)"));
            }
        }
        let asked: Vec<String> = given.into_iter().chain(asked).collect();
        format!(
            "Slurm refuses the job: {why}. It requested {}. Change that with --nodes, \
             --gpus-per-node (0 requests none, and measures host memory), --partition, --account, \
             --time, or --sbatch=OPTION for any other option of sbatch; `sinfo -o '%P %D %G %l'` \
             lists what the partitions have",
            asked.join(" ")
        )
    }
}

/// What sbatch says if it has no cluster to ask, whatever the job asks for.
const UNREACHABLE: [&str; 3] = [
    "configuration source",
    "Unable to contact",
    "Unable to process configuration",
];

/// Writes the script to a temporary file, since a script on sbatch's standard input takes no
/// arguments.
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
                "{} cannot be written to: {error}. Set TMPDIR",
                folder.display()
            ),
        )
    })
}

/// Returns the folder of pxnbench, which holds `slurm/`: the checkout if the program is in its
/// `target/release`, or `share/pxnbench` if it is installed.
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
    use crate::launch::template;

    fn submission(gpus: Option<&str>, options: &[&str]) -> Submission {
        Submission {
            template: template::of_level("off").expect("a template"),
            gpus_per_node: gpus.map(|gpus| gpus.parse().expect("a number of GPUs")),
            options: options.iter().map(|&option| option.to_owned()).collect(),
            arguments: Vec::new(),
            dry_run: false,
            wait: false,
        }
    }

    #[test]
    fn gpus_are_a_number_with_or_without_their_type() {
        for (text, count) in [("8", 8), ("0", 0), ("h100:4", 4)] {
            assert_eq!(text.parse::<GpusPerNode>().expect("GPUs").count, count);
        }
        for text in ["", "-1", "two", "h100", "h100:", "4:h100"] {
            assert!(text.parse::<GpusPerNode>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_refused_job_says_what_it_asked_for_and_how_to_change_it() {
        let text = submission(None, &["--partition=gpu"]).refused("no such node");
        assert!(text.contains(
            "refuses the job: no such node. It requested --partition=gpu --nodes=2 (the \
             template's) "
        ));
        assert!(
            text.contains("--gpus-per-node=8 (the template's)"),
            "{text}"
        );
        let text = submission(Some("h100:4"), &["--nodes=3"]).refused("x");
        assert!(
            text.contains("requested --gpus-per-node=h100:4 --nodes=3 --time="),
            "{text}"
        );
        assert!(!text.contains("=8"), "{text}");
    }

    #[test]
    fn a_slurm_that_does_not_answer_is_not_asked_for_less() {
        let why = "sbatch: fatal: Could not establish a configuration source";
        let text = submission(None, &[]).refused(why);
        assert!(text.contains(why) && !text.contains("--nodes"), "{text}");
    }

    #[test]
    fn the_gpus_of_another_option_are_not_known() {
        assert_eq!(submission(None, &[]).gpus(), Some(8));
        assert_eq!(submission(Some("2"), &[]).gpus(), Some(2));
        assert_eq!(submission(None, &["--gres=gpu:2"]).gpus(), None);
        assert_eq!(submission(None, &["--gpus=16"]).gpus(), None);
    }

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
