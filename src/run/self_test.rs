//! `pxnbench proof --self-test`: a control experiment for the proof. A short alltoall runs twice,
//! in processes of its own: with PXN off, and with the settings that are requested. The number of
//! relayed connections must be zero, and then not.

use std::{ffi::OsString, path::Path, time::Duration};

use super::worker::{
    handle::{Worker, WorkerFailure},
    message::{WorkerReport, WorkerStart},
};
use crate::{
    backend::options::LocalRanks,
    collective::traffic,
    env,
    exit::{Code, Failure},
    facts, fault,
    nccl_log::Connections,
    units::Bytes,
    world::{self, World, deadline, open::WaitLimits, placement},
};

/// What runs: send/recv relays only, so that a level moves it, and large enough for every channel.
const SIZE: Bytes = Bytes(1 << 20);

/// Longest time that each of the two may take.
const LIMIT: Duration = Duration::from_secs(100);

/// What the two runs show.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// None with PXN off, and some as asked: the reading is right, and PXN is used.
    Changed,
    /// None with PXN off, and none as asked, with the reason.
    Same(String),
    /// Nothing between nodes could have been relayed, or there is nothing to compare with, with the
    /// reason.
    CannotTell(String),
    /// Relays with PXN off: the log is misread, or NCCL ignores the variable.
    ControlFailed,
}

/// The two runs of a rank.
struct Pair {
    off: Worker,
    asked: Worker,
}

impl Pair {
    /// Starts both workers; `None` if this node has no GPU. All ranks then decide together what
    /// that means.
    fn start(nccl_lib: Option<&Path>, env: env::Env) -> anyhow::Result<Option<Pair>> {
        if facts::nvidia::evidence(Path::new("/"), env).is_none() {
            return Ok(None);
        }
        let off = Worker::start("off", words(nccl_lib), &[("NCCL_PXN_DISABLE", "1")])?;
        Ok(Some(Pair {
            off,
            asked: Worker::start("asked", words(nccl_lib), &[])?,
        }))
    }
}

/// How long a rank may be silent while the others wait.
const SILENCE: Duration = Duration::from_secs(20);

/// Runs the control on every rank. `expect`: PXN must be used as asked (true), or must not (false).
///
/// # Errors
/// Returns an error if there are no GPUs, if MPI does not start, or if another outcome is expected.
pub fn run(nccl_lib: Option<&Path>, expect: Option<bool>) -> anyhow::Result<Code> {
    let pair = Pair::start(nccl_lib, &env::var);
    let limits = WaitLimits {
        start: LIMIT,
        silence: SILENCE,
    };
    let world = world::open::world("pxnbench proof --self-test", true, limits)?;
    let end = in_world(pair, expect, &*world);
    let end = fault::end_together(end, world.size());
    let _guard = deadline::limit("the shutdown of MPI on all ranks", LIMIT);
    world.finish();
    end
}

fn words(nccl_lib: Option<&Path>) -> Vec<OsString> {
    let size = SIZE.0.to_string();
    let mut words: Vec<OsString> = ["alltoall", "-b", &size, "-e", &size]
        .map(OsString::from)
        .into();
    if let Some(file) = nccl_lib {
        words.extend(["--nccl-lib".into(), file.into()]);
    }
    words
}

fn in_world(
    pair: anyhow::Result<Option<Pair>>,
    expect: Option<bool>,
    world: &dyn World,
) -> anyhow::Result<Code> {
    let _guard = deadline::limit("the self-test", LIMIT * 3);
    let Pair { off, asked } = started_on_all(pair, world)?;
    let rank = world.rank();
    let local_ranks = LocalRanks::single(rank, world.size(), gpu_of_rank(rank, world)?);
    let start = WorkerStart {
        local_ranks,
        float8: false,
        traffic: traffic::DEFAULT.clone(),
        sizes: None,
    };
    let off = agree("with PXN off", off.run(start.clone(), LIMIT, world)?)?;
    let asked = agree("as asked", asked.run(start, LIMIT, world)?)?;
    let outcome = judge(&off, &asked);
    if rank == 0 {
        for line in report(&off, &asked, &outcome) {
            print_line!("{line}")?;
        }
    }
    end(&outcome, expect)
}

/// Returns the workers of this rank, if every rank has started its own.
fn started_on_all(pair: anyhow::Result<Option<Pair>>, world: &dyn World) -> anyhow::Result<Pair> {
    let hosts = world::all_gather(world, &placement::host_name())?;
    let started = world::agree(world, pair)?;
    let without = world::all_gather(world, &started.is_none())?;
    let missing = without.iter().position(|is_without| *is_without);
    if let (Some(pair), None) = (started, missing) {
        return Ok(pair);
    }
    let host = missing.map_or("", |rank| &hosts[rank]);
    let what = format!(
        "the self-test runs NCCL on GPUs, and there is no NVIDIA device on {host}. Run it on the \
         nodes of the cluster"
    );
    Err(Failure::on_all_ranks(Code::NothingRan, what))
}

/// Returns the GPU of a rank. Every rank finds out the same for all.
fn gpu_of_rank(rank: u32, world: &dyn World) -> anyhow::Result<usize> {
    let processes = world::all_gather(world, &facts::process(&env::var, true))?;
    let mut all = processes.iter();
    if let Some(process) = all.find(|process| process.peer.gpus.is_empty()) {
        let why = process.cuda_error.as_deref().unwrap_or("CUDA shows no GPU");
        return Err(Failure::on_all_ranks(
            Code::Cuda,
            format!("{} cannot use a GPU: {why}", process.peer.host),
        ));
    }
    let may_share = processes.iter().all(|process| process.may_share_gpu);
    let peers = processes.into_iter().map(|process| process.peer);
    let peers: Vec<placement::ProcessIdentity> = peers.collect();
    let gpus = placement::assign_gpus(&peers, &placement::place_ranks(&peers), 1, may_share)?;
    Ok(gpus[rank as usize][0])
}

