//! [`CaseKey`]: which case a time is of, and [`Cases`], all of them by number.

use std::{collections::HashMap, rc::Rc};

use crate::{
    collective::{
        BufferMode, Collective,
        data::{DType, RedOp},
    },
    record::read::RowView,
    replay::ReplayQuantity,
};

/// A case: a row of the table. The order is that of the rows, in which the sizes of a series follow
/// each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct CaseKey {
    /// The workload of a training step; empty for a collective of a sweep.
    pub(super) workload: Rc<str>,
    /// The collective's name, or what of a training step is timed, to which the parts below do not
    /// apply.
    pub(super) collective: &'static str,
    /// The element type.
    pub(super) dtype: &'static str,
    /// The reduction; `none` if elements are only moved.
    pub(super) redop: &'static str,
    /// The root; -1 if there is none.
    pub(super) root: i64,
    /// The traffic of an alltoallv; empty for other collectives.
    pub(super) pattern: Rc<str>,
    /// Whether send and receive use one buffer.
    pub(super) is_in_place: bool,
    /// The size.
    pub(super) size: u64,
}

/// All cases, each with a number. Times refer to them by it.
#[derive(Default)]
pub(super) struct Cases {
    keys: Vec<CaseKey>,
    numbers: HashMap<CellsOfCase, u32>,
    patterns: HashMap<Rc<str>, u32>,
    steps: HashMap<(Rc<str>, ReplayQuantity), u32>,
}

/// The cells of a row that say which case it is, with the number of its pattern.
#[derive(PartialEq, Eq, Hash)]
struct CellsOfCase {
    collective: Collective,
    dtype: DType,
    redop: Option<RedOp>,
    root: Option<u32>,
    pattern: u32,
    is_in_place: bool,
    size: u64,
}

impl Cases {
    /// Returns the number of the case of a row.
    pub(super) fn number(&mut self, row: &RowView) -> u32 {
        let cells = CellsOfCase {
            collective: row.collective,
            dtype: row.dtype,
            redop: row.redop,
            root: row.root,
            pattern: self.pattern_number(row.pattern),
            is_in_place: row.buffer_mode == BufferMode::InPlace,
            size: row.size.0,
        };
        let next = self.keys.len() as u32;
        let number = *self.numbers.entry(cells).or_insert(next);
        if number == next {
            self.keys.push(key(row));
        }
        number
    }

    /// Returns the number of what is timed of the training step of `workload`.
    pub(super) fn number_of_step(&mut self, workload: &str, quantity: ReplayQuantity) -> u32 {
        let workload: Rc<str> = workload.into();
        let next = self.keys.len() as u32;
        let known = self.steps.entry((workload.clone(), quantity));
        let number = *known.or_insert(next);
        if number == next {
            self.keys.push(key_of_step(workload, quantity));
        }
        number
    }

    /// Returns the case with this number.
    pub(super) fn key(&self, number: u32) -> &CaseKey {
        &self.keys[number as usize]
    }

    /// Returns 0 for no pattern, otherwise the number of the pattern.
    fn pattern_number(&mut self, pattern: &str) -> u32 {
        if pattern.is_empty() {
            return 0;
        }
        if let Some(number) = self.patterns.get(pattern) {
            return *number;
        }
        let number = self.patterns.len() as u32 + 1;
        self.patterns.insert(pattern.into(), number);
        number
    }
}

fn key(row: &RowView) -> CaseKey {
    CaseKey {
        workload: "".into(),
        collective: row.collective.name(),
        dtype: row.dtype.name(),
        redop: row.redop.map_or("none", |redop| redop.name()),
        root: row.root.map_or(-1, i64::from),
        pattern: row.pattern.into(),
        size: row.size.0,
        is_in_place: row.buffer_mode == BufferMode::InPlace,
    }
}

fn key_of_step(workload: Rc<str>, quantity: ReplayQuantity) -> CaseKey {
    CaseKey {
        workload,
        collective: quantity.name(),
        dtype: "",
        redop: "none",
        root: -1,
        pattern: "".into(),
        size: 0,
        is_in_place: false,
    }
}

impl CaseKey {
    /// Returns whether it is a time of a training step, and not of a collective of a sweep.
    pub(super) fn is_of_step(&self) -> bool {
        !self.workload.is_empty()
    }
}
