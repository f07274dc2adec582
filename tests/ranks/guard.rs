//! Guard zones on host memory: an MPI that writes beside the buffers, or into what it only may
//! read, is found out.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    QUICK,
    common::{
        BINARY, csv,
        guard::{
            CsvCells,
            GuardFinding::{self, Data, Note, Nothing},
            expect_finding,
        },
        has_mpi, launcher, mpirun, run,
    },
    folder,
};

/// Builds the MPI of `mpi_fault.c`, to be preloaded.
pub(crate) fn faulty_mpi(folder: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ranks/mpi_fault.c");
    let library = folder.join("libmpi_fault.so");
    let mut compiler = Command::new("mpicc");
    compiler.args(["-shared", "-fPIC", "-pthread", "-O1", "-Wall", "-o"]);
    run(compiler.arg(&library).arg(source)).expect_code(0);
    library
}

/// A sweep over all collectives and roots on four ranks, the second of which has an MPI with that
/// fault.
fn faulty_sweep(folder: &Path, library: &Path, fault: &str) -> Vec<CsvCells> {
    let preload = format!("LD_PRELOAD={}", library.display());
    let mut command = launcher(folder);
    command
        .args(["-np", "4", "env", &preload, BINARY, "all"])
        .args("-r all -o sum,avg -b 4K -e 4K -c 1 --backend host --csv x.csv".split(' '))
        .args(QUICK)
        .envs([("MPI_FAULT", fault), ("MPI_FAULT_RANK", "1")]);
    let ended = run(&mut command).expect_code(7);
    let sentences = ended.sentences();
    let verdict = sentences.last().expect("a verdict");
    assert!(
        verdict.contains("with changes outside the receive buffer in "),
        "{verdict}"
    );
    let named = |line: &&&str| line.contains(": rank 1: ");
    assert_eq!(sentences.iter().filter(named).count(), 10, "{sentences:?}");
    let rows = csv(&folder.join("x.csv"));
    assert_eq!(rows.len(), 2 * (2 + 2 + 2 * 4 + 4 * 3 + 5), "all cases");
    rows
}

/// A case as rank 1 sees it.
struct Seen {
    collective: String,
    is_root: bool,
    in_place: bool,
    /// Whether MPI gets a copy of the input, which is multiplied first.
    is_scaled: bool,
}

impl Seen {
    fn of(row: &CsvCells) -> Seen {
        Seen {
            collective: row["collective"].clone(),
            is_root: row["root"] == "1",
            in_place: row["in_place"] == "1",
            is_scaled: row["redop"] == "avg",
        }
    }

    /// Whether rank 1 receives nothing, or as a root in place has its part already.
    fn receives_nothing(&self) -> bool {
        match &self.collective[..] {
            "reduce" | "gather" => !self.is_root,
            "scatter" => self.is_root && self.in_place,
            _ => false,
        }
    }

    fn before(&self) -> GuardFinding {
        match &self.collective[..] {
            _ if self.receives_nothing() => Nothing,
            // Its chunk is in the middle.
            "scatter" if self.in_place => Data,
            "broadcast" if self.is_root && !self.in_place => {
                Note("rank 1: 4 bytes before the send buffer changed, the first at -4".into())
            }
            _ => Note("rank 1: 4 bytes before the receive buffer changed, the first at -4".into()),
        }
    }

    fn after(&self) -> GuardFinding {
        match &self.collective[..] {
            _ if self.receives_nothing() => Nothing,
            "scatter" if self.in_place => Data,
            // MPI may use the rest of the input.
            "reduce_scatter" if self.in_place => Nothing,
            "broadcast" if self.is_root && !self.in_place => {
                Note("rank 1: 4 bytes after the send buffer changed, the first at +0".into())
            }
            _ => Note("rank 1: 4 bytes after the receive buffer changed, the first at +0".into()),
        }
    }

