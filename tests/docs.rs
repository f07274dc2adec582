//! Documents that are made from tables are up to date. `UPDATE_GOLDEN=1 cargo test --test docs`
//! rewrites them.

use std::{
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};

use pxnbench::{
    doctor,
    exit::CODES,
    experiment::TUNE_COLUMNS,
    levels::{
        self, Axis,
        audit::{CHECKS, Needs, contradictions, known_names, values},
    },
    nccl_log::reason::REASONS,
    output::{
        ranks::{MOST_ROWS, RANK_COLUMNS, case_columns},
        samples::THROUGHPUT_COLUMNS,
        stragglers::STRAGGLER_COLUMNS,
        telemetry::CASE_KEYS,
    },
    record::columns::COLUMNS,
    telemetry::{self, QUANTITIES},
    workload::{BUILT_IN, Workload, WorkloadOptions},
};

fn format_md() -> String {
    let mut text = String::from(
        "# Files of a run\n\n\
         Generated from the tables in the code by `UPDATE_GOLDEN=1 cargo test --test docs`.\n\n\
         A run writes its files to the folder given by `--out DIR`. The default is `results/<job>-<id>/<step>/` in a Slurm \
         step, otherwise `results/<collective>-<time>/`; with three collectives the name begins with `<first>+2`, with `all` \
         it is `all-<time>`.\n\n\
         | file | content | written |\n|---|---|---|\n\
         | `results.csv` | a header, and one row per record (RFC 4180); out of place and in place are two rows; words that a spreadsheet would take for a formula, a date or a number begin with an apostrophe | row by row: \
         each is on disk before the next case starts |\n\
         | `results.json` | `format`, `run` (as in `run.json`), and `records`: one object per record, with the columns as keys. \
         Numbers are JSON numbers, unknown values are `null` | when the run ends |\n\
         | `ranks.csv` | a header, and one row per rank and case, if more than one rank is timed ([columns](#columns-of-rankscsv)) \
         | before the row of the case in `results.csv` |\n\
         | `stragglers.csv` | a header, and one row per rank and observed case; only with `--stragglers` \
         ([columns](#columns-of-stragglerscsv)) | after the sweep |\n\
         | `telemetry.csv` | a row per GPU and sample; only with `--telemetry` | after each case |\n\
         | `samples.csv` | with `--time`: the throughput of each case, second by second ([columns](#columns-of-samplescsv)) | \
         second by second |\n\
         | `run.json` | who ran what, where, when and with what: the command, the backend and why it was chosen, the level, \
         versions, `NCCL_*` settings, every process with its node and device, where the time went, and how the run ended | \
         when the run starts, and again when it ends |\n\
         | `nccl/<host>.<pid>.log` | NCCL's own log, one file per process; only with `--proof` or `--network`, or if `NCCL_DEBUG` \
         is set | when the run ends; until then it is in a folder in `TMPDIR` (default `/tmp`) that only its user can enter |\n\
         | `failure.<letters>.json` | the note of a rank other than 0 that failed or found another one killed: `rank`, `host`, `pid`, `code`, `sentence`, \
         `at`; only its user can read it | when it fails; the next run in the folder removes it |\n\
         | `nccl-ras.txt` | what NCCL's RAS said of a job that was stuck, up to 256 KiB, with control characters as `\\u001b` | before such a \
         job is ended; a later run replaces it |\n\
         | `stacks-<rank>.txt` | with `--stacks`: rank, host, process and time, a line for each thread (number, name, state, where in the \
         kernel it waits, its system call), and what `eu-stack` or `gdb` prints, up to 1 MiB | before a job that is stuck is ended; a \
         later run replaces it |\n\n\
         [REPLAY.md](REPLAY.md#files) has the files of `pxnbench replay`.\n\n\
         Missing folders of `--out`, `--csv` and `--json` are made. \
         An existing file is kept as `NAME.1`, `NAME.2`, and so on. Symbolic links are followed, except those that another user \
         made in a folder open to all, such as `/tmp`. If no private folder can be made in `TMPDIR`, a run with NCCL ends with \
         exit code 6 before anything is measured.\n\n\
         While a run is in progress, it holds a lock on each path that it writes: `.NAME.pxnbench-lock` beside the file. \
         Another run with such a path is refused (exit code 6) \
         and told who has it, before it touches anything; two runs of one Slurm job that have no `--out` get folders of their own, the second `<step>-2`. \
         `experiment`, `compare`, `report` and `topo` wait five seconds for such a path. Where locks do not work, a remark says so.\n\n\
         Rows that cannot be written, because the disk is full, read-only or gone, stay in memory, up to 64 MiB per file. \
         That is said once, and each later case and the end of the run try again. When the 64 MiB (about 200,000 rows) are full, further rows are lost; \
         that is said once, and how many at the end. \
         The file never holds a part of a row. If somebody removes, replaces or cuts a file under the run, it is written anew with all rows. \
         If something is missing in the end, the exit code is 11, and no file says that the run ended well. \
         `results.json` and the JSON of `-J` have the first 100,000 cases of a run without an end (`-N 0`), and a remark says so; \
         without a CSV the exit code is 11.\n\n\
         A write may take up to `--timeout`; one that takes more than half of that is said once. \
         A run that ends early writes into `run.json` how it ended before it writes anything else. \
         A run that is killed may leave parts such as `.run.json.pxnbench-part-a1B2c3`; the next run with such a path removes them.\n\n\
         ## Resuming\n\n\
         `--resume` continues a run whose files are in the same place; a restarted Slurm job does so by itself. \
         Without `--out` and `--csv` it continues the run of this job, otherwise the latest run below `results/` that was \
         started with the same arguments, and is refused if there is none. The existing \
         rows must come from the same backend, level, network, resources, nodes and number of GPUs per process. If there is a \
         `run.json` beside them, the flags `-t -g -m -G -u -z -I -K -a -y -R -x --precision --time` and the `NCCL_*` settings must be the same, \
         too, and so must the versions of the driver, of CUDA and of pxnbench. Otherwise the run is refused (exit code 6). A case that was measured with other iterations, checks or alltoallv \
         pattern, or with another `device`, NCCL or MPI, is measured again. Rows of other hosts are kept, and a remark says so. Sizes and the number of ranks may differ. \
         Lines that cannot be read are taken out of the CSV, which is kept as it was under `NAME.1`, and their cases are measured \
         again. What is no CSV of this program is refused. A message says how many cases are kept and how many remain. \
         `started_at` in `run.json` stays that of the first part, and `continued_at` lists when the run was continued.\n\n\
         A process reads the system clock once, and counts from there by a clock that nobody can set. So times stay in order even if \
         somebody sets the system clock during a run.\n\n\
         ## Columns\n\n| column | meaning |\n|---|---|\n",
    );
    for column in COLUMNS {
        let _ = writeln!(text, "| `{}` | {} |", column.name, column.doc);
    }
    text.push_str("\nNew columns are appended at the end, never inserted.\n");
    rank_columns(&mut text);
    sample_columns(&mut text);
    telemetry_columns(&mut text);
    straggler_columns(&mut text);
    tune_columns(&mut text);
    text.push_str("\n## Exit codes\n\n| code | meaning |\n|---|---|\n");
    for (code, what) in CODES {
        let _ = writeln!(text, "| {} | {what} |", code as u8);
    }
    text.push_str(
        "\nCodes 0 to 7 are those of nccl-tests. Some launchers, mpirun and srun among them, replace the exit code of a job that \
         was stopped or aborted by one of their own. `end` in `run.json` keeps the original, with the sentence, also where the \
         launcher stopped rank 0 because another rank failed. `end.failed` is the process that failed first: its `rank`, `host` and \
         `pid`, and when (`at`). It is absent if all ranks have the same error, or if rank 0 could not learn of it: it learns of ranks on \
         its own node, and of others if they see the run's folder, or over TCP.\n\n\
         A limit of the system that leaves too little ends the program with 8 before anything is measured: a stack below 1 MiB \
         (`ulimit -s`), CPU time below 2 s (`-t`), no thread that can be started (`-u`, or `pids.max` of a container), and for a \
         sweep fewer than 64 open files (`-n`) or less than 512 MiB of address space (`-v`). Limits that may be raised are raised \
         instead. A second before its CPU time ends, a run stops with 9 as by any other signal.\n\n\
         At most 100000000 timed operations of each case (`-n` times `-m` times `-G`), and 1000000 of `-w`, `-c` and `-m`, are accepted \
         (exit code 6 otherwise); `--time` measures for a long time. A named pipe for results is given up if nobody opens it for \
         reading within 10 s. Of an `NCCL_*` variable whose name says token, secret, key, password, passphrase, credential or auth, \
         or has the word pass, pwd or cred, or whose value is an address with a password in it (`https://user:password@host`), \
         `environment` in `run.json` has `not recorded` instead of the value.\n\n\
         What ends a job never waits for a reader: if nobody reads standard output or standard error, the reason is given up \
         after a second, and it is in `run.json`.\n\n\
         The subcommands use the same codes. `levels check` exits with 3 if there is no libnccl or it does not know a variable, \
         and with 6 if a run would be refused. `proof` exits with 0 if it could read the logs, whatever the verdict; with 5 if \
         they contain no output of NCCL; with 6 if one cannot be read; and with 7 if `--expect` names another verdict. \
         `doctor` exits with 10 if the node or job is not ready.\n",
    );
    text
}

