//! The shared object as NCCL uses it: two processes load it, make all calls of its interfaces, and
//! check every byte that arrives and every byte that is counted. GPU memory is that of the stand-in
//! for libcuda.

mod gpu;
mod job;
mod plugin;
mod scenarios;
#[path = "../../../tests/common/skipping.rs"]
mod skipping;
mod worker;

use std::{path::Path, process::Command};

use job::Job;
use serde_json::{Value, json};

/// What the counters have for one kind of message.
fn counted(file: &Value, direction: &str, wanted: Value) -> (u64, u64) {
    let entries = file[direction].as_array().expect("a list");
    let wanted = wanted.as_object().expect("keys");
    let is_wanted = |entry: &&Value| wanted.iter().all(|(key, value)| entry[key] == *value);
    let number = |entry: &Value, key: &str| entry[key].as_u64().expect("a number");
    let found = entries.iter().filter(is_wanted);
    found.fold((0, 0), |(messages, bytes), entry| {
        (
            messages + number(entry, "messages"),
            bytes + number(entry, "bytes"),
        )
    })
}

fn job_of_all_calls(version: u32) -> Option<Job> {
    let job = Job::new("all_calls").version(version).with_gpu()?;
    let job = job.set("PXNBENCH_RAILS", "3");
    Some(job.set("PXNBENCH_RAIL_SPEED", "100000"))
}

/// Runs all calls with one version of the interface, and returns both files of counters.
fn all_calls(version: u32) -> Option<[Value; 2]> {
    Some(job_of_all_calls(version)?.run().expect_success().counters())
}

const SIZES: [u64; 6] = scenarios::SIZES;

#[test]
fn all_calls_of_the_newer_interface_carry_every_byte_and_tell_relayed_ones() {
    let Some([first, second]) = all_calls(11) else {
        return;
    };
    let communicator = format!("{:x}", scenarios::COMMUNICATOR);
    for (own, other, from) in [(&first, &second, 0), (&second, &first, 1)] {
        assert_eq!(own["format"], 1);
        assert_eq!(own["rank"], from);
        assert_eq!(own["node"], format!("node{from}"));
        assert_eq!(own["rails"], 3);
        // Its rank in the communicator is 4 or 5. What has that tag is its own, what has another is
        // relayed.
        for (origin, relayed) in [(4 + from, false), (6 + from, true)] {
            for rail in [0, 2] {
                let flow = json!({"rail": rail, "peer_rail": rail, "peer": 1 - from, "communicator": communicator,
                    "origin": origin, "relayed": relayed});
                let expected = (SIZES.len() as u64, SIZES.iter().sum());
                assert_eq!(counted(own, "sent", flow), expected, "{rail} {origin}");
                let flow = json!({"rail": rail, "peer_rail": rail, "peer": from, "communicator": communicator,
                    "origin": origin, "relayed": relayed});
                assert_eq!(counted(other, "received", flow), expected);
            }
        }
        let everything = counted(own, "sent", json!({}));
        let grouped = scenarios::grouped_sizes().iter().sum::<u64>();
        assert_eq!(everything.0, 4 * SIZES.len() as u64 + 8);
        assert_eq!(everything.1, 4 * SIZES.iter().sum::<u64>() + grouped);
        assert_eq!(counted(other, "received", json!({})), everything);
    }
}

#[test]
fn all_calls_of_the_older_interface_carry_every_byte() {
    let Some([first, second]) = all_calls(6) else {
        return;
    };
    let everything = counted(&first, "sent", json!({}));
    assert_eq!(everything.0, 4 * SIZES.len() as u64 + 8);
    assert_eq!(counted(&second, "received", json!({})), everything);
    // It tells no communicator, and so not which rank of it this process is.
    let unknown = json!({"communicator": null, "relayed": null});
    assert_eq!(counted(&first, "sent", unknown), everything);
}

#[test]
fn the_older_interface_tells_relayed_messages_if_the_job_has_one_communicator() {
    let job = Job::new("world").version(6).set("PXNBENCH_RAIL_WORLD", "1");
    let [first, second] = job.run().expect_success().counters();
    let own = json!({"communicator": null, "origin": 0, "relayed": false});
    let relayed = json!({"communicator": null, "origin": 1, "relayed": true});
    for (file, direction) in [(&first, "sent"), (&second, "received")] {
        assert_eq!(counted(file, direction, own.clone()), (1, 100));
        assert_eq!(counted(file, direction, relayed.clone()), (1, 28));
    }
}

