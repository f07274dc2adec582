//! `pxnbench topo` as users see it: from NCCL's topology files, and from a sysfs tree with NVML's answers.

mod common;

use std::{fs, os::unix::fs::symlink, path::Path};

use common::{Ended, alone, golden, run};
use proptest::prelude::*;
use pxnbench::topology::{path::PathType, svg, text, xml};
use serde_json::{Value, json};

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

fn data(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/topology")
        .join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// `topo` of a file with this text.
fn topo(text: &str, arguments: &[&str]) -> Ended {
    let folder = folder();
    fs::write(folder.path().join("topology.xml"), text).expect("written");
    run(alone(folder.path())
        .args(["topo", "--xml", "topology.xml"])
        .args(arguments))
}

fn topo_json(text: &str) -> Value {
    serde_json::from_str(&topo(text, &["--format", "json"]).expect_code(0).stdout).expect("JSON")
}

#[test]
fn files_of_nccl_are_drawn() {
    for name in ["two-gpus-nvlink", "split", "shared"] {
        golden(
            &format!("topo-{name}.txt"),
            &topo(&data(&format!("{name}.xml")), &[])
                .expect_code(0)
                .stdout,
        );
    }
}

#[test]
fn two_gpus_have_18_links() {
    let all = topo_json(&data("two-gpus-nvlink.xml"));
    assert_eq!(all["topology"]["gpus"][0]["nvlinks"][0]["count"], 18);
    let path = &all["gpu_paths"][0]["path"];
    assert_eq!(
        (&path["kind"], &path["smi"], &path["peak"]["gbps"]),
        (&json!("NVL"), &json!("NV18"), &json!(450.0))
    );
    let way = &all["choices"][0]["nics"][0];
    assert_eq!(
        (&way["gdr"]["yes"], &way["relay"]["gpu"]),
        (&json!(false), &Value::Null)
    );
    assert_eq!(
        way["transports"].as_array().expect("a list").len(),
        1,
        "sockets alone"
    );
}

/// As NCCL did on two GPUs with these files: over the processor rings relay too, over switches only send/recv does.
#[test]
fn relays_are_those_that_nccl_chose() {
    let split = topo_json(&data("split.xml"));
    let shared = topo_json(&data("shared.xml"));
    for (gpu, other) in [(0, 1), (1, 0)] {
        let of = |all: &Value, nic: usize| all["choices"][gpu]["nics"][nic].clone();
        for all in [&split, &shared] {
            assert_eq!(all["choices"][gpu]["nic"], gpu, "its own rail");
            assert_eq!(of(all, gpu)["relay"]["gpu"], Value::Null);
            assert_eq!(of(all, other)["relay"]["gpu"], other);
            assert_eq!(
                of(all, other)["transports"][0]["name"],
                format!("PXN through GPU {other}")
            );
        }
        assert_eq!(of(&split, other)["own"]["kind"], "PHB");
        assert_eq!(of(&split, other)["gdr"]["yes"], false);
        assert_eq!(of(&split, other)["ring_relay"]["gpu"], other);
        assert_eq!(of(&shared, other)["own"]["kind"], "PXB");
        assert_eq!(of(&shared, other)["gdr"]["yes"], true);
        assert_eq!(of(&shared, other)["ring_relay"]["gpu"], Value::Null);
    }
}

#[test]
fn a_relay_needs_nvlink_gpudirect_and_a_near_nic() {
    let relay = |from: &str, to: &str| {
        let all = xml::read(&data("split.xml").replace(from, to)).expect("a topology");
        let way = all.choices().remove(0).nics.remove(1);
        (way.relay.gpu, way.relay.why)
    };
    assert_eq!(relay("", "").0, Some(1));
    assert!(relay("nvlink", "other").1.starts_with("no NVLink to GPU 1"));
    assert!(
        relay("port=\"0\" gdr=\"1\"", "gdr=\"0\"")
            .1
            .starts_with("no GPUDirect RDMA: rail1 cannot")
    );
    assert!(
        relay("rank=\"1\" gdr=\"1\"", "gdr=\"0\"")
            .1
            .contains("GPU 1 does not support it")
    );
}

/// GPU 0 has a link to GPU 1, and that one to GPU 2: a way of two links is NVB, and no relay goes over it.
#[test]
fn a_way_over_another_gpu_is_nvb() {
    let gpu = |at: usize, to: &[usize]| {
        let link = |to: &usize| {
            format!("<nvlink target=\"0000:0{to}:00.0\" count=\"2\" tclass=\"0x030200\"/>")
        };
        let links: String = to.iter().map(link).collect();
        format!(
            "<pci busid=\"0000:0{at}:00.0\" class=\"0x030200\" link_speed=\"16.0 GT/s PCIe\" link_width=\"16\"><gpu \
             dev=\"{at}\" sm=\"70\">{links}</gpu></pci>"
        )
    };
    let nodes = [gpu(0, &[1]), gpu(1, &[0, 2]), gpu(2, &[1])].concat();
    let all = xml::read(&format!("<system><cpu numaid=\"0\">{nodes}</cpu></system>"))
        .expect("a topology");
    assert_eq!(
        (all.between(0, 1).kind, all.between(0, 1).smi.as_str()),
        (PathType::Nvl, "NV2")
    );
    assert_eq!(
        (all.between(0, 2).kind, all.between(0, 2).smi.as_str()),
        (PathType::Nvb, "PHB")
    );
    assert_eq!(all.between(0, 2).peak.gbps.map(|gbps| gbps.0), Some(50.0));
}

/// A file system with the sysfs of a node: 8 switches, 4 on each NUMA node, each with a GPU and a NIC behind it, and a
/// slow interface at the first processor.
fn node(root: &Path) {
    let write = |path: &str, text: &str| {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        fs::write(path, text).expect("written");
    };
    let link = |name: &str, target: &str| {
        let name = root.join(name);
        fs::create_dir_all(name.parent().expect("a parent")).expect("made");
        symlink(root.join(target), name).expect("linked");
    };
    // The device at the end of `way`, a path of addresses below sys/devices.
    let device = |way: &str, class: &str, vendor: &str, numa: usize| {
        let folder = format!("sys/devices/{way}");
        let bus = way.rsplit('/').next().expect("an address");
        for (file, text) in [
            ("class", class),
            ("vendor", vendor),
            ("numa_node", &numa.to_string()),
            ("max_link_speed", "32.0 GT/s PCIe"),
            ("max_link_width", "16"),
            ("current_link_speed", "2.5 GT/s PCIe"),
            ("current_link_width", "16"),
        ] {
            write(&format!("{folder}/{file}"), &format!("{text}\n"));
        }
        link(&format!("sys/bus/pci/devices/{bus}"), &folder);
        folder
    };
    write(
        "proc/cpuinfo",
        "processor\t: 0\nvendor_id\t: GenuineIntel\n",
    );
    for numa in 0..2 {
        write(
            &format!("sys/devices/system/node/node{numa}/cpulist"),
            "0-55\n",
        );
    }
    for at in 0..8 {
        let (numa, bus) = (at / 4, 0x10 * (at + 1));
        let port = format!("pci0000:{bus:02x}/0000:{bus:02x}:01.0");
        let up = format!("{port}/0000:{:02x}:00.0", bus + 1);
        for way in [
            &port,
            &up,
            &format!("{up}/0000:{:02x}:00.0", bus + 2),
            &format!("{up}/0000:{:02x}:01.0", bus + 2),
        ] {
            device(way, "0x060400", "0x1000", numa);
        }
        device(
            &format!("{up}/0000:{:02x}:00.0/0000:{:02x}:00.0", bus + 2, bus + 3),
            "0x030200",
            "0x10de",
            numa,
        );
        let nic = device(
            &format!("{up}/0000:{:02x}:01.0/0000:{:02x}:00.0", bus + 2, bus + 4),
            "0x020700",
            "0x15b3",
            numa,
        );
        let name = format!("mlx5_{at}");
        write(
            &format!("{nic}/infiniband/{name}/ports/1/rate"),
            "400 Gb/sec (4X NDR)\n",
        );
        write(
            &format!("{nic}/infiniband/{name}/ports/1/state"),
            "4: ACTIVE\n",
        );
        write(
            &format!("{nic}/infiniband/{name}/ports/1/link_layer"),
            "InfiniBand\n",
        );
        link(&format!("{nic}/infiniband/{name}/device"), &nic);
        link(
            &format!("sys/class/infiniband/{name}"),
            &format!("{nic}/infiniband/{name}"),
        );
    }
    let slow = device(
        "pci0000:00/0000:00:01.0/0000:01:00.0",
        "0x020000",
        "0x8086",
        0,
    );
    write(&format!("{slow}/net/eth0/speed"), "10000\n");
    write(&format!("{slow}/net/eth0/operstate"), "up\n");
    link(&format!("{slow}/net/eth0/device"), &slow);
    link("sys/class/net/eth0", &format!("{slow}/net/eth0"));
    write("sys/class/net/lo/operstate", "unknown\n");
}

/// What NVML says of the node's GPUs: 18 links each to NVSwitches, one of them down on GPU 5.
fn inventory() -> Value {
    let links = |gpu: usize| -> Vec<Value> {
        let link = |at: usize| {
            json!({ "link": at, "active": { "value": gpu != 5 || at != 3 }, "remote": "switch",
                "remote_bus": { "value": format!("0000:a{}:00.0", at % 4) } })
        };
        (0..18).map(link).collect()
    };
    let gpus: Vec<Value> = (0..8)
        .map(|at| {
            json!({ "index": at, "name": { "value": "NVIDIA H100 80GB HBM3" }, "capability": { "value": 90 },
                "bus_id": { "value": format!("0000:{:02x}:00.0", 0x10 * (at + 1) + 3) }, "nvlinks": links(at) })
        })
        .collect();
    json!({ "gpus": gpus })
}

fn topo_node(root: &Path, arguments: &[&str]) -> Ended {
    run(alone(root)
        .args(["topo", "--root"])
        .arg(root)
        .args(arguments))
}

#[test]
fn a_node_is_read_from_sysfs_and_nvml() {
    let root = folder();
    node(root.path());
    fs::write(root.path().join("nvml.json"), inventory().to_string()).expect("written");
    let ended = topo_node(root.path(), &["--nvml", "nvml.json"]).expect_code(0);
    golden("topo-node.txt", &ended.stdout);

    let all = topo_node(root.path(), &["--nvml", "nvml.json", "--format", "json"]).expect_code(0);
    let all: Value = serde_json::from_str(&all.stdout).expect("JSON");
    for gpu in 0..8 {
        let choice = &all["choices"][gpu];
        assert_eq!(choice["nic"], gpu, "the one behind its switch");
        for nic in (0..8).filter(|nic| *nic != gpu) {
            let way = &choice["nics"][nic];
            assert_eq!(
                (&way["relay"]["gpu"], &way["ring_relay"]["gpu"]),
                (&json!(nic), &json!(nic))
            );
            let (kind, smi) = if nic / 4 == gpu / 4 {
                ("PHB", "NODE")
            } else {
                ("SYS", "SYS")
            };
            assert_eq!(
                (&way["own"]["kind"], &way["own"]["smi"]),
                (&json!(kind), &json!(smi))
            );
        }
    }
    assert_eq!(all["topology"]["gpus"][5]["nvlinks_down"], 1);
    assert_eq!(all["gpu_paths"][4]["path"]["smi"], "NV17", "GPU 0 to GPU 5");
}

#[test]
fn what_is_missing_is_reported() {
    let root = folder();
    let ended = topo_node(root.path(), &[]).expect_code(0);
    for what in ["Missing: NVML", "Missing: no NVIDIA GPU", "Missing: no NIC"] {
        assert!(ended.stdout.contains(what), "{}", ended.stdout);
    }
    node(root.path());
    let ended = topo_node(root.path(), &["--format", "tree"]).expect_code(0);
    assert!(
        ended.stdout.contains("GPU 7") && ended.stdout.contains("without NVLinks"),
        "{}",
        ended.stdout
    );
    fs::write(root.path().join("nvml.json"), "{").expect("written");
    let ended = topo_node(root.path(), &["--nvml", "nvml.json"]).expect_code(6);
    assert!(
        ended.stderr.contains("--nvml nvml.json: no inventory"),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_bad_file_gets_one_sentence() {
    let deep = format!(
        "<system><cpu>{}{}</cpu></system>",
        "<pci>".repeat(100_000),
        "</pci>".repeat(100_000)
    );
    let torn = &deep[..400_000];
    for (text, words) in [
        ("", "it is empty"),
        ("  \n", "it is empty"),
        ("no XML", "it is not XML"),
        ("<system><cpu>", "it is not XML"),
        (&data("split.xml")[..700], "it is not XML"),
        ("<graphs/>", "begins with <graphs>"),
        ("<system/>", "no <cpu>"),
        (deep.as_str(), "nested 64 deep or more"),
        (torn, "it is not XML"),
    ] {
        let ended = topo(text, &[]).expect_code(6);
        assert_eq!(ended.sentences().len(), 1, "{}", ended.stderr);
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
        assert!(
            ended.stderr.contains("--xml topology.xml") && ended.stderr.contains(words),
            "{}",
            ended.stderr
        );
        assert_eq!(ended.stdout, "");
    }
    let folder = folder();
    let ended = run(alone(folder.path()).args(["topo", "--xml", "none.xml"])).expect_code(6);
    assert!(
        ended.stderr.contains("--xml none.xml cannot be read"),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_picture_is_xml_and_names_are_escaped() {
    let folder = folder();
    let text = data("shared.xml").replace("rail1", "a&lt;b&gt;&amp;&quot;");
    fs::write(folder.path().join("x.xml"), text).expect("written");
    let arguments = ["topo", "--xml", "x.xml", "--format", "svg", "-o", "x.svg"];
    assert_eq!(
        run(alone(folder.path()).args(arguments))
            .expect_code(0)
            .stdout,
        ""
    );
    let picture = fs::read_to_string(folder.path().join("x.svg")).expect("a picture");
    let picture = roxmltree::Document::parse(&picture).expect("XML");
    let words: Vec<_> = picture
        .descendants()
        .filter_map(|node| node.text())
        .collect();
    assert!(
        words.iter().any(|line| line.contains("NIC a<b>&\"")),
        "{words:?}"
    );
    let ended =
        run(alone(folder.path()).args(["topo", "--xml", "x.xml", "-o", "/proc/no"])).expect_code(6);
    assert!(
        ended.stderr.contains("-o /proc/no cannot be written"),
        "{}",
        ended.stderr
    );
}

/// Reads, and draws everything there is to draw.
fn draw(text: &str) {
    if let Ok(all) = xml::read(text) {
        let picture = svg::draw(&all);
        assert!(roxmltree::Document::parse(&picture).is_ok(), "{picture}");
        let _ = [text::tree(&all), text::matrix(&all), text::paths(&all)];
    }
}

#[test]
fn odd_values_are_unknown() {
    let text = data("split.xml");
    for (from, to) in [
        ("count=\"18\"", "count=\"4294967295\""),
        ("count=\"18\"", "count=\"-3\""),
        ("count=\"18\"", "count=\"0\""),
        ("link_width=\"16\"", "link_width=\"99999999999999999999\""),
        ("link_speed=\"32.0", "link_speed=\"1e999"),
        ("speed=\"400000\"", "speed=\"inf\""),
        ("speed=\"400000\"", "speed=\"nan\""),
        ("speed=\"400000\"", "speed=\"-1\""),
        ("numaid=\"0\"", "numaid=\"x\""),
        ("dev=\"1\"", "dev=\"4294967295\""),
        ("dev=\"1\"", "dev=\"0\""),
        ("busid=\"0000", "busid=\"\u{1d11e}"),
        ("class", "klass"),
        ("rail1", "\u{fffd}\u{202e}"),
    ] {
        draw(&text.replace(from, to));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// Cut, with a piece repeated, and with letters changed: never a panic.
    #[test]
    fn no_file_is_a_panic(
        which in 0..3_usize, cut in 0..3000_usize, at in 0..3000_usize, long in 0..400_usize, letter in any::<char>(),
    ) {
        let text: Vec<char> = data(["split.xml", "shared.xml", "two-gpus-nvlink.xml"][which]).chars().collect();
        let end = (at + long).min(text.len());
        let piece = &text[at.min(end)..end];
        draw(&text[..cut.min(text.len())].iter().collect::<String>());
        let (head, tail) = text.split_at(cut.min(text.len()));
        draw(&[head, piece, tail].concat().iter().collect::<String>());
        draw(&[head, &[letter], tail.get(1..).unwrap_or_default()].concat().iter().collect::<String>());
        // The same, inside the quotes of a value.
        let value: String = letter.escape_unicode().to_string();
        draw(&text.iter().collect::<String>().replacen("=\"", &format!("=\"{value}"), 1 + cut % 40));
    }
}

/// GPUs and NICs of one switch share out as NCCL does it: by number, the bits turned round.
#[test]
fn gpus_of_a_switch_spread_over_its_nics() {
    let node = |gpus: usize, nics: usize| {
        let link = "link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"";
        let gpu = |at: usize| {
            format!(
                "<pci busid=\"0000:1{at}:00.0\" class=\"0x030200\" {link}><gpu dev=\"{at}\" sm=\"90\"><nvlink count=\"18\" \
                 tclass=\"0x068000\"/></gpu></pci>"
            )
        };
        let nic = |at: usize| {
            format!(
                "<pci busid=\"0000:2{at}:00.0\" class=\"0x020700\" {link}><nic><net name=\"n{at}\" \
                 speed=\"200000\"/></nic></pci>"
            )
        };
        let below: String = (0..gpus).map(gpu).chain((0..nics).map(nic)).collect();
        let switch = format!("<pci busid=\"0000:01:00.0\" class=\"0x060400\" {link}>{below}</pci>");
        let all = xml::read(&format!(
            "<system><cpu numaid=\"0\">{switch}</cpu></system>"
        ))
        .expect("a topology");
        let choices = all.choices();
        let own: Vec<_> = choices.iter().map(|choice| choice.nic).collect();
        let relays: Vec<_> = choices[0].nics.iter().map(|way| way.relay.gpu).collect();
        (own, relays)
    };
    assert_eq!(node(1, 2), (vec![Some(0)], vec![None, None]));
    assert_eq!(node(2, 1), (vec![Some(0), Some(0)], vec![None]));
    assert_eq!(node(2, 2), (vec![Some(0), Some(1)], vec![None, Some(1)]));
    assert_eq!(node(4, 2).0, [Some(0), Some(1), Some(0), Some(1)]);
    assert_eq!(
        node(4, 4),
        (
            vec![Some(0), Some(2), Some(1), Some(3)],
            vec![None, Some(2), Some(1), Some(3)]
        )
    );
    assert_eq!(node(2, 0), (vec![None, None], vec![]));
}
