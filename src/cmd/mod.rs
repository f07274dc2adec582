//! The command line: one small file per subcommand, with its arguments, one call and the exit code. No file imports a
//! sibling; what several share is in [`args`].

pub mod args;
pub mod check;
pub mod compare;
pub mod doctor;
pub mod experiment;
pub mod generate;
pub mod join;
pub mod kube;
pub mod launch;
pub mod levels;
pub mod links;
pub mod monitor;
pub mod plan;
pub mod probe;
pub mod proof;
pub mod rehearse;
pub mod replay;
pub mod report;
pub mod run;
#[cfg(feature = "nccl")]
pub mod selfcheck;
pub mod submit;
pub mod topo;
#[cfg(feature = "nccl")]
pub mod worker;

use std::{ffi::OsString, path::Path};

use clap::{
    Args as _, CommandFactory, FromArgMatches, Parser, Subcommand,
    error::{ContextKind, ErrorKind},
};

use self::args::{own_options, slips, sweep::SweepArgs, values};
use crate::{
    compare::folders::MeasuredRun,
    drop_in, env,
    exit::{CODES, Code, Failure},
    experiment::{PresetNames, VariedSettings},
    fault,
    launch::Target,
    run::backend::BackendChoice,
};

/// Is NCCL on this cluster correct, fast, and really using PXN?
///
/// Runs a sweep of collectives on the ranks that mpirun or srun started, checks the data, and prints nccl-tests' table.
/// On a machine without a GPU it runs the same sweep over MPI on host memory.
#[derive(Debug, Parser)]
#[command(name = "pxnbench", version, args_conflicts_with_subcommands = true, after_help = after_help())]
// As with getopt: the last of several of one option counts, and a long name may be cut short. -V is nccl-tests' own.
#[command(
    disable_version_flag = true,
    infer_long_args = true,
    args_override_self = true
)]
pub struct Cli {
    /// The subcommand; `None` runs a sweep.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Print the version
    #[arg(long, action = clap::ArgAction::Version)]
    version: Option<bool>,
    /// The sweep.
    #[command(flatten)]
    pub sweep: SweepArgs,
}

/// A subcommand.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Print the PXN levels, resources and networks: what each sets, and why.
    Levels(levels::Args),
    /// Start a sweep, or the doctor, on the nodes of this Slurm job or on named hosts
    Launch(launch::Args),
    /// Start the ranks of this node by hand: without MPI, ssh or Slurm
    Join(join::Args),
    /// Link this program under the names of nccl-tests' programs
    Links(links::Args),
    /// Submit a sweep, or the replay of a training step, as a Slurm job
    Submit(submit::Args),
    /// Run a sweep, or the replay of a training step, on a Kubernetes cluster
    Kube(kube::Args),
    /// Replay the communication of a training step, overlapped with computation
    Replay(Box<replay::Args>),
    /// Plan: what other sizes, other numbers of ranks and training steps would take, from runs that were measured
    Plan(plan::Args),
    /// Compare runs, or the steps below a folder: which is faster in which case, and how sure that is
    Compare(compare::Args),
    /// Check the results of a run: is it fast enough, and not slower than before?
    Check(check::Args),
    /// Run a sweep or a training step at several PXN levels, in an order that is fair to all, and compare the times
    Experiment(experiment::Args),
    /// Check this node, or all nodes of a job: libraries, limits, GPUs, networks, Slurm, NCCL's settings
    Doctor(doctor::Args),
    /// Read NCCL's logs: was PXN used, by whom and through which NIC, and if not, why not
    Proof(proof::Args),
    /// Print the topology of this node, and the paths that NCCL will take
    Topo(topo::Args),
    /// Show what NCCL does with PXN on several nodes with several NICs each: who relays, and which rails carry what
    Rehearse(rehearse::Args),
    /// Show clocks, power, temperature and traffic of the GPUs of this node, live
    Monitor(monitor::Args),
    /// Show the results of runs: one HTML file with plots and tables, which needs no network
    Report(report::Args),
    /// Write the man pages or the shell completions, for packages.
    #[command(hide = true)]
    Generate(generate::Args),
    /// Report the facts of this process that a launch needs.
    #[command(hide = true)]
    Probe(probe::Args),
    /// Run each case once, for the rank that started this process.
    #[cfg(feature = "nccl")]
    #[command(hide = true)]
    Worker(Box<worker::Args>),
    /// Compare the GPU's data and checks with the processor's, for every type and operation.
    #[cfg(feature = "nccl")]
    #[command(hide = true)]
    Selfcheck(selfcheck::Args),
}

