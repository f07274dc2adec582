//! `pxnbench topo` as users see it: from NCCL's topology files, and from a sysfs tree with NVML's
//! answers.

mod common;

use std::{fs, os::unix::fs::symlink, path::Path};

use common::{Ended, after, alone, csv, golden, run};
use proptest::prelude::*;
use pxnbench::topology::{
    Topology,
    path::PathType,
    read,
    render::{TopologyFormat, render},
};
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

/// The topology of the only host in this text.
fn one(text: &str) -> Topology {
    let mut hosts = read(text).expect("a topology");
    assert_eq!(hosts.len(), 1);
    hosts.remove(0)
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

/// As NCCL did on two GPUs with these files: over the processor rings relay too, over switches only
/// send/recv does.
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
        // NCCL writes the hash; without it and any NVLink the file would be a template.
        let text = data("split.xml").replace("<cpu", "<cpu host_hash=\"0x1\"");
        let all = one(&text.replace(from, to));
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

/// GPU 0 has a link to GPU 1, and that one to GPU 2: a way of two links is NVB, and no relay goes
/// over it.
#[test]
fn a_way_over_another_gpu_is_nvb() {
    let gpu = |at: usize, to: &[usize]| {
        let link = |to: &usize| {
            format!("<nvlink target=\"0000:0{to}:00.0\" count=\"2\" tclass=\"0x030200\"/>")
        };
        let links: String = to.iter().map(link).collect();
        format!(
            "<pci busid=\"0000:0{at}:00.0\" class=\"0x030200\" link_speed=\"16.0 GT/s PCIe\" \
             link_width=\"16\"><gpu dev=\"{at}\" sm=\"70\">{links}</gpu></pci>"
        )
    };
    let nodes = [gpu(0, &[1]), gpu(1, &[0, 2]), gpu(2, &[1])].concat();
    let all = one(&format!("<system><cpu numaid=\"0\">{nodes}</cpu></system>"));
    assert_eq!(
        (all.between(0, 1).kind, all.between(0, 1).smi.as_str()),
        (Some(PathType::Nvl), "NV2")
    );
    assert_eq!(
        (all.between(0, 2).kind, all.between(0, 2).smi.as_str()),
        (Some(PathType::Nvb), "PHB")
    );
    assert_eq!(all.between(0, 2).peak.gbps.map(|gbps| gbps.0), Some(50.0));
}

/// A file system with the sysfs of a node: 8 switches, 4 on each NUMA node, each with a GPU and a
/// NIC behind it, and a slow interface at the first processor.
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
    let arguments = ["topo", "--xml", "x.xml", "--format", "svg", "-o", "-"];
    let printed = run(alone(folder.path()).args(arguments)).expect_code(0);
    assert_eq!(printed.stdout, picture);
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
    if let Ok(all) = read(text) {
        let picture = render(&all, TopologyFormat::Svg).expect("a picture");
        assert!(roxmltree::Document::parse(&picture).is_ok(), "{picture}");
        for format in [TopologyFormat::All, TopologyFormat::Json] {
            assert!(!render(&all, format).expect("a page").is_empty());
        }
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
                "<pci busid=\"0000:1{at}:00.0\" class=\"0x030200\" {link}><gpu dev=\"{at}\" \
                 sm=\"90\"><nvlink count=\"18\" tclass=\"0x068000\"/></gpu></pci>"
            )
        };
        let nic = |at: usize| {
            format!(
                "<pci busid=\"0000:2{at}:00.0\" class=\"0x020700\" {link}><nic><net \
                 name=\"n{at}\" speed=\"200000\"/></nic></pci>"
            )
        };
        let below: String = (0..gpus).map(gpu).chain((0..nics).map(nic)).collect();
        let switch = format!("<pci busid=\"0000:01:00.0\" class=\"0x060400\" {link}>{below}</pci>");
        let all = one(&format!(
            "<system><cpu numaid=\"0\">{switch}</cpu></system>"
        ));
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

