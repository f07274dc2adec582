//! What systemd-logind does with the shared memory of users who log out: RemoveIPC, from its files
//! below a root.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::tree::names;
use crate::native::nvml::Reading;

/// The folders that systemd searches, by precedence: of files with the same name it reads the
/// first.
const FOLDERS: [&str; 4] = [
    "etc/systemd",
    "run/systemd",
    "usr/local/lib/systemd",
    "usr/lib/systemd",
];

/// systemd's RemoveIPC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveIpc {
    /// Whether it is on.
    pub is_on: bool,
    /// The file that sets it, or whose default it is.
    pub set_by: String,
}

/// Reads the RemoveIPC in force under `root`.
pub(super) fn remove_ipc(root: &Path) -> Reading<RemoveIpc> {
    let files = config_files(root);
    if files.is_empty() {
        return Reading::none("there is no logind.conf: systemd-logind is not configured here");
    }
    for file in files.iter().rev() {
        let text = fs::read_to_string(root.join(file)).unwrap_or_default();
        if let Some(is_on) = last_setting(&text) {
            let set_by = format!("/{}", file.display());
            return Reading::of(RemoveIpc { is_on, set_by });
        }
    }
    Reading::of(default_setting(root))
}

/// Returns the files that count, in the order in which systemd reads them: one main file, then the
/// drop-ins by name.
fn config_files(root: &Path) -> Vec<PathBuf> {
    let main = FOLDERS
        .iter()
        .map(|folder| Path::new(folder).join("logind.conf"))
        .find(|file| root.join(file).exists());
    let mut drop_ins = BTreeMap::new();
    for folder in FOLDERS.iter().rev() {
        let folder = Path::new(folder).join("logind.conf.d");
        for name in names(&root.join(&folder)) {
            if name.ends_with(".conf") {
                let file = folder.join(&name);
                drop_ins.insert(name, file);
            }
        }
    }
    main.into_iter().chain(drop_ins.into_values()).collect()
}

/// Returns the last RemoveIPC of a file that systemd understands; it ignores others.
fn last_setting(text: &str) -> Option<bool> {
    let mut is_in_section = false;
    let mut setting = None;
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') && line.ends_with(']') {
            is_in_section = line == "[Login]";
        } else if let Some((key, value)) = line.split_once('=')
            && is_in_section
            && key.trim_end() == "RemoveIPC"
        {
            setting = parse_boolean(value.trim_start()).or(setting);
        }
    }
    setting
}

/// Parses systemd's words for yes and no.
fn parse_boolean(word: &str) -> Option<bool> {
    match word.to_ascii_lowercase().as_str() {
        "1" | "yes" | "y" | "true" | "t" | "on" => Some(true),
        "0" | "no" | "n" | "false" | "f" | "off" => Some(false),
        _ => None,
    }
}

/// Returns the default that systemd was built with: yes, except in Red Hat Enterprise Linux and its
/// derivatives.
fn default_setting(root: &Path) -> RemoveIpc {
    if is_red_hat(root) {
        RemoveIpc {
            is_on: false,
            set_by: "the default of Red Hat Enterprise Linux".into(),
        }
    } else {
        RemoveIpc {
            is_on: true,
            set_by: "systemd's default".into(),
        }
    }
}

/// Returns whether this is Red Hat Enterprise Linux or derived from it. That Oracle's is like
/// Fedora does not count: Fedora's default is yes.
fn is_red_hat(root: &Path) -> bool {
    let release = fs::read_to_string(root.join("etc/os-release"))
        .or_else(|_| fs::read_to_string(root.join("usr/lib/os-release")))
        .unwrap_or_default();
    let ids = [
        release_value(&release, "ID"),
        release_value(&release, "ID_LIKE"),
    ];
    ids.iter()
        .flat_map(|ids| ids.split_whitespace())
        .any(|id| ["rhel", "centos", "ol"].contains(&id))
}

/// Returns the value of a key of os-release, without its quotes.
fn release_value<'a>(release: &'a str, key: &str) -> &'a str {
    let mut lines = release.lines();
    let value = lines.find_map(|line| line.trim().strip_prefix(key)?.strip_prefix('='));
    value.unwrap_or_default().trim_matches(['"', '\''])
}
