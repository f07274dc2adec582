//! Templates in `slurm/` share one block, and set their level as `slurm/levels.toml` says.
//! `UPDATE_GOLDEN=1 cargo test --test templates` rewrites them.

use std::{fs, path::Path};

use pxnbench::levels;

/// The first words of the block that all templates share, and of the one that sets a level.
const SITE_BLOCK: &str = "# The folder of pxnbench:";
const LEVEL_BLOCK: &str = "# The level.";

/// Returns a template with its generated parts made anew.
fn generated_template(name: &str, text: &str, site_block: &str) -> String {
    let level = match name {
        "container" => Some("aggressive"),
        name => name.strip_prefix("pxn_"),
    };
    let level = level.map(|level| levels::level(level).expect("a template per level"));
    let mut paragraphs: Vec<String> = text.split("\n\n").map(str::to_owned).collect();
    for paragraph in &mut paragraphs {
        if paragraph.starts_with(SITE_BLOCK) {
            *paragraph = site_block.trim_end().to_owned();
        } else if paragraph.starts_with(LEVEL_BLOCK) {
            *paragraph = level_block(level.expect("a template with a level"));
        }
    }
    let text = paragraphs.join("\n\n");
    match level {
        Some(level) if name.starts_with("pxn_") => with_title(&text, level),
        _ => text,
    }
}

/// Returns the exports of a level, with their comments as in a hand-written script.
fn level_block(level: &levels::Preset) -> String {
    let mut lines = vec![format!(
        "{LEVEL_BLOCK} A variable that you export yourself overrides it; the result then names \
         the level that was in force."
    )];
    lines.extend(
        level
            .exports()
            .iter()
            .map(|line| line.replacen("  # ", " # ", 1)),
    );
    lines.join("\n")
}

/// Returns a template whose second line is about this level.
fn with_title(text: &str, level: &levels::Preset) -> String {
    let (shebang, rest) = text.split_once('\n').expect("a first line");
    let (_, rest) = rest.split_once('\n').expect("a second line");
    let (name, summary) = (&level.name, &level.summary);
    format!("{shebang}\n# PXN level {name}: {summary}.\n{rest}")
}

#[test]
fn templates_share_one_site_block_and_the_exports_of_their_level() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("slurm");
    let site_block = fs::read_to_string(folder.join("site-block.in")).expect("the block");
    assert!(site_block.starts_with(SITE_BLOCK));
    let mut templates = 0;
    for entry in fs::read_dir(&folder).expect("slurm/") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|end| end != "sbatch") {
            continue;
        }
        templates += 1;
        let text = fs::read_to_string(&path).expect("a template");
        assert!(
            text.contains(&format!("\n\n{SITE_BLOCK}")),
            "{}",
            path.display()
        );
        let name = path.file_stem().expect("a name").to_string_lossy();
        let expected = generated_template(&name, &text, &site_block);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&path, &expected).expect("written");
        } else {
            assert_eq!(
                text,
                expected,
                "{}: UPDATE_GOLDEN=1 rewrites it",
                path.display()
            );
        }
    }
    assert!(templates >= 8, "{templates}");
}
