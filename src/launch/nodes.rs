//! Whether every node is ready: one task on each says what it runs on, before ranks are started
//! whose failure would tell less.

use std::{ffi::OsString, time::Duration};

use super::{
    context::Launch,
    probe::{self, Report},
    process::{self, Trial},
    site,
};
use crate::{
    exit::{Code, Failure},
    run::backend::BackendChoice,
    slurm::{
        hosts,
        step::{Launcher, StepShape},
    },
};

/// A node that has not reported by then is not ready.
const LIMIT: Duration = Duration::from_secs(120);

/// What the nodes have in common.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Nodes {
    /// GPUs of the node that has the fewest.
    pub(super) gpus: u32,
    /// What is unusual, but no error.
    pub(super) remarks: Vec<String>,
}

/// Examines every node.
///
/// # Errors
/// Returns an error that says which node is not ready, why, and what to edit.
pub(super) fn check(launch: &Launch) -> anyhow::Result<Nodes> {
    let mut arguments: Vec<OsString> = vec!["probe".into(), "--alone".into()];
    if let Some(file) = launch.request.target.nccl_lib() {
        arguments.extend(["--nccl-lib".into(), file.into()]);
    }
    let program = launch.program(&arguments)?;
    let step = launch.step(StepShape::one_per_node(launch.job), &program);
    let tried = process::try_out(
        &step.command(&Launcher::Srun { mpi: "none".into() }, &[]),
        step.inside_step,
        LIMIT,
    )?;
    let needs_nccl = matches!(
        launch.request.target.backend(),
        Some(BackendChoice::Auto | BackendChoice::Nccl)
    );
    let nodes = evaluate(&tried, &launch.job.nodes, needs_nccl)?;
    nodes
        .remarks
        .iter()
        .for_each(|remark| say!("pxnbench: {remark}"));
    Ok(nodes)
}

fn evaluate(tried: &Trial, expected: &[String], needs_nccl: bool) -> anyhow::Result<Nodes> {
    let reports = probe::reports(&tried.stdout);
    let silent: Vec<&String> = expected
        .iter()
        .filter(|node| !reports.iter().any(|r| r.node == **node))
        .collect();
    if !tried.ok && !silent.is_empty() || reports.is_empty() {
        return Err(silence(tried, &silent));
    }
    let mut remarks = mpi(&reports)?;
    if needs_nccl {
        nccl(&reports)?;
    }
    let nodes = reports.iter().map(|report| (&*report.node, report.gpus));
    let fewest = probe::fewest_gpus(nodes);
    let gpus = fewest.as_ref().map_or(0, |fewest| fewest.gpus);
    remarks.extend(fewest.and_then(|fewest| fewest.remark));
    Ok(Nodes { gpus, remarks })
}

/// Returns the error for nodes on which the program does not start.
fn silence(tried: &Trial, silent: &[&String]) -> anyhow::Error {
    let on = hosts::compress(silent);
    let why = tried.why("it did not answer");
    if why.contains("--container-image") {
        let what = format!(
            "Slurm lacks pyxis here, which is needed to run containers: {why}. Use a template \
             without a container"
        );
        return Failure::on_all_ranks(Code::Launch, what);
    }
    let lacks_library =
        why.contains("error while loading shared libraries") || why.contains("GLIBC");
    let edit = site::line(if lacks_library {
        site::MPI
    } else {
        site::PROGRAM
    });
    Failure::on_all_ranks(
        Code::Launch,
        format!("pxnbench does not start on {on}: {why}. Edit {edit}"),
    )
}

/// Checks that all nodes load the same MPI. If it is not the one of the build, a remark says so: it
/// may still fit.
fn mpi(reports: &[Report]) -> anyhow::Result<Vec<String>> {
    let first = &reports[0];
    if let Some(other) = reports.iter().find(|report| report.loaded != first.loaded) {
        let what = format!(
            "{} loads {} but {} loads {}, and all nodes need the same MPI. Edit {}",
            first.node,
            first.loaded,
            other.node,
            other.loaded,
            site::line(site::MPI)
        );
        return Err(Failure::on_all_ranks(Code::Launch, what));
    }
    let differs =
        !first.built_with.is_empty() && version(&first.built_with) != version(&first.loaded);
    let remark = format!(
        "this binary was built with {} but the nodes load {}. If ranks fail to start, edit {}",
        first.built_with,
        first.loaded,
        site::line(site::MPI)
    );
    Ok(if differs { vec![remark] } else { Vec::new() })
}

/// Returns the first word of `name` that looks like a version, to its second number:
/// `Open MPI v4.1.4` is 4.1.
fn version(name: &str) -> Option<String> {
    let numbers = name
        .split(|c: char| !c.is_ascii_digit() && c != '.')
        .find(|part| part.contains('.'))?;
    Some(numbers.split('.').take(2).collect::<Vec<_>>().join("."))
}

