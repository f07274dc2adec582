//! Network plugins of NCCL, where the dynamic loader finds them: LD_LIBRARY_PATH, what ldconfig has listed, the system's
//! folders. Below a root, so that a copied tree answers as its machine.

use std::{collections::BTreeMap, fs, path::Path};

use super::tree::names;
use crate::env::Env;

/// Folders that the loader looks into after all others.
const SYSTEM: [&str; 4] = ["/lib64", "/usr/lib64", "/lib", "/usr/lib"];

/// How the files of network plugins begin.
const PREFIX: &str = "libnccl-net";

/// The network plugins that a process would find by name, in the loader's order.
pub(super) fn all(root: &Path, env: Env) -> Vec<String> {
    let is_plugin = |name: &str| name.starts_with(PREFIX) && name.contains(".so");
    let mut all = Vec::new();
    for path in candidates(root, env, is_plugin) {
        if !all.contains(&path) {
            all.push(path);
        }
    }
    all
}

/// The file of each plugin that `list` names, as NCCL_NET_PLUGIN does; `None` for one that is not there. NCCL takes a name
/// for itself, for `libnccl-net-NAME.so`, or for a path.
pub(super) fn named(root: &Path, env: Env, list: &str) -> BTreeMap<String, Option<String>> {
    let file = |name: &str| match name.contains('/') {
        true => root
            .join(name.trim_start_matches('/'))
            .exists()
            .then(|| name.to_owned()),
        false => {
            let long = format!("{PREFIX}-{name}.so");
            candidates(root, env, |file| file == name || file == long)
                .into_iter()
                .next()
        }
    };
    list.split(',')
        .filter(|name| !name.is_empty())
        .map(|name| (name.to_owned(), file(name)))
        .collect()
}

/// Paths of libraries whose file name is wanted.
fn candidates(root: &Path, env: Env, is_wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let inside = |folder: &str| {
        let found = names(&root.join(folder.trim_start_matches('/')))
            .into_iter()
            .filter(|name| is_wanted(name));
        found
            .map(|name| format!("{}/{name}", folder.trim_end_matches('/')))
            .collect::<Vec<_>>()
    };
    let set = env("LD_LIBRARY_PATH").unwrap_or_default();
    let mut found: Vec<String> = set
        .split(':')
        .filter(|folder| folder.starts_with('/'))
        .flat_map(inside)
        .collect();
    let last = |path: &str| path.rsplit('/').next().is_some_and(&is_wanted);
    found.extend(listed(root).into_iter().filter(|path| last(path)));
    found.extend(SYSTEM.into_iter().flat_map(inside));
    found
}

/// The libraries in ldconfig's list that are there. Its strings end in zero bytes, and of those only paths begin with `/`;
/// the first may follow the table without a byte between.
fn listed(root: &Path) -> Vec<String> {
    let bytes = fs::read(root.join("etc/ld.so.cache")).unwrap_or_default();
    let path = |bytes: &[u8]| {
        let at = bytes.iter().position(|byte| *byte == b'/')?;
        let path = std::str::from_utf8(&bytes[at..]).ok()?;
        root.join(path.trim_start_matches('/'))
            .exists()
            .then(|| path.to_owned())
    };
    bytes.split(|byte| *byte == 0).filter_map(path).collect()
}
