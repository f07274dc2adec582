//! Host memory that can be used: what the machine has available, and what the job's control groups
//! leave of it.
//!
//! Allocating more is no error at first: Linux hands out pages when they are touched, and kills the
//! process if there are none.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::procfs::meminfo_bytes;
use crate::units::Bytes;

/// The files of a control group that tell about its memory.
#[derive(Clone, Copy)]
pub(super) struct GroupFiles {
    /// The mount point of its hierarchy, below the root.
    mount: &'static str,
    limit: &'static str,
    usage: &'static str,
    /// The file with a line `oom_kill N`: how many of its processes were killed because memory ran
    /// out.
    pub(super) kills: &'static str,
}

const VERSION_2: GroupFiles = GroupFiles {
    mount: "sys/fs/cgroup",
    limit: "memory.max",
    usage: "memory.current",
    kills: "memory.events",
};

const VERSION_1: GroupFiles = GroupFiles {
    mount: "sys/fs/cgroup/memory",
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    kills: "memory.oom_control",
};

/// Returns how much memory this process can use without being killed; `None` if `/proc` does not
/// tell. `root` is the root of the file system.
pub fn available(root: &Path) -> Option<Bytes> {
    let meminfo = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let mut available = meminfo_bytes(&meminfo, "MemAvailable:")?;
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    for left in left_by_groups(root, &groups) {
        available = available.min(left);
    }
    Some(Bytes(available))
}

/// Returns what each control group above this process leaves, from the text of /proc/self/cgroup.
fn left_by_groups(root: &Path, groups: &str) -> Vec<u64> {
    let mut left = Vec::new();
    for (files, folder) in groups_above(root, groups) {
        let limit = read_number(&folder.join(files.limit));
        let usage = read_number(&folder.join(files.usage));
        if let (Some(limit), Some(usage)) = (limit, usage) {
            left.push(limit.saturating_sub(usage));
        }
    }
    left
}

/// Returns the folders of the memory control groups that a process is in, from the text of its
/// /proc/PID/cgroup: its own, and those above, whose limits count too.
pub(super) fn groups_above(root: &Path, groups: &str) -> Vec<(GroupFiles, PathBuf)> {
    let mut folders = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (fields.next(), fields.next()) else {
            continue;
        };
        let files = match controllers {
            "" => VERSION_2,
            "memory" => VERSION_1,
            _ => continue,
        };
        // In a container the group's own path may not exist.
        let mount = root.join(files.mount);
        let folder = mount.join(group.trim_start_matches('/'));
        for folder in folder.ancestors().take_while(|at| at.starts_with(&mount)) {
            folders.push((files, folder.to_owned()));
        }
    }
    folders
}

fn read_number(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tightest_limit_counts() {
        let root = tempfile::tempdir().expect("a folder");
        let make = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            fs::write(path, text).expect("written");
        };
        assert_eq!(available(root.path()), None);
        make(
            "proc/meminfo",
            "MemTotal:       32000000 kB\nMemAvailable:   16000000 kB\n",
        );
        assert_eq!(available(root.path()), Some(Bytes(16_000_000 * 1024)));
        make("proc/self/cgroup", "0::/slurm/job_7/step_0\n");
        make("sys/fs/cgroup/slurm/job_7/memory.max", "1000000\n");
        make("sys/fs/cgroup/slurm/job_7/memory.current", "400000\n");
        make("sys/fs/cgroup/slurm/job_7/step_0/memory.max", "max\n");
        make(
            "sys/fs/cgroup/slurm/job_7/step_0/memory.current",
            "400000\n",
        );
        assert_eq!(
            available(root.path()),
            Some(Bytes(600_000)),
            "a group above limits too"
        );
        make("proc/self/cgroup", "9:memory:/docker/x\n3:cpu:/docker/x\n");
        make("sys/fs/cgroup/memory/memory.limit_in_bytes", "500\n");
        make("sys/fs/cgroup/memory/memory.usage_in_bytes", "700\n");
        assert_eq!(available(root.path()), Some(Bytes(0)));
    }
}
