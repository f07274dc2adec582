//! `pxnbench doctor` on machines made of files: a good one, and one for each way of being bad. The files go through the real
//! gatherers, the report is the binary's.

mod common;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use common::{BINARY, Ended, alone, has_mpi, launcher, run};
use pxnbench::{
    doctor::{self, Subject},
    facts::health,
    levels::{audit, conf::Settings},
};
use serde_json::{Value, json};

/// A machine: files below a root, NVML's answers, the environment, and the libnccl it has.
struct Machine {
    files: BTreeMap<String, Vec<u8>>,
    nvml: Value,
    env: BTreeMap<&'static str, String>,
    nccl: i32,
}

fn reading(value: Value) -> Value {
    json!({ "value": value, "why": "" })
}

fn gpu(index: u32) -> Value {
    let links: Vec<Value> =
        (0..4).map(|link| json!({ "link": link, "active": reading(true.into()), "remote": "switch" })).collect();
    json!({
        "index": index,
        "bus_id": reading(format!("0000:{index:02x}:00.0").into()),
        "uuid": reading(format!("GPU-{index}000").into()),
        "name": reading("NVIDIA H100".into()),
        "nvlinks": links,
        "pcie_gen": reading(5.into()), "pcie_gen_max": reading(5.into()),
        "pcie_width": reading(16.into()), "pcie_width_max": reading(16.into()),
        "compute_mode": reading("default".into()),
        "mig": reading(false.into()),
        "persistence": reading(true.into()),
        "ecc_uncorrected": reading(0.into()),
        "remapped": reading(json!({ "corrected": 0, "uncorrected": 0, "pending": false, "failed": false })),
        "pages_pending": reading(false.into()),
        "throttle": reading(json!(["idle"])),
    })
}

/// A node of two GPUs and two InfiniBand ports, in a Slurm job, with nothing wrong.
fn good() -> Machine {
    let mut files: BTreeMap<String, Vec<u8>> = [
        (
            "proc/self/limits",
            "Limit                     Soft Limit           Hard Limit           Units\n\
             Max stack size            8388608              unlimited            bytes\n\
             Max open files            65536                65536                files\n\
             Max locked memory         unlimited            unlimited            bytes\n",
        ),
        ("proc/self/mounts", "tmpfs /dev/shm tmpfs rw,nosuid,size=67108864k 0 0\n"),
        ("proc/self/status", "Name:\tx\nCpus_allowed_list:\t0-7\n"),
        ("proc/meminfo", "MemTotal:       134217728 kB\nMemAvailable:   134217728 kB\n"),
        ("proc/modules", "nvidia_peermem 16384 0 - Live 0x0\nib_uverbs 1 0 - Live 0x0\n"),
        ("proc/cmdline", "root=/dev/sda1\n"),
        ("proc/sys/kernel/osrelease", "5.15.0-91-generic\n"),
        ("proc/sys/kernel/numa_balancing", "0\n"),
        ("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15  Thu\n"),
        ("proc/driver/nvidia/gpus/0000:01:00.0/information", "x\n"),
        ("sys/devices/system/cpu/online", "0-15\n"),
        ("sys/class/net/lo/operstate", "unknown\n"),
        ("sys/class/net/lo/ifindex", "1\n"),
        ("sys/class/net/eth0/operstate", "up\n"),
        ("sys/class/net/eth0/ifindex", "2\n"),
        ("proc/net/route", "Iface\tDestination\neth0\t00000000\n"),
        ("etc/systemd/logind.conf", "[Login]\nRemoveIPC=no\n"),
        ("dev/infiniband/uverbs0", ""),
        ("sys/bus/pci/devices/0000:00:01.0/class", "0x060400\n"),
    ]
    .map(|(path, text)| (path.to_owned(), text.as_bytes().to_vec()))
    .into();
    for device in ["mlx5_0", "mlx5_1"] {
        port(&mut files, device, "InfiniBand", "4: ACTIVE", "400 Gb/sec (4X NDR)");
    }
    files.insert("sys/bus/pci/devices/0000:00:01.0/config".into(), bridge(0));
    Machine {
        files,
        nvml: json!({ "driver": reading("570.86.15".into()), "gpus": [gpu(0), gpu(1)] }),
        env: [
            ("HOME", "/root"),
            ("SLURM_JOB_ID", "7"),
            ("SLURM_CPUS_PER_TASK", "8"),
            ("SLURM_KILL_BAD_EXIT", "1"),
            ("SLURM_MEM_PER_NODE", "0"),
            ("SLURM_EXPORT_ENV", "ALL"),
            ("NCCL_IB_HCA", "=mlx5_0,mlx5_1"),
            ("NCCL_SOCKET_IFNAME", "=eth0"),
        ]
        .map(|(name, value)| (name, value.to_owned()))
        .into(),
        nccl: 22803,
    }
}

fn port(files: &mut BTreeMap<String, Vec<u8>>, device: &str, link: &str, state: &str, rate: &str) {
    for (file, text) in [("link_layer", link), ("state", state), ("rate", rate)] {
        files.insert(format!("sys/class/infiniband/{device}/ports/1/{file}"), format!("{text}\n").into_bytes());
    }
}

/// The configuration space of a bridge with an ACS capability behind another one.
fn bridge(control: u16) -> Vec<u8> {
    let mut config = vec![0; 4096];
    config[0x100..0x104].copy_from_slice(&(0x1401_u32 << 16 | 0x0001).to_le_bytes());
    config[0x140..0x144].copy_from_slice(&0x0001_000d_u32.to_le_bytes());
    config[0x146..0x148].copy_from_slice(&control.to_le_bytes());
    config
}

impl Machine {
    fn file(&mut self, path: &str, text: &str) {
        self.files.insert(path.to_owned(), text.as_bytes().to_vec());
    }

    fn set(&mut self, name: &'static str, value: &str) {
        self.env.insert(name, value.to_owned());
    }

    fn gpu(&mut self, name: &str, value: Value) {
        self.nvml["gpus"][1][name] = reading(value);
    }

    /// So many of the four NVLinks of each GPU work, to what is at their other end.
    fn nvlinks(&mut self, up: [usize; 2], remote: &str) {
        for (gpu, up) in up.into_iter().enumerate() {
            for (number, link) in
                self.nvml["gpus"][gpu]["nvlinks"].as_array_mut().expect("links").iter_mut().enumerate()
            {
                link["active"] = reading((number < up).into());
                link["remote"] = remote.into();
            }
        }
    }

    /// The open kernel modules, with which dma-buf works.
    fn open_modules(&mut self) {
        self.edit("proc/driver/nvidia/version", "UNIX x86_64", "UNIX Open Kernel Module for x86_64");
    }

    /// A Slurm that says this of KillOnBadExit, and nothing in the environment that does.
    fn scontrol(&mut self, script: &str) {
        self.env.remove("SLURM_KILL_BAD_EXIT");
        self.set("PATH", "/opt/slurm/bin:/usr/bin:/bin");
        self.file("opt/slurm/bin/scontrol", &format!("#!/bin/sh\n{script}\n"));
    }

    /// GPUs of a multi-node NVLink cluster.
    fn cluster(&mut self) {
        for gpu in 0..2 {
            let fabric = json!({ "state": "completed", "cluster": "00000000000000000000000000000007", "clique": 1 });
            self.nvml["gpus"][gpu]["fabric"] = reading(fabric);
        }
    }

    /// Replaces a word in a file.
    fn edit(&mut self, path: &str, from: &str, to: &str) {
        let text = String::from_utf8(self.files[path].clone()).expect("text");
        assert!(text.contains(from), "{path} has no {from}");
        self.file(path, &text.replace(from, to));
    }

