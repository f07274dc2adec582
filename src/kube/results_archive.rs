//! The results of a run in the log of its pod: files as tar, compressed by zstd, as lines of
//! base64.
//!
//! A log outlives the container, and may be read by whoever may see the job; to copy files, a
//! container would have to run on, and its GPUs with it. Each line has a mark and a number, so that
//! lines of other processes between them do no harm, and a line that is lost is noticed. zstd's
//! checksum covers the content.

use std::{
    fs::{self, File},
    io::{self, Read, Write},
    path::{Component, Path, PathBuf},
};

use base64::{Engine, engine::general_purpose::STANDARD};

use crate::output::lock::write_whole_alone;

/// The beginning of each line.
const MARK: &str = "pxnbench-results ";

/// Bytes of a line before they are encoded. Container runtimes split lines of more than 16 KiB.
const LINE_BYTES: usize = 3 * 1024;

/// The largest archive in a log. A kubelet starts a new file after 10 MiB (`containerLogMaxSize`),
/// and shows the newest only.
pub const MOST_BYTES: usize = 4 << 20;

/// The most lines that are believed to be announced: those of 3 GiB.
const MOST_LINES: usize = 1 << 20;

/// The most bytes that are unpacked: a larger archive is not that of a run.
const MOST_UNPACKED: u64 = 4 << 30;

/// How hard zstd tries.
const LEVEL: i32 = 9;

/// Returns the files below `folder` as an archive.
///
/// # Errors
///
/// Returns an error if they cannot be read.
pub fn pack(folder: &Path) -> io::Result<Vec<u8>> {
    let mut compressed = zstd::Encoder::new(Vec::new(), LEVEL)?;
    compressed.include_checksum(true)?;
    let mut archive = tar::Builder::new(compressed);
    archive.follow_symlinks(false);
    archive.mode(tar::HeaderMode::Deterministic);
    archive.append_dir_all(".", folder)?;
    archive.into_inner()?.finish()
}

/// Writes an archive as lines.
///
/// # Errors
///
/// Returns an error if they cannot be written.
pub fn print(archive: &[u8], to: &mut dyn Write) -> io::Result<()> {
    let lines: Vec<&[u8]> = archive.chunks(LINE_BYTES).collect();
    writeln!(to, "{MARK}begin {}", lines.len())?;
    for (number, line) in lines.iter().enumerate() {
        writeln!(to, "{MARK}{number} {}", STANDARD.encode(line))?;
    }
    writeln!(to, "{MARK}end")?;
    to.flush()
}

/// Writes the line that stands for an archive of `bytes`, which is too large for a log.
///
/// # Errors
///
/// Returns an error if it cannot be written.
pub fn print_too_large(bytes: usize, to: &mut dyn Write) -> io::Result<()> {
    writeln!(to, "{MARK}too-large {bytes}")?;
    to.flush()
}

/// Returns whether a line of a log belongs to an archive, and not to what a reader wants to see.
pub fn is_line(line: &str) -> bool {
    line.starts_with(MARK)
}

/// What a log has of an archive.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing.
    Nothing,
    /// A line that says that it would be larger than [`MOST_BYTES`].
    TooLarge {
        /// Its bytes.
        bytes: u64,
    },
    /// Some of its lines.
    Part {
        /// The lines that are there.
        there: usize,
        /// All lines; `None` if the first line, which says so, is missing.
        all: Option<usize>,
    },
    /// All of it.
    Whole(Vec<u8>),
}

/// Reads the archive in a log; the last one, if there are several.
pub fn find(log: &str) -> Found {
    let mut all = None;
    let mut lines: Vec<Option<Vec<u8>>> = Vec::new();
    let mut stray = 0;
    for line in log.lines() {
        let Some(rest) = line.strip_prefix(MARK) else {
            continue;
        };
        let (first, second) = rest.split_once(' ').unwrap_or((rest, ""));
        match first {
            "begin" => {
                let count = second.trim().parse().ok();
                all = count.filter(|count| *count <= MOST_LINES);
                lines = vec![None; all.unwrap_or(0)];
            }
            "too-large" => {
                let bytes = second.trim().parse().unwrap_or(0);
                return Found::TooLarge { bytes };
            }
            number => match number
                .parse::<usize>()
                .ok()
                .and_then(|at| lines.get_mut(at))
            {
                Some(place) => *place = STANDARD.decode(second.trim()).ok(),
                None => stray += usize::from(first != "end"),
            },
        }
    }
    let there = lines.iter().flatten().count();
    match all {
        Some(all) if there == all => Found::Whole(lines.into_iter().flatten().flatten().collect()),
        None if stray == 0 => Found::Nothing,
        all => Found::Part {
            there: there.max(stray),
            all,
        },
    }
}