/// Two GPUs below one switch, and three networks that NCCL lists in another order than that of
/// their numbers. One of them is of another plugin.
const LISTED_BACKWARDS: &str = r#"<system version="1"><cpu numaid="0">
<pci busid="0000:01:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
<pci busid="0000:10:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
<gpu dev="0" sm="90" rank="0" gdr="1"><nvlink target="fffffff:ff:ff.0" count="18" tclass="0x068000"/></gpu></pci>
<pci busid="0000:11:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
<gpu dev="1" sm="90" rank="1" gdr="1"><nvlink target="fffffff:ff:ff.0" count="18" tclass="0x068000"/></gpu></pci>
<pci busid="0000:20:00.0" class="0x020700" link_speed="32.0 GT/s PCIe" link_width="16">
<nic><net name="second" dev="1" speed="200000" guid="0x2" gdr="1"/></nic></pci>
<pci busid="0000:21:00.0" class="0x020700" link_speed="32.0 GT/s PCIe" link_width="16">
<nic><net name="first" dev="0" speed="200000" guid="0x1" gdr="1" net="1"/>
<net name="gin" dev="0" speed="200000" guid="0x1" gdr="1" net="0" gin="1"/></nic></pci>
</pci></cpu></system>"#;

/// Which of equally near NICs a GPU takes goes by the order of the file (graph/topo.cc,
/// `ncclTopoGetLocal`), and what is called rail 0 by the number in it.
#[test]
fn nics_have_their_numbers_and_are_chosen_in_the_order_of_the_file() {
    let page = topo_json(LISTED_BACKWARDS);
    let node = one(LISTED_BACKWARDS);
    let names: Vec<&str> = node.nics.iter().map(|nic| nic.name.as_str()).collect();
    assert_eq!(names, ["first", "second"]);
    for (gpu, own) in [(0, 1), (1, 0)] {
        assert_eq!(page["choices"][gpu]["nic"], own);
        // The other NIC is the one that the other GPU takes.
        let relay = &page["choices"][gpu]["nics"][1 - own]["relay"];
        assert_eq!(relay["gpu"], 1 - gpu, "{relay}");
    }
    let said = "1 <net> with net=\"0\" left out";
    let text = topo(LISTED_BACKWARDS, &[]).expect_code(0).stdout;
    assert!(text.contains(said), "{text}");

    // A network that is not in a NIC is none, and the PCI device is still there.
    let misplaced = LISTED_BACKWARDS.replace("<nic><net name=\"second\"", "<net name=\"second\"");
    let misplaced = misplaced.replacen("gdr=\"1\"/></nic></pci>", "gdr=\"1\"/></pci>", 1);
    assert_eq!(one(&misplaced).nics.len(), 2, "{misplaced}");

    let folder = folder();
    fs::write(folder.path().join("node.xml"), LISTED_BACKWARDS).expect("written");
    let words = "rehearse --theory scatter --topology node.xml --levels off --csv x.csv";
    run(alone(folder.path()).args(words.split(' '))).expect_code(0);
    let rows = csv(&folder.path().join("x.csv"));
    let sent = rows.iter().filter(|row| row["node"] == "0");
    let sent: Vec<_> = sent
        .map(|row| (&*row["rail"], &*row["sent_bytes"]))
        .collect();
    assert_eq!(sent, [("0", "0"), ("1", "524288")]);
}

/// The program with this text on standard input, and in the file `input`.
fn from_stdin(text: &str, arguments: &[&str]) -> Ended {
    let folder = folder();
    fs::write(folder.path().join("input"), text).expect("written");
    run(after("exec < input", folder.path()).args(arguments))
}

/// What no page of a template may say.
fn assert_nothing_is_concluded(page: &str) {
    for wrong in [
        "NIC: none",
        "order: SHM",
        "no NVLink",
        "PXN: no",
        "PXN: send",
    ] {
        assert!(!page.contains(wrong), "{wrong}: {page}");
    }
}

fn pci(bus: &str, class: &str, inside: &str) -> String {
    let class = match class {
        "" => String::new(),
        class => format!(" class=\"{class}\""),
    };
    format!("<pci busid=\"{bus}\"{class} link_speed=\"16 GT/s\" link_width=\"16\">{inside}</pci>")
}

fn system(cpus: &[(&str, String)]) -> String {
    let cpu = |(attributes, inside): &(&str, String)| format!("<cpu {attributes}>{inside}</cpu>");
    let cpus: String = cpus.iter().map(cpu).collect();
    format!("<system version=\"1\">{cpus}</system>")
}

