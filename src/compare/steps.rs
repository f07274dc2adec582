//! The folders of the steps, and their rows in one file.

use std::{
    fmt::Display,
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use crate::{
    exit::{Code, Failure},
    output::target::write_whole,
};

/// Returns the folders below `folder` that have results, in the order of the numbers that they begin with.
///
/// # Errors
///
/// Returns an error if `folder` cannot be read, or if there is nothing to compare.
pub(super) fn find(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).map_err(|error| cannot("read", folder, &error))?;
    let mut steps = Vec::new();
    for entry in entries.flatten() {
        let path = entry.path();
        if path.join("results.csv").is_file() {
            steps.push(path);
        }
    }
    steps.sort_by_key(|path| order(path));
    if steps.is_empty() {
        let folder_name = folder.display();
        let what = if folder.join("results.csv").is_file() {
            format!(
                "{folder_name} is one run. Name the folder above it, and have several runs there"
            )
        } else {
            format!("no folder below {folder_name} has a results.csv: nothing to compare")
        };
        return Err(Failure::on_all_ranks(Code::NothingRan, what));
    }
    Ok(steps)
}

/// Returns the number that a folder's name begins with, then its name.
fn order(step: &Path) -> (u64, String) {
    let name = match step.file_name() {
        Some(name) => name.to_string_lossy().into_owned(),
        None => String::new(),
    };
    let digits: String = name.chars().take_while(char::is_ascii_digit).collect();
    (digits.parse().unwrap_or(u64::MAX), name)
}

/// Writes the rows of all steps to one file, which a reader sees whole or not at all. Rows of an earlier version get the
/// columns that were added since, empty.
///
/// # Errors
///
/// Returns an error if a file cannot be read or written, or if two have different columns.
pub(super) fn join(steps: &[PathBuf], target: &Path) -> anyhow::Result<()> {
    let header = widest_header(steps)?;
    let mut writer = csv::WriterBuilder::new()
        .terminator(csv::Terminator::CRLF)
        .from_writer(Vec::new());
    writer.write_record(&header)?;
    for step in steps {
        let path = step.join("results.csv");
        let unreadable = |error: csv::Error| cannot("read", &path, &error);
        let mut reader = csv::Reader::from_path(&path).map_err(unreadable)?;
        let own = reader.headers().map_err(unreadable)?.clone();
        if !begins_with(&header, &own) {
            let why = "its columns are not those of the others";
            return Err(cannot("joined", &path, &why));
        }
        for row in reader.records() {
            let mut row = row.map_err(unreadable)?;
            for _ in own.len()..header.len() {
                row.push_field("");
            }
            writer.write_record(&row)?;
        }
    }
    let text = writer
        .into_inner()
        .map_err(|error| cannot("written", target, &error))?;
    write_whole(target, |file| file.write_all(&text))
        .map_err(|error| cannot("written", target, &error))
}

/// Returns the header with the most columns.
fn widest_header(steps: &[PathBuf]) -> anyhow::Result<csv::StringRecord> {
    let mut widest = csv::StringRecord::new();
    for step in steps {
        let path = step.join("results.csv");
        let unreadable = |error: csv::Error| cannot("read", &path, &error);
        let mut reader = csv::Reader::from_path(&path).map_err(unreadable)?;
        let own = reader.headers().map_err(unreadable)?;
        if own.len() > widest.len() {
            widest = own.clone();
        }
    }
    Ok(widest)
}

fn begins_with(header: &csv::StringRecord, start: &csv::StringRecord) -> bool {
    header.iter().zip(start).all(|(a, b)| a == b)
}

pub(super) fn cannot(what: &str, path: &Path, why: &dyn Display) -> anyhow::Error {
    let sentence = format!("{} cannot be {what}: {why}", path.display());
    Failure::on_all_ranks(Code::Usage, sentence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_joined_in_their_order() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(find(folder.path()).is_err(), "nothing to compare");
        for (name, row) in [("10-off-1", "b"), ("2-off-0", "a")] {
            fs::create_dir(folder.path().join(name)).expect("made");
            fs::write(
                folder.path().join(name).join("results.csv"),
                format!("x,y\r\n{row},1\r\n"),
            )
            .expect("written");
        }
        let target = folder.path().join("results.csv");
        join(&find(folder.path()).expect("steps"), &target).expect("joined");
        assert_eq!(
            fs::read_to_string(&target).expect("text"),
            "x,y\r\na,1\r\nb,1\r\n"
        );

        // A step of an earlier version has fewer columns.
        let narrow = folder.path().join("2-off-0/results.csv");
        fs::write(narrow, "x\r\na\r\n").expect("written");
        join(&find(folder.path()).expect("steps"), &target).expect("joined");
        assert_eq!(
            fs::read_to_string(&target).expect("text"),
            "x,y\r\na,\r\nb,1\r\n"
        );
    }
}