impl Cli {
    /// Parses a command line; the first of `words` is the name of the program. Under a name of nccl-tests, the help is that of
    /// the program of that name.
    ///
    /// # Errors
    /// Returns an error if help or the version is requested, or if the words cannot be parsed.
    pub fn parse_words(words: &[OsString]) -> Result<Cli, clap::Error> {
        let name = words.first().and_then(|word| drop_in::program_name(word));
        let command = match name {
            Some(name) => under_another_name(name),
            None => Cli::command(),
        };
        Cli::from_arg_matches(&command.try_get_matches_from(words)?)
    }

    /// Returns the variables that must be set before any thread or library starts: names and values.
    pub fn environment(&self) -> Vec<(String, String)> {
        match &self.command {
            None => self.sweep.environment(&env::var),
            Some(Command::Proof(args)) => args.environment(&env::var),
            Some(Command::Replay(args)) => args.environment(&env::var),
            Some(_) => Vec::new(),
        }
    }

    /// Returns whether this process is to measure, as a rank or alone.
    pub fn measures(&self) -> bool {
        match &self.command {
            None => true,
            Some(Command::Replay(args)) => !args.tunes(),
            Some(_) => false,
        }
    }

    /// Returns whether this process starts ranks, or waits for them, instead of being one. Signals are then for the ranks.
    pub fn launches(&self) -> bool {
        match &self.command {
            Some(
                Command::Launch(_)
                | Command::Join(_)
                | Command::Submit(_)
                | Command::Kube(_)
                | Command::Experiment(_),
            ) => true,
            Some(Command::Replay(args)) => args.tunes(),
            _ => false,
        }
    }

    /// Runs the command.
    ///
    /// # Errors
    /// Returns an error if every rank has it; an error of a single rank ends the job instead.
    pub fn run(self) -> anyhow::Result<Code> {
        match self.command {
            None => run::run(&self.sweep),
            Some(Command::Levels(args)) => levels::run(&args),
            Some(Command::Launch(args)) => launch_ranks(args),
            Some(Command::Join(args)) => join_ranks(args),
            Some(Command::Links(args)) => links::run(&args),
            Some(Command::Submit(args)) => submit_job(args),
            Some(Command::Kube(args)) => kube::run(args, check_kube_run),
            Some(Command::Replay(args)) => replay::run(&args),
            Some(Command::Plan(args)) => plan::run(&args),
            Some(Command::Compare(args)) => compare::run(&args),
            Some(Command::Check(args)) => check::run(&args),
            Some(Command::Experiment(args)) => run_experiment(args),
            Some(Command::Doctor(args)) => doctor::run(&args),
            Some(Command::Proof(args)) => proof::run(&args),
            Some(Command::Topo(args)) => topo::run(&args),
            Some(Command::Rehearse(args)) => rehearse::run(&args),
            Some(Command::Monitor(args)) => monitor::run(&args),
            Some(Command::Report(args)) => report::run(args),
            Some(Command::Generate(args)) => generate::run(&args, Cli::command()),
            Some(Command::Probe(args)) => probe::run(&args),
            #[cfg(feature = "nccl")]
            Some(Command::Worker(args)) => worker::run(&args),
            #[cfg(feature = "nccl")]
            Some(Command::Selfcheck(args)) => selfcheck::run(&args),
        }
    }
}

