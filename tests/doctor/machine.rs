//! Machines made of files, and what the binary says of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};

use super::common::{Ended, alone, run};

/// A machine: files below a root, NVML's answers, the environment, and the libnccl it has.
pub(super) struct Machine {
    pub(super) files: BTreeMap<String, Vec<u8>>,
    pub(super) nvml: Value,
    pub(super) env: BTreeMap<&'static str, String>,
    pub(super) nccl: i32,
}

pub(super) fn reading(value: Value) -> Value {
    json!({ "value": value, "why": "" })
}

pub(super) fn gpu(index: u32) -> Value {
    let links: Vec<Value> = (0..4)
        .map(|link| json!({ "link": link, "active": reading(true.into()), "remote": "switch" }))
        .collect();
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
pub(super) fn good() -> Machine {
    let mut files: BTreeMap<String, Vec<u8>> = [
        (
            "proc/self/limits",
            "Limit                     Soft Limit           Hard Limit           Units\n\
             Max stack size            8388608              unlimited            bytes\n\
             Max open files            65536                65536                files\n\
             Max locked memory         unlimited            unlimited            bytes\n",
        ),
        (
            "proc/self/mounts",
            "tmpfs /dev/shm tmpfs rw,nosuid,size=67108864k 0 0\n",
        ),
        ("proc/self/status", "Name:\tx\nCpus_allowed_list:\t0-7\n"),
        (
            "proc/meminfo",
            "MemTotal:       134217728 kB\nMemAvailable:   134217728 kB\n",
        ),
        (
            "proc/modules",
            "nvidia_peermem 16384 0 - Live 0x0\nib_uverbs 1 0 - Live 0x0\n",
        ),
        ("proc/cmdline", "root=/dev/sda1\n"),
        ("proc/sys/kernel/osrelease", "5.15.0-91-generic\n"),
        ("proc/sys/kernel/numa_balancing", "0\n"),
        (
            "proc/driver/nvidia/version",
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15  Thu\n",
        ),
        ("proc/driver/nvidia/gpus/0000:01:00.0/information", "x\n"),
        ("sys/devices/system/cpu/online", "0-15\n"),
        ("sys/class/net/lo/operstate", "unknown\n"),
        ("sys/class/net/lo/ifindex", "1\n"),
        ("sys/class/net/eth0/operstate", "up\n"),
        ("sys/class/net/eth0/ifindex", "2\n"),
        ("proc/net/route", "Iface\tDestination\neth0\t00000000\n"),
        ("etc/systemd/logind.conf", "[Login]\nRemoveIPC=no\n"),
        ("dev/infiniband/uverbs0", ""),
        ("dev/nvidia0", ""),
        ("dev/nvidia1", ""),
        ("usr/lib64/libibverbs.so.1", ""),
        ("usr/lib64/libibverbs/libmlx5-rdmav34.so", ""),
        ("sys/bus/pci/devices/0000:17:00.0/class", "0x020700\n"),
        ("sys/bus/pci/devices/0000:00:01.0/class", "0x060400\n"),
    ]
    .map(|(path, text)| (path.to_owned(), text.as_bytes().to_vec()))
    .into();
    for device in ["mlx5_0", "mlx5_1"] {
        port(
            &mut files,
            device,
            "InfiniBand",
            "4: ACTIVE",
            "400 Gb/sec (4X NDR)",
        );
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

pub(super) fn port(
    files: &mut BTreeMap<String, Vec<u8>>,
    device: &str,
    link: &str,
    state: &str,
    rate: &str,
) {
    for (file, text) in [("link_layer", link), ("state", state), ("rate", rate)] {
        files.insert(
            format!("sys/class/infiniband/{device}/ports/1/{file}"),
            format!("{text}\n").into_bytes(),
        );
    }
}

/// The configuration space of a bridge with an ACS capability behind another one.
pub(super) fn bridge(control: u16) -> Vec<u8> {
    let mut config = vec![0; 4096];
    config[0x100..0x104].copy_from_slice(&(0x1401_u32 << 16 | 0x0001).to_le_bytes());
    config[0x140..0x144].copy_from_slice(&0x0001_000d_u32.to_le_bytes());
    config[0x146..0x148].copy_from_slice(&control.to_le_bytes());
    config
}

impl Machine {
    pub(super) fn file(&mut self, path: &str, text: &str) {
        self.files.insert(path.to_owned(), text.as_bytes().to_vec());
    }

    pub(super) fn set(&mut self, name: &'static str, value: &str) {
        self.env.insert(name, value.to_owned());
    }

    pub(super) fn gpu(&mut self, name: &str, value: Value) {
        self.nvml["gpus"][1][name] = reading(value);
    }

    /// So many of the four NVLinks of each GPU work, to what is at their other end.
    pub(super) fn nvlinks(&mut self, up: [usize; 2], remote: &str) {
        for (gpu, up) in up.into_iter().enumerate() {
            for (number, link) in self.nvml["gpus"][gpu]["nvlinks"]
                .as_array_mut()
                .expect("links")
                .iter_mut()
                .enumerate()
            {
                link["active"] = reading((number < up).into());
                link["remote"] = remote.into();
            }
        }
    }

    /// The open kernel modules, with which dma-buf works.
    pub(super) fn open_modules(&mut self) {
        self.edit(
            "proc/driver/nvidia/version",
            "UNIX x86_64",
            "UNIX Open Kernel Module for x86_64",
        );
    }

    /// A Slurm that says this of KillOnBadExit, and nothing in the environment that does.
    pub(super) fn scontrol(&mut self, script: &str) {
        self.env.remove("SLURM_KILL_BAD_EXIT");
        self.set("PATH", "/opt/slurm/bin:/usr/bin:/bin");
        self.file("opt/slurm/bin/scontrol", &format!("#!/bin/sh\n{script}\n"));
    }

    /// GPUs of a multi-node NVLink cluster.
    pub(super) fn cluster(&mut self) {
        for gpu in 0..2 {
            let fabric = json!({ "state": "completed", "cluster": "00000000000000000000000000000007", "clique": 1 });
            self.nvml["gpus"][gpu]["fabric"] = reading(fabric);
        }
    }

    /// Replaces a word in a file.
    pub(super) fn edit(&mut self, path: &str, from: &str, to: &str) {
        let text = String::from_utf8(self.files[path].clone()).expect("text");
        assert!(text.contains(from), "{path} has no {from}");
        self.file(path, &text.replace(from, to));
    }

    /// Writes it to `folder`; the arguments that examine it.
    pub(super) fn write(&self, folder: &Path) -> Vec<String> {
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
pub(super) const NAMES: [&str; 32] = [
    "NCCL_ALGO",
    "NCCL_BUFFSIZE",
    "NCCL_CROSS_NIC",
    "NCCL_DEBUG",
    "NCCL_DEBUG_FILE",
    "NCCL_DEBUG_SUBSYS",
    "NCCL_DMABUF_ENABLE",
    "NCCL_GRAPH_DUMP_FILE",
    "NCCL_GRAPH_FILE",
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

/// The first version that is built for CUDA 13 here.
pub(super) const CUDA_13_SINCE: i32 = 23100;

/// A libnccl that knows its version and names, and nothing else.
pub(super) fn library(folder: &Path, version: i32) -> PathBuf {
    let (code, library) = (folder.join("nccl.c"), folder.join("libnccl.so.2"));
    let newer = (version >= 23000).then_some("NCCL_MULTI_RANK_GPU_ENABLE");
    let names: String = NAMES
        .iter()
        .copied()
        .chain(newer)
        .map(|name| format!("\"{name}\","))
        .collect();
    let cuda = if version < CUDA_13_SINCE {
        "12.8"
    } else {
        "13.0"
    };
    let source = format!(
        "const char *v = \"NCCL version {version}+cuda{cuda}\";\nconst char *n[] = \
         {{{names}}};\nint ncclGetVersion(int *v) {{ *v = {version}; return 0; }}\n"
    );
    fs::write(&code, source).expect("written");
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(&code)
        .status();
    assert!(compiled.expect("cc").success());
    library
}

/// A row of the doctor's report.
#[derive(Clone, Debug)]
pub(super) struct ReportRow {
    pub(super) verdict: String,
    /// The evidence or the reason.
    pub(super) message: String,
}

impl ReportRow {
    /// A warning or a failure.
    pub(super) fn is_finding(&self) -> bool {
        ["warning", "failure"].contains(&self.verdict.as_str())
    }
}

/// Returns the rows of the report, by check.
pub(super) fn report_rows(ended: &Ended) -> BTreeMap<String, Vec<ReportRow>> {
    let report: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{ended:?}"));
    let mut all: BTreeMap<String, Vec<ReportRow>> = BTreeMap::new();
    for row in report["checks"].as_array().expect("checks") {
        let word = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
        all.entry(word("id")).or_default().push(ReportRow {
            verdict: word("verdict"),
            message: format!("{}{}", word("evidence"), word("reason")),
        });
    }
    all
}

/// Returns the checks that found something.
pub(super) fn findings(ended: &Ended) -> BTreeSet<String> {
    report_rows(ended)
        .into_iter()
        .filter(|(_, rows)| rows.iter().any(ReportRow::is_finding))
        .map(|(id, _)| id)
        .collect()
}

/// Examines one machine alone.
pub(super) fn examine(machine: &Machine) -> Ended {
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = machine.write(folder.path());
    run(alone(folder.path()).args(arguments).envs(&machine.env))
}

/// A change to a machine.
pub(super) type Change = fn(&mut Machine);