    /// Writes it to `folder`; the arguments that examine it.
    fn write(&self, folder: &Path) -> Vec<String> {
        let (root, nvml) = (folder.join("root"), folder.join("nvml.json"));
        for (path, bytes) in &self.files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
            fs::write(&path, bytes).expect("a file");
            if path.ends_with("bin/scontrol") {
                fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a program");
            }
        }
        fs::write(&nvml, self.nvml.to_string()).expect("a file");
        let path = |path: PathBuf| path.to_string_lossy().into_owned();
        let mut arguments: Vec<String> = ["doctor", "--json", "--root"].map(str::to_owned).into();
        arguments.extend([path(root), "--nvml".into(), path(nvml)]);
        if self.nccl > 0 {
            arguments.extend(["--nccl-lib".into(), path(library(folder, self.nccl))]);
        }
        arguments
    }
}

/// What the libnccl reads: names that machines here set.
const NAMES: [&str; 31] = [
    "NCCL_ALGO",
    "NCCL_BUFFSIZE",
    "NCCL_CROSS_NIC",
    "NCCL_DEBUG",
    "NCCL_DEBUG_FILE",
    "NCCL_DEBUG_SUBSYS",
    "NCCL_DMABUF_ENABLE",
    "NCCL_GRAPH_DUMP_FILE",
    "NCCL_HOSTID",
    "NCCL_IB_GID_INDEX",
    "NCCL_IB_HCA",
    "NCCL_IGNORE_NET_MISMATCH",
    "NCCL_MAX_CTAS",
    "NCCL_MAX_NCHANNELS",
    "NCCL_MIN_CTAS",
    "NCCL_MIN_NCHANNELS",
    "NCCL_MNNVL_ENABLE",
    "NCCL_NET",
    "NCCL_NET_GDR_LEVEL",
    "NCCL_NET_PLUGIN",
    "NCCL_NSOCKS_PERTHREAD",
    "NCCL_P2P_DISABLE",
    "NCCL_P2P_PXN_LEVEL",
    "NCCL_PXN_DISABLE",
    "NCCL_RUNTIME_CONNECT",
    "NCCL_SOCKET_FAMILY",
    "NCCL_SOCKET_IFNAME",
    "NCCL_SOCKET_NTHREADS",
    "NCCL_TOPO_DUMP_FILE",
    "NCCL_TOPO_FILE",
    "NCCL_TUNER_PLUGIN",
];

/// A libnccl that knows its version and names, and nothing else.
fn library(folder: &Path, version: i32) -> PathBuf {
    let (code, library) = (folder.join("nccl.c"), folder.join("libnccl.so.2"));
    let newer = (version >= 23000).then_some("NCCL_MULTI_RANK_GPU_ENABLE");
    let names: String = NAMES.iter().copied().chain(newer).map(|name| format!("\"{name}\",")).collect();
    let source =
        format!("const char *n[] = {{{names}}};\nint ncclGetVersion(int *v) {{ *v = {version}; return 0; }}\n");
    fs::write(&code, source).expect("written");
    let compiled = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&code).status();
    assert!(compiled.expect("cc").success());
    library
}

/// Verdict by check.
fn verdicts(ended: &Ended) -> BTreeMap<String, Vec<(String, String)>> {
    let report: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{ended:?}"));
    let mut all: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for row in report["checks"].as_array().expect("checks") {
        let word = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
        let said = format!("{}{}", word("evidence"), word("reason"));
        all.entry(word("id")).or_default().push((word("verdict"), said));
    }
    all
}

fn findings(ended: &Ended) -> BTreeSet<String> {
    let bad = |verdict: &str| ["warning", "failure"].contains(&verdict);
    verdicts(ended).into_iter().filter(|(_, rows)| rows.iter().any(|(v, _)| bad(v))).map(|(id, _)| id).collect()
}

/// Examines one machine alone.
fn examine(machine: &Machine) -> Ended {
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = machine.write(folder.path());
    run(alone(folder.path()).args(arguments).envs(&machine.env))
}

type Spoil = fn(&mut Machine);

/// Each check, what spoils the good machine for it, and the checks that find that too.
const SPOILED: &[(&str, Spoil, &[&str])] = &[
    ("lib.driver", |m| drop(m.files.remove("proc/driver/nvidia/version")), &[]),
    ("lib.nvml", |m| m.nvml = json!("no inventory"), &[]),
    ("lib.plugin", |m| m.set("NCCL_NET_PLUGIN", "nowhere"), &[]),
    ("lib.plugin", |m| m.set("NCCL_NET_PLUGIN", "/opt/nowhere/libnccl-net.so"), &[]),
    ("mpi.world", |m| m.set("SLURM_STEP_NUM_TASKS", "4"), &[]),
    ("mpi.world", |m| m.set("PMI_SIZE", "4"), &[]),
    ("gdr.module", |m| m.file("proc/modules", "nvidia 1 0 - Live 0x0\n"), &[]),
    ("gdr.module-name", |m| m.nccl = 22203, &[]),
    (
        "host.memlock",
        |m| m.edit("proc/self/limits", "locked memory         unlimited", "locked memory         65536    "),
        &[],
    ),
    ("host.nofile", |m| m.edit("proc/self/limits", "65536  ", "1024   "), &[]),
    ("host.stack", |m| m.edit("proc/self/limits", "8388608  ", "unlimited"), &[]),
    ("host.shm", |m| m.edit("proc/self/mounts", "67108864k", "65536k"), &[]),
    ("host.cpus", |m| m.edit("proc/self/status", "0-7", "3"), &["slurm.cpus-per-task"]),
    ("host.numa-balancing", |m| m.file("proc/sys/kernel/numa_balancing", "1\n"), &[]),
    ("host.remove-ipc", |m| m.edit("etc/systemd/logind.conf", "=no", "=yes"), &[]),
    ("host.iommu", |m| m.file("sys/kernel/iommu_groups/0/type", "DMA\n"), &[]),
    ("host.acs", |m| drop(m.files.insert("sys/bus/pci/devices/0000:00:01.0/config".into(), bridge(0x1d))), &[]),
    (
        "host.acs",
        |m| {
            m.files.insert("sys/bus/pci/devices/0000:00:01.0/config".into(), bridge(0x1d));
            conventional(m, 256);
        },
        &[],
    ),
    (
        "host.container",
        |m| {
            m.file(".dockerenv", "");
            m.files.remove("dev/infiniband/uverbs0");
        },
        &["net.verbs"],
    ),
    ("gpu.lost", |m| m.nvml["gpus"][1]["bus_id"] = json!({ "value": null, "why": "GPU is lost" }), &[]),
    ("gpu.count", |m| m.set("CUDA_VISIBLE_DEVICES", ""), &[]),
    ("gpu.compute-mode", |m| m.gpu("compute_mode", "exclusive process".into()), &[]),
    ("gpu.mig", |m| m.gpu("mig", true.into()), &[]),
    ("gpu.ecc", |m| m.gpu("ecc_uncorrected", 3.into()), &[]),
    ("gpu.remap", |m| m.gpu("remapped", json!({ "failed": true })), &[]),
    ("gpu.pages", |m| m.gpu("pages_pending", true.into()), &[]),
    ("gpu.nvlink", |m| m.nvml["gpus"][1]["nvlinks"][2]["active"] = reading(false.into()), &[]),
    ("gpu.nvlink", |m| m.nvlinks([4, 3], "gpu"), &[]),
    ("gpu.nvlink", |m| m.nvlinks([3, 3], "switch"), &[]),
    ("gpu.nvlink", |m| drop(m.nvml["gpus"][1]["nvlinks"].as_array_mut().expect("links").pop()), &[]),
    ("gpu.same", |m| m.gpu("name", "NVIDIA A100".into()), &[]),
    ("gpu.count", |m| m.set("CUDA_VISIBLE_DEVICES", "0,0"), &[]),
    ("gpu.imex", |m| m.cluster(), &[]),
    ("gpu.throttle", |m| m.gpu("throttle", json!(["hardware thermal slowdown"])), &[]),
    ("gpu.pcie-width", |m| m.gpu("pcie_width", 8.into()), &[]),
    (
        "gpu.pcie-gen",
        |m| {
            m.gpu("pcie_gen", 3.into());
            m.gpu("throttle", json!([]));
        },
        &[],
    ),
    ("gpu.persistence", |m| m.gpu("persistence", false.into()), &[]),
    ("net.port-down", |m| m.file("sys/class/infiniband/mlx5_1/ports/1/state", "1: DOWN\n"), &[]),
    ("net.port-rate", |m| m.file("sys/class/infiniband/mlx5_1/ports/1/rate", "200 Gb/sec (4X HDR)\n"), &[]),
    ("net.verbs", |m| drop(m.files.remove("dev/infiniband/uverbs0")), &[]),
    (
        "net.gid",
        |m| {
            for device in ["mlx5_0", "mlx5_1"] {
                port(&mut m.files, device, "Ethernet", "4: ACTIVE", "400 Gb/sec");
                m.file(&format!("sys/class/infiniband/{device}/ports/1/gids/1"), "fe80:0000::1\n");
                m.file(&format!("sys/class/infiniband/{device}/ports/1/gid_attrs/types/1"), "IB/RoCE v1\n");
            }
            m.set("NCCL_IB_GID_INDEX", "1");
        },
        &[],
    ),
    ("net.hca", |m| m.set("NCCL_IB_HCA", "=mlx5_7"), &[]),
    (
        "net.mixed-ports",
        |m| {
            port(&mut m.files, "mlx5_bond_0", "Ethernet", "4: ACTIVE", "400 Gb/sec");
            m.env.remove("NCCL_IB_HCA");
        },
        &[],
    ),
    ("net.ifname", |m| m.set("NCCL_SOCKET_IFNAME", "eno1"), &["net.interface"]),
    (
        "net.interface",
        |m| {
            m.file("sys/class/net/eth0/operstate", "down\n");
        },
        &[],
    ),
    ("slurm.cpus-per-task", |m| m.set("SLURM_CPUS_PER_TASK", "16"), &[]),
    ("slurm.leaked", |m| m.set("SLURM_TRES_PER_TASK", "cpu=2"), &[]),
    ("slurm.gpu-bind", |m| m.set("SLURM_GPUS_PER_TASK", "1"), &[]),
    ("slurm.kill", |m| m.set("SLURM_KILL_BAD_EXIT", "0"), &[]),
    ("slurm.kill", |m| m.scontrol("echo 'KillOnBadExit           = 0'"), &[]),
    ("slurm.memory", |m| m.set("SLURM_MEM_PER_NODE", "4096"), &[]),
    (
        "slurm.memory",
        |m| {
            m.env.remove("SLURM_MEM_PER_NODE");
            m.set("SLURM_MEM_PER_CPU", "512");
            m.set("SLURM_CPUS_ON_NODE", "8");
        },
        &[],
    ),
    ("slurm.export", |m| m.set("SLURM_EXPORT_ENV", "NONE"), &[]),
];

