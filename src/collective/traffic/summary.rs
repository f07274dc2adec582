//! The bandwidths of each rank in an alltoallv, as nccl-tests prints them.

use super::{pattern::Traffic, shares::TrafficShares};
use crate::units::{Bytes, GBps, Micros};

/// The variable that requests bandwidths by rank.
pub const PRINT_SUMMARY: &str = "NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY";

/// Returns the bandwidths of each rank in an operation that took `time`, as comment lines in
/// nccl-tests' words. `bus_factor` is busbw divided by algbw.
pub(in crate::collective) fn lines(
    shares: &TrafficShares<'_>,
    time: Micros,
    bus_factor: f64,
) -> Vec<String> {
    let (mode, pattern) = match shares.traffic {
        Traffic::Spread(spread) => (
            "generated",
            format!("total_bytes={} spread={spread:.3}", shares.total),
        ),
        Traffic::Matrix(matrix) => ("matrix", format!("matrix_dim={}", matrix.side())),
    };
    let mut lines = vec![format!(
        "# {PRINT_SUMMARY}: mode={mode} nranks={} {pattern} time_usec={:.2}",
        shares.ranks, time.0
    )];
    for rank in 0..shares.ranks {
        let sent = shares.sent(rank) * shares.element_size;
        let received = shares.received(rank) * shares.element_size;
        let algbw = GBps::average(Bytes(sent.max(received)), time).0;
        let busbw = algbw * bus_factor;
        lines.push(format!(
            "#   rank={rank} send_bytes={sent} recv_bytes={received} alg_bw={algbw:.2} \
             bus_bw={busbw:.2}"
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_has_a_line_for_each_rank() {
        let shares = TrafficShares {
            traffic: &Traffic::Spread(1.0),
            ranks: 2,
            total: 32_000_000,
            element_size: 4,
        };
        let wanted = [
            "# NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY: mode=generated nranks=2 total_bytes=32000000 \
             spread=1.000 time_usec=1000.00",
            "#   rank=0 send_bytes=32000000 recv_bytes=32000000 alg_bw=32.00 bus_bw=16.00",
            "#   rank=1 send_bytes=32000000 recv_bytes=32000000 alg_bw=32.00 bus_bw=16.00",
        ];
        assert_eq!(lines(&shares, Micros(1000.0), 0.5), wanted);
    }
}
