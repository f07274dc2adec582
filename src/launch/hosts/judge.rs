//! What the answer of a host, or that none came, means. Pure.

use super::{remote::NO_FOLDER, ssh::SSH_FAILED};
use crate::{
    exit::Code,
    launch::{probe::Report, process::telling},
};

/// The answer of a host to a check.
#[derive(Clone, Debug, Default)]
pub(super) struct Answer {
    /// What the program there says of itself and of the host.
    pub(super) report: Option<Report>,
    /// The exit code, if it ended by itself in time.
    pub(super) code: Option<i32>,
    /// What ssh and the program printed on stderr.
    pub(super) stderr: String,
    /// The limit in seconds, if it did not answer within it.
    pub(super) late: Option<u64>,
}

/// A failure of ssh.
struct SshFailure {
    /// A part of what it prints.
    says: &'static str,
    cause: &'static str,
    /// `HOST` stands for the host.
    remedy: &'static str,
}

const SSH_FAILURES: [SshFailure; 8] = [
    SshFailure {
        says: "Permission denied",
        cause: "ssh is refused without a password",
        remedy: "Run ssh-copy-id HOST, or load your key with ssh-add",
    },
    SshFailure {
        says: "Host key verification failed",
        cause: "its host key is not known, or is another one than before",
        remedy: "Run ssh HOST true once, and compare the key",
    },
    SshFailure {
        says: "Could not resolve hostname",
        cause: "its name does not resolve",
        remedy: "Correct the list, or name its address in DNS, /etc/hosts or ~/.ssh/config",
    },
    SshFailure {
        says: "Connection refused",
        cause: "no ssh server listens there",
        remedy: "Start sshd on HOST, name its port in ~/.ssh/config, or run pxnbench join on each \
                 node",
    },
    SshFailure {
        says: "timed out",
        cause: "it does not answer ssh",
        remedy: "Look whether HOST is up, and whether a firewall blocks ssh",
    },
    SshFailure {
        says: "No route to host",
        cause: "there is no route to it",
        remedy: "Look whether HOST is up, and whether its address is right",
    },
    SshFailure {
        says: "Network is unreachable",
        cause: "its network cannot be reached from here",
        remedy: "Start from a machine in the network of HOST",
    },
    SshFailure {
        says: "Too many authentication failures",
        cause: "ssh offers too many keys",
        remedy: "Name the right one as IdentityFile, with IdentitiesOnly yes, in ~/.ssh/config",
    },
];

/// Returns why a host is not ready, with the remedy, or its report. `program` is the path of the
/// program there, `folder` the working folder, and `version` the version of this program.
pub(super) fn report(
    answer: Answer,
    host: &str,
    program: &str,
    folder: &str,
    version: &str,
) -> Result<Report, String> {
    let Some(report) = answer.report else {
        return Err(silence(&answer, host, program, folder, version));
    };
    if report.version != version {
        let other = match report.version.as_str() {
            "" => "an older version",
            other => other,
        };
        return Err(format!(
            "it has pxnbench {other} and this is {version}. Install the same version, or name it \
             with --remote-program"
        ));
    }
    match &report.meeting {
        Some(Err(why)) => Err(why.clone()),
        _ => Ok(report),
    }
}

/// Returns why there is no report.
fn silence(answer: &Answer, host: &str, program: &str, folder: &str, version: &str) -> String {
    if let Some(seconds) = answer.late {
        return format!(
            "it did not answer within {seconds} s. Look whether ssh {host} true returns at once"
        );
    }
    let said = telling(&answer.stderr).unwrap_or("it says nothing");
    let said = said.trim_start_matches("pxnbench: ").trim_end_matches('.');
    match answer.code {
        Some(SSH_FAILED) => ssh_failure(&answer.stderr, said, host),
        Some(NO_FOLDER) => format!(
            "it has no folder {folder}. Change to a folder that all hosts have, such as a shared \
             one"
        ),
        _ if ["error while loading shared libraries", "version `GLIBC"]
            .iter()
            .any(|library| said.contains(library)) =>
        {
            format!(
                "pxnbench does not start there: {said}. Set LD_LIBRARY_PATH to a folder with the \
                 library on {host}, or build pxnbench there"
            )
        }
        Some(127) => format!(
            "it has no {program}. Install pxnbench at the same path, or name its path with \
             --remote-program"
        ),
        Some(126) => format!(
            "{program} cannot be run there: {said}. Install a pxnbench that was built for {host}"
        ),
        Some(code) if code == Code::Usage as i32 => format!(
            "its pxnbench is not of version {version}: {said}. Install the same version, or name \
             it with --remote-program"
        ),
        _ => format!("the check there failed: {said}. Look at ssh {host} {program} probe --alone"),
    }
}

