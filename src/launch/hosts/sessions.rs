//! `pxnbench join` on every host over ssh: started together, and ended together.

use std::{
    io::{Read, Write},
    process::{Command, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::{Duration, Instant},
};

use super::{plan::Plan, remote::RemoteProgram, ssh, verdict};
use crate::{
    exit::{Code, Failure},
    launch::{
        join::{stdout_of, with_port},
        supervisor::{Patience, ProcessCommand, Signals, Supervisor},
    },
    world::{child, signal},
};

/// Ranks and join on a host have their own patience first.
const PATIENCE: Patience = Patience {
    after_failure: Duration::from_secs(20),
    after_success: Duration::from_secs(600),
    when_asked: Duration::from_secs(25),
};

/// Lines of a host's stderr that are passed on.
const MOST_LINES: usize = 10_000;

/// How long the last lines may take after the end of all hosts: a connection that ssh shares may
/// hold stderr open.
const LAST_LINES: Duration = Duration::from_secs(2);

/// Returns the words of `pxnbench join` on host number `node`.
pub(super) fn join_words(plan: &Plan, node: usize, ranks_per_node: Option<u32>) -> Vec<String> {
    let mut words = vec![
        plan.program.clone(),
        "join".into(),
        node.to_string(),
        with_port(&plan.master, plan.port),
        "--nodes".into(),
        plan.nodes().to_string(),
    ];
    if let Some(ranks) = ranks_per_node {
        words.extend(["--ranks-per-node".into(), ranks.to_string()]);
    }
    words
}

/// Returns the words that run a command of a host over ssh.
///
/// # Errors
/// Returns an error if one cannot be quoted.
pub(super) fn over_ssh(plan: &Plan, host: &str, words: &[String]) -> anyhow::Result<Vec<String>> {
    let remote = RemoteProgram {
        folder: &plan.folder,
        variables: &plan.variables,
        words,
    };
    Ok(ssh::words(host, remote.line()?))
}

/// Runs the ranks of all hosts, and returns the exit code. `token` is the secret of the job; it
/// goes through ssh's input, since command lines can be read by others.
///
/// # Errors
/// Returns an error if ssh cannot be started.
pub(super) fn run(plan: &Plan, ranks_per_node: u32, token: &str) -> anyhow::Result<Code> {
    let mut commands = Vec::new();
    let hosts = plan.hosts.names();
    for (node, host) in hosts.iter().enumerate() {
        let mut words = join_words(plan, node, Some(ranks_per_node));
        words.extend(["--controlled".into(), "--".into()]);
        words.extend_from_slice(&plan.arguments);
        let words = over_ssh(plan, host, &words)?;
        let mut command = Command::new(&words[0]);
        command
            .args(&words[1..])
            .stdout(stdout_of(node as u32)?)
            .stderr(Stdio::piped());
        commands.push(ProcessCommand {
            number: node as u32,
            command,
            signals: Signals::ByLine(token.to_owned()),
        });
    }
    let cannot =
        |error| Failure::on_all_ranks(Code::Launch, format!("ssh cannot be started: {error}"));
    let mut supervisor = Supervisor::start(commands, PATIENCE).map_err(cannot)?;
    let mut said: Vec<Receiver<String>> = Vec::new();
    for (node, stderr) in supervisor.take_stderrs() {
        said.push(pass_on(stderr, hosts[node as usize]));
    }
    let ends = supervisor.wait()?;
    let last = last_lines(&said);
    let (code, sentence) = verdict::judge(&ends, &hosts, &last, signal::stops_now());
    match sentence {
        Some(sentence) => Err(Failure::on_all_ranks(code, sentence)),
        None => Ok(code),
    }
}

/// Returns the last line of each host; an empty one if it does not come in time.
fn last_lines(said: &[Receiver<String>]) -> Vec<String> {
    let deadline = Instant::now() + LAST_LINES;
    let mut lines = Vec::new();
    for last in said {
        let left = deadline.saturating_duration_since(Instant::now());
        lines.push(last.recv_timeout(left).unwrap_or_default());
    }
    lines
}

/// Passes on what a host prints on stderr, line by line and up to a limit, and sends the last line
/// at the end.
fn pass_on(stderr: impl Read + Send + 'static, host: &str) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    let host = host.to_owned();
    thread::spawn(move || {
        let mut last = String::new();
        for (before, line) in child::lines(stderr).enumerate() {
            if before < MOST_LINES {
                // A closed stderr is no reason to end the run.
                let _ = std::io::stderr().write_all(&line);
            } else if before == MOST_LINES {
                say!(
                    "pxnbench: {host} has printed {MOST_LINES} lines on stderr; the rest is left \
                     out"
                );
            }
            last = String::from_utf8_lossy(&line).trim_end().to_owned();
        }
        // If this fails, nobody waits any more.
        let _ = sender.send(last);
    });
    receiver
}
