//! Log lines that a collector wrapped in JSON: Docker's json-file, fluentd, fluent-bit, CloudWatch,
//! Loki, journald.

use memchr::memmem;
use serde_json::{Map, Value};

/// Keys of the text, the usual ones first.
const TEXT: [&str; 10] = [
    "log",
    "message",
    "msg",
    "MESSAGE",
    "textPayload",
    "line",
    "@message",
    "_msg",
    "text",
    "body",
];
/// Keys of who wrote it, the most exact first, as JSON pointers.
const WRITERS: [&str; 14] = [
    "/kubernetes/pod_name",
    "/kubernetes/pod/name",
    "/resource/labels/pod_name",
    "/stream/pod",
    "/labels/pod",
    "/podName",
    "/pod_name",
    "/pod",
    "/containerName",
    "/container_name",
    "/container_id",
    "/logStreamName",
    "/_PID",
    "/host",
];

/// Returns the text in a line that is a JSON record, with its writer in brackets in front of each
/// of its lines; `None` if the line is none. A record may follow a timestamp or a tag, which is
/// kept.
pub fn unwrap_record(line: &[u8]) -> Option<Vec<u8>> {
    let text = line.trim_ascii_end();
    let text = text.strip_suffix(b",").unwrap_or(text);
    if text.last() != Some(&b'}') {
        return None;
    }
    let begin = memmem::find(text, b"{\"")?;
    let record: Value = serde_json::from_slice(&text[begin..]).ok()?;
    let message = find_text(record.as_object()?)?;
    let mut prefix = text[..begin].to_vec();
    if let Some(writer) = find_writer(&record) {
        prefix.extend_from_slice(format!("[{writer}] ").as_bytes());
    }
    let mut lines = Vec::new();
    for (at, line) in message.lines().enumerate() {
        if at > 0 {
            lines.push(b'\n');
        }
        lines.extend_from_slice(&prefix);
        lines.extend_from_slice(line.as_bytes());
    }
    Some(lines)
}

fn find_text(record: &Map<String, Value>) -> Option<&str> {
    TEXT.iter()
        .find_map(|key| record.get(*key).and_then(Value::as_str))
}

fn find_writer(record: &Value) -> Option<&str> {
    WRITERS
        .iter()
        .find_map(|pointer| record.pointer(pointer).and_then(Value::as_str))
}
