//! Who sends how much to whom in an alltoallv: nccl-tests' generated pattern, or a matrix.
//!
//! A run reads its pattern before it makes its cases; each case of an alltoallv carries it.

use std::hash::{Hash, Hasher};

use serde::{Deserialize, Serialize};

use super::{Case, Collective};
use crate::units::{Bytes, GBps, Micros};

/// Where the settings come from: nccl-tests' variables.
pub const SPREAD: &str = "NCCL_TESTS_ALLTOALLV_SPREAD";
/// The file of a matrix.
pub const MATRIX_FILE: &str = "NCCL_TESTS_ALLTOALLV_MATRIX_FILE";
/// What each of its values is multiplied by.
pub const MATRIX_SCALE: &str = "NCCL_TESTS_ALLTOALLV_MATRIX_SCALE";
/// Are bandwidths by rank asked for?
pub const PRINT_SUMMARY: &str = "NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY";

/// What a message is rounded down to, in bytes.
const LINE: u64 = 16;

/// How the bytes of an alltoallv are shared out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Traffic {
    /// Each rank sends the same in all: this part of it (0 to 1) in proportion to the distance to the receiver, counted
    /// upwards, the rest evenly.
    Spread(f64),
    /// As a file says, whatever the size of the case.
    Matrix(Matrix),
}

/// Bytes from each rank to each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Matrix {
    side: u64,
    /// Row by row: row i is what rank i sends.
    bytes: Vec<u64>,
}

/// nccl-tests' default.
pub static DEFAULT: Traffic = Traffic::Spread(1.0);

// A spread is a number from 0 to 1.
impl Eq for Traffic {}

impl Hash for Traffic {
    /// Nothing of it: the cases of a run have one pattern, and a matrix can be long.
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl Traffic {
    /// The pattern for the rest of the process, so that cases which carry it stay cheap to copy: a run has one.
    pub fn keep(self) -> &'static Traffic {
        Box::leak(Box::new(self))
    }

    /// The pattern that the variables ask for; `read` reads a file.
    ///
    /// # Errors
    /// A sentence that names the variable or the file.
    pub fn from_env(
        env: crate::env::Env,
        read: &dyn Fn(&str) -> std::io::Result<String>,
    ) -> Result<Traffic, String> {
        let number = |name: &str, most: f64, what: &str| match env(name) {
            None => Ok(1.0),
            Some(text) => text
                .trim()
                .parse::<f64>()
                .ok()
                .filter(|value| (0.0..=most).contains(value))
                .ok_or_else(|| format!("{name}={text} is not a {what}")),
        };
        let spread = number(SPREAD, 1.0, "number from 0 to 1")?;
        let scale = number(MATRIX_SCALE, f64::MAX, "number of at least 0")?;
        let Some(file) = env(MATRIX_FILE) else {
            return Ok(Traffic::Spread(spread));
        };
        let text =
            read(&file).map_err(|error| format!("{MATRIX_FILE}={file} cannot be read: {error}"))?;
        Matrix::parse(&text, scale)
            .map(Traffic::Matrix)
            .map_err(|what| format!("{MATRIX_FILE}={file}: {what}"))
    }

    /// What tells it from another one, for the records: `spread 0.5`, or `matrix 8 ` and a hash of its bytes.
    pub fn label(&self) -> String {
        match self {
            Traffic::Spread(spread) => format!("spread {spread}"),
            Traffic::Matrix(matrix) => format!("matrix {} {:016x}", matrix.side, matrix.hash()),
        }
    }

    /// Does it share out what the size of a case says?
    pub fn follows_size(&self) -> bool {
        matches!(self, Traffic::Spread(_))
    }