/// The same for checks that look at several processes: what the second of two ranks has.
const SPOILED_TOGETHER: &[(&str, Spoil, &[&str])] = &[
    ("lib.driver-same", |m| m.edit("proc/driver/nvidia/version", "570.86.15", "565.57.01"), &[]),
    ("lib.nccl-same", |m| m.nccl = 22704, &[]),
    (
        "lib.plugin-same",
        |m| {
            m.set("LD_LIBRARY_PATH", "/opt/plugin");
            m.file("opt/plugin/libnccl-net.so", "");
        },
        &[],
    ),
    ("gdr.module-same", |m| m.file("proc/modules", "nvidia 1 0 - Live 0x0\n"), &["gdr.module"]),
    ("gpu.siblings", |m| m.set("CUDA_VISIBLE_DEVICES", "1"), &[]),
    ("gpu.same", |m| drop(m.nvml["gpus"].as_array_mut().expect("GPUs").pop()), &["gpu.siblings"]),
    (
        "gpu.nvlink-same",
        |m| (0..2).for_each(|gpu| drop(m.nvml["gpus"][gpu]["nvlinks"].as_array_mut().expect("links").pop())),
        &[],
    ),
    (
        "net.ports-same",
        |m| {
            port(&mut m.files, "mlx5_2", "InfiniBand", "4: ACTIVE", "400 Gb/sec");
            m.set("NCCL_IB_HCA", "=mlx5_0,mlx5_1,mlx5_2");
        },
        &[],
    ),
    ("net.ports-same", |m| m.file("sys/class/infiniband/mlx5_1/ports/1/state", "1: DOWN\n"), &["net.port-down"]),
    (
        "net.interface-same",
        |m| {
            m.file("sys/class/net/eth1/operstate", "up\n");
            m.file("proc/net/route", "Iface\tDestination\neth1\t00000000\n");
            m.set("NCCL_SOCKET_IFNAME", "=eth1");
        },
        &[],
    ),
    (
        "net.family-same",
        |m| {
            m.file("proc/net/route", "Iface\tDestination\n");
            m.file("proc/net/if_inet6", "fd000000000000000000000000000001 02 40 00 80 eth0\n");
        },
        &[],
    ),
    (
        "net.family-same",
        |m| {
            m.file("proc/net/route", "Iface\tDestination\n");
            m.file("proc/net/if_inet6", LINKS_OWN);
        },
        &[],
    ),
    ("env.same", |m| m.set("NCCL_PXN_DISABLE", "1"), &[]),
];

/// An address that reaches no further than the cable, on each interface of these machines.
const LINKS_OWN: &str = "00000000000000000000000000000001 01 80 10 80 lo\n\
                         fe800000000000000000000000000001 02 40 20 80 eth0\n\
                         fe800000000000000000000000000002 03 40 20 80 ib0\n";

/// The map of users of a process that is in no namespace of its own.
const ALL_USERS: &str = "         0          0 4294967295\n";

