//! Reads a `results.csv` back into records, so that a run can go on where an earlier one stopped.
//!
//! Columns are found by their names, so that a file of a later version reads as well; derived numbers are not read, they
//! follow from the case and the time.

use std::collections::HashMap;

use chrono::DateTime;

use super::{
    IterationStats, NcclEvidence, Record, Status,
    columns::{COLUMNS, pxn_word},
};
use crate::{
    collective::{
        BufferMode, Case, Collective, Counts,
        data::{DType, RedOp},
        traffic::Traffic,
    },
    units::{Bytes, Micros},
};

/// The records of `text`, and what could not be read: a last line that was cut short, or one that is no record. An
/// alltoallv carries `traffic`, where that is what it was of.
pub fn read_csv(text: &str, traffic: &'static Traffic) -> (Vec<Record>, Vec<String>) {
    let (mut records, mut unread) = (Vec::new(), Vec::new());
    let label = traffic.label();
    let mut reader = csv::ReaderBuilder::new()
        .flexible(true)
        .from_reader(text.as_bytes());
    let rows: csv::DeserializeRecordsIter<_, HashMap<String, String>> = reader.deserialize();
    for (line, row) in rows.enumerate() {
        match row.ok().and_then(|row| record(&row, traffic, &label)) {
            Some(record) => records.push(record),
            None => unread.push(format!("row {} is incomplete", line + 1)),
        }
    }
    (records, unread)
}

/// Does `text` begin as a CSV of this program does, of this version or an earlier one? So does one without a whole line.
pub fn is_ours(text: &str) -> bool {
    let Some(header) = text.lines().next() else {
        return true;
    };
    let names: Vec<&str> = header.split(',').collect();
    let known = COLUMNS.iter().map(|column| column.name);
    names.len() > 20
        && names.len() <= COLUMNS.len()
        && names.iter().zip(known).all(|(name, known)| *name == known)
}

/// The part of `text` that ends with a whole line.
pub fn whole_lines(text: &str) -> &str {
    text.rfind('\n').map_or("", |end| &text[..=end])
}

fn record(row: &HashMap<String, String>, traffic: &'static Traffic, label: &str) -> Option<Record> {
    let cell = |name: &str| row.get(name).map(String::as_str);
    let number = |name: &str| cell(name)?.parse::<u64>().ok();
    let number_of = |name: &str| cell(name)?.parse::<f64>().ok();
    let pattern = cell("pattern").unwrap_or_default();
    let case = case(&cell, (pattern == label).then_some(traffic))?;
    let status = cell("status")?;
    Some(Record {
        case,
        cycle: 0,
        started_at: DateTime::parse_from_rfc3339(cell("started_at")?).ok()?,
        iters: number("iters").unwrap_or(0).try_into().ok()?,
        time: cell("time_us")?.parse().ok().map(Micros),
        issue: number_of("issue_us").map(Micros),
        iteration_times: iteration_times(&number_of),
        wrong: number("wrong"),
        failed_checks: number("wrong").map_or(0, |wrong| u64::from(wrong > 0)),
        status: Status::ALL
            .into_iter()
            .find(|known| known.name() == status)?,
        note: cell("note")?.to_owned(),
        seen: seen(&cell),
        pattern: pattern.to_owned(),
        group: None,
        groups: Vec::new(),
    })
}

