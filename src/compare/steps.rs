//! The folders of the steps, and their rows in one file.

use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write},
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
    let entries = fs::read_dir(folder).map_err(|error| Failure::of_file("read", folder, &error))?;
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
                "{folder_name} is one run. Name the folder above it, and have several runs there, or name several runs"
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
pub(super) fn join(steps: &[&Path], target: &Path) -> anyhow::Result<()> {
    let header = common_header(steps)?;
    let joined = write_whole(target, |file| {
        let head = header.iter().collect::<Vec<_>>().join(",") + "\r\n";
        file.write_all(head.as_bytes())?;
        for step in steps {
            let path = step.join("results.csv");
            let added = add_rows(file, &path, &head, header.len());
            added.map_err(|error| io::Error::other(format!("{}: {error}", path.display())))?;
        }
        Ok(())
    });
    joined.map_err(|error| Failure::of_file("written", target, &error))
}

/// Appends the rows of the CSV at `path`. Those of a file with the same header are copied by the kernel.
fn add_rows(target: &mut File, path: &Path, head: &str, columns: usize) -> io::Result<()> {
    let mut source = File::open(path)?;
    let mut own_head = Vec::new();
    BufReader::new(&source).read_until(b'\n', &mut own_head)?;
    if own_head != head.as_bytes() {
        return add_narrow_rows(target, path, columns);
    }
    let rows = source.seek(SeekFrom::End(0))? - own_head.len() as u64;
    if rows == 0 {
        return Ok(());
    }
    let mut last = [0];
    source.seek(SeekFrom::End(-1))?;
    source.read_exact(&mut last)?;
    source.seek(SeekFrom::Start(own_head.len() as u64))?;
    io::copy(&mut source, target)?;
    if last != *b"\n" {
        target.write_all(b"\r\n")?;
    }
    Ok(())
}

/// Appends the rows of a CSV with other line ends, or with fewer columns: those that are missing are empty.
fn add_narrow_rows(target: &mut File, path: &Path, columns: usize) -> io::Result<()> {
    let mut writer = csv::WriterBuilder::new()
        .terminator(csv::Terminator::CRLF)
        .from_writer(target);
    for row in csv::Reader::from_path(path)?.records() {
        let mut row = row?;
        for _ in row.len()..columns {
            row.push_field("");
        }
        writer.write_record(&row)?;
    }
    writer.flush()
}

/// Returns the header with the most columns.
///
/// # Errors
///
/// Returns an error if another header is not the beginning of it.
fn common_header(steps: &[&Path]) -> anyhow::Result<csv::StringRecord> {
    let mut widest = csv::StringRecord::new();
    let mut headers = Vec::new();
    for step in steps {
        let path = step.join("results.csv");
        let unreadable = |error: csv::Error| Failure::of_file("read", &path, &error);
        let mut reader = csv::Reader::from_path(&path).map_err(unreadable)?;
        let own = reader.headers().map_err(unreadable)?.clone();
        if own.len() > widest.len() {
            widest = own.clone();
        }
        headers.push((path, own));
    }
    for (path, own) in headers {
        if !begins_with(&widest, &own) {
            let why = "its columns are not those of the others";
            return Err(Failure::of_file("joined", &path, &why));
        }
    }
    Ok(widest)
}

fn begins_with(header: &csv::StringRecord, start: &csv::StringRecord) -> bool {
    header.iter().zip(start).all(|(a, b)| a == b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn join_all(folder: &Path, target: &Path) {
        let steps = find(folder).expect("steps");
        let steps: Vec<&Path> = steps.iter().map(PathBuf::as_path).collect();
        join(&steps, target).expect("joined");
    }

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
        join_all(folder.path(), &target);
        assert_eq!(
            fs::read_to_string(&target).expect("text"),
            "x,y\r\na,1\r\nb,1\r\n"
        );

        // A step of an earlier version has fewer columns.
        let narrow = folder.path().join("2-off-0/results.csv");
        fs::write(narrow, "x\r\na\r\n").expect("written");
        join_all(folder.path(), &target);
        assert_eq!(
            fs::read_to_string(&target).expect("text"),
            "x,y\r\na,\r\nb,1\r\n"
        );

        // Other line ends, and none behind the last row.
        let unix = folder.path().join("2-off-0/results.csv");
        fs::write(unix, "x,y\na,2\n").expect("written");
        let open = folder.path().join("10-off-1/results.csv");
        fs::write(open, "x,y\r\nb,3").expect("written");
        join_all(folder.path(), &target);
        assert_eq!(
            fs::read_to_string(&target).expect("text"),
            "x,y\r\na,2\r\nb,3\r\n"
        );

        // A step without rows.
        fs::write(folder.path().join("10-off-1/results.csv"), "x,y\r\n").expect("written");
        join_all(folder.path(), &target);
        assert_eq!(fs::read_to_string(&target).expect("text"), "x,y\r\na,2\r\n");
    }
}
