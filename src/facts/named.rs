//! The files, folders and plugins that variables name, and why one of them cannot be used.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{Error, ErrorKind},
    os::unix::fs::FileTypeExt,
    path::{Path, PathBuf},
};

use super::{plugins, tree::below};
use crate::{
    env::Env,
    levels::{
        conf::NcclSettings,
        paths::{Names, PATH_VARIABLES, PathVariable, plugin_names},
    },
    world::placement,
};

/// Returns, by variable, why what it names cannot be used; nothing for a variable whose value is
/// fine, or empty, or cannot be judged here.
pub(super) fn unusable(root: &Path, env: Env, settings: &NcclSettings) -> BTreeMap<String, String> {
    let mut unusable = BTreeMap::new();
    for variable in &PATH_VARIABLES {
        let value = settings.get(variable.name).unwrap_or_default();
        if value.is_empty() {
            continue;
        }
        if let Some(why) = why_unusable(root, env, variable, value) {
            unusable.insert(variable.name.to_owned(), why);
        }
    }
    unusable
}

fn why_unusable(root: &Path, env: Env, variable: &PathVariable, value: &str) -> Option<String> {
    match variable.names {
        Names::File => check(&place(root, value)?, is_readable),
        Names::Output => check(&place(root, folder_of(value)?.to_str()?)?, is_folder),
        Names::Plugins { prefix } => {
            let mut names = plugin_names(value);
            let missing = names.find(|name| plugins::file(root, env, prefix, name).is_none())?;
            Some(format!(
                "there is no {missing}, neither as a path nor where the loader searches \
                 (LD_LIBRARY_PATH, ldconfig -p)"
            ))
        }
    }
}

/// Returns where a path of the examined system is; `None` if it is relative and the system a copy,
/// which has no current folder.
fn place(root: &Path, path: &str) -> Option<PathBuf> {
    if path.starts_with('/') {
        return Some(below(root, path));
    }
    (root == Path::new("/")).then(|| PathBuf::from(path))
}

/// Returns the folder of a file that NCCL writes; `None` if its name has the process's number in
/// it. `%h` is the host.
fn folder_of(file: &str) -> Option<PathBuf> {
    let file = file.replace("%h", &placement::host_name());
    let folder = Path::new(&file).parent()?;
    let folder = match folder.as_os_str().is_empty() {
        true => Path::new("."),
        false => folder,
    };
    (!folder.to_string_lossy().contains("%p")).then(|| folder.to_owned())
}

fn check(path: &Path, usable: fn(&Path) -> Result<(), Error>) -> Option<String> {
    let error = usable(path).err()?;
    // The number of the error is of no interest.
    let text = error.to_string();
    Some(match text.split_once(" (os error") {
        Some((text, _)) => text.to_owned(),
        None => text,
    })
}

/// Checks that a file, or a folder as NCCL_HOME is one, can be opened.
fn is_readable(path: &Path) -> Result<(), Error> {
    if path.metadata()?.file_type().is_fifo() {
        let what = "it is a pipe, at which NCCL waits until something writes into it";
        return Err(Error::other(what));
    }
    File::open(path).map(drop)
}

fn is_folder(path: &Path) -> Result<(), Error> {
    if fs::metadata(path)?.is_dir() {
        Ok(())
    } else {
        Err(ErrorKind::NotADirectory.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unusable_with(name: &str, value: &str) -> Option<String> {
        let settings = NcclSettings::new([(name.to_owned(), value.to_owned())], []);
        let mut found = unusable(Path::new("/"), &|_| None, &settings);
        assert!(found.len() <= 1, "{found:?}");
        found.remove(name)
    }

    #[test]
    fn what_a_variable_names_and_is_not_there_is_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let there = folder.path().join("there");
        fs::write(&there, "").expect("written");
        let path = |path: PathBuf| path.to_string_lossy().into_owned();
        let nowhere = path(folder.path().join("no/such"));
        for name in ["NCCL_TOPO_FILE", "NCCL_GRAPH_FILE", "NCCL_CONF_FILE"] {
            assert_eq!(unusable_with(name, &path(there.clone())), None, "{name}");
            let why = unusable_with(name, &nowhere).expect("nothing is there");
            assert_eq!(why, "No such file or directory", "{name}");
        }
        for name in ["NCCL_DEBUG_FILE", "NCCL_TOPO_DUMP_FILE"] {
            let new = path(folder.path().join("new.%h.%p"));
            assert_eq!(unusable_with(name, &new), None, "{name}");
            assert_eq!(unusable_with(name, "new"), None, "the current folder");
            assert_eq!(unusable_with(name, "/no/%p/x"), None, "cannot be judged");
            assert!(unusable_with(name, &nowhere).is_some(), "{name}");
            assert!(unusable_with(name, "/no/such/%h/x.%p").is_some(), "{name}");
            let in_a_file = format!("{}/x", there.display());
            assert!(unusable_with(name, &in_a_file).is_some(), "{name}");
        }
        for name in [
            "NCCL_TUNER_PLUGIN",
            "NCCL_PROFILER_PLUGIN",
            "NCCL_ENV_PLUGIN",
        ] {
            assert_eq!(unusable_with(name, &path(there.clone())), None, "{name}");
            assert_eq!(unusable_with(name, "none"), None, "{name}");
            assert_eq!(unusable_with(name, ""), None, "{name}");
            assert!(unusable_with(name, &nowhere).is_some(), "{name}");
            assert!(
                unusable_with(name, "acme")
                    .expect("no library")
                    .contains("acme")
            );
        }
    }
}
