//! Logs as they lie on disk: compressed, or in UTF-16.

use std::{
    cell::Cell,
    io::{self, BufReader, Cursor, Read},
    rc::Rc,
};

use encoding_rs_io::DecodeReaderBytes;
use flate2::read::MultiGzDecoder;

/// Bytes by which a format is known.
const MAGIC: usize = 4;
const GZIP: &[u8] = &[0x1f, 0x8b, 8];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
const BYTE_ORDER_MARKS: [&[u8]; 3] = [&[0xff, 0xfe], &[0xfe, 0xff], &[0xef, 0xbb, 0xbf]];
/// Formats that are known but not read, with what decompresses them.
const OTHERS: [(&[u8], &str); 2] = [(&[0xfd, b'7', b'z', b'X'], "xz"), (b"BZh", "bzip2")];
/// How often a log may be wrapped: UTF-16 in gzip is 2.
const LAYERS: usize = 4;
/// How many times as large as the file a log may become when it is decompressed. Logs become ten to
/// a hundred times as large; a file that was made to keep a reader busy grows a million times.
const MOST_GROWTH: u64 = 2000;
/// How large it may become in any case.
const ALWAYS: u64 = 64 << 20;

/// Returns `log` as plain bytes, whether it is compressed with gzip or zstd, or in UTF-16 with a
/// byte order mark. A compressed log that is cut ends where it is cut.
///
/// # Errors
/// Returns an error if `log` cannot be read, or if it is compressed with another program. Reading
/// it ends in an error if it becomes far larger than any log does.
pub(super) fn decoded<'a>(log: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
    decoded_up_to(log, ALWAYS)
}

/// As [`decoded`]; the log may become as large as `always`, and larger if the file is large.
fn decoded_up_to<'a>(log: impl Read + 'a, always: u64) -> io::Result<Box<dyn Read + 'a>> {
    let taken = Rc::new(Cell::new(0));
    let mut log: Box<dyn Read + 'a> = Box::new(Counted {
        log,
        taken: Rc::clone(&taken),
    });
    for _ in 0..LAYERS {
        let (begin, rest) = peek(log)?;
        if let Some((_, program)) = OTHERS.iter().find(|(magic, _)| begin.starts_with(magic)) {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                format!("it is compressed with {program}. Decompress it first with {program} -d"),
            ));
        }
        let whole = Cursor::new(begin.clone()).chain(rest);
        log = if begin.starts_with(GZIP) {
            let decoder = MultiGzDecoder::new(BufReader::new(whole));
            Box::new(UntilCut(decoder))
        } else if begin.starts_with(ZSTD) {
            Box::new(UntilCut(zstd::Decoder::new(whole)?))
        } else if BYTE_ORDER_MARKS.iter().any(|mark| begin.starts_with(mark)) {
            Box::new(DecodeReaderBytes::new(whole))
        } else {
            return Ok(Box::new(whole));
        };
        log = Box::new(Growing {
            log,
            taken: Rc::clone(&taken),
            given: 0,
            always,
        });
    }
    Ok(log)
}

/// Reads the first bytes.
fn peek<R: Read>(mut log: R) -> io::Result<(Vec<u8>, R)> {
    let mut begin = Vec::new();
    log.by_ref().take(MAGIC as u64).read_to_end(&mut begin)?;
    Ok((begin, log))
}

/// A file whose bytes are counted as they are read.
struct Counted<R> {
    log: R,
    taken: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.log.read(buffer)?;
        self.taken.set(self.taken.get() + bytes as u64);
        Ok(bytes)
    }
}

/// What is decoded, as long as it is not far larger than the file.
struct Growing<R> {
    log: R,
    /// The bytes of the file that were read.
    taken: Rc<Cell<u64>>,
    given: u64,
    always: u64,
}

impl<R: Read> Read for Growing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.log.read(buffer)?;
        self.given += bytes as u64;
        let most = self
            .taken
            .get()
            .saturating_mul(MOST_GROWTH)
            .max(self.always);
        if self.given > most {
            let what = format!(
                "it becomes more than {MOST_GROWTH} times as large when it is decompressed, as no \
                 log does"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        Ok(bytes)
    }
}

/// A decoder whose input may end too early.
struct UntilCut<R>(R);

