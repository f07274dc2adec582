//! Sentences that mention NCCL.

/// Plain words in front of `NCCL` from which on a line is a sentence. A launcher puts fewer there:
/// `worker-0 main`.
const PLAIN_WORDS: usize = 2;

/// Returns whether `head`, which stands before `NCCL INFO` or `NCCL version`, is the beginning of a
/// sentence.
pub(super) fn is_prose(head: &[u8]) -> bool {
    // NCCL itself ends a head with the device or with a place in its source.
    if head.ends_with(b"] ") || head.is_empty() {
        return false;
    }
    let mut plain_words = 0;
    for word in head.split(u8::is_ascii_whitespace) {
        if is_address(word) {
            return false;
        }
        plain_words += usize::from(is_plain(word) && !is_of_a_collector(word));
    }
    plain_words >= PLAIN_WORDS
}

/// Returns whether `word` is letters, with or without a punctuation mark at its end.
fn is_plain(word: &[u8]) -> bool {
    let letters = match word {
        [letters @ .., b'.' | b',' | b':' | b';' | b'!' | b'?'] => letters,
        _ => word,
    };
    !letters.is_empty() && !is_of_a_date(letters) && letters.iter().all(|c| c.is_ascii_alphabetic())
}

/// Returns whether `word` says what a line is, not who wrote it: the stream, the level, and the `F`
/// and `P` of Kubernetes' own files.
pub(super) fn is_of_a_collector(word: &[u8]) -> bool {
    const WORDS: [&[u8]; 7] = [
        b"stdout", b"stderr", b"F", b"P", b"INFO", b"ERROR", b"WARNING",
    ];
    WORDS.contains(&word)
}

/// Returns whether `word` has the two colons of `host:pid:tid`.
pub(super) fn is_address(word: &[u8]) -> bool {
    memchr::memchr_iter(b':', word).count() >= 2 && word.last().is_some_and(u8::is_ascii_digit)
}

/// Returns whether `word` is a month's or a weekday's short name, as syslog and `date` write them.
pub(super) fn is_of_a_date(word: &[u8]) -> bool {
    const NAMES: [&[u8]; 21] = [
        b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov",
        b"Dec", b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat", b"Sun", b"UTC", b"GMT",
    ];
    NAMES.contains(&word)
}
