//! What shows that a line of a page is true: a test, or a check on real GPUs.

use std::{collections::BTreeSet, fmt, fs, path::Path};

/// What shows that a statement holds.
#[derive(Debug)]
pub enum Evidence {
    /// A test of this project, by the name of its function.
    Test(&'static str),
    /// A check of `scripts/gpu-check.sh`, by its name.
    GpuCheck(&'static str),
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Evidence::Test(test) => write!(f, "`{test}`"),
            Evidence::GpuCheck(check) => write!(f, "`scripts/gpu-check.sh`: {check}"),
        }
    }
}

/// The places in which evidence is looked for.
pub struct EvidenceSources {
    tests: BTreeSet<String>,
    gpu_checks: String,
}

impl EvidenceSources {
    /// Reads the tests of this project and its script for real GPUs.
    pub fn read() -> EvidenceSources {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let script = fs::read_to_string(root.join("scripts/gpu-check.sh"));
        EvidenceSources {
            tests: ["tests", "src"]
                .iter()
                .flat_map(|folder| tests_below(&root.join(folder)))
                .collect(),
            gpu_checks: script.expect("gpu-check.sh"),
        }
    }

    /// Returns whether what `evidence` names is there.
    pub fn have(&self, evidence: &Evidence) -> bool {
        match evidence {
            Evidence::GpuCheck(check) => self.gpu_checks.contains(&format!("check \"{check}\"")),
            Evidence::Test(test) => self.tests.contains(*test),
        }
    }
}

/// Returns the names of the tests in the Rust code below `folder`.
fn tests_below(folder: &Path) -> BTreeSet<String> {
    let mut tests = BTreeSet::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            tests.append(&mut tests_below(&path));
        } else if path.extension().is_some_and(|end| end == "rs") {
            let code = fs::read_to_string(&path).expect("text");
            tests.extend(code.split("#[test]").skip(1).filter_map(first_function));
        }
    }
    tests
}

/// Returns the name of the first function in `code`.
fn first_function(code: &str) -> Option<String> {
    let name = code.split_once("fn ")?.1.split_once('(')?.0;
    Some(name.to_owned())
}

/// Compares a page that is made from a table with what is in `docs/`, or writes it if
/// `UPDATE_GOLDEN` is set.
#[track_caller]
pub fn expect_page(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("docs")
        .join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, text).expect("written");
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(found, text, "UPDATE_GOLDEN=1 rewrites it");
}
