//! Who was late: what `--stragglers` found, by rank, and `stragglers.csv` as heat maps, rank by
//! size.

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;

use super::{
    ranks::{HeatMap, RankSums, note_host},
    side_file::each_row,
    source::Source,
    table::{Table, figure, words},
};
use crate::{
    record::{RowError, RowReader, Straggler},
    units::Micros,
};

/// What a cell of the map shows.
const WITH_LATENESS: &str = "(operation + mean lateness) / operation";

/// The columns of a row of `stragglers.csv` that a report shows.
#[derive(Deserialize)]
struct Row<'a> {
    collective: &'a str,
    size_bytes: u64,
    rank: u32,
    host: &'a str,
    operation_us: Micros,
    arrival_us: Micros,
    transfer_us: Micros,
}

/// A late rank, and the run in which it was late.
pub(super) struct LateRank {
    pub(super) run: String,
    pub(super) straggler: Straggler,
}

/// Everything about stragglers.
#[derive(Default)]
pub(super) struct Stragglers {
    /// Late ranks of all runs; one that is late in two ways is there twice.
    pub(super) late: Vec<LateRank>,
    /// Late nodes, runs in which nobody was late, and what cannot be told.
    pub(super) sentences: Vec<String>,
    pub(super) maps: Vec<HeatMap>,
    /// Runs in which somebody looked for stragglers.
    pub(super) searches: u32,
}

/// The sums of a map.
#[derive(Default)]
struct Map {
    sums: RankSums,
    hosts: HashMap<u32, String>,
}

/// Reads what all sources say. What is wrong with a file is added to `notes`.
pub(super) fn read(sources: &[Source], notes: &mut Vec<String>) -> Stragglers {
    let mut found = Stragglers::default();
    let mut maps = BTreeMap::<String, Map>::new();
    for source in sources {
        let report = source.run.as_ref().and_then(|run| run.stragglers.as_ref());
        let file = source.file("stragglers.csv");
        if let Some(path) = &file {
            let level = source.run.as_ref().map(|run| run.level.as_str());
            let variant = source.label.as_deref().or(level).unwrap_or_default();
            each_row(path, notes, |reader| add_row(reader, variant, &mut maps));
        }
        let Some(report) = report else {
            if let Some(path) = file {
                notes.push(format!(
                    "who is late is not known for {}: no run.json beside it says so",
                    path.display()
                ));
            }
            continue;
        };
        found.searches += 1;
        for sentence in report
            .node_sentences()
            .into_iter()
            .chain(report.sentences_without_names())
        {
            found.sentences.push(if sources.len() > 1 {
                format!("{}: {sentence}", source.name())
            } else {
                sentence
            });
        }
        for straggler in &report.stragglers {
            found.late.push(LateRank {
                run: source.name(),
                straggler: straggler.clone(),
            });
        }
    }
    for (title, map) in maps {
        found
            .maps
            .push(HeatMap::new(title, WITH_LATENESS, &map.sums, &map.hosts));
    }
    found
}

/// Adds the next row to its map, and returns whether there is one.
fn add_row(
    reader: &mut RowReader,
    variant: &str,
    maps: &mut BTreeMap<String, Map>,
) -> Result<bool, RowError> {
    let Some(row) = reader.read_row::<Row>()? else {
        return Ok(false);
    };
    let mut title = row.collective.to_owned();
    if !variant.is_empty() {
        title += &format!(", {variant}");
    }
    let map = maps.entry(title).or_default();
    let lateness = row.arrival_us.0 + row.transfer_us.0;
    if row.operation_us.0 > 0.0 {
        let sizes = map.sums.entry(row.rank).or_default();
        let sums = sizes.entry(row.size_bytes).or_default();
        sums.add(1.0 + lateness / row.operation_us.0);
    }
    note_host(&mut map.hosts, row.rank, row.host);
    Ok(true)
}

impl Stragglers {
    /// Returns the late ranks as a table.
    pub(super) fn table(&self) -> Table {
        Table {
            caption: "Late ranks".into(),
            head: words(&[
                "rank",
                "host",
                "GPU",
                "how it is late",
                "worst case",
                "lateness there (µs)",
                "% of an operation",
                "% of the operations",
                "sizes",
                "cases",
                "run",
            ]),
            rows: self.late.iter().map(LateRank::cells).collect(),
        }
    }
}

impl LateRank {
    fn cells(&self) -> Vec<String> {
        let straggler = &self.straggler;
        vec![
            straggler.who(),
            straggler.host.clone(),
            straggler.device.clone(),
            straggler.late.name().to_owned(),
            format!("{} of {}", straggler.collective, straggler.size),
            figure(Some(straggler.late_us)),
            figure(Some(straggler.late_pct)),
            figure(Some(straggler.iterations_pct)),
            straggler.sizes(),
            straggler.cases.to_string(),
            self.run.clone(),
        ]
    }
}