/// Checks that every node with a GPU has a libnccl, of the same version.
fn nccl(reports: &[Report]) -> anyhow::Result<()> {
    let with_gpus: Vec<&Report> = reports
        .iter()
        .filter(|report| report.hardware.is_some())
        .collect();
    let fail = |what: String| {
        Err(Failure::on_all_ranks(
            Code::Nccl,
            format!("{what}. Edit {}", site::line(site::NCCL)),
        ))
    };
    if let Some((report, why)) = with_gpus
        .iter()
        .find_map(|report| Some((report, report.nccl.as_ref().err()?)))
    {
        return fail(format!("{} has GPUs but no libnccl: {why}", report.node));
    }
    let found: Vec<(&str, &(String, String))> = with_gpus
        .iter()
        .filter_map(|report| Some((report.node.as_str(), report.nccl.as_ref().ok()?)))
        .collect();
    let Some((node, first)) = found.first() else {
        return Ok(());
    };
    match found.iter().find(|(_, other)| other.0 != first.0) {
        Some((other_node, other)) => fail(format!(
            "{node} has NCCL {} ({}) but {other_node} has NCCL {} ({}): all nodes need the same \
             NCCL",
            first.0, first.1, other.0, other.1
        )),
        None => {
            say!("pxnbench: NCCL {} from {} on all nodes", first.0, first.1);
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(node: &str) -> Report {
        Report {
            rank: 0,
            size: 1,
            node: node.into(),
            built_with: "Open MPI 4.1.4".into(),
            loaded: "Open MPI v4.1.4".into(),
            nccl: Ok(("2.28.3".into(), "/usr/lib/libnccl.so.2".into())),
            hardware: Some("/dev/nvidia0 exists".into()),
            gpus: 8,
            version: String::new(),
            meeting: None,
        }
    }

    fn judged(reports: &[Report], stderr: &str) -> Result<Nodes, String> {
        let line = |report: &Report| {
            format!(
                "pxnbench-probe: {}\n",
                serde_json::to_string(report).expect("JSON")
            )
        };
        let tried = Trial {
            ok: stderr.is_empty(),
            stdout: reports.iter().map(line).collect(),
            stderr: stderr.into(),
            late: None,
        };
        evaluate(&tried, &["n1".into(), "n2".into()], true).map_err(|error| error.to_string())
    }

    #[test]
    fn nodes_that_agree_are_ready() {
        assert_eq!(
            judged(&[report("n1"), report("n2")], ""),
            Ok(Nodes {
                gpus: 8,
                remarks: Vec::new()
            })
        );
        let few = judged(
            &[
                report("n1"),
                Report {
                    gpus: 4,
                    ..report("n2")
                },
            ],
            "",
        )
        .expect("ready");
        assert_eq!(few.gpus, 4);
        assert!(
            few.remarks[0].contains("n1 has 8 GPUs but n2 has only 4. Using 4 per node"),
            "{:?}",
            few.remarks
        );
    }

    #[test]
    fn a_node_on_which_it_does_not_start_is_named_with_the_loaders_line() {
        let stderr = "/x/pxnbench: error while loading shared libraries: libmpi.so.40: cannot open shared object file\n\
                      srun: error: n2: task 1: Exited with exit code 127\n";
        let error = judged(&[report("n1")], stderr).expect_err("n2 is silent");
        assert!(
            error.contains("does not start on n2") && error.contains("libmpi.so.40"),
            "{error}"
        );
        assert!(error.contains("module load"), "{error}");
        let error = judged(
            &[],
            "slurmstepd-n1: error: execve(): /x/pxnbench: No such file or directory",
        )
        .expect_err("none");
        assert!(
            error.contains("does not start on n[1-2]") && error.contains("PXNBENCH="),
            "{error}"
        );
    }

    #[test]
    fn another_mpi_or_nccl_on_one_node_is_refused() {
        let other = Report {
            loaded: "Open MPI v5.0.3".into(),
            ..report("n2")
        };
        let error = judged(&[report("n1"), other], "").expect_err("two MPIs");
        assert!(
            error.contains("n1 loads Open MPI v4.1.4 but n2 loads Open MPI v5.0.3"),
            "{error}"
        );
        let other = Report {
            nccl: Ok(("2.19.3".into(), "/opt/libnccl.so.2".into())),
            ..report("n2")
        };
        assert!(
            judged(&[report("n1"), other], "")
                .expect_err("two NCCLs")
                .contains("but n2 has NCCL 2.19.3")
        );
        let none = Report {
            nccl: Err("no libnccl.so.2".into()),
            ..report("n2")
        };
        let error = judged(&[report("n1"), none.clone()], "").expect_err("no NCCL");
        assert!(
            error.contains("n2 has GPUs but no libnccl") && error.contains("NCCL_HOME"),
            "{error}"
        );
        let without = |report| Report {
            hardware: None,
            ..report
        };
        assert!(
            judged(&[without(report("n1")), without(none)], "").is_ok(),
            "without GPUs NCCL is not needed"
        );
    }

    #[test]
    fn another_mpi_than_at_build_time_is_said() {
        let newer = |node| Report {
            loaded: "Open MPI v5.0.3".into(),
            ..report(node)
        };
        let nodes = judged(&[newer("n1"), newer("n2")], "").expect("ready");
        assert!(
            nodes.remarks[0]
                .contains("built with Open MPI 4.1.4 but the nodes load Open MPI v5.0.3")
        );
    }
}
