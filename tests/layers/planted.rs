//! The checks on sources planted for them.

use std::collections::BTreeSet;

use super::{
    between_subcommands,
    circles::circles,
    graph,
    imports::{Sources, imports},
    is_long_comment, pairs, violations,
};

/// Returns sources of which each has a path and a text.
fn planted(files: &[(&str, &str)]) -> Sources {
    let files = files.iter();
    files
        .map(|&(path, text)| (path.to_owned(), text.to_owned()))
        .collect()
}

#[test]
fn the_layers_find_what_they_are_for() {
    let wrong = |path, code| violations(&planted(&[(path, code)]));
    assert!(
        wrong(
            "sweep/mod.rs",
            "use crate::{backend::Backend, units::Bytes};"
        )
        .is_empty()
    );
    assert_eq!(
        wrong("sweep/mod.rs", "use crate::output::csv;"),
        ["sweep/mod.rs imports output"]
    );
    assert_eq!(
        wrong(
            "units.rs",
            "use crate::{exit::{Code, Failure}, record::Record};"
        )
        .len(),
        2,
        "sideways and up"
    );
    let by_path = "fn f() { crate::world::all_gather() }";
    assert_eq!(wrong("native/x.rs", by_path), ["native/x.rs imports world"]);
    assert_eq!(
        wrong("units.rs", "use super::record::Record;"),
        ["units.rs imports record"]
    );
    assert_eq!(wrong("new.rs", "").len(), 1, "a new module needs a place");
}

/// Circles of `record/mod.rs`, `record/row.rs` and `record/file.rs` with these texts.
fn planted_circles(parent: &str, row: &str, file: &str) -> Vec<String> {
    let sources = planted(&[
        ("lib.rs", "pub mod record;"),
        ("record/mod.rs", parent),
        ("record/row.rs", row),
        ("record/file.rs", file),
    ]);
    circles(&graph(&pairs(&imports(&sources))))
}

#[test]
fn a_parent_and_its_child_make_a_circle() {
    let circle = ["record/mod.rs → record/row.rs → record/mod.rs"];
    let child = "use super::Record;";
    for parent in [
        "mod row; pub use row::Row;",
        "mod row; use self::row::Row;",
        "mod row; use crate::record::row::{Row, Cell as C};",
        "mod row; fn f() { row::write() }",
        "mod row; use row as rows; fn f() { rows::write() }",
        "pub mod row; const X: u8 = crate::record::row::X;",
        "mod row; pub use row::*;",
    ] {
        assert_eq!(planted_circles(parent, child, ""), circle, "{parent}");
    }
    let parent = "mod row; use row::Row; pub struct Record;";
    for child in [
        "use super::{Record, file::File};",
        "use crate::record::Record;",
        "use crate::{record::{self, file}, units}; fn f() { record::new() }",
        "use super::*;",
        "fn f() { super::new() }",
        "mod inner { fn f() { super::super::new() } }",
    ] {
        assert_eq!(planted_circles(parent, child, ""), circle, "{child}");
    }
}

#[test]
fn siblings_make_a_circle() {
    let circle = ["record/file.rs → record/row.rs → record/file.rs"];
    let row = "use super::file::File;";
    for file in [
        "use super::row; fn f() { row::write() }",
        "fn f() -> super::row::Row { todo!() }",
        "use crate::record; fn f() { record::row::write() }",
    ] {
        assert_eq!(planted_circles("", row, file), circle, "{file}");
    }
}

#[test]
fn what_imports_nothing_back_makes_no_circle() {
    let child = "use super::Record;";
    for parent in [
        "mod row; pub mod file; pub struct Record;",
        "mod row; // row::write()\nfn f() { g(\"row::write()\") }",
        "mod row; #[cfg(test)] mod tests { use super::row::Row; }",
        "mod row; #[cfg(test)] use row::{Row, Cell}; struct Record;",
        "mod row; use other::row::Row;",
    ] {
        assert!(planted_circles(parent, child, "").is_empty(), "{parent}");
    }
    let parent = "mod row; pub use row::Row;";
    for child in [
        "use super::file::File; pub(in crate::record) struct Row;",
        "use super::file; fn f() { file::write() }",
        "mod inner { use super::Row; }",
    ] {
        assert!(planted_circles(parent, child, "").is_empty(), "{child}");
    }
    // A file that only tests have.
    let parent = "mod row; #[cfg(test)] mod file; use row::Row; fn f() {}";
    assert!(planted_circles(parent, "", "use super::*;").is_empty());
    assert!(planted_circles(parent, "use super::file::F;", "use super::row::Row;").is_empty());
}

#[test]
fn subcommands_do_not_see_each_other() {
    let sources = planted(&[
        ("cmd/mod.rs", "mod run; mod topo; use run::Args;"),
        (
            "cmd/run/mod.rs",
            "mod parts; use parts::Part; use super::args::bytes;",
        ),
        (
            "cmd/run/parts.rs",
            "use crate::{cmd::topo::draw, record::Record};",
        ),
        ("cmd/topo.rs", "fn f() { super::run::run() }"),
        ("cmd/args/mod.rs", ""),
        ("record/mod.rs", ""),
    ]);
    let wrong = [
        ("cmd/run/parts.rs", "cmd/topo.rs"),
        ("cmd/topo.rs", "cmd/run/mod.rs"),
    ];
    assert_eq!(
        between_subcommands(&imports(&sources)),
        BTreeSet::from(wrong)
    );
}

#[test]
fn a_long_comment_is_found_unless_it_cannot_be_broken() {
    let words = "word ".repeat(20);
    assert!(is_long_comment(&format!("    /// {words}")));
    assert!(is_long_comment(&format!("//! {words}")));
    assert!(!is_long_comment(&format!("// | {words}|")));
    assert!(!is_long_comment(&format!("/// `{words}`.")));
    assert!(is_long_comment(&format!("/// `word` {words}`word`")));
    assert!(!is_long_comment(&format!("    let text = \"{words}\";")));
    assert!(!is_long_comment("// short"));
}