/// A check, what makes it say more than that something is wrong, its verdict, and words of that. Where the verdict is good, no
/// other check finds anything either.
const SAID: &[(&str, Spoil, &str, &str)] = &[
    ("host.memlock", |m| may_pin_little(m, "000001ffffffffff", ALL_USERS), "ok", "CAP_IPC_LOCK"),
    ("host.memlock", |m| may_pin_little(m, "000001ffffffbfff", ALL_USERS), "failure", "64 KiB"),
    ("host.memlock", |m| may_pin_little(m, "000001ffffffffff", "0 1000 1\n"), "failure", "64 KiB"),
    ("host.remove-ipc", |m| logind(m, &[("etc", "[Login]\n RemoveIPC = False\n")]), "ok", "/etc/systemd/logind.conf)"),
    ("host.remove-ipc", |m| logind(m, &[("etc", "[Login]\nRemoveIPC=On\n")]), "warning", "=yes"),
    ("host.remove-ipc", |m| logind(m, &[("etc", "[Login]\nRemoveIPC=no\nRemoveIPC=maybe\n")]), "ok", "=no"),
    ("host.remove-ipc", |m| logind(m, &[("etc", "[Login]\n#RemoveIPC=no\n")]), "warning", "systemd's default"),
    ("host.remove-ipc", |m| logind(m, &[("etc", "RemoveIPC=no\n[Other]\nRemoveIPC=no\n")]), "warning", "default"),
    ("host.remove-ipc", |m| logind(m, &[("usr/lib", "[Login]\nRemoveIPC=0\n")]), "ok", "/usr/lib/systemd/logind.conf"),
    (
        "host.remove-ipc",
        |m| logind(m, &[("etc", "[Login]\n"), ("run", "[Login]\nRemoveIPC=0\n")]),
        "warning",
        "default",
    ),
    ("host.remove-ipc", |m| logind(m, &[]), "not_applicable", "no logind.conf"),
    // The last by name counts, wherever it is; of one name the one in /etc.
    (
        "host.remove-ipc",
        |m| beside_logind(m, "run", "20-site.conf", "no"),
        "ok",
        "/run/systemd/logind.conf.d/20-site.conf",
    ),
    (
        "host.remove-ipc",
        |m| beside_logind(m, "usr/lib", "20-site.conf", "no"),
        "ok",
        "/usr/lib/systemd/logind.conf.d/20",
    ),
    ("host.remove-ipc", |m| beside_logind(m, "etc", "00-site.conf", "no"), "warning", "10-here.conf"),
    (
        "host.remove-ipc",
        |m| beside_logind(m, "usr/lib", "10-here.conf", "no"),
        "warning",
        "/etc/systemd/logind.conf.d/10-",
    ),
    ("host.remove-ipc", |m| beside_logind(m, "etc", "20-site.bak", "no"), "warning", "10-here.conf"),
    ("host.remove-ipc", |m| release(m, "NAME=Rocky\nID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n"), "ok", "Red Hat"),
    ("host.remove-ipc", |m| release(m, "ID=rhel\n"), "ok", "Red Hat"),
    ("host.remove-ipc", |m| release(m, "ID=\"ol\"\nID_LIKE=\"fedora\"\n"), "ok", "Red Hat"),
    ("host.remove-ipc", |m| release(m, "ID=fedora\n"), "warning", "systemd's default"),
    ("host.remove-ipc", |m| release(m, "ID=ubuntu\nID_LIKE=debian\n"), "warning", "systemd's default"),
    ("host.remove-ipc", |m| of_user(m, "0", ALL_USERS), "ok", "the system's users"),
    ("host.remove-ipc", |m| of_user(m, "0", "0 1000 1\n"), "warning", "=yes"),
    ("host.remove-ipc", |m| of_user(m, "1000", ALL_USERS), "warning", "=yes"),
    ("host.container", |m| m.file("run/.containerenv", ""), "ok", "/run/.containerenv"),
    (
        "host.container",
        |m| m.file("proc/self/cgroup", "0::/system.slice/slurmstepd.scope/job_7\n"),
        "not_applicable",
        "no",
    ),
    ("host.container", |m| m.file("proc/self/cgroup", "0::/system.slice/docker.service\n"), "not_applicable", "no"),
    (
        "host.container",
        |m| m.file("proc/self/cgroup", "0::/kubepods.slice/kubepods-burstable.slice/cri-containerd-0a.scope\n"),
        "ok",
        "kubepods.slice",
    ),
    (
        "host.container",
        |m| m.file("proc/self/cgroup", "3:cpu,cpuacct:/kubepods/besteffort/pod0a/0b\n1:name=systemd:/kubepods/0b\n"),
        "ok",
        "besteffort",
    ),
    ("host.container", |m| m.file("proc/self/cgroup", "2:pids:/docker/0a0b\n"), "ok", "/docker/0a0b"),
    (
        "host.container",
        |m| {
            m.file("proc/self/cgroup", "0::/\n");
            m.file(
                "proc/self/mountinfo",
                "812 790 259:1 /var/lib/kubelet/pods/0a/etc-hosts /etc/hosts rw,relatime - ext4 /dev/sda1 rw\n",
            );
        },
        "ok",
        "kubelet",
    ),
    ("host.iommu", |m| behind_iommu(m, "identity\n"), "ok", "0000:01:00.0"),
    ("host.iommu", |m| behind_iommu(m, "DMA-FQ\n"), "warning", "mlx5_0 (DMA-FQ)"),
    ("host.iommu", |m| m.file("sys/kernel/iommu_groups/0/type", "identity\n"), "ok", "all groups"),
    ("host.iommu", |m| grouped(m, "ro iommu=pt quiet\n"), "ok", "iommu=pt"),
    ("host.iommu", |m| grouped(m, "iommu.passthrough=1\n"), "ok", "iommu.passthrough=1"),
    ("host.iommu", |m| grouped(m, "iommu.passthrough=0\n"), "warning", "not told"),
    ("host.acs", |m| conventional(m, 256), "ok", "no bridge redirects"),
    ("host.acs", |m| conventional(m, 64), "not_applicable", "only root"),
    ("net.port-down", |m| beside(m, "InfiniBand", "1: DOWN"), "ok", "2 ports"),
    ("net.port-down", |m| second_port(m, "1: DOWN", "=mlx5_0:1,mlx5_1:1"), "ok", "2 ports"),
    ("net.port-down", |m| second_port(m, "1: DOWN", "=mlx5_0,mlx5_1"), "warning", "mlx5_1:2"),
    ("net.port-down", |m| second_port(m, "1: DOWN", "=mlx5_1:2"), "failure", "mlx5_1:2"),
    ("net.port-rate", |m| beside(m, "InfiniBand", "4: ACTIVE"), "ok", "one rate"),
    (
        "net.gid",
        |m| {
            beside(m, "Ethernet", "4: ACTIVE");
            m.set("NCCL_IB_GID_INDEX", "3");
        },
        "not_applicable",
        "no active RoCE port",
    ),
    ("net.mixed-ports", |m| beside(m, "Ethernet", "4: ACTIVE"), "ok", "chooses"),
    (
        "net.mixed-ports",
        |m| {
            beside(m, "Ethernet", "4: ACTIVE");
            m.set("NCCL_IB_HCA", "^=mlx5_0");
        },
        "warning",
        "mlx5_9",
    ),
    ("net.hca", |m| m.set("NCCL_IB_HCA", "=mlx5_0:1,mlx5_1:1"), "ok", "mlx5_0:1"),
    ("net.hca", |m| m.set("NCCL_IB_HCA", "=mlx5_0:1,mlx5_1:2"), "warning", "no mlx5_1:2"),
    ("net.hca", |m| m.set("NCCL_IB_HCA", "=mlx5_0:2,mlx5_1:2"), "failure", "mlx5_0:1"),
    ("net.hca", |m| m.set("NCCL_IB_HCA", "^mlx5"), "failure", "leaves none"),
    ("net.hca", |m| without_adapters(m, "^=mlx5_9"), "not_applicable", "to leave out"),
    ("net.hca", |m| without_adapters(m, "=mlx5_0"), "failure", "no RDMA device"),
    ("net.interface", |m| m.set("NCCL_SOCKET_IFNAME", "^docker"), "warning", "takes lo"),
    ("net.interface", |m| m.set("NCCL_SOCKET_IFNAME", "^docker,lo"), "ok", "eth0"),
    ("net.interface", |m| m.set("NCCL_SOCKET_IFNAME", "=lo"), "ok", "one node"),
    ("net.interface", |m| m.set("NCCL_SOCKET_IFNAME", "^"), "ok", "eth0"),
    ("net.interface", |m| interfaces(m, "3", "4"), "ok", "eno2, IPv4"),
    ("net.interface", |m| interfaces(m, "4", "3"), "ok", "ens1, IPv4"),
    (
        "net.interface",
        |m| {
            interfaces(m, "3", "4");
            m.file("proc/net/route", "Iface\tDestination\nens1\t00000000\n");
            m.file("proc/net/if_inet6", "fe800000000000000000000000000001 03 40 20 80 eno2\n");
        },
        "ok",
        "ens1, IPv4",
    ),
    (
        "net.interface",
        |m| {
            m.file("proc/net/if_inet6", LINKS_OWN);
            m.set("NCCL_SOCKET_FAMILY", "AF_INET6");
        },
        "ok",
        "eth0, IPv6",
    ),
];

/// logind.conf in these places, and no other.
fn logind(m: &mut Machine, texts: &[(&str, &str)]) {
    m.files.remove("etc/systemd/logind.conf");
    for (place, text) in texts {
        m.file(&format!("{place}/systemd/logind.conf"), text);
    }
}

