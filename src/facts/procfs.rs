//! Limits, memory, processors and kernel settings, as `/proc` and `/sys` report them.

use std::{collections::BTreeSet, path::Path};

use super::tree::reading;
use crate::native::nvml::Reading;

/// The value of a limit that is not set.
pub const UNLIMITED: u64 = u64::MAX;

/// Reads the soft limit on a line of /proc/self/limits.
pub(super) fn limit(root: &Path, name: &str) -> Reading<u64> {
    reading(root, "proc/self/limits").and(|text| {
        let mut lines = text.lines();
        let soft = lines.find_map(|line| line.strip_prefix(name)?.split_whitespace().next());
        let limit = match soft {
            Some("unlimited") => Some(UNLIMITED),
            Some(number) => number.parse().ok(),
            None => None,
        };
        limit.ok_or_else(|| format!("/proc/self/limits has no {name}"))
    })
}

/// Returns whether the process has CAP_IPC_LOCK on the node itself: in a user namespace a
/// capability counts only there.
pub(super) fn pins_freely(root: &Path) -> bool {
    const IPC_LOCK: u64 = 1 << 14;
    let mask = status_field(root, "CapEff:");
    let mask = u64::from_str_radix(mask.as_deref().unwrap_or_default(), 16).unwrap_or(0);
    mask & IPC_LOCK != 0 && is_in_initial_user_namespace(root)
}

/// Returns whether the user's id is below 1000, the bound that is compiled into systemd.
pub(super) fn is_system_user(root: &Path) -> bool {
    const FIRST_USER: u32 = 1000;
    let Some(ids) = status_field(root, "Uid:") else {
        return false;
    };
    let real = ids.split_whitespace().next().unwrap_or_default();
    let is_below = real.parse().is_ok_and(|id: u32| id < FIRST_USER);
    is_below && is_in_initial_user_namespace(root)
}

/// Returns whether user ids are those of the node itself.
fn is_in_initial_user_namespace(root: &Path) -> bool {
    let map = reading(root, "proc/self/uid_map").value.unwrap_or_default();
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

/// Returns what follows `name` in /proc/self/status.
fn status_field(root: &Path, name: &str) -> Option<String> {
    let status = reading(root, "proc/self/status").value?;
    let field = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(field.trim().to_owned())
}

/// Reads the size of the file system on /dev/shm: its mount option, or half of the memory if it has
/// none.
pub(super) fn shm_size(root: &Path) -> Reading<u64> {
    reading(root, "proc/self/mounts").and(|mounts| {
        let options = shm_options(&mounts).ok_or("nothing is mounted on /dev/shm")?;
        let mut options = options.split(',');
        match options.find_map(|option| option.strip_prefix("size=")) {
            Some(size) => {
                parse_tmpfs_size(size).ok_or_else(|| format!("/dev/shm has the size {size}"))
            }
            None => match memory(root).value {
                Some(bytes) => Ok(bytes / 2),
                None => Err("/dev/shm has no size of its own".into()),
            },
        }
    })
}

/// Returns the options of the last mount on /dev/shm, which hides the ones before.
fn shm_options(mounts: &str) -> Option<&str> {
    for line in mounts.lines().rev() {
        // Device, mount point, type, options.
        let mut fields = line.split(' ').skip(1);
        if fields.next() == Some("/dev/shm") {
            return fields.nth(1);
        }
    }
    None
}

/// Parses a size of tmpfs, such as `65536k`, `64m` or `1g`, into bytes.
fn parse_tmpfs_size(size: &str) -> Option<u64> {
    let digits = size.trim_end_matches(|c: char| !c.is_ascii_digit());
    let factor = match &size[digits.len()..] {
        "" => 1,
        "k" => 1 << 10,
        "m" => 1 << 20,
        "g" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

/// Reads the bytes of the node's memory.
pub(super) fn memory(root: &Path) -> Reading<u64> {
    reading(root, "proc/meminfo").and(|text| match meminfo_bytes(&text, "MemTotal:") {
        Some(bytes) => Ok(bytes),
        None => Err("/proc/meminfo has no MemTotal".into()),
    })
}

/// Returns the value of a line of /proc/meminfo, in bytes.
pub(super) fn meminfo_bytes(meminfo: &str, name: &str) -> Option<u64> {
    let value = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = value.split_whitespace().next()?.parse().ok()?;
    Some(kib.saturating_mul(1024))
}

/// Reads the processors that this process may run on.
pub(super) fn allowed_cpus(root: &Path) -> Reading<BTreeSet<u32>> {
    reading(root, "proc/self/status").and(|status| {
        let mut lines = status.lines();
        let list = lines.find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        parse_cpu_list(list.ok_or("/proc/self/status has no Cpus_allowed_list")?)
    })
}

/// Reads the processors that are online.
pub(super) fn online_cpus(root: &Path) -> Reading<BTreeSet<u32>> {
    reading(root, "sys/devices/system/cpu/online").and(|list| parse_cpu_list(&list))
}

/// Parses Linux's list of processors, such as `0-3,8`.
fn parse_cpu_list(list: &str) -> Result<BTreeSet<u32>, String> {
    /// More processors than any Linux is built for.
    const MOST: u32 = 1 << 16;
    let mut cpus = BTreeSet::new();
    for part in list.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        match (first.trim().parse::<u32>(), last.trim().parse::<u32>()) {
            (Ok(first), Ok(last)) if last < MOST => cpus.extend(first..=last),
            _ => return Err(format!("'{part}' is not a range of processors")),
        }
    }
    Ok(cpus)
}

/// Reads the kernel's release.
pub(super) fn kernel_release(root: &Path) -> Reading<String> {
    reading(root, "proc/sys/kernel/osrelease").and(|text| Ok(text.trim().to_owned()))
}

/// Reads whether automatic NUMA balancing is on.
pub(super) fn numa_balancing(root: &Path) -> Reading<bool> {
    reading(root, "proc/sys/kernel/numa_balancing").and(|text| Ok(text.trim() != "0"))
}

/// Reads the names of the kernel modules that are loaded.
pub(super) fn modules(root: &Path) -> Reading<BTreeSet<String>> {
    reading(root, "proc/modules").and(|text| {
        let mut modules = BTreeSet::new();
        for line in text.lines() {
            modules.extend(line.split_whitespace().next().map(str::to_owned));
        }
        Ok(modules)
    })
}
