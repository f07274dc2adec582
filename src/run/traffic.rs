//! The traffic pattern of an alltoallv: rank 0's environment decides for all ranks.

use std::path::Path;

use crate::{
    collective::traffic::{MATRIX_FILE, Matrix, PRINT_SUMMARY, Traffic, TrafficShares},
    env,
    exit::{Code, Failure},
    input::{self, InputKind},
    sweep::plan::SweepSpec,
    units::Bytes,
    world::{self, World},
};

/// Returns `spec` with the traffic pattern of its alltoallv on `ranks` ranks. Rank 0 reads its own
/// environment and files, which other nodes may not have.
///
/// # Errors
///
/// Returns an error if the settings make no sense, or the sizes do not fit a matrix.
pub(super) fn resolve(
    spec: &SweepSpec,
    ranks: u64,
    world: &dyn World,
) -> anyhow::Result<SweepSpec> {
    if !spec.collectives.iter().any(|one| one.spec().uneven) {
        return Ok(spec.clone());
    }
    let own = if world.rank() == 0 {
        read(spec, ranks)
    } else {
        Err(String::new())
    };
    let of_rank_0: Result<Traffic, String> = world::broadcast(world, &own)?;
    let traffic = of_rank_0.map_err(|what| Failure::on_all_ranks(Code::Usage, what))?;
    Ok(SweepSpec {
        traffic: traffic.keep(),
        ..spec.clone()
    })
}

/// Returns whether this process's environment asks for bandwidths per rank.
///
/// # Errors
///
/// Returns an error if the value is neither yes nor no.
pub(super) fn wants_summary() -> Result<bool, String> {
    match env::var(PRINT_SUMMARY).as_deref().map(str::trim) {
        None | Some("" | "0") => Ok(false),
        Some("1") => Ok(true),
        Some(other) => Err(format!("{PRINT_SUMMARY}={other} is neither 0 nor 1")),
    }
}

fn read(spec: &SweepSpec, ranks: u64) -> Result<Traffic, String> {
    let traffic = Traffic::from_env(&env::var, &|path| {
        input::read_text(Path::new(path), InputKind::Matrix)
    })?;
    if let Traffic::Matrix(matrix) = &traffic {
        check_matrix(matrix, &traffic, spec, ranks)?;
    }
    wants_summary()?;
    Ok(traffic)
}

fn check_matrix(
    matrix: &Matrix,
    traffic: &Traffic,
    spec: &SweepSpec,
    ranks: u64,
) -> Result<(), String> {
    let file = env::var(MATRIX_FILE).unwrap_or_default();
    let side = matrix.side();
    if side < ranks {
        return Err(format!(
            "{MATRIX_FILE}={file} has rows for only {side} ranks, but this run has {ranks}"
        ));
    }
    let shares = TrafficShares {
        traffic,
        ranks,
        total: 0,
        element_size: 1,
    };
    let (sent, received) = shares.most();
    let needed = Bytes(sent.max(received));
    let (begin, end) = (spec.begin, spec.end);
    if begin != end {
        return Err(format!(
            "{MATRIX_FILE} sets what is sent, whatever the size. Give -b and -e the same size, \
             not {begin} and {end}"
        ));
    }
    if end < needed {
        return Err(format!(
            "{MATRIX_FILE}={file} gives a rank {} bytes, more than -e {end}. Raise -b and -e",
            needed.0
        ));
    }
    Ok(())
}
