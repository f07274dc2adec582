//! Imports point down, and never sideways. This file has the layers; those that readers see, in
//! `src/lib.rs` and `docs/ARCHITECTURE.md`, are compared with it.

mod circles;
mod imports;
mod planted;
mod tokens;

use std::{collections::BTreeSet, fs, path::Path};

use circles::{Graph, circles};
use imports::{Import, Sources, imports};

/// Modules of the crate by layer. A module imports from lines above its own only.
const LAYERS: &[&[&str]] = &[
    &["units", "exit", "env", "visible", "streams"],
    &["input", "levels", "topology", "stats"],
    &["slurm", "collective", "nccl_log"],
    &["record", "drop_in", "workload", "rehearsal"],
    &["world", "native", "peak"],
    &["backend", "facts", "telemetry"],
    &["sweep", "replay"],
    &["output", "fault", "doctor", "check"],
    &["run", "compare", "plan", "monitor", "job"],
    &["launch", "kube", "experiment", "report"],
    &["virtual_nodes"],
    &["cmd"],
    &["fuzzing"],
];

/// Words that only these places may use: path prefixes under `src/`.
const ONLY_IN: &[(&str, &[&str])] = &[
    ("mpi::", &["world/mpi.rs", "backend/host"]),
    ("cudarc", &["native/", "backend/nccl/"]),
    ("libloading", &["native/"]),
    ("object::", &["native/"]),
    ("set_var(", &["main.rs"]),
    // The wall clock may be set at any time, and `chrono` ends the program before 1970:
    // `record::now` is for times of the day.
    (
        "SystemTime::now(",
        &[
            "record/timestamp.rs",
            "facts/ranks.rs",
            "experiment/budget.rs",
        ],
    ),
    ("Local::now(", &[]),
    ("chrono::Local::now(", &[]),
    ("Utc::now(", &[]),
    ("chrono::Utc::now(", &[]),
    ("println!(", &["lib.rs"]),
    ("eprintln!(", &["lib.rs"]),
    (
        "print_line!(",
        &[
            "cmd/",
            "run/",
            "compare/",
            "launch/",
            "kube/",
            "experiment/",
            "lib.rs",
        ],
    ),
    (
        "say!(",
        &[
            "cmd/",
            "run/",
            "compare/",
            "launch/",
            "kube/",
            "experiment/",
            "virtual_nodes/",
            "report/",
            "fault.rs",
            "output/",
            "world/abort.rs",
            "world/tcp/gather.rs",
            "world/mpi_start.rs",
            "main.rs",
            "lib.rs",
        ],
    ),
    (
        "unsafe ",
        &[
            "main.rs",
            "native/",
            "backend/nccl/",
            "backend/host",
            "world/mpi.rs",
            "world/abort.rs",
            "world/signal.rs",
        ],
    ),
];

/// The folder below `cmd/` that subcommands may share: arguments. Otherwise no subcommand imports
/// another.
const SHARED_BY_SUBCOMMANDS: &str = "cmd/args/";

/// The files below `cmd/` that name all subcommands, or read whole command lines. A subcommand that
/// imports one of them is in a circle with it.
const ABOVE_SUBCOMMANDS: [&str; 4] = ["mod", "cli", "usage_error", "ranks_arguments"];

/// Returns path below `src/` and text of the source files under `folder`.
fn sources(folder: &Path, below: &str) -> Sources {
    let mut all = Sources::new();
    for entry in fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry"))
    {
        let name = format!("{below}{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            all.extend(sources(&entry.path(), &format!("{name}/")));
        } else if name.ends_with(".rs") {
            all.insert(name, fs::read_to_string(entry.path()).expect("text"));
        }
    }
    all
}

fn crate_sources() -> Sources {
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), "")
}

fn without_comments(text: &str) -> String {
    let code = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default());
    code.collect::<Vec<_>>().join("\n")
}

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|modules| modules.contains(&module))
}

