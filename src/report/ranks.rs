//! The times of single ranks: `ranks.csv` as heat maps, rank by size.
//!
//! In a collective a late rank measures the shortest time, because the others wait for it: a rank
//! that is off in either direction is of interest.

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;

use super::{estimate::LogSums, side_file::each_row, source::Source};
use crate::{
    record::{RowError, RowReader},
    units::{Micros, counted},
};

/// The limits between the colours, as a rank's time divided by the median of the ranks.
pub(super) const STEPS: [f64; 6] = [0.8, 0.9, 0.97, 1.03, 1.1, 1.25];

/// Rows of a map. More ranks than that share rows.
const MOST_ROWS: usize = 128;
/// Columns of a map.
const MOST_SIZES: usize = 40;
/// What a cell of a map of `ranks.csv` shows.
const TO_MEDIAN: &str = "time / median of the ranks";
/// What stands for the host of a rank that runs had on different hosts.
const SEVERAL_HOSTS: &str = "several hosts";

/// The columns of a row of `ranks.csv` that a report shows.
#[derive(Deserialize)]
struct Row<'a> {
    run_id: &'a str,
    started_at: &'a str,
    collective: &'a str,
    level: &'a str,
    size_bytes: u64,
    in_place: u8,
    group: Option<u32>,
    rank: u32,
    host: &'a str,
    time_us: Option<Micros>,
}

/// One measurement of a case on all ranks.
#[derive(Default)]
struct Measurement {
    key: (String, String, String, String, u64, u8, Option<u32>),
    times: Vec<(u32, f64)>,
}

/// The ranks of one collective at one level.
pub(super) struct HeatMap {
    /// The collective and the level.
    pub(super) title: String,
    /// What is divided by what in a cell.
    pub(super) ratio: &'static str,
    pub(super) sizes: Vec<u64>,
    pub(super) rows: Vec<HeatRow>,
    /// What was left out; empty if nothing was.
    pub(super) thinned: String,
    /// The slowest and the fastest rank of each size: the table beside the picture.
    pub(super) extremes: Vec<Extremes>,
    /// Ranks that have rows in the file.
    pub(super) ranks: usize,
}

/// A row of the picture.
pub(super) struct HeatRow {
    first: u32,
    last: u32,
    host: String,
    /// By size: the time divided by the median; of several ranks the one that is furthest from 1.
    pub(super) ratios: Vec<Option<f64>>,
}

/// The slowest and the fastest rank of a size, each with its time divided by the median.
pub(super) struct Extremes {
    pub(super) size: u64,
    pub(super) slowest: (String, f64),
    pub(super) fastest: (String, f64),
}

impl HeatRow {
    /// Returns the rank and its host; the ranks, if several share the row.
    pub(super) fn label(&self) -> String {
        if self.first == self.last {
            format!("{} {}", self.first, self.host)
        } else {
            format!("{}–{}", self.first, self.last)
        }
    }
}

/// Sums by rank and size.
pub(super) type RankSums = BTreeMap<u32, BTreeMap<u64, LogSums>>;

#[derive(Default)]
struct Collector {
    maps: Vec<(String, RankSums)>,
    hosts: HashMap<u32, String>,
    current: Measurement,
}

/// Reads the `ranks.csv` of all sources that have one. What is wrong with a file is added to
/// `notes`.
pub(super) fn read(sources: &[Source], notes: &mut Vec<String>) -> Vec<HeatMap> {
    let mut collector = Collector::default();
    for source in sources {
        if let Some(path) = source.file("ranks.csv") {
            each_row(&path, notes, |reader| collector.add_row(reader));
            collector.flush();
        }
    }
    collector.maps()
}

impl Collector {
    /// Adds the next row, and returns whether there is one.
    fn add_row(&mut self, reader: &mut RowReader) -> Result<bool, RowError> {
        let Some(row) = reader.read_row::<Row>()? else {
            return Ok(false);
        };
        if !self.current.has(&row) {
            self.flush();
            self.current.begin(&row);
        }
        if let Some(time) = row.time_us {
            self.current.times.push((row.rank, time.0));
        }
        note_host(&mut self.hosts, row.rank, row.host);
        Ok(true)
    }

    /// Adds the current measurement to its map.
    fn flush(&mut self) {
        let measurement = std::mem::take(&mut self.current);
        let Some(median) = median(&measurement.times) else {
            return;
        };
        let (_, _, collective, level, size, ..) = measurement.key;
        let title = format!("{collective}, {level}");
        let place = match self.maps.iter().position(|(known, _)| *known == title) {
            Some(place) => place,
            None => {
                self.maps.push((title, RankSums::new()));
                self.maps.len() - 1
            }
        };
        for (rank, time) in measurement.times {
            let sizes = self.maps[place].1.entry(rank).or_default();
            sizes.entry(size).or_default().add(time / median);
        }
    }

    fn maps(self) -> Vec<HeatMap> {
        let maps = self.maps.into_iter();
        maps.map(|(title, sums)| HeatMap::new(title, TO_MEDIAN, &sums, &self.hosts))
            .collect()
    }
}

impl Measurement {
    fn has(&self, row: &Row) -> bool {
        let (run, start, collective, level, size, in_place, group) = &self.key;
        !self.times.is_empty()
            && run == row.run_id
            && start == row.started_at
            && collective == row.collective
            && level == row.level
            && (*size, *in_place, *group) == (row.size_bytes, row.in_place, row.group)
    }

