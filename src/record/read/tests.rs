use std::fs;

use super::*;
use crate::{
    collective::{BufferMode, CaseShape, Collective, data::DType, traffic::DEFAULT},
    record::{NcclEvidence, Record, RowReader, RunMeta, Status, columns::COLUMNS},
    units::{Bytes, Micros},
};

/// The records of `text`, and the number of rows that are none.
fn records(text: &str) -> (Vec<Record>, usize) {
    let rows = parse_rows(text);
    let count = rows.len();
    let records: Vec<Record> = rows
        .into_iter()
        .filter_map(|row| row.ok()?.to_record(&DEFAULT))
        .collect();
    let unread = count - records.len();
    (records, unread)
}

fn header() -> String {
    COLUMNS
        .iter()
        .map(|column| column.name)
        .collect::<Vec<_>>()
        .join(",")
}

const ROW: &str = "r,2026-11-28T00:00:00+00:00,all_gather,host,default,auto,none,,0,1,3,0,48,4,\
                   float,none,-1,1,20,12.5,0.00384,0.00256,0,ok,,not \
                   used,P2P+NET/IB,24,RING,LL,,2.5,10,20,13,12,18,19,10,,n[1-3],EPYC,2.28.3,Open \
                   MPI 4.1.4,12,13,13.5,14,5,0.8,12,0.0128,20,11.5";

#[test]
fn a_row_is_read_as_it_was() {
    let (records, unread) = records(&format!("{}\r\n{ROW}\r\n", header()));
    assert_eq!(unread, 0);
    let [record] = &records[..] else {
        panic!("{records:?}")
    };
    let asked = CaseShape {
        collective: Collective::AllGather,
        dtype: DType::Float,
        redop: None,
        root: None,
        buffer_mode: BufferMode::InPlace,
        ranks: 3,
    }
    .nearest(Bytes(64));
    assert_eq!(
        record.case, asked,
        "the case that 64 bytes ask for on 3 ranks"
    );
    let seen = NcclEvidence {
        pxn: Some(false),
        transport: "P2P+NET/IB".into(),
        channels: Some(24),
        algo: "RING".into(),
        proto: "LL".into(),
        operation_channels: None,
    };
    assert_eq!(record.seen, seen);
    assert_eq!(record.issue, Some(Micros(2.5)));
    let iteration_times = record.iteration_times.as_ref().expect("the statistics");
    assert_eq!(
        (
            iteration_times.min,
            iteration_times.max,
            iteration_times.mean,
            iteration_times.p99
        ),
        (Micros(10.0), Micros(20.0), Micros(13.0), Micros(19.0))
    );
    assert!((iteration_times.variation() - 10.0).abs() < 1e-9);
    assert_eq!(
        (record.time, record.wrong, record.status),
        (Some(Micros(12.5)), Some(0), Status::Ok)
    );
}

#[test]
fn a_file_is_read_row_by_row() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("results.csv");
    let second = ROW.replace(",12.5,", ",,").replace(",ok,", ",waived,");
    let cut = &ROW[..60];
    let text = format!("{}\r\n{ROW}\r\n{second}\r\n{cut}", header());
    fs::write(&path, text).expect("written");
    let mut reader = RowReader::open(&path).expect("opened");

    let row: RowView = reader.read_row().expect("readable").expect("a row");
    assert_eq!(
        (row.level, row.hosts, row.mpi_version),
        ("default", "n[1-3]", "Open MPI 4.1.4")
    );
    assert_eq!((row.redop, row.root), (None, None));
    assert_eq!((row.time, row.status), (Some(Micros(12.5)), Status::Ok));
    let row: CsvRow = reader.read_row().expect("readable").expect("a row");
    assert_eq!((row.time, row.status), (None, Status::Waived));
    let last = reader.read_row::<RowView>().expect("readable");
    assert!(last.is_none(), "a row that was cut");
    assert!(reader.torn_line().is_some());
    assert!(RowReader::open(&folder.path().join("none.csv")).is_err());
}

#[test]
fn a_view_of_a_file_without_the_later_columns_leaves_them_empty() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("results.csv");
    let header = header();
    let (early, _) = header.split_once(",pxn").expect("a later column");
    let cells: Vec<&str> = ROW.split(',').take(early.split(',').count()).collect();
    fs::write(&path, format!("{early}\r\n{}\r\n", cells.join(","))).expect("written");
    let mut reader = RowReader::open(&path).expect("opened");
    let row: RowView = reader.read_row().expect("readable").expect("a row");
    assert_eq!((row.hosts, row.pattern, row.group), ("", "", None));
    assert!(reader.read_row::<RowView>().expect("the end").is_none());
}

