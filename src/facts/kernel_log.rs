//! What the kernel log says of a process that was killed, and of GPUs that failed.

use std::{
    fs::{self, OpenOptions},
    io::{self, ErrorKind, Read},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

/// The device from which the kernel log is read. A read returns one record, or an error if there is
/// no other.
const DEVICE: &str = "dev/kmsg";

/// The log of a machine is a few MB at most.
const MOST_BYTES: usize = 32 << 20;

/// The namespace of process ids in which the kernel itself counts, as the kernel fixes its number.
const KERNELS_PID_NAMESPACE: &str = "pid:[4026531836]";

/// A line of the kernel log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelLine {
    /// Microseconds since the machine started.
    pub at_us: u64,
    /// The text.
    pub text: String,
}

/// Reads the kernel log. `root` is the root of the file system.
///
/// # Errors
/// Returns an error that names the file if this user may not read it.
pub fn read(root: &Path) -> Result<Vec<KernelLine>, String> {
    let text = read_device(&root.join(DEVICE)).map_err(|error| format!("/{DEVICE}: {error}"))?;
    let text = String::from_utf8_lossy(&text);
    Ok(text.lines().filter_map(parse_line).collect())
}

fn read_device(path: &Path) -> io::Result<Vec<u8>> {
    let mut options = OpenOptions::new();
    let mut file = options
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)?;
    let mut all = Vec::new();
    // The longest record of the kernel fits.
    let mut record = [0; 16 << 10];
    while all.len() < MOST_BYTES {
        match file.read(&mut record) {
            Ok(0) => break,
            Ok(bytes) => all.extend_from_slice(&record[..bytes]),
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock => break,
                // Records were overwritten before they were read; the next read gives those that
                // are left.
                ErrorKind::BrokenPipe | ErrorKind::Interrupted => {}
                _ => return Err(error),
            },
        }
    }
    Ok(all)
}

/// Parses a record, `6,1234,5678901,-;text`. Lines that continue one begin with a space.
fn parse_line(line: &str) -> Option<KernelLine> {
    if line.starts_with(' ') {
        return None;
    }
    let (head, text) = line.split_once(';')?;
    Some(KernelLine {
        at_us: head.split(',').nth(2)?.parse().ok()?,
        text: text.trim_end().to_owned(),
    })
}

/// Returns whether the kernel log names processes by the ids that this process knows them by. In a
/// container it does not.
pub fn has_our_process_ids(root: &Path) -> bool {
    let namespace = fs::read_link(root.join("proc/self/ns/pid"));
    namespace.is_ok_and(|namespace| namespace == Path::new(KERNELS_PID_NAMESPACE))
}

/// Returns the last line that says why the kernel ended process `pid`.
pub fn end_of_process(lines: &[KernelLine], pid: u32) -> Option<&KernelLine> {
    lines
        .iter()
        .rev()
        .find(|line| ended_process(&line.text) == Some(pid))
}

/// Returns the process that the kernel ended according to a line.
fn ended_process(text: &str) -> Option<u32> {
    let number = |rest: &str| {
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
        digits.parse().ok()
    };
    // `Out of memory: Killed process 7 (pxnbench) …`,
    // `Memory cgroup out of memory: Killed process 7 (pxnbench) …`
    if let Some((_, rest)) = text.split_once("ut of memory: Kill") {
        return number(rest.split_once(" process ")?.1);
    }
    // `Memory failure: 0x3b1f5e: Sending SIGBUS to pxnbench:7 due to hardware memory corruption`
    if text.starts_with("Memory failure: ") {
        return number(text.split(" due to ").next()?.rsplit_once(':')?.1);
    }
    // `pxnbench[7]: segfault at 0 ip …`, `traps: pxnbench[7] general protection fault ip:…`
    let faults = [": segfault at ", " general protection", " trap "];
    if faults.iter().any(|fault| text.contains(fault)) {
        return number(text.split_once('[')?.1);
    }
    None
}

/// Returns the lines on errors of the GPUs at `buses`, each written as `0000:18:00`.
pub fn gpu_errors<'a>(lines: &'a [KernelLine], buses: &[String]) -> Vec<&'a KernelLine> {
    let is_of_one = |line: &&KernelLine| {
        let bus = failing_gpu(&line.text);
        bus.is_some_and(|bus| buses.iter().any(|own| bus.eq_ignore_ascii_case(own)))
    };
    lines.iter().filter(is_of_one).collect()
}

/// Returns the GPU that a line of NVIDIA's driver reports an error of:
/// `NVRM: Xid (PCI:0000:18:00): 79, …`.
fn failing_gpu(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("NVRM: Xid (PCI:")?;
    let (bus, _) = rest.split_once(')')?;
    // Some versions give the function as well.
    Some(bus.split('.').next().unwrap_or(bus))
}

