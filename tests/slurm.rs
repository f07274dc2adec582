//! The templates and `pxnbench launch` on a real Slurm of 4 nodes, which the tests start on this machine
//! (`scripts/slurm-lab.sh`) and which ends with them. Ranks run on host memory: 2 a node, as many as it pretends to have
//! GPUs.

mod common;

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use common::{BINARY, Ended, clean, csv, json, run, skip};
use pxnbench::{levels, slurm};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// A sweep of few operations: these tests ask whether it runs where it should, not how fast.
const QUICK: [&str; 9] = [
    "--backend",
    "host",
    "-b",
    "1K",
    "-e",
    "4K",
    "-f",
    "4",
    "-n2",
];

/// One that lasts until somebody ends it.
const LONG: [&str; 10] = [
    "all_reduce",
    "--backend",
    "host",
    "-b",
    "8",
    "-e",
    "64M",
    "-f",
    "2",
    "-n500",
];

// --- the lab --------------------------------------------------------------------------------------------------------

/// A running Slurm.
struct Lab {
    folder: PathBuf,
}

/// The one that most tests share.
fn lab() -> Option<&'static Lab> {
    static LAB: OnceLock<Option<Lab>> = OnceLock::new();
    LAB.get_or_init(|| Lab::start(&["4"])).as_ref()
}

impl Lab {
    /// Starts one that ends with this process, or says why not.
    fn start(options: &[&str]) -> Option<Lab> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        if !common::has_mpi() {
            return None;
        }
        let name = format!(
            "/tmp/pxn-lab.{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::SeqCst)
        );
        let lab = Lab {
            folder: name.into(),
        };
        let owner = std::process::id().to_string();
        let ended = run(lab
            .script()
            .arg("start")
            .args(options)
            .args(["--owner", &owner]));
        match ended.code {
            Some(0) => Some(lab),
            _ => {
                assert!(!skip(
                    "slurm",
                    &format!("no Slurm could be started here: {}", ended.stderr.trim())
                ));
                None
            }
        }
    }

    fn script(&self) -> Command {
        let mut command = Command::new(Path::new(ROOT).join("scripts/slurm-lab.sh"));
        clean(&mut command);
        command.env("SLURM_LAB_DIR", &self.folder);
        command
    }

    /// A program of Slurm's, in `home`.
    fn command(&self, program: &str, home: &Home) -> Command {
        let mut command = Command::new(program);
        clean(&mut command);
        command
            .env("SLURM_CONF", self.folder.join("slurm.conf"))
            .current_dir(home.path());
        command
    }

    /// Submits a template and gives the job's number.
    #[track_caller]
    fn submit(&self, home: &Home, options: &[&str], template: &str, arguments: &[&str]) -> String {
        let mut command = self.command("sbatch", home);
        command
            .arg("--parsable")
            .args(options)
            .arg(home.path().join("slurm").join(template))
            .args(arguments);
        run(&mut command).expect_code(0).stdout.trim().to_owned()
    }

    /// On all four nodes.
    #[track_caller]
    fn submit_to_all(&self, home: &Home, template: &str, arguments: &[&str]) -> String {
        self.submit(home, &["-N4", "--gpus-per-node=2"], template, arguments)
    }

    fn state(&self, home: &Home, job: &str) -> String {
        let ended = run(self
            .command("squeue", home)
            .args(["-t", "all", "-h", "-j", job, "-o", "%T"]));
        ended
            .stdout
            .split_whitespace()
            .next()
            .unwrap_or_default()
            .to_owned()
    }

    /// Waits for a job's end.
    #[track_caller]
    fn wait(&self, home: &Home, job: &str) -> Done {
        let started = Instant::now();
        let state = loop {
            let state = self.state(home, job);
            if slurm::is_end(&state) {
                break state;
            }
            let log = home.log(job);
            assert!(
                started.elapsed() < Duration::from_secs(180),
                "job {job} is still {state}:\n{log}"
            );
            std::thread::sleep(Duration::from_millis(100));
        };
        let shown = run(self.command("scontrol", home).args(["show", "job", job])).stdout;
        let code = shown
            .split_once(" ExitCode=")
            .and_then(|(_, rest)| rest.split(':').next()?.parse().ok());
        Done {
            state,
            code,
            log: home.log(job),
        }
    }

    /// Runs `pxnbench launch` with these arguments in an allocation of its own.
    #[track_caller]
    fn salloc(&self, home: &Home, options: &[&str], words: &[&str]) -> Ended {
        run(self
            .command("salloc", home)
            .args(["-Q", "--exclusive"])
            .args(options)
            .args(words))
    }
}

/// How a job ended.
#[derive(Debug)]
struct Done {
    state: String,
    code: Option<i32>,
    log: String,
}

impl Done {
    #[track_caller]
    fn expect(self, state: &str, code: i32) -> Done {
        assert_eq!(
            (self.state.as_str(), self.code),
            (state, Some(code)),
            "{}",
            self.log
        );
        self
    }

    /// What the program and the templates say.
    fn sentences(&self) -> Vec<&str> {
        self.log
            .lines()
            .filter(|line| line.starts_with("pxnbench: "))
            .collect()
    }

