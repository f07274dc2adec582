//! Values of the command line: collectives, types, operations, roots, whole numbers. Each parser's
//! error is a sentence.

use std::{fmt::Display, path::PathBuf, str::FromStr, time::Duration};

use clap::builder::{PathBufValueParser, TypedValueParser};

use super::slips::{self, plain};
use crate::{
    collective::{
        Collective,
        data::{DType, RedOp},
    },
    record::read::MOST_RANKS,
    sweep::plan::Roots,
    telemetry::SHORTEST_INTERVAL,
    units::Bytes,
};

/// The subcommands that help shows: a slip of the first word may mean one of them. A test of `cmd`
/// compares the two.
pub const SUBCOMMANDS: [&str; 17] = [
    "levels",
    "launch",
    "join",
    "links",
    "submit",
    "kube",
    "replay",
    "plan",
    "compare",
    "check",
    "experiment",
    "doctor",
    "proof",
    "topo",
    "rehearse",
    "monitor",
    "report",
];

/// One or several values: `all`, or a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Several<T>(pub Vec<T>);

/// Parses `all`, or names separated by commas.
fn several<T: Copy>(
    text: &str,
    all: &[T],
    name: fn(T) -> &'static str,
    kind: &str,
    elsewhere: fn(&str) -> Option<&'static str>,
) -> Result<Several<T>, String> {
    let near = |part: &str| {
        let written = plain(part);
        let written = slips::without_library(&written);
        let mut names = all.iter().map(|&value| name(value));
        names
            .find(|name| plain(name) == written)
            .or_else(|| elsewhere(part))
    };
    several_or_near(text, all, name, kind, &|part| near(part).map(str::to_owned))
}

/// As [`several`]; `near` is what may have been meant by a name that is none.
fn several_or_near<T: Copy>(
    text: &str,
    all: &[T],
    name: fn(T) -> &'static str,
    kind: &str,
    near: &dyn Fn(&str) -> Option<String>,
) -> Result<Several<T>, String> {
    if text == "all" {
        return Ok(Several(all.to_vec()));
    }
    let known = || {
        all.iter()
            .map(|&value| name(value))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let one = |part: &str| {
        all.iter()
            .copied()
            .find(|&value| name(value) == part)
            .ok_or_else(|| {
                let hint = match near(part) {
                    Some(near) if near == part => format!(" ({part} is a command: put it first)"),
                    Some(near) => format!(" (did you mean {near}?)"),
                    None => String::new(),
                };
                format!(
                    "there is no {kind} '{part}'{hint}; there are {} and all",
                    known()
                )
            })
    };
    text.split(',')
        .map(one)
        .collect::<Result<_, _>>()
        .map(Several)
}

/// Returns the collective or subcommand that is a letter or two off `word`: both can stand first.
fn near_word(word: &str) -> Option<String> {
    if let Some(name) = slips::collective(word) {
        return Some(name.to_owned());
    }
    let word = plain(word);
    let word = slips::without_library(&word);
    let limit = match word.len() {
        0..=3 => 0,
        4..=7 => 1,
        8..=20 => 2,
        _ => return None,
    };
    let distance = |name: &str| strsim::damerau_levenshtein(&plain(name), word);
    let collectives = Collective::ALL.iter().map(|collective| collective.name());
    let names = collectives.chain(SUBCOMMANDS);
    let near = names
        .map(|name| (distance(name), name))
        .filter(|(distance, _)| *distance <= limit);
    near.min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name.to_owned())
}

/// Parses a switch by nccl-tests' numbers.
///
/// # Errors
/// Returns a sentence that says what is wrong.
pub fn switch(text: &str) -> Result<bool, String> {
    match text {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err("use 0 for no or 1 for yes".into()),
    }
}

