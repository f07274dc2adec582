//! Documents that are made from tables are up to date. `UPDATE_GOLDEN=1 cargo test --test docs` rewrites them.

use std::{fmt::Write, fs, path::Path};

use pxnbench::{
    exit::CODES,
    levels::{self, Axis},
    record::columns::COLUMNS,
};

fn format_md() -> String {
    let mut text = String::from(
        "# Files of a run\n\n\
         Made from the tables in the code by `UPDATE_GOLDEN=1 cargo test --test docs`.\n\n\
         `--out DIR` (default `results/<job>-<id>/<step>/` in a Slurm step, else `results/<collective>-<time>/`) holds:\n\n\
         - `results.csv`: RFC 4180, a header, one row a record; out of place and in place are two rows. Each row is on disk \
         before the next case begins.\n\
         - `results.json`: `format`, `run` (as `run.json`) and `records`, an object a record with the columns as keys; \
         numbers are numbers, unknown is `null`. Written when the run ends.\n\
         - `run.json`: who, where, when, with what: command, backend and why, level, versions, `NCCL_*` settings, every \
         process with its node and device, where the time went, and how the run ended. Written when the run begins and \
         when it ends.\n\
         - `nccl/<host>.<pid>.log`: NCCL's own log, when `NCCL_DEBUG` is set.\n\n\
         A file that is there already is kept as `NAME.1`, `NAME.2`, ….\n\n\
         ## Columns\n\n| column | meaning |\n|---|---|\n",
    );
    for column in COLUMNS {
        let _ = writeln!(text, "| `{}` | {} |", column.name, column.doc);
    }
    text.push_str("\nLater columns are appended, never inserted.\n\n## Exit codes\n\n| code | meaning |\n|---|---|\n");
    for (code, what) in CODES {
        let _ = writeln!(text, "| {} | {what} |", code as u8);
    }
    text.push_str(
        "\n2 to 7 mean what they mean in nccl-tests. Some launchers replace the code of a job that was aborted; `end` in \
         `run.json` keeps ours, unless the launcher stopped rank 0 before it knew of another rank's failure.\n",
    );
    text
}

#[test]
fn format_md_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/FORMAT.md");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, format_md()).expect("written");
    }
    assert_eq!(fs::read_to_string(&path).unwrap_or_default(), format_md(), "UPDATE_GOLDEN=1 rewrites it");
}

#[test]
fn levels_md_has_every_row_of_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/LEVELS.md");
    let text = fs::read_to_string(&path).expect("docs/LEVELS.md");
    for row in Axis::ALL.into_iter().flat_map(levels::rows) {
        let first_cell = |line: &str| line.starts_with(&format!("| `{}` |", row.name));
        assert!(text.lines().any(first_cell), "docs/LEVELS.md has no row for {} {}", row.axis, row.name);
    }
}