/// Writes the files of an archive below `folder`, and returns their paths.
///
/// # Errors
///
/// Returns an error if the archive is damaged, has anything but files in folders, or if a file
/// cannot be written.
pub fn unpack(archive: &[u8], folder: &Path) -> io::Result<Vec<PathBuf>> {
    let decompressed = zstd::Decoder::new(archive)?.take(MOST_UNPACKED);
    let mut archive = tar::Archive::new(decompressed);
    let mut written = Vec::new();
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = folder.join(below(&entry.path()?)?);
        match entry.header().entry_type() {
            tar::EntryType::Directory => fs::create_dir_all(&path)?,
            tar::EntryType::Regular => {
                fs::create_dir_all(path.parent().unwrap_or(folder))?;
                write_whole_alone(&path, |file: &mut File| {
                    io::copy(&mut entry, file).map(|_| ())
                })?;
                written.push(path);
            }
            _ => return Err(refused("has an entry that is neither a file nor a folder")),
        }
    }
    // The checksum is at the end.
    io::copy(&mut archive.into_inner(), &mut io::sink())?;
    Ok(written)
}

/// Returns a path that cannot lead out of the folder that it is joined to.
fn below(path: &Path) -> io::Result<PathBuf> {
    let mut inside = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::Normal(name) => inside.push(name),
            _ => return Err(refused("has a path that leads out of its folder")),
        }
    }
    Ok(inside)
}

fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the archive {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive() -> Vec<u8> {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("results.csv"), "size\n8\n").expect("written");
        fs::create_dir(folder.path().join("more")).expect("a folder");
        // It does not become smaller, so that there are several lines.
        let mut state = 1_u32;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        })
        .take(3 * LINE_BYTES)
        .collect();
        fs::write(folder.path().join("more/noise"), noise).expect("written");
        pack(folder.path()).expect("packed")
    }

    fn log(archive: &[u8]) -> String {
        let mut log = Vec::new();
        print(archive, &mut log).expect("printed");
        String::from_utf8(log).expect("text")
    }

    #[test]
    fn files_arrive_as_they_were_also_if_other_lines_come_between() {
        let archive = archive();
        let log = log(&archive).replace('\n', "\nNCCL INFO something\n");
        let found = find(&format!("# the table\n{log}"));
        let Found::Whole(found) = found else {
            panic!("{found:?}");
        };
        assert_eq!(found, archive);
        let folder = tempfile::tempdir().expect("a folder");
        let written = unpack(&found, folder.path()).expect("unpacked");
        assert_eq!(written.len(), 2);
        let text = fs::read_to_string(folder.path().join("results.csv")).expect("text");
        assert_eq!(text, "size\n8\n");
        assert!(folder.path().join("more/noise").is_file());
    }

    #[test]
    fn a_log_that_lacks_lines_is_not_taken_for_whole() {
        let log = log(&archive());
        let lines: Vec<&str> = log.lines().collect();
        let all = lines.len() - 2;
        let without = |left_out: usize| {
            let kept = lines.iter().enumerate().filter(|(at, _)| *at != left_out);
            let kept: Vec<&str> = kept.map(|(_, line)| *line).collect();
            find(&kept.join("\n"))
        };
        assert_eq!(
            without(0),
            Found::Part {
                there: all,
                all: None
            }
        );
        let part = Found::Part {
            there: all - 1,
            all: Some(all),
        };
        assert_eq!(without(2), part);
        assert!(
            matches!(without(all + 1), Found::Whole(_)),
            "the end says nothing more"
        );
        assert_eq!(find("# a table\n"), Found::Nothing);
        assert_eq!(find(""), Found::Nothing);
    }

    #[test]
    fn an_archive_that_is_too_large_leaves_a_line() {
        let mut log = Vec::new();
        print_too_large(5 << 20, &mut log).expect("printed");
        let log = String::from_utf8(log).expect("text");
        assert!(is_line(&log));
        assert_eq!(find(&log), Found::TooLarge { bytes: 5 << 20 });
        assert_eq!(
            find("pxnbench-results begin 99999999999"),
            Found::Nothing,
            "not to be believed"
        );
    }

    #[test]
    fn a_damaged_archive_is_refused() {
        let mut archive = archive();
        let middle = archive.len() / 2;
        archive[middle] ^= 1;
        let folder = tempfile::tempdir().expect("a folder");
        assert!(unpack(&archive, folder.path()).is_err());
    }

    #[test]
    fn nothing_is_written_outside_the_folder() {
        assert_eq!(below(Path::new("./a/b")).expect("inside"), Path::new("a/b"));
        for outside in ["/etc/passwd", "../x", "a/../../x"] {
            assert!(below(Path::new(outside)).is_err(), "{outside}");
        }
        let mut with_link = tar::Builder::new(zstd::Encoder::new(Vec::new(), 1).expect("zstd"));
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Symlink);
        header.set_size(0);
        with_link
            .append_link(&mut header, "link", "/etc")
            .expect("a link");
        let archive = with_link.into_inner().expect("tar").finish().expect("zstd");
        let folder = tempfile::tempdir().expect("a folder");
        let error = unpack(&archive, folder.path()).expect_err("a link");
        assert!(error.to_string().contains("neither a file nor a folder"));
    }
}