/// Returns the command line under a name of nccl-tests: flags only, since the name says what runs.
fn under_another_name(name: &str) -> clap::Command {
    let name = name.to_owned();
    // The last one is the doctor's.
    let sweep_codes = &CODES[..=Code::Stopped as usize];
    let about = format!(
        "Runs the sweep of nccl-tests' {name}, with its flags and its table. This is pxnbench under another name: pxnbench \
         --help lists what else it does."
    );
    Cli::command()
        .version(drop_in::version(env!("CARGO_PKG_VERSION")))
        .override_usage(format!("{name} [OPTIONS]"))
        .after_help(format!(
            "Examples:\n  mpirun -np 8 {name} -b 8 -e 4G -f 2 -g 1\n  {name} -b 8 -e 4G -f 2 -g 8\n\n{}",
            exit_codes(sweep_codes)
        ))
        .about(about.clone())
        .long_about(about)
        .mut_arg("collectives", |argument| argument.hide(true))
        .mut_subcommands(|subcommand| subcommand.hide(true))
        .disable_help_subcommand(true)
        .display_name(name.clone())
        .bin_name(name)
}

/// Starts ranks. What their arguments ask for is checked here, before anything is started.
fn launch_ranks(args: launch::Args) -> anyhow::Result<Code> {
    let ranks = RanksArguments {
        starter: "launch",
        default_sweep: args.default_sweep(),
    };
    let (arguments, target) = ranks.target(args.arguments())?;
    launch::run(args, target, arguments)
}

/// Starts the ranks of this node. What their arguments ask for is checked here, before anything is started.
fn join_ranks(args: join::Args) -> anyhow::Result<Code> {
    let ranks = RanksArguments {
        starter: "join",
        default_sweep: None,
    };
    let (arguments, target) = ranks.target(&args.arguments())?;
    join::run(args, target, arguments)
}

/// Submits a job. What its ranks are to do is checked here, before anything is queued.
fn submit_job(args: submit::Args) -> anyhow::Result<Code> {
    let mut submission = args.submission()?;
    let ranks = RanksArguments {
        starter: "submit",
        default_sweep: submission.template.default_sweep(),
    };
    let (_, target) = ranks.target(&submission.arguments_of_the_ranks())?;
    if submission.template.is_experiment() {
        let levels = VariedSettings {
            levels: PresetNames::all_levels(),
            ..VariedSettings::default()
        };
        check_experiment(&target, &levels)?;
    }
    submission.suit(&target)?;
    submission.submit()
}

/// Checks the sweep or the replay of a deployment on Kubernetes, before anything is made there.
fn check_kube_run(
    typed: &[OsString],
    default_sweep: Option<&str>,
) -> anyhow::Result<kube::CheckedRun> {
    let usage = |what: &str| Err(Failure::on_all_ranks(Code::Usage, what));
    let ranks = RanksArguments {
        starter: "kube",
        default_sweep,
    };
    let (arguments, target) = ranks.target(typed)?;
    let (presets, writes) = match &target {
        Target::Sweep(sweep) => (&sweep.presets, sweep.files.names_any()),
        Target::Replay { presets, out, .. } => (presets, out.is_some()),
        Target::Doctor | Target::SelfTest { .. } => {
            return usage("kube runs sweeps and replays only. Name collectives or replay");
        }
    };
    if presets.level.is_some() || presets.network.is_some() {
        return usage(
            "kube gives the ranks their level and network. Put --level and --network before the --",
        );
    }
    if writes {
        return usage(
            "kube decides where the ranks write. `pxnbench kube results` copies the files, and its --out says where to",
        );
    }
    if !matches!(
        target.backend(),
        Some(BackendChoice::Auto | BackendChoice::Nccl)
    ) {
        return usage("kube measures GPUs. Leave out --backend");
    }
    let needs_a_file = matches!(&target, Target::Replay { is_built_in, .. } if !is_built_in);
    if needs_a_file {
        return usage(
            "the pods do not have the file of this workload. Name one that is built in: `pxnbench replay --help` lists them",
        );
    }
    Ok(kube::CheckedRun {
        arguments,
        gpus_per_process: target.gpus_per_process(),
        is_sweep: target.is_sweep(),
    })
}

/// Runs an experiment. The arguments of its steps are checked here, before anything is started.
fn run_experiment(args: experiment::Args) -> anyhow::Result<Code> {
    let ranks = RanksArguments {
        starter: "experiment",
        default_sweep: args.default_sweep(),
    };
    let (arguments, target) = ranks.target(args.sweep())?;
    check_experiment(&target, &args.varied())?;
    let measured = match target {
        Target::Replay { .. } => MeasuredRun::Replay,
        _ => MeasuredRun::Sweep,
    };
    experiment::run(args, measured, arguments)
}

