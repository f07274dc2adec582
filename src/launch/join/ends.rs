//! How the ranks of a node ended, and what that means: which one failed first, the exit code, and
//! the sentence. Pure.

use crate::{
    exit::Code,
    launch::supervisor::{HowItEnded, ProcessEnd, first_failure, own_code},
    world::signal,
};

/// The end of a node's ranks.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NodeEnd {
    pub(super) code: Code,
    /// What none of the ranks can have said.
    pub(super) sentence: Option<String>,
}

/// Judges the ends of ranks on `host`. `sees_rank_0` is whether the messages of rank 0 are on the
/// same terminal; `stopped_by` is the signal that asked this process to stop.
pub(super) fn judge(
    ends: &[ProcessEnd],
    host: &str,
    sees_rank_0: bool,
    stopped_by: Option<&str>,
) -> NodeEnd {
    let Some(first) = first_failure(ends) else {
        return NodeEnd {
            code: Code::Fine,
            sentence: None,
        };
    };
    if let Some(signal) = stopped_by {
        return stopped(ends, signal);
    }
    let rank = format!("rank {} on {host}", first.number);
    let ended = ended_ranks(ends);
    let own = match (first.how, first.code()) {
        (HowItEnded::Signal(signal), _) => Some(format!(
            "{rank} was ended by a signal ({}), which ended the run; finished cases are kept",
            signal::name(signal)
        )),
        (HowItEnded::Remains, _) => Some(format!(
            "{rank} does not end, although it was killed: the kernel is waiting in a driver or a \
             file system. Look at dmesg"
        )),
        (HowItEnded::Exit(number), None) => Some(format!(
            "{rank} ended with exit code {number}, which is not one of pxnbench's, so a wrapper, \
             the shell or a library may have ended it: see the output above"
        )),
        // The rank said why; on other nodes than that of rank 0 it may have left that to rank 0.
        (HowItEnded::Exit(_), Some(Code::Stopped)) => None,
        (HowItEnded::Exit(number), Some(_)) if !sees_rank_0 => Some(format!(
            "{rank} ended with exit code {number}. If no message above says why, rank 0 does, on \
             node 0"
        )),
        (HowItEnded::Exit(number), Some(_)) => ended
            .is_some()
            .then(|| format!("{rank} ended with exit code {number}")),
    };
    let sentence = own.map(|own| match ended {
        Some(ended) => format!("{own}; {ended}"),
        None => own,
    });
    NodeEnd {
        code: first.code().unwrap_or(Code::Launch),
        sentence,
    }
}

/// Returns the end of ranks that were stopped from outside. Those that had begun say so themselves.
fn stopped(ends: &[ProcessEnd], signal: &str) -> NodeEnd {
    let code = own_code(ends);
    let before = format!("stopped by {signal} before the ranks began");
    NodeEnd {
        code: code.unwrap_or(Code::Stopped),
        sentence: code.is_none().then_some(before),
    }
}

/// Returns which ranks were ended because they did not end by themselves.
fn ended_ranks(ends: &[ProcessEnd]) -> Option<String> {
    let ended = ends.iter().filter(|end| end.was_asked);
    let mut ranks: Vec<u32> = ended.map(|end| end.number).collect();
    ranks.sort_unstable();
    let ranks: Vec<String> = ranks.iter().map(u32::to_string).collect();
    match &ranks[..] {
        [] => None,
        [rank] => Some(format!("rank {rank} did not end by itself and was ended")),
        ranks => Some(format!(
            "ranks {} did not end by themselves and were ended",
            ranks.join(", ")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KILLED: HowItEnded = HowItEnded::Signal(libc::SIGKILL);

    fn end(number: u32, how: HowItEnded) -> ProcessEnd {
        ProcessEnd {
            number,
            how,
            was_asked: false,
        }
    }

    fn ended(number: u32, how: HowItEnded) -> ProcessEnd {
        ProcessEnd {
            was_asked: true,
            ..end(number, how)
        }
    }

    fn judged(ends: &[ProcessEnd], node: u32) -> (Code, String) {
        let NodeEnd { code, sentence } = judge(ends, "n1", node == 0, None);
        (code, sentence.unwrap_or_default())
    }

    #[test]
    fn ranks_that_end_well_need_no_word() {
        let ends = [end(1, HowItEnded::Exit(0)), end(0, HowItEnded::Exit(0))];
        assert_eq!(judged(&ends, 0), (Code::Fine, String::new()));
        assert_eq!(judged(&[], 0), (Code::Fine, String::new()));
    }

    #[test]
    fn the_first_failure_decides_and_not_those_that_were_ended_after_it() {
        let ends = [
            ended(0, HowItEnded::Exit(9)),
            end(2, HowItEnded::Exit(7)),
            end(1, HowItEnded::Exit(8)),
        ];
        let (code, sentence) = judged(&ends, 0);
        assert_eq!(code, Code::WrongData);
        assert_eq!(
            sentence,
            "rank 2 on n1 ended with exit code 7; rank 0 did not end by itself and was ended"
        );
        assert_eq!(judged(&ends[1..], 0), (Code::WrongData, String::new()));
    }

    #[test]
    fn a_rank_that_was_killed_comes_before_those_that_only_lost_it() {
        let ends = [
            end(0, HowItEnded::Exit(8)),
            end(3, KILLED),
            ended(2, HowItEnded::Signal(libc::SIGTERM)),
            ended(1, KILLED),
        ];
        let (code, sentence) = judged(&ends, 0);
        assert_eq!(code, Code::Launch);
        assert_eq!(
            sentence,
            "rank 3 on n1 was ended by a signal (SIGKILL), which ended the run; finished cases \
             are kept; ranks 1, 2 did not end by themselves and were ended"
        );
    }

    #[test]
    fn a_node_without_rank_0_says_where_to_look() {
        let (code, sentence) = judged(&[end(4, HowItEnded::Exit(6))], 1);
        assert_eq!(code, Code::Usage);
        assert!(
            sentence.contains("rank 4 on n1") && sentence.contains("on node 0"),
            "{sentence}"
        );
        assert_eq!(
            judged(&[end(4, HowItEnded::Exit(9))], 1),
            (Code::Stopped, String::new())
        );
    }

    #[test]
    fn a_code_of_something_else_is_a_broken_launch() {
        let (code, sentence) = judged(&[end(0, HowItEnded::Exit(127))], 0);
        assert_eq!(code, Code::Launch);
        assert!(sentence.contains("exit code 127"), "{sentence}");
        let (code, sentence) = judged(&[ended(0, HowItEnded::Remains)], 0);
        assert_eq!(code, Code::Launch);
        assert!(sentence.contains("does not end"), "{sentence}");
    }

    #[test]
    fn a_stop_from_outside_is_no_failure_of_a_rank() {
        let stop = |ends: &[ProcessEnd]| judge(ends, "n1", true, Some("SIGTERM"));
        let by_itself = stop(&[ended(1, HowItEnded::Exit(9)), ended(0, HowItEnded::Exit(9))]);
        assert_eq!(
            by_itself,
            NodeEnd {
                code: Code::Stopped,
                sentence: None
            }
        );
        let early = stop(&[ended(0, HowItEnded::Signal(libc::SIGTERM))]);
        assert_eq!(early.code, Code::Stopped);
        assert!(
            early
                .sentence
                .is_some_and(|sentence| sentence.contains("SIGTERM"))
        );
        let fine = stop(&[ended(0, HowItEnded::Exit(0))]);
        assert_eq!(fine.code, Code::Fine);
    }
}
