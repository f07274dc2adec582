//! A log cut into lines, in constant memory.

use std::io::{self, Read};

/// Bytes that are read at once; a line longer than this is cut.
const CHUNK: usize = 1 << 20;

/// What ends a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineEnd {
    /// A newline.
    Newline,
    /// The end of the log.
    Log,
    /// Nothing: the line is too long, and the rest of it is left out.
    Cut,
}

/// Passes each line of `log` to `take`, without its newline.
///
/// # Errors
/// Returns an error if the log cannot be read.
pub(super) fn for_each_line(
    mut log: impl Read,
    mut take: impl FnMut(&[u8], LineEnd),
) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK];
    let mut filled = 0;
    let mut is_skipping = false;
    loop {
        let read = match log.read(&mut chunk[filled..]) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if read == 0 {
            break;
        }
        let new = filled;
        filled += read;
        if let Some(last) = memchr::memrchr(b'\n', &chunk[new..filled]) {
            let whole = new + last + 1;
            take_lines(&chunk[..whole], &mut is_skipping, &mut take);
            chunk.copy_within(whole..filled, 0);
            filled -= whole;
        } else if filled == CHUNK {
            // Longer than any line of NCCL: its beginning counts, and the rest is skipped.
            if !is_skipping {
                take(&chunk, LineEnd::Cut);
            }
            filled = 0;
            is_skipping = true;
        }
    }
    if filled > 0 && !is_skipping {
        take(&chunk[..filled], LineEnd::Log);
    }
    Ok(())
}

/// Passes the whole lines in `text` to `take`. The first is left out if `is_skipping`, because its
/// beginning was taken already.
fn take_lines(text: &[u8], is_skipping: &mut bool, take: &mut impl FnMut(&[u8], LineEnd)) {
    let mut start = 0;
    for end in memchr::memchr_iter(b'\n', text) {
        if *is_skipping {
            *is_skipping = false;
        } else {
            take(&text[start..end], LineEnd::Newline);
        }
        start = end + 1;
    }
}
