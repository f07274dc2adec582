//! [`Step`]: the times of one step of a comparison, and what its `run.json` says of them.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{
    case_key::Cases,
    conditions::Conditions,
    folders::{MeasuredRun, RunFiles},
    run_facts::RunFacts,
};
use crate::{
    exit::{Code, Failure},
    record::{
        RowError, RowReader,
        read::{self, RowView},
    },
    replay::{ReplayQuantity, SavedReplay},
};

/// A step of a comparison.
pub(super) struct Step {
    /// Its folder.
    folder: PathBuf,
    /// The name of its folder.
    pub(super) name: String,
    /// The name of the run that it belongs to, as tables show it.
    pub(super) run: String,
    /// Its `run.json`; `None` if there is none, or if it cannot be read.
    run_json: Option<Value>,
    /// What its `run.json` says of all rows.
    pub(super) facts: RunFacts,
    /// The conditions of its rows, each once.
    pub(super) conditions: Vec<Conditions>,
    /// Its times: those of rows that have one.
    pub(super) times: Vec<MeasuredTime>,
    /// What is said of its last line, if that is cut short.
    pub(super) torn_line: Option<String>,
}

/// A time of a step. There may be a million, so it is small.
#[derive(Clone, Copy, Debug)]
pub(super) struct MeasuredTime {
    /// Its conditions, as an index into those of the step.
    pub(super) conditions: u32,
    /// The number of its case.
    pub(super) case: u32,
    /// The number of the repetition.
    pub(super) repeat: u32,
    /// The time in µs.
    pub(super) time: f64,
}

impl Step {
    /// Reads the step with these files, which belongs to `run`. Cases that are new get a number in
    /// `cases`.
    ///
    /// # Errors
    ///
    /// Returns an error if its rows cannot be read.
    pub(super) fn read(files: &RunFiles, run: &str, cases: &mut Cases) -> anyhow::Result<Step> {
        match files.measured {
            MeasuredRun::Sweep => Step::read_sweep(files, run, cases),
            MeasuredRun::Replay => Step::read_replay(&files.folder, run, cases),
        }
    }

    fn read_replay(folder: &Path, run: &str, cases: &mut Cases) -> anyhow::Result<Step> {
        let replay = SavedReplay::read(folder)?;
        let facts = RunFacts::of(&replay.run_json, replay.run.measured_on());
        let conditions = vec![Conditions::of_replay(&replay, &facts)];
        let mut times = Vec::new();
        for quantity in ReplayQuantity::ALL {
            let case = cases.number_of_step(&replay.workload, quantity);
            for block in &replay.blocks {
                times.push(MeasuredTime {
                    conditions: 0,
                    case,
                    repeat: block.block,
                    time: block.of(quantity),
                });
            }
        }
        Ok(Step {
            folder: folder.to_owned(),
            name: name_of(folder),
            run: run.to_owned(),
            run_json: Some(replay.run_json),
            facts,
            conditions,
            times,
            torn_line: None,
        })
    }

    fn read_sweep(files: &RunFiles, run: &str, cases: &mut Cases) -> anyhow::Result<Step> {
        let RunFiles { csv, folder, .. } = files;
        let run_json = folder.join("run.json");
        let measured_on = read::read_run(&run_json).map(|run| run.measured_on());
        let run_json = read::read_run_json(&run_json);
        let mut step = Step {
            folder: folder.to_owned(),
            name: name_of(folder),
            run: run.to_owned(),
            facts: match &run_json {
                Some(run) => RunFacts::of(run, measured_on.unwrap_or_default()),
                None => RunFacts::default(),
            },
            run_json,
            conditions: Vec::new(),
            times: Vec::new(),
            torn_line: None,
        };
        let rows = step.read_rows(csv, cases);
        rows.map_err(|error| Failure::of_file("read", csv, &error))?;
        Ok(step)
    }