fn rank_columns(text: &mut String) {
    let keys: Vec<String> = case_columns()
        .map(|column| format!("`{}`", column.name))
        .collect();
    let _ = write!(
        text,
        "\n## Columns of ranks.csv\n\n\
         A row begins with columns of its case, as in `results.csv`: {}. The columns of the rank follow.\n\n\
         | column | meaning |\n|---|---|\n",
        keys.join(", ")
    );
    for column in RANK_COLUMNS {
        let _ = writeln!(text, "| `{}` | {} |", column.name, column.doc);
    }
    let _ = write!(
        text,
        "\nThe file has at most {MOST_ROWS} rows of this kind. If ranks times cases are more, \
         each case has every n-th rank, with the smallest n that is enough, and its fastest and \
         its slowest rank. A sweep without an end (`-N 0`) has all ranks up to the limit, and \
         after that only the fastest and the slowest of each case. A remark on stderr and in \
         `run.json` says so. A resumed run continues the file; rows of a case that is not in \
         `results.csv` are removed, because it is measured again.\n"
    );
}

fn telemetry_columns(text: &mut String) {
    text.push_str(
        "\n## Telemetry\n\nThe columns of `telemetry.csv` and of `pxnbench monitor --csv`, and the keys of `pxnbench monitor --json`, \
         which prints an object per GPU and sample. A value that a GPU or its driver does not report is empty (`null`); the \
         reason is printed once.\n\n\
         | column | meaning |\n|---|---|\n",
    );
    for column in telemetry::sample_columns() {
        let _ = writeln!(text, "| `{}` | {} |", column.name, column.doc);
    }
    for quantity in QUANTITIES {
        let column = &quantity.column;
        let _ = writeln!(text, "| `{}` | {} |", column.name, column.doc);
    }
    let _ = writeln!(
        text,
        "\nIn `telemetry.csv` these columns come after `run_id` and before {}, the columns of \
         `results.csv` that tell the case during which the sample was taken; they are empty \
         between cases. `telemetry` in `run.json` has a summary of each GPU over all samples: \
         least, mean and largest clock and power, highest temperatures, energy, and the share of \
         the samples in which each reason limited the clocks.",
        listed_keys(&CASE_KEYS)
    );
}

