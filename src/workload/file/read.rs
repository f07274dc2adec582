//! [`Workload::read`] and [`Workload::parse`]: a workload from its file.

use std::{
    collections::{BTreeSet, HashMap},
    path::Path,
};

use anyhow::{Context, anyhow, bail, ensure};

use super::table::{
    DimensionTable, GroupText, ONE_PIECE, OperationTable, RanksText, RestWord, SizeText,
    WorkloadTable,
};
use crate::{
    collective::{
        Collective,
        data::{DType, RedOp},
        traffic::{self, Traffic},
    },
    input::{self, InputKind},
    units::{Bytes, Micros},
    visible::{beginning, excerpt, visible},
    workload::{
        group::{Dimension, DimensionSize},
        limits::{MOST_BYTES, MOST_OPERATIONS, MOST_STREAMS, MOST_TIME},
        memory_copies::MemoryCopies,
        operation::{CollectiveCall, Operation, Work, Workload},
    },
};

/// The most characters of a name.
const MOST_NAME: usize = 100;

/// The most characters of a message of the TOML reader, which may quote the file.
const MOST_MESSAGE: usize = 300;

impl Workload {
    /// Reads the file of a workload.
    ///
    /// # Errors
    /// Returns an error that names the file if it cannot be read or is not valid.
    pub fn read(path: &Path) -> anyhow::Result<Workload> {
        let shown = path.display().to_string();
        let shown = visible(&shown);
        let text = input::read_text(path, InputKind::Workload)
            .with_context(|| format!("the workload {shown} cannot be read"))?;
        Workload::parse(&text).with_context(|| format!("the workload {shown} is not valid"))
    }

    /// Reads the text of a workload.
    ///
    /// # Errors
    /// Returns an error that names the line or the operation if something is not valid.
    pub fn parse(text: &str) -> anyhow::Result<Workload> {
        let table: WorkloadTable = toml::from_str(text).map_err(|error| located(text, &error))?;
        check_name(&table.name).context("its name")?;
        let dimensions = dimensions(&table.dimensions)?;
        ensure!(
            !table.operations.is_empty(),
            "it has no operations; add one that computes or a collective"
        );
        ensure!(
            table.operations.len() <= MOST_OPERATIONS,
            "it has more than {MOST_OPERATIONS} operations; leave some out"
        );
        let operations = operations(table.operations, &dimensions)?;
        Ok(Workload {
            name: table.name,
            about: table.about,
            dimensions,
            operations,
        })
    }
}

/// Returns an error of the TOML reader with its line.
fn located(text: &str, error: &toml::de::Error) -> anyhow::Error {
    let message = beginning(error.message(), MOST_MESSAGE);
    match error.span() {
        Some(span) => {
            let before = text.get(..span.start).unwrap_or_default();
            let line = before.matches('\n').count() + 1;
            anyhow!("line {line}: {message}")
        }
        None => anyhow!("{message}"),
    }
}

/// Checks a name of a workload, a dimension, a stream or an operation, which stands in messages and
/// tables.
fn check_name(name: &str) -> anyhow::Result<()> {
    ensure!(!name.is_empty(), "it is empty; give it a name");
    ensure!(
        !name.starts_with(['=', '+', '-', '@']),
        "'{}' would be a formula to a spreadsheet; begin it with a letter or a digit",
        excerpt(name)
    );
    let is_short = name.chars().count() <= MOST_NAME;
    ensure!(
        is_short && !name.chars().any(char::is_control),
        "'{}' has more than {MOST_NAME} characters or one that is not printed; shorten it",
        excerpt(name)
    );
    Ok(())
}

fn dimensions(tables: &[DimensionTable]) -> anyhow::Result<Vec<Dimension>> {
    let mut dimensions: Vec<Dimension> = Vec::new();
    for table in tables {
        check_name(&table.name).context("the name of a dimension")?;
        let name = excerpt(&table.name);
        let size = match &table.ranks {
            RanksText::Word(RestWord::Rest) => DimensionSize::Rest,
            RanksText::Number(0) => bail!("dimension '{name}' has 0 ranks; give it at least 1"),
            RanksText::Number(ranks) => DimensionSize::Ranks(*ranks),
        };
        ensure!(
            dimensions.iter().all(|known| known.name != table.name),
            "two dimensions are called '{name}'; rename one of them"
        );
        let rest = |dimension: &Dimension| dimension.size == DimensionSize::Rest;
        ensure!(
            size != DimensionSize::Rest || !dimensions.iter().any(rest),
            "dimension '{name}' takes the rest of the ranks, as one before it does; give one of \
             them a number"
        );
        dimensions.push(Dimension {
            name: table.name.clone(),
            size,
        });
    }
    Ok(dimensions)
}

