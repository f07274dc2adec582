//! What a slip on the command line may have meant: names that other programs use, and options of
//! other programs.

/// Names of collectives elsewhere, without case, hyphens and underscores.
const COLLECTIVES: [(&str, &str); 8] = [
    ("all2all", "alltoall"),
    ("a2a", "alltoall"),
    ("all2allv", "alltoallv"),
    ("a2av", "alltoallv"),
    ("bcast", "broadcast"),
    ("p2p", "sendrecv"),
    ("sendreceive", "sendrecv"),
    ("pingpong", "sendrecv"),
];

/// Names of element types elsewhere.
const TYPES: [(&str, &str); 36] = [
    ("fp16", "half"),
    ("float16", "half"),
    ("f16", "half"),
    ("bf16", "bfloat16"),
    ("bfloat", "bfloat16"),
    ("brainfloat16", "bfloat16"),
    ("fp32", "float"),
    ("float32", "float"),
    ("f32", "float"),
    ("single", "float"),
    ("fp64", "double"),
    ("float64", "double"),
    ("f64", "double"),
    ("fp8", "f8e4m3 or f8e5m2"),
    ("float8", "f8e4m3 or f8e5m2"),
    ("f8", "f8e4m3 or f8e5m2"),
    ("e4m3", "f8e4m3"),
    ("fp8e4m3", "f8e4m3"),
    ("float8e4m3", "f8e4m3"),
    ("float8e4m3fn", "f8e4m3"),
    ("e5m2", "f8e5m2"),
    ("fp8e5m2", "f8e5m2"),
    ("float8e5m2", "f8e5m2"),
    ("int", "int32"),
    ("i32", "int32"),
    ("int32t", "int32"),
    ("char", "int8"),
    ("i8", "int8"),
    ("uchar", "uint8"),
    ("byte", "uint8"),
    ("u8", "uint8"),
    ("uint", "uint32"),
    ("u32", "uint32"),
    ("long", "int64"),
    ("i64", "int64"),
    ("u64", "uint64"),
];

/// Names of reductions elsewhere.
const REDUCTIONS: [(&str, &str); 9] = [
    ("add", "sum"),
    ("plus", "sum"),
    ("mul", "prod"),
    ("product", "prod"),
    ("maximum", "max"),
    ("minimum", "min"),
    ("mean", "avg"),
    ("average", "avg"),
    ("premulsum", "mulsum"),
];

/// Prefixes and suffixes of names in programs and libraries: `ncclAllReduce`, `MPI_Allreduce`,
/// `ncclFloat16`.
const LIBRARIES: [&str; 3] = ["nccl", "rccl", "mpi"];

/// Returns a name without what it may differ in: case, hyphens, underscores, `_perf` and what
/// follows it.
pub(super) fn plain(text: &str) -> String {
    let text = text.to_ascii_lowercase().replace(['_', '-'], "");
    match text.split_once("perf") {
        Some((name, _)) if !name.is_empty() => name.to_owned(),
        _ => text,
    }
}

/// Returns the collective that other programs call `word`.
pub(super) fn collective(word: &str) -> Option<&'static str> {
    find(&COLLECTIVES, word)
}

/// Returns the element type that other programs call `word`.
pub(super) fn dtype(word: &str) -> Option<&'static str> {
    find(&TYPES, word)
}

/// Returns the reduction that other programs call `word`.
pub(super) fn redop(word: &str) -> Option<&'static str> {
    find(&REDUCTIONS, word)
}