fn listed_keys(keys: &[&str]) -> String {
    let keys: Vec<String> = keys.iter().map(|key| format!("`{key}`")).collect();
    keys.join(", ")
}

fn straggler_columns(text: &mut String) {
    text.push_str(
        "\n## Columns of stragglers.csv\n\n\
         `--stragglers` observes up to 8 sizes of each collective in which all ranks wait for each other. \
         [METHOD.md](METHOD.md#who-is-late) says how. `stragglers` in `run.json` names the late ranks and nodes, with what cannot \
         be told and why.\n\n\
         | column | meaning |\n|---|---|\n",
    );
    for column in STRAGGLER_COLUMNS {
        let _ = writeln!(text, "| `{}` | {} |", column.name, column.doc);
    }
    text.push_str(
        "\nThe file has at most about 100000 rows: with many ranks, fewer sizes are observed.\n",
    );
}

fn tune_columns(text: &mut String) {
    text.push_str(
        "\n## Columns of tune.csv\n\n\
         `replay --tune` writes a row per candidate; [REPLAY.md](REPLAY.md#tuning) says how candidates are judged. `tune.json` has \
         the same content, and the findings in sentences (`findings`).\n\n\
         | column | meaning |\n|---|---|\n",
    );
    for column in TUNE_COLUMNS {
        let _ = writeln!(text, "| `{}` | {} |", column.name, column.doc);
    }
}

fn sample_columns(text: &mut String) {
    text.push_str(
        "\n## Columns of samples.csv\n\n\
         With `--time`, each case that ended in a second has a row for this second; a second in which none ended has no row. If \
         the time in seconds times the number of cases is more than a million, a row covers several seconds, as `interval_s` of \
         `over_time` in `run.json` says. With several communicators the times are means over all, and the sizes those of rank \
         0's.\n\n\
         | column | meaning |\n|---|---|\n",
    );
    for column in THROUGHPUT_COLUMNS {
        let _ = writeln!(text, "| `{}` | {} |", column.name, column.doc);
    }
    text.push_str(
        "\nThe table shows the first pass. `results.csv` and `results.json` have every pass, up \
         to 10,000 rows, and after that only cases with wrong data; a remark says so. `over_time` \
         in `run.json` has what was found.\n",
    );
}

#[test]
fn format_md_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/FORMAT.md");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, format_md()).expect("written");
    }
    assert_eq!(
        fs::read_to_string(&path).unwrap_or_default(),
        format_md(),
        "UPDATE_GOLDEN=1 rewrites it"
    );
}