    /// Rows of nccl-tests' table with at least one checked number, and none wrong.
    #[track_caller]
    fn expect_table(&self, rows: usize) {
        let numbers = |line: &str| {
            line.split_whitespace()
                .next()
                .is_some_and(|word| word.parse::<u64>().is_ok())
        };
        let table: Vec<&str> = self
            .log
            .lines()
            .filter(|line| line.starts_with("  ") && numbers(line))
            .collect();
        assert_eq!(table.len(), rows, "{}", self.log);
        assert!(
            self.log.contains("# Out of bounds values : 0 OK"),
            "{}",
            self.log
        );
        assert!(!self.log.contains("FAILED"), "{}", self.log);
    }
}

/// A folder as a user has it: the templates, a site file that names the binary, and what jobs leave.
struct Home(tempfile::TempDir);

impl Home {
    fn new(site: &str) -> Home {
        let home = Home(tempfile::tempdir().expect("a folder"));
        fs::create_dir(home.path().join("slurm")).expect("made");
        for file in templates()
            .iter()
            .map(PathBuf::as_path)
            .chain([Path::new("site.conf.example")])
        {
            let from = Path::new(ROOT)
                .join("slurm")
                .join(file.file_name().expect("a name"));
            fs::copy(
                &from,
                home.path()
                    .join("slurm")
                    .join(file.file_name().expect("a name")),
            )
            .expect("copied");
        }
        fs::write(
            home.path().join("slurm/site.conf"),
            format!("PXNBENCH={BINARY}\n{site}\n"),
        )
        .expect("written");
        home
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// What the job printed.
    fn log(&self, job: &str) -> String {
        let end = format!("_{job}.out");
        let all = fs::read_dir(self.path())
            .expect("a folder")
            .flatten()
            .map(|entry| entry.path());
        let log = all
            .filter(|path| path.to_string_lossy().ends_with(&end))
            .map(|path| fs::read(path).unwrap_or_default());
        log.map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .collect()
    }

    /// The folder of the only run of a job.
    #[track_caller]
    fn run_of(&self, job: &str) -> PathBuf {
        let runs = self.runs_of(job);
        assert_eq!(runs.len(), 1, "{runs:?}");
        runs[0].clone()
    }

    /// Folders with a `run.json` of a job.
    fn runs_of(&self, job: &str) -> Vec<PathBuf> {
        let end = format!("-{job}");
        let jobs = fs::read_dir(self.path().join("results"))
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path());
        let jobs = jobs.filter(|path| path.to_string_lossy().ends_with(&end));
        let steps = jobs
            .flat_map(|path| fs::read_dir(path).into_iter().flatten().flatten())
            .map(|entry| entry.path());
        steps
            .filter(|path| path.join("run.json").is_file())
            .collect()
    }

