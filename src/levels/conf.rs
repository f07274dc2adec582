//! The settings in force when files set variables too. NCCL reads the user's file and then
//! `/etc/nccl.conf`, and sets only what is not set yet: the environment comes first, then the
//! user's file, then the site's, and in a file the first line.

use std::collections::{BTreeMap, btree_map::Entry};

use serde::{Deserialize, Serialize};

use super::audit::known_names;
use crate::env::{self, Env};

/// A variable's value and its origin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectiveValue {
    /// The value, unchanged.
    pub value: String,
    /// The file that sets it; `None` for the environment.
    pub file: Option<String>,
}

/// The `NCCL_*` variables in force in a process, and what a library below NCCL once read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NcclSettings(BTreeMap<String, EffectiveValue>);

/// The size of NCCL's buffer for a name or a value; it cuts off the rest.
const LONGEST: usize = 1023;

/// Returns the files that NCCL reads, the one that wins first: `NCCL_CONF_FILE`, or `.nccl.conf` in
/// the home directory, then `/etc/nccl.conf`. (Before 2.23 NCCL ignores `NCCL_CONF_FILE`, and
/// before 2.30 it takes the home directory from the password file, which rarely differs from
/// `HOME`.)
pub fn files(env: Env) -> Vec<String> {
    let named = env("NCCL_CONF_FILE").filter(|path| !path.is_empty());
    let users = named.or_else(|| Some(format!("{}/.nccl.conf", env("HOME")?)));
    let mut files = Vec::from_iter(users);
    files.push("/etc/nccl.conf".to_owned());
    files
}

/// Returns the names and values that a file sets, in its order. The only syntax is `NAME=VALUE` at
/// the start of a line: quotes and spaces belong to the value, and a line with `export` sets a
/// variable whose name nobody reads.
pub(super) fn lines(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split('\n').filter_map(line)
}

/// Reads the name and the value of a line.
pub(super) fn line(line: &str) -> Option<(&str, &str)> {
    if line.starts_with('#') {
        return None;
    }
    let (name, value) = line.split_once('=')?;
    let value = value.strip_suffix('\r').unwrap_or(value);
    Some((cut(name), cut(value)))
}

/// Returns the part of a text that fits into NCCL's buffer.
fn cut(text: &str) -> &str {
    let mut end = LONGEST.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Returns the prefixes of the variables that count: NCCL's, and those of libraries below it whose
/// names are audited.
fn prefixes() -> impl Iterator<Item = &'static str> {
    let retired = known_names::retired()
        .iter()
        .map(|names| names.prefix.as_str());
    std::iter::once("NCCL_").chain(retired)
}

/// Returns whether a variable counts.
pub(super) fn is_audited(name: &str) -> bool {
    prefixes().any(|prefix| name.starts_with(prefix))
}

/// Returns whether a text contains the beginning of the name of such a variable.
pub(super) fn mentions_audited(text: &str) -> bool {
    prefixes().any(|prefix| text.contains(prefix))
}

impl NcclSettings {
    /// Merges the environment `variables` and `files`, which are names and texts in the order of
    /// [`files()`]. Values of secrets are left out.
    pub fn new<'a>(
        variables: impl IntoIterator<Item = (String, String)>,
        files: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> NcclSettings {
        let mut all = BTreeMap::new();
        for (name, value) in variables {
            if is_audited(&name) {
                let value = env::recorded(&name, value);
                all.insert(name, EffectiveValue { value, file: None });
            }
        }
        for (file, text) in files {
            for (name, value) in lines(text).filter(|(name, _)| is_audited(name)) {
                if let Entry::Vacant(vacant) = all.entry(name.to_owned()) {
                    vacant.insert(EffectiveValue {
                        value: env::recorded(name, value.to_owned()),
                        file: Some(file.to_owned()),
                    });
                }
            }
        }
        NcclSettings(all)
    }

