//! What variables name: files, folders, plugins, and the network of NCCL_NET.

use super::{check::Check, outcome::CheckOutcome};
use crate::{
    facts::ranks::RankFacts,
    levels::paths::{Names, PATH_VARIABLES, plugin_names},
};

pub(super) const CHECKS: &[Check] = &[
    Check::per_process(
        "name.file",
        "each file that a variable names can be read",
        |process| unusable(process, |names| names == Names::File),
    ),
    Check::per_process(
        "name.output",
        "the folder of each file that NCCL is to write exists",
        |process| unusable(process, |names| names == Names::Output),
    ),
    Check::per_process(
        "name.plugin",
        "the tuner, the profiler and the other plugins that variables name exist",
        |process| unusable(process, |names| matches!(names, Names::Plugins { .. })),
    ),
    Check::per_process(
        "name.network",
        "the network that NCCL_NET names exists",
        network,
    ),
];

/// Reports the variables of one kind whose value names nothing that can be used.
fn unusable(process: &RankFacts, is_wanted: fn(Names) -> bool) -> CheckOutcome {
    let mut evidence = Vec::new();
    let (mut set, mut fails) = (0, false);
    for variable in PATH_VARIABLES
        .iter()
        .filter(|variable| is_wanted(variable.names))
    {
        let value = process.settings.get(variable.name).unwrap_or_default();
        if value.is_empty() {
            continue;
        }
        set += 1;
        let Some(why) = process.health.unusable.get(variable.name) else {
            continue;
        };
        let setting = process.settings.describe(variable.name);
        evidence.push(format!(
            "{setting} cannot be used ({why}): {}",
            variable.otherwise
        ));
        fails |= variable.fails;
    }
    if set == 0 {
        return CheckOutcome::not_applicable("no such variable is set");
    }
    if evidence.is_empty() {
        return CheckOutcome::ok("all of them");
    }
    let remedy =
        "correct the path, or unset the variable; on a cluster the file must be on every node";
    CheckOutcome::finding(fails, evidence.join("; "), remedy)
}

/// The networks that NCCL has without a plugin.
const OWN_NETWORKS: [&str; 2] = ["IB", "Socket"];

/// The file of the plugin that NCCL loads if none is named.
const DEFAULT_PLUGIN: &str = "libnccl-net.so";

/// The first NCCL that words the failure in another way.
const NEW_WORDING: i32 = 22700;

fn network(process: &RankFacts) -> CheckOutcome {
    let name = process.settings.get("NCCL_NET").unwrap_or_default();
    if name.is_empty() {
        return CheckOutcome::not_applicable("NCCL_NET names no network");
    }
    let own = OWN_NETWORKS
        .iter()
        .find(|own| own.eq_ignore_ascii_case(name));
    match own {
        Some(&"IB") if process.health.rdma.is_empty() && process.is_for_gpus() => failing(
            process,
            "there is no RDMA device",
            "unset NCCL_NET, or find out why the adapters are missing (ibv_devices)",
        ),
        Some(own) => CheckOutcome::ok(format!("{own} is part of NCCL")),
        None => match plugin_file(process) {
            Some(file) => CheckOutcome::ok(format!("{file} is the plugin for it")),
            None => failing(
                process,
                "no plugin that could provide it was found, and NCCL's own networks are IB and \
                 Socket",
                "add the plugin's folder to LD_LIBRARY_PATH, and name it in NCCL_NET_PLUGIN \
                 unless it is libnccl-net.so; or unset NCCL_NET",
            ),
        },
    }
}

fn failing(process: &RankFacts, why: &str, remedy: &str) -> CheckOutcome {
    let setting = process.settings.describe("NCCL_NET");
    let is_new = process
        .nccl
        .as_ref()
        .is_ok_and(|nccl| nccl.version >= NEW_WORDING);
    let words = if is_new {
        "Failed to initialize any NET plugin"
    } else {
        "network … not found"
    };
    CheckOutcome::failure(
        format!(
            "{setting}: {why}; NCCL does not fall back from a network that is named, and ends \
             with '{words}'"
        ),
        remedy,
    )
}

/// Returns the file of a network plugin that NCCL would load.
fn plugin_file(process: &RankFacts) -> Option<&String> {
    let health = &process.health;
    match process.settings.get("NCCL_NET_PLUGIN") {
        Some(list) => {
            let mut files = plugin_names(list).filter_map(|name| health.plugins_named.get(name));
            files.find_map(Option::as_ref)
        }
        None => health
            .plugins
            .iter()
            .find(|path| path.ends_with(DEFAULT_PLUGIN)),
    }
}
