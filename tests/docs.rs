//! Documents that are made from tables are up to date. `UPDATE_GOLDEN=1 cargo test --test docs` rewrites them.

use std::{fmt::Write, fs, path::Path};

use pxnbench::{
    doctor,
    exit::CODES,
    levels::{
        self, Axis,
        audit::{CHECKS, Needs, contradictions, names, values},
    },
    nccl_log::reason::REASONS,
    record::columns::COLUMNS,
};

fn format_md() -> String {
    let mut text = String::from(
        "# Files of a run\n\n\
         Made from the tables in the code by `UPDATE_GOLDEN=1 cargo test --test docs`.\n\n\
         `--out DIR` (default `results/<job>-<id>/<step>/` in a Slurm step, else `results/<collective>-<time>/`; \
         `<first>+2-<time>` where there are two more collectives, `all-<time>` for all) holds:\n\n\
         - `results.csv`: RFC 4180, a header, one row per record; out of place and in place are two rows. Each row is on disk \
         before the next case begins.\n\
         - `results.json`: `format`, `run` (as `run.json`) and `records`, one object per record with the columns as keys; \
         numbers are numbers, unknown is `null`. Written when the run ends.\n\
         - `run.json`: who, where, when, with what: command, backend and why, level, versions, `NCCL_*` settings, every \
         process with its node and device, where the time went, and how the run ended. Written when the run begins and \
         when it ends.\n\
         - `nccl/<host>.<pid>.log`: NCCL's own log, with `--proof`, `--network`, or when `NCCL_DEBUG` is set. \
         Until the run ends it is in a folder in `TMPDIR` (default `/tmp`) that only its user can enter; if no folder can be \
         made there, the run ends with exit code 6 before anything is measured.\n\n\
         A file that is there already is kept as `NAME.1`, `NAME.2`, …; a link leads to the file that it stands for, unless another \
         user made it in a folder open to all, such as `/tmp`. With \
         `--resume`, or in a Slurm job that is restarted, a run goes on with the rows that are there. They must be of the same \
         backend, level, network, resources, nodes and GPUs a process, and where `run.json` is beside them of the same \
         `-t -g -m -G -u -z -I -K -a -y -R -x` and `NCCL_*` settings: else the run is refused (exit code 6). A case whose iterations, checks or alltoallv pattern \
         differ is measured again; sizes and ranks may differ.\n\n\
         ## Columns\n\n| column | meaning |\n|---|---|\n",
    );
    for column in COLUMNS {
        let _ = writeln!(text, "| `{}` | {} |", column.name, column.doc);
    }
    text.push_str("\nLater columns are appended, never inserted.\n\n## Exit codes\n\n| code | meaning |\n|---|---|\n");
    for (code, what) in CODES {
        let _ = writeln!(text, "| {} | {what} |", code as u8);
    }
    text.push_str(
        "\n2 to 7 mean what they mean in nccl-tests. Some launchers replace the code of a job that was aborted; `end` in `run.json` keeps the original, unless the launcher stopped rank 0 before it knew of another rank's failure.\n",
    );
    text
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

fn environment_md() -> String {
    let mut text = String::from(
        "# The audit of the environment\n\n\
         Made from the tables in the code by `UPDATE_GOLDEN=1 cargo test --test docs`.\n\n\
         NCCL does not report variables that it does not read, and hardly reports values that it does not understand. The audit looks at the `NCCL_*` settings that are in force on a process, and where each comes from: the environment, then \
         `NCCL_CONF_FILE` or `~/.nccl.conf`, then `/etc/nccl.conf`. The names that NCCL reads are taken from the file of the libnccl that would be loaded; a name in there is never called unknown.\n\n\
         A *failure* crashes, ends or hangs NCCL; a *warning* does not do what it appears to do; a *note* works as written, and is good to know.\n\n\
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
        "\n## Settings against each other\n\n| together | rule | why | what to do | NCCL |\n|---|---|---|---|---|\n",
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
        "\n## Names that no current libnccl reads\n\nIf the libnccl at hand does read one, it is not a finding.\n\n\
         | name | rule | fact | what to do |\n|---|---|---|---|\n",
    );
    for told in names::told() {
        row(
            text,
            &[
                &listed(&told.names),
                &format!("`{}`", told.id()),
                &told.says,
                &told.instead,
            ],
        );
    }
    text.push_str("\n## Names with a successor\n\n| name | fact | what to do |\n|---|---|---|\n");
    for legacy in names::legacy() {
        row(
            text,
            &[&format!("`{}`", legacy.name), &legacy.says, &legacy.instead],
        );
    }
    text.push_str("\n## Names of other software\n\nNone of these is a finding.\n\n| name | what it is |\n|---|---|\n");
    for others in names::others() {
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
        "\n## Names that NCCL reads\n\nSo that for a name that is too new, or gone, the version can be given. *since* is NVIDIA's \
         documentation; *seen in* the oldest of 2.18.3, 2.23.4, 2.27.7, 2.30.7 and 2.32.3 that has it.\n\n\
         | NCCL | names |\n|---|---|\n",
    );
    for read in names::read() {
        row(text, &[&read.versions(), &listed(&read.names)]);
    }
}

fn environment_values(text: &mut String) {
    text.push_str(
        "\n## Values\n\nThe variables of levels are in `slurm/levels.toml`. Integers are read by strtoll with base 0; a distance is a \
         word in capitals, or an old number.\n\n| name | meaningful values |\n|---|---|\n",
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
fn environment_md_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/ENVIRONMENT.md");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, environment_md()).expect("written");
    }
    assert_eq!(
        fs::read_to_string(&path).unwrap_or_default(),
        environment_md(),
        "UPDATE_GOLDEN=1 rewrites it"
    );
}

/// What people reported, where, and which checks would have said so before the job; where none would, why.
const REPORTS: &[(&str, &str, &[&str], &str)] = &[
    (
        "every rank says it is rank 0 of one",
        "NVIDIA/nccl-tests#254",
        &["mpi.world"],
        "",
    ),
    (
        "more ranks on a node than GPUs are visible",
        "NVIDIA/nccl-tests#300",
        &["gpu.count"],
        "",
    ),
    (
        "each task sees one GPU, and NVLink is not used",
        "NVIDIA/nccl#1066",
        &["gpu.siblings", "slurm.gpu-bind"],
        "",
    ),
    (
        "a container gives tasks no GPU, or another one's",
        "NVIDIA/pyxis#73",
        &["gpu.count", "slurm.gpu-bind"],
        "",
    ),
    (
        "GPUs busy or unavailable: exclusive compute mode",
        "NVIDIA/nccl-tests#369",
        &["gpu.compute-mode"],
        "",
    ),
    (
        "duplicate GPU: CUDA_VISIBLE_DEVICES exported in the job",
        "clessig/atmorep#77",
        &["gpu.shared"],
        "",
    ),
    (
        "srun with an MPI without its PMI: an error, or single processes",
        "openpmix/prrte#1343",
        &["mpi.world"],
        "",
    ),
    (
        "tasks of a container that are single processes",
        "NVIDIA/pyxis#60",
        &["mpi.world"],
        "",
    ),
    (
        "cpus_per_task set by two variables",
        "FairRootGroup/DDS#490",
        &["slurm.leaked"],
        "",
    ),
    (
        "a step within a step waits for its resources",
        "LLNL/smith#688",
        &[],
        "doctor runs inside a step: one that does not start cannot look; pxnbench launch starts no step within a step",
    ),
    (
        "one processor a task: starved proxy threads",
        "reframe-hpc/reframe#2655",
        &["host.cpus", "slurm.cpus-per-task"],
        "",
    ),
    (
        "the interface of NCCL_SOCKET_IFNAME is not on every node",
        "NVIDIA/nccl#286",
        &["net.ifname", "net.interface", "net.interface-same"],
        "",
    ),
    (
        "one node bootstraps over IPv6, the other over IPv4",
        "NVIDIA/nccl#1291",
        &["net.family-same"],
        "",
    ),
    (
        "no /dev/infiniband in the container",
        "NVIDIA/nccl#451",
        &["net.verbs", "host.container"],
        "",
    ),
    (
        "a management port among the InfiniBand ports",
        "https://github.com/stas00/ml-engineering/tree/master/network/debug",
        &["net.mixed-ports", "net.port-rate"],
        "",
    ),
    (
        "a GID index that is wrong, or rails that cannot reach each other",
        "NVIDIA/nccl#426",
        &["net.gid"],
        "only traffic shows whether rails are routed between nodes",
    ),
    (
        "different adapters, and the mismatch ignored",
        "NVIDIA/nccl#2428",
        &["net.ports-same", "env.ignore-net-mismatch"],
        "",
    ),
    (
        "the peer memory module is missing on one node",
        "NVIDIA/nccl-tests#152",
        &["gdr.module-same", "gdr.module"],
        "",
    ),
    (
        "NCCL does not know the module's new name",
        "NVIDIA/nccl#1676",
        &["gdr.module-name"],
        "",
    ),
    (
        "64 MB of /dev/shm in a container",
        "NVIDIA/nccl#290",
        &["host.shm"],
        "",
    ),
    (
        "ibv_reg_mr: out of memory, by the limit of pinned memory",
        "NVIDIA/nccl-tests#206",
        &["host.memlock"],
        "",
    ),
    (
        "unlimited stack, few open files, RemoveIPC, no IMEX channel",
        "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
        &["host.stack", "host.nofile", "host.remove-ipc", "gpu.imex"],
        "open files only below 4,096; of an IMEX channel that it is there, not whether this user may open it",
    ),
    (
        "PXN should not use host buffers for data",
        "NVIDIA/nccl-tests#340",
        &["gdr.module", "env.fails"],
        "where GPUDirect fails for another reason: pxnbench proof says so from the log",
    ),
    (
        "alltoall hangs with PXN",
        "NVIDIA/nccl-tests#187",
        &["env.crashes"],
        "a fault of one NCCL: the deadline of a run ends it and names the case",
    ),
    (
        "alltoall is slower with PXN",
        "NVIDIA/nccl#1697",
        &[],
        "no setting is wrong: compare levels, collective by collective and size by size (pxnbench compare)",
    ),
    (
        "ibv_create_cq: out of memory on 700 nodes",
        "NVIDIA/nccl#1191",
        &["host.memlock"],
        "the limits of an adapter are not read",
    ),
    (
        "busbw 0: each process is a job of one rank",
        "NVIDIA/nccl-tests#294",
        &["mpi.world"],
        "",
    ),
    (
        "NCCL's log tears the table",
        "NVIDIA/nccl-tests#42",
        &["env.debug-output"],
        "a run of pxnbench sends the log to files by itself",
    ),
    (
        "plugins differ between containers",
        "awslabs/awsome-distributed-ai#386",
        &["lib.plugin-same", "lib.nccl-file"],
        "plugins are compared by the names of their files",
    ),
    (
        "versions or settings differ between ranks",
        "NVIDIA/nccl#1328",
        &["lib.nccl-same", "env.same"],
        "",
    ),
    (
        "an MPIJob's launcher starts before its workers have names",
        "kubeflow/mpi-operator#481",
        &[],
        "it happens before any process of the job runs",
    ),
];

fn doctor_md() -> String {
    let mut text = String::from(
        "# The doctor\n\n\
         Made from the tables in the code by `UPDATE_GOLDEN=1 cargo test --test docs`.\n\n\
         `pxnbench doctor` looks at the node it runs on; under `srun` or `mpirun` at all nodes of the job, and reports what \
         differs between them first. Each finding has the evidence and the remedy. It needs no root; what cannot be read is \
         *not applicable*, with the reason. Exit code 0 is ready, 10 not ready; `--strict` counts warnings as failures, `-v` prints \
         every check, `--json` all of it for programs.\n\n\
         ```\npxnbench doctor\nsrun --mpi=pmix pxnbench doctor\nsbatch -p gpu -A project slurm/doctor.sbatch\n```\n\n\
         ## Checks\n\n| id | looks at | of |\n|---|---|---|\n",
    );
    for check in doctor::checks() {
        let of = match check.judge {
            doctor::CheckScope::Process(_) => "each process",
            doctor::CheckScope::Slurm(_) => "each process of a Slurm job",
            doctor::CheckScope::Job(_) => "all together",
        };
        row(&mut text, &[&format!("`{}`", check.id), check.about, of]);
    }
    text.push_str(
        "\nThe rules `env.*` of NCCL's settings are in [ENVIRONMENT.md](ENVIRONMENT.md).\n\n\
         ## Field reports\n\nWhat people ran into, and what would have told them before the job.\n\n\
         | | report | where | caught by | not caught |\n|---|---|---|---|---|\n",
    );
    for (at, (what, place, checks, not)) in REPORTS.iter().enumerate() {
        let link = match place.split_once('#') {
            Some((repo, number)) => format!("[{place}](https://github.com/{repo}/issues/{number})"),
            None => format!("<{place}>"),
        };
        let checks = checks
            .iter()
            .map(|id| format!("`{id}`"))
            .collect::<Vec<_>>()
            .join(" ");
        row(
            &mut text,
            &[&format!("E{}", at + 1), what, &link, &checks, not],
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
    for (what, _, checks, not) in REPORTS {
        assert!(
            !checks.is_empty() || !not.is_empty(),
            "{what}: neither caught nor said why not"
        );
        checks
            .iter()
            .for_each(|id| assert!(known.contains(id), "{what}: there is no check {id}"));
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
            row.name, row.meaning, row.remedy
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

/// Files that README and documents point to.
#[test]
fn links_lead_to_files_that_are_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let documents = fs::read_dir(root.join("docs"))
        .expect("docs")
        .map(|entry| entry.expect("an entry").path());
    for document in documents.chain([root.join("README.md")]) {
        let text = fs::read_to_string(&document).expect("text");
        for target in text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
        {
            let file = target.split('#').next().unwrap_or_default();
            if !target.starts_with("http") && !file.is_empty() {
                let path = document.parent().expect("a folder").join(file);
                assert!(path.exists(), "{}: {target}", document.display());
            }
        }
    }
}
