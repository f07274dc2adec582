//! `pxnbench doctor` on machines made of files: a good one, and one for each way of being bad. The
//! files go through the real gatherers, the report is the binary's.

mod broken_machines;
mod changes;
#[path = "../common/mod.rs"]
mod common;
mod false_positives;
mod machine;
mod messages;
mod ranks;
mod recipes;

use std::{collections::BTreeSet, time::Duration};

use broken_machines::{BROKEN_MACHINES, BROKEN_SECOND_MACHINES, BrokenMachine};
use common::{alone, run};
use false_positives::{FALSE_POSITIVES, FalsePositive, RULES, RuleCase};
use machine::*;
use messages::*;
use pxnbench::levels::audit;

#[test]
fn a_good_machine_has_nothing_wrong() {
    let ended = examine(&good()).expect_code(0);
    assert_eq!(findings(&ended), BTreeSet::new(), "{}", ended.stdout);
    let unread = report_rows(&ended)
        .into_iter()
        .filter(|(_, rows)| rows.iter().any(|row| row.verdict == "not_applicable"));
    let unread: Vec<String> = unread
        .map(|(id, _)| id)
        .filter(|id| !id.contains("same"))
        .collect();
    // What needs several ranks, and settings that a good machine does not make.
    let expected = [
        "gpu.imex",
        "host.clock",
        "host.container",
        "host.cpus-shared",
        "lib.nccl-file",
        "lib.plugin",
        "name.file",
        "name.network",
        "name.output",
        "name.plugin",
        "net.gid",
        "net.mixed-ports",
        "start.gpu",
        "start.mpi",
    ];
    let own: Vec<&String> = unread
        .iter()
        .filter(|id| !id.starts_with("env.") && !id.starts_with("mpi."))
        .collect();
    assert_eq!(own, expected);
}

/// Returns the checks that have to find what is broken.
fn found_by(broken: &BrokenMachine) -> BTreeSet<String> {
    let checks = broken.also_found_by.iter().chain([&broken.check]);
    checks.map(|id| (*id).to_owned()).collect()
}

#[test]
fn each_check_finds_what_it_is_for_and_nothing_else_does() {
    for broken in BROKEN_MACHINES {
        let mut machine = good();
        (broken.change)(&mut machine);
        let found = findings(&examine(&machine));
        assert_eq!(found, found_by(broken), "{}", broken.check);
    }
}