/// Names in a cell.
fn listed<'a>(all: impl IntoIterator<Item = &'a String>) -> String {
    all.into_iter()
        .map(|name| format!("`{name}`"))
        .collect::<Vec<_>>()
        .join(", ")
}

/// A row of a table.
fn row(text: &mut String, cells: &[&str]) {
    let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
    let _ = writeln!(text, "| {} |", cells.join(" | "));
}

fn audit_md() -> String {
    let mut text = String::from(
        "# Audit of NCCL's settings\n\n\
         Generated from the tables in the code by `UPDATE_GOLDEN=1 cargo test --test docs`.\n\n\
         NCCL does not report a variable that it does not read, and rarely reports a value that it does not understand. The \
         audit, which is part of `pxnbench doctor` and of `pxnbench levels check`, examines the `NCCL_*` settings that are in \
         force on a process. They come from the environment first, then from `NCCL_CONF_FILE` or `~/.nccl.conf`, then from \
         `/etc/nccl.conf`. The names that NCCL reads are taken from the file of the libnccl that would be loaded; a name that \
         occurs there is never reported as unknown.\n\n\
         A *failure* makes NCCL crash, hang or end with an error. A *warning* does not do what it appears to do. A *note* works \
         as written, but is worth knowing about.\n\n\
         ## Rules\n\n| id | | what it finds | needs |\n|---|---|---|---|\n",
    );
    for check in CHECKS {
        let needs = match check.needs {
            Needs::Settings => "",
            Needs::Library => "a libnccl",
            Needs::Job => "a job",
        };
        row(
            &mut text,
            &[
                &format!("`{}`", check.id),
                &check.severity.to_string(),
                check.about,
                needs,
            ],
        );
    }
    environment_names(&mut text);
    environment_values(&mut text);
    text.push_str(
        "\n## Settings against each other\n\n| together | rule | why | what to do | NCCL \
         |\n|---|---|---|---|---|\n",
    );
    for (id, conflict) in contradictions::table() {
        let versions = conflict.versions().unwrap_or_default();
        row(
            &mut text,
            &[
                &conflict.combination(),
                &format!("`{id}`"),
                &conflict.why,
                &conflict.remedy,
                versions.trim_start_matches("NCCL "),
            ],
        );
    }
    text
}

fn environment_names(text: &mut String) {
    text.push_str(
        "\n## Names that no current libnccl reads\n\nThey are not reported if the libnccl at hand reads them.\n\n\
         | name | rule | fact | what to do |\n|---|---|---|---|\n",
    );
    for told in known_names::deprecated() {
        row(
            text,
            &[
                &listed(&told.names),
                &format!("`{}`", told.id()),
                &told.says,
                &told.instead_of("NCCL_…"),
            ],
        );
    }
    for told in known_names::retired() {
        row(
            text,
            &[
                &format!("`{}*`", told.prefix),
                "`env.retired`",
                &told.says,
                &format!("set {}… instead, or unset it", told.successor),
            ],
        );
    }
    text.push_str("\n## Names with a successor\n\n| name | fact | what to do |\n|---|---|---|\n");
    for legacy in known_names::legacy() {
        row(
            text,
            &[&format!("`{}`", legacy.name), &legacy.says, &legacy.instead],
        );
    }
    text.push_str(
        "\n## Names of other software\n\nThese are never reported.\n\n| name | what it is \
         |\n|---|---|\n",
    );
    for others in known_names::foreign() {
        let begins: Vec<String> = others
            .prefixes
            .iter()
            .map(|prefix| format!("{prefix}*"))
            .collect();
        row(
            text,
            &[&listed(others.names.iter().chain(&begins)), &others.who],
        );
    }
    text.push_str(
        "\n## Names that NCCL reads\n\nThis table lets the audit name the version if a variable is too new or was removed. *since* \
         quotes NVIDIA's documentation; *seen in* is the oldest of 2.18.3, 2.23.4, 2.27.7, 2.30.7 and 2.32.3 that has the name.\n\n\
         | NCCL | names |\n|---|---|\n",
    );
    for read in known_names::known() {
        row(text, &[&read.versions(), &listed(&read.names)]);
    }
}

fn environment_values(text: &mut String) {
    text.push_str(
        "\n## Values\n\n`slurm/levels.toml` describes the variables that levels set. NCCL reads \
         integers with strtoll and base 0. A distance is a word in capitals, or a number of the \
         old form.\n\n| name | meaningful values |\n|---|---|\n",
    );
    for integers in values::integers() {
        row(
            text,
            &[
                &listed(&integers.names),
                &integers.legal().unwrap_or_else(|| "any integer".into()),
            ],
        );
    }
    for words in values::words() {
        row(text, &[&format!("`{}`", words.name), &words.legal()]);
    }
    for choices in values::choices() {
        let legal = format!(
            "{}, in lists by collective: `{};AllReduce:^{}`",
            choices.among.join(", "),
            choices.among[0],
            choices.among[1]
        );
        row(text, &[&format!("`{}`", choices.name), &legal]);
    }
}

