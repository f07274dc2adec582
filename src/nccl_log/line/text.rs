//! Tools for reading text that is bytes.

use std::sync::LazyLock;

use memchr::memmem::Finder;

/// A word that is looked for in lines. Making a finder takes longer than finding.
pub(super) type Needle = LazyLock<Finder<'static>>;

/// Splits `text` at the last `separator`, which neither part has.
pub(super) fn split_last(text: &[u8], separator: u8) -> Option<(&[u8], &[u8])> {
    let at = memchr::memrchr(separator, text)?;
    Some((&text[..at], &text[at + 1..]))
}

/// Returns what follows the first `needle` in `text`.
pub(super) fn after<'a>(needle: &Needle, text: &'a [u8]) -> Option<&'a [u8]> {
    let at = needle.find(text)?;
    Some(&text[at + needle.needle().len()..])
}

/// Reads a decimal number that is all of `text`.
pub(super) fn decimal(text: &[u8]) -> Option<u64> {
    let mut cursor = Cursor(text);
    cursor.number().filter(|_| cursor.0.is_empty())
}

/// Reads a number of the form `0xfe40` that is all of `text`.
pub(super) fn hexadecimal(text: &[u8]) -> Option<u64> {
    let digits = text.strip_prefix(b"0x")?;
    u64::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()
}

/// The rest of a message that is still to be read.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a>(pub(super) &'a [u8]);

impl<'a> Cursor<'a> {
    /// Skips `text` if it comes next, and returns whether it did.
    pub(super) fn eat(&mut self, text: &[u8]) -> bool {
        match self.0.strip_prefix(text) {
            Some(rest) => {
                self.0 = rest;
                true
            }
            None => false,
        }
    }

    /// Skips `text`, which must come next.
    pub(super) fn require(&mut self, text: &[u8]) -> Option<()> {
        self.eat(text).then_some(())
    }

    /// Reads a decimal number that fits.
    pub(super) fn number(&mut self) -> Option<u64> {
        let length = count_leading(self.0, u8::is_ascii_digit);
        if length == 0 {
            return None;
        }
        let (digits, rest) = self.0.split_at(length);
        let mut number = 0_u64;
        for digit in digits {
            number = number
                .checked_mul(10)?
                .checked_add(u64::from(digit - b'0'))?;
        }
        self.0 = rest;
        Some(number)
    }

    /// Reads what comes before the next `end`, or all that is left.
    pub(super) fn until(&mut self, end: u8) -> &'a [u8] {
        let length = memchr::memchr(end, self.0).unwrap_or(self.0.len());
        let (text, rest) = self.0.split_at(length);
        self.0 = rest;
        text
    }

    /// Reads what comes before the next space.
    pub(super) fn word(&mut self) -> &'a [u8] {
        self.until(b' ')
    }

    /// Returns the transport's name that comes next: letters and digits up to a slash or a space.
    pub(super) fn transport(&self) -> Option<&'a [u8]> {
        let length = count_leading(self.0, u8::is_ascii_alphanumeric);
        let (name, rest) = self.0.split_at(length);
        let is_complete = matches!(rest.first(), None | Some(b'/' | b' '));
        (length > 0 && is_complete).then_some(name)
    }

    /// Reads the number of a GPU in brackets: `[1]`, `[1b000]`, `[-1]`.
    pub(super) fn gpu(&mut self) -> Option<&'a [u8]> {
        self.require(b"[")?;
        let length = count_leading(self.0, |c| c.is_ascii_hexdigit() || *c == b'-');
        let (gpu, rest) = self.0.split_at(length);
        self.0 = rest;
        self.require(b"]")?;
        (length > 0).then_some(gpu)
    }
}

/// Counts the bytes at the start of `text` that `belongs` accepts.
pub(super) fn count_leading(text: &[u8], belongs: impl Fn(&u8) -> bool) -> usize {
    text.iter().take_while(|c| belongs(c)).count()
}