/// Returns every import that does not point down.
fn violations(sources: &Sources) -> Vec<String> {
    let mut wrong = BTreeSet::new();
    for file in sources.keys() {
        let module = top_module(file);
        if !is_root(file) && layer(module).is_none() {
            wrong.insert(format!("{file}: module {module} has no place in LAYERS"));
        }
    }
    for Import { from, top, .. } in imports(sources) {
        let own = top_module(&from);
        if is_root(&from) || top == own {
            continue;
        }
        let Some(own_layer) = layer(own) else {
            continue;
        };
        if layer(&top).is_none_or(|other| other >= own_layer) {
            wrong.insert(format!("{from} imports {top}"));
        }
    }
    wrong.into_iter().collect()
}

fn top_module(file: &str) -> &str {
    file.split(['/', '.']).next().unwrap_or_default()
}

/// Returns true for the files that see the whole crate.
fn is_root(file: &str) -> bool {
    ["lib.rs", "main.rs"].contains(&file)
}

/// Returns the imports from one subcommand's files to another's.
fn between_subcommands(imports: &[Import]) -> BTreeSet<(&str, &str)> {
    let pairs = pairs(imports).into_iter();
    pairs
        .filter(|(from, to)| match (subcommand(from), subcommand(to)) {
            (Some(from), Some(other)) => from != other && !to.starts_with(SHARED_BY_SUBCOMMANDS),
            _ => false,
        })
        .collect()
}

/// Returns the first name below `cmd/`; `None` for the files that know all subcommands.
fn subcommand(file: &str) -> Option<&str> {
    let below = file.strip_prefix("cmd/")?;
    let name = below.split(['/', '.']).next()?;
    (!ABOVE_SUBCOMMANDS.contains(&name)).then_some(name)
}

/// Returns importer and imported of the imports that are in the program, not in its unit tests
/// only.
fn pairs(imports: &[Import]) -> BTreeSet<(&str, &str)> {
    let in_program = imports.iter().filter(|import| !import.in_tests);
    in_program
        .map(|import| (import.from.as_str(), import.to.as_str()))
        .collect()
}

fn graph<'a>(pairs: &BTreeSet<(&'a str, &'a str)>) -> Graph<'a> {
    let mut graph = Graph::new();
    for (from, to) in pairs {
        graph.entry(*from).or_default().insert(*to);
    }
    graph
}

/// Returns the imports of a parent module's file by a file below it.
fn of_a_parent<'a>(pairs: &BTreeSet<(&'a str, &'a str)>) -> BTreeSet<(&'a str, &'a str)> {
    let pairs = pairs.iter().copied();
    pairs
        .filter(|(from, to)| {
            let parent = to.strip_suffix("mod.rs").map(str::to_owned);
            let folder = parent.unwrap_or_else(|| to.replace(".rs", "/"));
            !folder.is_empty() && from.starts_with(&folder)
        })
        .collect()
}

/// The names in a table of layers, by layer.
fn layers_of<'a>(rows: impl IntoIterator<Item = (usize, &'a str)>) -> Vec<BTreeSet<String>> {
    let mut layers = vec![BTreeSet::new(); LAYERS.len()];
    for (layer, names) in rows {
        layers[layer].extend(
            names
                .split(", ")
                .map(|name| name.trim_matches(['[', '`', ']']).to_owned()),
        );
    }
    layers
}

#[test]
fn readers_see_the_same_layers() {
    let read = |path: &str| {
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).expect("text")
    };
    let expected: Vec<BTreeSet<String>> = LAYERS
        .iter()
        .map(|names| names.iter().map(|&name| name.to_owned()).collect())
        .collect();
    // `//! | 0 | [`units`], [`exit`] | quantities …`
    let text = read("src/lib.rs");
    let cells = text
        .lines()
        .filter_map(|line| line.strip_prefix("//! | "))
        .map(|row| row.split(" | "));
    let rows = cells.filter_map(|mut cells| Some((cells.next()?.parse().ok()?, cells.next()?)));
    assert_eq!(layers_of(rows), expected, "src/lib.rs");
    // `0  units, exit          quantities …`; the next names of a layer have no number.
    let text = read("docs/ARCHITECTURE.md");
    let block = text
        .split("```")
        .find(|block| block.starts_with("\n0  "))
        .expect("the diagram");
    let mut layer = 0;
    let rows = block.trim().lines().map(|line| {
        let (number, rest) = line.split_at(3);
        layer = number.trim().parse().unwrap_or(layer);
        (layer, rest.split("  ").next().unwrap_or_default())
    });
    assert_eq!(
        layers_of(rows.collect::<Vec<_>>()),
        expected,
        "docs/ARCHITECTURE.md"
    );
}

