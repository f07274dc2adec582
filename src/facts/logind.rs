//! What systemd-logind does with shared memory of users who leave: RemoveIPC, from its files below a root.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::tree::names;
use crate::native::nvml::Reading;

/// Where systemd looks, the first place first: of files with one name it reads the first.
const PLACES: [&str; 4] = ["etc", "run", "usr/local/lib", "usr/lib"];

/// RemoveIPC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveIpc {
    /// Is it on?
    pub is_on: bool,
    /// The file that sets it, or whose default it is.
    pub by: String,
}

/// RemoveIPC in force under `root`.
pub(super) fn remove_ipc(root: &Path) -> Reading<RemoveIpc> {
    let files = files(root);
    if files.is_empty() {
        return Reading::none("there is no logind.conf: systemd-logind is not configured here");
    }
    let set = files.iter().rev().find_map(|file| {
        let is_on = last_set(&fs::read_to_string(root.join(file)).ok()?)?;
        Some(RemoveIpc {
            is_on,
            by: format!("/{}", file.display()),
        })
    });
    Reading::of(set.unwrap_or_else(|| default(root)))
}

/// The files that count, in the order in which systemd reads them: one main file, then those beside it by name.
fn files(root: &Path) -> Vec<PathBuf> {
    let place = |place: &str, file: &str| Path::new(place).join("systemd").join(file);
    let main = PLACES
        .iter()
        .map(|name| place(name, "logind.conf"))
        .find(|file| root.join(file).exists());
    let mut more = BTreeMap::new();
    for folder in PLACES.iter().rev().map(|name| place(name, "logind.conf.d")) {
        let conf = names(&root.join(&folder))
            .into_iter()
            .filter(|name| name.ends_with(".conf"));
        more.extend(conf.map(|name| (name.clone(), folder.join(name))));
    }
    main.into_iter().chain(more.into_values()).collect()
}

/// The last RemoveIPC of a file that systemd understands; it passes over others.
fn last_set(text: &str) -> Option<bool> {
    let mut section = "";
    let mut set = None;
    for line in text.lines().map(str::trim) {
        match (
            line.strip_prefix('[')
                .and_then(|rest| rest.strip_suffix(']')),
            line.split_once('='),
        ) {
            (Some(name), _) => section = name,
            (None, Some((key, value))) if section == "Login" && key.trim_end() == "RemoveIPC" => {
                set = boolean(value.trim_start()).or(set);
            }
            _ => (),
        }
    }
    set
}

/// systemd's words for yes and no.
fn boolean(word: &str) -> Option<bool> {
    match word.to_ascii_lowercase().as_str() {
        "1" | "yes" | "y" | "true" | "t" | "on" => Some(true),
        "0" | "no" | "n" | "false" | "f" | "off" => Some(false),
        _ => None,
    }
}

/// What systemd was built with: yes, but no in Red Hat Enterprise Linux and what is made from it.
fn default(root: &Path) -> RemoveIpc {
    let read = |path: &str| fs::read_to_string(root.join(path)).ok();
    let release = read("etc/os-release")
        .or_else(|| read("usr/lib/os-release"))
        .unwrap_or_default();
    let value = |key: &str| {
        let value = release
            .lines()
            .find_map(|line| line.trim().strip_prefix(key)?.strip_prefix('='));
        value
            .unwrap_or_default()
            .trim_matches(['"', '\''])
            .to_owned()
    };
    // Oracle's says only that it is like Fedora, where the default is yes.
    let is_made_from = |id: &str| ["rhel", "centos", "ol"].contains(&id);
    let is_red_hat = [value("ID"), value("ID_LIKE")]
        .iter()
        .any(|ids| ids.split_whitespace().any(is_made_from));
    let by = if is_red_hat {
        "the default of Red Hat Enterprise Linux"
    } else {
        "systemd's default"
    };
    RemoveIpc {
        is_on: !is_red_hat,
        by: by.into(),
    }
}