/// A file beside logind.conf, and one in /etc that says yes.
fn beside_logind(m: &mut Machine, place: &str, name: &str, word: &str) {
    m.file("etc/systemd/logind.conf.d/10-here.conf", "[Login]\nRemoveIPC=yes\n");
    m.file(&format!("{place}/systemd/logind.conf.d/{name}"), &format!("[Login]\nRemoveIPC={word}\n"));
}

/// A distribution whose logind.conf sets nothing.
fn release(m: &mut Machine, text: &str) {
    logind(m, &[("etc", "[Login]\n#RemoveIPC=\n")]);
    m.file("etc/os-release", text);
}

/// RemoveIPC, and the user of the process.
fn of_user(m: &mut Machine, user: &str, users: &str) {
    logind(m, &[("etc", "[Login]\nRemoveIPC=yes\n")]);
    m.edit("proc/self/status", "Name:\tx\n", &format!("Name:\tx\nUid:\t{user}\t{user}\t{user}\t{user}\n"));
    m.file("proc/self/uid_map", users);
}

/// An IOMMU, and the type of the group of the GPU and of both adapters.
fn behind_iommu(m: &mut Machine, kind: &str) {
    let gpu = "sys/bus/pci/devices/0000:01:00.0";
    m.file(&format!("{gpu}/vendor"), "0x10de\n");
    m.file(&format!("{gpu}/class"), "0x030200\n");
    for device in [gpu, "sys/class/infiniband/mlx5_0/device", "sys/class/infiniband/mlx5_1/device"] {
        m.file(&format!("{device}/iommu_group/type"), kind);
    }
    // A device of no interest.
    m.file("sys/kernel/iommu_groups/9/type", "DMA-FQ\n");
}

/// An IOMMU of which only the kernel's command line says what it does.
fn grouped(m: &mut Machine, cmdline: &str) {
    m.file("sys/kernel/iommu_groups/0/devices/0000:00:01.0", "");
    m.file("proc/cmdline", cmdline);
}

/// Bridges before and behind the good one, of which so many bytes can be read.
fn conventional(m: &mut Machine, bytes: usize) {
    for bridge in ["sys/bus/pci/devices/0000:00:00.0", "sys/bus/pci/devices/0000:00:1e.0"] {
        m.file(&format!("{bridge}/class"), "0x060401\n");
        m.files.insert(format!("{bridge}/config"), vec![0; bytes]);
    }
}

/// Little memory to pin; capabilities and a map of users.
fn may_pin_little(m: &mut Machine, capabilities: &str, users: &str) {
    m.edit("proc/self/limits", "locked memory         unlimited", "locked memory         65536    ");
    m.edit("proc/self/status", "Name:\tx\n", &format!("Name:\tx\nCapEff:\t{capabilities}\n"));
    m.file("proc/self/uid_map", users);
}

/// An adapter that NCCL_IB_HCA does not name, slower than those that it names.
fn beside(m: &mut Machine, link: &str, state: &str) {
    port(&mut m.files, "mlx5_9", link, state, "100 Gb/sec");
}

/// A second port on mlx5_1.
fn second_port(m: &mut Machine, state: &str, hca: &str) {
    for (file, text) in [("link_layer", "InfiniBand"), ("state", state), ("rate", "400 Gb/sec")] {
        m.file(&format!("sys/class/infiniband/mlx5_1/ports/2/{file}"), text);
    }
    m.set("NCCL_IB_HCA", hca);
}

fn without_adapters(m: &mut Machine, hca: &str) {
    m.files.retain(|path, _| !path.contains("infiniband"));
    m.set("NCCL_IB_HCA", hca);
}

/// Two interfaces instead of eth0, by the number that the kernel gave them, and nobody names one.
fn interfaces(m: &mut Machine, eno2: &str, ens1: &str) {
    m.files.retain(|path, _| !path.contains("eth0"));
    for (name, number) in [("eno2", eno2), ("ens1", ens1)] {
        m.file(&format!("sys/class/net/{name}/operstate"), "up\n");
        m.file(&format!("sys/class/net/{name}/ifindex"), number);
    }
    m.file("proc/net/route", "Iface\tDestination\neno2\t00000000\nens1\t00000000\n");
    m.env.remove("NCCL_SOCKET_IFNAME");
}

/// An interface of InfiniBand's that nobody gave an address, and nobody names an interface.
fn ipoib(m: &mut Machine) {
    m.file("sys/class/net/ib0/operstate", "up\n");
    m.file("proc/net/if_inet6", LINKS_OWN);
    m.env.remove("NCCL_SOCKET_IFNAME");
}

/// What looks like a fault and is none: the check that has to say so, and a word of what it says.
const NO_FAULT: &[(&str, Spoil, &str)] = &[
    ("gpu.nvlink", |m| m.nvlinks([0, 0], "unknown"), "no NVLink is up"),
    ("gpu.nvlink", |m| m.nvlinks([2, 2], "gpu"), "2 of 4"),
    ("gpu.count", |m| m.set("CUDA_VISIBLE_DEVICES", "MIG-8a5b7c2e-0000-0000-0000-000000000001"), "1 GPU"),
    ("gpu.count", |m| m.set("CUDA_VISIBLE_DEVICES", "MIG-GPU-1000/1/0"), "1 GPU"),
    (
        "gpu.imex",
        |m| {
            m.cluster();
            m.file("dev/nvidia-caps-imex-channels/channel3", "");
        },
        "channel3",
    ),
    (
        "gpu.imex",
        |m| {
            m.cluster();
            m.set("NCCL_MNNVL_ENABLE", "0");
        },
        "NCCL_MNNVL_ENABLE=0",
    ),
    // The driver makes room for channels on every machine.
    ("gpu.imex", |m| m.file("proc/devices", "242 nvidia-caps-imex-channels\n"), "no GPU is in"),
    (
        "gdr.module",
        |m| {
            m.open_modules();
            m.file("proc/modules", "nvidia 1 0 - Live 0x0\n");
        },
        "dma-buf",
    ),
    (
        "gdr.module-name",
        |m| {
            m.open_modules();
            m.nccl = 22203;
        },
        "dma-buf",
    ),
    (
        "lib.plugin",
        |m| {
            m.set("NCCL_NET_PLUGIN", "/opt/x/libfoo.so");
            m.file("opt/x/libfoo.so", "");
        },
        "/opt/x/libfoo.so",
    ),
    (
        "lib.plugin",
        |m| {
            m.set("NCCL_NET_PLUGIN", "acme");
            m.file("usr/lib64/libnccl-net-acme.so", "");
        },
        "/usr/lib64/",
    ),
    (
        "lib.plugin",
        |m| {
            m.set("NCCL_NET_PLUGIN", "acme");
            m.file(
                "etc/ld.so.cache",
                "glibc-ld.so.cache1.1\x01\x02libnccl-net-acme.so\0/opt/acme/libnccl-net-acme.so\0",
            );
            m.file("opt/acme/libnccl-net-acme.so", "");
        },
        "/opt/acme/",
    ),
    ("slurm.kill", |m| m.scontrol("echo 'KillOnBadExit           = 1'"), "KillOnBadExit=1"),
    ("slurm.kill", |m| m.scontrol("echo no controller >&2; exit 1"), "no controller"),
    (
        "slurm.memory",
        |m| {
            m.env.remove("SLURM_MEM_PER_NODE");
            m.set("SLURM_MEM_PER_CPU", "0");
        },
        "all",
    ),
];

type Set = &'static [(&'static str, &'static str)];