/// Returns the parser of one of `all`, by its number from 0, as nccl-tests has it.
///
/// The parser's error is a sentence.
pub fn numbered<T: Copy + Send + Sync>(
    all: &'static [T],
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync {
    move |text| {
        let value = text.parse().ok().and_then(|at: usize| all.get(at).copied());
        value.ok_or_else(|| format!("it must be a number from 0 to {}", all.len() - 1))
    }
}

/// Parses collectives of the command line.
///
/// # Errors
/// Returns a sentence with the names that exist.
pub fn collectives(text: &str) -> Result<Several<Collective>, String> {
    several_or_near(
        text,
        &Collective::ALL,
        Collective::name,
        "collective",
        &near_word,
    )
}

/// Parses element types of the command line.
///
/// # Errors
/// Returns a sentence with the names that exist.
pub fn dtypes(text: &str) -> Result<Several<DType>, String> {
    several(text, &DType::ALL, DType::name, "type", slips::dtype)
}

/// Parses reductions of the command line.
///
/// # Errors
/// Returns a sentence with the names that exist.
pub fn redops(text: &str) -> Result<Several<RedOp>, String> {
    several(text, &RedOp::ALL, RedOp::name, "operation", slips::redop)
}

/// Parses the root of the command line: a rank, or `all` or `-1` for each in turn.
///
/// # Errors
/// Returns a sentence that says what is wrong.
pub fn roots(text: &str) -> Result<Roots, String> {
    match text {
        "all" | "-1" => Ok(Roots::All),
        rank => rank
            .parse()
            .map(Roots::One)
            .map_err(|_| "a root is a rank, or all (or -1) for each in turn".into()),
    }
}

/// Parses a size of at least one byte.
///
/// # Errors
/// Returns a sentence that says what is wrong.
pub fn size(text: &str) -> Result<Bytes, String> {
    match text.parse()? {
        Bytes(0) => Err("a size is at least 1 byte".into()),
        bytes => Ok(bytes),
    }
}

/// Parses a size, or 0 bytes for none.
///
/// # Errors
/// Returns a sentence that says what is wrong.
pub fn size_or_none(text: &str) -> Result<Bytes, String> {
    text.parse()
}

/// Parses a precision in percent, with or without the sign.
///
/// # Errors
/// Returns a sentence that says what is wrong.
pub fn percentage(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).parse::<f64>();
    match number {
        Ok(percent) if percent > 0.0 && percent.is_finite() => Ok(percent),
        _ => Err("a precision is a percentage above 0, such as 1 or 0.5%".into()),
    }
}

/// Parses a share of a whole: a percentage above 0 and up to 100.
///
/// # Errors
/// Returns a sentence that says what is wrong.
pub fn share(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).parse::<f64>();
    match number {
        Ok(percent) if percent > 0.0 && percent <= 100.0 => Ok(percent / 100.0),
        _ => Err("a share is a percentage above 0 and up to 100, such as 50".into()),
    }
}

/// Parses a whole number of at least 1.
///
/// # Errors
/// Returns a sentence that says what is wrong.
pub fn positive<T: FromStr + Display + PartialOrd + From<u8>>(text: &str) -> Result<T, String> {
    text.parse()
        .ok()
        .filter(|value| *value >= T::from(1))
        .ok_or_else(|| {
            if is_large(text) {
                TOO_LARGE.into()
            } else {
                "a whole number of at least 1 is needed".into()
            }
        })
}

/// Parses a number of ranks that a job can have.
///
/// # Errors
/// Returns a sentence that says what is wrong.
pub fn ranks(text: &str) -> Result<u32, String> {
    let ranks = positive::<u32>(text)?;
    if u64::from(ranks) > MOST_RANKS {
        return Err(format!("no job has more than {MOST_RANKS} ranks"));
    }
    Ok(ranks)
}

/// Parses a whole number of at least 0.
///
/// # Errors
/// Returns a sentence that says what is wrong.
pub fn natural(text: &str) -> Result<u32, String> {
    let why = || {
        if is_large(text) {
            TOO_LARGE.into()
        } else {
            "a whole number of at least 0 is needed".into()
        }
    };
    text.parse().map_err(|_| why())
}

/// Parses a time: a number of seconds, or with units.
///
/// # Errors
/// Returns a sentence that says what is wrong.
pub fn duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let seconds = text
        .parse()
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let time = seconds.or_else(|| humantime::parse_duration(text).ok());
    match time {
        Some(time) if time.is_zero() => Err("the time must be longer than 0".into()),
        Some(time) => Ok(time),
        None => Err("a time is a number of seconds, or such as 500ms, 2s or 1h 30m".into()),
    }
}