    /// Returns the value of a variable.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|setting| setting.value.as_str())
    }

    /// Returns the value of a variable and its origin.
    pub fn setting(&self, name: &str) -> Option<&EffectiveValue> {
        self.0.get(name)
    }

    /// Returns all settings by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &EffectiveValue)> {
        let all = self.0.iter();
        all.map(|(name, setting)| (name.as_str(), setting))
    }

    /// Keeps the settings whose name is wanted.
    #[must_use]
    pub fn only(mut self, wanted: impl Fn(&str) -> bool) -> NcclSettings {
        self.0.retain(|name, _| wanted(name));
        self
    }

    /// Adds `set` to the environment. A variable that was in the environment wins; one that a file
    /// sets is overridden.
    #[must_use]
    pub fn with(mut self, set: Vec<(String, String)>) -> NcclSettings {
        for (name, value) in set {
            let current = self.0.get(&name);
            if current.is_none_or(|setting| setting.file.is_some()) {
                self.0.insert(name, EffectiveValue { value, file: None });
            }
        }
        self
    }

    /// Describes a variable: `NAME=VALUE`, followed by the file if one sets it; `NAME is not set`.
    pub fn describe(&self, name: &str) -> String {
        match self.0.get(name) {
            None => format!("{name} is not set"),
            Some(EffectiveValue { value, file: None }) => format!("{name}={value}"),
            Some(EffectiveValue {
                value,
                file: Some(file),
            }) => format!("{name}={value} (in {file})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_force(env: &[(&str, &str)], files: &[(&str, &str)]) -> NcclSettings {
        NcclSettings::new(
            env.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())),
            files.iter().copied(),
        )
    }

    #[test]
    fn the_environment_comes_before_the_users_file_and_that_before_the_sites() {
        let settings = in_force(
            &[("NCCL_A", "env"), ("NCCL_EMPTY", ""), ("HOME", "/root")],
            &[
                (
                    "mine",
                    "NCCL_A=mine\nNCCL_B=mine\nNCCL_B=again\nNCCL_EMPTY=1",
                ),
                ("site", "NCCL_A=site\nNCCL_B=site\nNCCL_C=site\n"),
            ],
        );
        let all: Vec<_> = ["NCCL_A", "NCCL_B", "NCCL_C", "NCCL_D"]
            .iter()
            .map(|name| settings.describe(name))
            .collect();
        assert_eq!(
            all,
            [
                "NCCL_A=env",
                "NCCL_B=mine (in mine)",
                "NCCL_C=site (in site)",
                "NCCL_D is not set"
            ]
        );
        assert_eq!(
            settings.get("NCCL_EMPTY"),
            Some(""),
            "set to nothing is set"
        );
        assert_eq!(settings.get("HOME"), None);
        // What the program sets is the environment: it wins over files, and not over what is there.
        let set = ["NCCL_A", "NCCL_C"].map(|name| (name.to_owned(), "set".to_owned()));
        let settings = settings.with(set.to_vec());
        assert_eq!(
            (settings.get("NCCL_A"), settings.get("NCCL_C")),
            (Some("env"), Some("set"))
        );
    }

    #[test]
    fn a_file_is_read_as_nccl_reads_it() {
        let long = format!("NCCL_LONG={}é", "x".repeat(1022));
        let text = format!(
            "# NCCL_COMMENT=1\nNCCL_CR=1\r\nNCCL_EQ==mlx5_0\nexport NCCL_EXPORT=1\n NCCL_INDENTED=1\nNCCL_SPACE =1\n\
             NCCL_QUOTED=\"1\"\nNCCL_NO_VALUE\nNCCL_TAIL=1 # why\nNCCL_NOTHING=\n{long}\nNCCL_LAST=1"
        );
        let settings = in_force(&[], &[("f", &text)]);
        let all: Vec<_> = settings
            .iter()
            .map(|(name, s)| format!("{name}={}", s.value))
            .collect();
        let expected = [
            "NCCL_CR=1",
            "NCCL_EQ==mlx5_0",
            "NCCL_LAST=1",
            &format!("NCCL_LONG={}", "x".repeat(1022)),
            "NCCL_NOTHING=",
            "NCCL_QUOTED=\"1\"",
            "NCCL_SPACE =1",
            "NCCL_TAIL=1 # why",
        ];
        assert_eq!(all, expected);
    }

    #[test]
    fn a_named_file_replaces_the_one_at_home() {
        let env = |pairs: &'static [(&str, &str)]| {
            move |name: &str| {
                pairs
                    .iter()
                    .find(|(n, _)| *n == name)
                    .map(|(_, v)| (*v).to_owned())
            }
        };
        assert_eq!(
            files(&env(&[("HOME", "/h")])),
            ["/h/.nccl.conf", "/etc/nccl.conf"]
        );
        assert_eq!(
            files(&env(&[("HOME", "/h"), ("NCCL_CONF_FILE", "/x")])),
            ["/x", "/etc/nccl.conf"]
        );
        assert_eq!(
            files(&env(&[("HOME", "/h"), ("NCCL_CONF_FILE", "")])),
            ["/h/.nccl.conf", "/etc/nccl.conf"]
        );
        assert_eq!(files(&|_| None), ["/etc/nccl.conf"]);
    }
}