#[test]
fn imports_point_down() {
    assert_eq!(violations(&crate_sources()), [] as [String; 0]);
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    let sources = crate_sources();
    let imports = imports(&sources);
    let all = pairs(&imports);
    let upward = of_a_parent(&all);
    eprintln!(
        "{} files, {} imports, {} circles, {} imports of a parent's file, {} between subcommands, \
         {} against the layers",
        sources.len(),
        all.len(),
        circles(&graph(&all)).len(),
        upward.len(),
        between_subcommands(&imports).len(),
        violations(&sources).len(),
    );
    for (from, to) in upward {
        eprintln!("  {from} imports {to}, above it");
    }
    assert_eq!(circles(&graph(&all)), [] as [String; 0]);
}

#[test]
fn no_files_of_the_plugin_import_each_other_in_a_circle() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("rail-plugin/src");
    let sources = sources(&folder, "");
    let imports = imports(&sources);
    let all = pairs(&imports);
    assert!(
        all.contains(&("send.rs", "wire.rs")),
        "imports are found: {all:?}"
    );
    assert_eq!(circles(&graph(&all)), [] as [String; 0]);
}

#[test]
fn no_subcommand_imports_another() {
    let imports = imports(&crate_sources());
    assert_eq!(between_subcommands(&imports), BTreeSet::new());
}

#[test]
fn some_words_have_few_places() {
    for (path, text) in crate_sources() {
        let code = without_comments(&text);
        // Unit tests at the end of a file may do what the file may not.
        let code = code.split("#[cfg(test)]").next().unwrap_or_default();
        for (word, places) in ONLY_IN {
            let allowed = places.iter().any(|place| path.starts_with(place));
            let used = code.match_indices(word).any(|(at, _)| {
                let before = code[..at].chars().next_back();
                before.is_none_or(|c| !c.is_alphanumeric() && c != '_' && c != ':')
            });
            assert!(
                allowed || !used,
                "{path} uses `{word}`, which belongs in {places:?}"
            );
        }
    }
}

/// rustfmt leaves comments as long as they are.
#[test]
fn comments_have_100_columns_at_most() {
    for folder in [
        "src",
        "tests",
        "examples",
        "rail-plugin/src",
        "rail-plugin/tests",
    ] {
        let files = sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), "");
        assert!(!files.is_empty(), "{folder}");
        for (path, text) in files {
            for (number, line) in (1..).zip(text.lines()) {
                assert!(
                    !is_long_comment(line),
                    "{folder}/{path}:{number} has more than 100 columns:\n{line}"
                );
            }
        }
    }
}

/// Returns whether `line` is a comment of more than 100 columns that could be broken: neither a row
/// of a table nor a single quotation.
fn is_long_comment(line: &str) -> bool {
    let Some(comment) = line.trim_start().strip_prefix("//") else {
        return false;
    };
    let text = comment.trim_start_matches(['/', '!']).trim();
    line.chars().count() > 100 && !text.starts_with('|') && !is_quotation(text)
}

/// Returns whether `text` is one quotation in backquotes, with or without a full stop.
fn is_quotation(text: &str) -> bool {
    let quoted = text.trim_end_matches('.');
    quoted.starts_with('`') && quoted.ends_with('`') && quoted.matches('`').count() == 2
}

#[test]
fn no_file_lifts_the_lints_on_unsafe() {
    // Clippy checks that each block says why it is sound.
    for (path, text) in crate_sources() {
        let code = without_comments(&text);
        assert!(
            !code.contains("allow(unsafe_code") && !code.contains("allow(clippy::undocumented"),
            "{path}"
        );
    }
}
