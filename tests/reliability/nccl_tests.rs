//! What nccl-tests does with the same faults, where that was tried on the same GPUs.

use std::fmt::Write;

/// A fault, and what was measured of both programs.
struct NcclTestsRow {
    fault: &'static str,
    nccl_tests: &'static str,
    pxnbench: &'static str,
}

const ROWS: &[NcclTestsRow] = &[];

/// Appends the section to the page, unless nothing was tried.
pub(crate) fn write(text: &mut String) {
    if ROWS.is_empty() {
        return;
    }
    text.push_str(
        "\n## Beside nccl-tests\n\nThe same faults in both programs, on the same GPUs.\n\n\
         | fault | nccl-tests | pxnbench |\n|---|---|---|\n",
    );
    for row in ROWS {
        let _ = writeln!(
            text,
            "| {} | {} | {} |",
            row.fault, row.nccl_tests, row.pxnbench
        );
    }
}