fn operations(
    tables: Vec<OperationTable>,
    dimensions: &[Dimension],
) -> anyhow::Result<Vec<Operation>> {
    let names: BTreeSet<String> = tables.iter().map(|table| table.name.clone()).collect();
    let mut indices: HashMap<String, usize> = HashMap::new();
    let mut streams: BTreeSet<String> = BTreeSet::new();
    let mut operations = Vec::new();
    for table in tables {
        check_name(&table.name).context("the name of an operation")?;
        let name = table.name.clone();
        let shown = excerpt(&name);
        ensure!(
            !indices.contains_key(&name),
            "two operations are called '{shown}'; rename one of them"
        );
        let after =
            after(&table, &indices, &names).with_context(|| format!("operation '{shown}'"))?;
        check_name(&table.stream).with_context(|| format!("the stream of operation '{shown}'"))?;
        streams.insert(table.stream.clone());
        ensure!(
            streams.len() <= MOST_STREAMS,
            "operation '{shown}' is in one stream more than the {MOST_STREAMS} that a step may \
             have; use fewer"
        );
        indices.insert(name.clone(), operations.len());
        operations.push(Operation {
            stream: table.stream.clone(),
            after,
            work: work(table, dimensions).with_context(|| format!("operation '{shown}'"))?,
            name,
        });
    }
    Ok(operations)
}

/// Returns the indices of the operations for which an operation waits. `names` has the names of all
/// operations.
fn after(
    table: &OperationTable,
    indices: &HashMap<String, usize>,
    names: &BTreeSet<String>,
) -> anyhow::Result<Vec<usize>> {
    let mut after = Vec::new();
    for name in &table.after {
        let shown = excerpt(name);
        match indices.get(name) {
            Some(index) => {
                ensure!(
                    !after.contains(index),
                    "it names '{shown}' twice in after; remove one"
                );
                after.push(*index);
            }
            None if *name == table.name => bail!("it waits for itself; remove it from after"),
            None if names.contains(name) => {
                bail!("it waits for '{shown}', which comes later; move that before it")
            }
            None => {
                bail!(
                    "it waits for '{shown}', which is no operation of the workload; correct the \
                     name in after"
                )
            }
        }
    }
    Ok(after)
}

fn work(table: OperationTable, dimensions: &[Dimension]) -> anyhow::Result<Work> {
    match (table.compute_us, &table.copy, table.collective) {
        (Some(time), None, None) => computation(time, &table).map(Work::Compute),
        (None, Some(size), None) => copies(size, &table).map(Work::Copies),
        (None, None, Some(collective)) => {
            collective_call(collective, table, dimensions).map(Work::Collective)
        }
        (None, None, None) => {
            bail!("it has none of compute_us, copy and collective; add one of them")
        }
        _ => bail!("it has several of compute_us, copy and collective; keep one of them"),
    }
}

fn collective_call(
    collective: Collective,
    table: OperationTable,
    dimensions: &[Dimension],
) -> anyhow::Result<CollectiveCall> {
    refuse_pieces(&table)?;
    let Some(size) = &table.size else {
        bail!("it has no size; add one such as \"25M\"");
    };
    let size = bytes(size, "size")?;
    ensure!(
        size <= MOST_BYTES,
        "its size of {size} is larger than {MOST_BYTES}; make it smaller"
    );
    let spec = collective.spec();
    Ok(CollectiveCall {
        collective,
        size,
        dtype: table.dtype.unwrap_or(DType::Float),
        redop: default_if(spec.reduces, table.redop, RedOp::Sum)
            .with_context(|| format!("it has a redop, but {collective} reduces nothing"))?,
        root: default_if(spec.rooted, table.root, 0)
            .with_context(|| format!("it has a root, but {collective} has none"))?,
        group: group(table.group, dimensions)?,
        traffic: traffic(collective, table.spread, table.matrix.as_deref())?,
    })
}

