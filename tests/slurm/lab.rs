//! A Slurm of several nodes on this machine, and the jobs in it.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use pxnbench::slurm;

use crate::{
    ROOT,
    common::{self, BINARY, Ended, clean, run, skip},
    home::Home,
};

/// A running Slurm.
pub(crate) struct Lab {
    pub(crate) folder: PathBuf,
}

/// The one that most tests share.
pub(crate) fn lab() -> Option<&'static Lab> {
    static LAB: OnceLock<Option<Lab>> = OnceLock::new();
    LAB.get_or_init(|| Lab::start(&["4"])).as_ref()
}

impl Lab {
    /// Starts one that ends with this process, or says why not.
    pub(crate) fn start(options: &[&str]) -> Option<Lab> {
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

    pub(crate) fn script(&self) -> Command {
        let mut command = Command::new(Path::new(ROOT).join("scripts/slurm-lab.sh"));
        clean(&mut command);
        command.env("SLURM_LAB_DIR", &self.folder);
        command
    }

    /// A program of Slurm's, in `home`.
    pub(crate) fn command(&self, program: &str, home: &Home) -> Command {
        let mut command = Command::new(program);
        clean(&mut command);
        command
            .env("SLURM_CONF", self.folder.join("slurm.conf"))
            .current_dir(home.path());
        command
    }

    /// Submits a template and gives the job's number.
    #[track_caller]
    pub(crate) fn submit(
        &self,
        home: &Home,
        options: &[&str],
        template: &str,
        arguments: &[&str],
    ) -> String {
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
    pub(crate) fn submit_to_all(&self, home: &Home, template: &str, arguments: &[&str]) -> String {
        self.submit(home, &["-N4", "--gpus-per-node=2"], template, arguments)
    }

    pub(crate) fn state(&self, home: &Home, job: &str) -> String {
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
    pub(crate) fn wait(&self, home: &Home, job: &str) -> Done {
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
    pub(crate) fn salloc(&self, home: &Home, options: &[&str], words: &[&str]) -> Ended {
        run(self
            .command("salloc", home)
            .args(["-Q", "--exclusive"])
            .args(options)
            .args(words))
    }
}

/// How a job ended.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) state: String,
    pub(crate) code: Option<i32>,
    pub(crate) log: String,
}

impl Done {
    #[track_caller]
    pub(crate) fn expect(self, state: &str, code: i32) -> Done {
        assert_eq!(
            (self.state.as_str(), self.code),
            (state, Some(code)),
            "{}",
            self.log
        );
        self
    }

    /// What the program and the templates say.
    pub(crate) fn sentences(&self) -> Vec<&str> {
        self.log
            .lines()
            .filter(|line| line.starts_with("pxnbench: "))
            .collect()
    }

    /// Rows of nccl-tests' table with at least one checked number, and none wrong.
    #[track_caller]
    pub(crate) fn expect_table(&self, rows: usize) {
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

/// A process that is a rank of a job.
pub(crate) struct RankProcess {
    pub(crate) pid: u32,
    /// The environment in which it was started.
    pub(crate) environment: BTreeMap<String, String>,
}

/// Returns the processes of a job's ranks, by rank.
fn ranks_of(lab: &Lab, job: &str) -> BTreeMap<u32, RankProcess> {
    let conf = lab.folder.join("slurm.conf").display().to_string();
    let mut ranks = BTreeMap::new();
    for pid in common::processes_with(&format!("{BINARY}\0")) {
        let bytes = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let environment: BTreeMap<String, String> = text
            .split('\0')
            .filter_map(|pair| pair.split_once('='))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let is = |name: &str, value: &str| environment.get(name).is_some_and(|own| own == value);
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let is_probe = String::from_utf8_lossy(&line).contains("\0probe\0");
        let rank = environment
            .get("PMIX_RANK")
            .and_then(|rank| rank.parse().ok());
        if let (Some(rank), false) = (rank, is_probe)
            && is("SLURM_JOB_ID", job)
            && is("SLURM_CONF", &conf)
        {
            ranks.insert(rank, RankProcess { pid, environment });
        }
    }
    ranks
}

/// All 8 ranks of a job, once they run.
#[track_caller]
pub(crate) fn wait_for_ranks(lab: &Lab, home: &Home, job: &str) -> BTreeMap<u32, RankProcess> {
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
pub(crate) fn assert_placed(run: &serde_json::Value) {
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
