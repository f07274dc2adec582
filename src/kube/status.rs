//! How a deployment is doing: its pods, why one waits or has failed, and how the run ended.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Event, Pod};

use super::{
    causes,
    deployment::{DeployedPod, Deployment, JobState, typed},
    kubectl::Kubectl,
    names::DeploymentName,
};
use crate::{
    exit::{CODES, Code},
    units::counted,
};

/// The most pods that are listed.
const MOST_PODS: usize = 64;

/// Prints how the deployment is doing. The code is that of the run, once it has ended.
///
/// # Errors
///
/// Returns an error if there is none of this name, or if kubectl refuses.
pub(super) fn print(kubectl: &Kubectl, name: &DeploymentName) -> anyhow::Result<Code> {
    let deployment = Deployment::find(kubectl, name)?;
    print_line!("{name}: {}", headline(&deployment))?;
    for line in pod_lines(&deployment) {
        print_line!("  {line}")?;
    }
    for sentence in findings(kubectl, name, &deployment)? {
        print_line!("{sentence}")?;
    }
    Ok(code(&deployment))
}

/// Returns the state of a deployment in a line.
pub(super) fn headline(deployment: &Deployment) -> String {
    let state = match deployment.state {
        JobState::Suspended => "is suspended until a queue admits it",
        JobState::Active => "is not done",
        JobState::Complete => "is complete",
        JobState::Failed => "has failed",
    };
    let pods = match (deployment.nodes, deployment.pods.len()) {
        (_, 0) => "no pods yet".to_owned(),
        (Some(nodes), there) => {
            format!("{there} of {} there", counted(nodes.unsigned_abs(), "pod"))
        }
        (None, there) => counted(there as u64, "pod"),
    };
    let mut phases: Vec<(&str, u32)> = Vec::new();
    for pod in &deployment.pods {
        match phases.iter_mut().find(|(phase, _)| *phase == pod.phase()) {
            Some((_, count)) => *count += 1,
            None => phases.push((pod.phase(), 1)),
        }
    }
    let phases: Vec<String> = phases
        .iter()
        .map(|(phase, count)| format!("{count} {}", phase.to_lowercase()))
        .collect();
    let phases = if phases.is_empty() {
        String::new()
    } else {
        format!(" ({})", phases.join(", "))
    };
    format!("the {} {state}, {pods}{phases}", deployment.kind)
}

/// Returns a line for each pod, up to a limit.
pub(super) fn pod_lines(deployment: &Deployment) -> Vec<String> {
    let pods = deployment.pods.iter().take(MOST_PODS);
    let mut lines: Vec<String> = pods.map(pod_line).collect();
    if deployment.pods.len() > MOST_PODS {
        let more = deployment.pods.len() - MOST_PODS;
        lines.push(format!("and {} more", counted(more as u64, "pod")));
    }
    lines
}

fn pod_line(pod: &DeployedPod) -> String {
    let node = pod.node().unwrap_or("on no node yet");
    let how = match (waiting(&pod.pod), pod.exit_code()) {
        (Some((reason, _)), _) => format!(", {reason}"),
        (None, Some(code)) => format!(", exit code {code} ({})", meaning(code)),
        (None, None) => String::new(),
    };
    format!("{}  {}  {node}{how}", pod.name, pod.phase())
}

/// Returns what an exit code of a container means.
fn meaning(code: i32) -> String {
    // Container runtimes add 128 to the number of a signal.
    const BY_SIGNAL: i32 = 128;
    if let Some((_, meaning)) = CODES.iter().find(|(known, _)| *known as i32 == code) {
        return meaning.split(" (").next().unwrap_or_default().to_owned();
    }
    match code - BY_SIGNAL {
        signal if signal > 0 => format!("ended by signal {signal}"),
        _ => "unknown".to_owned(),
    }
}

/// Returns why the container of a pod waits: reason and message.
fn waiting(pod: &Pod) -> Option<(String, String)> {
    let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
    let waiting = statuses.first()?.state.as_ref()?.waiting.as_ref()?;
    let reason = waiting.reason.clone().unwrap_or_default();
    Some((reason, waiting.message.clone().unwrap_or_default()))
}

