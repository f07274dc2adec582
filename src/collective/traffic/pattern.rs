//! [`Traffic`]: how the bytes of an alltoallv are divided between ranks.

use std::{
    hash::{Hash, Hasher},
    sync::{Mutex, PoisonError},
};

use serde::{Deserialize, Serialize};

use crate::{
    env::{self, Env},
    units::{counted, fnv1a},
    visible::excerpt,
};

/// nccl-tests' variable for the spread.
pub const SPREAD: &str = "NCCL_TESTS_ALLTOALLV_SPREAD";
/// nccl-tests' variable for the file of a matrix.
pub const MATRIX_FILE: &str = "NCCL_TESTS_ALLTOALLV_MATRIX_FILE";
/// nccl-tests' variable for the factor of all values of the matrix.
pub const MATRIX_SCALE: &str = "NCCL_TESTS_ALLTOALLV_MATRIX_SCALE";

/// Bytes to a multiple of which messages are rounded down.
const LINE: u64 = 16;

/// The most rows of a matrix.
const MOST_SIDE: usize = 8192;

/// What each value of a matrix is less than: 1 PiB, so that the sums of rows fit into 64 bits. It
/// is a whole number of bytes in double precision too.
const MOST_VALUE: f64 = (1_u64 << 50) as f64;

/// A pattern: how the bytes of an alltoallv are divided between ranks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Traffic {
    /// Each rank sends the same total: this part of it (0 to 1) in proportion to the distance to
    /// the receiver, counted upwards, and the rest evenly.
    Spread(f64),
    /// The amounts of a file, independent of the size of the case.
    Matrix(Matrix),
}

/// Bytes from each rank to each rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Matrix {
    side: u64,
    /// Row by row: row i has what rank i sends.
    bytes: Vec<u64>,
}

/// The patterns that are kept.
static KEPT: Mutex<Vec<&'static Traffic>> = Mutex::new(Vec::new());

/// nccl-tests' default.
pub static DEFAULT: Traffic = Traffic::Spread(1.0);

// A spread is a number from 0 to 1.
impl Eq for Traffic {}

impl Hash for Traffic {
    /// Hashes nothing: all cases of a run have the same pattern, and a matrix can be long.
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl Traffic {
    /// Keeps the pattern until the process ends, so that cases which carry it are cheap to copy: a
    /// run has few. Equal patterns are kept once.
    pub fn keep(self) -> &'static Traffic {
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = kept.iter().find(|known| ***known == self) {
            return known;
        }
        let new: &'static Traffic = Box::leak(Box::new(self));
        kept.push(new);
        new
    }

    /// Reads a matrix in the form of nccl-tests' file: a line for each rank, with the bytes to each
    /// rank.
    ///
    /// # Errors
    /// Returns an error that says what is wrong, and where.
    pub fn matrix(text: &str) -> Result<Traffic, String> {
        Matrix::parse(text, 1.0).map(Traffic::Matrix)
    }

    /// Reads the pattern from the variables; `read` reads a file.
    ///
    /// # Errors
    /// Returns an error that names the variable or the file if a value is not valid.
    pub fn from_env(
        env: Env,
        read: &dyn Fn(&str) -> std::io::Result<String>,
    ) -> Result<Traffic, String> {
        let spread = number(env, SPREAD, 1.0, "number from 0 to 1")?;
        let scale = number(env, MATRIX_SCALE, f64::MAX, "number of at least 0")?;
        let Some(file) = env::nccl_tests(env, MATRIX_FILE) else {
            return Ok(Traffic::Spread(spread));
        };
        let text =
            read(&file).map_err(|error| format!("{MATRIX_FILE}={file} cannot be read: {error}"))?;
        Matrix::parse(&text, scale)
            .map(Traffic::Matrix)
            .map_err(|what| format!("{MATRIX_FILE}={file}: {what}"))
    }

    /// Returns what identifies the pattern in records: `spread 0.5`, or `matrix 8 ` and a hash of
    /// its bytes.
    pub fn label(&self) -> String {
        match self {
            Traffic::Spread(spread) => format!("spread {spread}"),
            Traffic::Matrix(matrix) => format!("matrix {} {:016x}", matrix.side, matrix.hash()),
        }
    }