    /// Bytes from one rank to another, where each of `ranks` has `total` to send. As nccl-tests computes them: in double,
    /// and down to whole lines of 16 bytes.
    fn bytes(&self, from: u64, to: u64, ranks: u64, total: u64) -> u64 {
        let exact = match self {
            Traffic::Matrix(matrix) => return matrix.bytes[(from * matrix.side + to) as usize],
            Traffic::Spread(_) if ranks == 1 => total,
            Traffic::Spread(spread) => {
                let (distance, total) = ((to + ranks - from) % ranks, total as f64);
                let distances = ranks * (ranks - 1) / 2;
                let (even, far) = (
                    total / ranks as f64,
                    distance as f64 * total / distances as f64,
                );
                ((1.0 - spread) * even + spread * far) as u64
            }
        };
        exact / LINE * LINE
    }
}

impl Matrix {
    /// Reads a square of numbers, a row a line, each times `scale` and rounded down to whole lines of 16 bytes.
    fn parse(text: &str, scale: f64) -> Result<Matrix, String> {
        let rows: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        let rows: Vec<Vec<&str>> = rows.into_iter().filter(|row| !row.is_empty()).collect();
        let side = rows.len();
        if side == 0 {
            return Err("it is empty; a matrix has a row a rank, of bytes to each rank".into());
        }
        let mut bytes = Vec::with_capacity(side * side);
        for (at, row) in rows.iter().enumerate() {
            if row.len() != side {
                return Err(format!(
                    "row {} has {} values and there are {side} rows",
                    at + 1,
                    row.len()
                ));
            }
            for text in row {
                let value = text.parse::<f64>().ok().map(|value| value * scale);
                // Below 2^53 each value is a whole number of bytes in double too.
                let value = value.filter(|value| (0.0..9e15).contains(value));
                let value = value.ok_or_else(|| {
                    format!(
                        "row {} has '{text}', which is not a number of bytes",
                        at + 1
                    )
                })?;
                bytes.push(value as u64 / LINE * LINE);
            }
        }
        Ok(Matrix {
            side: side as u64,
            bytes,
        })
    }

    /// FNV-1a of its numbers, row by row, of each the lowest of 8 bytes first. It is the same in every version.
    fn hash(&self) -> u64 {
        let bytes = self.bytes.iter().flat_map(|number| number.to_le_bytes());
        bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    }

    /// How many ranks it is for, at most.
    pub fn side(&self) -> u64 {
        self.side
    }
}

/// A pattern on so many ranks, in elements.
#[derive(Clone, Copy, Debug)]
pub struct TrafficShares<'a> {
    /// The pattern.
    pub traffic: &'a Traffic,
    /// Ranks of the communicator.
    pub ranks: u64,
    /// Bytes that each rank has to send, where the pattern does not say it itself.
    pub total: u64,
    /// Bytes an element takes.
    pub element_size: u64,
}

impl TrafficShares<'_> {
    /// Elements from one rank to another.
    pub fn elements(&self, from: u64, to: u64) -> u64 {
        self.traffic.bytes(from, to, self.ranks, self.total) / self.element_size
    }

    /// Elements that a rank sends to those before `to`: where those for `to` begin.
    pub fn before(&self, from: u64, to: u64) -> u64 {
        (0..to).map(|to| self.elements(from, to)).sum()
    }

    /// Elements that a rank sends.
    pub fn sent(&self, rank: u64) -> u64 {
        self.before(rank, self.ranks)
    }

    /// Elements that a rank receives.
    pub fn received(&self, rank: u64) -> u64 {
        (0..self.ranks).map(|from| self.elements(from, rank)).sum()
    }

    /// The most that a rank sends, and the most that one receives.
    pub fn most(&self) -> (u64, u64) {
        match self.traffic {
            // All ranks have the same distances to the others.
            Traffic::Spread(_) => (self.sent(0), self.sent(0)),
            Traffic::Matrix(_) => {
                let most = |of: &dyn Fn(u64) -> u64| (0..self.ranks).map(of).max().unwrap_or(0);
                (
                    most(&|rank| self.sent(rank)),
                    most(&|rank| self.received(rank)),
                )
            }
        }
    }
}

/// What a rank exchanges with another. Offsets and lengths count elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerFlow {
    /// Where what is sent begins in the send buffer.
    pub send_offset: u64,
    /// How much is sent.
    pub send: u64,
    /// Where what is received begins in the receive buffer.
    pub recv_offset: u64,
    /// How much is received.
    pub recv: u64,
}