#[test]
fn audit_md_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/AUDIT.md");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, audit_md()).expect("written");
    }
    assert_eq!(
        fs::read_to_string(&path).unwrap_or_default(),
        audit_md(),
        "UPDATE_GOLDEN=1 rewrites it"
    );
}

/// A problem that somebody reported.
struct FieldReport {
    report: &'static str,
    /// An issue as `owner/repository#number`, or an address.
    place: &'static str,
    /// The checks that would have reported it before the job.
    caught_by: &'static [&'static str],
    /// Why no check would, or not all of it; else empty.
    not_caught: &'static str,
}

const REPORTS: &[FieldReport] = &[
    FieldReport {
        report: "every rank reports that it is rank 0 of 1",
        place: "NVIDIA/nccl-tests#254",
        caught_by: &["mpi.world"],
        not_caught: "",
    },
    FieldReport {
        report: "more ranks on a node than GPUs are visible",
        place: "NVIDIA/nccl-tests#300",
        caught_by: &["gpu.count"],
        not_caught: "",
    },
    FieldReport {
        report: "each task sees one GPU, and NVLink is not used",
        place: "NVIDIA/nccl#1066",
        caught_by: &["gpu.siblings", "slurm.gpu-bind"],
        not_caught: "",
    },
    FieldReport {
        report: "in a container, tasks get no GPU, or that of another task",
        place: "NVIDIA/pyxis#73",
        caught_by: &["gpu.count", "slurm.gpu-bind"],
        not_caught: "",
    },
    FieldReport {
        report: "GPUs are busy or unavailable: exclusive compute mode",
        place: "NVIDIA/nccl-tests#369",
        caught_by: &["gpu.compute-mode"],
        not_caught: "",
    },
    FieldReport {
        report: "duplicate GPU: CUDA_VISIBLE_DEVICES is exported in the job",
        place: "clessig/atmorep#77",
        caught_by: &["gpu.shared"],
        not_caught: "",
    },
    FieldReport {
        report: "srun lacks the PMI of this MPI: an error, or single processes",
        place: "openpmix/prrte#1343",
        caught_by: &["mpi.world"],
        not_caught: "",
    },
    FieldReport {
        report: "tasks in a container are single processes",
        place: "NVIDIA/pyxis#60",
        caught_by: &["mpi.world"],
        not_caught: "",
    },
    FieldReport {
        report: "cpus-per-task is set by two variables",
        place: "FairRootGroup/DDS#490",
        caught_by: &["slurm.leaked"],
        not_caught: "",
    },
    FieldReport {
        report: "a step within a step waits for its resources",
        place: "LLNL/smith#688",
        caught_by: &[],
        not_caught: "the doctor runs inside a step, so it cannot examine one that does not start; \
                     pxnbench launch never starts a step within a step",
    },
    FieldReport {
        report: "one processor per task: proxy threads starve",
        place: "reframe-hpc/reframe#2655",
        caught_by: &["host.cpus", "slurm.cpus-per-task"],
        not_caught: "",
    },
    FieldReport {
        report: "the interface of NCCL_SOCKET_IFNAME is not on every node",
        place: "NVIDIA/nccl#286",
        caught_by: &["net.ifname", "net.interface", "net.interface-same"],
        not_caught: "",
    },
    FieldReport {
        report: "one node bootstraps over IPv6, another over IPv4",
        place: "NVIDIA/nccl#1291",
        caught_by: &["net.family-same"],
        not_caught: "",
    },
    FieldReport {
        report: "no /dev/infiniband in the container",
        place: "NVIDIA/nccl#451",
        caught_by: &["net.verbs", "host.container"],
        not_caught: "",
    },
    FieldReport {
        report: "a management port among the InfiniBand ports",
        place: "https://github.com/stas00/ml-engineering/tree/master/network/debug",
        caught_by: &["net.mixed-ports", "net.port-rate"],
        not_caught: "",
    },
    FieldReport {
        report: "a wrong GID index, or rails that cannot reach each other",
        place: "NVIDIA/nccl#426",
        caught_by: &["net.gid"],
        not_caught: "only traffic shows whether rails are routed between nodes",
    },
    FieldReport {
        report: "nodes have different adapters, and the mismatch is ignored",
        place: "NVIDIA/nccl#2428",
        caught_by: &["net.ports-same", "env.ignore-net-mismatch"],
        not_caught: "",
    },
    FieldReport {
        report: "the peer memory module is missing on one node",
        place: "NVIDIA/nccl-tests#152",
        caught_by: &["gdr.module-same", "gdr.module"],
        not_caught: "",
    },
    FieldReport {
        report: "NCCL does not know the module's new name",
        place: "NVIDIA/nccl#1676",
        caught_by: &["gdr.module-name"],
        not_caught: "",
    },
    FieldReport {
        report: "64 MB of /dev/shm in a container",
        place: "NVIDIA/nccl#290",
        caught_by: &["host.shm"],
        not_caught: "",
    },
    FieldReport {
        report: "ibv_reg_mr: out of memory, because pinned memory is limited",
        place: "NVIDIA/nccl-tests#206",
        caught_by: &["host.memlock"],
        not_caught: "",
    },
    FieldReport {
        report: "unlimited stack, few open files, RemoveIPC, no IMEX channel",
        place: "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
        caught_by: &["host.stack", "host.nofile", "host.remove-ipc", "gpu.imex"],
        not_caught: "open files are reported only below 4,096; an IMEX channel is only looked \
                     for, so a missing permission is not found",
    },
    FieldReport {
        report: "PXN should not use host buffers for data",
        place: "NVIDIA/nccl-tests#340",
        caught_by: &["gdr.module", "env.fails"],
        not_caught: "other reasons for which GPUDirect fails; pxnbench proof finds those in the \
                     log",
    },
    FieldReport {
        report: "alltoall hangs with PXN",
        place: "NVIDIA/nccl-tests#187",
        caught_by: &["env.crashes"],
        not_caught: "a fault of one NCCL version; the deadline ends the run and names the case",
    },
    FieldReport {
        report: "alltoall is slower with PXN",
        place: "NVIDIA/nccl#1697",
        caught_by: &[],
        not_caught: "no setting is wrong; pxnbench compare shows which level is fastest for each \
                     collective and size",
    },
    FieldReport {
        report: "ibv_create_cq: out of memory on 700 nodes",
        place: "NVIDIA/nccl#1191",
        caught_by: &["host.memlock"],
        not_caught: "the limits of the adapter itself",
    },
    FieldReport {
        report: "busbw 0: each process is a job of one rank",
        place: "NVIDIA/nccl-tests#294",
        caught_by: &["mpi.world"],
        not_caught: "",
    },
    FieldReport {
        report: "NCCL's log is mixed into the table",
        place: "NVIDIA/nccl-tests#42",
        caught_by: &["env.debug-output"],
        not_caught: "not needed for pxnbench, which sends the log to files",
    },
    FieldReport {
        report: "plugins differ between containers",
        place: "awslabs/awsome-distributed-ai#386",
        caught_by: &["lib.plugin-same", "lib.nccl-file"],
        not_caught: "plugins of the same file name but different content",
    },
    FieldReport {
        report: "versions or settings differ between ranks",
        place: "NVIDIA/nccl#1328",
        caught_by: &["lib.nccl-same", "env.same"],
        not_caught: "",
    },
    FieldReport {
        report: "an MPIJob's launcher starts before its workers have names",
        place: "kubeflow/mpi-operator#481",
        caught_by: &[],
        not_caught: "it happens before any process of the job starts",
    },
];

