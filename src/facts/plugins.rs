//! Plugins of NCCL and other libraries, found as the dynamic loader finds them: LD_LIBRARY_PATH,
//! ldconfig's list, the system's folders. Below a root, so that a copied tree gives the same answer
//! as its machine.

use std::{collections::BTreeMap, fs, path::Path};

use super::tree::{below, names};
use crate::{env::Env, levels::paths::plugin_names};

/// The folders that the loader searches last.
const SYSTEM: [&str; 4] = ["/lib64", "/usr/lib64", "/lib", "/usr/lib"];

/// The prefix of the file names of network plugins.
const PREFIX: &str = "libnccl-net";

/// Returns the network plugins that a process would find by name, in the loader's order.
pub(super) fn installed(root: &Path, env: Env) -> Vec<String> {
    let is_plugin = |name: &str| name.starts_with(PREFIX) && name.contains(".so");
    let mut plugins = Vec::new();
    for path in libraries(root, env, &is_plugin) {
        if !plugins.contains(&path) {
            plugins.push(path);
        }
    }
    plugins
}

/// Returns the file of each plugin in `list`, a value of NCCL_NET_PLUGIN; `None` for a plugin that
/// does not exist.
pub(super) fn named(root: &Path, env: Env, list: &str) -> BTreeMap<String, Option<String>> {
    let mut plugins = BTreeMap::new();
    for name in plugin_names(list) {
        plugins.insert(name.to_owned(), file(root, env, PREFIX, name));
    }
    plugins
}

/// Returns the file of a plugin: NCCL takes the name as a path, as a file name, or as the NAME in
/// `PREFIX-NAME.so`.
pub(super) fn file(root: &Path, env: Env, prefix: &str, name: &str) -> Option<String> {
    if name.contains('/') {
        return below(root, name).exists().then(|| name.to_owned());
    }
    let long_name = format!("{prefix}-{name}.so");
    let is_named = |file: &str| file == name || file == long_name;
    libraries(root, env, &is_named).into_iter().next()
}

/// Returns the path of a library that a process would load by this name.
pub(super) fn library(root: &Path, env: Env, name: &str) -> Option<String> {
    libraries(root, env, &|file| file == name)
        .into_iter()
        .next()
}

/// Returns the paths of the libraries whose file name is wanted, in the loader's order.
fn libraries(root: &Path, env: Env, is_wanted: &dyn Fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    let library_path = env("LD_LIBRARY_PATH").unwrap_or_default();
    for folder in library_path.split(':') {
        if folder.starts_with('/') {
            found.extend(libraries_in(root, folder, is_wanted));
        }
    }
    for path in listed_by_ldconfig(root) {
        let name = path.rsplit('/').next().unwrap_or_default();
        if is_wanted(name) {
            found.push(path);
        }
    }
    for folder in SYSTEM {
        found.extend(libraries_in(root, folder, is_wanted));
    }
    found
}

fn libraries_in(root: &Path, folder: &str, is_wanted: &dyn Fn(&str) -> bool) -> Vec<String> {
    let mut names = names(&below(root, folder));
    names.retain(|name| is_wanted(name));
    let folder = folder.trim_end_matches('/');
    names
        .iter()
        .map(|name| format!("{folder}/{name}"))
        .collect()
}

/// Returns the libraries in ldconfig's list that exist. The strings in the list end in zero bytes,
/// and only paths among them begin with `/`; the first string may follow the table without a byte
/// between.
fn listed_by_ldconfig(root: &Path) -> Vec<String> {
    let cache = fs::read(root.join("etc/ld.so.cache")).unwrap_or_default();
    let mut paths = Vec::new();
    for bytes in cache.split(|byte| *byte == 0) {
        let Some(start) = bytes.iter().position(|byte| *byte == b'/') else {
            continue;
        };
        if let Ok(path) = std::str::from_utf8(&bytes[start..])
            && below(root, path).exists()
        {
            paths.push(path.to_owned());
        }
    }
    paths
}