/// Each rule of the audit, the settings that it finds, and what else its machine has.
const RULES: &[(&str, Set, Spoil)] = &[
    ("env.unknown-name", &[("NCCL_NOBODY_KNOWS_THIS_ONE", "1")], |_| ()),
    ("env.never-existed", &[("NCCL_PXN_LEVEL", "1")], |_| ()),
    ("env.pytorch", &[("NCCL_BLOCKING_WAIT", "1")], |_| ()),
    ("env.removed", &[("NCCL_RINGS", "0 1")], |_| ()),
    ("env.too-new", &[("NCCL_MULTI_RANK_GPU_ENABLE", "1")], |_| ()),
    ("env.elsewhere", &[("NCCL_DYNAMIC_CHUNK_SIZE", "1")], |_| ()),
    ("env.legacy", &[("NCCL_MIN_NCHANNELS", "4")], |_| ()),
    ("env.misread-integer", &[("NCCL_PXN_DISABLE", "true")], |_| ()),
    ("env.ignored-value", &[("NCCL_NET_GDR_LEVEL", "sys")], |_| ()),
    ("env.no-meaning", &[("NCCL_BUFFSIZE", "5000000")], |_| ()),
    ("env.unknown-word", &[("NCCL_SOCKET_FAMILY", "af_inet")], |_| ()),
    ("env.failing-word", &[("NCCL_ALGO", "Rings")], |_| ()),
    ("env.stray-characters", &[("NCCL_TOPO_FILE", "'/x.xml'")], |_| ()),
    ("env.empty", &[("NCCL_TOPO_FILE", "")], |_| ()),
    ("env.list-syntax", &[("NCCL_SOCKET_IFNAME", "^lo,^docker")], |_| ()),
    ("env.prefix-match", &[("NCCL_IB_HCA", "mlx5_1")], |m| {
        port(&mut m.files, "mlx5_10", "InfiniBand", "4: ACTIVE", "400 Gb/sec (4X NDR)")
    }),
    ("env.crashes", &[("NCCL_P2P_PXN_LEVEL", "1"), ("NCCL_RUNTIME_CONNECT", "0")], |_| ()),
    ("env.fails", &[("NCCL_NET", "")], |_| ()),
    ("env.silences-pxn", &[("NCCL_P2P_DISABLE", "1")], |_| ()),
    ("env.silences-rings", &[("NCCL_CROSS_NIC", "1")], |_| ()),
    ("env.no-effect", &[("NCCL_PXN_DISABLE", "1"), ("NCCL_P2P_PXN_LEVEL", "2")], |_| ()),
    ("env.min-above-max", &[("NCCL_MIN_CTAS", "32"), ("NCCL_MAX_CTAS", "8")], |_| ()),
    ("env.too-many-sockets", &[("NCCL_SOCKET_NTHREADS", "8"), ("NCCL_NSOCKS_PERTHREAD", "9")], |_| ()),
    ("env.ignore-net-mismatch", &[("NCCL_IGNORE_NET_MISMATCH", "1")], |_| ()),
    ("env.debug-output", &[("NCCL_DEBUG", "INFO")], |_| ()),
    ("env.debug-file-shared", &[("NCCL_DEBUG", "INFO"), ("NCCL_DEBUG_FILE", "/x.log")], |_| ()),
    (
        "env.subsystems-hidden",
        &[("NCCL_DEBUG", "INFO"), ("NCCL_DEBUG_FILE", "/x.%h.%p"), ("NCCL_DEBUG_SUBSYS", "NET")],
        |_| (),
    ),
    ("env.debug-left", &[("NCCL_GRAPH_DUMP_FILE", "/x.xml")], |_| ()),
    ("env.dead-line", &[], |m| m.file("etc/nccl.conf", "export NCCL_PXN_DISABLE=1\n")),
    ("env.file-overridden", &[], |m| m.file("etc/nccl.conf", "NCCL_SOCKET_IFNAME=eth7\n")),
];

#[test]
fn a_good_machine_has_nothing_wrong() {
    let ended = examine(&good()).expect_code(0);
    assert_eq!(findings(&ended), BTreeSet::new(), "{}", ended.stdout);
    let unread = verdicts(&ended).into_iter().filter(|(_, rows)| rows.iter().any(|(v, _)| v == "not_applicable"));
    let unread: Vec<String> = unread.map(|(id, _)| id).filter(|id| !id.contains("same")).collect();
    // What needs several ranks, and settings that a good machine does not make.
    let expected = [
        "gpu.imex",
        "host.clock",
        "host.container",
        "host.cpus-shared",
        "lib.nccl-file",
        "lib.plugin",
        "net.gid",
        "net.mixed-ports",
    ];
    let own: Vec<&String> = unread.iter().filter(|id| !id.starts_with("env.") && !id.starts_with("mpi.")).collect();
    assert_eq!(own, expected);
}

#[test]
fn each_check_finds_what_it_is_for_and_nothing_else_does() {
    for (id, spoil, kin) in SPOILED {
        let mut machine = good();
        spoil(&mut machine);
        let found = findings(&examine(&machine));
        let expected: BTreeSet<String> = kin.iter().chain([id]).map(|id| (*id).to_owned()).collect();
        assert_eq!(found, expected, "{id}");
    }
}