    fn begin(&mut self, row: &Row) {
        self.key = (
            row.run_id.to_owned(),
            row.started_at.to_owned(),
            row.collective.to_owned(),
            row.level.to_owned(),
            row.size_bytes,
            row.in_place,
            row.group,
        );
    }
}

/// Returns the median of the times; `None` unless it is above zero.
fn median(times: &[(u32, f64)]) -> Option<f64> {
    let mut sorted: Vec<f64> = times.iter().map(|(_, time)| *time).collect();
    sorted.sort_by(f64::total_cmp);
    let median = *sorted.get(sorted.len().checked_sub(1)? / 2)?;
    (median > 0.0).then_some(median)
}

/// Notes the host of a rank.
pub(super) fn note_host(hosts: &mut HashMap<u32, String>, rank: u32, host: &str) {
    let known = hosts.entry(rank).or_default();
    if known.is_empty() {
        host.clone_into(known);
    } else if known != host {
        SEVERAL_HOSTS.clone_into(known);
    }
}

impl HeatMap {
    /// Returns the map of these sums; a cell has the `ratio` of a rank at a size.
    pub(super) fn new(
        title: String,
        ratio: &'static str,
        sums: &RankSums,
        hosts: &HashMap<u32, String>,
    ) -> HeatMap {
        let mut all_sizes: Vec<u64> = sums.values().flat_map(BTreeMap::keys).copied().collect();
        all_sizes.sort_unstable();
        all_sizes.dedup();
        let sizes = evenly_chosen(&all_sizes);
        let ranks: Vec<u32> = sums.keys().copied().collect();
        let ranks_per_row = ranks.len().div_ceil(MOST_ROWS).max(1);
        let mut rows = Vec::new();
        for shared in ranks.chunks(ranks_per_row) {
            rows.push(HeatRow {
                first: shared[0],
                last: shared[shared.len() - 1],
                host: hosts.get(&shared[0]).cloned().unwrap_or_default(),
                ratios: sizes
                    .iter()
                    .map(|size| furthest(shared, *size, sums))
                    .collect(),
            });
        }
        let extremes = sizes.iter().filter_map(|size| extremes(*size, sums, hosts));
        HeatMap {
            title,
            ratio,
            extremes: extremes.collect(),
            thinned: thinned(ranks_per_row, all_sizes.len(), sizes.len()),
            ranks: ranks.len(),
            sizes,
            rows,
        }
    }
}

/// Returns at most [`MOST_SIZES`] of `sizes`.
fn evenly_chosen(sizes: &[u64]) -> Vec<u64> {
    let count = sizes.len();
    if count <= MOST_SIZES {
        return sizes.to_vec();
    }
    let kept = (0..MOST_SIZES).map(|at| at * (count - 1) / (MOST_SIZES - 1));
    kept.map(|at| sizes[at]).collect()
}

fn thinned(ranks_per_row: usize, sizes: usize, shown: usize) -> String {
    let mut sentences = Vec::new();
    if ranks_per_row > 1 {
        sentences.push(format!(
            "Each row stands for {ranks_per_row} ranks and shows the one that is furthest from \
             the median."
        ));
    }
    if shown < sizes {
        sentences.push(format!(
            "{shown} of {} are shown.",
            counted(sizes as u64, "size")
        ));
    }
    sentences.join(" ")
}

fn ratio(rank: u32, size: u64, sums: &RankSums) -> Option<f64> {
    let estimate = sums.get(&rank)?.get(&size)?.estimate(None)?;
    Some(estimate.value)
}

fn furthest(ranks: &[u32], size: u64, sums: &RankSums) -> Option<f64> {
    let ratios = ranks.iter().filter_map(|rank| ratio(*rank, size, sums));
    ratios.max_by(|a, b| a.ln().abs().total_cmp(&b.ln().abs()))
}

fn extremes(size: u64, sums: &RankSums, hosts: &HashMap<u32, String>) -> Option<Extremes> {
    let all = sums
        .keys()
        .filter_map(|rank| Some((*rank, ratio(*rank, size, sums)?)));
    let mut all: Vec<(u32, f64)> = all.collect();
    all.sort_by(|a, b| a.1.total_cmp(&b.1));
    let named = |(rank, ratio): &(u32, f64)| {
        let host = hosts.get(rank).map(String::as_str).unwrap_or_default();
        (format!("{rank} on {host}"), *ratio)
    };
    Some(Extremes {
        size,
        fastest: named(all.first()?),
        slowest: named(all.last()?),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_rank_that_runs_had_on_different_hosts_is_on_none_of_them() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut collector = Collector::default();
        for host in ["n1", "n2"] {
            let mut text = String::from(
                "run_id,started_at,collective,level,size_bytes,in_place,group,rank,host,time_us\n",
            );
            text += &format!("{host},x,all_reduce,off,8,0,,0,{host},1\n");
            text += &format!("{host},x,all_reduce,off,8,0,,1,n3,2\n");
            let path = folder.path().join(host);
            fs::write(&path, text).expect("written");
            each_row(&path, &mut Vec::new(), |reader| collector.add_row(reader));
            collector.flush();
        }
        let map = &collector.maps()[0];
        assert_eq!(map.rows[0].host, SEVERAL_HOSTS);
        assert_eq!(map.rows[1].host, "n3");
    }
}
