//! The matrix of `nvidia-smi topo -m`: which GPU and NIC is how far from which other.

use super::{
    figures::Peak,
    node::{Cpu, DeviceLocation, GivenPaths, Gpu, Nic, Topology},
    path::{UNKNOWN, nvlink_count},
};
use crate::units::counted;

/// The most devices, which is far beyond any node. Paths are computed between all of them.
const MOST: usize = 512;

/// The words of a path, the longest first. SOC is the name of SYS before 2018.
const WORDS: [&str; 7] = ["NODE", "PIX", "PXB", "PHB", "SYS", "SOC", "X"];

/// The first words of the columns that are no devices.
const OTHER_COLUMNS: [&str; 3] = ["CPU", "NUMA", "GPU"];

/// What the matrix leaves out.
const MISSING: &str = "`nvidia-smi topo -m` shows neither addresses nor speeds nor whether ports \
                       are up; NICs are taken to be up and equally fast";

/// Returns the topology that the first matrix in `text` shows, or `None` if there is no matrix.
///
/// # Errors
/// Returns an error if a matrix begins but shows no GPU, or too many devices.
pub fn read(text: &str) -> Option<Result<Topology, String>> {
    if text.trim_start().starts_with('<') {
        return None;
    }
    let text = without_escapes(text);
    let mut lines = text.lines().map(tokens);
    let header = lines.find_map(|line| Header::of(&line))?;
    let mut matrix = Matrix::new(header);
    let mut is_legend = false;
    for line in lines {
        if Header::of(&line).is_some() {
            let only = "only the first of several matrices is read";
            matrix.notes.push(only.to_owned());
            break;
        }
        is_legend |= line.first().is_some_and(|word| word.starts_with("Legend"));
        if is_legend {
            matrix.read_legend(&line);
        } else {
            matrix.read_row(&line);
        }
    }
    Some(matrix.topology())
}

/// Removes the escape codes with which nvidia-smi underlines the header.
fn without_escapes(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\u{1b}') {
        out.push_str(before);
        let end = after.find(|c: char| c.is_ascii_alphabetic());
        rest = end.map_or("", |end| &after[end + 1..]);
    }
    out.push_str(rest);
    out
}

/// Returns the words of a line, without a mark of a comment or a quotation before them.
fn tokens(line: &str) -> Vec<&str> {
    let marks = ['#', '>', '|'];
    let mut words = line.split_whitespace().peekable();
    words.next_if(|word| word.chars().all(|c| marks.contains(&c)));
    words.collect()
}

/// The columns of a matrix.
struct Header {
    devices: Vec<String>,
    has_numa: bool,
}

impl Header {
    /// Returns the header that this line is, if it is one.
    fn of(line: &[&str]) -> Option<Header> {
        gpu_number(line.first()?)?;
        if line.get(1).is_some_and(|word| is_cell(word)) {
            return None;
        }
        let is_device = |word: &&&str| !OTHER_COLUMNS.contains(*word);
        let devices: Vec<String> = line
            .iter()
            .take_while(is_device)
            .map(|word| (*word).to_owned())
            .collect();
        let rest = &line[devices.len()..];
        if devices.len() == 1 && rest.is_empty() {
            return None;
        }
        Some(Header {
            has_numa: rest.windows(2).any(|pair| pair == ["NUMA", "Affinity"]),
            devices,
        })
    }
}

/// Returns the number of a GPU's name: 3 of `GPU3`.
fn gpu_number(name: &str) -> Option<u32> {
    name.strip_prefix("GPU")?.parse().ok()
}

/// Returns whether a word is a path, or several without a space between.
fn is_cell(word: &str) -> bool {
    cells(word).is_some()
}

/// Returns the paths in a word. Editors that replace tabs join two: `NODEPIX`.
fn cells(word: &str) -> Option<Vec<String>> {
    let mut found = Vec::new();
    let mut rest = word;
    while !rest.is_empty() {
        let length = cell_length(rest)?;
        let (cell, after) = rest.split_at(length);
        let cell = if cell == "SOC" { "SYS" } else { cell };
        found.push(cell.to_owned());
        rest = after;
    }
    (!found.is_empty()).then_some(found)
}

/// Returns the length of the path that a text begins with.
fn cell_length(text: &str) -> Option<usize> {
    if let Some(number) = text.strip_prefix("NV") {
        let digits = number.bytes().take_while(u8::is_ascii_digit).count();
        return (digits > 0).then_some(2 + digits);
    }
    let word = WORDS.iter().find(|word| text.starts_with(**word))?;
    Some(word.len())
}

/// A matrix that is being read.
struct Matrix {
    header: Header,
    /// A row per device of the header; empty if it is missing.
    rows: Vec<Vec<String>>,
    /// The NUMA node of each device, if known.
    numa: Vec<Option<i64>>,
    /// The names of NICs by their numbers: `NIC0`, `mlx5_0`.
    names: Vec<(String, String)>,
    shows_nvlinks: bool,
    notes: Vec<String>,
}

impl Matrix {
    fn new(header: Header) -> Matrix {
        let count = header.devices.len();
        Matrix {
            rows: vec![Vec::new(); count],
            numa: vec![None; count],
            header,
            names: Vec::new(),
            shows_nvlinks: false,
            notes: Vec::new(),
        }
    }