/// Parses the name of a file that is written. As for other programs, `-` is standard output.
pub fn output_file() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().map(|path| match path.to_str() {
        Some("-") => PathBuf::from("/dev/stdout"),
        _ => path,
    })
}

/// Parses the interval between two samples of telemetry.
///
/// # Errors
/// Returns a sentence that says what is wrong.
pub fn interval(text: &str) -> Result<Duration, String> {
    let interval = duration(text)?;
    if interval < SHORTEST_INTERVAL {
        return Err(format!(
            "the shortest interval is {} ms",
            SHORTEST_INTERVAL.as_millis()
        ));
    }
    Ok(interval)
}

const TOO_LARGE: &str = "the number is too large";

/// Returns whether it is a whole number that is larger than those in use.
fn is_large(text: &str) -> bool {
    text.len() > 9 && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_all() {
        assert_eq!(
            dtypes("half,float"),
            Ok(Several(vec![DType::Half, DType::Float]))
        );
        assert_eq!(redops("all").map(|all| all.0.len()), Ok(6));
        assert_eq!(roots("-1"), Ok(Roots::All));
        assert_eq!(roots("3"), Ok(Roots::One(3)));
        assert!(roots("-2").is_err() && roots("x").is_err());
    }

    #[test]
    fn a_near_miss_is_hinted_at() {
        for near in [
            "allreduce",
            "all-reduce",
            "AllReduce",
            "all_reduce_perf",
            "all_recude",
            "al_reduce_perf",
            "all_reduce_perf_mpi",
            "ncclAllReduce",
            "MPI_Allreduce",
        ] {
            assert!(
                collectives(near)
                    .expect_err(near)
                    .contains("did you mean all_reduce?"),
                "{near}"
            );
        }
        for (written, meant) in [
            ("reducescatter", "reduce_scatter"),
            ("alltoall_perf", "alltoall"),
            ("all2all", "alltoall"),
            ("bcast", "broadcast"),
            ("send_recv", "sendrecv"),
        ] {
            let sentence = collectives(written).expect_err("no collective");
            let hint = format!("(did you mean {meant}?)");
            assert!(sentence.contains(&hint), "{sentence}");
        }
        for far in ["sum", "x", "al", "probes", "reducing", "all_to_one"] {
            assert!(
                !collectives(far)
                    .expect_err("not a collective")
                    .contains("did you mean"),
                "{far}"
            );
        }
        assert!(
            dtypes("Float")
                .expect_err("no type")
                .contains("did you mean float?")
        );
        for (written, meant) in [
            ("fp16", "half"),
            ("float16", "half"),
            ("BF16", "bfloat16"),
            ("fp32", "float"),
            ("ncclFloat64", "double"),
            ("fp8", "f8e4m3 or f8e5m2"),
            ("fp8_e4m3", "f8e4m3"),
            ("e5m2", "f8e5m2"),
        ] {
            let sentence = dtypes(written).expect_err("no type");
            let hint = format!("(did you mean {meant}?)");
            assert!(sentence.contains(&hint), "{sentence}");
        }
        let sentence = redops("add").expect_err("no operation");
        assert!(sentence.contains("(did you mean sum?)"), "{sentence}");
        let unknown = dtypes("complex").expect_err("no type");
        assert!(!unknown.contains("did you mean"), "{unknown}");
    }

    #[test]
    fn times() {
        assert_eq!(interval("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(interval("0.25"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("1h 30m"), Ok(Duration::from_secs(5400)));
        for text in ["", "0", "-1", "x", "1e300", "nan", "0s"] {
            assert!(duration(text).is_err(), "{text}");
        }
        assert!(interval("49ms").expect_err("short").contains("50 ms"));
    }

    #[test]
    fn numbers() {
        assert_eq!(positive::<u32>("20"), Ok(20));
        assert_eq!(ranks("1048576"), Ok(1 << 20));
        let refused = ranks("4294967295");
        assert_eq!(refused, Err("no job has more than 1048576 ranks".into()));
        for text in ["0", "-1", "abc", "1.5", ""] {
            assert!(positive::<u32>(text).is_err(), "{text}");
        }
        assert_eq!(size("0").expect_err("no size"), "a size is at least 1 byte");
    }
}