fn doctor_md() -> String {
    let mut text = String::from(
        "# Is the node or the job ready?\n\n\
         Generated from the tables in the code by `UPDATE_GOLDEN=1 cargo test --test docs`.\n\n\
         `pxnbench doctor` examines the node it runs on. Under `srun` or `mpirun` it examines all nodes of the job, and first \
         reports what differs between them. Each finding comes with its evidence and a remedy. The doctor needs no root; what it \
         cannot read is *not applicable*, with the reason. Exit code 0 means ready, 10 not ready. `--strict` counts warnings as \
         failures, `-v` prints every check, and `--json` prints everything for programs.\n\n\
         ```\npxnbench doctor\nsrun --mpi=pmix pxnbench doctor\nsbatch -p gpu -A project slurm/doctor.sbatch\n\
         pxnbench doctor --env job.sbatch\n```\n\n\
         ## A file, without running it\n\n\
         `pxnbench doctor --env FILE` audits what a file would set, by the rules of [AUDIT.md](AUDIT.md): names, values, and \
         settings against each other, each finding with its lines. `-` is standard input. The exit code is 10 if there is a \
         failure, or with `--strict` a warning. Without a libnccl, names are checked against all known versions of NCCL, \
         and conflicts are those of the newest.\n\n\
         | file | recognised by | what is read |\n|---|---|---|\n\
         | nccl.conf | name, or ending `.conf` | as NCCL reads it: the first line of a name counts |\n\
         | env file | lines `NAME=value` only | as `docker --env-file` reads it: quotes belong to the value, the last line of a name counts, a name alone is passed on |\n\
         | shell or batch script | `#!`, ending, or anything else | `export`, `declare -x`, `setenv`, `set -a`, `unset`, `NAME=value command`, `env NAME=value`, `#SBATCH --export=ALL,NAME=value`, `srun --export=…`, `mpirun -x NAME=value`, `-x NAME`, `mpiexec -genv NAME value`, `docker run -e NAME=value`, scripts in `bash -c` and here-documents, options in a variable |\n\
         | Kubernetes or Compose file | ending `.yaml` or `.yml`, or keys | `- name: NAME` with `value:`, `NAME: value`, `- NAME=value`, scripts in it; each `env:` list on its own |\n\n\
         Settings are judged together if the same command receives them: what is exported there, and what is set for it. A value that the file \
         does not decide (`$VAR`, `${VAR:-default}`, `-x NAME`, `valueFrom`) is *unknown*, as is what a sourced file or a module \
         sets; its name is still audited. A finding that depends on an `if`, a loop, a function or `&&` is *conditional*.\n\n\
         ## Checks\n\n| id | looks at | scope |\n|---|---|---|\n",
    );
    for check in doctor::checks() {
        let of = match check.scope {
            doctor::CheckScope::Process(_) => "each process",
            doctor::CheckScope::Slurm(_) => "each process of a Slurm job",
            doctor::CheckScope::Job(_) => "all together",
        };
        row(&mut text, &[&format!("`{}`", check.id), check.about, of]);
    }
    text.push_str(
        "\n[AUDIT.md](AUDIT.md) has the rules `env.*`, which examine NCCL's settings.\n\n\
         ## Field reports\n\nProblems that people have reported, and the checks that would have found them before the job.\n\n\
         | | report | where | caught by | not caught |\n|---|---|---|---|---|\n",
    );
    for (at, field_report) in REPORTS.iter().enumerate() {
        let FieldReport {
            report,
            place,
            caught_by,
            not_caught,
        } = field_report;
        let link = match place.split_once('#') {
            Some((repo, number)) => format!("[{place}](https://github.com/{repo}/issues/{number})"),
            None => format!("<{place}>"),
        };
        let caught_by = caught_by
            .iter()
            .map(|id| format!("`{id}`"))
            .collect::<Vec<_>>()
            .join(" ");
        row(
            &mut text,
            &[
                &format!("E{}", at + 1),
                report,
                &link,
                &caught_by,
                not_caught,
            ],
        );
    }
    text
}

