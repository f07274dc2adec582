//! Guard zones on GPUs: an NCCL that writes beside the buffers, or into what it only may read, is
//! found out.

use crate::{
    common::{
        csv,
        guard::{
            CsvCells,
            GuardFinding::{self, Data, Note, Nothing},
            expect_finding,
        },
        run,
    },
    machine::Machine,
};

/// Returns what the check has to say of a case in which rank 1 of four has `fault`.
fn expected(fault: &str, row: &CsvCells) -> GuardFinding {
    let collective = &row["collective"][..];
    let (is_root, in_place) = (row["root"] == "1", row["in_place"] == "1");
    if fault == "send" {
        let last = match collective {
            "all_gather" | "gather" => 255,
            "alltoallv" => 1019,
            _ => 1023,
        };
        return match collective {
            "broadcast" | "scatter" if !is_root => Nothing,
            "alltoall" | "alltoallv" | "sendrecv" if in_place => Nothing,
            // What it sends is in the receive buffer.
            "hypercube" => Data,
            _ if in_place => Data,
            _ => Note(format!(
                "rank 1: 1 element of the send buffer changed, the first at {last}"
            )),
        };
    }
    match collective {
        "reduce" | "gather" if !is_root => Nothing,
        // Its chunk is in the middle.
        "scatter" | "reduce_scatter" if in_place => Data,
        _ => {
            let first = if fault == "before" { "-1" } else { "+0" };
            Note(format!(
                "rank 1: 1 byte {fault} the receive buffer changed, the first at {first}"
            ))
        }
    }
}

fn faulty_sweep(machine: &Machine, fault: &str, words: &str) -> Vec<CsvCells> {
    let words = format!("{words} -n 2 -w 1 -c 1 --csv x.csv");
    let mut command = machine.start(4, &words);
    command.env("STANDIN_FAULT", format!("{fault}:0:1:1"));
    let ended = run(&mut command).expect_code(7);
    let verdict = *ended.sentences().last().expect("a verdict");
    assert!(
        verdict.contains("with changes outside the receive buffer in "),
        "{verdict}"
    );
    csv(&machine.path().join("x.csv"))
}

fn compare(fault: &str, rows: &[CsvCells]) {
    for row in rows {
        expect_finding(fault, row, &expected(fault, row));
    }
}

#[test]
fn what_nccl_changes_beside_the_buffers_or_sends_from_is_wrong_data_with_its_place() {
    let Some(machine) = Machine::with(4) else {
        return;
    };
    for fault in ["before", "after", "send"] {
        let rows = faulty_sweep(&machine, fault, "all -r all -b 4K -e 4K");
        assert_eq!(rows.len(), 2 * (7 + 4 * 4), "all cases");
        compare(fault, &rows);
    }
}

#[test]
fn changes_are_found_however_buffers_are_allocated_and_operations_started() {
    let Some(machine) = Machine::with(4) else {
        return;
    };
    let ways = ["-R 1", "-R 2", "-u 3", "-G 2", "-y 1", "-o mulsum"];
    for (way, fault) in ways
        .into_iter()
        .zip(["after", "before", "send"].into_iter().cycle())
    {
        // Sizes below the one of the buffers, so that the zones lie inside the allocation.
        let words = format!("all_reduce all_gather -b 4K -e 64K -f 16 {way}");
        let rows = faulty_sweep(&machine, fault, &words);
        let smallest: Vec<CsvCells> = rows
            .into_iter()
            .filter(|row| row["size_bytes"] == "4096")
            .collect();
        assert_eq!(smallest.len(), 4, "{way}");
        compare(fault, &smallest);
    }
}

/// Each rank of a process with several has zones of its own.
#[test]
fn every_gpu_of_a_process_is_looked_at() {
    let Some(machine) = Machine::with(4) else {
        return;
    };
    for layout in ["-g 4", "-t 4", "-t 2 -g 2"] {
        let words = format!("all_reduce -b 1K -e 1K -n 2 -c 1 --csv x.csv {layout}");
        let mut command = machine.start(1, &words);
        run(command.env("STANDIN_FAULT", "after:0:1")).expect_code(7);
        let rows = csv(&machine.path().join("x.csv"));
        let one = "1 byte after the receive buffer changed, the first at +0";
        let note = format!("rank 0: {one}; rank 1: {one}; rank 2: {one}; and 1 other finding");
        assert_eq!(
            (&rows[0]["note"], &rows[0]["wrong"][..]),
            (&note, "4"),
            "{layout}"
        );
    }
}