/// Returns the exit code. A count that does not change is no failure unless it is expected to: a
/// level may well mean no relay.
fn end(outcome: &Outcome, expect: Option<bool>) -> anyhow::Result<Code> {
    let is_used = match outcome {
        Outcome::Changed => true,
        Outcome::Same(_) => false,
        Outcome::CannotTell(_) => return Ok(Code::NothingRan),
        Outcome::ControlFailed => return Ok(Code::WrongData),
    };
    match expect {
        Some(expected) if expected != is_used => {
            let words = |is_used: bool| if is_used { "used" } else { "not used" };
            let what = format!(
                "PXN: expected {}, and the run as requested shows {}",
                words(expected),
                words(is_used)
            );
            Err(Failure::on_all_ranks(Code::WrongData, what))
        }
        _ => Ok(Code::Fine),
    }
}

/// What all ranks saw in one of the two runs, and why not all is relayed.
struct ObservedRun {
    all: Connections,
    reason: String,
}

fn agree(
    which: &str,
    ended: Result<Vec<WorkerReport>, WorkerFailure>,
) -> anyhow::Result<ObservedRun> {
    let ended = ended.map_err(|WorkerFailure { what, code }| {
        Failure::on_all_ranks(code, format!("the run {which} failed: {what}"))
    })?;
    let mut seen = ObservedRun {
        all: Connections::default(),
        reason: String::new(),
    };
    for one in ended {
        seen.all.add(&one.seen);
        if seen.reason.is_empty() {
            seen.reason = one.reason;
        }
    }
    Ok(seen)
}

fn judge(off: &ObservedRun, asked: &ObservedRun) -> Outcome {
    let (off, asked, reason) = (off.all.send_recv, asked.all.send_recv, &asked.reason);
    match (off.relayed, asked.relayed) {
        (1.., _) => Outcome::ControlFailed,
        (0, 1..) if off.sends == 0 => Outcome::CannotTell(
            "the run with PXN off logged no connection between nodes, so it cannot serve as the \
             control"
                .into(),
        ),
        (0, 1..) => Outcome::Changed,
        _ if asked.sends == 0 || asked.gpudirect_sends == 0 => {
            Outcome::CannotTell(format!("no relay is possible here. {reason}"))
        }
        _ => Outcome::Same(reason.clone()),
    }
}

fn report(off: &ObservedRun, asked: &ObservedRun, outcome: &Outcome) -> Vec<String> {
    let count = |which: &str, seen: &ObservedRun| {
        let sends = &seen.all.send_recv;
        format!(
            "{which:<14} {} of {} connections between nodes relayed",
            sends.relayed, sends.sends
        )
    };
    let said = match outcome {
        Outcome::Changed => "the count rose from zero, as it must: relays are detected".to_owned(),
        Outcome::Same(why) => {
            format!("the count stayed at zero: PXN is not used with the requested settings. {why}")
        }
        Outcome::CannotTell(why) => format!("cannot tell: {why}"),
        Outcome::ControlFailed => "the control failed: connections are relayed even with \
                                   NCCL_PXN_DISABLE=1, so no count of relays can be trusted here. \
                                   Check whether a wrapper or nccl.conf overrides the variable"
            .to_owned(),
    };
    vec![count("PXN off", off), count("as requested", asked), said]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nccl_log::SendCounts;

    fn seen(sends: u64, relayed: u64, gpudirect_sends: u64) -> ObservedRun {
        let send_recv = SendCounts {
            sends,
            relayed,
            gpudirect_sends,
            ..SendCounts::default()
        };
        ObservedRun {
            all: Connections {
                send_recv,
                ..Connections::default()
            },
            reason: "Because.".into(),
        }
    }

    #[test]
    fn each_outcome_has_its_counts() {
        let because = || "Because.".to_owned();
        let none_possible = || Outcome::CannotTell("no relay is possible here. Because.".into());
        assert_eq!(judge(&seen(16, 0, 16), &seen(16, 8, 16)), Outcome::Changed);
        assert_eq!(
            judge(&seen(16, 0, 16), &seen(16, 0, 16)),
            Outcome::Same(because())
        );
        assert_eq!(
            judge(&seen(16, 0, 0), &seen(16, 0, 0)),
            none_possible(),
            "no GPUDirect"
        );
        assert_eq!(
            judge(&seen(0, 0, 0), &seen(0, 0, 0)),
            none_possible(),
            "one node"
        );
        assert!(
            matches!(
                judge(&seen(0, 0, 0), &seen(16, 8, 16)),
                Outcome::CannotTell(_)
            ),
            "no control"
        );
        assert_eq!(
            judge(&seen(16, 8, 16), &seen(16, 8, 16)),
            Outcome::ControlFailed
        );
    }

    #[test]
    fn what_is_expected_decides_on_a_count_that_is_no_failure() {
        let code = |outcome, expect| {
            end(&outcome, expect).unwrap_or_else(|error| crate::exit::code_of(&error))
        };
        let same = || Outcome::Same("Because.".into());
        assert_eq!(code(same(), None), Code::Fine);
        assert_eq!(code(same(), Some(false)), Code::Fine);
        assert_eq!(code(same(), Some(true)), Code::WrongData);
        assert_eq!(code(Outcome::Changed, Some(true)), Code::Fine);
        assert_eq!(code(Outcome::Changed, Some(false)), Code::WrongData);
        assert_eq!(
            code(Outcome::CannotTell("x".into()), Some(true)),
            Code::NothingRan
        );
        assert_eq!(code(Outcome::ControlFailed, Some(true)), Code::WrongData);
    }
}
