//! Finding and loading the library.

use std::{
    env,
    error::Error,
    ffi::{OsStr, OsString, c_void},
    mem::ManuallyDrop,
    path::{Path, PathBuf},
    ptr,
    sync::Arc,
};

use libloading::{
    Library,
    os::unix::{Library as UnixLibrary, RTLD_LOCAL, RTLD_NOW},
};

use super::{
    library::{Nccl, Symbols, failure},
    version::{NcclVersion, OLDEST},
};
use crate::native::symbol::file_of;

/// Names of the library's file, in the order in which they are tried.
const NAMES: [&str; 2] = ["libnccl.so.2", "libnccl.so"];

/// A place where the library may be.
#[derive(Debug, PartialEq, Eq)]
enum Candidate {
    /// A file. If it exists it is used, and a fault in it ends the search.
    File(PathBuf),
    /// A name that the dynamic loader looks up.
    Name(&'static str),
}

/// Lists where to look: only at `explicit` if it is given; otherwise in `$NCCL_HOME`, then where
/// the system looks.
fn candidates(explicit: Option<&Path>, nccl_home: Option<&OsStr>) -> Vec<Candidate> {
    if let Some(path) = explicit {
        return vec![Candidate::File(path.to_owned())];
    }
    let home = nccl_home.filter(|home| !home.is_empty()).map(Path::new);
    let folders = home
        .into_iter()
        .flat_map(|home| [home.join("lib"), home.join("lib64")]);
    let files = folders.flat_map(|folder| NAMES.map(|name| Candidate::File(folder.join(name))));
    files.chain(NAMES.map(Candidate::Name)).collect()
}

/// Loads a library, or describes what is wrong with it. Its symbols stay invisible to other
/// libraries, and unresolved ones are found now.
fn open(name: impl AsRef<OsStr>) -> Result<Library, String> {
    // SAFETY: what runs at loading is libnccl's own initialisation, which asks nothing of its
    // caller.
    let library = unsafe { UnixLibrary::open(Some(name.as_ref()), RTLD_NOW | RTLD_LOCAL) };
    // The words of the dynamic loader, which name the file, are the error's source.
    library.map(Library::from).map_err(|error| {
        error
            .source()
            .map_or(error.to_string(), ToString::to_string)
    })
}

/// Describes a search that found nothing.
fn not_found(explicit: Option<&Path>, tried: &[String]) -> String {
    match explicit {
        Some(path) => format!(
            "{} does not exist. Give the path of a libnccl.so.2",
            path.display()
        ),
        None => format!(
            "found no libnccl. Load the site's NCCL module, set NCCL_HOME or LD_LIBRARY_PATH, or \
             give the path of a libnccl.so.2 (tried {})",
            tried.join("; ")
        ),
    }
}

impl Nccl {
    /// Loads libnccl from `explicit` if that is given, else the first of: `libnccl.so.2` and
    /// `libnccl.so` in `$NCCL_HOME/lib` and `$NCCL_HOME/lib64`, then the same names where the
    /// system looks for libraries.
    ///
    /// # Errors
    /// Returns an error if it is not found, cannot be loaded, or is too old.
    pub fn load(explicit: Option<&Path>) -> anyhow::Result<Arc<Nccl>> {
        Nccl::search(explicit, env::var_os("NCCL_HOME"))
    }

    fn search(explicit: Option<&Path>, nccl_home: Option<OsString>) -> anyhow::Result<Arc<Nccl>> {
        let mut tried = Vec::new();
        for candidate in candidates(explicit, nccl_home.as_deref()) {
            match candidate {
                Candidate::File(path) if !path.exists() => tried.push(path.display().to_string()),
                Candidate::File(path) => {
                    let library = open(&path).map_err(|error| {
                        failure(format!(
                            "libnccl cannot be loaded: {error}. Give the path of another one"
                        ))
                    })?;
                    return Nccl::new(library, &path.display().to_string()).map(Arc::new);
                }
                Candidate::Name(name) => match open(name) {
                    Ok(library) => return Nccl::new(library, name).map(Arc::new),
                    Err(error) => tried.push(error),
                },
            }
        }
        Err(failure(not_found(explicit, &tried)))
    }