#[test]
fn doctor_md_is_up_to_date_and_names_checks_that_are_there() {
    let known: Vec<&str> = doctor::checks()
        .map(|check| check.id)
        .chain(CHECKS.iter().map(|check| check.id))
        .collect();
    for FieldReport {
        report,
        caught_by,
        not_caught,
        ..
    } in REPORTS
    {
        assert!(
            !caught_by.is_empty() || !not_caught.is_empty(),
            "{report}: neither caught, nor a reason why not"
        );
        for id in *caught_by {
            assert!(known.contains(id), "{report}: there is no check {id}");
        }
    }
    assert_eq!(REPORTS.len(), 31);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/DOCTOR.md");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, doctor_md()).expect("written");
    }
    assert_eq!(
        fs::read_to_string(&path).unwrap_or_default(),
        doctor_md(),
        "UPDATE_GOLDEN=1 rewrites it"
    );
}

#[test]
fn levels_md_has_every_row_of_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/LEVELS.md");
    let text = fs::read_to_string(&path).expect("docs/LEVELS.md");
    for row in Axis::ALL.into_iter().flat_map(levels::rows) {
        let first_cell = |line: &str| line.starts_with(&format!("| `{}` |", row.name));
        assert!(
            text.lines().any(first_cell),
            "docs/LEVELS.md has no row for {} {}",
            row.axis,
            row.name
        );
    }
}

/// The table of reasons at the end of docs/PROOF.md.
fn reasons_table() -> String {
    let mut text = String::from("| reason | what it means | what to do |\n|---|---|---|\n");
    for row in REASONS {
        let _ = writeln!(
            text,
            "| `{}` | {} | {} |",
            row.name,
            row.meaning,
            row.remedies()
        );
    }
    text
}

#[test]
fn proof_md_has_the_table_of_reasons() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/PROOF.md");
    let text = fs::read_to_string(&path).expect("docs/PROOF.md");
    let prose = text.split("| reason |").next().unwrap_or_default();
    let expected = format!("{prose}{}", reasons_table());
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, &expected).expect("written");
    }
    assert_eq!(
        fs::read_to_string(&path).unwrap_or_default(),
        expected,
        "UPDATE_GOLDEN=1 rewrites it"
    );
}

