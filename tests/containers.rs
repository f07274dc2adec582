//! The image and `scripts/container.sh`: what is built from what, and the commands that docker and
//! podman are given.

mod common;

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use common::{Ended, clean, run};

/// Programs that stand for a container runtime and for `nvidia-smi`. A runtime prints each of its
/// arguments on a line.
struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    fn new(runtimes: &[&str], gpus: usize) -> Machine {
        let machine = Machine {
            folder: tempfile::tempdir().expect("a folder"),
        };
        fs::create_dir(machine.path("bin")).expect("a folder");
        for runtime in runtimes {
            machine.program(runtime, "echo \"${0##*/}\"; printf '%s\\n' \"$@\"");
        }
        let lines = "echo 'GPU 0: NVIDIA H100'\n".repeat(gpus);
        machine.program("nvidia-smi", &lines);
        machine
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn program(&self, name: &str, script: &str) {
        let file = self.path("bin").join(name);
        fs::write(&file, format!("#!/bin/sh\n{script}\n")).expect("written");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("executable");
    }

    /// A command with these programs in PATH, and only those of the system beside them.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        clean(&mut command);
        for name in ["CONTAINER", "CONTAINER_OPTIONS", "PXNBENCH_TOKEN"] {
            command.env_remove(name);
        }
        command.current_dir(self.folder.path());
        command.env("HOME", self.folder.path());
        command.env("SOURCE_DATE_EPOCH", "1700000000");
        let bin = self.path("bin");
        command.env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
        command
    }

    /// `scripts/container.sh` with these arguments, which are words without blanks.
    fn script(&self, arguments: &str) -> Command {
        let mut command = self.command("bash");
        command.arg(script());
        command.args(arguments.split_whitespace());
        command
    }

    /// The words that the runtime is given, joined by blanks.
    fn words(&self, arguments: &str) -> String {
        joined(&run(&mut self.script(arguments)).expect_code(0))
    }
}

