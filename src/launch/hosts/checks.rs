//! What is checked on the hosts before ranks are started there: ssh, folder, program and version on
//! each, the port on the first, the way to it from the others, and the GPUs.

use std::thread;

use super::{call::Call, judge, plan::Plan, remote::RemoteProgram, ssh};
use crate::{
    exit::{Code, Failure},
    launch::{join::with_port, probe::Report},
    slurm::hosts::compress,
    units::counted,
    world::signal,
};

/// Hosts that are checked at the same time: sshd and this machine have limits.
const AT_ONCE: usize = 64;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A host and why it is not ready.
type NotReady<'a> = (&'a str, String);

/// Checks all hosts, and returns their reports in order.
///
/// # Errors
/// Returns an error if one is not ready; each that is not is named, with the cause and the remedy.
pub(super) fn all(plan: &Plan, greeting: &str) -> anyhow::Result<Vec<Report>> {
    let hosts = plan.hosts.names();
    let listen = [
        "--listen".to_owned(),
        plan.port.to_string(),
        "--greeting".into(),
        greeting.into(),
    ];
    let reach = [
        "--reach".to_owned(),
        with_port(&plan.master, plan.port),
        "--greeting".into(),
        greeting.into(),
    ];
    // It holds the port until the others have looked.
    let mut first = start(plan, hosts[0], &listen)?;
    let listener = judge_answer(plan, hosts[0], first.answer()?)?;
    // Without it there is nothing to reach, but all else can be checked.
    let words: &[String] = match &listener {
        Ok(_) => &reach,
        Err(_) => &[],
    };
    let others = in_turns(plan, &hosts[1..], words)?;
    drop(first);
    let mut reports = Vec::new();
    let mut not_ready: Vec<NotReady> = Vec::new();
    for (host, answer) in hosts.iter().zip([listener].into_iter().chain(others)) {
        match answer.and_then(|report| with_gpus(plan, report)) {
            Ok(report) => reports.push(report),
            Err(why) => not_ready.push((host, why)),
        }
    }
    match not_ready.is_empty() {
        true => Ok(reports),
        false => Err(refuse(&not_ready, hosts.len())),
    }
}

/// Starts the check of a host.
fn start(plan: &Plan, host: &str, more: &[String]) -> anyhow::Result<Call> {
    let mut words = vec![plan.program.clone(), "probe".into(), "--alone".into()];
    words.extend_from_slice(more);
    let remote = RemoteProgram {
        folder: &plan.folder,
        variables: &plan.variables,
        words: &words,
    };
    Call::start(&ssh::words(host, remote.line()?)).map_err(|error| {
        let what = format!(
            "ssh cannot be started: {error}. Install OpenSSH's client, or use --over mpirun"
        );
        Failure::on_all_ranks(Code::Launch, what)
    })
}

/// Checks hosts, many at a time.
fn in_turns(
    plan: &Plan,
    hosts: &[&str],
    words: &[String],
) -> anyhow::Result<Vec<Result<Report, String>>> {
    let mut judged = Vec::new();
    for turn in hosts.chunks(AT_ONCE) {
        let mut calls = Vec::new();
        for host in turn {
            calls.push((*host, start(plan, host, words)?));
        }
        let answers = thread::scope(|scope| {
            let mut waits = Vec::new();
            for (host, mut call) in calls {
                waits.push((host, scope.spawn(move || call.answer())));
            }
            let answers = waits.into_iter().map(|(host, wait)| (host, wait.join()));
            answers.collect::<Vec<_>>()
        });
        for (host, answer) in answers {
            let answer = answer.map_err(|_| anyhow::anyhow!("the check of {host} panicked"))??;
            judged.push(judge_answer(plan, host, answer)?);
        }
    }
    Ok(judged)
}

fn judge_answer(
    plan: &Plan,
    host: &str,
    answer: judge::Answer,
) -> anyhow::Result<Result<Report, String>> {
    if let Some(name) = signal::received() {
        let what = format!("stopped by {name} before the run began");
        return Err(Failure::on_all_ranks(Code::Stopped, what));
    }
    Ok(judge::report(
        answer,
        host,
        &plan.program,
        &plan.folder,
        VERSION,
    ))
}

/// Checks that a host has a GPU for each of its ranks, if their number is given and the host shows
/// its GPUs.
fn with_gpus(plan: &Plan, report: Report) -> Result<Report, String> {
    let Some(ranks) = plan.ranks_per_node.filter(|_| plan.needs_own_gpus) else {
        return Ok(report);
    };
    let needed = ranks.saturating_mul(plan.gpus_per_process);
    if report.gpus == 0 || report.gpus >= needed {
        return Ok(report);
    }
    Err(format!(
        "it has {} for {}. Give a smaller --ranks-per-node",
        counted(report.gpus, "GPU"),
        counted(ranks, "rank"),
    ))
}

/// Says why hosts are not ready, those with the same reason together, and returns the error.
fn refuse(not_ready: &[NotReady], hosts: usize) -> anyhow::Error {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for (host, why) in not_ready {
        match reasons.iter_mut().find(|(known, _)| known == why) {
            Some((_, hosts)) => hosts.push(host),
            None => reasons.push((why, vec![host])),
        }
    }
    let mut sentences: Vec<String> = reasons
        .iter()
        .map(|(why, hosts)| format!("{} is not ready: {why}", compress(hosts)))
        .collect();
    if sentences.len() > 1 {
        for sentence in &sentences {
            say!("pxnbench: {sentence}");
        }
        sentences = vec![format!(
            "{} of {hosts} hosts are not ready. Nothing was started",
            not_ready.len()
        )];
    }
    Failure::on_all_ranks(Code::Launch, sentences.concat())
}