    /// Looks up the functions of a library that was loaded as `name`, and checks its version.
    fn new(library: Library, name: &str) -> anyhow::Result<Nccl> {
        // Dropping the handle would unload the code that NCCL's threads run.
        let library = ManuallyDrop::new(library);
        // SAFETY: the table is made from nccl.h, and a library without ncclGetVersion is refused
        // before any other call.
        let symbols = unsafe { Symbols::find(&library) };
        let get_version = symbols.get_version.get().map_err(|_| {
            failure(format!(
                "{name} is not NCCL: it has no ncclGetVersion. Give the path of a libnccl.so.2"
            ))
        })?;
        let mut code = 0;
        // SAFETY: ncclGetVersion writes one integer.
        let result = unsafe { get_version(&mut code) };
        let path = file_of(get_version as *const c_void).unwrap_or_else(|| PathBuf::from(name));
        let nccl = Nccl {
            path,
            version: NcclVersion(code),
            symbols,
        };
        nccl.check("ncclGetVersion", ptr::null_mut(), result)?;
        if nccl.version < OLDEST {
            return Err(failure(format!(
                "{nccl} is too old. Load {OLDEST} or newer, or give the path of one"
            )));
        }
        Ok(nccl)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::{Code, code_of};
    use std::{fs, os::unix::fs::symlink};

    fn load(explicit: Option<&Path>, home: Option<&Path>) -> Result<Arc<Nccl>, String> {
        Nccl::search(explicit, home.map(|home| home.as_os_str().to_owned())).map_err(|error| {
            assert_eq!(code_of(&error), Code::Nccl);
            error.to_string()
        })
    }

    /// A library that every test process has loaded: it stands for a file that is a library, but no
    /// NCCL.
    fn libc_file() -> PathBuf {
        file_of(libc::dladdr as *const c_void).expect("dladdr is in a library")
    }

    #[test]
    fn the_search_goes_from_near_to_far() {
        let file = |path: &str| Candidate::File(path.into());
        let system = || NAMES.map(Candidate::Name);
        assert_eq!(
            candidates(Some(Path::new("/x/y.so")), Some(OsStr::new("/h"))),
            [file("/x/y.so")]
        );
        let in_home = [
            "/h/lib/libnccl.so.2",
            "/h/lib/libnccl.so",
            "/h/lib64/libnccl.so.2",
            "/h/lib64/libnccl.so",
        ];
        let all: Vec<_> = in_home.into_iter().map(file).chain(system()).collect();
        assert_eq!(candidates(None, Some(OsStr::new("/h"))), all);
        assert_eq!(candidates(None, Some(OsStr::new(""))), system());
        assert_eq!(candidates(None, None), system());
    }

    #[test]
    fn a_path_that_is_not_there_is_named() {
        let error = load(Some(Path::new("/nowhere/libnccl.so.2")), None)
            .err()
            .expect("an error");
        assert_eq!(
            error,
            "/nowhere/libnccl.so.2 does not exist. Give the path of a libnccl.so.2"
        );
    }

    #[test]
    fn the_first_file_of_nccl_home_is_the_one() {
        for (folder, names) in [
            ("lib", &["libnccl.so.2", "libnccl.so"][..]),
            ("lib", &["libnccl.so"]),
            ("lib64", &["libnccl.so.2"]),
        ] {
            let home = tempfile::tempdir().expect("a folder");
            let folder = home.path().join(folder);
            fs::create_dir(&folder).expect("made");
            for name in names {
                symlink(libc_file(), folder.join(name)).expect("linked");
            }
            let error = load(None, Some(home.path())).err().expect("an error");
            let first = folder.join(names[0]);
            assert!(
                error.starts_with(&format!("{} is not NCCL", first.display())),
                "{error}"
            );
        }
    }

    #[test]
    fn a_file_that_is_no_library_ends_the_search() {
        let home = tempfile::tempdir().expect("a folder");
        fs::create_dir(home.path().join("lib")).expect("made");
        let file = home.path().join("lib/libnccl.so");
        fs::write(&file, "not a library").expect("written");
        for error in [load(None, Some(home.path())), load(Some(&file), None)]
            .map(|r| r.err().expect("an error"))
        {
            assert!(
                error.starts_with(&format!("libnccl cannot be loaded: {}: ", file.display())),
                "{error}"
            );
        }
    }
}