impl<R: Read> Read for UntilCut<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write::GzEncoder};

    use super::*;

    const TEXT: &str = "one line\nanother line with \u{e4}\n";

    fn read(log: &[u8]) -> Vec<u8> {
        let mut text = Vec::new();
        let mut reader = decoded(log).expect("read");
        reader.read_to_end(&mut text).expect("read");
        text
    }

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).expect("compressed");
        encoder.finish().expect("compressed")
    }

    fn zstd(text: &[u8]) -> Vec<u8> {
        zstd::encode_all(text, 0).expect("compressed")
    }

    fn utf16(text: &str, to_bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
        let units = std::iter::once(0xfeff).chain(text.encode_utf16());
        units.flat_map(to_bytes).collect()
    }

    #[test]
    fn other_compressions_are_named() {
        for (log, sentence) in [
            (
                &b"\xfd7zXZ\0\0\x04"[..],
                "it is compressed with xz. Decompress it first with xz -d",
            ),
            (
                b"BZh91AY",
                "it is compressed with bzip2. Decompress it first with bzip2 -d",
            ),
        ] {
            for log in [log.to_vec(), gzip(log)] {
                let error = decoded(&log[..]).err().expect("not read");
                assert_eq!(error.to_string(), sentence);
            }
        }
    }

    #[test]
    fn every_encoding_gives_the_same_text() {
        let text = TEXT.as_bytes();
        let two_frames = [zstd(text), zstd(text)].concat();
        let skippable = [
            &[0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3][..],
            &zstd(text),
        ]
        .concat();
        for (log, times) in [
            (text.to_vec(), 1),
            (gzip(text), 1),
            ([gzip(text), gzip(text)].concat(), 2),
            (zstd(text), 1),
            (two_frames, 2),
            ([zstd(text), skippable].concat(), 2),
            (utf16(TEXT, u16::to_le_bytes), 1),
            (utf16(TEXT, u16::to_be_bytes), 1),
            ([b"\xef\xbb\xbf", text].concat(), 1),
            (gzip(&utf16(TEXT, u16::to_le_bytes)), 1),
            (zstd(&gzip(text)), 1),
        ] {
            assert_eq!(read(&log), text.repeat(times));
        }
        assert_eq!(read(b""), b"");
        assert_eq!(read(b"\x1f"), b"\x1f");
    }

    #[test]
    fn a_file_that_becomes_far_larger_is_refused() {
        const ALWAYS: u64 = 1 << 20;
        let noughts = vec![0; 2 << 20];
        let twice = gzip(&gzip(&noughts));
        // Nothing comes out of the innermost files, however many there are.
        let empty = zstd(&gzip(b"").repeat(100_000));
        for file in [zstd(&noughts), twice, empty] {
            // What has nothing in it is read while its beginning is looked for.
            let read = decoded_up_to(&file[..], ALWAYS)
                .and_then(|mut log| io::copy(&mut log, &mut io::sink()));
            let error = read.expect_err("too large");
            assert_eq!(
                error.to_string(),
                "it becomes more than 2000 times as large when it is decompressed, as no log does"
            );
        }
        let once = gzip(&noughts);
        let mut log = decoded_up_to(&once[..], ALWAYS).expect("a log");
        let read = io::copy(&mut log, &mut io::sink()).expect("as large as gzip can make it");
        assert_eq!(read, 2 << 20);
    }

    #[test]
    fn a_compressed_log_that_is_cut_ends_there() {
        let text = TEXT.repeat(20_000).into_bytes();
        for compressed in [gzip(&text), zstd(&text)] {
            let begin = read(&compressed[..compressed.len() - 7]);
            assert!(text.starts_with(&begin));
            assert!(!begin.is_empty());
        }
        for compressed in [gzip(b"x"), zstd(b"x")] {
            for length in 0..compressed.len() {
                let _ = read(&compressed[..length]);
            }
        }
    }

    #[test]
    fn damaged_data_is_an_error() {
        let mut damaged = gzip(TEXT.repeat(100).as_bytes());
        let middle = damaged.len() / 2;
        damaged[middle] ^= 0xff;
        let mut text = Vec::new();
        let read = decoded(&damaged[..]).and_then(|mut log| log.read_to_end(&mut text));
        assert!(read.is_err());
    }
}
