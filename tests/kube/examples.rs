//! The manifests in `examples/k8s/` are what the program prints.
//! `UPDATE_GOLDEN=1 cargo test --test kube` rewrites them.

use std::{fs, path::Path};

use crate::{
    common::{alone, run},
    folder,
};

/// A manifest, and the arguments of `pxnbench kube render` that it comes from.
struct Example {
    file: &'static str,
    arguments: &'static str,
}

const EXAMPLES: [Example; 4] = [
    Example {
        file: "plain.yaml",
        arguments: "pxn --image registry.example/pxnbench:0.1 --nodes 2 --gpus 8",
    },
    Example {
        file: "rdma-host-network.yaml",
        arguments: "pxn --image registry.example/pxnbench:0.1 --nodes 4 --gpus 8 --rdma \
                    rdma/hca_shared_devices_a --host-network --network ib --env \
                    NCCL_SOCKET_IFNAME=eth0 -- alltoall -b 1K -e 4G -f 2",
    },
    Example {
        file: "kueue.yaml",
        arguments: "pxn --namespace team-a --image registry.example/pxnbench:0.1 --nodes 8 --gpus \
                    8 --queue gpus --level balanced --size 8:1G:4 --time 10m -- all_reduce",
    },
    Example {
        file: "mpi-operator.yaml",
        arguments: "pxn --mpi-operator --image registry.example/pxnbench-mpi:0.1 --nodes 2 --gpus \
                    8 -- all_reduce -b 8 -e 1G -f 2",
    },
];

#[test]
fn the_examples_are_what_is_rendered() {
    let home = folder();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/k8s");
    let mut listed = Vec::new();
    for Example { file, arguments } in EXAMPLES {
        let mut command = alone(home.path());
        command
            .args(["kube", "render"])
            .args(arguments.split_whitespace());
        let rendered = run(&mut command).expect_code(0).stdout;
        let words: Vec<&str> = arguments.split_whitespace().collect();
        let expected = format!("# pxnbench kube render {}\n{rendered}", words.join(" "));
        let path = examples.join(file);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&path, &expected).expect("written");
        }
        let there = fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(there, expected, "{file}; UPDATE_GOLDEN=1 rewrites it");
        listed.push(file.to_owned());
    }
    let entries = fs::read_dir(&examples).expect("examples/k8s");
    let mut there: Vec<String> = entries
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into()
        })
        .collect();
    there.retain(|name| name.ends_with(".yaml"));
    there.sort();
    listed.sort();
    assert_eq!(there, listed, "no example is left over");
}

#[test]
fn a_token_is_printed_only_on_request() {
    let home = folder();
    let render = |more: &[&str]| {
        let mut command = alone(home.path());
        command.args(["kube", "render", "--image", "x"]).args(more);
        run(&mut command).expect_code(0).stdout
    };
    let hidden = render(&[]);
    assert!(hidden.contains("PXNBENCH_TOKEN: REPLACE-WITH-A-RANDOM-TOKEN"));
    assert!(hidden.contains("# Not a secret yet"));
    let token_of = |text: &str| {
        let (_, token) = text.split_once("PXNBENCH_TOKEN: ").expect("a token");
        token.lines().next().expect("a value").to_owned()
    };
    let [one, other] = [(); 2].map(|()| token_of(&render(&["--token"])));
    assert!(
        one.trim_matches('"').len() == 64 && one != other,
        "{one} {other}"
    );
}