fn ssh_failure(stderr: &str, said: &str, host: &str) -> String {
    let known = SSH_FAILURES
        .iter()
        .find(|failure| stderr.contains(failure.says));
    match known {
        Some(failure) => {
            let line = stderr.lines().find(|line| line.contains(failure.says));
            let line = line.unwrap_or_default().trim().trim_end_matches('.');
            let remedy = failure.remedy.replace("HOST", host);
            format!("{} ({line}). {remedy}", failure.cause)
        }
        None => format!("ssh fails: {said}. Look at ssh -v {host} true"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(code: i32, stderr: &str) -> String {
        let answer = Answer {
            code: Some(code),
            stderr: stderr.into(),
            ..Answer::default()
        };
        report(answer, "n2", "/x/pxnbench", "/work", "0.1.0").expect_err("no report")
    }

    #[test]
    fn what_ssh_says_becomes_a_cause_and_a_remedy() {
        for (stderr, cause, remedy) in [
            (
                "me@n2: Permission denied (publickey,password).\r\n",
                "ssh is refused without a password (me@n2: Permission denied \
                 (publickey,password)).",
                "ssh-copy-id n2",
            ),
            (
                "ssh: Could not resolve hostname n2: Name or service not known\r\n",
                "its name does not resolve",
                "/etc/hosts",
            ),
            (
                "No ED25519 host key is known for n2 and you have requested strict \
                 checking.\r\nHost key verification failed.\r\n",
                "its host key is not known",
                "Run ssh n2 true once",
            ),
            (
                "ssh: connect to host n2 port 22: Connection refused\r\n",
                "no ssh server listens there",
                "Start sshd on n2",
            ),
            (
                "ssh: connect to host n2 port 22: Connection timed out\r\n",
                "it does not answer ssh",
                "firewall",
            ),
            (
                "kex_exchange_identification: Connection closed by remote host\r\n",
                "ssh fails: kex_exchange_identification",
                "ssh -v n2 true",
            ),
        ] {
            let sentence = said(255, stderr);
            assert!(
                sentence.contains(cause) && sentence.contains(remedy),
                "{sentence}"
            );
        }
    }

    #[test]
    fn what_the_host_says_becomes_a_cause_and_a_remedy() {
        for (code, stderr, says) in [
            (81, "sh: 1: cd: can't cd to /work", "it has no folder /work"),
            (
                127,
                "env: '/x/pxnbench': No such file or directory",
                "it has no /x/pxnbench. Install",
            ),
            (
                127,
                "/x/pxnbench: error while loading shared libraries: libmpi.so.40: cannot open \
                 shared object file",
                "does not start there: /x/pxnbench: error while loading shared libraries: \
                 libmpi.so.40",
            ),
            (
                126,
                "env: '/x/pxnbench': Exec format error",
                "cannot be run there: env",
            ),
            (
                6,
                "pxnbench: unexpected argument '--listen' found; see pxnbench probe --help",
                "its pxnbench is not of version 0.1.0: unexpected argument",
            ),
            (1, "", "the check there failed: it says nothing"),
        ] {
            let sentence = said(code, stderr);
            assert!(sentence.contains(says), "{sentence}");
        }
        let late = Answer {
            late: Some(30),
            ..Answer::default()
        };
        let sentence = report(late, "n2", "x", "/", "0.1.0").expect_err("late");
        assert!(
            sentence.contains("did not answer within 30 s"),
            "{sentence}"
        );
    }

    #[test]
    fn another_version_and_a_port_that_cannot_be_reached_are_no_reports() {
        let own = Report {
            rank: 0,
            size: 1,
            node: "n2".into(),
            built_with: String::new(),
            loaded: String::new(),
            nccl: Err("none".into()),
            hardware: None,
            gpus: 8,
            version: "0.1.0".into(),
            meeting: Some(Ok(())),
        };
        let judged = |own: &Report| {
            let answer = Answer {
                report: Some(own.clone()),
                code: Some(0),
                ..Answer::default()
            };
            report(answer, "n2", "x", "/", "0.1.0").map(|report| report.gpus)
        };
        assert_eq!(judged(&own), Ok(8));
        let older = Report {
            version: "0.0.9".into(),
            ..own.clone()
        };
        let why = judged(&older).expect_err("another version");
        assert!(
            why.contains("it has pxnbench 0.0.9 and this is 0.1.0"),
            "{why}"
        );
        let unreachable = Report {
            meeting: Some(Err("it cannot reach n1:29500".into())),
            ..own
        };
        assert_eq!(judged(&unreachable), Err("it cannot reach n1:29500".into()));
    }
}
