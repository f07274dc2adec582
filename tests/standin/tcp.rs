//! Ranks that no MPI launcher started: they meet over TCP, by the variables of torchrun.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::{
    common::{
        self, Ended, alone, csv, disk_fault::DiskFault, ended, free_port, json, program, wait_until,
    },
    machine::Machine,
};

/// A job of ranks on this machine.
pub(crate) struct Job<'a> {
    machine: &'a Machine,
    size: u32,
    port: u16,
    words: &'a str,
    ranks: Vec<(u32, Child)>,
}

impl<'a> Job<'a> {
    pub(crate) fn new(machine: &'a Machine, size: u32, words: &'a str) -> Job<'a> {
        Job {
            machine,
            size,
            port: free_port(),
            words,
            ranks: Vec::new(),
        }
    }

    /// As [`Job::new`], with all ranks started.
    fn of_all(machine: &'a Machine, size: u32, words: &'a str) -> Job<'a> {
        let mut job = Job::new(machine, size, words);
        for rank in 0..size {
            job.start(rank, &[]);
        }
        job
    }

    /// Starts a rank with further or other variables.
    fn start(&mut self, rank: u32, variables: &[(&str, &str)]) {
        let command = alone(self.machine.path());
        self.start_as(command, rank, variables);
    }

    /// As [`Job::start`], as the last argument of `starter`.
    pub(crate) fn start_below(&mut self, starter: &[&str], rank: u32, variables: &[(&str, &str)]) {
        let mut command = program(Path::new(starter[0]), self.machine.path());
        command.args(&starter[1..]).arg(common::BINARY);
        self.start_as(command, rank, variables);
    }

    fn start_as(&mut self, command: Command, rank: u32, variables: &[(&str, &str)]) {
        let mut command = self.machine.on(command);
        command
            .args(self.words.split_whitespace())
            .env("RANK", rank.to_string())
            .env("WORLD_SIZE", self.size.to_string())
            .env("MASTER_ADDR", "localhost")
            .env("MASTER_PORT", self.port.to_string())
            .envs(variables.iter().copied());
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        self.ranks.push((rank, child.expect("started")));
    }

    /// Waits for all ranks, and returns how each ended, in the order in which they were started.
    fn end(mut self) -> Vec<Ended> {
        let ranks = std::mem::take(&mut self.ranks).into_iter();
        let waits: Vec<_> = ranks
            .map(|(_, child)| thread::spawn(move || ended(child)))
            .collect();
        let ends = waits.into_iter().map(|wait| wait.join().expect("a rank"));
        ends.collect()
    }

    #[track_caller]
    pub(crate) fn end_with(self, code: i32) -> Vec<Ended> {
        let ended = self.end();
        for rank in &ended {
            assert_eq!(rank.code, Some(code), "{ended:#?}");
        }
        ended
    }
}

