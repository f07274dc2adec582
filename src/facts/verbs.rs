//! What a program needs to use RDMA adapters besides their device files: libibverbs, and for each
//! kind of adapter a provider, which libibverbs loads.

use std::{collections::BTreeSet, path::Path};

use serde::{Deserialize, Serialize};

use super::{
    plugins,
    tree::{below, names, text},
};
use crate::env::Env;

/// The file that NCCL loads.
const LIBRARY: &str = "libibverbs.so.1";

/// The folder of files that name providers, one each.
const PROVIDER_LIST: &str = "/etc/libibverbs.d";

/// libibverbs, as the loader finds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Libibverbs {
    /// Its path.
    pub path: String,
    /// The names of its providers, such as `mlx5`.
    pub providers: BTreeSet<String>,
}

/// Returns the libibverbs that a process would load, with its providers.
pub(super) fn libibverbs(root: &Path, env: Env) -> Option<Libibverbs> {
    let path = plugins::library(root, env, LIBRARY)?;
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut providers = BTreeSet::new();
    // Distributions put them into a folder beside the library, or beside the library itself.
    for folder in [format!("{folder}/libibverbs"), folder.to_owned()] {
        let files = names(&below(root, &folder));
        providers.extend(files.iter().filter_map(|file| provider_name(file)));
    }
    providers.extend(listed_by_path(root));
    Some(Libibverbs { path, providers })
}

/// Returns the name in `libNAME-rdmavVERSION.so`.
fn provider_name(file: &str) -> Option<String> {
    let (name, version) = file.strip_prefix("lib")?.split_once("-rdmav")?;
    version.ends_with(".so").then(|| name.to_owned())
}

/// Returns the providers that the list names by a path, as Enroot does for those of the host.
fn listed_by_path(root: &Path) -> Vec<String> {
    let mut providers = Vec::new();
    let list = below(root, PROVIDER_LIST);
    for name in names(&list) {
        let line = text(&list.join(&name));
        let Some(path) = line.strip_prefix("driver ").map(str::trim) else {
            continue;
        };
        let (folder, stem) = path.rsplit_once('/').unwrap_or(("", path));
        let mut files = names(&below(root, folder)).into_iter();
        if path.starts_with('/') && files.any(|file| file.starts_with(stem)) {
            providers.push(name.trim_end_matches(".driver").to_owned());
        }
    }
    providers
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn providers(files: &[(&str, &str)]) -> Option<Vec<String>> {
        let root = tempfile::tempdir().expect("a folder");
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            fs::write(path, text).expect("written");
        }
        let library = libibverbs(root.path(), &|_| None)?;
        Some(library.providers.into_iter().collect())
    }

    #[test]
    fn providers_are_beside_the_library_or_listed_by_path() {
        let library = ("usr/lib64/libibverbs.so.1", "");
        assert_eq!(providers(&[]), None);
        assert_eq!(providers(&[library]), Some(vec![]));
        let beside = ("usr/lib64/libibverbs/libmlx5-rdmav34.so", "");
        assert_eq!(providers(&[library, beside]), Some(vec!["mlx5".into()]));
        // The name alone is that of a file beside the library.
        let listed = ("etc/libibverbs.d/mlx4.driver", "driver mlx4\n");
        assert_eq!(providers(&[library, listed]), Some(vec![]));
        let by_path = ("etc/libibverbs.d/efa.driver", "driver /opt/rdma/libefa\n");
        assert_eq!(providers(&[library, by_path]), Some(vec![]));
        let file = ("opt/rdma/libefa-rdmav34.so", "");
        assert_eq!(
            providers(&[library, beside, by_path, file]),
            Some(vec!["efa".into(), "mlx5".into()])
        );
    }
}
