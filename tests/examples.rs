//! The examples, as a reader runs them: alone, and under mpirun. A build without MPI has no
//! examples.

#![cfg(feature = "mpi")]

mod common;

use std::{
    fs,
    path::{Path, PathBuf},
};

use common::{BINARY, Ended, csv, free_port, golden, has_mpi, launcher, program, run};
use pxnbench::{
    backend::{SliceOperation, host::Communicator},
    job::{self, Collective, Job, RedOp, f16},
};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Returns the sources of the examples that teach, in order.
fn sources() -> Vec<PathBuf> {
    let folder = fs::read_dir(Path::new(ROOT).join("examples")).expect("examples");
    let all = folder.map(|entry| entry.expect("an entry").path());
    let mut numbered: Vec<PathBuf> = all.filter(|path| is_numbered(path)).collect();
    numbered.sort();
    numbered
}

fn is_numbered(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with(|letter: char| letter.is_ascii_digit())
}

/// Returns the program of an example. Cargo builds it together with all tests, but not with a
/// single test file.
fn built(name: &str) -> PathBuf {
    let folder = Path::new(BINARY).parent().expect("a folder");
    let program = folder.join("examples").join(name);
    let source = Path::new(ROOT).join("examples").join(format!("{name}.rs"));
    let changed = |path: &Path| fs::metadata(path).and_then(|file| file.modified()).ok();
    assert!(
        changed(&program) >= changed(&source),
        "{} is missing or old. Build it: cargo build --examples",
        program.display()
    );
    program
}