#[test]
fn a_check_gives_its_verdict_and_the_reason() {
    let mut wrong = Vec::new();
    for (at, expected) in MESSAGES.iter().enumerate() {
        let mut machine = good();
        (expected.change)(&mut machine);
        let ended = examine(&machine);
        let id = expected.check;
        let rows = &report_rows(&ended)[id];
        let is_good = ["ok", "not_applicable"].contains(&expected.verdict);
        if !rows
            .iter()
            .any(|row| row.verdict == expected.verdict && row.message.contains(expected.message))
        {
            wrong.push(format!("{at}, {id}: {rows:?}"));
        } else if is_good && !findings(&ended).is_empty() {
            wrong.push(format!("{at}, {id}: {:?} found", findings(&ended)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_missing_libnccl_is_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let machine = Machine { nccl: 0, ..good() };
    let mut arguments = machine.write(folder.path());
    arguments.extend(["--nccl-lib".into(), "/nowhere/libnccl.so.2".into()]);
    let ended = run(alone(folder.path()).args(arguments).envs(&machine.env)).expect_code(10);
    assert_eq!(findings(&ended), BTreeSet::from(["lib.nccl".to_owned()]));
    let old = Machine {
        nccl: 21000,
        ..good()
    };
    assert_eq!(
        findings(&examine(&old)),
        BTreeSet::from(["lib.nccl".to_owned()]),
        "one that a run would refuse"
    );
}

#[test]
fn a_machine_that_only_looks_broken_is_no_finding() {
    let mut wrong = Vec::new();
    for FalsePositive {
        check,
        change,
        message,
    } in FALSE_POSITIVES
    {
        let mut machine = good();
        change(&mut machine);
        let ended = examine(&machine);
        let found = findings(&ended);
        let rows = report_rows(&ended).remove(*check).unwrap_or_default();
        if !found.is_empty() || !rows.iter().any(|row| row.message.contains(message)) {
            wrong.push(format!(
                "{check} should say '{message}': {rows:?}, found {found:?}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_rule_of_the_audit_finds_what_it_is_for() {
    let mut wrong = Vec::new();
    for RuleCase {
        rule,
        settings,
        change,
    } in RULES
    {
        let mut machine = good();
        settings
            .iter()
            .for_each(|(name, value)| machine.set(name, value));
        change(&mut machine);
        let all = report_rows(&examine(&machine));
        let is_told = |row: &ReportRow| row.is_finding() || row.message.starts_with("note: ");
        let found: BTreeSet<&str> = all
            .iter()
            .filter(|(_, rows)| rows.iter().any(is_told))
            .map(|(id, _)| id.as_str())
            .collect();
        if found != BTreeSet::from([*rule]) {
            wrong.push(format!("{rule}: {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let known: Vec<&str> = RULES.iter().map(|case| case.rule).collect();
    assert_eq!(
        known,
        audit::CHECKS.iter().map(|rule| rule.id).collect::<Vec<_>>(),
        "one for each rule"
    );
}

/// What is not certain is a warning, not a failure.
#[test]
fn without_the_kernels_version_nobody_knows_whether_dma_buf_serves() {
    let mut machine = good();
    machine.open_modules();
    machine.nccl = 22203;
    machine.files.remove("proc/sys/kernel/osrelease");
    let rows = report_rows(&examine(&machine))
        .remove("gdr.module-name")
        .expect("it");
    assert!(
        rows[0].verdict == "warning" && rows[0].message.contains("osrelease"),
        "{rows:?}"
    );
    // Settings and versions that rule it out.
    for change in [
        (|m| m.set("NCCL_DMABUF_ENABLE", "0")) as Change,
        |m| m.file("proc/sys/kernel/osrelease", "5.4.0\n"),
        |m| m.edit("proc/driver/nvidia/version", "570.86.15", "510.47.03"),
    ] {
        let mut machine = good();
        machine.open_modules();
        machine.nccl = 22203;
        change(&mut machine);
        assert_eq!(
            report_rows(&examine(&machine))["gdr.module-name"][0].verdict,
            "failure"
        );
    }
}

#[test]
fn a_scontrol_that_hangs_holds_nothing_up() {
    let mut machine = good();
    machine.scontrol("exec sleep 100");
    let ended = examine(&machine);
    assert!(ended.took < Duration::from_secs(30), "{:?}", ended.took);
    let rows = report_rows(&ended).remove("slurm.kill").expect("it");
    assert!(
        rows[0].verdict == "not_applicable" && rows[0].message.contains("did not answer"),
        "{rows:?}"
    );
}

#[test]
fn every_check_has_a_machine_that_is_broken_for_it() {
    let ended = examine(&good());
    let broken = BROKEN_MACHINES.iter().chain(BROKEN_SECOND_MACHINES);
    let known: BTreeSet<&str> = broken.map(|broken| broken.check).collect();
    // Tested apart, above, and in tests/standin/ready.rs.
    let apart = [
        "start.gpu",
        "start.mpi",
        "gpu.shared",
        "host.clock",
        "host.cpus-shared",
        "lib.nccl",
        "lib.nccl-file",
        "mpi.same",
    ];
    let is_rule = |id: &String| audit::CHECKS.iter().any(|rule| rule.id == id);
    let ids = report_rows(&ended).into_keys();
    let left: Vec<String> = ids
        .filter(|id| !known.contains(id.as_str()) && !apart.contains(&id.as_str()))
        .filter(|id| !is_rule(id))
        .collect();
    assert_eq!(left, [] as [&str; 0]);
    assert!(report_rows(&ended).len() >= 40);
}

#[test]
fn the_report_says_where_why_and_what_to_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut machine = good();
    machine.set("NCCL_PXN_DISABLE", "true");
    machine.edit("proc/self/mounts", "67108864k", "65536k");
    let arguments: Vec<String> = machine
        .write(folder.path())
        .into_iter()
        .filter(|word| word != "--json")
        .collect();
    let ended = run(alone(folder.path()).args(&arguments).envs(&machine.env)).expect_code(10);
    for words in [
        "FAILURE  host.shm",
        "/dev/shm holds 64",
        "--shm-size",
        "env.misread-integer",
        "setting  NCCL_PXN_DISABLE=true",
    ] {
        assert!(
            ended.stdout.contains(words),
            "{words} is missing in\n{}",
            ended.stdout
        );
    }
    assert!(
        ended
            .stdout
            .lines()
            .last()
            .expect("a line")
            .starts_with("not ready: 1 failure, 1 warning, "),
        "{}",
        ended.stdout
    );

    machine.edit("proc/self/mounts", "65536k", "67108864k");
    let arguments: Vec<String> = machine
        .write(folder.path())
        .into_iter()
        .filter(|word| word != "--json")
        .collect();
    run(alone(folder.path()).args(&arguments).envs(&machine.env)).expect_code(0);
    run(alone(folder.path())
        .args(&arguments)
        .arg("--strict")
        .envs(&machine.env))
    .expect_code(10);
}
