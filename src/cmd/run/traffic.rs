//! The pattern of an alltoallv: what rank 0's environment says, for all ranks.

use crate::{
    collective::{
        Collective,
        traffic::{MATRIX_FILE, PRINT_SUMMARY, Traffic, TrafficShares},
    },
    exit::{Code, Failure},
    sweep::plan::SweepSpec,
    units::Bytes,
    world::{self, World},
};

/// `ask` with the pattern, where it has an alltoallv on `ranks` ranks: on rank 0 from its environment and files, which
/// other nodes may not have.
///
/// # Errors
/// Where the settings make no sense, or the sizes do not fit a matrix.
pub(super) fn settled(ask: SweepSpec, ranks: u64, world: &dyn World) -> anyhow::Result<SweepSpec> {
    if !ask.collectives.contains(&Collective::AllToAllV) {
        return Ok(ask);
    }
    let mine = if world.rank() == 0 {
        asked(&ask, ranks)
    } else {
        Err(String::new())
    };
    let settled: Result<_, String> = world::broadcast(world, &mine)?;
    let traffic = settled.map_err(|what| Failure::on_all_ranks(Code::Usage, what))?;
    Ok(SweepSpec {
        traffic: traffic.keep(),
        ..ask
    })
}

fn env(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

/// Does this process's environment ask for bandwidths by rank?
///
/// # Errors
/// Where it says neither yes nor no.
pub(super) fn wants_summary() -> Result<bool, String> {
    match env(PRINT_SUMMARY).as_deref().map(str::trim) {
        None | Some("" | "0") => Ok(false),
        Some("1") => Ok(true),
        Some(other) => Err(format!("{PRINT_SUMMARY}={other} is neither 0 nor 1")),
    }
}

/// What this process's environment asks for.
fn asked(ask: &SweepSpec, ranks: u64) -> Result<Traffic, String> {
    let traffic = Traffic::from_env(&env, &|path| std::fs::read_to_string(path))?;
    if let Traffic::Matrix(matrix) = &traffic {
        let file = env(MATRIX_FILE).unwrap_or_default();
        let (sent, received) = match matrix.side() {
            side if side < ranks => {
                return Err(format!(
                    "{MATRIX_FILE}={file} has rows for {side} ranks at most, and this run has {ranks}"
                ));
            }
            _ => TrafficShares {
                traffic: &traffic,
                ranks,
                total: 0,
                element_size: 1,
            }
            .most(),
        };
        let (begin, end, least) = (ask.begin, ask.end, Bytes(sent.max(received)));
        if begin != end {
            return Err(format!(
                "{MATRIX_FILE} sets what is sent, whatever the size: give -b and -e the same size, not {begin} and {end}"
            ));
        }
        if end < least {
            let least = least.0;
            return Err(format!(
                "a rank has {least} bytes in {MATRIX_FILE}={file}, more than -e {end}: raise -b and -e"
            ));
        }
    }
    wants_summary()?;
    Ok(traffic)
}