/// Checks that an experiment can run this with settings that it varies.
fn check_experiment(target: &Target, varied: &VariedSettings) -> anyhow::Result<()> {
    let usage = |what: &str| Err(Failure::on_all_ranks(Code::Usage, what));
    let (presets, names_files, has_buckets) = match target {
        Target::Sweep(sweep) => {
            let names_files = sweep.files.names_any() || sweep.repeat != 0;
            (&sweep.presets, names_files, false)
        }
        Target::Replay {
            presets,
            out,
            bucket_mb,
            ..
        } => (presets, out.is_some(), bucket_mb.is_some()),
        Target::Doctor | Target::SelfTest { .. } => {
            return usage(
                "an experiment runs sweeps and training steps only. Name collectives, or replay and a workload",
            );
        }
    };
    if presets.level.is_some() && !varied.levels.0.is_empty() {
        return usage("an experiment sets the level of each step. Use --levels");
    }
    if presets.network.is_some() && !varied.networks.0.is_empty() {
        return usage("an experiment sets the network of each step. Use --networks");
    }
    if names_files {
        return usage("an experiment decides where each step writes. Use --out for its folder");
    }
    if !has_buckets && !varied.buckets.0.is_empty() {
        return usage(
            "only training steps of data parallelism that are built in have buckets, such as replay ddp-resnet50. Leave out --bucket-mb",
        );
    }
    Ok(())
}

/// Short options of `submit` and of sbatch that people write after the collectives.
const SBATCH_OPTIONS: [&str; 8] = ["-p", "-A", "-t", "-N", "-q", "-w", "-J", "-C"];

/// How the arguments of ranks are read that a subcommand starts.
struct RanksArguments<'a> {
    /// The subcommand.
    starter: &'static str,
    /// The sweep to start if they are only options.
    default_sweep: Option<&'a str>,
}

impl RanksArguments<'_> {
    /// Returns the arguments as the ranks get them, and the target that they name.
    ///
    /// # Errors
    ///
    /// Returns an error if they are invalid, or name something that is not started on ranks.
    fn target(&self, typed: &[OsString]) -> anyhow::Result<(Vec<OsString>, Target)> {
        let parsed = self.parse(typed)?;
        let has_own = parsed.command.is_some() || parsed.sweep.names_a_collective();
        let Some(default_sweep) = self.default_sweep.filter(|_| !has_own) else {
            return Ok((typed.to_vec(), target_of(parsed)?));
        };
        let mut all: Vec<OsString> = default_sweep.split_whitespace().map(Into::into).collect();
        all.extend_from_slice(typed);
        let target = target_of(self.parse(&all)?)?;
        Ok((all, target))
    }

    fn parse(&self, arguments: &[OsString]) -> anyhow::Result<Cli> {
        let mut words = vec![OsString::from("pxnbench")];
        words.extend_from_slice(arguments);
        Cli::try_parse_from(&words).map_err(|error| {
            let help = match error.kind() {
                // It may be meant for either.
                ErrorKind::UnknownArgument => {
                    format!("pxnbench {} --help, and {}", self.starter, help_of(&words))
                }
                _ => help_of(&words),
            };
            let mut sentence = sentence_with_help(&error, &words, &help);
            if self.starter == "submit"
                && let Some(option) = misplaced_sbatch_option(&error, arguments)
            {
                sentence +=
                    &format!(". If {option} is meant for sbatch, put it before the collectives");
            }
            Failure::on_all_ranks(Code::Usage, sentence)
        })
    }
}

/// Returns the short option of sbatch that `error` is about. Behind the collectives it belongs to the sweep, which has another
/// option of that letter or none.
fn misplaced_sbatch_option(error: &clap::Error, arguments: &[OsString]) -> Option<&'static str> {
    let context = |kind| error.get(kind).map(ToString::to_string);
    let unknown = context(ContextKind::InvalidArg).unwrap_or_default();
    let value = context(ContextKind::InvalidValue);
    let is_about = |option: &str| {
        let is_of_option = |pair: &[OsString]| {
            pair[0] == option && value.as_deref().is_some_and(|value| pair[1] == value)
        };
        unknown == option || arguments.windows(2).any(is_of_option)
    };
    let mut options = SBATCH_OPTIONS.into_iter();
    options.find(|option| is_about(option))
}

