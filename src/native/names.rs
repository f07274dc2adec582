//! The environment variables that a libnccl knows. It has no function that tells, so its file is
//! searched for their names.
//!
//! Every name that NCCL reads is a string in its read-only data, so only that section is read: a
//! few hundred kilobytes of a file of several hundred megabytes. Strings may be adjacent there: a
//! name may directly follow the last letter of another string. So every text that starts with
//! `NCCL_` and ends in a zero byte is a name, wherever it begins. That finds all names that NCCL
//! reads, and a few others.

use std::{collections::BTreeSet, fmt::Display, fs::File, path::Path};

use memchr::memmem;
use object::{
    Endianness,
    elf::FileHeader64,
    read::{ReadCache, elf::FileHeader},
};

use super::cuda_release::CudaRelease;
use crate::exit::{Code, Failure};

const SECTION: &[u8] = b".rodata";
const PREFIX: &[u8] = b"NCCL_";

/// Returns the names that the library in this file knows.
///
/// # Errors
/// Returns an error if the file cannot be read, or is not a 64-bit ELF file with read-only data.
pub fn known_to(library: &Path) -> anyhow::Result<BTreeSet<String>> {
    let file = File::open(library).map_err(|error| failure(library, &error))?;
    let data = ReadCache::new(file);
    match read_only_data(&data) {
        Ok(Some(section)) => Ok(names_in(section)),
        Ok(None) => Err(failure(library, &"it has no section .rodata")),
        Err(error) => Err(failure(library, &error)),
    }
}

/// Returns the CUDA that the library in this file is built for, from its own
/// `NCCL version 2.28.3+cuda12.9`; `None` if it does not say so.
///
/// # Errors
/// Returns an error if the file cannot be read, or is not a 64-bit ELF file.
pub fn built_for(library: &Path) -> anyhow::Result<Option<CudaRelease>> {
    let file = File::open(library).map_err(|error| failure(library, &error))?;
    let data = ReadCache::new(file);
    let section = read_only_data(&data).map_err(|error| failure(library, &error))?;
    Ok(section.and_then(release_in))
}

/// What stands before the release of CUDA in a libnccl's name for itself.
const BUILT_FOR: &[u8] = b"+cuda";

fn release_in(data: &[u8]) -> Option<CudaRelease> {
    memmem::find_iter(data, BUILT_FOR).find_map(|start| {
        let text = &data[start + BUILT_FOR.len()..];
        let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
        std::str::from_utf8(text).ok()?.parse().ok()
    })
}

fn failure(library: &Path, why: &dyn Display) -> anyhow::Error {
    Failure::on_this_rank(
        Code::Nccl,
        format!(
            "{} cannot be searched for the variables that it reads: {why}",
            library.display()
        ),
    )
}

/// Returns the section with read-only data. Apart from it only the file's headers are read.
fn read_only_data(data: &ReadCache<File>) -> object::read::Result<Option<&[u8]>> {
    let header = FileHeader64::<Endianness>::parse(data)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, data)?;
    let section = sections.section_by_name(endian, SECTION);
    section
        .map(|(_, section)| object::read::elf::SectionHeader::data(section, endian, data))
        .transpose()
}

fn names_in(data: &[u8]) -> BTreeSet<String> {
    memmem::find_iter(data, PREFIX)
        .filter_map(|start| name_at(&data[start..]))
        .collect()
}

/// Returns the name at the start of `text`, if a zero byte ends it.
fn name_at(text: &[u8]) -> Option<String> {
    let length = text.iter().position(|byte| !is_part_of_name(*byte))?;
    let is_name = text[length] == 0 && length > PREFIX.len();
    is_name.then(|| String::from_utf8_lossy(&text[..length]).into_owned())
}