/// The tables at the end of docs/WORKLOADS.md.
fn workload_tables() -> String {
    let mut text = String::from("| name | what it stands for |\n|---|---|\n");
    for workload in BUILT_IN {
        row(
            &mut text,
            &[&format!("`{}`", workload.name), workload.about],
        );
    }
    text.push_str(
        "\n| name | communication | calls | bytes | computation |\n|---|---|---|---|---|\n",
    );
    for workload in BUILT_IN {
        let ranks = if workload.name == "3d" { 64 } else { 8 };
        let options = WorkloadOptions::default().for_ranks(workload.name, ranks);
        let built_in = Workload::built_in(workload.name, &options);
        let step = built_in.and_then(|it| it.on(ranks)).expect("a step");
        let volume = step.volume();
        let computation = format!("{:.1} ms", volume.computation.0 / 1e3);
        let mut parts = Vec::new();
        for (collective, moved) in &volume.collectives {
            parts.push((collective.to_string(), moved.calls, moved.bytes));
        }
        if volume.copies.pieces > 0 {
            let copies = volume.copies;
            parts.push(("copies".to_owned(), copies.pieces, copies.bytes));
        }
        for (communication, calls, bytes) in parts {
            let cells = [
                format!("`{}`", workload.name),
                communication,
                calls.to_string(),
                bytes.0.to_string(),
                computation.clone(),
            ];
            row(&mut text, &cells.each_ref().map(String::as_str));
        }
    }
    text
}

#[test]
fn workloads_md_has_the_tables_of_what_is_built_in() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/WORKLOADS.md");
    let text = fs::read_to_string(&path).expect("docs/WORKLOADS.md");
    let prose = text.split("| name | what it stands for |").next();
    let expected = format!("{}{}", prose.unwrap_or_default(), workload_tables());
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, &expected).expect("written");
    }
    assert_eq!(
        fs::read_to_string(&path).unwrap_or_default(),
        expected,
        "UPDATE_GOLDEN=1 rewrites it"
    );
}

/// What the README tells to try leaves a checkout clean.
#[test]
fn what_the_commands_of_the_readme_leave_is_ignored() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |name: &str| fs::read_to_string(root.join(name)).expect(name);
    let (readme, ignored) = (read("README.md"), read(".gitignore"));
    let links = readme
        .split("pxnbench links ")
        .nth(1)
        .and_then(|rest| rest.split_whitespace().next())
        .expect("a folder");
    for path in [
        "target/",
        "results/",
        "vendor/",
        "slurm/site.conf",
        "*_[0-9]*.out",
        &format!("{links}/"),
    ] {
        assert!(
            ignored.lines().any(|line| line == format!("/{path}")),
            "{path} is not in .gitignore"
        );
    }
    assert!(
        readme.contains("](examples/)"),
        "the README leads to the examples"
    );
}

/// The documents: those at the top, and those in docs/ and in its folders of translations.
fn documents() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let top = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(|name| root.join(name));
    let mut documents = top.to_vec();
    let mut folders = vec![root.join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("docs") {
            let path = entry.expect("an entry").path();
            match path.extension() {
                None => folders.push(path),
                Some(end) if end == "md" => documents.push(path),
                Some(_) => {}
            }
        }
    }
    documents
}

/// The anchors of a document's headings, as GitHub makes them.
fn anchors(text: &str) -> Vec<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|line| {
            let heading = line.trim_start_matches('#').trim().to_lowercase();
            let kept = heading
                .chars()
                .filter(|c| c.is_alphanumeric() || "-_ ".contains(*c));
            kept.collect::<String>().replace(' ', "-")
        })
        .collect()
}

/// Files that documents point to exist, and have the heading that the link names.
#[test]
fn links_lead_to_files_and_headings_that_are_there() {
    for document in documents() {
        let text = fs::read_to_string(&document).expect("text");
        let targets = text.split("](").skip(1);
        for target in targets.filter_map(|rest| rest.split(')').next()) {
            if target.starts_with("http") {
                continue;
            }
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path = match file {
                "" => document.clone(),
                _ => document.parent().expect("a folder").join(file),
            };
            assert!(path.exists(), "{}: {target}", document.display());
            if !anchor.is_empty() {
                let there = anchors(&fs::read_to_string(&path).expect("text"));
                assert!(
                    there.iter().any(|known| known == anchor),
                    "{}: no heading for {target}",
                    document.display()
                );
            }
        }
    }
}

#[test]
fn the_index_lists_every_document() {
    let index = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/README.md");
    let text = fs::read_to_string(&index).expect("docs/README.md");
    for document in documents()
        .iter()
        .filter(|path| path.parent() == index.parent())
    {
        let name = document.file_name().expect("a name").to_string_lossy();
        assert!(
            *document == index || text.contains(&format!("]({name})")),
            "docs/README.md does not list {name}"
        );
    }
}
