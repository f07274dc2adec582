//! Does this process run in a container? From the files and control groups that runtimes leave, below a root.

use std::path::Path;

use super::tree::text;

/// What runtimes put into the file system: Docker, Podman, Apptainer, Kubernetes.
const FILES: [&str; 4] = [
    "/.dockerenv",
    "/run/.containerenv",
    "/.singularity.d",
    "/run/secrets/kubernetes.io/serviceaccount",
];

/// How the names of their control groups begin.
const GROUPS: [&str; 5] = [
    "docker-",
    "libpod-",
    "crio-",
    "cri-containerd-",
    "lxc.payload",
];

/// The evidence for a container.
pub(super) fn evidence(root: &Path) -> Option<String> {
    let file = FILES
        .into_iter()
        .find(|path| root.join(path.trim_start_matches('/')).exists());
    file.map(|path| format!("{path} exists"))
        .or_else(|| group(root))
        .or_else(|| mount(root))
}

/// A control group of a runtime's. In a namespace of groups the path is `/`, and tells nothing.
fn group(root: &Path) -> Option<String> {
    let groups = text(&root.join("proc/self/cgroup"));
    // Number, controllers, path; in version 2 one line `0::path`.
    let mut paths = groups.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    let path = paths.find(|path| {
        let is_runtime = |part: &str| {
            part.contains("kubepods") || GROUPS.iter().any(|group| part.starts_with(group))
        };
        path.split('/').any(is_runtime) || path.contains("/docker/")
    })?;
    Some(format!("its control group is {path}"))
}

/// A file that kubelet mounts into each container of a pod.
fn mount(root: &Path) -> Option<String> {
    let mounts = text(&root.join("proc/self/mountinfo"));
    // Numbers of mount, parent and device, then what is mounted and where.
    let mut fields = mounts.lines().map(|line| line.split(' ').skip(3));
    let at = fields.find_map(|mut fields| {
        let (what, at) = (fields.next()?, fields.next()?);
        (what.contains("/kubelet/pods/") && at == "/etc/hosts").then_some(at)
    })?;
    Some(format!("kubelet mounted {at}"))
}