/// Runs an example on `ranks` ranks; a single one is started without a launcher.
#[track_caller]
fn example(name: &str, ranks: u32, arguments: &[&str], folder: &Path) -> Ended {
    let program_path = built(name);
    let mut command = if ranks == 1 {
        program(&program_path, folder)
    } else {
        let mut mpirun = launcher(folder);
        mpirun.args(["-np", &ranks.to_string()]).arg(program_path);
        mpirun
    };
    run(command.args(arguments)).expect_code(0)
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

/// Returns the lines of a table of numbers: those that begin with a size.
fn rows(ended: &Ended) -> Vec<Vec<&str>> {
    let is_size = |word: &str| word.parse::<pxnbench::units::Bytes>().is_ok();
    let lines = ended.stdout.lines();
    let words = lines.map(|line| line.split_whitespace().collect::<Vec<_>>());
    words
        .filter(|words| words.len() >= 4 && is_size(words[0]))
        .collect()
}

fn number(word: &str) -> f64 {
    word.parse().expect("a number")
}

#[test]
fn an_example_has_at_most_120_lines_and_says_how_to_start_it() {
    assert!(!sources().is_empty());
    let index = fs::read_to_string(Path::new(ROOT).join("examples/README.md")).expect("an index");
    for path in sources() {
        let text = fs::read_to_string(&path).expect("text");
        let name = path.file_stem().expect("a name").to_string_lossy();
        assert!(text.lines().count() <= 120, "{name}");
        assert!(
            text.contains(&format!("target/debug/examples/{name}")),
            "{name}"
        );
        assert!(text.contains("What to try."), "{name}");
        assert!(
            index.contains(&format!("]({name}.rs)")),
            "the index lacks {name}"
        );
    }
}

#[test]
fn a_backend_of_ones_own_runs_all_collectives() {
    if !has_mpi() {
        return;
    }
    let ended = example("own_backend", 1, &[], folder().path());
    for collective in Collective::ALL {
        let of_collective = |row: &&str| row.starts_with(&format!("{collective} "));
        let rows: Vec<&str> = ended.stdout.lines().filter(of_collective).collect();
        assert_eq!(rows.len(), 6, "{}", ended.stdout);
        let checked = rows.iter().filter(|row| row.ends_with("wrong Some(0)"));
        assert!(checked.count() >= 3, "{}", ended.stdout);
    }
}

#[test]
fn the_first_example_adds_up_and_shows_both_bandwidths() {
    if !has_mpi() {
        return;
    }
    let folder = folder();
    for (ranks, sum, factor) in [(1, 0, 0.0), (4, 6, 1.5)] {
        let ended = example("01_all_reduce", ranks, &[], folder.path());
        let sums = format!("ranks: {ranks}, sum of their numbers: {sum}");
        assert!(ended.stdout.contains(&sums), "{}", ended.stdout);
        let rows = rows(&ended);
        assert_eq!(rows.len(), 4, "{}", ended.stdout);
        for row in rows {
            let (algbw, busbw) = (number(row[2]), number(row[3]));
            // Both are rounded to three decimals.
            assert!((busbw - factor * algbw).abs() <= 0.002, "{row:?}");
        }
    }
}

#[test]
fn the_second_example_draws_what_each_collective_does() {
    if !has_mpi() {
        return;
    }
    let folder = folder();
    let four = example("02_collectives", 4, &[], folder.path()).stdout;
    golden("examples/02_collectives.txt", &four);
    for collective in Collective::ALL {
        assert!(four.contains(&format!("\n{collective}: ")), "{collective}");
    }
    let three = example("02_collectives", 3, &[], folder.path()).stdout;
    assert!(
        three.contains("hypercube") && three.contains("needs 2, 4, 8, ... ranks"),
        "{three}"
    );
    let one = example("02_collectives", 1, &[], folder.path()).stdout;
    assert_eq!(
        one.matches("->   1").count(),
        Collective::ALL.len(),
        "{one}"
    );
}

/// Returns the numbers that follow `words` in a text.
fn numbers_after(words: &str, text: &str) -> Vec<f64> {
    let rests = text.split(words).skip(1);
    let ends = |letter: char| letter.is_whitespace() || letter == ',';
    rests
        .map(|rest| number(rest.split(ends).next().unwrap_or_default()))
        .collect()
}

#[test]
fn the_third_example_trains_to_the_weights_of_one_process() {
    if !has_mpi() {
        return;
    }
    let folder = folder();
    for ranks in [1, 3, 4] {
        let text = example("03_data_parallel", ranks, &[], folder.path()).stdout;
        assert!(
            text.contains("All ranks have the same weights: true"),
            "{text}"
        );
        let difference = numbers_after("difference of a weight is ", &text)[0];
        assert!(difference < 1e-4, "{text}");
        assert_eq!(ranks == 1, difference == 0.0, "{text}");
        let errors = numbers_after(": error ", &text);
        let (together, alone) = errors.split_at(errors.len() / 2);
        assert_eq!(together, alone, "{text}");
        assert!(together[together.len() - 1] < 0.2 * together[0], "{text}");
    }
}

#[test]
fn the_fourth_example_is_a_benchmark_with_a_table_and_a_file() {
    if !has_mpi() {
        return;
    }
    for ranks in [1, 3, 4] {
        let folder = folder();
        let ended = example("04_benchmark", ranks, &["times.csv"], folder.path());
        let rows = rows(&ended);
        assert_eq!(rows.len(), 5, "{}", ended.stdout);
        let file = csv(&folder.path().join("times.csv"));
        for (nth, (row, line)) in rows.iter().zip(&file).enumerate() {
            assert_eq!(line["size_bytes"], (1024 << (2 * nth)).to_string());
            let (whole, halves) = (number(&line["all_reduce_us"]), number(&line["halves_us"]));
            assert!(whole > 0.0 && halves > 0.0, "{line:?}");
            assert!((number(row[1]) - whole).abs() <= 0.06, "{row:?} {line:?}");
        }
    }
}

#[test]
fn the_fifth_example_measures_four_ways_to_wait_less() {
    if !has_mpi() {
        return;
    }
    let folder = folder();
    for ranks in [1, 4] {
        let text = example("05_advanced", ranks, &[], folder.path()).stdout;
        let times: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("  ") && line.ends_with(" us"))
            .collect();
        // 2 of accumulation, 3 types, 3 of overlap and what it hides, 5 sizes of buckets.
        assert_eq!(times.len(), 2 + 3 + 4 + 5, "{text}");
        for title in [
            "1. Accumulation",
            "2. Precision",
            "3. Overlap",
            "4. Buckets",
        ] {
            assert!(text.contains(title), "{text}");
        }
        let errors = numbers_after("relative error ", &text);
        // Each number loses at most half of the distance to its neighbour, and so does each of two
        // steps of a sum.
        assert_eq!(errors.len(), 3, "{text}");
        assert!(errors[0] <= 3.0 * f64::from(f32::EPSILON), "{text}");
        assert!(
            0.0 < errors[1] && errors[1] <= 1.5 * 2_f64.powi(-10),
            "{text}"
        );
        assert!(
            errors[1] < errors[2] && errors[2] <= 1.5 * 2_f64.powi(-7),
            "{text}"
        );
    }
}

