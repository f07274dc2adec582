//! The rows of all steps in one file.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Seek, SeekFrom, Write},
    iter,
    path::Path,
};

use crate::{
    exit::Failure,
    output::lock::write_whole_alone,
    record::{RowReader, ends_with_a_line},
};

/// Writes the rows of all steps to one file, which a reader sees whole or not at all. Rows of an
/// earlier version get the columns that were added since, empty.
///
/// # Errors
///
/// Returns an error if a file cannot be read or written, or if two have different columns.
pub(super) fn join(csvs: &[&Path], target: &Path) -> anyhow::Result<()> {
    let header = common_header(csvs)?;
    let joined = write_whole_alone(target, |file| {
        let head = header.iter().collect::<Vec<_>>().join(",") + "\r\n";
        file.write_all(head.as_bytes())?;
        for path in csvs {
            let added = add_rows(file, path, &head, header.len());
            added.map_err(|error| io::Error::other(format!("{}: {error}", path.display())))?;
        }
        Ok(())
    });
    joined.map_err(|error| Failure::of_file("written", target, &error))
}

/// Appends the rows of the CSV at `path`. Those of a file with the same header are copied by the
/// kernel.
fn add_rows(target: &mut File, path: &Path, head: &str, columns: usize) -> io::Result<()> {
    let mut source = File::open(path)?;
    let mut own_head = Vec::new();
    BufReader::new(&source).read_until(b'\n', &mut own_head)?;
    if own_head != head.as_bytes() || !ends_with_a_line(&mut source)? {
        return add_rows_one_by_one(target, path, columns);
    }
    source.seek(SeekFrom::Start(own_head.len() as u64))?;
    io::copy(&mut source, target)?;
    Ok(())
}

/// Appends the rows of a CSV with other line ends, with a last line that may be cut short, or with
/// fewer columns: those that are missing are empty.
fn add_rows_one_by_one(target: &mut File, path: &Path, columns: usize) -> io::Result<()> {
    let mut writer = csv::WriterBuilder::new()
        .terminator(csv::Terminator::CRLF)
        .from_writer(target);
    let mut reader = RowReader::open(path)?;
    while let Some(row) = reader.read_cells()? {
        let missing = columns.saturating_sub(row.len());
        writer.write_record(row.iter().chain(iter::repeat_n("", missing)))?;
    }
    writer.flush()
}

/// Returns the header with the most columns.
///
/// # Errors
///
/// Returns an error if another header is not the beginning of it.
fn common_header(csvs: &[&Path]) -> anyhow::Result<csv::StringRecord> {
    let mut widest = csv::StringRecord::new();
    let mut headers = Vec::new();
    for path in csvs {
        let reader = RowReader::open(path);
        let reader = reader.map_err(|error| Failure::of_file("read", path, &error))?;
        let own = reader.header().clone();
        if own.len() > widest.len() {
            widest = own.clone();
        }
        headers.push((path, own));
    }
    for (path, own) in headers {
        if !begins_with(&widest, &own) {
            let why = "its columns are not those of the others";
            return Err(Failure::of_file("joined", path, &why));
        }
    }
    Ok(widest)
}

fn begins_with(header: &csv::StringRecord, start: &csv::StringRecord) -> bool {
    header.iter().zip(start).all(|(a, b)| a == b)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::compare::folders::RunsAt;

    fn join_all(folder: &Path, target: &Path) {
        let steps = RunsAt::find(folder).expect("steps").runs;
        let csvs: Vec<&Path> = steps.iter().map(|run| run.csv.as_path()).collect();
        join(&csvs, target).expect("joined");
    }

    #[test]
    fn steps_are_joined_in_their_order() {
        let folder = tempfile::tempdir().expect("a folder");
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

        // Other line ends, and none behind the last row, whose last cell may be cut short.
        let unix = folder.path().join("2-off-0/results.csv");
        fs::write(unix, "x,y\na,2\n").expect("written");
        let open = folder.path().join("10-off-1/results.csv");
        fs::write(&open, "x,y\r\nb,3").expect("written");
        join_all(folder.path(), &target);
        assert_eq!(
            fs::read_to_string(&target).expect("text"),
            "x,y\r\na,2\r\nb,\r\n"
        );

        // A last line that is cut short.
        fs::write(&open, "x,y\r\nb,3\r\nb").expect("written");
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