/// The templates of NDv4 and NDv5 (InfiniBand) and of p4d (EFA): classes as numbers, nothing else.
#[test]
fn a_template_is_read_and_nothing_is_concluded_from_what_it_leaves_out() {
    for (class, kind) in [("0x020700", "InfiniBand"), ("0x020000", "Ethernet")] {
        let switch = |at: usize| {
            let gpu = pci(&format!("000{at}:00:00.0"), "0x030200", "");
            let nic = pci(&format!("010{at}:00:00.0"), class, "");
            pci(&format!("ffff:ff:0{at}.0"), "0x060400", &(gpu + &nic))
        };
        let text = system(&[
            ("numaid=\"0\" vendor=\"GenuineIntel\"", switch(1)),
            ("numaid=\"1\" vendor=\"GenuineIntel\"", switch(2)),
        ]);
        let page = topo(&text, &[]).expect_code(0).stdout;
        assert_nothing_is_concluded(&page);
        assert_eq!(page.matches("PCIe switch  ").count(), 2, "{page}");
        for words in [
            &format!("    NIC at 0101:00:00.0 {kind}  unknown (port not in this file)\n"),
            "this file is a template for NCCL_TOPO_FILE, not a dump: it holds the places of 2 \
             GPUs and 2 NICs",
            "the nearest by path type: 0101:00:00.0 (PIX)",
            "order: cannot tell",
        ] {
            assert!(page.contains(words), "{words}: {page}");
        }

        let all = topo_json(&text);
        let nic = &all["topology"]["nics"][0];
        for key in ["name", "up", "gdr", "sockets"] {
            assert_eq!(nic[key], Value::Null, "{key}");
        }
        assert_eq!(all["topology"]["gpus"][0]["nvlinks"], Value::Null);
        let choice = &all["choices"][0];
        assert_eq!(
            (&choice["nic"], &choice["nearest"]),
            (&Value::Null, &json!([0]))
        );
        let way = &choice["nics"][0];
        assert_eq!(way["own"]["kind"], "PIX");
        assert_eq!(way["gdr"]["yes"], Value::Null);
        assert_eq!(way["transports"], Value::Null);
        assert_eq!(way["relay"]["is_known"], false);
        let path = &all["gpu_paths"][0];
        assert_eq!(
            (
                &path["path"]["kind"],
                &path["over_pci"],
                &path["transports"]
            ),
            (&Value::Null, &json!("SYS"), &Value::Null)
        );
    }
}

/// The template of g5: bus ids alone, without a class.
#[test]
fn a_device_of_unknown_kind_is_neither_gpu_nor_switch() {
    let text = "<!-- g5 --><system><cpu numaid=\"0\"><pci busid=\"0000:00:16.0\"/><pci \
                busid=\"0000:00:17.0\"/></cpu><cpu numaid=\"0x1\"><pci \
                busid=\"0000:00:1a.0\"/></cpu></system>";
    let page = topo(text, &[]).expect_code(0).stdout;
    assert!(
        page.contains("  device of unknown kind  0000:00:16.0\n"),
        "{page}"
    );
    assert!(page.contains("NUMA node 1\n"), "{page}");
    assert!(
        page.contains("3 devices of another or unknown kind"),
        "{page}"
    );
    assert!(!page.contains("switch  0000"), "{page}");
    assert_eq!(
        topo_json(text)["topology"]["devices"][2]["class"],
        Value::Null
    );
}

/// The template of p5: ranks and ports, but no NVLink of any GPU, which NCCL adds.
#[test]
fn ranks_do_not_make_a_file_without_nvlinks_complete() {
    let gpu = |at: usize| {
        let inside = format!("<gpu dev=\"{at}\" sm=\"90\" rank=\"{at}\" gdr=\"1\"/>");
        let net = format!(
            "<nic><net name=\"rdmap{at}s0\" speed=\"100000\" guid=\"{at}\" gdr=\"1\"/></nic>"
        );
        let below = pci(&format!("0000:4{at}:00.0"), "0x030200", &inside)
            + &pci(&format!("0000:5{at}:00.0"), "0x020000", &net);
        pci(&format!("0000:0{at}:00.0"), "0x060400", &below)
    };
    let text = system(&[(
        "numaid=\"0\" vendor=\"AuthenticAMD\"",
        gpu(0) + &gpu(1) + &gpu(2),
    )]);
    let page = topo(&text, &[]).expect_code(0).stdout;
    assert!(
        !page.contains("order: SHM") && !page.contains("no NVLink to"),
        "{page}"
    );
    assert!(page.contains("NIC: rdmap0s0, the nearest (PIX)"), "{page}");
    assert!(page.contains("lists no NVLink"), "{page}");
    assert!(
        page.contains("PXN: cannot tell, GPU 1 is beside rdmap1s0, but NVLinks are not known"),
        "{page}"
    );

    // A dump of a machine without NVLinks says so.
    let dump = text.replace("<cpu ", "<cpu host_hash=\"0x1\" ");
    let page = topo(&dump, &[]).expect_code(0).stdout;
    assert!(
        page.contains("order: SHM") && !page.contains("template"),
        "{page}"
    );
}