    fn send(&self) -> GuardFinding {
        let chunk = Note("rank 1: 1 element of the send buffer changed, the first at 255".into());
        let parts = Note("rank 1: 1 element of the send buffer changed, the first at 1019".into());
        let all = Note("rank 1: 1 element of the send buffer changed, the first at 1023".into());
        match &self.collective[..] {
            // What it sends is in the receive buffer; the send buffer is not MPI's.
            "hypercube" => Data,
            "broadcast" | "scatter" if !self.is_root => Nothing,
            "broadcast" | "scatter" if self.in_place => Data,
            "reduce" | "gather" if self.in_place && !self.is_root && !self.is_scaled => Data,
            _ if self.in_place && !self.is_scaled => Nothing,
            "all_gather" | "gather" => chunk,
            "alltoallv" => parts,
            _ => all,
        }
    }
}

#[test]
fn a_deliberate_fault_beside_a_buffer_or_in_the_send_buffer_is_found_once() {
    if !has_mpi() {
        return;
    }
    let folder = folder();
    for (target, found) in [
        (
            "after",
            "1 byte after the receive buffer changed, the first at +0",
        ),
        (
            "before",
            "1 byte before the receive buffer changed, the first at -1",
        ),
        (
            "after-send",
            "1 byte after the send buffer changed, the first at +0",
        ),
        (
            "before-send",
            "1 byte before the send buffer changed, the first at -1",
        ),
        (
            "send",
            "1 element of the send buffer changed, the first at 127",
        ),
    ] {
        let mut command = mpirun(2, folder.path());
        let fault = format!("1:{target}");
        command.args([
            "alltoall", "-b", "512", "-e", "1K", "-f", "2", "--csv", "x.csv",
        ]);
        command.args(QUICK).args(["--inject-fault", &fault]);
        let ended = run(&mut command).expect_code(7);
        let rows = csv(&folder.path().join("x.csv"));
        let notes: Vec<&str> = rows.iter().map(|row| &row["note"][..]).collect();
        let note = format!("rank 1: {found}");
        assert_eq!(notes, [&note[..], "", "", ""], "{target}");
        assert_eq!(rows[0]["wrong"], "1");
        let table = "# Out of bounds values : 1 FAILED\n";
        assert!(ended.stdout.contains(table), "{}", ended.stdout);
        let verdict = "pxnbench: wrong data in 1 case, with changes outside the receive buffer in \
                       1: the notes say where";
        let case = format!("pxnbench: alltoall 512 float out of place: {note}");
        let sentences = ended.sentences();
        assert!(sentences.contains(&&case[..]), "{sentences:?}");
        assert_eq!(sentences.last(), Some(&verdict));
    }
    let refused = run(mpirun(2, folder.path()).args(["all_reduce", "--inject-fault", "1:behind"]));
    assert!(
        refused
            .expect_code(6)
            .stderr
            .contains("write RANK or RANK:TARGET, with one of data, send, before"),
    );
}

/// What is expected of a case with a fault.
type Expectation = fn(&Seen) -> GuardFinding;

#[test]
fn what_mpi_changes_beside_the_buffers_or_sends_from_is_wrong_data_with_its_place() {
    if !has_mpi() {
        return;
    }
    let folder = folder();
    let library = faulty_mpi(folder.path());
    let faults: [(&str, Expectation); 3] = [
        ("before", Seen::before),
        ("after", Seen::after),
        ("send", Seen::send),
    ];
    for (fault, expected) in faults {
        let mut found_in = Vec::new();
        for row in faulty_sweep(folder.path(), &library, fault) {
            let expected = expected(&Seen::of(&row));
            expect_finding(fault, &row, &expected);
            if matches!(expected, Note(_)) {
                found_in.push(row["collective"].clone());
            }
        }
        found_in.dedup();
        let all = if fault == "send" { 10 } else { 11 };
        assert_eq!(found_in.len(), all, "{fault}: {found_in:?}");
    }
}