/// What `rank` exchanges with each rank in `case`, in rank order: nothing lies between the parts.
pub fn flows(case: &Case, rank: u64) -> Vec<PeerFlow> {
    let shares = case.shares();
    let (mut send_offset, mut recv_offset) = (0, 0);
    let flow = |peer: u64| {
        let (send, recv) = (shares.elements(rank, peer), shares.elements(peer, rank));
        let flow = PeerFlow {
            send_offset,
            send,
            recv_offset,
            recv,
        };
        (send_offset, recv_offset) = (send_offset + send, recv_offset + recv);
        flow
    };
    (0..case.ranks).map(flow).collect()
}

/// Bandwidths by rank of an operation that took `time`, as comment lines in nccl-tests' words; none where `case` is no
/// alltoallv.
pub fn summary(case: &Case, time: Micros) -> Vec<String> {
    if case.collective == Collective::AllToAllV {
        lines(&case.shares(), time)
    } else {
        Vec::new()
    }
}

fn lines(shares: &TrafficShares<'_>, time: Micros) -> Vec<String> {
    let ranks = shares.ranks;
    let (mode, pattern) = match shares.traffic {
        Traffic::Spread(spread) => (
            "generated",
            format!("total_bytes={} spread={spread:.3}", shares.total),
        ),
        Traffic::Matrix(matrix) => ("matrix", format!("matrix_dim={}", matrix.side)),
    };
    let head = format!(
        "# {PRINT_SUMMARY}: mode={mode} nranks={ranks} {pattern} time_usec={:.2}",
        time.0
    );
    let of_rank = |rank: u64| {
        let (sent, received) = (
            shares.sent(rank) * shares.element_size,
            shares.received(rank) * shares.element_size,
        );
        let algbw = GBps::average(Bytes(sent.max(received)), time).0;
        let busbw = algbw * super::all_but_own_share(ranks as f64);
        format!(
            "#   rank={rank} send_bytes={sent} recv_bytes={received} alg_bw={algbw:.2} bus_bw={busbw:.2}"
        )
    };
    std::iter::once(head)
        .chain((0..ranks).map(of_rank))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(variables: &[(&str, &str)], file: &str) -> Result<Traffic, String> {
        let env = |name: &str| {
            variables
                .iter()
                .find(|(n, _)| *n == name)
                .map(|(_, value)| (*value).to_owned())
        };
        let missing = || std::io::Error::from(std::io::ErrorKind::NotFound);
        Traffic::from_env(&env, &|path| {
            if path == "here" {
                Ok(file.to_owned())
            } else {
                Err(missing())
            }
        })
    }

    /// nccl-tests' own example of four ranks.
    #[test]
    fn distant_ranks_get_more() {
        let from_0 = |spread| {
            let traffic = Traffic::Spread(spread);
            [0, 1, 2, 3].map(|to| traffic.bytes(0, to, 4, 4800))
        };
        assert_eq!(from_0(1.0), [0, 800, 1600, 2400]);
        assert_eq!(from_0(0.0), [1200; 4]);
        assert_eq!(from_0(0.5), [592, 992, 1392, 1792], "each down to 16 bytes");
        assert_eq!(
            Traffic::Spread(1.0).bytes(3, 1, 4, 4800),
            1600,
            "from 3 to 1 are two steps up"
        );
        assert_eq!(Traffic::Spread(1.0).bytes(0, 0, 1, 100), 96);
    }

    #[test]
    fn variables_are_read_or_refused_in_a_sentence() {
        assert_eq!(asked(&[], ""), Ok(Traffic::Spread(1.0)));
        assert_eq!(asked(&[(SPREAD, "0.25")], ""), Ok(Traffic::Spread(0.25)));
        let matrix = asked(
            &[(MATRIX_FILE, "here"), (MATRIX_SCALE, "2")],
            "100 200\n\n 50\t7.9 \n",
        );
        assert_eq!(
            matrix,
            Ok(Traffic::Matrix(Matrix {
                side: 2,
                bytes: vec![192, 400, 96, 0]
            }))
        );
        for (name, value, file, words) in [
            (
                SPREAD,
                "1.5",
                "",
                "NCCL_TESTS_ALLTOALLV_SPREAD=1.5 is not a number from 0 to 1",
            ),
            (SPREAD, "nan", "", "not a number from 0 to 1"),
            (
                MATRIX_SCALE,
                "-1",
                "",
                "NCCL_TESTS_ALLTOALLV_MATRIX_SCALE=-1 is not a number of at least 0",
            ),
            (
                MATRIX_FILE,
                "nowhere",
                "",
                "NCCL_TESTS_ALLTOALLV_MATRIX_FILE=nowhere cannot be read",
            ),
            (MATRIX_FILE, "here", "\n", "is empty"),
            (
                MATRIX_FILE,
                "here",
                "1 2\n3",
                "row 2 has 1 values and there are 2 rows",
            ),
            (
                MATRIX_FILE,
                "here",
                "1 2 3\n4 5 6",
                "row 1 has 3 values and there are 2 rows",
            ),
            (
                MATRIX_FILE,
                "here",
                "1 -2\n3 4",
                "row 1 has '-2', which is not a number of bytes",
            ),
            (MATRIX_FILE, "here", "1 2\n3 inf", "row 2 has 'inf'"),
        ] {
            let error = asked(&[(name, value)], file).expect_err(name);
            assert!(error.contains(words), "{name}={value}: {error}");
        }
    }

    #[test]
    fn what_is_sent_tells_patterns_apart() {
        let label =
            |variables: &[(&str, &str)], file| asked(variables, file).expect("a pattern").label();
        assert_eq!(label(&[(SPREAD, "0.25")], ""), "spread 0.25");
        let of_file = |file| label(&[(MATRIX_FILE, "here")], file);
        assert_eq!(of_file("0 16\n32 48"), "matrix 2 c834997fb4a8ad65");
        assert_ne!(of_file("0 16\n32 48"), of_file("0 32\n16 48"));
        let doubled = label(&[(MATRIX_FILE, "here"), (MATRIX_SCALE, "2")], "0 8\n16 24");
        assert_eq!(
            doubled,
            of_file("0  16\n\n32 48.9"),
            "what is sent counts, not how it is written"
        );
    }

    #[test]
    fn a_summary_has_a_line_for_each_rank() {
        let shares = TrafficShares {
            traffic: &Traffic::Spread(1.0),
            ranks: 2,
            total: 32_000_000,
            element_size: 4,
        };
        let wanted = [
            "# NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY: mode=generated nranks=2 total_bytes=32000000 spread=1.000 time_usec=1000.00",
            "#   rank=0 send_bytes=32000000 recv_bytes=32000000 alg_bw=32.00 bus_bw=16.00",
            "#   rank=1 send_bytes=32000000 recv_bytes=32000000 alg_bw=32.00 bus_bw=16.00",
        ];
        assert_eq!(lines(&shares, Micros(1000.0)), wanted);
    }

    #[test]
    fn what_one_sends_another_receives() {
        let matrix = Matrix {
            side: 3,
            bytes: vec![0, 16, 32, 160, 0, 0, 48, 64, 0],
        };
        for traffic in [Traffic::Spread(0.3), Traffic::Matrix(matrix)] {
            let shares = TrafficShares {
                traffic: &traffic,
                ranks: 3,
                total: 4096,
                element_size: 4,
            };
            let sum = |of: &dyn Fn(u64) -> u64| (0..3).map(of).sum::<u64>();
            assert_eq!(
                sum(&|rank| shares.sent(rank)),
                sum(&|rank| shares.received(rank))
            );
            let (sent, received) = shares.most();
            assert!(
                (0..3).all(|rank| shares.sent(rank) <= sent && shares.received(rank) <= received)
            );
        }
    }
}
