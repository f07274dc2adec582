//! What a test says that a machine lacks something for.

#![allow(
    unreachable_pub,
    reason = "the tests of both packages have it, at different depths"
)]

use std::io::Write;

/// Says that a test is skipped, and fails it where the environment requires `what`. Test runners
/// show nothing of a test that passes, so that it is noted in the file `PXNBENCH_SKIPPED` too, for
/// `scripts/test.sh` to say at its end.
pub fn skip(what: &str, why: &str) -> bool {
    let required = std::env::var("PXNBENCH_REQUIRE").unwrap_or_default();
    assert!(
        !required.split(',').any(|name| name == what),
        "PXNBENCH_REQUIRE={required}, but {why}"
    );
    eprintln!("SKIPPED: {why}");
    if let Some(path) = std::env::var_os("PXNBENCH_SKIPPED") {
        let line = format!("{what}: {why}").replace('\n', " ") + "\n";
        let file = std::fs::File::options()
            .create(true)
            .append(true)
            .open(path);
        file.and_then(|mut file| file.write_all(line.as_bytes()))
            .expect("what is skipped can be noted");
    }
    false
}