/// A dump of an NVLink domain: the GPUs of two hosts have the same numbers and addresses.
#[test]
fn several_hosts_are_drawn_apart() {
    let gpus = |links: [&str; 2]| -> String {
        let gpu = |(at, link): (usize, &str)| {
            let inside = format!(
                "<gpu dev=\"{at}\" sm=\"100\" rank=\"{at}\" gdr=\"1\">{link}<c2c bw=\"44712\" \
                 count=\"5\"/></gpu>"
            );
            pci(&format!("000{at}:01:00.0"), "0x030200", &inside)
        };
        let nic = pci(
            "0003:03:00.0",
            "0x020700",
            "<nic><net name=\"ibp0\" speed=\"400000\" gdr=\"1\"/></nic>",
        );
        links.into_iter().enumerate().map(gpu).collect::<String>() + &nic
    };
    let link = "<nvlink target=\"fffffff:ff:ff.0\" count=\"18\" tclass=\"0x068000\"/>";
    let arm = "arch=\"arm64\" numaid=\"0\"";
    let text = system(&[
        (&format!("host_hash=\"0xa\" {arm}"), gpus([link, link])),
        (&format!("host_hash=\"0xb\" {arm}"), gpus([link, ""])),
    ]);
    let page = topo(&text, &[]).expect_code(0).stdout;
    let (first, second) = page.split_once("Host 2 of 2: 0xb\n").expect("two hosts");
    assert!(first.starts_with("Host 1 of 2: 0xa\nTopology"), "{page}");
    assert!(first.contains("this file holds 2 hosts"), "{page}");
    for part in [first, second] {
        assert_eq!(
            part.matches("5 C2C links to the processor  223.6 GB/s (5 x C2C)")
                .count(),
            2
        );
        assert_eq!(part.matches("\nGPU 0\n").count(), 1, "{part}");
        // To the NIC it goes through the processor, over C2C.
        assert!(
            part.contains("to ibp0: unknown, unknown (paths over C2C are not derived)"),
            "{part}"
        );
        assert!(part.contains("NIC: cannot tell"), "{part}");
    }
    assert!(first.contains("to GPU 1: NVL, 900.0 GB/s"), "{first}");
    assert!(
        second.contains("GPU 1 has no NVLink, although 3 others do"),
        "{second}"
    );
    assert!(!second.contains("order: SHM"), "{second}");

    let all = topo_json(&text);
    let hosts = all["hosts"].as_array().expect("hosts");
    assert_eq!(hosts.len(), 2);
    assert_eq!(hosts[1]["topology"]["host"], "0xb");
    assert_eq!(
        hosts[1]["topology"]["gpus"].as_array().map(Vec::len),
        Some(2)
    );
    let picture = topo(&text, &["--format", "svg"]).expect_code(0).stdout;
    assert!(picture.contains("Host 2 of 2"), "{picture}");
}

#[test]
fn two_gpus_in_one_device_are_two() {
    let link = "<nvlink target=\"fffffff:ff:ff.0\" count=\"36\" tclass=\"0x068000\"/>";
    for (name, word) in [("mlopart", "part"), ("", "rank")] {
        let gpu = |rank: usize| {
            let part = match name {
                "" => String::new(),
                name => format!("{name}=\"{rank}\""),
            };
            format!("<gpu dev=\"0\" sm=\"107\" {part} rank=\"{rank}\" gdr=\"1\">{link}</gpu>")
        };
        let text = system(&[(
            "numaid=\"0\"",
            pci("0002:81:00.0", "0x030200", &(gpu(0) + &gpu(1))),
        )]);
        let page = topo(&text, &[]).expect_code(0).stdout;
        for words in [
            &format!("  GPU 0 {word} 0  0002:81:00.0"),
            &format!("  GPU 0 {word} 1  0002:81:00.0"),
            "Note: 2 <gpu> in the <pci> at 0002:81:00.0",
            "cannot tell, both are on one PCI device",
        ] {
            assert!(page.contains(words), "{words}: {page}");
        }
    }
}