fn target_of(parsed: Cli) -> anyhow::Result<Target> {
    match parsed.command {
        None => Ok(Target::Sweep(Box::new(parsed.sweep.request()?))),
        Some(Command::Doctor(_)) => Ok(Target::Doctor),
        Some(Command::Proof(args)) if args.is_self_test() => Ok(Target::SelfTest {
            nccl_lib: args.nccl_lib().map(Path::to_owned),
        }),
        Some(Command::Replay(args)) => args.target(),
        Some(_) => {
            let what = "only sweeps, replay, the doctor and proof --self-test start on ranks. Name collectives, replay or doctor";
            Err(Failure::on_all_ranks(Code::Usage, what))
        }
    }
}

/// Moves the options of `launch`, `join`, `submit` and `experiment` that follow the collectives before them.
pub fn own_options_first(words: Vec<OsString>) -> Vec<OsString> {
    let subcommand = words.get(1).and_then(|word| word.to_str());
    let command = clap::Command::new("");
    let command = match subcommand {
        Some("launch") => launch::Args::augment_args(command),
        Some("join") => join::Args::augment_args(command),
        Some("submit") => submit::Args::augment_args(command),
        Some("experiment") => experiment::Args::augment_args(command),
        _ => return words,
    };
    own_options::before_the_sweep(words, &command)
}

/// Returns the sentence for an error of the command line in `words`.
pub fn usage_sentence(error: &clap::Error, words: &[OsString]) -> String {
    sentence_with_help(error, words, &help_of(words))
}

/// Returns the sentence for an error of the command line, which ends with where there is help. If the first word is neither a
/// subcommand nor a collective, the sentence is about that: what follows it means nothing then.
fn sentence_with_help(error: &clap::Error, words: &[OsString], help: &str) -> String {
    let slip = match error.kind() {
        ErrorKind::UnknownArgument => unknown_first_word(words).or_else(|| option_slip(words)),
        _ => option_slip(words),
    };
    match slip {
        Some(what) => format!("{what}; see {help}"),
        None => fault::clap_sentence(error, help),
    }
}

/// Returns a sentence on the first option of a sweep that another program has, or that is written in another way.
fn option_slip(words: &[OsString]) -> Option<String> {
    let cli = Cli::command();
    let words: Vec<String> = words
        .iter()
        .skip(1)
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let is_subcommand = words
        .first()
        .is_some_and(|first| cli.find_subcommand(first).is_some());
    if is_subcommand {
        return None;
    }
    let long: Vec<&str> = cli
        .get_arguments()
        .filter_map(clap::Arg::get_long)
        .collect();
    slips::option_slip(&words, &long)
}

fn unknown_first_word(words: &[OsString]) -> Option<String> {
    let first = words
        .get(1)?
        .to_str()
        .filter(|word| !word.starts_with('-'))?;
    let is_subcommand = Cli::command().find_subcommand(first).is_some();
    values::collectives(first).err().filter(|_| !is_subcommand)
}

/// Returns the command whose help explains `words`.
fn help_of(words: &[OsString]) -> String {
    // Under a name of nccl-tests, help is that of the name.
    let name = words.first().and_then(|word| drop_in::program_name(word));
    let mut path = vec![name.unwrap_or("pxnbench")];
    let cli = Cli::command();
    let mut command = &cli;
    for word in words.iter().skip(1) {
        let Some(subcommand) = word.to_str().and_then(|name| command.find_subcommand(name)) else {
            break;
        };
        path.push(subcommand.get_name());
        command = subcommand;
    }
    format!("{} --help", path.join(" "))
}

fn after_help() -> String {
    format!(
        "Examples:\n  mpirun -np 4 pxnbench all_reduce -b 8 -e 64M -f 2\n  srun --mpi=pmix pxnbench alltoall sendrecv -b 1K \
         -e 1G -f 2 --level balanced\n  pxnbench all --backend model --ranks 64 -b 1M -e 1G -f 4\n\n{}",
        exit_codes(&CODES)
    )
}