    /// Returns whether the amounts follow from the size of a case.
    pub fn follows_size(&self) -> bool {
        matches!(self, Traffic::Spread(_))
    }

    /// Returns the bytes from one rank to another if each of `ranks` has `total` to send. Computed
    /// as in nccl-tests: in double precision, rounded down to a multiple of 16 bytes.
    pub(super) fn bytes(&self, from: u64, to: u64, ranks: u64, total: u64) -> u64 {
        let spread = match self {
            Traffic::Matrix(matrix) => return matrix.bytes[(from * matrix.side + to) as usize],
            Traffic::Spread(_) if ranks == 1 => return total / LINE * LINE,
            Traffic::Spread(spread) => spread,
        };
        let distance = (to + ranks - from) % ranks;
        let all_distances = ranks * (ranks - 1) / 2;
        let total = total as f64;
        let even = total / ranks as f64;
        let by_distance = distance as f64 * total / all_distances as f64;
        let exact = ((1.0 - spread) * even + spread * by_distance) as u64;
        exact / LINE * LINE
    }
}

/// Reads a number of at most `most` from a variable; 1 if it is not set.
fn number(env: Env, name: &str, most: f64, expected: &str) -> Result<f64, String> {
    let Some(text) = env::nccl_tests(env, name) else {
        return Ok(1.0);
    };
    match text.trim().parse::<f64>() {
        Ok(value) if (0.0..=most).contains(&value) => Ok(value),
        _ => Err(format!("{name}={} is not a {expected}", excerpt(&text))),
    }
}

impl Matrix {
    /// Reads a square of numbers, one row per line. Each is multiplied by `scale` and rounded down
    /// to a multiple of 16 bytes.
    fn parse(text: &str, scale: f64) -> Result<Matrix, String> {
        let rows = || text.lines().filter(|line| !line.trim().is_empty());
        let side = rows().count();
        if side > MOST_SIDE {
            return Err(format!(
                "it has more than {MOST_SIDE} rows; a matrix has one row per rank"
            ));
        }
        if side == 0 {
            return Err(
                "it is empty; a matrix has one row per rank, with the bytes to each rank".into(),
            );
        }
        let mut bytes = Vec::new();
        for (row, number) in rows().zip(1..) {
            let width = row.split_whitespace().count();
            if width != side {
                let values = counted(width, "value");
                return Err(format!(
                    "row {number} has {values} but there are {side} rows"
                ));
            }
            for text in row.split_whitespace() {
                let value = scaled_bytes(text, scale).ok_or_else(|| {
                    let text = excerpt(text);
                    format!("row {number} has '{text}', which is not a number of bytes")
                })?;
                bytes.push(value);
            }
        }
        Ok(Matrix {
            side: side as u64,
            bytes,
        })
    }

    /// Returns the FNV-1a hash of the numbers, row by row, each as 8 bytes with the lowest first.
    /// It is the same in every version.
    fn hash(&self) -> u64 {
        fnv1a(self.bytes.iter().flat_map(|number| number.to_le_bytes()))
    }

    /// Returns the lines of the file from which [`Traffic::matrix`] reads the same.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for row in self.bytes.chunks(self.side as usize) {
            let row: Vec<String> = row.iter().map(u64::to_string).collect();
            text.push_str(&row.join(" "));
            text.push('\n');
        }
        text
    }

    /// Returns the maximum number of ranks.
    pub fn side(&self) -> u64 {
        self.side
    }
}

/// Returns the number of bytes that `text` times `scale` means, rounded down; `None` if it is none.
fn scaled_bytes(text: &str, scale: f64) -> Option<u64> {
    let value = text.parse::<f64>().ok()? * scale;
    let is_valid = (0.0..MOST_VALUE).contains(&value);
    is_valid.then_some(value as u64 / LINE * LINE)
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
                "row 2 has 1 value but there are 2 rows",
            ),
            (
                MATRIX_FILE,
                "here",
                "1 2 3\n4 5 6",
                "row 1 has 3 values but there are 2 rows",
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
}
