//! How many processes were killed because memory ran out, as the memory control groups of this
//! process count them.

use std::{collections::BTreeMap, fs, path::Path};

use super::memory::groups_above;

/// The processes killed so far, by the file that counts them.
pub type OomKills = BTreeMap<String, u64>;

/// Reads the counters of the groups that this process is in. `root` is the root of the file system.
pub fn read(root: &Path) -> OomKills {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let mut kills = OomKills::new();
    for (files, folder) in groups_above(root, &groups) {
        let file = folder.join(files.kills);
        let count = fs::read_to_string(&file).ok().and_then(|text| count(&text));
        if let Some(count) = count {
            let name = Path::new("/").join(file.strip_prefix(root).unwrap_or(&file));
            kills.insert(name.display().to_string(), count);
        }
    }
    kills
}

/// Parses the line `oom_kill N`.
fn count(text: &str) -> Option<u64> {
    let mut lines = text.lines();
    let number = lines.find_map(|line| line.strip_prefix("oom_kill "))?;
    number.trim().parse().ok()
}

/// Returns the file that counts more kills than `before`, and how many more. Groups count what
/// those below them do, so the innermost one is meant, which has the longest name.
pub fn grown(before: &OomKills, now: &OomKills) -> Option<(String, u64)> {
    let more = now.iter().filter_map(|(file, count)| {
        let more = count.saturating_sub(*before.get(file)?);
        (more > 0).then_some((file.clone(), more))
    });
    more.max_by_key(|(file, _)| file.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENTS: &str = "low 0\nhigh 0\nmax 31\noom 2\noom_kill 1\noom_group_kill 0\n";
    const OOM_CONTROL: &str = "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n";

    fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a folder");
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            fs::write(path, text).expect("written");
        }
        root
    }

    #[test]
    fn the_innermost_group_that_counts_a_kill_is_named() {
        let job = "sys/fs/cgroup/system.slice/slurmstepd.scope/job_7";
        let step = format!("{job}/step_0/memory.events");
        let root = machine(&[
            (
                "proc/self/cgroup",
                "0::/system.slice/slurmstepd.scope/job_7/step_0/user/task_1\n",
            ),
            (&step, EVENTS),
            (&format!("{job}/memory.events"), EVENTS),
            ("sys/fs/cgroup/cpu.stat", "usage_usec 1\n"),
        ]);
        let before = read(root.path());
        assert_eq!(before.len(), 2, "{before:?}");
        assert_eq!(grown(&before, &read(root.path())), None);
        for file in [&step, &format!("{job}/memory.events")] {
            fs::write(root.path().join(file), EVENTS.replace("kill 1", "kill 3")).expect("written");
        }
        let grown = grown(&before, &read(root.path()));
        assert_eq!(grown, Some((format!("/{step}"), 2)));
    }

    #[test]
    fn the_first_version_of_control_groups_counts_elsewhere() {
        let file = "sys/fs/cgroup/memory/slurm/uid_0/job_7/memory.oom_control";
        let root = machine(&[
            (
                "proc/self/cgroup",
                "9:memory:/slurm/uid_0/job_7\n3:cpu:/x\n",
            ),
            (file, OOM_CONTROL),
        ]);
        let expected = OomKills::from([(format!("/{file}"), 4)]);
        assert_eq!(read(root.path()), expected);
        assert_eq!(read(machine(&[]).path()), OomKills::new());
    }
}