/// Returns a run that writes the columns of the run as in `row`.
fn run_of(row: &CsvRow) -> RunMeta {
    serde_json::from_value(serde_json::json!({
        "format": 1, "pxnbench": "", "run_id": row.run_id, "started_at": row.started_at, "ended_at": null, "end": null,
        "command": [], "backend": row.backend, "backend_why": "", "level": row.level, "network": row.network,
        "resources": row.resources, "job": null, "step": row.step, "repeat": row.repeat, "nodes": row.nodes,
        "ranks": row.ranks, "gpus_per_process": row.gpus_per_process, "versions": {}, "environment": {},
        "processes": [], "startup_s": null, "phases": [],
    }))
    .expect("a run")
}

#[test]
fn no_column_is_lost_when_a_run_is_resumed() {
    // A column that no record of this row has: its value would have to be lost without being
    // noticed.
    let empty_here = ["step", "note", "group", "pattern"];
    let row = parse_rows(&format!("{}\r\n{ROW}\r\n", header()))
        .remove(0)
        .expect("a row");
    let (run, record) = (run_of(&row), row.to_record(&DEFAULT).expect("a record"));
    assert_eq!(
        ROW.split(',').count(),
        COLUMNS.len(),
        "give ROW a value for the new column"
    );
    for (column, cell) in COLUMNS.iter().zip(ROW.split(',')) {
        assert_eq!((column.get)(&run, &record).csv(), cell, "{}", column.name);
        assert_eq!(
            cell.is_empty(),
            empty_here.contains(&column.name),
            "{}",
            column.name
        );
    }
}

#[test]
fn words_that_a_spreadsheet_would_change_are_read_as_they_were() {
    let cells: Vec<&str> = ROW.split(',').collect();
    let place = |name: &str| {
        COLUMNS
            .iter()
            .position(|column| column.name == name)
            .expect(name)
    };
    let mut written = cells.clone();
    written[place("hosts")] = "'mar1";
    written[place("note")] = "'=HYPERLINK(1)";
    written[place("mpi_version")] = "'quoted";
    let text = format!("{}\r\n{}\r\n", header(), written.join(","));
    let row = parse_rows(&text).remove(0).expect("a row");
    assert_eq!(
        (row.hosts.as_str(), row.note.as_str()),
        ("mar1", "=HYPERLINK(1)")
    );
    assert_eq!(row.mpi_version, "'quoted");
    let (run, record) = (run_of(&row), row.to_record(&DEFAULT).expect("a record"));
    for (column, cell) in COLUMNS.iter().zip(&written) {
        assert_eq!((column.get)(&run, &record).csv(), *cell, "{}", column.name);
    }
}

#[test]
fn a_row_that_was_cut_short_is_left_out() {
    for cut in [
        5,
        60,
        100,
        ROW.len() - ",Open MPI 4.1.4,12,13,13.5,14,5,0.8,12,0.0128,20,11.5".len(),
    ] {
        let text = format!("{}\r\n{ROW}\r\n{}", header(), &ROW[..cut]);
        let whole = std::str::from_utf8(whole_lines(text.as_bytes())).expect("UTF-8");
        assert_eq!(records(whole).0.len(), 1);
        let (records, unread) = records(&text);
        assert_eq!((records.len(), unread), (1, 1), "cut at {cut}");
    }
}

#[test]
fn absurd_numbers_are_no_row_of_this_program() {
    for (sane, absurd) in [
        (",3,0,48,", ",0,0,48,"),
        (",3,0,48,", ",1000000000000,0,48,"),
        (",48,4,", ",18446744073709551615,4,"),
        (",48,4,", ",48,18446744073709551615,"),
        (",48,4,", ",0,0,"),
    ] {
        for collective in ["all_gather", "alltoallv", "hypercube", "gather"] {
            let row = ROW.replace(sane, absurd).replace("all_gather", collective);
            let (records, _) = records(&format!("{}\r\n{row}\r\n", header()));
            // A case of no bytes can be, and that of an alltoallv of unknown traffic is as the row
            // says.
            let can_be = absurd == ",0,0," || collective == "alltoallv";
            assert!(records.is_empty() || can_be, "{row}");
        }
    }
}

#[test]
fn only_the_beginning_of_a_header_may_lack_its_end() {
    let header = header();
    for own in ["", "run_id", &header[..100], &header] {
        assert!(has_own_header(own), "{own}");
    }
    assert!(has_own_header(&format!("{header}\r\nrow")));
    assert!(has_own_header(&format!("{header}\n")));
    for other in ["my notes", "my notes\n", "\n", "run_id,other", "run_id\n"] {
        assert!(!has_own_header(other), "{other}");
    }
}

#[test]
fn a_row_without_the_later_columns_is_read() {
    let header = header();
    let (early, _) = header.split_once(",pxn").expect("a later column");
    let cells: Vec<&str> = ROW.split(',').take(early.split(',').count()).collect();
    let (records, unread) = records(&format!("{early}\r\n{}\r\n", cells.join(",")));
    assert_eq!((records.len(), unread), (1, 0));
    assert_eq!(records[0].seen, NcclEvidence::default());
}