    fn read_row(&mut self, line: &[&str]) {
        let Some((name, words)) = line.split_first() else {
            return;
        };
        let mut devices = self.header.devices.iter();
        let Some(device) = devices.position(|device| device == name) else {
            return;
        };
        let count = self.header.devices.len();
        let mut row: Vec<String> = Vec::new();
        let mut read = 0;
        while row.len() < count
            && let Some(word) = words.get(read)
        {
            row.extend(cells(word).unwrap_or_else(|| vec![(*word).to_owned()]));
            read += 1;
        }
        self.shows_nvlinks |= row.iter().any(|cell| nvlink_count(cell).is_some());
        self.rows[device] = row;
        if self.header.has_numa {
            // The processor's cores come first.
            let numa = words.get(read + 1).and_then(|word| word.parse().ok());
            self.numa[device] = numa;
        }
    }

    fn read_legend(&mut self, line: &[&str]) {
        match line {
            ["NV#", ..] => self.shows_nvlinks = true,
            [number, name] if number.ends_with(':') => {
                let number = number.trim_end_matches(':').to_owned();
                self.names.push((number, (*name).to_owned()));
            }
            _ => {}
        }
    }

    fn topology(mut self) -> Result<Topology, String> {
        let count = self.header.devices.len();
        if count > MOST {
            return Err(format!(
                "its matrix lists {count} devices; no node has more than {MOST}"
            ));
        }
        if self.rows.iter().all(Vec::is_empty) {
            let what = "the header of `nvidia-smi topo -m`";
            return Err(format!("it has {what}, but no row below it"));
        }
        let devices = self.header.devices.clone();
        let is_gpu = |at: &usize| gpu_number(&devices[*at]).is_some();
        let (gpus, nics): (Vec<usize>, Vec<usize>) = (0..count).partition(is_gpu);
        let order = [gpus.clone(), nics.clone()].concat();
        let given = self.given(&order);
        self.place_nics(&gpus, &nics);

        let mut all = Topology {
            source: "nvidia-smi topo -m".into(),
            missing: vec![MISSING.to_owned()],
            ..Topology::default()
        };
        for at in order {
            self.add_device(&mut all, at);
        }
        if !given.has_nvlinks {
            all.missing.push(
                "no NVLink is shown, and no legend that would name NVLinks (`topo -mp` leaves \
                 them out): whether there are any is not known"
                    .to_owned(),
            );
        }
        all.given = Some(given);
        all.notes = self.notes;
        Ok(all)
    }

    /// Returns the paths in this order of the devices.
    fn given(&mut self, order: &[usize]) -> GivenPaths {
        let mut words = Vec::new();
        let mut unknown = 0;
        let mut differing = 0;
        for a in order {
            let mut row = Vec::new();
            for b in order {
                let (there, back) = (self.cell(*a, *b), self.cell(*b, *a));
                if a < b && there.is_some() && back.is_some() && there != back {
                    differing += 1;
                }
                let word = there.or(back).unwrap_or(UNKNOWN);
                unknown += usize::from(!is_cell(word));
                row.push(word.to_owned());
            }
            words.push(row);
        }
        if unknown > 0 {
            let cells = counted(unknown as u32, "cell");
            let what = format!("{cells} of the matrix without a path that is understood");
            self.notes.push(what);
        }
        if differing > 0 {
            let pairs = counted(differing, "pair");
            let what =
                format!("the matrix is not symmetric for {pairs} of devices; the row counts");
            self.notes.push(what);
        }
        GivenPaths {
            words,
            has_nvlinks: self.shows_nvlinks,
        }
    }

    fn cell(&self, a: usize, b: usize) -> Option<&str> {
        self.rows[a].get(b).map(String::as_str)
    }

    /// Finds the NUMA nodes of NICs: all paths but SYS stay within that of the GPU.
    fn place_nics(&mut self, gpus: &[usize], nics: &[usize]) {
        const WITHIN: [&str; 4] = ["PIX", "PXB", "PHB", "NODE"];
        for nic in nics {
            let mut near = gpus.iter().filter(|gpu| {
                let cell = self.cell(**gpu, *nic).or(self.cell(*nic, **gpu));
                cell.is_some_and(|word| WITHIN.contains(&word))
            });
            let numa = near.find_map(|gpu| self.numa[*gpu]);
            self.numa[*nic] = numa;
        }
    }

    fn add_device(&self, all: &mut Topology, at: usize) {
        let name = &self.header.devices[at];
        let unknown = || Peak::unknown("not shown by nvidia-smi");
        let place = DeviceLocation {
            cpu: cpu_index(all, self.numa[at].unwrap_or(-1)),
            pcie: unknown(),
            ..DeviceLocation::default()
        };
        if let Some(index) = gpu_number(name) {
            all.gpus.push(Gpu {
                index,
                place,
                ..Gpu::default()
            });
            return;
        }
        let mut names = self.names.iter();
        let named = names.find(|(number, _)| number == name);
        all.nics.push(Nic {
            name: named.map_or(name, |(_, name)| name).clone(),
            place,
            port: unknown(),
            // nvidia-smi lists RDMA devices only.
            sockets: Some(false),
            ..Nic::default()
        });
    }
}

fn cpu_index(all: &mut Topology, numa: i64) -> usize {
    if let Some(known) = all.cpus.iter().position(|cpu| cpu.numa == numa) {
        return known;
    }
    all.cpus.push(Cpu {
        numa,
        kind: String::new(),
    });
    all.cpus.len() - 1
}
