//! Each flag and variable of nccl-tests, and the page `docs/PARITY.md` that is made from the list.

use std::fmt::Write;

use crate::common::evidence::{
    Evidence::{self, GpuCheck, Test},
    EvidenceSources, expect_page,
};

/// A flag or a variable of nccl-tests 2.19.6, or of the version that is named.
struct Parity {
    flag: &'static str,
    /// What it does here, if that is not the same; else empty.
    differs: &'static str,
    shown_by: Evidence,
}

const PARITY: &[Parity] = &[
    Parity {
        flag: "-t, --nthreads",
        differs: "`# Out of bounds values` counts processes with wrong data; nccl-tests counts \
                  threads",
        shown_by: GpuCheck("two threads"),
    },
    Parity {
        flag: "-g, --ngpus",
        differs: "",
        shown_by: GpuCheck("two GPUs, one process"),
    },
    Parity {
        flag: "-b, --minbytes",
        differs: "0 is refused; nccl-tests never ends",
        shown_by: Test("bad_input_gets_one_sentence"),
    },
    Parity {
        flag: "-e, --maxbytes",
        differs: "reduced to what is free on the GPU with the least free memory; nccl-tests \
                  reduces it to a fraction of the total. A single size that does not fit is an \
                  error (exit code 5)",
        shown_by: Test("a_size_that_does_not_fit_is_said_in_every_output"),
    },
    Parity {
        flag: "-i, --stepbytes",
        differs: "0 is accepted only with a factor (`-f`)",
        shown_by: Test("every_flag_is_taken_in_all_of_its_spellings"),
    },
    Parity {
        flag: "-f, --stepfactor",
        differs: "0 means 1: `-i` is used",
        shown_by: Test("every_flag_is_taken_in_all_of_its_spellings"),
    },
    Parity {
        flag: "-n, --iters",
        differs: "anything but a number is refused; nccl-tests reads it as 0. 0 checks without \
                  timing: times and bandwidths are 0.00, and `# Nothing was timed` is printed \
                  above the totals; nccl-tests prints a time of `inf`",
        shown_by: Test("no_iterations_check_the_data_without_timing"),
    },
    Parity {
        flag: "-m, --agg_iters",
        differs: "refused with `-z 1` and `-z 2`, which would wait inside an open group. On host \
                  memory, one operation after another",
        shown_by: GpuCheck("operations in groups"),
    },
    Parity {
        flag: "-w, --warmup_iters",
        differs: "",
        shown_by: Test("as_many_operations_run_as_are_asked_for"),
    },
    Parity {
        flag: "-N, --run_cycles",
        differs: "the column `repeat` has the number of the cycle",
        shown_by: Test("sizes_are_run_through_again_and_again"),
    },
    Parity {
        flag: "-p, --parallel_init",
        differs: "",
        shown_by: GpuCheck("two threads that join at once"),
    },
    Parity {
        flag: "-c, --check",
        differs: "0 prints `# Nothing was checked` above the totals",
        shown_by: Test("as_many_operations_run_as_are_asked_for"),
    },
    Parity {
        flag: "-o, --op",
        differs: "an unknown one is refused; nccl-tests uses sum. sendrecv is not repeated for \
                  each reduction",
        shown_by: GpuCheck("all types and operations"),
    },
    Parity {
        flag: "-d, --datatype",
        differs: "an unknown one is refused; nccl-tests uses float. Comma-separated lists are \
                  accepted",
        shown_by: GpuCheck("all types and operations"),
    },
    Parity {
        flag: "-r, --root",
        differs: "`all` is accepted; nccl-tests reads it as 0",
        shown_by: Test("a_root_matters_only_where_there_is_one"),
    },
    Parity {
        flag: "-z, --blocking",
        differs: "refused with `-G`, which launches all operations as one",
        shown_by: GpuCheck("waiting after each operation"),
    },
    Parity {
        flag: "-y, --stream_null",
        differs: "refused with `-G`, because CUDA does not capture the null stream",
        shown_by: GpuCheck("the null stream"),
    },
    Parity {
        flag: "-T, --timeout",
        differs: "every wait has a limit, without progress; the stuck rank is named; 0 means 600 s",
        shown_by: Test("each_rank_that_is_stopped_is_named_by_another_and_the_job_ends"),
    },
    Parity {
        flag: "-G, --cudagraph",
        differs: "",
        shown_by: GpuCheck("as a CUDA graph"),
    },
    Parity {
        flag: "-C, --report_cputime",
        differs: "the time of rank 0; column `issue_us`",
        shown_by: Test("the_time_of_issuing_takes_the_place_of_the_time"),
    },
    Parity {
        flag: "-S, --report_timestamps",
        differs: "",
        shown_by: Test("rows_end_with_the_time_of_day"),
    },
    Parity {
        flag: "-J, --output_file",
        differs: "any file name; if the folder is missing, nothing is written and `# skipping \
                  json output` is printed, as in nccl-tests; see below",
        shown_by: Test("json_has_the_keys_of_nccl_tests"),
    },
    Parity {
        flag: "-a, --average",
        differs: "0: the time of rank 0 is used for all ranks",
        shown_by: Test("each_average_is_what_it_says"),
    },
    Parity {
        flag: "-R, --local_register",
        differs: "",
        shown_by: GpuCheck("registered buffers"),
    },
    Parity {
        flag: "-x, --cta_policy",
        differs: "",
        shown_by: GpuCheck("CTA policies"),
    },
    Parity {
        flag: "-D, --device_implementation",
        differs: "not supported: anything but 0 is refused (exit code 6)",
        shown_by: Test("device_kernels_are_refused_with_the_reason"),
    },
    Parity {
        flag: "-V, --device_cta_count",
        differs: "accepted, but has no effect",
        shown_by: Test("every_flag_is_taken_in_all_of_its_spellings"),
    },
    Parity {
        flag: "-M, --memory",
        differs: "printed below the last table; `memory` in `run.json`",
        shown_by: GpuCheck("memory in use"),
    },
    Parity {
        flag: "-u, --unalign",
        differs: "",
        shown_by: GpuCheck("unaligned buffers"),
    },
    Parity {
        flag: "-I, --per_iter_timing",
        differs: "refused with `-G`; columns `iter_…`. On host memory, by the host's clock",
        shown_by: GpuCheck("single iterations"),
    },
    Parity {
        flag: "-K, --per_iter_skip",
        differs: "a value of `-n` or more is refused; nccl-tests then skips none",
        shown_by: GpuCheck("single iterations"),
    },
    Parity {
        flag: "-U, --tuning (2.20)",
        differs: "three columns at the end of a row: algo, proto, nchannels. They come from a \
                  process that runs each case once beforehand and logs TUNING; what its log does \
                  not show is `N/A`. With several communicators it is refused",
        shown_by: Test("tuning_columns_say_how_nccl_ran_each_case"),
    },
    Parity {
        flag: "-h, --help",
        differs: "also has the flags of this program",
        shown_by: Test("the_version_line_and_help_are_those_of_the_name"),
    },
    Parity {
        flag: "NCCL_TESTS_SPLIT",
        differs: "CSV and JSON have a row per communicator, and the mean busbw is over those \
                  rows; rows of the table are means over all ranks, as in nccl-tests. An invalid \
                  value is refused; nccl-tests then uses one communicator",
        shown_by: Test("each_communicator_has_its_own_rows"),
    },
    Parity {
        flag: "NCCL_TESTS_SPLIT_MASK",
        differs: "",
        shown_by: Test("each_communicator_has_its_own_rows"),
    },
    Parity {
        flag: "NCCL_TESTS_DEVICE",
        differs: "",
        shown_by: GpuCheck("a first GPU that is given"),
    },
    Parity {
        flag: "NCCL_TESTS_MIN_BW",
        differs: "also FAILED if nothing ran; the exit code is then 5",
        shown_by: Test("a_mean_below_the_threshold_is_exit_7"),
    },
    Parity {
        flag: "NCCL_TESTS_ALLTOALLV_SPREAD",
        differs: "a value outside 0 to 1 is refused; nccl-tests clamps it",
        shown_by: Test("alltoallv_is_as_its_variables_say"),
    },
    Parity {
        flag: "NCCL_TESTS_ALLTOALLV_MATRIX_FILE",
        differs: "",
        shown_by: Test("alltoallv_is_as_its_variables_say"),
    },
    Parity {
        flag: "NCCL_TESTS_ALLTOALLV_MATRIX_SCALE",
        differs: "",
        shown_by: Test("alltoallv_is_as_its_variables_say"),
    },
    Parity {
        flag: "NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY",
        differs: "",
        shown_by: Test("alltoallv_is_as_its_variables_say"),
    },
];