/// Returns the numbers of ways and detours in a picture, after a look at what makes it one.
fn arrows(path: &Path) -> (usize, usize) {
    let text = fs::read_to_string(path).expect("a picture");
    let document = roxmltree::Document::parse(&text).expect("valid XML");
    let root = document.root_element();
    assert_eq!(
        root.tag_name().namespace(),
        Some("http://www.w3.org/2000/svg")
    );
    assert!(
        text.contains("color-scheme: light dark"),
        "it follows the mode of its viewer"
    );
    for line in root
        .descendants()
        .filter_map(|node| node.attribute("points"))
    {
        let places = line.split([' ', ',']).map(number);
        assert!(
            places
                .into_iter()
                .all(|place| (0.0..=640.0).contains(&place)),
            "{line}"
        );
    }
    let of_class = |name| {
        let with = |node: &roxmltree::Node| node.attribute("class") == Some(name);
        root.descendants().filter(with).count()
    };
    (of_class("way"), of_class("detour"))
}

#[test]
fn the_sixth_example_draws_four_pictures() {
    if !has_mpi() {
        return;
    }
    let folder = folder();
    for (ranks, drawn) in [(1, 4), (3, 3)] {
        let name = format!("drawn-{ranks}");
        let ended = example("06_pictures", ranks, &[&name], folder.path());
        let pictures = folder.path().join(&name);
        let expected = [
            ("ring", (drawn, 0)),
            ("tree", (drawn - 1, 0)),
            ("alltoall", (drawn * (drawn - 1), 0)),
            ("pxn", (5, 4)),
        ];
        for (picture, counts) in expected {
            assert_eq!(
                arrows(&pictures.join(picture).with_extension("svg")),
                counts,
                "{picture}"
            );
            assert!(
                ended.stdout.contains(&format!("{name}/{picture}.svg")),
                "{}",
                ended.stdout
            );
        }
    }
    let ended = example("06_pictures", 1, &[], folder.path());
    let path = ended.stdout.lines().next().expect("a path");
    assert_eq!(arrows(Path::new(path)), (4, 0), "in a folder of its own");
    fs::remove_dir_all(Path::new(path).parent().expect("a folder")).expect("removed");
}

// --- the library, beyond what the examples
// use --------------------------------------------------------------------

/// Runs the ignored test `name` of this file on `ranks` ranks.
fn on_ranks(name: &str, ranks: u32) -> Ended {
    let folder = folder();
    let mut mpirun = launcher(folder.path());
    mpirun.args(["-np", &ranks.to_string()]);
    mpirun.arg(std::env::current_exe().expect("this program"));
    run(mpirun.args(["--exact", name, "--ignored", "--nocapture"]))
}

/// What `rank` has in a buffer of `len` elements.
fn numbers(rank: usize, len: usize) -> Vec<f64> {
    (0..len).map(|at| (100 * rank + at) as f64).collect()
}

/// Checks that a collective in place leaves what it leaves out of place.
fn same_in_place(
    expected: anyhow::Result<()>,
    recv: &[f64],
    in_place: anyhow::Result<()>,
    part_of_buffer: &[f64],
    name: &str,
) {
    expected.expect(name);
    in_place.expect(name);
    assert_eq!(recv, part_of_buffer, "{name}");
}

