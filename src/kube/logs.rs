//! The log of a pod, without the lines that stand for results.

use super::{
    deployment::{DeployedPod, Deployment},
    kubectl::{Kubectl, LogExtent},
    names::DeploymentName,
    results_archive,
};
use crate::{
    exit::{Code, Failure},
    output::stdout,
    visible::visible,
};

/// What is wanted of a log.
#[derive(Debug)]
pub struct LogRequest {
    /// The node whose pod is meant; `None` for the output of the run.
    pub node: Option<u32>,
    /// Whether to go on until the pod ends.
    pub follow: bool,
}

/// Prints a log.
///
/// # Errors
///
/// Returns an error if there is no such pod, or if kubectl refuses.
pub(super) fn print(
    kubectl: &Kubectl,
    name: &DeploymentName,
    request: &LogRequest,
) -> anyhow::Result<Code> {
    let deployment = Deployment::find(kubectl, name)?;
    let pod = find_pod(name, &deployment, request.node)?;
    let extent = if request.follow {
        LogExtent::Followed
    } else {
        LogExtent::SoFar
    };
    let mut has_results = false;
    kubectl.log(&pod.name, extent, &mut |line| {
        if results_archive::is_line(line) {
            has_results = true;
            return Ok(true);
        }
        stdout::write_to_reader(&visible(line)).map_err(|error| stdout::failure(&error))
    })?;
    if has_results {
        let option = kubectl.namespace_option();
        note!("pxnbench: `pxnbench kube results {name}{option}` copies the files of this run");
    }
    Ok(Code::Fine)
}

fn find_pod<'a>(
    name: &DeploymentName,
    deployment: &'a Deployment,
    node: Option<u32>,
) -> anyhow::Result<&'a DeployedPod> {
    let pod = match node {
        None => deployment.pod_with_output(),
        Some(node) => deployment.pod_of_node(node),
    };
    let Some(pod) = pod else {
        let which = match (node, deployment.nodes) {
            (Some(node), Some(nodes)) if i64::from(node) >= i64::from(nodes) => {
                let what = format!(
                    "there is no node {node}: the nodes of {name} are numbered from 0 to {}. Use \
                     another --node",
                    nodes - 1
                );
                return Err(Failure::on_all_ranks(Code::Usage, what));
            }
            (Some(node), _) => format!("the pod of node {node}"),
            (None, _) => "the pod with the output".to_owned(),
        };
        let what = format!("{which} is not there yet. `pxnbench kube status {name}` says why");
        return Err(Failure::on_all_ranks(Code::NothingRan, what));
    };
    if pod.phase() == "Pending" {
        let what = format!(
            "{} has not started, so there is no log. `pxnbench kube status {name}` says why",
            pod.name
        );
        return Err(Failure::on_all_ranks(Code::NothingRan, what));
    }
    Ok(pod)
}
