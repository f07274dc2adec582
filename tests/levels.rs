//! `pxnbench levels`, and levels, resources and networks of a run, as users see them.

mod common;

use std::{fs, path::Path, process::Command};

use common::{alone, csv, golden, has_mpi, json, mpirun, run};

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

/// The binary where no file sets anything, in `folder`.
fn levels(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = alone(folder);
    command.env("HOME", folder).arg("levels").args(arguments);
    command
}

const MODEL: [&str; 6] = [
    "alltoall",
    "--csv",
    "x.csv",
    "--backend",
    "model",
    "--ranks=4",
];

#[test]
fn the_table() {
    let folder = folder();
    golden(
        "levels.txt",
        &run(&mut levels(folder.path(), &[])).expect_code(0).stdout,
    );
    let ended = run(&mut levels(folder.path(), &["balanced"])).expect_code(0);
    assert!(
        ended
            .stdout
            .starts_with("balanced      send/recv relays only if"),
        "{}",
        ended.stdout
    );
    assert!(!ended.stdout.contains("aggressive"));
}

#[test]
fn exports_do_in_a_shell_what_the_level_does_in_a_run() {
    let folder = folder();
    let exports = |row: &str| {
        run(&mut levels(folder.path(), &[row, "--export"]))
            .expect_code(0)
            .stdout
    };
    let after = |lines: &str, users: &str| {
        let script = format!("{users}\n{lines}\nenv | grep ^NCCL_ | sort");
        let ended = run(Command::new("bash")
            .args(["-euo", "pipefail", "-c", &script])
            .env_clear()
            .env("PATH", "/usr/bin:/bin"));
        ended.stdout.lines().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        after(&exports("aggressive"), ""),
        "NCCL_P2P_PXN_LEVEL=2 NCCL_PXN_DISABLE=0"
    );
    assert_eq!(
        after(&exports("aggressive"), "export NCCL_P2P_PXN_LEVEL=1"),
        "NCCL_P2P_PXN_LEVEL=1 NCCL_PXN_DISABLE=0"
    );
    assert_eq!(
        after(&exports("lean"), "export NCCL_MAX_CTAS="),
        "NCCL_MAX_CTAS= NCCL_MAX_P2P_NCHANNELS=8"
    );
    assert_eq!(after(&exports("ib"), ""), "NCCL_IB_DISABLE=0 NCCL_NET=IB");
    assert_eq!(after(&exports("default"), ""), "");
    assert!(
        exports("aggressive")
            .contains("export NCCL_P2P_PXN_LEVEL=\"${NCCL_P2P_PXN_LEVEL-2}\"  # send/recv always")
    );
}