fn in_place_forms(job: &Job) -> anyhow::Result<()> {
    let (rank, ranks) = (job.rank(), job.ranks());
    let own = rank..rank + 1;
    let long = numbers(rank, ranks);
    let mut all = vec![0.0; ranks];
    let mut one = [0.0];
    let mut buffer = long.clone();
    for redop in [RedOp::Sum, RedOp::Max, RedOp::Avg] {
        buffer.clone_from(&long);
        let out = job.all_reduce(&long, &mut all, redop);
        let within = job.all_reduce_in_place(&mut buffer, redop);
        same_in_place(out, &all, within, &buffer, "all_reduce");
        buffer.clone_from(&long);
        let out = job.reduce_scatter(&long, &mut one, redop);
        let within = job.reduce_scatter_in_place(&mut buffer, redop);
        same_in_place(out, &one, within, &buffer[own.clone()], "reduce_scatter");
    }
    for root in 0..ranks as u32 {
        let is_root = rank == root as usize;
        buffer.clone_from(&long);
        let out = job.broadcast(&long, &mut all, root);
        let within = job.broadcast_in_place(&mut buffer, root);
        same_in_place(out, &all, within, &buffer, "broadcast");
        buffer.clone_from(&long);
        let out = job.scatter(&long, &mut one, root);
        let within = job.scatter_in_place(&mut buffer, root);
        same_in_place(out, &one, within, &buffer[own.clone()], "scatter");
        for redop in [RedOp::Sum, RedOp::Avg] {
            buffer.clone_from(&long);
            all.clone_from(&long);
            let out = job.reduce(&long, &mut all, redop, root);
            let within = job.reduce_in_place(&mut buffer, redop, root);
            // What is no result has not changed.
            same_in_place(out, &all, within, &buffer, "reduce");
        }
        buffer.clone_from(&long);
        let out = job.gather(&long[own.clone()], &mut all, root);
        let within = job.gather_in_place(&mut buffer, root);
        let gathered = if is_root { &all } else { &long };
        same_in_place(out, gathered, within, &buffer, "gather");
    }
    buffer.clone_from(&long);
    let out = job.all_gather(&long[own.clone()], &mut all);
    let within = job.all_gather_in_place(&mut buffer);
    same_in_place(out, &all, within, &buffer, "all_gather");
    buffer.clone_from(&long);
    let out = job.hypercube(&long[own], &mut all);
    let within = job.hypercube_in_place(&mut buffer);
    same_in_place(out, &all, within, &buffer, "hypercube");
    buffer.clone_from(&long);
    let out = job.alltoall(&long, &mut all);
    let within = job.alltoall_in_place(&mut buffer);
    same_in_place(out, &all, within, &buffer, "alltoall");
    buffer.clone_from(&long);
    let out = job.sendrecv(&long, &mut all);
    let within = job.sendrecv_in_place(&mut buffer);
    same_in_place(out, &all, within, &buffer, "sendrecv");
    Ok(())
}

/// Checks all_reduces that run at the same time.
fn started_forms(job: &Job) -> anyhow::Result<()> {
    let ranks = job.ranks() as f64;
    let of_ranks = (0..job.ranks()).sum::<usize>() as f64;
    let mut first = job.start_all_reduce(vec![job.rank() as f64; 1000], RedOp::Sum)?;
    let second = job.start_all_reduce(vec![f16::from_f64(0.5); 3], RedOp::Sum)?;
    let third = job.start_all_reduce(vec![job.rank() as f32; 10], RedOp::Avg)?;
    while !first.has_ended()? {}
    assert!(first.has_ended()?, "also after the end");
    assert_eq!(first.wait()?, vec![of_ranks; 1000]);
    assert_eq!(third.wait()?, vec![(of_ranks / ranks) as f32; 10]);
    assert_eq!(second.wait()?, vec![f16::from_f64(0.5 * ranks); 3]);
    assert!(job.start_all_reduce(vec![1_u8], RedOp::Avg).is_err());
    Ok(())
}

#[track_caller]
fn assert_refused(result: anyhow::Result<()>, sentence: &str) {
    let error = result.expect_err(sentence).to_string();
    assert_eq!(error, sentence);
}

