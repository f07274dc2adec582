//! What nccl-tests does with the same faults, where that was tried on the same GPUs.

use std::fmt::Write;

/// A fault, and what was measured of both programs.
struct NcclTestsRow {
    fault: &'static str,
    nccl_tests: &'static str,
    pxnbench: &'static str,
}

const ROWS: &[NcclTestsRow] = &[
    NcclTestsRow {
        fault: "`kill -9` of a rank",
        nccl_tests: "ends within 1.3 s; mpirun names the rank; the file of `-J` is cut off at \
                     8192 bytes and is no JSON",
        pxnbench: "ends within 2.2 s; names the rank, its host and process, on stderr and in \
                   `run.json` (in a note beside it if it was rank 0); all finished cases are kept",
    },
    NcclTestsRow {
        fault: "SIGSTOP of a rank during `-b 1M -e 1G -n 2000 -T 5`",
        nccl_tests: "has not ended after 60 s, and names no rank",
        pxnbench: "names the rank with its host, GPU and process in 20 of 20 runs; the job is \
                   gone 5.2 to 6.7 s after the signal; all finished cases are kept",
    },
    NcclTestsRow {
        fault: "Ctrl-C",
        nccl_tests: "ends within 1.3 s; the file of `-J` is cut off at 8192 bytes and is no JSON",
        pxnbench: "ends within 2 s; all finished cases are kept; `run.json` has exit code 9",
    },
    NcclTestsRow {
        fault: "`-J` on a full disk",
        nccl_tests: "says nothing, exits with 0, and leaves an empty file",
        pxnbench: "names the file and the reason before anything is measured, exit code 6",
    },
    NcclTestsRow {
        fault: "a rank that never starts",
        nccl_tests: "has not ended after 35 s",
        pxnbench: "names the rank after *T* (8 s), and ends 2 s later with exit code 4",
    },
    NcclTestsRow {
        fault: "ranks with different arguments (`-b 1M -e 1M` and `-b 2M -e 2M`)",
        nccl_tests: "has not ended after 45 s",
        pxnbench: "prints the arguments of both ranks, exit code 6 after 1.6 s",
    },
];

/// Appends the section to the page.
pub(crate) fn write(text: &mut String) {
    text.push_str(
        "\n## Beside nccl-tests\n\n`all_reduce` and `all_reduce_perf` of nccl-tests 2.19.6, with the same arguments, on two H200 with \
         NCCL 2.28.3 and Open MPI 4.1.6.\n\n\
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