fn parity_md() -> String {
    let mut text = String::from(
        "# As a replacement for nccl-tests\n\n\
         Generated from the table in `tests/parity/list.rs` by `UPDATE_GOLDEN=1 cargo test --test parity`.\n\n\
         `pxnbench links DIR` creates links with the names of nccl-tests' programs. Called as `all_reduce_perf` (or \
         `all_reduce_perf_mpi`), pxnbench runs that collective with nccl-tests' command line: the same flags, the same table, \
         and no files except those that are requested. The version line has the form that nccl-tests has had since 2.20, with this \
         program in place of the commit: `# nccl-tests version 2.19.6 (pxnbench 0.1.0) nccl-headers=23000 nccl-library=22803`. This \
         page lists what differs from nccl-tests 2.19.6; [METHOD.md](METHOD.md) explains how both measure.\n\n\
         ```\npxnbench links bin\nmpirun -np 8 bin/all_reduce_perf -b 8 -e 4G -f 2 -g 1\nbin/all_reduce_perf -b 8 -e 4G -f 2 -g 8\n```\n\n\
         ## Flags and variables\n\n| nccl-tests | what differs here | tested by |\n|---|---|---|\n",
    );
    for Parity {
        flag,
        differs,
        shown_by,
    } in PARITY
    {
        let _ = writeln!(text, "| `{flag}` | {differs} | {shown_by} |");
    }
    text.push_str(
        "\nAn empty variable counts as unset.\n\n## Numbers and exit codes\n\n[Exit codes](FORMAT.md#exit-codes) 0 to 7 are those of nccl-tests. An unknown flag and \
         a value that cannot be read are exit code 6. nccl-tests exits with 0 after an unknown flag, and reads such a value as \
         some other one. Whole numbers are decimal: `010` is 10, and `0x10` is refused except in `NCCL_TESTS_SPLIT`. nccl-tests \
         reads them as 8 and 16.\n\n\
         ## JSON\n\n`-J FILE` writes the keys of nccl-tests' format, version 3, each with the type that it has there: `root` is text of \
         six columns, `nwrong` has a fraction, and booleans are strings. These things differ:\n\n\
         - Half a row that did not run is null. `nccl_version` is 0 if no NCCL ran.\n\
         - `config` shows only what had an effect: without GPUs, `ngpus` is 1 and `blocking_collectives` is `\"false\"`, whatever the flags say.\n\
         - There are more keys: `config.backend`, `config.tuning`, `config.reduced_maximum_bytes` (if sizes were left out for lack \
         of memory), `group` of a row (with several communicators), `computed` (`\"true\"` in rows of the model), \
         `out_of_place_tuning` and `in_place_tuning` (with `-U`).\n\
         - All GPUs are listed, not only the first one of each process.\n\
         - `env` has only the recorded variables, never the whole environment.\n\
         - Strings are complete, whatever characters they contain.\n\
         - `experiment_name` is the collective.\n\
         - An existing file is kept as `FILE.1`, and the new one is `FILE`. nccl-tests writes the new one to `FILE.0`.\n\n\
         ## Not supported\n\nKernels that use NCCL's device API (`-D`), because they must be compiled against one particular \
         version of NCCL's headers.\n",
    );
    text
}

#[test]
fn parity_md_is_up_to_date_and_names_tests_that_are_there() {
    let sources = EvidenceSources::read();
    for Parity { flag, shown_by, .. } in PARITY {
        assert!(sources.have(shown_by), "{flag}: there is no {shown_by:?}");
    }
    expect_page("PARITY.md", &parity_md());
}