/// Returns whether a line of NVIDIA's driver is about an error of the GPU's memory, which ECC
/// found.
pub fn is_ecc_error(text: &str) -> bool {
    /// Numbers of such errors in NVIDIA's list of Xid errors.
    const ECC: [u32; 6] = [48, 63, 64, 92, 94, 95];
    let Some((_, rest)) = text.split_once("): ") else {
        return false;
    };
    let number = rest.split(',').next().unwrap_or_default();
    let is_listed = number.trim().parse().is_ok_and(|xid| ECC.contains(&xid));
    failing_gpu(text).is_some() && is_listed
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
6,1201,5001000,-;Linux version 6.8.0-45-generic (buildd@lcy02) #45-Ubuntu SMP\n\
 SUBSYSTEM=acpi\n\
6,1411,61000100,-;pxnbench invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0\n\
6,1490,61000300,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=task_1,mems_allowed=0-1,oom_memcg=/system.slice/\
slurmstepd.scope/job_7/step_0,task_memcg=/system.slice/slurmstepd.scope/job_7/step_0/user/task_1,task=pxnbench,pid=4242,uid=1001\n\
3,1491,61000400,-;Memory cgroup out of memory: Killed process 4242 (pxnbench) total-vm:70914212kB, anon-rss:33431552kB, \
file-rss:120320kB, shmem-rss:0kB, UID:1001 pgtables:66012kB oom_score_adj:0\n\
4,1500,62000000,-;NVRM: Xid (PCI:0000:18:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n\
4,1501,62000100,-;NVRM: Xid (PCI:0000:3B:00): 48, pid=4243, name=pxnbench, DBE (double bit error) ECC Error at Partition 3\n\
6,1502,63000000,-;pxnbench[4243]: segfault at 7f10dc000000 ip 00007f1134a2c1f0 sp 00007ffd3c0 error 4 in libnccl.so.2.21.5[7f1]\n\
6,1503,63000100,-;traps: pxnbench[4244] general protection fault ip:55d0c2 sp:7ffe01 error:0 in pxnbench[55d0c0000000+9000]\n\
3,1504,64000000,-;Out of memory: Killed process 99 (python3) total-vm:100kB, anon-rss:1kB, file-rss:0kB\n\
3,1505,65000000,-;Memory failure: 0x3b1f5e: Sending SIGBUS to pxnbench:4245 due to hardware memory corruption\n\
6,torn";

    fn machine(log: Option<&str>) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a folder");
        if let Some(log) = log {
            fs::create_dir(root.path().join("dev")).expect("made");
            fs::write(root.path().join(DEVICE), log).expect("written");
        }
        root
    }

    #[test]
    fn the_end_of_a_process_is_found_by_its_number() {
        let root = machine(Some(LOG));
        let lines = read(root.path()).expect("readable");
        assert_eq!(lines.len(), 10);
        assert_eq!(lines[0].at_us, 5_001_000);
        for (pid, says) in [
            (
                4242,
                "Memory cgroup out of memory: Killed process 4242 (pxnbench)",
            ),
            (4243, "pxnbench[4243]: segfault at 7f10dc000000"),
            (4244, "traps: pxnbench[4244] general protection fault"),
            (99, "Out of memory: Killed process 99 (python3)"),
            (4245, "hardware memory corruption"),
        ] {
            let line = end_of_process(&lines, pid).expect("a line");
            assert!(line.text.contains(says), "{line:?}");
        }
        for pid in [42, 424, 1001, 7] {
            assert_eq!(end_of_process(&lines, pid), None, "{pid}");
        }
    }

    #[test]
    fn errors_of_gpus_are_found_by_their_bus() {
        let root = machine(Some(LOG));
        let lines = read(root.path()).expect("readable");
        let errors = |buses: &[&str]| -> Vec<String> {
            let buses: Vec<String> = buses.iter().map(|bus| (*bus).to_owned()).collect();
            let found = gpu_errors(&lines, &buses).into_iter();
            found.map(|line| line.text.clone()).collect()
        };
        assert_eq!(errors(&["0000:19:00"]), Vec::<String>::new());
        let lost = errors(&["0000:18:00"]);
        assert!(
            lost.len() == 1 && lost[0].contains("fallen off the bus"),
            "{lost:?}"
        );
        assert!(!is_ecc_error(&lost[0]));
        let ecc = errors(&["0000:3b:00"]);
        assert!(ecc.len() == 1 && is_ecc_error(&ecc[0]), "{ecc:?}");
        assert_eq!(
            failing_gpu("NVRM: Xid (PCI:0000:18:00.0): 31, pid=1"),
            Some("0000:18:00")
        );
    }

    #[test]
    fn a_log_that_cannot_be_read_says_so() {
        let why = read(machine(None).path()).expect_err("no log");
        assert!(
            why.starts_with("/dev/kmsg: No such file or directory"),
            "{why}"
        );
        let root = machine(None);
        assert!(!has_our_process_ids(root.path()));
        fs::create_dir_all(root.path().join("proc/self/ns")).expect("made");
        let link = root.path().join("proc/self/ns/pid");
        std::os::unix::fs::symlink(KERNELS_PID_NAMESPACE, link).expect("linked");
        assert!(has_our_process_ids(root.path()));
    }
}