/// Checks calls that no rank makes in the end, because each refuses its own.
fn refused_calls(job: &Job) {
    assert_refused(
        job.all_gather(&[1, 2], &mut [0; 3]),
        "all_gather: the receive buffer has 3 elements but needs 8",
    );
    assert_refused(
        job.reduce_scatter_in_place(&mut [1; 6], RedOp::Sum),
        "reduce_scatter: the buffer has 6 elements, which is no chunk for each of 4 ranks",
    );
    assert_refused(
        job.broadcast_in_place(&mut [1], 4),
        "broadcast: there is no rank 4. Ranks are 0 to 3",
    );
    assert_refused(
        job.all_reduce_in_place(&mut [1], RedOp::Avg),
        "all_reduce: MPI has no avg",
    );
    assert_refused(
        job.alltoallv(&[1], &[1], &mut [0], &[1, 0, 0, 0]),
        "alltoallv: the list of counts to send has 1 element but needs 4",
    );
    let without = SliceOperation::new(Collective::AllToAllV);
    let communicator = Communicator::open().expect("MPI is running");
    let refused = communicator.run(without, &[1; 4], &mut [0; 4]);
    assert_refused(
        refused,
        "alltoallv: each rank has counts of its own. Call Communicator::alltoallv",
    );
    for rootless in [Collective::Broadcast, Collective::AllReduce] {
        let refused = communicator.run_in_place(SliceOperation::new(rootless), &mut [1]);
        let sentence = "a reduction needs an operation, a collective from or to one rank a root, \
                        and others neither";
        assert_refused(refused, &format!("{rootless}: {sentence}"));
    }
    communicator.close();
    let too_many = [usize::MAX, 2, 0, 0];
    assert!(job.alltoallv(&[1; 3], &too_many, &mut [], &[0; 4]).is_err());
}

#[test]
#[ignore = "a rank of the test below"]
fn rank_of_in_place_forms() {
    let _ = job::run(|job| {
        in_place_forms(job)?;
        started_forms(job)?;
        refused_calls(job);
        job.barrier();
        job.print("all as expected")
    });
}

#[test]
fn collectives_leave_the_same_in_place_and_started_and_refuse_wrong_buffers() {
    if !has_mpi() {
        return;
    }
    let ended = on_ranks("rank_of_in_place_forms", 4).expect_code(0);
    assert!(ended.stdout.contains("all as expected"), "{}", ended.stdout);
}

#[test]
#[ignore = "a rank of the test below"]
fn rank_of_an_absence() {
    let _ = job::run(|job| {
        job.set_timeout(std::time::Duration::from_secs(1));
        if job.rank() == 1 {
            std::thread::sleep(std::time::Duration::from_secs(60));
        }
        job.all_reduce_in_place(&mut [1.0], RedOp::Sum)
    });
}

#[test]
fn a_rank_that_does_not_come_ends_the_job_in_one_sentence() {
    if !has_mpi() {
        return;
    }
    let ended = on_ranks("rank_of_an_absence", 2).expect_code(4);
    let sentences = ended.sentences();
    assert_eq!(sentences.len(), 1, "{}", ended.stderr);
    for part in [
        ": rank 1 on ",
        " is behind: it is at “work of its own”, and the others have waited since ",
        " at “all_reduce”",
        "call Job::set_timeout",
    ] {
        assert!(sentences[0].contains(part), "{}", ended.stderr);
    }
    assert!(ended.took.as_secs() < 60, "nobody waits for it");
}

#[test]
fn ranks_that_were_not_started_by_mpi_are_refused_in_one_sentence() {
    if !has_mpi() {
        return;
    }
    let folder = folder();
    let mut torchrun = program(&built("01_all_reduce"), folder.path());
    torchrun.envs([("RANK", "0"), ("WORLD_SIZE", "1")]);
    torchrun.envs([("LOCAL_RANK", "0"), ("LOCAL_WORLD_SIZE", "1")]);
    let port = free_port().to_string();
    torchrun.envs([("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", &*port)]);
    let ended = run(&mut torchrun).expect_code(8);
    let sentences = ended.sentences();
    assert_eq!(sentences.len(), 1, "{}", ended.stderr);
    assert!(
        sentences[0].contains("no MPI launcher started it. Start it with mpirun or srun"),
        "{}",
        ended.stderr
    );
    assert_eq!(ended.stdout, "");
}

#[test]
#[ignore = "a rank of the test below"]
fn rank_of_a_failure() {
    let _ = job::run(|job| {
        anyhow::ensure!(job.rank() != 1, "this rank does not like it");
        job.all_reduce_in_place(&mut [1.0], RedOp::Sum)
    });
}

#[test]
fn a_rank_that_fails_ends_the_job_in_one_sentence() {
    if !has_mpi() {
        return;
    }
    let ended = on_ranks("rank_of_a_failure", 2);
    assert_ne!(ended.code, Some(0));
    assert!(
        ended
            .sentences()
            .iter()
            .any(|line| line.starts_with("pxnbench: rank 1 on ")
                && line.ends_with(": this rank does not like it")),
        "{}",
        ended.stderr
    );
}