#[test]
fn json_has_the_whole_table() {
    let folder = folder();
    let parse = |arguments: &[&str]| {
        let ended = run(&mut levels(folder.path(), arguments)).expect_code(0);
        serde_json::from_str::<serde_json::Value>(&ended.stdout).expect("JSON")
    };
    let all = parse(&["--json"]);
    let names = |axis: &str| {
        let rows = all[axis].as_array().expect("rows").iter();
        rows.map(|row| row["name"].as_str().expect("a name").to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        names("levels"),
        ["off", "conservative", "balanced", "aggressive", "default"]
    );
    assert_eq!(names("resources"), ["none", "lean", "standard", "large"]);
    assert_eq!(
        names("networks"),
        [
            "auto", "nvlink", "pcie", "shm", "ib", "ethernet", "socket", "pxn"
        ]
    );
    assert_eq!(
        all["networks"][1]["needs"],
        serde_json::json!(["one-node", "nvlink"])
    );
    assert!(
        all["harms"]
            .as_array()
            .expect("harms")
            .iter()
            .any(|conflict| conflict["does"] == "crashes")
    );
    assert_eq!(
        parse(&["off", "--json"])["set"][0]["name"],
        "NCCL_PXN_DISABLE"
    );
}

#[test]
fn diff_says_what_differs_and_what_does_not() {
    let folder = folder();
    let diff = |a: &str, b: &str| {
        run(&mut levels(folder.path(), &["diff", a, b]))
            .expect_code(0)
            .stdout
    };
    let text = diff("balanced", "aggressive");
    assert!(
        text.contains("NCCL_P2P_PXN_LEVEL: 1 -> 2\n")
            && text.contains("NCCL_PXN_DISABLE: 0 in both\n"),
        "{text}"
    );
    assert!(diff("off", "conservative").contains("NCCL_P2P_PXN_LEVEL: not set -> 0\n"));
    assert!(diff("none", "standard").contains("NCCL_MAX_CTAS: not set -> empty\n"));
    assert!(diff("off", "off").contains("they set the same\n"));
}

#[test]
fn what_is_wrong_with_the_command_line_is_usage() {
    let folder = folder();
    for (arguments, words) in [
        (&["extreme"] as &[&str], "Use one of off, conservative"),
        (&["diff", "off"], "<B>"),
        (&["diff", "off", "on"], "Use one of off"),
        (&["--export"], "LEVEL"),
        (&["check", "x"], "Use one of off"),
    ] {
        let ended = run(&mut levels(folder.path(), arguments)).expect_code(6);
        let sentences = ended.sentences();
        assert!(
            sentences.len() == 1 && sentences[0].contains(words),
            "{arguments:?}: {}",
            ended.stderr
        );
        assert_eq!(ended.stdout, "", "{arguments:?}");
    }
}

/// `levels check` needs the loader of libnccl.
#[cfg(feature = "nccl")]
mod check {
    use std::path::PathBuf;

    use super::*;

    /// A library that says it is NCCL of this version and knows these names, and can nothing.
    /// Rust's own linking needs the compiler too, so it is there.
    fn library(folder: &Path, version: u32, names: &[&str]) -> PathBuf {
        let (code, library) = (folder.join("nccl.c"), folder.join("libnccl.so.2"));
        let strings: String = names.iter().map(|name| format!("\"{name}\",")).collect();
        let source = format!(
            "int ncclGetVersion(int* v) {{ *v = {version}; return 0; }}\nconst char* const \
             names[] = {{ {strings} 0 }};\n"
        );
        fs::write(&code, source).expect("written");
        let built = Command::new("cc")
            .args(["-shared", "-fPIC", "-o"])
            .arg(&library)
            .arg(&code)
            .status()
            .expect("cc");
        assert!(built.success());
        library
    }

    const LEVELS: [&str; 2] = ["NCCL_PXN_DISABLE", "NCCL_P2P_PXN_LEVEL"];

    #[test]
    fn check_asks_the_library_that_would_be_loaded() {
        let folder = folder();
        let library = library(folder.path(), 22803, &LEVELS);
        let file = library.to_str().expect("a path");
        let ended = run(&mut levels(
            folder.path(),
            &["check", "balanced", "--nccl-lib", file],
        ))
        .expect_code(0);
        assert!(
            ended.stdout.starts_with("NCCL 2.28.3 (")
                && ended.stdout.contains("this NCCL knows all 2 variables"),
            "{}",
            ended.stdout
        );
        // Without a level it is asked for all, of which this one knows two.
        let ended = run(&mut levels(folder.path(), &["check", "--nccl-lib", file])).expect_code(3);
        assert!(
            ended
                .stdout
                .contains("this NCCL does not know NCCL_MAX_CTAS (set by lean, standard)"),
            "{}",
            ended.stdout
        );
        // NCCL_HOME is where a run looks too.
        fs::create_dir(folder.path().join("lib")).expect("made");
        fs::copy(&library, folder.path().join("lib/libnccl.so.2")).expect("copied");
        let home = folder.path().join("lib/libnccl.so.2");
        let ended = run(levels(folder.path(), &["check", "off"]).env("NCCL_HOME", folder.path()))
            .expect_code(0);
        let home = home.canonicalize().expect("a path");
        assert!(
            ended.stdout.contains(home.to_str().expect("a path")),
            "{}",
            ended.stdout
        );
    }

    #[test]
    fn check_warns_of_what_is_set_here_and_refuses_what_crashes() {
        let folder = folder();
        let library = library(folder.path(), 22803, &LEVELS);
        let check = |row: &str, env: &[(&str, &str)]| {
            let mut command = levels(
                folder.path(),
                &[
                    "check",
                    row,
                    "--nccl-lib",
                    library.to_str().expect("a path"),
                ],
            );
            run(command.envs(env.iter().copied()))
        };
        let ended = check(
            "aggressive",
            &[("NCCL_NET_GDR_LEVEL", "LOC"), ("NCCL_P2P_LEVEL", "nvl")],
        )
        .expect_code(0);
        assert!(
            ended
                .stdout
                .contains("warning: NCCL_NET_GDR_LEVEL=LOC keeps NCCL from using PXN"),
            "{}",
            ended.stdout
        );
        assert!(
            ended
                .stdout
                .contains("warning: NCCL ignores NCCL_P2P_LEVEL=nvl; use NVL"),
            "{}",
            ended.stdout
        );
        let conf = folder.path().join("site.conf");
        fs::write(&conf, "# as some sites have it\nNCCL_CUMEM_ENABLE=0\n").expect("written");
        let conf = [("NCCL_CONF_FILE", conf.to_str().expect("a path"))];
        let ended = check("balanced", &conf).expect_code(6);
        let words = "refused: NCCL_P2P_PXN_LEVEL=1 with NCCL_CUMEM_ENABLE=0 (in ";
        assert!(
            ended.stdout.contains(words) && ended.stdout.contains("crashes NCCL 2.28.3"),
            "{}",
            ended.stdout
        );
        assert!(
            ended.stdout.contains("level balanced, resources none"),
            "{}",
            ended.stdout
        );
        check("aggressive", &conf).expect_code(0);
        let ended = check("balanced", &[conf[0], ("NCCL_CUMEM_ENABLE", "1")]).expect_code(0);
        assert!(
            ended
                .stdout
                .contains("nothing that is set here is known to be harmful"),
            "{}",
            ended.stdout
        );
    }

    #[test]
    fn check_without_a_library_says_so_and_audits_names() {
        let folder = folder();
        let arguments = ["check", "--nccl-lib", "/nowhere/libnccl.so.2"];
        let mut command = levels(folder.path(), &arguments);
        command
            .env("NCCL_PNX_DISABLE", "1")
            .env("NCCL_ASYNC_ERROR_HANDLING", "1")
            .env("NCCL_PXN_DISABLE", "true");
        let ended = run(&mut command).expect_code(3);
        for words in [
            "no libnccl: ",
            "/nowhere/libnccl.so.2 does not exist",
            "NCCL_PNX_DISABLE=1 has no effect: no NCCL that is known here reads this name; did \
             you mean NCCL_PXN_DISABLE?",
            "TORCH_NCCL_ASYNC_ERROR_HANDLING",
            "NCCL_PXN_DISABLE=true",
        ] {
            assert!(ended.stdout.contains(words), "{words}: {}", ended.stdout);
        }
    }
}

/// Level, resources and network in the CSV, and stderr, of a run on the model.
fn recorded(folder: &Path, arguments: &[&str], env: &[(&str, &str)]) -> ([String; 3], String) {
    let mut command = alone(folder);
    command
        .env("HOME", folder)
        .envs(env.iter().copied())
        .args(MODEL)
        .args(arguments);
    let ended = run(&mut command).expect_code(0);
    let row = csv(&folder.join("x.csv")).swap_remove(0);
    (
        ["level", "resources", "network"].map(|column| row[column].clone()),
        ended.stderr,
    )
}

#[test]
fn resources_are_applied_and_the_users_own_setting_wins_aloud() {
    let folder = folder();
    let (names, _) = recorded(folder.path(), &[], &[]);
    assert_eq!(names, ["default", "none", "auto"]);
    for name in ["none", "lean", "standard", "large"] {
        let (names, stderr) =
            recorded(folder.path(), &["--resources", name, "--level", "off"], &[]);
        assert_eq!(names, ["off", name, "auto"], "{stderr}");
    }
    let (names, stderr) = recorded(
        folder.path(),
        &["--resources", "lean"],
        &[("NCCL_MAX_CTAS", "4")],
    );
    assert_eq!(names, ["default", "custom", "auto"]);
    assert!(
        stderr.contains("NCCL_MAX_CTAS=4 is set and overrides resources lean, which sets 8"),
        "{stderr}"
    );
}

#[test]
fn what_a_file_sets_is_in_force_and_recorded_with_the_file() {
    let folder = folder();
    fs::write(
        folder.path().join(".nccl.conf"),
        "NCCL_PXN_DISABLE=1\nNCCL_MAX_CTAS=4\n",
    )
    .expect("written");
    let (names, _) = recorded(folder.path(), &[], &[]);
    assert_eq!(names, ["off", "custom", "auto"]);
    // What is asked for is the environment, and that wins over files.
    let (names, stderr) = recorded(
        folder.path(),
        &["--level", "aggressive", "--resources", "standard"],
        &[],
    );
    assert_eq!(names, ["aggressive", "standard", "auto"], "{stderr}");
    let (names, stderr) = recorded(folder.path(), &["--level", "default", "--out", "o"], &[]);
    assert_eq!(names[0], "off");
    let file = folder.path().join(".nccl.conf");
    let words = format!(
        "NCCL_PXN_DISABLE=1 is set in {} and overrides level default",
        file.display()
    );
    assert!(stderr.contains(&words), "{stderr}");
    let meta = json(&folder.path().join("o/run.json"));
    assert_eq!(meta["environment"]["NCCL_MAX_CTAS"], "4");
    assert_eq!(
        meta["environment_files"]["NCCL_MAX_CTAS"],
        file.to_str().expect("a path")
    );
    assert!(
        meta["remarks"][0]
            .as_str()
            .is_some_and(|remark| remark.starts_with("NCCL_PXN_DISABLE=1 is set in"))
    );
}

#[test]
fn a_network_is_waived_where_nccl_moves_nothing() {
    let folder = folder();
    let (names, stderr) = recorded(folder.path(), &["--network", "ib"], &[]);
    assert_eq!(names[2], "auto");
    assert!(
        stderr.contains("network ib is waived: the model only computes times"),
        "{stderr}"
    );
    let mut command = alone(folder.path());
    command
        .args(MODEL)
        .args(["--network", "pxn", "--level", "off"]);
    let ended = run(&mut command).expect_code(6);
    assert!(
        ended.sentences()[0].contains("--level off forbids the relays that --network pxn asks for"),
        "{}",
        ended.stderr
    );
}

#[test]
fn ranks_that_differ_make_the_rows_custom_and_are_named() {
    if !has_mpi() {
        return;
    }
    let folder = folder();
    // A wrapper gives rank 1 another level, as a node with another environment would.
    let wrapper = folder.path().join("wrap.sh");
    let text = "#!/bin/sh\n[ \"${OMPI_COMM_WORLD_RANK:-$PMI_RANK}\" = 1 ] && export \
                NCCL_P2P_PXN_LEVEL=2\nexec \"$@\"\n";
    fs::write(&wrapper, text).expect("written");
    fs::set_permissions(
        &wrapper,
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .expect("made executable");
    let mut command = mpirun(3, folder.path());
    let arguments: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
    let (binary, launcher) = arguments.split_last().expect("the binary comes last");
    let mut wrapped = Command::new("mpirun");
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => wrapped.env(name, value),
            None => wrapped.env_remove(name),
        };
    }
    wrapped
        .current_dir(folder.path())
        .env("HOME", folder.path())
        .args(launcher)
        .arg(&wrapper)
        .arg(binary);
    wrapped.args([
        "alltoall",
        "-b",
        "8",
        "-e",
        "8",
        "-n",
        "1",
        "--level",
        "balanced",
        "--backend",
        "host",
        "--csv",
        "x.csv",
    ]);
    let ended = run(&mut wrapped).expect_code(0);
    assert!(
        csv(&folder.path().join("x.csv"))
            .iter()
            .all(|row| row["level"] == "custom"),
        "{}",
        ended.stderr
    );
    let words = "NCCL_P2P_PXN_LEVEL=2 is set on rank 1 (";
    assert!(
        ended.stderr.contains(words)
            && ended
                .stderr
                .contains("overrides level balanced, which sets 1"),
        "{}",
        ended.stderr
    );
    assert!(
        ended
            .stderr
            .contains("this run is recorded as level custom"),
        "{}",
        ended.stderr
    );
    // The launcher's own environment reaches all of them.
    command.env("HOME", folder.path()).args([
        "alltoall", "-b", "8", "-e", "8", "-n", "1", "--level", "balanced",
    ]);
    run(command.args(["--backend", "host", "--csv", "y.csv", "--network", "socket"]))
        .expect_code(0);
    let rows = csv(&folder.path().join("y.csv"));
    assert!(
        rows.iter()
            .all(|row| row["level"] == "balanced" && row["network"] == "auto")
    );
}
