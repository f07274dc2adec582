//! The variables that a run sets for NCCL, before any thread or library starts.

use super::{log, presets::Presets};
use crate::{env::Env, levels::ports::Port, nccl_log::subsystems::LogDetail};

/// Returns what level, resources and network set in the environment `env` on a node with the ports
/// that `ports` lists, and what has NCCL write its log to a file of this process: on stdout it
/// would mix with the table.
pub fn to_set(
    presets: &Presets,
    proof: bool,
    env: Env,
    ports: &dyn Fn() -> Vec<Port>,
) -> Vec<(String, String)> {
    let mut set = presets.environment(env, ports);
    let asks_for_network = presets.network.is_some_and(|preset| !preset.set.is_empty());
    let mut is_logged = env("NCCL_DEBUG").is_some();
    if proof {
        set.extend(owned(LogDetail::Graphs));
        is_logged = true;
    } else if asks_for_network && !is_logged {
        set.extend(owned(LogDetail::Transports));
        is_logged = true;
    }
    if is_logged
        && env("NCCL_DEBUG_FILE").is_none()
        && let Some(file) = log::file()
    {
        set.push(("NCCL_DEBUG_FILE".into(), file));
    }
    set
}

fn owned(detail: LogDetail) -> [(String, String); 2] {
    let settings = detail.variables();
    settings.map(|(name, value)| (name.to_owned(), value.to_owned()))
}