fn is_part_of_name(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_'
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, process::Command};

    /// Builds a small library from C. Rust's own linking needs this compiler too, so it is there.
    fn library(folder: &Path, source: &str) -> std::path::PathBuf {
        let (code, library) = (folder.join("x.c"), folder.join("libx.so"));
        fs::write(&code, source).expect("written");
        let compiler = Command::new("cc")
            .args(["-shared", "-fPIC", "-O0", "-o"])
            .arg(&library)
            .arg(&code)
            .output();
        let compiler = compiler.expect("cc");
        assert!(
            compiler.status.success(),
            "{}",
            String::from_utf8_lossy(&compiler.stderr)
        );
        library
    }

    #[test]
    fn names_are_found_in_read_only_data_and_nowhere_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let source = r#"
            const char glued[] = "/dev/shm/nccl-XXNCCL_NET_PLUGIN\0NCCL_NTHREADS";
            const char* plain(void) { return "NCCL_PXN_DISABLE"; }
            const char version[] = "+cuda is no release\0NCCL version 2.28.3+cuda12.9";
            const char sentence[] = "NCCL_ALGO was set\0NCCL_\0NCCL_lower\0NCCL_P2P_PXN_LEVEL";
            char written[] = "NCCL_IN_DATA";
            int NCCL_A_SYMBOL = 1;
        "#;
        let library = library(folder.path(), source);
        let names: Vec<String> = known_to(&library).expect("names").into_iter().collect();
        assert_eq!(
            names,
            [
                "NCCL_NET_PLUGIN",
                "NCCL_NTHREADS",
                "NCCL_P2P_PXN_LEVEL",
                "NCCL_PXN_DISABLE"
            ]
        );
        let cuda = built_for(&library).expect("a library").expect("a release");
        assert_eq!(cuda.to_string(), "12.9");
    }

    /// `PXNBENCH_LIBNCCL=/x/libnccl.so.2 cargo test --release --lib -- --ignored --nocapture asking_a_library`
    #[test]
    #[ignore = "a measurement"]
    #[expect(
        clippy::print_stdout,
        reason = "a measurement is read by who asks for it"
    )]
    fn asking_a_library_of_400_mb_takes_a_moment() {
        let folder = tempfile::tempdir().expect("a folder");
        let asked = |library: &Path| {
            let start = std::time::Instant::now();
            let names = known_to(library).expect("names").len();
            println!(
                "{}: {names} names in {:.1?}",
                library.display(),
                start.elapsed()
            );
        };
        let made = library(
            folder.path(),
            r#"const char* plain(void) { return "NCCL_PXN_DISABLE"; }"#,
        );
        File::options()
            .write(true)
            .open(&made)
            .and_then(|file| file.set_len(400_000_000))
            .expect("a hole at its end");
        asked(&made);
        if let Some(real) = std::env::var_os("PXNBENCH_LIBNCCL") {
            asked(Path::new(&real));
            asked(Path::new(&real));
        }
    }

    #[test]
    fn a_name_that_the_section_cuts_off_is_none() {
        assert_eq!(
            names_in(b"NCCL_A\0NCCL_B").into_iter().collect::<Vec<_>>(),
            ["NCCL_A"]
        );
        assert!(names_in(b"NCCL").is_empty() && names_in(b"").is_empty());
    }

    #[test]
    fn what_is_no_library_is_said() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("libnccl.so.2");
        for (text, words) in [
            (None, "No such file"),
            (Some("not a library"), "Invalid"),
            (Some(""), ""),
        ] {
            if let Some(text) = text {
                fs::write(&file, text).expect("written");
            }
            let error = known_to(&file).expect_err("no library");
            let sentence = error.to_string();
            assert!(
                sentence.contains("libnccl.so.2 cannot be searched") && sentence.contains(words),
                "{sentence}"
            );
            assert_eq!(crate::exit::code_of(&error), Code::Nccl);
        }
        let cut_off = fs::read("/proc/self/exe").expect("this test");
        fs::write(&file, &cut_off[..4096]).expect("written");
        assert!(
            known_to(&file).is_err(),
            "a file that ends before its sections"
        );
    }
}