fn joined(ended: &Ended) -> String {
    ended.stdout.lines().collect::<Vec<_>>().join(" ")
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn script() -> PathBuf {
    root().join("scripts/container.sh")
}

fn text(name: &str) -> String {
    fs::read_to_string(root().join(name)).expect(name)
}

#[test]
fn run_starts_a_rank_per_gpu_with_what_nccl_needs() {
    let machine = Machine::new(&["docker"], 4);
    let words = machine.words("run --size 1M:1G:4 --level off --time 60s -- alltoall -n 50");
    assert!(words.starts_with("docker run --rm --init "), "{words}");
    for option in [
        " --ipc=host ",
        " --ulimit memlock=-1 ",
        " --ulimit stack=67108864 ",
        " --gpus all ",
        "/results:/work/results ",
    ] {
        assert!(words.contains(option), "{option} is missing in {words}");
    }
    let job = "-np 4 pxnbench alltoall -n 50 -b 1M -e 1G -f 4 --time 60s --level off";
    assert!(words.ends_with(job), "{words}");
    assert!(machine.path("results").is_dir());
}

#[test]
fn gpus_are_all_a_number_or_a_list() {
    let machine = Machine::new(&["docker", "podman"], 8);
    for (gpus, ranks, docker, podman) in [
        ("all", 8, "--gpus all", "--device nvidia.com/gpu=all"),
        (
            "2",
            2,
            "--gpus 2",
            "--device nvidia.com/gpu=0 --device nvidia.com/gpu=1",
        ),
        (
            "1,3,5",
            3,
            "--gpus \"device=1,3,5\"",
            "--device nvidia.com/gpu=1 --device nvidia.com/gpu=3 --device nvidia.com/gpu=5",
        ),
        (
            "device=3",
            1,
            "--gpus \"device=3\"",
            "--device nvidia.com/gpu=3",
        ),
    ] {
        for (runtime, options) in [("docker", docker), ("podman", podman)] {
            let mut command = machine.script(&format!("run --gpus {gpus}"));
            let words = joined(&run(command.env("CONTAINER", runtime)).expect_code(0));
            assert!(words.starts_with(runtime), "{words}");
            assert!(words.contains(&format!(" {options} ")), "{words}");
            let job = format!("-np {ranks} pxnbench all_reduce -b 8 -e 1G -f 2");
            assert!(words.ends_with(&job), "{words}");
        }
    }
}

#[test]
fn without_gpus_two_ranks_run_on_host_memory() {
    let machine = Machine::new(&["podman"], 0);
    let words = machine.words("run");
    assert!(words.starts_with("podman run "), "{words}");
    assert!(!words.contains("nvidia"), "{words}");
    let job = "-np 2 pxnbench all_reduce -b 8 -e 64M -f 2 --backend host";
    assert!(words.ends_with(job), "{words}");
    let words = machine.words("run --ranks 3 --shm 8g -- -n 5");
    assert!(words.contains(" --shm-size 8g "), "{words}");
    assert!(!words.contains("--ipc"), "{words}");
    let job = "-np 3 pxnbench all_reduce -n 5 --backend host";
    assert!(words.ends_with(job), "{words}");
}

#[test]
fn join_starts_the_ranks_of_a_node_on_its_own_network() {
    let machine = Machine::new(&["docker"], 8);
    let words = machine
        .words("join 1 --master node1:29400 --nodes 2 --network ib --gpus 0,1 -- all_gather -c 1");
    assert!(words.contains(" --network host "), "{words}");
    let job =
        "pxnbench join 1 node1:29400 --nodes 2 --ranks-per-node 2 --network ib -- all_gather -c 1";
    assert!(words.ends_with(job), "{words}");
}

#[test]
fn shell_runs_what_follows() {
    let machine = Machine::new(&["docker"], 1);
    let words = machine.words("shell -- pxnbench doctor");
    // There is no terminal on its standard input.
    assert!(
        words.contains(" --init --interactive --ipc=host "),
        "{words}"
    );
    assert!(words.ends_with(" pxnbench doctor"), "{words}");
    assert!(machine.words("shell").ends_with(" bash"));
}

/// The words after `container.sh`, odd ones among them, of commands that print what they run.
const PRINTED: [&[&str]; 3] = [
    &[
        "run",
        "--gpus",
        "0,1",
        "--out",
        "my results",
        "--",
        "all_reduce",
        "-d",
        "it's",
    ],
    &["join", "0", "--master", "node1", "--nodes", "1"],
    &["build", "--base", "x@sha256:0"],
];

#[test]
fn the_printed_command_is_the_one_that_runs() {
    let machine = Machine::new(&["docker"], 2);
    for arguments in PRINTED {
        let mut command = machine.script("");
        command.args(arguments).env("NCCL_DEBUG", "INFO");
        command.env("CONTAINER_OPTIONS", "--label a=$b;c*");
        let really = run(&mut command).expect_code(0);
        let copied = run(machine.command("bash").args(["-c", &really.stderr])).expect_code(0);
        assert_eq!(copied.stdout, really.stdout, "{}", really.stderr);
    }
}

#[test]
fn a_dry_run_prints_the_command_and_why_each_option_is_there() {
    let machine = Machine::new(&["docker"], 2);
    for arguments in PRINTED {
        let really = run(machine.script("").args(arguments)).expect_code(0);
        let (action, rest) = if arguments[0] == "join" {
            arguments.split_at(2)
        } else {
            arguments.split_at(1)
        };
        let mut command = machine.script("");
        command.args(action).arg("--dry-run").args(rest);
        let dry = run(&mut command).expect_code(0);
        assert_eq!(dry.stdout, really.stderr);
        assert!(
            dry.stderr.lines().all(|line| line.starts_with("# ")),
            "{}",
            dry.stderr
        );
        assert!(dry.stderr.lines().count() > 1, "{}", dry.stderr);
    }
    let dry = run(&mut machine.script("run --dry-run")).expect_code(0);
    for line in dry.stdout.lines().filter(|line| line.contains("--ulimit")) {
        let option = line.trim().trim_end_matches(" \\");
        assert!(
            dry.stderr.contains(&format!("# {option}  ")),
            "{option}: {}",
            dry.stderr
        );
    }
}

/// docs/CONTAINERS.md explains the options that the script gives.
#[test]
fn the_document_has_the_options_of_the_script() {
    let machine = Machine::new(&["docker"], 2);
    let words = machine.words("join 0 --master node1 --nodes 1");
    let document = text("docs/CONTAINERS.md");
    for option in [
        "--gpus all",
        "--ipc=host",
        "--ulimit memlock=-1",
        "--ulimit stack=67108864",
        "--init",
        "--network host",
    ] {
        assert!(words.contains(option), "{words}");
        assert!(document.contains(&format!("\n| `{option}`")), "{option}");
    }
    assert!(text("scripts/container.sh").contains("--device /dev/infiniband"));
    assert!(document.contains("\n| `--device /dev/infiniband`"));
}

#[test]
fn settings_and_the_token_are_passed_by_name_only() {
    let machine = Machine::new(&["docker"], 1);
    let mut command = machine.script("join 0 --master node1 --nodes 2");
    command
        .env("NCCL_IB_HCA", "=mlx5_0")
        .env("PXNBENCH_TOKEN", "s3cret");
    let ended = run(&mut command).expect_code(0);
    let words = joined(&ended);
    assert!(
        words.contains(" --env NCCL_IB_HCA --env PXNBENCH_TOKEN "),
        "{words}"
    );
    assert!(!format!("{ended:?}").contains("s3cret"), "{ended:?}");
}

/// podman ends with `setrlimit: Operation not permitted` if it is asked for more than it may set.
#[test]
fn podman_is_asked_for_no_limit_that_it_may_not_set() {
    let machine = Machine::new(&["podman", "docker"], 0);
    let limited = |runtime: &str| {
        let mut command = machine.command("bash");
        // Root without the capability to raise limits is like anybody else.
        let line = "ulimit -l 64 && ulimit -s 16384 && if [ $EUID = 0 ]; then set -- setpriv \
                    --bounding-set -sys_resource \"$@\"; fi && exec \"$@\"";
        command
            .args(["-c", line, "limited", "bash"])
            .arg(script())
            .arg("run");
        run(command.env("CONTAINER", runtime)).expect_code(0)
    };
    let podman = limited("podman");
    let words = joined(&podman);
    assert!(words.contains(" --ulimit memlock=65536 "), "{words}");
    assert!(words.contains(" --ulimit stack=16777216 "), "{words}");
    assert!(
        podman
            .stderr
            .contains("ulimit -H -l is 64 KiB, and podman may not set more"),
        "{podman:?}"
    );
    // Docker's daemon may.
    let words = joined(&limited("docker"));
    assert!(
        words.contains(" --ulimit memlock=-1 --ulimit stack=67108864 "),
        "{words}"
    );
}

#[test]
fn build_names_its_inputs_and_its_time() {
    let machine = Machine::new(&["docker", "buildah"], 0);
    let words = machine.words("build --base b@sha256:0 --rust r@sha256:1 --image mine:2");
    let top = root().display();
    assert!(
        words.starts_with(&format!("docker build --file {top}/containers/Dockerfile ")),
        "{words}"
    );
    for option in [
        "BASE=b@sha256:0",
        "RUST=r@sha256:1",
        "SOURCE_DATE_EPOCH=1700000000",
    ] {
        assert!(
            words.contains(&format!(" --build-arg {option} ")),
            "{option}: {words}"
        );
    }
    assert!(words.ends_with(&format!(" --tag mine:2 {top}")), "{words}");
    let mut buildah = machine.script("build");
    let words = joined(&run(buildah.env("CONTAINER", "buildah")).expect_code(0));
    assert!(words.starts_with("buildah bud "), "{words}");
    assert!(words.contains(" --timestamp 1700000000 "), "{words}");
    assert!(
        words.contains(concat!(" --tag pxnbench:", env!("CARGO_PKG_VERSION"), " ")),
        "{words}"
    );
}

#[test]
fn bad_input_gets_one_sentence() {
    let machine = Machine::new(&["docker", "buildah"], 0);
    for (arguments, code, sentence) in [
        ("", 6, "say what to do: build, run, shell or join"),
        ("start", 6, "say what to do"),
        ("run --gpu 2", 6, "unknown option '--gpu'"),
        ("run --gpus", 6, "--gpus needs a value"),
        ("run --gpus some", 6, "--gpus some: all, a number, a list"),
        ("run --gpus all", 6, "nvidia-smi shows no GPU here"),
        ("run --ranks 0", 6, "--ranks 0: a number from 1"),
        (
            "join --master node1 --nodes 2",
            6,
            "join needs the number of this node",
        ),
        ("join 0 --nodes 2", 6, "join needs --master"),
        ("join 0 --master node1", 6, "join needs --nodes N"),
        (
            "join 2 --master node1 --nodes 2",
            6,
            "there is no node 2 of 2",
        ),
        (
            "join 0 --master node1 --nodes 2",
            6,
            "join measures GPUs, and there is none here",
        ),
    ] {
        let ended = run(&mut machine.script(arguments)).expect_code(code);
        assert_eq!(ended.stdout, "", "{arguments}");
        let lines: Vec<&str> = ended.stderr.lines().collect();
        assert!(
            lines.len() == 1 && lines[0].contains(sentence),
            "{arguments}: {lines:?}"
        );
    }
    let mut buildah = machine.script("run");
    let ended = run(buildah.env("CONTAINER", "buildah")).expect_code(6);
    assert!(ended.stderr.contains("docs/CONTAINERS.md"), "{ended:?}");
    let mut missing = machine.script("run");
    run(missing.env("CONTAINER", "nerdctl")).expect_code(8);
}

// --- the
// image -------------------------------------------------------------------------------------------

/// What is below a heading of the definition, up to the next one, in each of its stages.
fn sections(definition: &str, heading: &str) -> Vec<String> {
    let mut found = Vec::new();
    for part in definition.split(&format!("\n{heading}\n")).skip(1) {
        let lines = part
            .lines()
            .take_while(|line| line.is_empty() || line.starts_with(' '));
        found.push(lines.collect::<Vec<_>>().join("\n"));
    }
    found
}

/// The packages after each `apt-get install`, in order.
fn packages(recipe: &str) -> Vec<BTreeSet<String>> {
    let mut all = Vec::new();
    for part in recipe.split("--no-install-recommends").skip(1) {
        let part = part.replace("\\\n", " ");
        let command = part.lines().next().expect("a line");
        let words = command
            .split("&&")
            .next()
            .expect("packages")
            .split_whitespace();
        all.push(words.map(str::to_owned).collect());
    }
    all
}

/// What the ignore file lets into an image.
fn sources() -> BTreeSet<String> {
    let ignored = text(".dockerignore");
    let kept = ignored.lines().filter_map(|line| line.strip_prefix('!'));
    kept.map(str::to_owned).collect()
}

#[test]
fn an_image_is_built_from_files_that_are_there() {
    let sources = sources();
    for name in &sources {
        assert!(root().join(name).exists(), "{name} of .dockerignore");
    }
    let definition = text("containers/pxnbench.def");
    let files = sections(&definition, "%files").join("\n");
    let mut copied = BTreeSet::new();
    for line in files.lines().filter(|line| !line.is_empty()) {
        let (from, to) = line.trim().split_once(' ').expect("two names");
        assert_eq!(to, format!("/src/{from}"));
        copied.insert(from.to_owned());
    }
    assert_eq!(copied, sources, "containers/pxnbench.def and .dockerignore");
}

/// Whatever the build or the installation reads is let in.
#[test]
fn an_image_has_what_the_installation_reads() {
    let sources = sources();
    let installation = text("scripts/install.sh");
    let mut checked = 0;
    for line in installation
        .lines()
        .filter(|line| line.trim().starts_with("put 644 "))
    {
        for name in line
            .split_whitespace()
            .skip(3)
            .filter(|name| !name.starts_with('"'))
        {
            let top = name.split('/').next().expect("a name");
            assert!(sources.contains(top), "{name} is not in .dockerignore");
            checked += 1;
        }
    }
    assert!(checked > 10, "{checked} files");
}

#[test]
fn both_recipes_make_the_same_image() {
    let (dockerfile, definition) = (
        text("containers/Dockerfile"),
        text("containers/pxnbench.def"),
    );
    let found = packages(&dockerfile);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[1].contains("ibverbs-providers"), "{found:?}");
    assert_eq!(found, packages(&definition));
    for argument in ["BASE", "RUST"] {
        let lines = dockerfile
            .lines()
            .find_map(|line| line.strip_prefix(&format!("ARG {argument}=")));
        let default = lines.expect("a default");
        let line = format!("    {argument}={default}\n");
        let stages = definition
            .matches(&format!("From: {{{{ {argument} }}}}"))
            .count();
        assert_eq!(definition.matches(&line).count(), stages, "{argument}");
    }
    for line in sections(&definition, "%environment")[0]
        .lines()
        .filter(|line| !line.is_empty())
    {
        let assignment = line.trim().strip_prefix("export ").expect("a variable");
        assert!(dockerfile.contains(assignment), "{assignment}");
    }
}

#[test]
fn the_image_does_not_run_as_root() {
    let dockerfile = text("containers/Dockerfile");
    let mut users = dockerfile
        .lines()
        .filter_map(|line| line.strip_prefix("USER "));
    let user = users.next_back().expect("a user");
    let (id, group) = user.split_once(':').expect("two numbers");
    assert!(id.parse::<u32>().expect("a number") >= 1000, "{user}");
    // The script gives the folder of the results to this user.
    assert!(text("scripts/container.sh").contains(&format!("-o {id} -g {group}")));
}
