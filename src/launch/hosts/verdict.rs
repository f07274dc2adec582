//! What the ends of the sessions on all hosts mean. Pure.

use super::ssh::SSH_FAILED;
use crate::{
    exit::Code,
    launch::supervisor::{HowItEnded, ProcessEnd, first_failure, own_code},
    world::signal,
};

/// Returns the exit code, and what no host can have said. `ends` are in the order in which they
/// came, by the number of the host; `last` is the last line of each host on stderr.
pub(super) fn judge(
    ends: &[ProcessEnd],
    hosts: &[&str],
    last: &[String],
    stopped_by: Option<&str>,
) -> (Code, Option<String>) {
    let Some(first) = first_failure(ends) else {
        return (Code::Fine, None);
    };
    if stopped_by.is_some() {
        return (own_code(ends).unwrap_or(Code::Stopped), None);
    }
    let host = hosts[first.number as usize];
    let sentence = match first.how {
        // The ranks there said why.
        HowItEnded::Exit(_) if first.code().is_some() => None,
        HowItEnded::Exit(SSH_FAILED) => {
            let why = match last[first.number as usize].as_str() {
                "" => "ssh does not say why",
                line => line,
            };
            Some(format!(
                "the connection to {host} was lost: {why}. Its ranks end too; finished cases are \
                 kept"
            ))
        }
        HowItEnded::Exit(number) => Some(format!(
            "the ranks of {host} ended with exit code {number}, which is not one of pxnbench's: a \
             wrapper, the shell or a library may have ended them. See the output above"
        )),
        HowItEnded::Signal(number) => Some(format!(
            "ssh to {host} was ended by a signal ({}). Its ranks end too; finished cases are kept",
            signal::name(number)
        )),
        HowItEnded::Remains => Some(format!(
            "ssh to {host} does not end, although it was killed"
        )),
    };
    (first.code().unwrap_or(Code::Launch), sentence)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(ends: &[(u32, HowItEnded, bool)], stopped_by: Option<&str>) -> (Code, String) {
        let ends: Vec<ProcessEnd> = ends
            .iter()
            .map(|(number, how, was_asked)| ProcessEnd {
                number: *number,
                how: *how,
                was_asked: *was_asked,
            })
            .collect();
        let last = ["", "Connection to n2 closed by remote host."].map(String::from);
        let (code, sentence) = judge(&ends, &["n1", "n2"], &last, stopped_by);
        (code, sentence.unwrap_or_default())
    }

    #[test]
    fn the_host_that_failed_first_decides() {
        let exit = HowItEnded::Exit;
        assert_eq!(
            judged(&[(0, exit(0), false), (1, exit(0), false)], None).0,
            Code::Fine
        );
        let ends = [(1, exit(7), false), (0, exit(8), false)];
        assert_eq!(judged(&ends, None), (Code::WrongData, String::new()));
        let ends = [(0, exit(9), true), (1, exit(3), false)];
        assert_eq!(judged(&ends, None), (Code::Nccl, String::new()));
    }

    #[test]
    fn a_lost_connection_is_named_with_what_ssh_says() {
        let ends = [
            (1, HowItEnded::Exit(255), false),
            (0, HowItEnded::Exit(8), true),
        ];
        let (code, sentence) = judged(&ends, None);
        assert_eq!(code, Code::Launch);
        assert!(
            sentence.contains("the connection to n2 was lost: Connection to n2 closed"),
            "{sentence}"
        );
        let killed = [(0, HowItEnded::Signal(libc::SIGKILL), false)];
        let (code, sentence) = judged(&killed, None);
        assert_eq!(code, Code::Launch);
        assert!(
            sentence.contains("ssh to n1 was ended by a signal (SIGKILL)"),
            "{sentence}"
        );
    }

    #[test]
    fn a_stop_that_was_asked_for_is_no_failure() {
        let ends = [
            (0, HowItEnded::Exit(9), true),
            (1, HowItEnded::Exit(255), true),
        ];
        assert_eq!(
            judged(&ends, Some("SIGINT")),
            (Code::Stopped, String::new())
        );
    }
}
