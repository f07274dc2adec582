//! [`RanksArguments`]: the arguments of ranks that a subcommand starts.

use std::{ffi::OsString, path::Path};

use clap::{
    Parser,
    error::{ContextKind, ErrorKind},
};

use super::{
    cli::{Cli, Command},
    usage_error::{help_of, sentence_with_help},
};
use crate::{
    exit::{Code, Failure},
    run::target::Target,
};

/// Short options of `submit` and of sbatch that people write after the collectives.
const SBATCH_OPTIONS: [&str; 8] = ["-p", "-A", "-t", "-N", "-q", "-w", "-J", "-C"];

/// How the arguments of ranks are read that a subcommand starts.
pub(super) struct RanksArguments<'a> {
    /// The subcommand.
    pub(super) starter: &'static str,
    /// The sweep to start if they are only options.
    pub(super) default_sweep: Option<&'a str>,
}

impl RanksArguments<'_> {
    /// Returns the arguments as the ranks get them, and the target that they name.
    ///
    /// # Errors
    ///
    /// Returns an error if they are invalid, or name something that is not started on ranks.
    pub(super) fn target(&self, typed: &[OsString]) -> anyhow::Result<(Vec<OsString>, Target)> {
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

/// Returns the short option of sbatch that `error` is about. Behind the collectives it belongs to
/// the sweep, which has another option of that letter or none.
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
            let what = "only sweeps, replay, the doctor and proof --self-test start on ranks. \
                        Name collectives, replay or doctor";
            Err(Failure::on_all_ranks(Code::Usage, what))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::{cli::own_options_first, usage_error::usage_sentence};

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