    /// Waits until a running job has measured a few cases.
    #[track_caller]
    fn wait_for_rows(&self, job: &str) -> PathBuf {
        let started = Instant::now();
        loop {
            let csv = self.runs_of(job).first().map(|run| run.join("results.csv"));
            if let Some(csv) =
                csv.filter(|csv| fs::read_to_string(csv).map_or(0, |text| text.lines().count()) > 3)
            {
                return csv;
            }
            assert!(
                started.elapsed() < Duration::from_secs(120),
                "no rows: {}",
                self.log(job)
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// File names of the templates.
fn templates() -> Vec<PathBuf> {
    let all = fs::read_dir(Path::new(ROOT).join("slurm"))
        .expect("slurm/")
        .flatten()
        .map(|entry| entry.path());
    let mut templates: Vec<PathBuf> = all
        .filter(|path| path.extension().is_some_and(|end| end == "sbatch"))
        .collect();
    templates.sort();
    assert!(templates.len() >= 8, "{templates:?}");
    templates
}

/// The environment in which each rank of a job was started, by rank, with its process.
fn ranks_of(lab: &Lab, job: &str) -> BTreeMap<u32, (u32, BTreeMap<String, String>)> {
    let conf = lab.folder.join("slurm.conf").display().to_string();
    let mut ranks = BTreeMap::new();
    for pid in common::processes_with(&format!("{BINARY}\0")) {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let text = String::from_utf8_lossy(&environment).into_owned();
        let all: BTreeMap<String, String> = text
            .split('\0')
            .filter_map(|pair| pair.split_once('='))
            .map(|(n, v)| (n.to_owned(), v.to_owned()))
            .collect();
        let is = |name: &str, value: &str| all.get(name).is_some_and(|own| own == value);
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let is_probe = String::from_utf8_lossy(&line).contains("\0probe\0");
        let rank = all.get("PMIX_RANK").and_then(|rank| rank.parse().ok());
        if let (Some(rank), false) = (rank, is_probe)
            && is("SLURM_JOB_ID", job)
            && is("SLURM_CONF", &conf)
        {
            ranks.insert(rank, (pid, all));
        }
    }
    ranks
}

/// All 8 ranks of a job, once they run.
#[track_caller]
fn wait_for_ranks(
    lab: &Lab,
    home: &Home,
    job: &str,
) -> BTreeMap<u32, (u32, BTreeMap<String, String>)> {
    let started = Instant::now();
    loop {
        let ranks = ranks_of(lab, job);
        if ranks.len() == 8 {
            return ranks;
        }
        assert!(
            started.elapsed() < Duration::from_secs(150),
            "{} ranks: {}",
            ranks.len(),
            home.log(job)
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// 8 ranks on 4 nodes, two neighbours on each.
#[track_caller]
fn assert_placed(run: &serde_json::Value) {
    assert_eq!(
        (run["nodes"].as_u64(), run["ranks"].as_u64()),
        (Some(4), Some(8))
    );
    let processes = run["processes"].as_array().expect("processes");
    let hosts: Vec<&str> = processes
        .iter()
        .filter_map(|process| process["host"].as_str())
        .collect();
    assert_eq!(
        hosts,
        [
            "node1", "node1", "node2", "node2", "node3", "node3", "node4", "node4"
        ]
    );
}

// --- templates ------------------------------------------------------------------------------------------------------

#[test]
fn each_level_runs_with_its_variables_on_every_rank() {
    let Some(lab) = lab() else { return };
    let home = Home::new("");
    for level in levels::all().iter().filter(|level| !level.set.is_empty()) {
        let arguments = [
            "alltoall",
            "sendrecv",
            "all_reduce",
            "--backend",
            "host",
            "-b1K",
            "-e4K",
            "-f4",
            "-n100",
        ];
        let job = lab.submit_to_all(&home, &format!("pxn_{}.sbatch", level.name), &arguments);
        for (rank, (_, environment)) in wait_for_ranks(lab, &home, &job) {
            for name in ["NCCL_PXN_DISABLE", "NCCL_P2P_PXN_LEVEL"] {
                let set = level
                    .set
                    .iter()
                    .find(|setting| setting.name == name)
                    .map(|setting| setting.value.as_str());
                assert_eq!(
                    environment.get(name).map(String::as_str),
                    set,
                    "{name} on rank {rank} of {}",
                    level.name
                );
            }
        }
        let done = lab.wait(&home, &job).expect("COMPLETED", 0);
        done.expect_table(3 * 2);
        let folder = home.run_of(&job);
        let rows = csv(&folder.join("results.csv"));
        assert_eq!(rows.len(), 3 * 2 * 2);
        assert!(
            rows.iter().all(|row| row["level"] == level.name
                && row["nodes"] == "4"
                && row["ranks"] == "8")
        );
        assert!(
            rows.iter()
                .all(|row| row["wrong"] == "0" || row["status"] == "unchecked")
        );
        let meta = json(&folder.join("run.json"));
        assert_placed(&meta);
        assert_eq!(meta["level"], level.name.as_str());
        assert_eq!(meta["end"]["code"], 0);
        assert_eq!(
            meta["job"]["id"].as_u64().map(|id| id.to_string()),
            Some(job.clone())
        );
        assert_eq!(
            meta["job"]["nodes"],
            serde_json::json!(["node1", "node2", "node3", "node4"])
        );
        assert_eq!(meta["job"]["restarts"], 0);
        let last = *done.sentences().last().expect("a last line");
        for part in [
            &format!("level {} on 8 ranks of 4 nodes (node[1-4])", level.name),
            "12 cases, no wrong data",
        ] {
            assert!(
                last.contains(part) && last.ends_with("/results.csv"),
                "{last}"
            );
        }
    }
}

#[test]
fn a_comparison_ends_with_the_code_of_the_first_failure() {
    let Some(lab) = lab() else { return };
    let home = Home::new("PXN_LEVELS=off PXN_REPEATS=1");
    // There is no GPU, and so no result to compare: that is not why it failed.
    let words = ["all_reduce", "--backend", "nccl", "-b", "8", "-e", "8"];
    let job = lab.submit(
        &home,
        &["-N1", "--gpus-per-node=2"],
        "compare_levels.sbatch",
        &words,
    );
    lab.wait(&home, &job).expect("FAILED", 2);
}

#[test]
fn a_comparison_runs_all_levels_in_turn_and_ends_in_one_table() {
    let Some(lab) = lab() else { return };
    let home = Home::new("PXN_REPEATS=2");
    let job = lab.submit_to_all(
        &home,
        "compare_levels.sbatch",
        &[&["alltoall"], &QUICK[..]].concat(),
    );
    let done = lab.wait(&home, &job).expect("COMPLETED", 0);
    let runs = home.runs_of(&job);
    assert_eq!(runs.len(), 10);
    let joined = csv(&runs[0]
        .parent()
        .expect("the job's folder")
        .join("results.csv"));
    let order: Vec<(&str, &str)> = joined
        .iter()
        .step_by(4)
        .map(|row| (row["level"].as_str(), row["repeat"].as_str()))
        .collect();
    let levels = || levels::all().iter().map(|level| level.name.as_str());
    let expected: Vec<_> = levels()
        .map(|name| (name, "0"))
        .chain(levels().map(|name| (name, "1")))
        .collect();
    assert_eq!(order, expected, "each level in turn, and again");
    assert_eq!(joined.len(), 10 * 4);
    let table = done
        .log
        .split_once("# Median time in us over 2 repetitions")
        .expect("the table")
        .1;
    assert_eq!(
        table
            .lines()
            .filter(|line| line.trim_start().starts_with("alltoall "))
            .count(),
        4,
        "{table}"
    );
    for level in levels() {
        assert!(
            table.lines().nth(1).expect("the head").contains(level),
            "{table}"
        );
    }
    assert!(table.contains("the levels cannot differ here"), "{table}");
}

#[test]
fn without_gpus_two_ranks_a_node_run_on_host_memory_and_it_is_said() {
    let Some(lab) = Lab::start(&["2", "--gpus", "0"]) else {
        return;
    };
    let home = Home::new("");
    let arguments = ["all", "-b", "1K", "-e", "1K", "-n", "2"];
    let job = lab.submit(&home, &["--gpus-per-node=0"], "suite.sbatch", &arguments);
    let done = lab.wait(&home, &job).expect("COMPLETED", 0);
    done.expect_table(11);
    assert!(
        done.log
            .contains("backend host: there is no NVIDIA device here"),
        "{}",
        done.log
    );
    let meta = json(&home.run_of(&job).join("run.json"));
    assert_eq!(
        (meta["nodes"].as_u64(), meta["ranks"].as_u64()),
        (Some(2), Some(4))
    );
    assert_eq!(
        (meta["backend"].as_str(), meta["level"].as_str()),
        (Some("host"), Some("default"))
    );

    // One node, asked for more ranks.
    let site = home.path().join("slurm/site.conf");
    fs::write(
        &site,
        format!("PXNBENCH={BINARY}\nexport PXNBENCH_TASKS_PER_NODE=3\n"),
    )
    .expect("written");
    let job = lab.submit(
        &home,
        &["-N1", "--gpus-per-node=0"],
        "pxn_off.sbatch",
        &[&["all_reduce"], &QUICK[..]].concat(),
    );
    let done = lab.wait(&home, &job).expect("COMPLETED", 0);
    assert!(
        done.log.contains("PXN is impossible on one node"),
        "{}",
        done.log
    );
    assert_eq!(json(&home.run_of(&job).join("run.json"))["ranks"], 3);
    run(lab.script().arg("stop")).expect_code(0);
}

#[test]
fn the_doctor_examines_all_nodes_of_a_job_and_gives_one_report() {
    let Some(lab) = lab() else { return };
    // A libnccl would be asked for where there are GPUs; the lab's are files.
    let home = Home::new("export NCCL_PXN_DISABLE=true");
    let job = lab.submit_to_all(&home, "doctor.sbatch", &["--verbose"]);
    let done = lab.wait(&home, &job);
    let sums: Vec<&str> = done
        .log
        .lines()
        .filter(|line| line.contains(" not applicable; "))
        .collect();
    assert_eq!(sums.len(), 1, "one report: {}", done.log);
    assert!(sums[0].ends_with("8 ranks on 4 hosts"), "{}", sums[0]);
    // What is wrong with the machine under the lab is its own matter; that the report and the job agree is ours.
    let code = if sums[0].starts_with("ready: ") {
        0
    } else {
        10
    };
    let done = done.expect(if code == 0 { "COMPLETED" } else { "FAILED" }, code);
    let says = |id: &str, word: &str, part: &str| {
        let is_it =
            |line: &&str| line.starts_with(word) && line.contains(id) && line.contains(part);
        assert_eq!(
            done.log.lines().filter(is_it).count(),
            1,
            "{word} {id}: {part} in\n{}",
            done.log
        );
    };
    says("mpi.same", "ok", "MPI");
    says("slurm.kill", "ok", "SLURM_KILL_BAD_EXIT=1");
    says("host.clock", "ok", "within 0.");
    says("env.misread-integer", "warning", "NCCL_PXN_DISABLE=true");
    assert!(home.runs_of(&job).is_empty(), "it writes no files");
    let strict = lab.submit_to_all(&home, "doctor.sbatch", &["--strict"]);
    lab.wait(&home, &strict).expect("FAILED", 10);

    // A step of one's own says nothing of it: the controller is asked.
    let words = ["srun", "--mpi=pmix", "-n2", BINARY, "doctor", "--verbose"];
    let ended = lab.salloc(&home, &["-N2", "--gpus-per-node=2"], &words);
    assert!(
        ended.stdout.contains("the site's KillOnBadExit=0"),
        "{ended:?}"
    );
}

#[test]
fn slurm_accepts_each_template() {
    let Some(lab) = lab() else { return };
    let home = Home::new("");
    for template in templates() {
        let mut command = lab.command("sbatch", &home);
        run(command
            .args(["--test-only", "-N4", "--gpus-per-node=2"])
            .arg(&template))
        .expect_code(0);
        // The number of GPUs in the template is one that the lab has not: what is asked for arrives.
        let mut command = lab.command("sbatch", &home);
        assert_ne!(
            run(command.arg("--test-only").arg(&template)).code,
            Some(0),
            "{template:?}"
        );
    }
}

#[test]
fn templates_agree_with_the_table_of_levels_and_with_each_other() {
    let rule = "# ----------";
    let mut preambles = Vec::new();
    for path in templates() {
        let text = fs::read_to_string(&path).expect("text");
        let name = path
            .file_stem()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        let exports: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("export NCCL_"))
            .collect();
        let level = match name.as_str() {
            "container" => Some("aggressive"),
            other => other.strip_prefix("pxn_"),
        };
        let set = level.map(|name| {
            &levels::all()
                .iter()
                .find(|level| level.name == name)
                .expect("a level")
                .set
        });
        let expected: Vec<String> = set
            .into_iter()
            .flatten()
            .map(|setting| {
                format!(
                    "export {0}=\"${{{0}-{1}}}\" # {2}",
                    setting.name, setting.value, setting.why
                )
            })
            .collect();
        assert_eq!(exports, expected, "{name}: slurm/levels.toml is the source");

        let (directives, rest) = text
            .split_once(&format!("{rule}-"))
            .expect("the block that a site may edit ends");
        for directive in [
            "exclusive",
            "mem=0",
            "signal=USR1@120",
            "open-mode=append",
            "output=%x_%j.out",
            "time=",
        ] {
            assert!(
                directives.contains(&format!("\n#SBATCH --{directive}")),
                "{name}: {directive}"
            );
        }
        // Beside --gpus-per-node it is an error from 26.05; the others differ between sites.
        for directive in ["gres", "partition", "account", "ntasks", "cpus"] {
            assert!(
                !text.contains(&format!("\n#SBATCH --{directive}")),
                "{name}: {directive}"
            );
        }
        let last = text.trim_end().lines().last().expect("a last line");
        let ends = [
            "exec \"$PXNBENCH\" launch",
            "exit $((status != 0 ? status : compared))",
        ];
        assert!(
            ends.iter().any(|end| last.starts_with(end)),
            "{name}: nothing may hide the exit status: {last}"
        );
        let preamble = rest
            .split_once("\n\n")
            .expect("a block")
            .1
            .split("\n\n")
            .next()
            .expect("a block");
        preambles.push((name, preamble.to_owned()));
    }
    for (name, preamble) in &preambles {
        assert_eq!(
            *preamble, preambles[0].1,
            "{name} finds the program in another way than {}",
            preambles[0].0
        );
    }
}

/// Runs a template as Slurm would, with an srun that only writes down how it was called.
#[test]
fn a_container_gets_every_name_of_nccl() {
    let home = Home::new("export NCCL_IB_HCA=mlx5_0 PXNBENCH_MPI=pmix");
    let srun = home.path().join("srun");
    let report = |node: &str, rank: u32, size: u32| {
        format!(
            "pxnbench-probe: {{\"rank\":{rank},\"size\":{size},\"node\":\"{node}\",\"built_with\":\"\",\"loaded\":\"\",\
             \"nccl\":{{\"Err\":\"\"}},\"hardware\":null,\"gpus\":8}}"
        )
    };
    let script = format!(
        "#!/bin/bash\ncase \"$* \" in\n*'probe --alone '*) printf '%s\\n' '{}' '{}' ;;\n*'probe '*) printf '%s\\n' '{}' '{}' ;;\n*) \
         printf '%s\\n' srun \"$@\" >called ;;\nesac\n",
        report("n1", 0, 1),
        report("n2", 0, 1),
        report("n1", 0, 2),
        report("n2", 1, 2),
    );
    fs::write(&srun, script).expect("written");
    fs::set_permissions(&srun, fs::Permissions::from_mode(0o755)).expect("made executable");
    let mut command = Command::new("bash");
    clean(&mut command);
    let path = format!(
        "{}:{}",
        home.path().display(),
        std::env::var("PATH").expect("a PATH")
    );
    let here = home.path().display().to_string();
    let job = [
        ("SLURM_JOB_ID", "7"),
        ("SLURM_JOB_NAME", "pxn_container"),
        ("SLURM_JOB_NODELIST", "n[1-2]"),
        ("SLURM_JOB_CPUS_PER_NODE", "96(x2)"),
        ("SLURM_GPUS_PER_NODE", "8"),
        ("SLURM_SUBMIT_DIR", &here),
        ("PXNBENCH_IMAGE", "/images/nccl.sqsh"),
        ("PATH", &path),
    ];
    command
        .current_dir(home.path())
        .envs(job)
        .args(["slurm/container.sbatch", "alltoall"]);
    run(&mut command).expect_code(0);
    let called = fs::read_to_string(home.path().join("called")).expect("srun was called");
    let folder = Path::new(BINARY)
        .parent()
        .expect("a folder")
        .display()
        .to_string();
    let expected = format!(
        "srun --mpi=pmix --nodes=2 --ntasks=16 --ntasks-per-node=8 --cpus-per-task=12 --distribution=block --gpu-bind=none \
         --kill-on-bad-exit=1 --wait=60 --container-image=/images/nccl.sqsh --container-mounts={here}:{here},{folder}:{folder} \
         --container-workdir={here} --container-env=NCCL_IB_HCA,NCCL_P2P_PXN_LEVEL,NCCL_PXN_DISABLE {BINARY} alltoall"
    );
    assert_eq!(called.lines().collect::<Vec<_>>().join(" "), expected);
}

// --- sites that differ ----------------------------------------------------------------------------------------------

#[test]
fn an_empty_environment_and_another_folder_still_find_everything() {
    let Some(lab) = lab() else { return };
    let (home, elsewhere) = (Home::new(""), tempfile::tempdir().expect("a folder"));
    // Steps would start with nothing; the templates are found by Command= of scontrol.
    let mut command = lab.command("sbatch", &home);
    command.current_dir(elsewhere.path()).args([
        "--parsable",
        "-N4",
        "--gpus-per-node=2",
        "--export=NONE",
    ]);
    command
        .arg(home.path().join("slurm/pxn_aggressive.sbatch"))
        .args(["alltoall", "--out", "here"])
        .args(QUICK);
    let job = run(&mut command).expect_code(0).stdout.trim().to_owned();
    let state = lab.wait(&home, &job);
    let log = fs::read_to_string(elsewhere.path().join(format!("pxn_aggressive_{job}.out")))
        .expect("the log");
    assert_eq!(state.state, "COMPLETED", "{log}");
    let meta = json(&elsewhere.path().join("here/run.json"));
    assert_placed(&meta);
    assert_eq!(
        (
            meta["level"].as_str(),
            &meta["environment"]["NCCL_P2P_PXN_LEVEL"]
        ),
        (Some("aggressive"), &"2".into())
    );
}

#[test]
fn a_sites_own_setting_wins_and_the_rows_say_so() {
    let Some(lab) = lab() else { return };
    let home = Home::new("export NCCL_P2P_PXN_LEVEL=2");
    let job = lab.submit_to_all(
        &home,
        "pxn_off.sbatch",
        &[&["alltoall"], &QUICK[..]].concat(),
    );
    let done = lab.wait(&home, &job).expect("COMPLETED", 0);
    let rows = csv(&home.run_of(&job).join("results.csv"));
    assert!(
        rows.iter().all(|row| row["level"] == "custom"),
        "{}",
        done.log
    );
}

#[test]
fn a_job_without_its_program_says_where_to_name_it() {
    let Some(lab) = lab() else { return };
    let home = Home::new("PXNBENCH=/no/such/pxnbench");
    let job = lab.submit(&home, &["-N1", "--gpus-per-node=2"], "pxn_off.sbatch", &[]);
    let done = lab.wait(&home, &job).expect("FAILED", 8);
    assert_eq!(done.log.lines().count(), 1, "{}", done.log);
    assert!(
        done.log.contains("'/no/such/pxnbench'") && done.log.contains("slurm/site.conf"),
        "{}",
        done.log
    );
}

#[test]
fn a_site_without_pmix_gets_mpirun_or_a_sentence() {
    let Some(lab) = Lab::start(&["2", "--no-pmix"]) else {
        return;
    };
    let home = Home::new("");
    let job = lab.submit(
        &home,
        &["--gpus-per-node=2"],
        "pxn_off.sbatch",
        &[&["all_reduce"], &QUICK[..]].concat(),
    );
    let done = lab.wait(&home, &job).expect("COMPLETED", 0);
    done.expect_table(2);
    assert!(
        done.log.contains("srun --mpi=pmi2 does not work") && done.log.contains("by mpirun"),
        "{}",
        done.log
    );
    assert!(
        done.log.contains("4 ranks of 2 nodes (node[1-2])"),
        "{}",
        done.log
    );
    let launch = [
        &[BINARY, "launch", "--mpi", "pmix", "--", "all_reduce"],
        &QUICK[..],
    ]
    .concat();
    let ended = lab
        .salloc(&home, &["-N2", "--gpus-per-node=2"], &launch)
        .expect_code(8);
    let sentences = ended.sentences();
    assert_eq!(sentences.len(), 1, "{}", ended.stderr);
    assert!(
        sentences[0].contains("--mpi=pmix does not work") && sentences[0].contains("PXNBENCH_MPI"),
        "{}",
        ended.stderr
    );
    assert!(
        sentences[0].contains("srun here has") && sentences[0].contains("pmi2"),
        "{}",
        ended.stderr
    );
    run(lab.script().arg("stop")).expect_code(0);
}

#[test]
fn what_an_outer_step_or_shell_leaks_does_not_reach_the_ranks() {
    let Some(lab) = lab() else { return };
    let home = Home::new("");
    let launch = [&[BINARY, "launch", "--", "all_reduce"], &QUICK[..]].concat();
    // GPUs by task, and variables that srun would take for options or for a contradiction.
    let mut command = lab.command("salloc", &home);
    command.args([
        "-Q",
        "--exclusive",
        "-N4",
        "--ntasks-per-node=2",
        "--gpus-per-task=1",
        "env",
    ]);
    command.args([
        "SLURM_CPUS_PER_TASK=3",
        "SLURM_TRES_PER_TASK=cpu:5",
        "SLURM_MPI_TYPE=none",
        "SLURM_GPU_BIND=single:1",
    ]);
    let ended = run(command
        .args(["SLURM_NTASKS=1", "PMIX_RANK=3"])
        .args(&launch))
    .expect_code(0);
    assert!(
        ended.stderr.contains("8 ranks of 4 nodes"),
        "{}",
        ended.stderr
    );
    // From inside a step, as in srun --pty bash, which holds the CPUs.
    let inside = [&["srun", "-N1", "-n1", "-c8"], &launch[..]].concat();
    let ended = lab
        .salloc(&home, &["-N4", "--gpus-per-node=2"], &inside)
        .expect_code(0);
    assert!(
        ended.stderr.contains("8 ranks of 4 nodes (node[1-4])"),
        "{}",
        ended.stderr
    );
    let runs = fs::read_dir(home.path().join("results"))
        .expect("results")
        .flatten();
    for run in runs
        .flat_map(|job| fs::read_dir(job.path()).expect("a folder").flatten())
        .filter(|e| e.path().is_dir())
    {
        assert_placed(&json(&run.path().join("run.json")));
    }
    // Once a task is once too often.
    let many = [&["srun", "-N4", "-n4"], &launch[..]].concat();
    let ended = lab
        .salloc(&home, &["-N4", "--gpus-per-node=2"], &many)
        .expect_code(8);
    assert_eq!(ended.sentences().len(), 1, "{}", ended.stderr);
    assert!(ended.stderr.contains("started 4 times"), "{}", ended.stderr);
}

#[test]
fn outside_a_job_it_says_what_to_do() {
    let home = Home::new("");
    let ended = run(common::alone(home.path()).args(["launch", "--", "all_reduce"])).expect_code(8);
    assert_eq!(ended.sentences().len(), 1, "{}", ended.stderr);
    assert!(
        ended.stderr.contains("not a Slurm job") && ended.stderr.contains("sbatch slurm/"),
        "{}",
        ended.stderr
    );
    // What is wrong with the sweep is said first: before any node is asked.
    let ended = run(common::alone(home.path()).args(["launch", "--", "all_reduce", "-b", "0"]))
        .expect_code(6);
    assert_eq!(ended.sentences().len(), 1, "{}", ended.stderr);
}

// --- ends -----------------------------------------------------------------------------------------------------------

/// Every line of the CSV is whole: all columns, and the end of the line.
#[track_caller]
fn assert_whole(path: &Path) {
    let text = fs::read_to_string(path).expect("the CSV");
    assert!(text.ends_with("\r\n"));
    assert!(
        csv(path)
            .iter()
            .all(|row| row.len() == pxnbench::record::columns::COLUMNS.len()
                && !row["status"].is_empty())
    );
}

#[test]
fn scancel_keeps_what_was_measured() {
    let Some(lab) = lab() else { return };
    let home = Home::new("");
    let job = lab.submit_to_all(&home, "pxn_off.sbatch", &LONG);
    let rows = home.wait_for_rows(&job);
    run(lab.command("scancel", &home).arg(&job)).expect_code(0);
    let done = lab.wait(&home, &job);
    assert_eq!(done.state, "CANCELLED", "{}", done.log);
    assert_whole(&rows);
    // Where Slurm kills faster than the last words are written, the file says that it did not end.
    let end = &json(&rows.with_file_name("run.json"))["end"];
    assert!(end.is_null() || end["code"] == 9, "{end}");
}

#[test]
fn the_warning_before_the_time_limit_ends_it_in_good_order() {
    let Some(lab) = lab() else { return };
    let home = Home::new("");
    // To the steps, as --signal=USR1@120 sends it, and to the batch script alone.
    for target in [&[] as &[&str], &["--batch"]] {
        let job = lab.submit_to_all(&home, "pxn_off.sbatch", &LONG);
        let rows = home.wait_for_rows(&job);
        run(lab
            .command("scancel", &home)
            .args(["--signal=USR1"])
            .args(target)
            .arg(&job))
        .expect_code(0);
        let done = lab.wait(&home, &job).expect("FAILED", 9);
        assert_whole(&rows);
        assert_eq!(json(&rows.with_file_name("run.json"))["end"]["code"], 9);
        assert!(
            done.sentences()
                .last()
                .is_some_and(|last| last.contains("stopped by ")),
            "{}",
            done.log
        );
    }
}

#[test]
fn a_job_with_too_short_a_time_keeps_its_finished_cases() {
    let Some(lab) = Lab::start(&["1"]) else {
        return;
    };
    let home = Home::new("");
    // Slurm looks at time limits twice a minute; the warning comes when it first does.
    let options = ["-N1", "--gpus-per-node=2", "--time=1", "--signal=USR1@60"];
    let job = lab.submit(&home, &options, "pxn_off.sbatch", &LONG);
    let done = lab.wait(&home, &job);
    let rows = home.run_of(&job).join("results.csv");
    assert_whole(&rows);
    assert!(!csv(&rows).is_empty(), "{}", done.log);
    let done = done.expect("FAILED", 9);
    assert!(done.log.contains("cases, no wrong data"), "{}", done.log);
    run(lab.script().arg("stop")).expect_code(0);
}

#[test]
fn a_requeued_job_goes_on_and_measures_no_case_twice() {
    let Some(lab) = lab() else { return };
    let home = Home::new("export PXN_REQUEUE=1");
    let sweep = [
        "all_reduce",
        "--backend",
        "host",
        "-b",
        "1K",
        "-e",
        "300K",
        "-i",
        "1K",
        "-n",
        "5",
    ];
    let job = lab.submit(
        &home,
        &["-N1", "--gpus-per-node=2", "--requeue"],
        "pxn_off.sbatch",
        &sweep,
    );
    home.wait_for_rows(&job);
    run(lab.command("scancel", &home).args(["--signal=USR1", &job])).expect_code(0);
    let started = Instant::now();
    let why = || {
        run(lab
            .command("squeue", &home)
            .args(["-h", "-j", &job, "-o", "%r"]))
        .stdout
    };
    while why().trim() != "BeginTime" {
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "{}",
            home.log(&job)
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    // Slurm lets a requeued job wait for two minutes. Some seconds are enough for the old step to be gone from the node.
    std::thread::sleep(Duration::from_secs(4));
    let job_is = format!("jobid={job}");
    run(lab
        .command("scontrol", &home)
        .args(["update", &job_is, "StartTime=now"]))
    .expect_code(0);
    let done = lab.wait(&home, &job).expect("COMPLETED", 0);
    let rows = csv(&home.run_of(&job).join("results.csv"));
    let mut cases: Vec<_> = rows
        .iter()
        .map(|row| (&row["size_bytes"], &row["in_place"]))
        .collect();
    cases.sort();
    cases.dedup();
    assert_eq!((rows.len(), cases.len()), (600, 600), "{}", done.log);
    assert_eq!(
        json(&home.run_of(&job).join("run.json"))["job"]["restarts"],
        1
    );
}

#[test]
fn a_rank_that_is_killed_ends_the_job_and_is_named() {
    let Some(lab) = lab() else { return };
    let home = Home::new("");
    let job = lab.submit_to_all(&home, "pxn_off.sbatch", &LONG);
    let rows = home.wait_for_rows(&job);
    let ranks = wait_for_ranks(lab, &home, &job);
    assert_eq!(ranks[&5].1["SLURMD_NODENAME"], "node3");
    run(Command::new("kill").args(["-KILL", &ranks[&5].0.to_string()])).expect_code(0);
    let killed = Instant::now();
    let done = lab.wait(&home, &job).expect("FAILED", 8);
    assert!(
        killed.elapsed() < Duration::from_secs(20),
        "{:?}",
        killed.elapsed()
    );
    let last = *done.sentences().last().expect("a sentence");
    assert!(
        last.contains("rank 5 on node3 was ended by a signal (Killed)"),
        "{}",
        done.log
    );
    assert_whole(&rows);
}

#[test]
fn dependencies_and_arrays_see_the_right_exit_codes() {
    let Some(lab) = lab() else { return };
    let home = Home::new("");
    let quick = [&["all_reduce"], &QUICK[..]].concat();
    let one = ["-N1", "--gpus-per-node=2"];
    let options = |more: &[&'static str]| [&one[..], more].concat();
    let good = lab.submit(&home, &options(&["--array=1-2"]), "pxn_off.sbatch", &quick);
    let bad = lab.submit(&home, &one, "pxn_off.sbatch", &["all_reduce", "-b", "0"]);
    let after = |job: &str| format!("--dependency=afterok:{job}");
    let runs = lab.submit(
        &home,
        &[&one[..], &[&after(&good)]].concat(),
        "pxn_balanced.sbatch",
        &quick,
    );
    let never = lab.submit(
        &home,
        &[&one[..], &[&after(&bad), "--kill-on-invalid-dep=yes"]].concat(),
        "pxn_balanced.sbatch",
        &quick,
    );
    lab.wait(&home, &bad).expect("FAILED", 6);
    lab.wait(&home, &runs).expect("COMPLETED", 0);
    assert_eq!(lab.wait(&home, &never).state, "CANCELLED");
    for task in [format!("{good}_1"), format!("{good}_2")] {
        lab.wait(&home, &task).expect("COMPLETED", 0);
    }
    let results = fs::read_dir(home.path().join("results"))
        .expect("results")
        .count();
    assert_eq!(
        results, 3,
        "a folder for each task of the array, and one for the job after"
    );
}

// --- the lab itself -------------------------------------------------------------------------------------------------

#[test]
fn the_lab_leaves_nothing_when_its_owner_is_killed() {
    if lab().is_none() {
        return;
    }
    let lab = Lab {
        folder: format!("/tmp/pxn-lab.{}-owned", std::process::id()).into(),
    };
    let mut owner = Command::new("sleep").arg("600").spawn().expect("sleep");
    run(lab
        .script()
        .args(["start", "2", "--owner", &owner.id().to_string()]))
    .expect_code(0);
    let home = Home::new("");
    run(lab.command("sbatch", &home).args(["--wrap", "sleep 600"])).expect_code(0);
    run(lab.script().arg("status")).expect_code(0);
    // A daemon dies of its own accord, then the owner.
    let status = run(lab.script().arg("status")).stdout;
    let controller = status
        .lines()
        .find_map(|line| line.strip_suffix(" slurmctld"))
        .expect("slurmctld")
        .to_owned();
    run(Command::new("kill").args(["-KILL", &controller])).expect_code(0);
    assert_ne!(run(lab.script().arg("status")).code, Some(0));
    owner.kill().expect("killed");
    owner.wait().expect("reaped");
    let killed = Instant::now();
    let name = lab.folder.display().to_string();
    while lab.folder.exists() || !common::processes_with(&name).is_empty() {
        assert!(
            killed.elapsed() < Duration::from_secs(20),
            "{:?}",
            common::processes_with(&name)
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}