/// Returns what the cluster says about a pod: reasons and messages.
pub(super) fn said_of_pod(pod: &Pod) -> Vec<(String, String)> {
    let mut said = Vec::from_iter(waiting(pod));
    let Some(status) = &pod.status else {
        return said;
    };
    for condition in status.conditions.iter().flatten() {
        if condition.status == "False" || condition.type_ == "DisruptionTarget" {
            let reason = condition.reason.clone().unwrap_or_default();
            said.push((reason, condition.message.clone().unwrap_or_default()));
        }
    }
    let reason = status.reason.clone().unwrap_or_default();
    said.push((reason, status.message.clone().unwrap_or_default()));
    for container in status.container_statuses.iter().flatten() {
        let terminated = container
            .state
            .as_ref()
            .and_then(|state| state.terminated.as_ref());
        if let Some(ended) = terminated {
            // The message is the end of the log, in which anything may stand.
            let reason = ended.reason.clone().unwrap_or_default();
            let is_start = reason == "StartError" || reason == "ContainerCannotRun";
            let message = ended.message.clone().filter(|_| is_start);
            said.push((reason, message.unwrap_or_default()));
        }
    }
    said
}

/// Returns the last thing that the program of a failed pod said.
pub(super) fn last_words(pod: &DeployedPod) -> Option<String> {
    let ended = pod.state()?.terminated.as_ref()?;
    if ended.exit_code == 0 {
        return None;
    }
    let message = ended.message.as_deref()?;
    let mut lines = message.lines().rev();
    let line = lines.find(|line| line.starts_with("pxnbench: "))?;
    Some(line.to_owned())
}

/// Returns what keeps the deployment from being done, a sentence each.
fn findings(
    kubectl: &Kubectl,
    name: &DeploymentName,
    deployment: &Deployment,
) -> anyhow::Result<Vec<String>> {
    let mut found = StatusFindings::default();
    for pod in &deployment.pods {
        found.add_pod(pod);
    }
    if deployment.state == JobState::Complete {
        return Ok(found.sentences);
    }
    found.add_causes(&name.to_string(), "", &deployment.message);
    // Events say what has no pod, such as a quota, and what a pod does not know, such as a volume
    // that cannot be mounted.
    let words = [
        "get",
        "events",
        "--field-selector=type=Warning",
        "--output=json",
    ];
    for event in kubectl.list(&words)? {
        let event: Event = typed(event)?;
        let of = event.involved_object.name.unwrap_or_default();
        if belongs_to(&of, name, deployment) {
            let reason = event.reason.unwrap_or_default();
            found.add_causes(&of, &reason, &event.message.unwrap_or_default());
        }
    }
    if deployment.state == JobState::Suspended {
        found.sentences.push(format!(
            "{name}: `kubectl get workloads` shows its place in the queue of Kueue, and why it \
             waits"
        ));
    }
    Ok(found.sentences)
}

/// What keeps a deployment from being done.
#[derive(Default)]
struct StatusFindings {
    sentences: Vec<String>,
    /// What was said: of several pods with the same finding, only the first is named.
    known: BTreeSet<String>,
}

impl StatusFindings {
    fn add(&mut self, of: &str, finding: &str) {
        let cause = finding.split(" (").next().unwrap_or_default();
        if self.known.insert(cause.to_owned()) {
            self.sentences.push(format!("{of}: {finding}"));
        }
    }

    /// Adds what a reason and a message of the cluster mean.
    fn add_causes(&mut self, of: &str, reason: &str, message: &str) {
        for finding in causes::findings(reason, message) {
            self.add(of, &finding);
        }
    }

    fn add_pod(&mut self, pod: &DeployedPod) {
        if pod.phase() == "Succeeded" {
            return;
        }
        for (reason, message) in said_of_pod(&pod.pod) {
            self.add_causes(&pod.name, &reason, &message);
        }
        if let Some(words) = last_words(pod) {
            self.add(&pod.name, &words);
        }
    }
}

/// Returns whether an event is about the job, or a pod of it that may still matter.
fn belongs_to(object: &str, name: &DeploymentName, deployment: &Deployment) -> bool {
    let is_waiting = |pod: &DeployedPod| pod.name == object && pod.phase() == "Pending";
    let lacks_pods = deployment
        .nodes
        .is_none_or(|nodes| deployment.pods.len() < nodes.unsigned_abs() as usize);
    (object == name.to_string() && lacks_pods) || deployment.pods.iter().any(is_waiting)
}

/// Returns the code of the run, if it has ended.
pub(super) fn code(deployment: &Deployment) -> Code {
    if deployment.state != JobState::Failed {
        return Code::Fine;
    }
    let codes = deployment.pods.iter().filter_map(DeployedPod::exit_code);
    let mut failed = codes.filter(|code| *code != 0);
    failed
        .next()
        .and_then(Code::from_number)
        .unwrap_or(Code::Launch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_have_a_meaning() {
        assert_eq!(meaning(0), "fine");
        assert_eq!(meaning(137), "ended by signal 9");
        assert_eq!(meaning(5), "nothing could run or be judged");
        assert_eq!(meaning(99), "unknown");
    }
}
