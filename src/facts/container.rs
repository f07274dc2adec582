//! Whether this process runs in a container, from the files and control groups that container
//! runtimes leave, below a root.

use std::path::Path;

use super::tree::{below, text};

/// Files that runtimes create: Docker, Podman, Apptainer, Kubernetes.
const FILES: [&str; 4] = [
    "/.dockerenv",
    "/run/.containerenv",
    "/.singularity.d",
    "/run/secrets/kubernetes.io/serviceaccount",
];

/// Prefixes of the names of their control groups.
const GROUP_PREFIXES: [&str; 5] = [
    "docker-",
    "libpod-",
    "crio-",
    "cri-containerd-",
    "lxc.payload",
];

/// Returns the evidence that this is a container.
pub(super) fn evidence(root: &Path) -> Option<String> {
    for path in FILES {
        if below(root, path).exists() {
            return Some(format!("{path} exists"));
        }
    }
    control_group(root).or_else(|| kubelet_mount(root))
}

/// Returns the control group of a container runtime. In a namespace of control groups the path is
/// `/`, which tells nothing.
fn control_group(root: &Path) -> Option<String> {
    let groups = text(&root.join("proc/self/cgroup"));
    // Number, controllers, path; in version 2 one line `0::path`.
    let mut paths = groups.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    let path = paths.find(|path| is_of_runtime(path))?;
    Some(format!("its control group is {path}"))
}

fn is_of_runtime(path: &str) -> bool {
    let has_known_part = path.split('/').any(|part| {
        let has_prefix = GROUP_PREFIXES.iter().any(|prefix| part.starts_with(prefix));
        has_prefix || part.contains("kubepods")
    });
    has_known_part || path.contains("/docker/")
}

/// Returns the mount of a file that kubelet mounts into each container of a pod.
fn kubelet_mount(root: &Path) -> Option<String> {
    let mounts = text(&root.join("proc/self/mountinfo"));
    for line in mounts.lines() {
        // Numbers of mount, parent and device, then the source and the mount point.
        let mut fields = line.split(' ').skip(3);
        let (Some(source), Some(mount_point)) = (fields.next(), fields.next()) else {
            continue;
        };
        if source.contains("/kubelet/pods/") && mount_point == "/etc/hosts" {
            return Some(format!("kubelet mounted {mount_point}"));
        }
    }
    None
}