    fn read_rows(&mut self, csv: &Path, cases: &mut Cases) -> Result<(), RowError> {
        let mut reader = RowReader::open(csv)?;
        while let Some(row) = reader.read_row::<RowView>()? {
            self.add(&row, cases);
        }
        self.torn_line = reader.torn_line();
        Ok(())
    }

    fn add(&mut self, row: &RowView, cases: &mut Cases) {
        let conditions = self.conditions_of(row);
        if let Some(time) = row.time.filter(|time| time.0 > 0.0) {
            self.times.push(MeasuredTime {
                conditions,
                case: cases.number(row),
                repeat: row.repeat,
                time: time.0,
            });
        }
    }

    /// Returns the index of the conditions of a row.
    fn conditions_of(&mut self, row: &RowView) -> u32 {
        let known = self.conditions.iter();
        let mut known = known.map(|known| known.are_of(row, &self.facts));
        let index = match known.position(|is_same| is_same) {
            Some(index) => index,
            None => {
                self.conditions.push(Conditions::of(row, &self.facts));
                self.conditions.len() - 1
            }
        };
        index as u32
    }

    /// Returns a sentence if the step did not end well, or if that is not known.
    pub(super) fn unfinished(&self) -> Option<String> {
        let name = &self.name;
        let path = self.folder.join("run.json");
        let Some(run) = &self.run_json else {
            let why = if path.exists() {
                "its run.json cannot be read"
            } else {
                "it has no run.json"
            };
            return Some(format!(
                "step {name}: {why}, so whether it finished is not known"
            ));
        };
        let end = &run["end"];
        let message = end["message"].as_str().unwrap_or_default();
        match end["code"].as_u64() {
            None => Some(format!(
                "step {name} did not finish: its rows are the cases it completed"
            )),
            Some(0) => None,
            Some(code) if code == Code::Usage as u64 => {
                Some(format!("Waived step {name}: {message}"))
            }
            Some(code) => Some(format!(
                "step {name} ended with exit code {code}: {message}"
            )),
        }
    }
}

fn name_of(folder: &Path) -> String {
    let name = folder.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The columns that a view of a row has, without those of later versions.
    const HEADER: &str = "collective,backend,level,network,resources,repeat,nodes,ranks,\
                          gpus_per_process,size_bytes,type,redop,root,in_place,iters,time_us,\
                          status,group";

    /// Steps with an alltoall of a kibibyte, and their case.
    pub(in crate::compare) struct Measured {
        pub(in crate::compare) steps: Vec<Step>,
        pub(in crate::compare) cases: Cases,
    }

    /// Returns one step per cell (level, repetition, time), each named by its number.
    pub(in crate::compare) fn steps(
        backend: &str,
        nodes: u32,
        cells: &[(&str, u32, f64)],
    ) -> Measured {
        let mut measured = Measured {
            steps: Vec::new(),
            cases: Cases::default(),
        };
        for (number, (level, repeat, time)) in cells.iter().enumerate() {
            let mut step = Step {
                folder: PathBuf::new(),
                name: number.to_string(),
                run: format!("run {number}"),
                run_json: None,
                facts: RunFacts::default(),
                conditions: Vec::new(),
                times: Vec::new(),
                torn_line: None,
            };
            let row = format!(
                "alltoall,{backend},{level},auto,none,{repeat},{nodes},4,0,1024,float,none,-1,0,\
                 20,{time},ok,"
            );
            step.add_text(&format!("{HEADER}\n{row}\n"), &mut measured.cases);
            measured.steps.push(step);
        }
        measured
    }

    impl Step {
        fn add_text(&mut self, text: &str, cases: &mut Cases) {
            let mut reader = csv::Reader::from_reader(text.as_bytes());
            let header = reader.headers().expect("a header").clone();
            for record in reader.records() {
                let record = record.expect("a record");
                let row = record.deserialize(Some(&header)).expect("a row");
                self.add(&row, cases);
            }
        }
    }
}
