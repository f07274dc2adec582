//! What runs on a host, as the shell there reads it. ssh joins its words with blanks and gives them
//! to the user's login shell, which may be any.

use crate::launch::shell::quoted;

/// The exit code of a host that has not the folder of this process.
pub(super) const NO_FOLDER: i32 = 81;

/// A program on another host, in a folder and with variables.
pub(super) struct RemoteProgram<'a> {
    pub(super) folder: &'a str,
    /// Names and values.
    pub(super) variables: &'a [(String, String)],
    /// The program and its arguments.
    pub(super) words: &'a [String],
}

impl RemoteProgram<'_> {
    /// Returns the command line for the login shell of the host.
    ///
    /// # Errors
    /// Returns an error if a word has a null byte.
    pub(super) fn line(&self) -> anyhow::Result<String> {
        let mut words = vec!["exec".to_owned()];
        if !self.variables.is_empty() {
            words.push("env".into());
            for (name, value) in self.variables {
                words.push(quoted(&format!("{name}={value}"))?);
            }
        }
        for word in self.words {
            words.push(quoted(word)?);
        }
        let script = format!(
            "cd {} || exit {NO_FOLDER}; {}",
            quoted(self.folder)?,
            words.join(" ")
        );
        // Every login shell understands this much.
        Ok(format!("exec /bin/sh -c {}", quoted(&script)?))
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn every_word_and_variable_arrives_as_it_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let odd = folder.path().join("it's a \"folder\" $HOME");
        std::fs::create_dir(&odd).expect("made");
        let hard = [
            "",
            " ",
            "a b",
            "it's",
            "\"x\"",
            "$HOME `id` $(id)",
            "a\\b",
            "!x",
            "*",
            "~",
            "#",
            "a;b|c&d",
            "ü",
            "two\nlines",
            "-n",
        ];
        let script = "pwd; printf '%s|' \"$NCCL_ODD\" \"$@\"";
        let mut words: Vec<String> = ["sh", "-c", script, "name"].map(String::from).to_vec();
        words.extend(hard.map(String::from));
        let variables = [("NCCL_ODD".to_owned(), "o'd d\"$x".to_owned())];
        let program = RemoteProgram {
            folder: odd.to_str().expect("UTF-8"),
            variables: &variables,
            words: &words,
        };
        let line = program.line().expect("a line");
        let output = Command::new("sh").args(["-c", &line]).output().expect("sh");
        let printed = String::from_utf8(output.stdout).expect("UTF-8");
        let expected = format!("{}\no'd d\"$x|{}|", odd.display(), hard.join("|"));
        assert_eq!(printed, expected);
    }

    #[test]
    fn a_folder_that_is_missing_has_its_own_code() {
        let words = ["true".to_owned()];
        let program = RemoteProgram {
            folder: "/nonexistent/x",
            variables: &[],
            words: &words,
        };
        let line = program.line().expect("a line");
        let output = Command::new("sh").args(["-c", &line]).output().expect("sh");
        assert_eq!(output.status.code(), Some(NO_FOLDER));
    }
}