fn find(table: &[(&str, &'static str)], word: &str) -> Option<&'static str> {
    let word = plain(word);
    let word = without_library(&word);
    let mut rows = table.iter();
    let (_, meant) = rows.find(|(name, _)| *name == word)?;
    Some(meant)
}

/// Removes the name of a library from the front of a plain name.
pub(super) fn without_library(name: &str) -> &str {
    let mut libraries = LIBRARIES.iter();
    let rest = libraries.find_map(|library| name.strip_prefix(library));
    rest.filter(|rest| !rest.is_empty()).unwrap_or(name)
}

/// Options that say how many ranks there are and where, which is up to the launcher. `-N` and `-n`
/// are not among them: they are also options of a sweep.
const LAUNCHER_OPTIONS: [&str; 33] = [
    "-np",
    "--np",
    "-nproc",
    "--nproc",
    "-nprocs",
    "--nprocs",
    "--num-procs",
    "--num_procs",
    "--ntasks",
    "-ntasks",
    "--tasks-per-node",
    "--ntasks-per-node",
    "-npernode",
    "--npernode",
    "-ppn",
    "--ppn",
    "--nproc-per-node",
    "--nproc_per_node",
    "--ranks-per-node",
    "--nodes",
    "--nnodes",
    "-nnodes",
    "-hostfile",
    "--hostfile",
    "-machinefile",
    "--machinefile",
    "-host",
    "--host",
    "-hosts",
    "--hosts",
    "-H",
    "--map-by",
    "--mca",
];

/// Returns a sentence on the first word of a sweep's arguments that is an option of a launcher, or
/// a long option with one hyphen. `long_options` are the names of the sweep's own.
pub fn option_slip(words: &[String], long_options: &[&str]) -> Option<String> {
    words.iter().find_map(|word| {
        let name = word.split('=').next().unwrap_or(word);
        if LAUNCHER_OPTIONS.contains(&name) {
            return Some(format!(
                "{name} is an option of the launcher, which starts the ranks. Put it before \
                 pxnbench: mpirun -np 4 pxnbench all_reduce, or srun -n 4 pxnbench all_reduce"
            ));
        }
        let long = name
            .strip_prefix('-')
            .filter(|rest| !rest.starts_with('-'))?;
        let written = long.replace('-', "_");
        let mut known = long_options.iter();
        let meant = known.find(|known| known.replace('-', "_") == written)?;
        let is_long = long.len() > 1;
        is_long.then(|| format!("there is no option {name} (did you mean --{meant}?)"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::{
        Collective,
        data::{DType, RedOp},
    };

    #[test]
    fn what_is_meant_exists_and_what_is_written_does_not() {
        let types = DType::ALL.map(DType::name);
        for (written, meant) in TYPES {
            assert_eq!(plain(written), written);
            assert!(!types.contains(&written), "{written}");
            assert!(
                meant.split(" or ").all(|name| types.contains(&name)),
                "{meant}"
            );
        }
        let collectives = Collective::ALL.map(Collective::name);
        for (written, meant) in COLLECTIVES {
            assert!(!collectives.contains(&written) && collectives.contains(&meant));
        }
        let reductions = RedOp::ALL.map(RedOp::name);
        for (written, meant) in REDUCTIONS {
            assert!(!reductions.contains(&written) && reductions.contains(&meant));
        }
    }

    #[test]
    fn options_of_launchers_and_long_options_with_one_hyphen_are_recognized() {
        let slip = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            option_slip(&words, &["ngpus", "minbytes", "nccl-lib", "out"])
        };
        for line in [
            "all_reduce -np 4",
            "-np 4 all_reduce",
            "all_reduce --nprocs=4",
            "all_reduce -H a,b",
        ] {
            let sentence = slip(line).expect(line);
            assert!(sentence.contains("mpirun -np 4 pxnbench"), "{sentence}");
        }
        for (line, meant) in [
            ("-ngpus 4", "--ngpus"),
            ("-minbytes=8", "--minbytes"),
            ("-nccl_lib x", "--nccl-lib"),
        ] {
            let sentence = slip(line).expect(line);
            assert!(
                sentence.contains(&format!("(did you mean {meant}?)")),
                "{sentence}"
            );
        }
        for line in [
            "all_reduce -n 4",
            "all_reduce -N 2 -b8",
            "all_reduce --ngpus 2",
            "x -nothing",
        ] {
            assert_eq!(slip(line), None, "{line}");
        }
    }
}