/// Returns the bytes that the value of `key` stands for.
fn bytes(size: &SizeText, key: &str) -> anyhow::Result<Bytes> {
    match size {
        SizeText::Bytes(bytes) => Ok(Bytes(*bytes)),
        SizeText::Text(text) => text
            .parse()
            .map_err(|what| anyhow!("its {key} is '{}': {what}", excerpt(text))),
    }
}

/// Returns `given`, or the default if nothing is given; `None` if the collective has no such value.
///
/// # Errors
/// Returns an error if a value is given that the collective does not have.
fn default_if<T>(allowed: bool, given: Option<T>, default: T) -> anyhow::Result<Option<T>> {
    match (allowed, given) {
        (true, given) => Ok(Some(given.unwrap_or(default))),
        (false, None) => Ok(None),
        (false, Some(_)) => bail!("remove it"),
    }
}

fn computation(time: Micros, table: &OperationTable) -> anyhow::Result<Micros> {
    ensure!(
        (0.0..=MOST_TIME.0).contains(&time.0),
        "its compute_us of {} is not a time from 0 to {} µs; correct it",
        time.0,
        MOST_TIME.0
    );
    refuse_pieces(table)?;
    refuse_keys_of_collectives(table, "computes")?;
    Ok(time)
}

fn copies(size: &SizeText, table: &OperationTable) -> anyhow::Result<MemoryCopies> {
    refuse_keys_of_collectives(table, "copies")?;
    let copies = MemoryCopies {
        bytes: bytes(size, "copy")?,
        pieces: table.pieces.unwrap_or(ONE_PIECE),
    };
    copies.check()?;
    Ok(copies)
}

fn refuse_pieces(table: &OperationTable) -> anyhow::Result<()> {
    ensure!(
        table.pieces.is_none(),
        "it has pieces, which are for copies; remove them"
    );
    Ok(())
}

/// Refuses the keys of collectives for an operation that only `does` something else.
fn refuse_keys_of_collectives(table: &OperationTable, does: &str) -> anyhow::Result<()> {
    let OperationTable {
        size,
        dtype,
        redop,
        root,
        group,
        spread,
        matrix,
        ..
    } = table;
    let fields = [
        ("size", size.is_some()),
        ("type", dtype.is_some()),
        ("redop", redop.is_some()),
        ("root", root.is_some()),
        ("group", group.is_some()),
        ("spread", spread.is_some()),
        ("matrix", matrix.is_some()),
    ];
    if let Some((field, _)) = fields.iter().find(|(_, given)| *given) {
        bail!("it {does}, and {field} is for collectives; remove it");
    }
    Ok(())
}

fn group(group: Option<GroupText>, dimensions: &[Dimension]) -> anyhow::Result<BTreeSet<String>> {
    let names = match group {
        Some(GroupText::One(name)) => vec![name],
        Some(GroupText::Several(names)) => names,
        None => Vec::new(),
    };
    ensure!(
        !names.is_empty(),
        "it has no group; name the dimension in which its ranks differ"
    );
    for name in &names {
        ensure!(
            dimensions.iter().any(|dimension| dimension.name == *name),
            "its group has '{}', which is no dimension of the workload; name one of its dimensions",
            excerpt(name)
        );
    }
    Ok(names.into_iter().collect())
}

fn traffic(
    collective: Collective,
    spread: Option<f64>,
    matrix: Option<&str>,
) -> anyhow::Result<Option<&'static Traffic>> {
    if !collective.spec().uneven {
        ensure!(
            spread.is_none() && matrix.is_none(),
            "spread and matrix are for an alltoallv; remove them"
        );
        return Ok(None);
    }
    let traffic = match (spread, matrix) {
        (Some(_), Some(_)) => bail!("it has both spread and matrix; keep one of them"),
        (None, Some(text)) => {
            Traffic::matrix(text).map_err(|what| anyhow!("its matrix: {what}"))?
        }
        (None, None) => traffic::DEFAULT.clone(),
        (Some(spread), None) => {
            ensure!(
                (0.0..=1.0).contains(&spread),
                "its spread of {spread} is not a number from 0 to 1; correct it"
            );
            Traffic::Spread(spread)
        }
    };
    Ok(Some(traffic.keep()))
}
