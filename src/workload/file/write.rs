//! [`Workload::to_toml`]: the file of a workload.

use super::table::{
    DimensionTable, GroupText, ONE_PIECE, OperationTable, RanksText, RestWord, WorkloadTable,
};
use crate::{
    collective::traffic::Traffic,
    workload::{
        group::{Dimension, DimensionSize},
        operation::{CollectiveCall, Operation, Work, Workload},
    },
};

impl Workload {
    /// Returns the file of the workload, from which [`Workload::parse`] reads the same.
    pub fn to_toml(&self) -> String {
        let mut operations = Vec::new();
        for operation in &self.operations {
            operations.push(self.operation_table(operation));
        }
        let table = WorkloadTable {
            name: self.name.clone(),
            about: self.about.clone(),
            dimensions: self.dimensions.iter().map(dimension_table).collect(),
            operations,
        };
        toml::to_string(&table).expect("a workload has texts and numbers only")
    }

    fn operation_table(&self, operation: &Operation) -> OperationTable {
        let name_of = |index: &usize| {
            let earlier = self.operations.get(*index)?;
            Some(earlier.name.clone())
        };
        let table = OperationTable {
            name: operation.name.clone(),
            stream: operation.stream.clone(),
            after: operation.after.iter().filter_map(name_of).collect(),
            ..OperationTable::default()
        };
        match &operation.work {
            Work::Compute(time) => OperationTable {
                compute_us: Some(*time),
                ..table
            },
            Work::Copies(copies) => OperationTable {
                copy: Some(copies.bytes.into()),
                pieces: (copies.pieces != ONE_PIECE).then_some(copies.pieces),
                ..table
            },
            Work::Collective(call) => with_collective(table, call),
        }
    }
}

fn with_collective(table: OperationTable, call: &CollectiveCall) -> OperationTable {
    let mut group: Vec<String> = call.group.iter().cloned().collect();
    let group = match group.len() {
        1 => GroupText::One(group.swap_remove(0)),
        _ => GroupText::Several(group),
    };
    let (spread, matrix) = match call.traffic {
        Some(Traffic::Spread(spread)) => (Some(*spread), None),
        Some(Traffic::Matrix(matrix)) => (None, Some(matrix.text())),
        None => (None, None),
    };
    OperationTable {
        collective: Some(call.collective),
        size: Some(call.size.into()),
        dtype: Some(call.dtype),
        redop: call.redop,
        root: call.root,
        group: Some(group),
        spread,
        matrix,
        ..table
    }
}

fn dimension_table(dimension: &Dimension) -> DimensionTable {
    let ranks = match dimension.size {
        DimensionSize::Ranks(ranks) => RanksText::Number(ranks),
        DimensionSize::Rest => RanksText::Word(RestWord::Rest),
    };
    DimensionTable {
        name: dimension.name.clone(),
        ranks,
    }
}