#[test]
fn what_is_not_read_is_named() {
    let gpu = |at: usize| {
        let inside = format!(
            "<gpu dev=\"{at}\" sm=\"94\" gcn=\"gfx942\" rank=\"{at}\" gdr=\"1\"><xgmi \
             target=\"0000:0{}:00.0\" count=\"1\" tclass=\"0x038000\"/></gpu>",
            1 - at
        );
        pci(&format!("0000:0{at}:00.0"), "0x120000", &inside)
    };
    let text = system(&[("numaid=\"0\" vendor=\"AuthenticAMD\"", gpu(0) + &gpu(1))]);
    let page = topo(&text, &[]).expect_code(0).stdout;
    assert!(
        page.contains("Note: 2 <xgmi> not read: these are links between AMD GPUs"),
        "{page}"
    );
    assert!(
        !page.contains("order: SHM") && !page.contains("order: P2P"),
        "{page}"
    );
    assert_eq!(
        topo_json(&text)["gpu_paths"][0]["path"]["kind"],
        Value::Null
    );

    let text =
        data("split.xml").replace("</system>", "<nvswitches><nvswitch/></nvswitches></system>");
    let page = topo(&text, &[]).expect_code(0).stdout;
    assert!(page.contains("1 <nvswitch>, 1 <nvswitches>"), "{page}");
}

#[test]
fn a_gpu_without_nvlink_among_others_is_said() {
    let link = "<nvlink target=\"fffffff:ff:ff.0\" count=\"18\" tclass=\"0x068000\"/>";
    let text = data("split.xml").replacen(link, "", 1);
    let page = topo(&text, &[]).expect_code(0).stdout;
    assert!(
        page.contains("Note: GPU 0 has no NVLink, although another GPU does"),
        "{page}"
    );
    let notes = &topo_json(&text)["notes"];
    assert!(
        notes[0]
            .as_str()
            .is_some_and(|note| note.starts_with("GPU 0")),
        "{notes}"
    );
}

/// The matrix of a node with NVLink, as nvidia-smi prints it: underlined, with tabs, blanks around
/// X, names in a legend.
const MATRIX: &str = "\u{1b}[4m\tGPU0\tGPU1\tGPU2\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\u{1b}[0m\n\
    GPU0\t X \tNV12\tNV12\tPXB\tSYS\t48-63,176-191\t3\t\tN/A\n\
    GPU1\tNV12\t X \tNV12\tPXB\tSYS\t48-63,176-191\t3\t\tN/A\n\
    GPU2\tNV12\tNV12\t X \tSYS\tPXB\t16-31,144-159\t1\t\tN/A\n\
    NIC0\tPXB\tPXB\tSYS\t X \tSYS\t\t\t\t\n\
    NIC1\tSYS\tSYS\tPXB\tSYS\t X \t\t\t\t\n\
    \nLegend:\n\n  X    = Self\n  NV#  = NVLinks\n\nNIC Legend:\n\n  NIC0: mlx5_0\n  NIC1: mlx5_3\n";

#[test]
fn the_matrix_of_nvidia_smi_gives_the_same_page() {
    for arguments in [
        &["topo", "--xml", "-"],
        &["topo", "--smi", "-"],
        &["topo", "--xml", "input"],
    ] {
        let page = from_stdin(MATRIX, arguments).expect_code(0).stdout;
        for words in [
            "NUMA node 3\n  GPU 0\n    NV12 to GPU 1, 2\n  GPU 1\n",
            "  NIC mlx5_3\n",
            "GPU0 X    NV12 NV12 PXB  SYS  3\n",
            "NIC1 SYS  SYS  PXB  SYS  X    1\n",
            "  NIC0: mlx5_0\n",
            "to GPU 1, 2: NVL, unknown (12 x NVLink of unknown version); order: P2P over NVLink",
            "NIC: mlx5_3, the nearest (PXB)",
            "PXN: send/recv through GPU 2 (NVLink to GPU 2, which is PXB from mlx5_3)",
            "Missing: `nvidia-smi topo -m` shows neither addresses nor speeds",
        ] {
            assert!(page.contains(words), "{words}: {page}");
        }
    }
    let ended = from_stdin(&data("split.xml"), &["topo", "--xml", "-"]).expect_code(0);
    assert!(ended.stdout.starts_with("Topology from standard input\n"));
    let ended = from_stdin("no matrix", &["topo", "--xml", "-"]).expect_code(6);
    assert!(
        ended.stderr.contains("--xml -: it is not XML"),
        "{}",
        ended.stderr
    );
}

