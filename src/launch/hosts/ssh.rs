//! The command line of ssh.

/// The exit code of ssh itself.
pub(super) const SSH_FAILED: i32 = 255;

/// Options of every call. Nothing asks a question, and a connection that dies is noticed within a
/// minute.
const OPTIONS: [&str; 10] = [
    "-T",
    "-x",
    "-o",
    "BatchMode=yes",
    "-o",
    "ConnectTimeout=10",
    "-o",
    "ServerAliveInterval=15",
    "-o",
    "ServerAliveCountMax=4",
];

/// Returns the words that run `line` in the login shell of `host`.
pub(super) fn words(host: &str, line: String) -> Vec<String> {
    let mut words = vec!["ssh".to_owned()];
    words.extend(OPTIONS.map(String::from));
    words.extend([host.to_owned(), line]);
    words
}