fn exit_codes(codes: &[(Code, &str)]) -> String {
    let codes: Vec<String> = codes
        .iter()
        .map(|(code, what)| format!("  {:2}  {what}", *code as u8))
        .collect();
    format!("Exit codes:\n{}", codes.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str, default_sweep: Option<&str>) -> Result<(String, Target), String> {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        let ranks = RanksArguments {
            starter: "launch",
            default_sweep,
        };
        match ranks.target(&words) {
            Ok((all, target)) => {
                let all: Vec<_> = all.iter().map(|word| word.to_string_lossy()).collect();
                Ok((all.join(" "), target))
            }
            Err(error) => Err(error.to_string()),
        }
    }

    fn of(line: &str) -> Result<Target, String> {
        read(line, None).map(|(_, target)| target)
    }

    #[test]
    fn options_alone_keep_the_default_sweep() {
        let read = |line| read(line, Some("all -b 8 -f 4")).map(|(all, _)| all);
        for (typed, expected) in [
            ("", "all -b 8 -f 4"),
            ("--backend host -b 16", "all -b 8 -f 4 --backend host -b 16"),
            ("--backend host alltoall", "--backend host alltoall"),
            ("doctor", "doctor"),
        ] {
            assert_eq!(read(typed).as_deref(), Ok(expected), "{typed}");
        }
        assert!(read("-n 1.5").is_err());
    }

    #[test]
    fn an_error_points_to_the_help_that_explains_it() {
        let help = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let words = own_options_first(words);
            let error = Cli::try_parse_from(&words).expect_err("a wrong line");
            let sentence = usage_sentence(&error, &words);
            let (_, help) = sentence.rsplit_once("; see ").expect("where there is help");
            help.to_owned()
        };
        assert_eq!(help("pxnbench submit --level x"), "pxnbench submit --help");
        assert_eq!(help("pxnbench doctor --jsn"), "pxnbench doctor --help");
        assert_eq!(help("pxnbench compare"), "pxnbench compare --help");
        let of_deploy = "pxnbench kube deploy --help";
        assert_eq!(help("pxnbench kube deploy pxn"), of_deploy);
        assert_eq!(help("pxnbench all_reduce -n x"), "pxnbench --help");
        let error = of("all_reduce --wiat").expect_err("an unknown option");
        let both = "see pxnbench launch --help, and pxnbench --help";
        assert!(error.ends_with(both), "{error}");
        let error = of("doctor --wiat").expect_err("an unknown option");
        assert!(error.contains("pxnbench doctor --help"), "{error}");
        let error = of("all_reduce -n x").expect_err("a wrong value");
        assert!(error.ends_with("see pxnbench --help"), "{error}");
    }

    #[test]
    fn every_visible_subcommand_can_be_suggested() {
        let cli = Cli::command();
        let visible = cli.get_subcommands().filter(|one| !one.is_hide_set());
        let names: Vec<&str> = visible.map(clap::Command::get_name).collect();
        let mut suggested = values::SUBCOMMANDS.to_vec();
        suggested.sort_by_key(|name| names.iter().position(|other| other == name));
        assert_eq!(suggested, names);
    }

    #[test]
    fn sweeps_and_the_doctor_can_be_started_and_nothing_else() {
        assert!(of("alltoall -b 1K").expect("a sweep").is_sweep());
        let doctor = of("doctor --strict -v").expect("the doctor");
        assert!(
            !doctor.is_sweep()
                && doctor.folder(Path::new("x")).is_none()
                && doctor.backend().is_none()
        );
        let self_test = of("proof --self-test --nccl-lib /x").expect("the self-test");
        assert_eq!(self_test.nccl_lib(), Some(Path::new("/x")));
        assert!(!self_test.is_sweep() && self_test.only_prints());
        for other in ["topo", "proof some.log"] {
            let error = of(other).expect_err("no");
            assert!(error.contains("replay or doctor"), "{error}");
        }
        assert!(
            of("doctor --nonsense")
                .expect_err("no")
                .contains("--nonsense")
        );
        assert!(of("").expect_err("no").contains("no collective"));
    }
}