#[test]
fn other_forms_of_the_matrix_are_read() {
    // Old: names in the columns, SOC for SYS, processors alone.
    let old = "\tGPU0\tGPU1\tmlx5_0\tCPU Affinity\nGPU0\t X \tSOC\tPIX\t0-7\nGPU1\tSOC\t X \tSOC\t8-15\n\
               mlx5_0\tPIX\tSOC\t X \t\nLegend:\n  NV#  = Connection\n";
    let all = one(old);
    assert_eq!(all.between(0, 1).kind, Some(PathType::Sys));
    assert_eq!(
        (all.to_nic(0, 0).smi.as_str(), all.nics[0].name.as_str()),
        ("PIX", "mlx5_0")
    );

    // Without any NVLink and without the line that would name them, as `topo -mp` prints it.
    let pci_only = old.replace("NV#", "SYS");
    let all = one(&pci_only);
    assert_eq!(
        (all.between(0, 1).kind, all.between(0, 1).smi.as_str()),
        (None, "SYS")
    );
    assert_eq!(all.inside(0, 1), None);

    // One GPU; tabs that an editor swallowed; a row that is missing; a comment's mark.
    let single = one(
        "        GPU0    NIC0    CPU Affinity    NUMA Affinity\nGPU0     X      PHB     0-251   \
         N/A\n",
    );
    assert_eq!(
        (single.gpus.len(), single.nics.len(), single.cpus[0].numa),
        (1, 1, -1)
    );
    let glued = one(
        "# \tGPU0 GPU1 NIC0 NIC1 CPU Affinity NUMA Affinity\n# GPU0 X NV18NODEPIX 0-55 0\n# GPU1 \
         NV18 X PIXNODE 0-55 0\n",
    );
    assert_eq!(glued.to_nic(0, 1).kind, Some(PathType::Pix));
    assert_eq!(glued.nic_to_nic(0, 1).kind, None);
    assert_eq!((glued.cpus.len(), glued.cpus[0].numa), (1, 0));

    let lonely = MATRIX
        .replace("NV12\tNV12\t X ", "SYS\tSYS\t X ")
        .replace("NV12\tNV12\tPXB", "NV12\tSYS\tPXB");
    let page = topo(&lonely.replace("X \tNV12\tPXB", "X \tSYS\tPXB"), &[])
        .expect_code(0)
        .stdout;
    assert!(
        page.contains("Note: GPU 2 has no NVLink, although 2 others do"),
        "{page}"
    );

    let ended = topo("\tGPU0\tGPU1\tCPU Affinity\n", &[]).expect_code(6);
    assert!(
        ended.stderr.contains("but no row below it"),
        "{}",
        ended.stderr
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    /// Arbitrary text, arbitrary text below a header, and a matrix that is cut and patched: never a
    /// panic.
    #[test]
    fn no_matrix_is_a_panic(text in any::<String>(), cells in "(GPU|NIC|NV|X|PIX|NODE|[0-9]|[ \t\n:]|\u{1b}|#){0,120}", cut in 0..700_usize) {
        draw(&text);
        draw(&cells);
        draw(&format!("GPU0 GPU1 NIC0 CPU Affinity NUMA Affinity\n{cells}\n{text}"));
        let matrix: Vec<char> = MATRIX.chars().collect();
        let (head, tail) = matrix.split_at(cut.min(matrix.len()));
        let (head, tail): (String, String) = (head.iter().collect(), tail.iter().collect());
        draw(&head);
        draw(&format!("{head}{cells}{tail}"));
    }
}