#[test]
fn many_connections_work_at_once() {
    let files = Job::new("many").run().expect_success().counters();
    let expected = (64, 64 * scenarios::MANY_BYTES);
    assert_eq!(counted(&files[0], "sent", json!({"rail": 0})), expected);
    assert_eq!(counted(&files[1], "received", json!({})), expected);
}

#[test]
fn a_process_that_ends_without_closing_has_written_its_counters() {
    let files = Job::new("not_closed").run().expect_success().counters();
    assert_eq!(counted(&files[0], "sent", json!({})), (1, 1000));
    assert_eq!(counted(&files[1], "received", json!({})), (1, 1000));
}

#[test]
fn a_peer_that_dies_is_named() {
    let ended = Job::new("dies").run();
    assert!(ended.failed(0), "it was killed");
    assert!(!ended.failed(1), "{}", ended.output(1));
}

#[test]
fn a_rail_that_stalls_says_so_and_its_counters_are_on_disk() {
    Job::new("stalls")
        .set("PXNBENCH_RAIL_FAULT", "1=stall:2@0")
        .run()
        .expect_success();
}

#[test]
fn a_rail_that_fails_gives_an_error_to_nccl() {
    Job::new("fails")
        .set("PXNBENCH_RAIL_FAULT", "0=error:3@0")
        .run()
        .expect_success();
}

#[test]
fn a_rail_with_less_bandwidth_takes_longer_and_carries_the_same() {
    let job = Job::new("slow").set("PXNBENCH_RAIL_BANDWIDTH", "1=0.02");
    let [first, second] = job.run().expect_success().counters();
    for rail in [0, 1] {
        let flow = json!({"rail": rail});
        let expected = (1, scenarios::SLOW_BYTES);
        assert_eq!(counted(&first, "sent", flow.clone()), expected);
        assert_eq!(counted(&second, "received", flow), expected);
    }
    let played = &first["played"][0];
    assert_eq!(played["rail"], 1);
    assert_eq!(played["bytes_per_second"], 20e6);
    assert!(played["waited_us"].as_u64().expect("a number") > 0);
}

#[test]
fn settings_that_mean_nothing_are_refused_when_nccl_sets_up() {
    Job::new("refused")
        .set("PXNBENCH_RAILS", "many")
        .run()
        .expect_success();
}

/// Runs the program, which comes with a compiler.
fn readelf(options: &str) -> String {
    let ended = Command::new("readelf")
        .args(["--wide", options])
        .arg(plugin::path())
        .output()
        .expect("readelf");
    String::from_utf8(ended.stdout).expect("text")
}

#[test]
fn the_shared_object_needs_neither_mpi_nor_cuda_and_stays_loaded() {
    let dynamic = readelf("--dynamic");
    let needed = dynamic.lines().filter(|line| line.contains("(NEEDED)"));
    let allowed = ["libc.so", "libgcc_s.so", "ld-linux", "libm.so"];
    for line in needed {
        let is_allowed = allowed.iter().any(|name| line.contains(name));
        assert!(is_allowed, "{line}");
    }
    assert!(dynamic.contains("NODELETE"), "{dynamic}");
    let symbols = readelf("--dyn-syms");
    let own: Vec<&str> = symbols
        .lines()
        .filter(|line| line.contains(" GLOBAL ") && !line.contains(" UND "))
        .filter_map(|line| line.split_whitespace().last())
        .collect();
    let mut names = own.clone();
    names.sort_unstable();
    assert_eq!(
        names,
        ["ncclNetPlugin_v11", "ncclNetPlugin_v6", "ncclProfiler_v5"]
    );
}

/// The scenarios under valgrind, which finds memory that is used after it was freed, or was never
/// written.
#[test]
fn all_calls_use_memory_as_they_may() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        skipping::skip("valgrind", "valgrind does not run");
        return;
    }
    if let Some(job) = job_of_all_calls(11) {
        job.under_valgrind().run().expect_success();
    }
}

/// What a process of a [`Job`] does; not a test of its own.
#[test]
#[ignore = "a process of the other tests"]
fn process() {
    worker::run(Path::new(&std::env::var_os(job::FOLDER).expect("a folder")));
}