impl Drop for Job<'_> {
    fn drop(&mut self) {
        for (_, child) in &mut self.ranks {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The sentences of all ranks that are no notes of a sweep that runs.
fn sentences(ended: &[Ended]) -> Vec<String> {
    let mut all = Vec::new();
    for rank in ended {
        for sentence in rank.sentences() {
            if !["backend ", "peak busbw", "results are"]
                .iter()
                .any(|note| sentence["pxnbench: ".len()..].starts_with(note))
            {
                all.push(sentence.to_owned());
            }
        }
    }
    all
}

/// The one sentence of a job that fails.
#[track_caller]
pub(crate) fn only_sentence(ended: &[Ended]) -> String {
    let all = sentences(ended);
    assert_eq!(all.len(), 1, "{all:#?}");
    all[0].clone()
}

#[test]
fn all_collectives_are_right_on_ranks_that_meet_over_tcp() {
    let Some(machine) = Machine::without_mpi(4) else {
        return;
    };
    let words = "all -b 1000 -e 34000 -i 11000 -n 2 -c 1 --out here --backend nccl";
    let ended = Job::of_all(&machine, 4, words).end_with(0);
    for rank in &ended[1..] {
        assert_eq!((&*rank.stdout, &*rank.stderr), ("", ""));
    }
    let here = machine.path().join("here");
    let rows = csv(&here.join("results.csv"));
    assert_eq!(rows.len(), 11 * 4 * 2);
    for row in &rows {
        assert!(["0", ""].contains(&&*row["wrong"]), "{row:?}");
    }
    let run = json(&here.join("run.json"));
    assert_eq!(run["versions"]["mpi"], "TCP");
    assert_eq!(run["processes"][3]["local_rank"], 3);
}

#[test]
fn a_rank_may_start_later_than_the_others_and_rank_0_last() {
    let Some(machine) = Machine::without_mpi(4) else {
        return;
    };
    let mut job = Job::new(&machine, 3, "all_reduce -b 8 -e 8 --backend nccl");
    for rank in [2, 1, 0] {
        job.start(rank, &[]);
        thread::sleep(Duration::from_millis(300));
    }
    job.end_with(0);
}

#[test]
fn a_rank_that_never_comes_is_named() {
    let Some(machine) = Machine::without_mpi(4) else {
        return;
    };
    let mut job = Job::new(
        &machine,
        4,
        "all_reduce -b 8 -e 8 --backend nccl --timeout 4",
    );
    for rank in [0, 1, 2] {
        job.start(rank, &[("LOCAL_WORLD_SIZE", "1")]);
    }
    let ended = job.end_with(4);
    let what = only_sentence(&ended);
    assert!(
        what.contains("1 of 4 ranks did not connect to port ")
            && what.contains("rank 3 (node 3 of 4 nodes, with 1 rank per node). Start them"),
        "{what}"
    );
}

#[test]
fn a_rank_with_another_secret_is_refused_on_both_sides() {
    let Some(machine) = Machine::without_mpi(4) else {
        return;
    };
    let mut job = Job::new(
        &machine,
        2,
        "all_reduce -b 8 -e 8 --backend nccl --timeout 5",
    );
    job.start(0, &[("PXNBENCH_TOKEN", "open sesame")]);
    job.start(1, &[("SLURM_JOB_ID", "7")]);
    let ended = job.end();
    assert_eq!(ended[1].code, Some(8));
    let theirs = only_sentence(&ended[1..]);
    assert!(
        theirs.contains(
            "refuses this rank: they have different secrets, and that of this rank is from the id \
             of the job. Set PXNBENCH_TOKEN"
        ),
        "{theirs}"
    );
    assert_eq!(ended[0].code, Some(4));
    let own = sentences(&ended[..1]);
    assert_eq!(own.len(), 2, "{own:#?}");
    assert!(
        own[0].contains("rank 1 connected from ") && own[0].contains("from PXNBENCH_TOKEN. Set")
    );
    assert!(own[1].contains("1 of 2 ranks did not connect"), "{own:#?}");
    assert!(!format!("{ended:?}").contains("sesame"));
}

#[test]
fn ranks_that_contradict_each_other_end_in_one_sentence() {
    let Some(machine) = Machine::without_mpi(4) else {
        return;
    };
    let words = "all_reduce -b 8 -e 8 --backend nccl --timeout 30";
    for (rank, size, said) in [
        (3, "4", "rank 3 on "),
        (1, "4", " has WORLD_SIZE=4, and rank 0 on "),
        (1, "3", "two processes say that they are rank 1: "),
    ] {
        let mut job = Job::new(&machine, 3, words);
        job.start(0, &[]);
        job.start(1, &[]);
        thread::sleep(Duration::from_millis(500));
        job.start(rank, &[("WORLD_SIZE", size)]);
        let ended = job.end_with(8);
        let what = only_sentence(&ended);
        assert!(what.contains(said), "{what}");
    }
}

#[test]
fn a_busy_port_a_lost_name_and_broken_variables_are_said() {
    let Some(machine) = Machine::without_mpi(4) else {
        return;
    };
    let words = "all_reduce -b 8 -e 8 --backend nccl --timeout 2";
    let port = free_port();
    let _other = TcpListener::bind(("0.0.0.0", port)).expect("free");
    let port = port.to_string();
    for (rank, changes, code, said) in [
        (
            0,
            &[("MASTER_PORT", &*port)][..],
            8,
            "rank 0 cannot listen at port ",
        ),
        (
            1,
            &[("MASTER_PORT", &*port)],
            4,
            "there is no answer. Check that rank 0 runs there",
        ),
        (
            1,
            &[],
            4,
            "rank 0 cannot be reached at localhost (127.0.0.1), port ",
        ),
        (
            1,
            &[("MASTER_ADDR", "no-such-host.invalid")],
            8,
            "MASTER_ADDR=no-such-host.invalid has no address: ",
        ),
        (5, &[], 8, "RANK=5 does not fit WORLD_SIZE=2"),
        (1, &[("MASTER_ADDR", "")], 8, "MASTER_ADDR is not. Set it"),
    ] {
        let mut job = Job::new(&machine, 2, words);
        job.start(rank, changes);
        let what = only_sentence(&job.end_with(code));
        assert!(what.contains(said), "{what}");
    }
}

#[test]
fn strangers_at_the_port_do_not_stall_the_job() {
    let Some(machine) = Machine::without_mpi(4) else {
        return;
    };
    let mut job = Job::new(
        &machine,
        3,
        "all_reduce -b 8 -e 8 --backend nccl --timeout 60",
    );
    job.start(0, &[]);
    let mut strangers = Vec::new();
    while strangers.len() < 200 {
        match TcpStream::connect(("127.0.0.1", job.port)) {
            Ok(stream) => strangers.push(stream),
            Err(_) => thread::sleep(Duration::from_millis(10)),
        }
    }
    for (at, stream) in strangers.iter_mut().enumerate() {
        let words: &[u8] = match at % 4 {
            0 => b"GET / HTTP/1.1\r\n\r\n",
            1 => &[b'H', 0xff, 0xff, 0xff, 0xff],
            2 => &[b'H', 2, 0, 0, 0, b'{', b'}'],
            _ => continue,
        };
        // Rank 0 may have closed it already.
        let _ = stream.write_all(words);
    }
    job.start(1, &[]);
    job.start(2, &[]);
    let port = job.port;
    let ended = job.end_with(0);
    assert!(sentences(&ended).is_empty(), "{ended:#?}");
    for stream in &mut strangers {
        let _ = stream.set_read_timeout(Some(Duration::from_secs(10)));
        let mut heard = Vec::new();
        let _ = stream.read_to_end(&mut heard);
        assert!(!String::from_utf8_lossy(&heard).contains("proof"));
    }
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
}

#[test]
fn a_killed_rank_is_named_and_ends_all_others() {
    let Some(machine) = Machine::without_mpi(4) else {
        return;
    };
    for lost in [0, 2] {
        let words = "all_reduce -b 8 -e 1K -f 2 --backend nccl --time 60s --out here";
        let _ = std::fs::remove_dir_all(machine.path().join("here"));
        let mut job = Job::of_all(&machine, 4, words);
        wait_for_rows(&machine.path().join("here/results.csv"));
        let killed = Instant::now();
        job.ranks[lost].1.kill().expect("killed");
        let mut ended = job.end();
        assert!(killed.elapsed() < Duration::from_secs(30));
        assert_eq!(ended.remove(lost).code, None);
        let what = only_sentence(&ended);
        assert!(
            what.contains(&format!(": rank {lost} on ")) && what.contains(" was killed"),
            "{what}"
        );
        for rank in &ended {
            assert_eq!(rank.code, Some(8), "{ended:#?}");
        }
    }
}

pub(crate) fn wait_for_rows(file: &Path) {
    wait_until("rows", || {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        text.lines().count() > 3
    });
}

#[test]
fn a_rank_that_fails_ends_all_with_its_code_and_one_sentence() {
    let Some(machine) = Machine::without_mpi(4) else {
        return;
    };
    let mut job = Job::new(&machine, 4, "all_reduce -b 8 -e 1K --backend nccl");
    for rank in [0, 1, 3] {
        job.start(rank, &[]);
    }
    job.start(2, &[("STANDIN_FAULT", "ncclAllReduce:3:1")]);
    let ended = job.end_with(3);
    let what = only_sentence(&ended);
    assert!(what.contains(": rank 2 on "), "{what}");
}

/// Returns variables as [`Job::start`] takes them.
fn borrowed<'a>(variables: &'a [(&'static str, String)]) -> Vec<(&'a str, &'a str)> {
    let pairs = variables.iter();
    pairs.map(|(name, value)| (*name, value.as_str())).collect()
}

/// Rank 0 is ended by its timer after five seconds, and is not taken for a rank that was killed.
#[test]
fn a_rank_whose_disk_hangs_at_the_end_passes_on_why_the_job_ended() {
    let Some(machine) = Machine::without_mpi(4) else {
        return;
    };
    let hangs = DiskFault {
        what: "300",
        path: "run.json",
        skip: 1,
        ..DiskFault::of("sync")
    };
    let Some(disk) = hangs.variables() else {
        return;
    };
    let disk = borrowed(&disk);
    let mut job = Job::new(&machine, 4, "all_reduce -b 8 -e 1K --backend nccl --out o");
    job.start(0, &disk);
    for rank in [1, 3] {
        job.start(rank, &[]);
    }
    job.start(2, &[("STANDIN_FAULT", "ncclAllReduce:3:1")]);
    let ended = job.end_with(3);
    assert!(ended[0].took > Duration::from_secs(5), "{:?}", ended[0]);
    let what = only_sentence(&ended);
    assert!(what.contains(": rank 2 on "), "{what}");
}

/// Its note for the others is on a disk that does not answer: the reason is printed by the timer.
#[test]
fn a_rank_whose_disk_hangs_as_it_fails_says_why_all_the_same() {
    let Some(machine) = Machine::without_mpi(4) else {
        return;
    };
    let hangs = DiskFault {
        what: "300",
        path: "/pxnbench-rank.",
        skip: 1,
        ..DiskFault::of("write")
    };
    let Some(disk) = hangs.variables() else {
        return;
    };
    let mut failing = borrowed(&disk);
    failing.push(("STANDIN_FAULT", "ncclAllReduce:3:1"));
    let mut job = Job::new(&machine, 4, "all_reduce -b 8 -e 1K --backend nccl");
    for rank in [0, 1, 3] {
        job.start(rank, &[]);
    }
    job.start(2, &failing);
    let ended = job.end_with(3);
    assert!(ended[3].took > Duration::from_secs(5), "{:?}", ended[3]);
    let what = only_sentence(&ended);
    assert!(what.contains(": rank 2 on "), "{what}");
}

#[test]
fn host_memory_is_refused_over_tcp() {
    let Some(machine) = Machine::without_mpi(4) else {
        return;
    };
    let ended = Job::of_all(&machine, 2, "all_reduce --backend host").end_with(6);
    let what = only_sentence(&ended);
    assert!(what.contains("--backend host needs MPI"), "{what}");
}

/// A process of another job may listen beside torchrun's store, so a rank that is refused tries the
/// other ports too.
#[test]
fn a_rank_of_torchrun_with_another_secret_says_so() {
    let Some(machine) = Machine::without_mpi(4) else {
        return;
    };
    let mut job = Job::new(
        &machine,
        2,
        "all_reduce -b 8 -e 8 --backend nccl --timeout 3",
    );
    for (rank, token) in [(0, "a"), (1, "b")] {
        let variables = [
            ("TORCHELASTIC_USE_AGENT_STORE", "True"),
            ("PXNBENCH_TOKEN", token),
        ];
        job.start(rank, &variables);
    }
    let ended = job.end();
    let theirs = only_sentence(&ended[1..]);
    assert!(theirs.contains("refuses this rank: "), "{theirs}");
}

/// Each rank starts a worker besides itself, and the doctor asks all of them.
#[test]
fn proof_the_doctor_and_stragglers_work_over_tcp() {
    let Some(machine) = Machine::without_mpi(4) else {
        return;
    };
    let words = "all_reduce -b 8 -e 1K -f 4 --backend nccl --proof -U 1 --stragglers --out here";
    Job::of_all(&machine, 4, words).end_with(0);
    let here = machine.path().join("here");
    let logs = std::fs::read_dir(here.join("nccl")).expect("NCCL's logs");
    assert_eq!(logs.count(), 4);
    let rows = csv(&here.join("results.csv"));
    assert!(rows.iter().all(|row| !row["algo"].is_empty()), "{rows:?}");

    let ended = Job::of_all(&machine, 4, "doctor --json").end();
    for rank in &ended {
        assert_eq!(rank.code, ended[0].code, "{ended:#?}");
    }
    let report: serde_json::Value =
        serde_json::from_str(&ended[0].stdout).expect("the doctor's report");
    assert_eq!(report["ranks"], 4, "{report:#}");
    assert!(
        ended[0]
            .stdout
            .contains("the ranks meet over TCP, without MPI")
    );
    assert_eq!(ended[1].stdout, "");
}

/// The start of 256 ranks on one machine. They compute times, so that nothing but the meeting takes
/// long.
#[test]
fn two_hundred_and_fifty_six_ranks_meet() {
    let Some(machine) = Machine::without_mpi(1) else {
        return;
    };
    let ended = Job::of_all(
        &machine,
        256,
        "all_reduce -b 8 -e 8 --backend model --out here",
    )
    .end_with(0);
    assert!(ended[0].stdout.contains("Collective test concluded"));
    let run = json(&machine.path().join("here/run.json"));
    eprintln!("256 ranks started in {} s", run["startup_s"]);
}

/// Rank 0 leaves MASTER_PORT to torchrun's store, and finds one beside it, even if the next port is
/// in use.
#[test]
fn the_port_of_torchruns_store_is_left_alone() {
    let Some(machine) = Machine::without_mpi(4) else {
        return;
    };
    let mut job = Job::new(&machine, 2, "all_reduce -b 8 -e 8 --backend nccl");
    let _store = TcpListener::bind(("0.0.0.0", job.port)).expect("free");
    let _next = TcpListener::bind(("0.0.0.0", job.port + 1));
    let agent = [
        ("TORCHELASTIC_USE_AGENT_STORE", "True"),
        ("TORCHELASTIC_RUN_ID", "none"),
    ];
    for rank in [1, 0] {
        job.start(rank, &agent);
    }
    job.end_with(0);
}

#[test]
fn a_port_of_their_own_and_ipv6_work() {
    let Some(machine) = Machine::without_mpi(4) else {
        return;
    };
    if TcpListener::bind(("::1", 0)).is_err() {
        common::skip("ipv6", "this machine has no IPv6");
        return;
    }
    let mut job = Job::new(&machine, 2, "all_reduce -b 8 -e 8 --backend nccl");
    let own = free_port().to_string();
    for rank in 0..2 {
        let variables = [
            ("MASTER_ADDR", "::1"),
            ("MASTER_PORT", "1"),
            ("PXNBENCH_PORT", &own),
        ];
        job.start(rank, &variables);
    }
    job.end_with(0);
}

/// Every rank is a node of its own: the tree then has leaders only.
#[test]
fn ranks_on_several_nodes_meet() {
    let Some(machine) = Machine::without_mpi(4) else {
        return;
    };
    let mut job = Job::new(
        &machine,
        4,
        "all_reduce -b 8 -e 1K --backend nccl --out here",
    );
    for rank in 0..4 {
        let node = format!("node{}", rank / 2);
        job.start(rank, &[("NCCL_HOSTID", &node)]);
    }
    job.end_with(0);
    let run = json(&machine.path().join("here/run.json"));
    let nodes: Vec<_> = (0..4).map(|rank| &run["processes"][rank]["node"]).collect();
    assert_eq!(nodes, [0, 0, 1, 1]);
}
