//! [`RasAnswer`]: what NCCL's RAS said, and its gist. Pure.

use crate::visible::beginning;

/// The most characters of an answer that a message has.
const GIST: usize = 400;

/// The answer of RAS to `VERBOSE STATUS`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RasAnswer {
    /// What it said, with control characters shown.
    pub(super) text: String,
    /// Whether it said all.
    pub(super) is_whole: bool,
}

impl RasAnswer {
    /// Returns what a message says of it, as a clause without an end.
    pub(super) fn gist(&self) -> String {
        let (has_section, findings) = findings(&self.text);
        if !findings.is_empty() {
            let findings = findings.join("; ");
            return format!("NCCL's RAS reports {}", beginning(&findings, GIST));
        }
        if has_section && self.is_whole {
            "NCCL's RAS reports no error".to_owned()
        } else {
            "NCCL's RAS did not say whether there is an error".to_owned()
        }
    }
}

/// Returns whether there is a section of errors or warnings, and what is in them: a line for each,
/// such as
/// `#0-0 (3c1d…) INCOMPLETE: Missing communicator data from 1 rank, Rank 1 -- GPU 1 managed by process 4711 on node 10.0.0.1`.
fn findings(text: &str) -> (bool, Vec<String>) {
    let mut has_section = false;
    let mut findings: Vec<String> = Vec::new();
    let mut details = 0;
    for line in text.lines() {
        let words = line.trim();
        if matches!(line, "Errors" | "Warnings") {
            has_section = true;
        } else if !has_section || words.is_empty() || words.chars().all(|letter| letter == '=') {
            // Tables, and the line below a heading.
        } else if let (true, Some(finding)) = (line.starts_with(' '), findings.last_mut()) {
            finding.push_str(if details == 0 { ": " } else { ", " });
            finding.push_str(words);
            details += 1;
        } else {
            findings.push(words.to_owned());
            details = 0;
        }
    }
    (has_section, findings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn gist(text: &str, is_whole: bool) -> String {
        let text = text.to_owned();
        RasAnswer { text, is_whole }.gist()
    }

    const TABLES: &str = "NCCL version 2.27.3 compiled with CUDA 12.9\n\nJob summary\n===========\n\n  Nodes  Processes\n      1          2\n\n\
        Communicators... (1.00s)\n=============\n\nGroup     Comms\n    0         1\n";

    #[test]
    fn errors_and_warnings_are_the_gist() {
        let text = format!(
            "{TABLES}\nErrors\n======\n\n#0-0 (00c0ffee00c0ffee) INCOMPLETE\n  Missing \
             communicator data from 1 rank\n  Rank 1 -- GPU 1 managed by process 4711 on node \
             10.0.0.1\n\nWarnings\n========\n\nTIMEOUT\n  Encountered 1 communication timeout \
             while gathering communicator data\n\n"
        );
        assert_eq!(
            gist(&text, true),
            "NCCL's RAS reports #0-0 (00c0ffee00c0ffee) INCOMPLETE: Missing communicator data \
             from 1 rank, Rank 1 -- GPU 1 managed by process 4711 on node 10.0.0.1; TIMEOUT: \
             Encountered 1 communication timeout while gathering communicator data"
        );
    }

    #[test]
    fn no_error_is_said_only_of_a_whole_answer() {
        let text = format!("{TABLES}\nErrors\n======\n\nWarnings\n========\n\n");
        assert_eq!(gist(&text, true), "NCCL's RAS reports no error");
        let unknown = "NCCL's RAS did not say whether there is an error";
        assert_eq!(gist(&text, false), unknown);
        assert_eq!(gist(TABLES, true), unknown);
    }

    proptest! {
        #[test]
        fn a_gist_is_one_short_line(text in "(Errors\n)?(?s).{0,2000}") {
            let gist = gist(&text, true);
            prop_assert!(!gist.contains('\n') && gist.chars().count() < 6 * GIST + 100);
        }
    }
}
