//! Host memory that is there to be taken: what the machine has available, and what the job's control groups leave of it.
//!
//! Allocating more is no error at first: Linux hands out pages when they are touched, and kills when there are none.

use std::{fs, path::Path};

use crate::units::Bytes;

/// What may be taken without being killed; `None` where `/proc` does not tell. `root` is the root of the file system.
pub fn available(root: &Path) -> Option<Bytes> {
    let machine = meminfo(&fs::read_to_string(root.join("proc/meminfo")).ok()?)?;
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    Some(Bytes(
        group_limits(root, &groups)
            .into_iter()
            .fold(machine, u64::min),
    ))
}

/// `MemAvailable` of `/proc/meminfo`, in bytes.
fn meminfo(text: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

/// What each control group above this process leaves, in version 2 or 1.
fn group_limits(root: &Path, groups: &str) -> Vec<u64> {
    let read = |path: &Path| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let mut left = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (fields.next(), fields.next()) else {
            continue;
        };
        let (mount, limit, used) = match controllers {
            "" => ("sys/fs/cgroup", "memory.max", "memory.current"),
            "memory" => (
                "sys/fs/cgroup/memory",
                "memory.limit_in_bytes",
                "memory.usage_in_bytes",
            ),
            _ => continue,
        };
        // A limit of any group above counts too; in a container the group's own path may not be there.
        let mount = root.join(mount);
        for folder in mount
            .join(group.trim_start_matches('/'))
            .ancestors()
            .take_while(|at| at.starts_with(&mount))
        {
            if let (Some(limit), Some(used)) = (read(&folder.join(limit)), read(&folder.join(used)))
            {
                left.push(limit.saturating_sub(used));
            }
        }
    }
    left
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
