//! Imports point down, and never sideways. This file has the layers; those that readers see, in `src/lib.rs` and
//! `docs/ARCHITECTURE.md`, are compared with it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// Modules of the crate by layer. A module imports from lines above its own only.
const LAYERS: &[&[&str]] = &[
    &["units", "exit", "env"],
    &["levels", "topology"],
    &["slurm", "collective", "nccl_log"],
    &["record", "drop_in"],
    &["world", "native"],
    &["backend", "facts"],
    &["sweep"],
    &["output", "fault", "doctor"],
    &["run", "compare"],
    &["launch"],
    &["cmd"],
];

/// Words that only these places may use: path prefixes under `src/`.
const ONLY_IN: &[(&str, &[&str])] = &[
    ("mpi::", &["world/mpi.rs", "backend/host.rs"]),
    ("cudarc", &["native/", "backend/nccl/"]),
    ("libloading", &["native/"]),
    ("object::", &["native/"]),
    ("set_var(", &["main.rs"]),
    ("println!(", &["lib.rs"]),
    ("eprintln!(", &["lib.rs"]),
    (
        "print_line!(",
        &["cmd/", "run/", "compare/", "launch/", "lib.rs"],
    ),
    (
        "say!(",
        &[
            "cmd/",
            "run/",
            "compare/",
            "launch/",
            "fault.rs",
            "output/",
            "world/abort.rs",
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
            "backend/host.rs",
            "world/mpi.rs",
            "world/abort.rs",
            "world/signal.rs",
        ],
    ),
];

/// Source files under `folder`: path below `src/` and code without comments.
fn sources(folder: &Path, below: &str) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry"))
    {
        let name = format!("{below}{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            all.extend(sources(&entry.path(), &format!("{name}/")));
        } else if name.ends_with(".rs") {
            let text = fs::read_to_string(entry.path()).expect("text");
            let code = text
                .lines()
                .map(|line| line.split("//").next().unwrap_or_default());
            all.insert(name, code.collect::<Vec<_>>().join("\n"));
        }
    }
    all
}

fn crate_sources() -> BTreeMap<String, String> {
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), "")
}

/// The first path segments after each `crate::`, also inside braces.
fn imports(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        match rest.strip_prefix('{') {
            None => found.push(first_word(rest)),
            Some(group) => found.extend(top_level(group)),
        }
    }
    found.retain(|name| !name.is_empty());
    found
}

fn first_word(text: &str) -> String {
    text.chars()
        .take_while(|c| c.is_alphanumeric() || *c == '_')
        .collect()
}

/// The first words of the parts of a brace group, nested groups left out.
fn top_level(group: &str) -> Vec<String> {
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                parts.push(&group[start..at]);
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&group[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts
        .into_iter()
        .map(|part| first_word(part.trim()))
        .collect()
}

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|modules| modules.contains(&module))
}

/// Every import that does not point down.
fn violations(sources: &BTreeMap<String, String>) -> Vec<String> {
    let mut wrong = Vec::new();
    for (path, code) in sources
        .iter()
        .filter(|(path, _)| !["lib.rs", "main.rs"].contains(&path.as_str()))
    {
        let module = path.split(['/', '.']).next().unwrap_or_default();
        let Some(own) = layer(module) else {
            wrong.push(format!("{path}: module {module} has no place in LAYERS"));
            continue;
        };
        for import in imports(code).into_iter().filter(|import| import != module) {
            match layer(&import) {
                Some(other) if other < own => {}
                _ => wrong.push(format!("{path} imports {import}")),
            }
        }
    }
    wrong
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
fn some_words_have_few_places() {
    for (path, code) in crate_sources() {
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

#[test]
fn no_file_lifts_the_lints_on_unsafe() {
    // Clippy checks that each block says why it is sound.
    for (path, code) in crate_sources() {
        assert!(
            !code.contains("allow(unsafe_code") && !code.contains("allow(clippy::undocumented"),
            "{path}"
        );
    }
}

#[test]
fn the_check_finds_what_it_is_for() {
    let planted =
        |path: &str, code: &str| violations(&BTreeMap::from([(path.to_owned(), code.to_owned())]));
    assert!(
        planted(
            "sweep/mod.rs",
            "use crate::{backend::Backend, units::Bytes};"
        )
        .is_empty()
    );
    assert_eq!(
        planted("sweep/mod.rs", "use crate::output::csv;"),
        ["sweep/mod.rs imports output"]
    );
    assert_eq!(
        planted("units.rs", "use crate::{exit::{Code, Failure}, record};").len(),
        2,
        "sideways and up"
    );
    assert_eq!(
        planted("native/x.rs", "crate::world::all_gather()"),
        ["native/x.rs imports world"]
    );
    assert_eq!(
        planted("new.rs", "").len(),
        1,
        "a new module has to take a place"
    );
}
