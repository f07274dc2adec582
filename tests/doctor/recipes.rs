//! `pxnbench doctor --env FILE`: what a file sets, checked without running it.

use std::{fs, process::Command};

use serde_json::Value;

use crate::common::{Ended, alone, run};

/// The doctor on a file with this name and text, without a libnccl.
fn check(name: &str, text: &str, more: &[&str]) -> Ended {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join(name), text).expect("written");
    let arguments = [
        "doctor",
        "--env",
        name,
        "--nccl-lib",
        "/nowhere/libnccl.so.2",
    ];
    run(alone(folder.path()).args(arguments).args(more))
}

const SCRIPT: &str = "#!/bin/bash
#SBATCH -N 2
export NCCL_PXN_DISABLE=true
export NCCL_PNX_LEVEL=2
if [ -n \"$DEBUG\" ]; then
  export NCCL_ALGO=Rign
fi
export NCCL_IB_HCA=$HCAS
NCCL_MIN_CTAS=8 srun --export=ALL,NCCL_MAX_CTAS=4 ./train
";

#[test]
fn a_script_is_checked_with_its_lines() {
    let ended = check("job.sbatch", SCRIPT, &[]).expect_code(10);
    for words in [
        "job.sbatch: a shell script\n",
        "failure  env.failing-word       line 6: NCCL_ALGO=Rign",
        " (conditional, by line 5)\n",
        "warning  env.misread-integer    line 3: NCCL_PXN_DISABLE=true",
        "warning  env.unknown-name       line 4: NCCL_PNX_LEVEL=2 has no effect: no NCCL that is \
         known here reads this name",
        "warning  env.min-above-max      line 9: NCCL_MIN_CTAS=8 is above NCCL_MAX_CTAS=4",
        "unknown  line 8: NCCL_IB_HCA=$HCAS: its value is known only when it runs\n",
        "setting  line 6: NCCL_ALGO=Rign (conditional, by line 5)\n",
        "not ready: 1 failure, 3 warnings, 1 unknown\n",
    ] {
        assert!(ended.stdout.contains(words), "{words}: {}", ended.stdout);
    }

    let ended = check("job.sbatch", SCRIPT, &["--json"]).expect_code(10);
    let all: Value = serde_json::from_str(&ended.stdout).expect("JSON");
    assert_eq!(all["form"], "script");
    assert_eq!(all["ready"], false);
    assert_eq!((&all["failures"], &all["warnings"]), (&1.into(), &3.into()));
    let first = &all["findings"][0];
    assert_eq!(first["id"], "env.failing-word");
    assert_eq!(
        (&first["lines"][0], &first["conditions"][0]),
        (&6.into(), &5.into())
    );
    assert_eq!(all["assignments"][3]["value"], Value::Null);
}

#[test]
fn warnings_count_if_asked_and_what_cannot_be_read_is_an_error() {
    let text = "NCCL_PXN_DISABLE=true\n";
    let ended = check("recipe.env", text, &[]).expect_code(0);
    assert!(
        ended
            .stdout
            .contains("an env file, as docker --env-file reads it")
    );
    check("recipe.env", text, &["--strict"]).expect_code(10);

    let ended = check("fine.env", "NCCL_DEBUG=WARN\n", &["--strict"]).expect_code(0);
    assert!(
        ended
            .stdout
            .ends_with("fine: 0 failures, 0 warnings, 0 unknown\n")
    );
    let ended = check("empty.env", "# nothing\n", &[]).expect_code(0);
    assert!(ended.stdout.contains("no variable of NCCL was found"));

    let folder = tempfile::tempdir().expect("a folder");
    let ended = run(alone(folder.path()).args(["doctor", "--env", "none"])).expect_code(6);
    assert!(
        ended.stderr.contains("--env none cannot be read"),
        "{}",
        ended.stderr
    );

    let mut shell = Command::new("sh");
    let script = "printf 'export NCCL_PXN_DISABLE=true' | \"$0\" doctor --env -";
    shell.args(["-c", script, env!("CARGO_BIN_EXE_pxnbench")]);
    let ended = run(&mut shell).expect_code(0);
    assert!(
        ended.stdout.contains("line 1: NCCL_PXN_DISABLE=true"),
        "{}",
        ended.stdout
    );
}

/// The templates set nothing that the audit finds.
#[test]
fn our_own_templates_have_no_finding() {
    let slurm = concat!(env!("CARGO_MANIFEST_DIR"), "/slurm");
    let mut read = 0;
    for entry in fs::read_dir(slurm).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|ending| ending == "sbatch") {
            let text = fs::read_to_string(&path).expect("text");
            check("job.sbatch", &text, &["--strict"]).expect_code(0);
            read += 1;
        }
    }
    assert!(read > 3);
}

#[test]
fn a_file_that_is_not_text_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("x"), b"\x7fELF\0\0").expect("written");
    let ended = run(alone(folder.path()).args(["doctor", "--env", "x"])).expect_code(6);
    assert!(
        ended.stderr.contains("--env x is not text"),
        "{}",
        ended.stderr
    );
}