/// The case of a row; `traffic` is what an alltoallv was of, where that is known.
fn case<'a>(
    cell: &dyn Fn(&str) -> Option<&'a str>,
    traffic: Option<&'static Traffic>,
) -> Option<Case> {
    let number = |name: &str| cell(name)?.parse::<u64>().ok();
    let (dtype, redop) = (cell("type")?, cell("redop")?);
    let dtype = DType::ALL.into_iter().find(|known| known.name() == dtype)?;
    let redop = RedOp::ALL.into_iter().find(|known| known.name() == redop);
    let root = cell("root")?.parse::<i64>().ok()?.try_into().ok();
    let buffer_mode = if number("in_place")? == 1 {
        BufferMode::InPlace
    } else {
        BufferMode::OutOfPlace
    };
    let (collective, ranks) = (
        cell("collective")?.parse::<Collective>().ok()?,
        number("ranks")?,
    );
    let (size, count) = (Bytes(number("size_bytes")?), number("count")?);
    let case = Case::new(collective, size, dtype, redop, root, buffer_mode, ranks);
    let case = match (collective, traffic) {
        // Its parts are rounded one by one: what was asked for follows from the count.
        (Collective::AllToAllV, Some(traffic)) => {
            let asked = count.checked_mul(ranks)?.checked_mul(dtype.size())?;
            case.with_size(Bytes(asked), traffic)
        }
        (Collective::AllToAllV, None) => {
            let most = size.0 / dtype.size();
            Case {
                counts: Counts {
                    send: most,
                    recv: most,
                    param: count,
                },
                traffic: None,
                ..case
            }
        }
        _ => case,
    };
    // A size is rounded already, and rounding it again changes nothing; a row of another rounding is none of ours.
    (case.size() == size && case.counts.param == count).then_some(case)
}

/// The statistics of single iterations; the iterations themselves are not in the file.
fn iteration_times(number_of: &dyn Fn(&str) -> Option<f64>) -> Option<IterationStats> {
    let micros = |name: &str| number_of(name).map(Micros);
    let mean = micros("iter_mean_us")?;
    Some(IterationStats {
        skipped: 0,
        min: micros("iter_min_us")?,
        max: micros("iter_max_us")?,
        mean,
        p50: micros("iter_p50_us")?,
        p95: micros("iter_p95_us")?,
        p99: micros("iter_p99_us")?,
        deviation: Micros(number_of("iter_cv_pct")? * mean.0 / 100.0),
        times: Vec::new(),
    })
}

/// The columns that came later: a file of an earlier version has none of them.
fn seen<'a>(cell: &dyn Fn(&str) -> Option<&'a str>) -> NcclEvidence {
    let text = |name: &str| cell(name).unwrap_or_default().to_owned();
    NcclEvidence {
        pxn: cell("pxn").and_then(|word| {
            [false, true]
                .into_iter()
                .find(|used| pxn_word(*used) == word)
        }),
        transport: text("transport"),
        channels: cell("channels").and_then(|count| count.parse().ok()),
        algo: text("algo"),
        proto: text("proto"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::traffic::DEFAULT;

    fn header() -> String {
        COLUMNS
            .iter()
            .map(|column| column.name)
            .collect::<Vec<_>>()
            .join(",")
    }

    const ROW: &str = "r,2026-11-28T00:00:00+00:00,all_gather,host,default,auto,none,,0,1,3,0,48,4,float,none,-1,1,20,12.5,\
                       0.00384,0.00256,0,ok,,not used,P2P+NET/IB,24,RING,LL,,2.5,10,20,13,12,18,19,10,";

    #[test]
    fn a_row_is_read_as_it_was() {
        let (records, unread) = read_csv(&format!("{}\r\n{ROW}\r\n", header()), &DEFAULT);
        assert_eq!(unread, [] as [String; 0]);
        let [record] = &records[..] else {
            panic!("{records:?}")
        };
        let asked = Case::new(
            Collective::AllGather,
            Bytes(64),
            DType::Float,
            None,
            None,
            BufferMode::InPlace,
            3,
        );
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
    fn a_row_that_was_cut_short_is_left_out() {
        for cut in [5, 60, 100, ROW.len() - 3] {
            let text = format!("{}\r\n{ROW}\r\n{}", header(), &ROW[..cut]);
            assert_eq!(read_csv(whole_lines(&text), &DEFAULT).0.len(), 1);
            let (records, unread) = read_csv(&text, &DEFAULT);
            assert_eq!((records.len(), unread.len()), (1, 1), "cut at {cut}");
        }
    }
}