#[test]
fn a_check_says_what_it_has_seen() {
    let mut wrong = Vec::new();
    for (at, (id, spoil, verdict, words)) in SAID.iter().enumerate() {
        let mut machine = good();
        spoil(&mut machine);
        let ended = examine(&machine);
        let rows = &verdicts(&ended)[*id];
        if !rows.iter().any(|(v, said)| v == verdict && said.contains(words)) {
            wrong.push(format!("{at}, {id}: {rows:?}"));
        } else if ["ok", "not_applicable"].contains(verdict) && !findings(&ended).is_empty() {
            wrong.push(format!("{at}, {id}: {:?} found", findings(&ended)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_missing_libnccl_is_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let machine = Machine { nccl: 0, ..good() };
    let mut arguments = machine.write(folder.path());
    arguments.extend(["--nccl-lib".into(), "/nowhere/libnccl.so.2".into()]);
    let ended = run(alone(folder.path()).args(arguments).envs(&machine.env)).expect_code(10);
    assert_eq!(findings(&ended), BTreeSet::from(["lib.nccl".to_owned()]));
    let old = Machine { nccl: 21000, ..good() };
    assert_eq!(findings(&examine(&old)), BTreeSet::from(["lib.nccl".to_owned()]), "one that a run would refuse");
}

#[test]
fn what_looks_like_a_fault_and_is_none_is_said() {
    let mut wrong = Vec::new();
    for (id, change, word) in NO_FAULT {
        let mut machine = good();
        change(&mut machine);
        let ended = examine(&machine);
        let (found, said) = (findings(&ended), verdicts(&ended).remove(*id).unwrap_or_default());
        if !found.is_empty() || !said.iter().any(|(_, words)| words.contains(word)) {
            wrong.push(format!("{id} should say '{word}': {said:?}, found {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_rule_of_the_audit_finds_what_it_is_for() {
    let mut wrong = Vec::new();
    for (id, settings, change) in RULES {
        let mut machine = good();
        settings.iter().for_each(|(name, value)| machine.set(name, value));
        change(&mut machine);
        let all = verdicts(&examine(&machine));
        let found = |rows: &[(String, String)]| {
            rows.iter()
                .any(|(verdict, said)| ["warning", "failure"].contains(&verdict.as_str()) || said.starts_with("note: "))
        };
        let found: BTreeSet<&str> = all.iter().filter(|(_, rows)| found(rows)).map(|(id, _)| id.as_str()).collect();
        if found != BTreeSet::from([*id]) {
            wrong.push(format!("{id}: {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let known: Vec<&str> = RULES.iter().map(|(id, ..)| *id).collect();
    assert_eq!(known, audit::CHECKS.iter().map(|rule| rule.id).collect::<Vec<_>>(), "one for each rule");
}

/// What is not sure is said, and is no failure.
#[test]
fn without_the_kernels_version_nobody_knows_whether_dma_buf_serves() {
    let mut machine = good();
    machine.open_modules();
    machine.nccl = 22203;
    machine.files.remove("proc/sys/kernel/osrelease");
    let said = verdicts(&examine(&machine)).remove("gdr.module-name").expect("it");
    assert!(said[0].0 == "warning" && said[0].1.contains("osrelease"), "{said:?}");
    // Settings and versions that rule it out.
    for change in [
        (|m| m.set("NCCL_DMABUF_ENABLE", "0")) as Spoil,
        |m| m.file("proc/sys/kernel/osrelease", "5.4.0\n"),
        |m| m.edit("proc/driver/nvidia/version", "570.86.15", "510.47.03"),
    ] {
        let mut machine = good();
        machine.open_modules();
        machine.nccl = 22203;
        change(&mut machine);
        assert_eq!(verdicts(&examine(&machine))["gdr.module-name"][0].0, "failure");
    }
}

#[test]
fn a_scontrol_that_hangs_holds_nothing_up() {
    let mut machine = good();
    machine.scontrol("exec sleep 100");
    let ended = examine(&machine);
    assert!(ended.took < Duration::from_secs(30), "{:?}", ended.took);
    let said = verdicts(&ended).remove("slurm.kill").expect("it");
    assert!(said[0].0 == "not_applicable" && said[0].1.contains("did not answer"), "{said:?}");
}

/// Two ranks, each on a machine of its own.
fn together(first: &Machine, second: &Machine, one_node: bool) -> Ended {
    ranks(&[first, second], one_node)
}

/// A rank on each machine.
fn ranks(machines: &[&Machine], one_node: bool) -> Ended {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = launcher(folder.path());
    for (rank, machine) in machines.iter().enumerate() {
        let own = folder.path().join(rank.to_string());
        fs::create_dir_all(&own).expect("a folder");
        let mut env: Vec<String> = machine.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
        if !one_node {
            env.push(format!("NCCL_HOSTID=n{rank}"));
        }
        command.args(if rank == 0 { &[] as &[&str] } else { &[":"] });
        command.args(["-np", "1", "env"]).args(env).arg(BINARY).args(machine.write(&own));
    }
    run(&mut command)
}

#[test]
fn differences_between_ranks_are_found() {
    if !has_mpi() {
        return;
    }
    // Their libnccl are two files on purpose.
    let always = || BTreeSet::from(["lib.nccl-file".to_owned()]);
    assert_eq!(findings(&together(&good(), &good(), false).expect_code(0)), always());
    for (id, spoil, kin) in SPOILED_TOGETHER {
        let mut other = good();
        spoil(&mut other);
        let one_node = ["gpu.siblings", "gpu.same"].contains(id);
        let found = findings(&together(&good(), &other, one_node));
        let expected: BTreeSet<String> = kin.iter().chain([id]).map(|id| (*id).to_owned()).chain(always()).collect();
        assert_eq!(found, expected, "{id}");
    }
    // mpirun's helpers are a step of their own, which the ranks inherit: no fault.
    let mut inherited = good();
    inherited.set("SLURM_STEP_NUM_TASKS", "1");
    assert_eq!(findings(&together(&inherited, &inherited, false)), always());
    // What both have.
    let both = |spoil: Spoil| {
        let mut machine = good();
        spoil(&mut machine);
        findings(&together(&machine, &machine, true))
    };
    assert!(both(|m| m.set("CUDA_VISIBLE_DEVICES", "0")).contains("gpu.shared"));
    assert!(both(|m| m.edit("proc/self/status", "0-7", "3")).contains("host.cpus-shared"));
}

/// A machine of four GPUs of which a rank sees some.
fn bound(devices: &str) -> Machine {
    let mut machine = good();
    machine.nvml["gpus"] = (0..4).map(gpu).collect();
    machine.set("CUDA_VISIBLE_DEVICES", devices);
    machine
}

#[test]
fn the_gpus_of_a_node_are_those_of_all_its_ranks() {
    if !has_mpi() {
        return;
    }
    let judged = |devices: &[&str], change: Spoil| {
        let mut machines: Vec<Machine> = devices.iter().map(|devices| bound(devices)).collect();
        machines.iter_mut().for_each(change);
        let ended = ranks(&machines.iter().collect::<Vec<_>>(), true);
        let all = verdicts(&ended);
        ["gpu.count", "gpu.siblings", "gpu.shared"].map(|id| (all[id][0].0.clone(), all[id][0].1.clone()))
    };
    let verdict = |devices: &[&str], change: Spoil| judged(devices, change).map(|(verdict, _)| verdict);
    let nothing: Spoil = |_| ();
    assert_eq!(verdict(&["0,1", "0,1", "2,3", "2,3"], nothing), ["ok", "warning", "ok"], "two for each pair");
    assert_eq!(verdict(&["0,1", "2,3"], nothing), ["ok", "warning", "ok"]);
    assert_eq!(verdict(&["0,1", "0,1", "0,1"], nothing), ["failure", "ok", "ok"]);
    assert_eq!(verdict(&["0,1", "0,1", "0,1", "2,3"], nothing), ["ok", "warning", "failure"]);
    assert_eq!(verdict(&["0", "GPU-0000"], nothing), ["ok", "ok", "failure"], "one GPU by number and by UUID");
    assert_eq!(verdict(&["0,1,2,3", "MIG-1", "MIG-1"], nothing)[2], "failure");
    assert_eq!(verdict(&["0,1,2,3", ""], nothing)[0], "failure");
    let shares: Spoil = |m| {
        m.nccl = 23007;
        m.set("NCCL_MULTI_RANK_GPU_ENABLE", "1");
    };
    let [count, _, shared] = judged(&["0,1", "0,1", "0,1"], shares);
    assert!(count.0 == "ok" && count.1.contains("NCCL_MULTI_RANK_GPU_ENABLE=1"), "{count:?}");
    assert!(shared.0 == "ok", "{shared:?}");
    let [_, _, shared] = judged(&["0", "0"], shares);
    assert!(shared.0 == "ok" && shared.1.contains("NCCL_MULTI_RANK_GPU_ENABLE=1"), "{shared:?}");
    let too_old: Spoil = |m| m.set("NCCL_MULTI_RANK_GPU_ENABLE", "1");
    assert_eq!(verdict(&["0", "0"], too_old)[2], "failure", "2.28 does not know it");
}

#[test]
fn what_may_differ_between_nodes_is_no_finding() {
    if !has_mpi() {
        return;
    }
    let always = BTreeSet::from(["lib.nccl-file".to_owned()]);
    let mut other = good();
    port(&mut other.files, "mlx5_0", "InfiniBand", "4: ACTIVE", "400 Gb/sec (4X NDR)");
    for (name, value) in [
        ("NCCL_IB_HCA", "=mlx5_1,mlx5_0"),
        ("NCCL_DEBUG_FILE", "/tmp/x.%h.%p"),
        ("NCCL_DEBUG", "WARN"),
        ("NCCL_TOPO_FILE", "/etc/topo.xml"),
    ] {
        other.set(name, value);
    }
    let ended = together(&good(), &other, false);
    assert_eq!(findings(&ended), always);
    let said = verdicts(&ended).remove("env.same").expect("it");
    assert!(said[0].0 == "ok" && said[0].1.contains("NCCL_TOPO_FILE") && said[0].1.contains("NCCL_IB_HCA"), "{said:?}");

    // Open modules: one rank with and one without nvidia-peermem.
    let (mut with, mut without) = (good(), good());
    with.open_modules();
    without.open_modules();
    without.file("proc/modules", "nvidia 1 0 - Live 0x0\n");
    let ended = together(&with, &without, false);
    assert_eq!(findings(&ended), always);
    assert!(verdicts(&ended)["gdr.module-same"][0].1.contains("dma-buf"), "{}", ended.stdout);

    // Nodes of one NVLink cluster without a channel: NCCL would fail, where a node by itself only might.
    let mut clustered = good();
    clustered.cluster();
    assert_eq!(verdicts(&together(&clustered, &clustered, false))["gpu.imex"][0].0, "failure");
    assert_eq!(verdicts(&together(&clustered, &clustered, true))["gpu.imex"][0].0, "warning");

    // Bridges over some GPUs of one node, none on the other's: a difference of nodes, not of siblings.
    let mut bridged = good();
    bridged.nvlinks([2, 2], "gpu");
    let mut bare = good();
    bare.nvlinks([0, 0], "unknown");
    let expected = always.iter().cloned().chain(["gpu.nvlink-same".to_owned()]).collect();
    assert_eq!(findings(&together(&bridged, &bare, false)), expected);
}

/// Two ranks of one job that differ in what one binary cannot differ in: the check is applied to what they would say.
#[test]
fn two_mpis_and_two_clocks_are_found() {
    let subject = |rank: u32, mpi: &str, clock: f64| Subject {
        rank,
        world: 2,
        host: format!("n{rank}"),
        node: rank,
        local: (0, 1),
        mpi: mpi.into(),
        nccl: Err("none".into()),
        settings: Settings::default(),
        audited: Vec::new(),
        not_audited: Vec::new(),
        clock,
        health: health::gather(Path::new("/nowhere"), &|_| None, None, None),
    };
    let verdict = |id: &str, second: Subject| {
        let rows = doctor::examine(&[subject(0, "Open MPI v4.1.4", 1e9), second]);
        let row = rows.into_iter().find(|row| row.id == id).expect("it");
        (row.verdict.word(), row.verdict.words().0.to_owned())
    };
    let (word, said) = verdict("mpi.same", subject(1, "Open MPI v5.0.3", 1e9));
    assert!(word == "FAILURE" && said.contains("v4.1.4 on n0") && said.contains("v5.0.3 on n1"), "{said}");
    assert_eq!(verdict("mpi.same", subject(1, "Open MPI v4.1.4", 1e9)).0, "ok");
    let (word, said) = verdict("host.clock", subject(1, "Open MPI v4.1.4", 1e9 - 7.25));
    assert!(word == "warning" && said.contains("7.25 s") && said.contains("n1"), "{said}");
    let (word, said) = verdict("host.clock", subject(1, "Open MPI v4.1.4", 1e9 + 0.5));
    assert!(word == "ok" && said.contains("0.5"), "{said}");
}

#[test]
fn ports_and_interfaces_of_two_nodes_are_those_that_nccl_takes() {
    if !has_mpi() {
        return;
    }
    let pair = |spoil: Spoil, spoil_other: Spoil| {
        let (mut first, mut second) = (good(), good());
        spoil(&mut first);
        spoil_other(&mut second);
        let ended = together(&first, &second, false);
        let said = verdicts(&ended);
        move |id: &str| said[id][0].clone()
    };
    let quiet: Spoil = |m| drop(m.env.remove("NCCL_SOCKET_IFNAME"));

    // What NCCL_IB_HCA leaves out may differ; other names are legal; a node without a port is not.
    assert_eq!(pair(|_| {}, |m| beside(m, "InfiniBand", "4: ACTIVE"))("net.ports-same").0, "ok");
    let all: Spoil = |m| drop(m.env.remove("NCCL_IB_HCA"));
    let more: Spoil = |m| {
        beside(m, "InfiniBand", "4: ACTIVE");
        m.env.remove("NCCL_IB_HCA");
    };
    assert_eq!(pair(all, more)("net.ports-same").0, "warning");
    let (verdict, said) = pair(|_| {}, |m| m.set("NCCL_IB_HCA", "=mlx5_7"))("net.ports-same");
    assert!(verdict == "failure" && said.contains("none on"), "{verdict}: {said}");
    let bare: Spoil = |m| without_adapters(m, "");
    assert_eq!(pair(bare, bare)("net.ports-same").0, "not_applicable");

    // ib0 comes first where nobody names an interface, with whatever address it has.
    let (verdict, said) = pair(quiet, ipoib)("net.family-same");
    assert!(verdict == "failure" && said.contains("IPv4") && said.contains("IPv6"), "{verdict}: {said}");
    let ipv4: Spoil = |m| m.set("NCCL_SOCKET_FAMILY", "AF_INET");
    let ipoib_ipv4: Spoil = |m| {
        ipoib(m);
        m.set("NCCL_SOCKET_FAMILY", "AF_INET");
    };
    assert_eq!(pair(ipv4, ipoib_ipv4)("net.family-same").0, "ok");
    let lo: Spoil = |m| m.set("NCCL_SOCKET_IFNAME", "^docker");
    assert_eq!(pair(lo, lo)("net.interface").0, "failure");
}

#[test]
fn what_a_rank_lacks_is_a_difference_and_what_nobody_knows_is_none() {
    if !has_mpi() {
        return;
    }
    let mut bare = good();
    bare.files.retain(|path, _| !path.contains("nvidia"));
    bare.nvml["gpus"] = json!([]);
    bare.nccl = 0;
    let found = findings(&together(&good(), &bare, false).expect_code(10));
    for id in ["lib.driver-same", "lib.nccl-same", "gpu.same"] {
        assert!(found.contains(id), "{id} in {found:?}");
    }
    let mut unknown = good();
    unknown.nvml = json!("no inventory");
    unknown.files.remove("proc/modules");
    let all = verdicts(&together(&unknown, &unknown, false));
    for id in ["gpu.same", "gpu.nvlink-same", "gdr.module-same"] {
        assert_eq!(all[id][0].0, "not_applicable", "{id}: {:?}", all[id]);
    }
}

#[test]
fn every_check_is_spoiled_by_some_machine() {
    let ended = examine(&good());
    let known: BTreeSet<&str> = SPOILED.iter().chain(SPOILED_TOGETHER).map(|(id, _, _)| *id).collect();
    // Tested apart, above.
    let apart = ["gpu.shared", "host.clock", "host.cpus-shared", "lib.nccl", "lib.nccl-file", "mpi.same"];
    let is_rule = |id: &String| audit::CHECKS.iter().any(|rule| rule.id == id);
    let ids = verdicts(&ended).into_keys();
    let left: Vec<String> = ids
        .filter(|id| !known.contains(id.as_str()) && !apart.contains(&id.as_str()))
        .filter(|id| !is_rule(id))
        .collect();
    assert_eq!(left, [] as [&str; 0]);
    assert!(verdicts(&ended).len() >= 40);
}

#[test]
fn the_report_says_where_why_and_what_to_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut machine = good();
    machine.set("NCCL_PXN_DISABLE", "true");
    machine.edit("proc/self/mounts", "67108864k", "65536k");
    let arguments: Vec<String> = machine.write(folder.path()).into_iter().filter(|word| word != "--json").collect();
    let ended = run(alone(folder.path()).args(&arguments).envs(&machine.env)).expect_code(10);
    for words in [
        "FAILURE  host.shm",
        "/dev/shm holds 64",
        "--shm-size",
        "env.misread-integer",
        "setting  NCCL_PXN_DISABLE=true",
    ] {
        assert!(ended.stdout.contains(words), "{words} is missing in\n{}", ended.stdout);
    }
    assert!(
        ended.stdout.lines().last().expect("a line").starts_with("not ready: 1 failure, 1 warning, "),
        "{}",
        ended.stdout
    );

    machine.edit("proc/self/mounts", "65536k", "67108864k");
    let arguments: Vec<String> = machine.write(folder.path()).into_iter().filter(|word| word != "--json").collect();
    run(alone(folder.path()).args(&arguments).envs(&machine.env)).expect_code(0);
    run(alone(folder.path()).args(&arguments).arg("--strict").envs(&machine.env)).expect_code(10);
}
