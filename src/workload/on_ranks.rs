//! [`Workload::on`]: makes a step of a workload.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, ensure};

use super::{
    group::RankGrid,
    limits::MOST_BYTES,
    operation::{CollectiveCall, Operation, Work, Workload},
    step::{Communicator, Step, StepOperation, StepWork},
};
use crate::{
    collective::{BufferMode, Case, CaseShape, Collective, traffic::Traffic},
    units::counted,
    visible::excerpt,
};

impl Workload {
    /// Returns the step on `ranks` ranks. A collective in a group of one rank is left out;
    /// operations that wait for it then wait for what it waited for.
    ///
    /// Whether a library can run each case is not checked: see [`Case::impossible`].
    ///
    /// # Errors
    /// Returns an error if the dimensions do not divide the ranks, or if an operation is not valid
    /// on that number of ranks.
    pub fn on(&self, ranks: u64) -> anyhow::Result<Step> {
        let grid = RankGrid::new(&self.dimensions, ranks)?;
        let mut builder = StepBuilder {
            grid,
            step: Step {
                streams: Vec::new(),
                communicators: Vec::new(),
                operations: Vec::new(),
            },
            places: Vec::new(),
        };
        for operation in &self.operations {
            builder
                .add(self, operation)
                .with_context(|| format!("operation '{}'", excerpt(&operation.name)))?;
        }
        Ok(builder.step)
    }

    /// Returns the names of the collectives that a step on `ranks` ranks leaves out, because their
    /// groups have one rank.
    ///
    /// # Errors
    /// Returns an error if the dimensions do not divide the ranks.
    pub fn left_out(&self, ranks: u64) -> anyhow::Result<Vec<&str>> {
        let grid = RankGrid::new(&self.dimensions, ranks)?;
        let left_out = self.operations.iter().filter(|operation| {
            matches!(&operation.work, Work::Collective(call) if grid.group_size(&call.group) == 1)
        });
        Ok(left_out.map(|operation| operation.name.as_str()).collect())
    }

    /// Returns a sentence about the collectives that a step on `ranks` ranks leaves out; `None` if
    /// it leaves out none.
    ///
    /// # Errors
    /// Returns an error if the dimensions do not divide the ranks.
    pub fn remark(&self, ranks: u64) -> anyhow::Result<Option<String>> {
        let left_out = self.left_out(ranks)?;
        let Some(first) = left_out.first() else {
            return Ok(None);
        };
        let number = counted(left_out.len() as u64, "collective");
        let remark = format!(
            "On {}, {number} of '{}' would be in groups of one rank and are left out, beginning \
             with '{}'.",
            counted(ranks, "rank"),
            excerpt(&self.name),
            excerpt(first)
        );
        Ok(Some(remark))
    }
}

/// A step to which the operations of a workload are added in order.
struct StepBuilder {
    grid: RankGrid,
    step: Step,
    /// The place in the step of each operation of the workload so far.
    places: Vec<StepPlace>,
}

/// The place of an operation of a workload in its step.
enum StepPlace {
    /// It has this index.
    At(usize),
    /// It is left out. Operations that wait for it wait for these operations of the step.
    LeftOut(BTreeSet<usize>),
}

impl StepBuilder {
    fn add(&mut self, workload: &Workload, operation: &Operation) -> anyhow::Result<()> {
        let after = self.after(workload, operation)?;
        let work = match &operation.work {
            Work::Compute(time) => {
                ensure!(
                    time.0.is_finite() && time.0 >= 0.0,
                    "its time is not a number of microseconds from 0 on; correct it"
                );
                StepWork::Compute(*time)
            }
            Work::Copies(copies) => {
                copies.check()?;
                StepWork::Copies(*copies)
            }
            Work::Collective(call) => {
                self.check(call)?;
                let size = self.grid.group_size(&call.group);
                if size == 1 {
                    self.leave_out(operation, after);
                    return Ok(());
                }
                let communicator = self.communicator(call, &operation.stream);
                let case = call.case(size)?;
                StepWork::Collective { communicator, case }
            }
        };
        let stream = self.stream(&operation.stream);
        let index = self.step.operations.len();
        self.step.operations.push(StepOperation {
            name: operation.name.clone(),
            stream,
            after: after.into_iter().collect(),
            work,
        });
        self.places.push(StepPlace::At(index));
        Ok(())
    }

    /// Returns the indices in the step of the operations for which an operation waits.
    fn after(&self, workload: &Workload, operation: &Operation) -> anyhow::Result<BTreeSet<usize>> {
        let mut after = BTreeSet::new();
        for index in &operation.after {
            match self.places.get(*index) {
                Some(StepPlace::At(index)) => {
                    after.insert(*index);
                }
                Some(StepPlace::LeftOut(passed_on)) => after.extend(passed_on),
                None => {
                    let later = workload.operations.get(*index);
                    let name = later.map_or("none", |operation| &operation.name);
                    anyhow::bail!(
                        "it waits for '{}', which does not come before it; put it behind what it \
                         waits for",
                        excerpt(name)
                    )
                }
            }
        }
        Ok(after)
    }

    /// Leaves an operation out of the step. It also waited for the operation before it in its
    /// stream.
    fn leave_out(&mut self, operation: &Operation, after: BTreeSet<usize>) {
        let operations = &self.step.operations;
        let stream = self
            .step
            .streams
            .iter()
            .position(|name| *name == operation.stream);
        let before = operations
            .iter()
            .rposition(|before| Some(before.stream) == stream);
        // The last operation of each stream is enough, which keeps these sets small however many
        // operations are left out.
        let mut last: BTreeMap<usize, usize> = BTreeMap::new();
        for index in after.into_iter().chain(before) {
            let of_stream = last.entry(operations[index].stream).or_default();
            *of_stream = index.max(*of_stream);
        }
        self.places
            .push(StepPlace::LeftOut(last.into_values().collect()));
    }

    fn check(&self, call: &CollectiveCall) -> anyhow::Result<()> {
        for name in &call.group {
            ensure!(
                self.grid.has(name),
                "its group has '{}', which is no dimension of the workload; name one of its \
                 dimensions",
                excerpt(name)
            );
        }
        ensure!(
            call.size <= MOST_BYTES,
            "its size of {} is larger than {MOST_BYTES}; make it smaller",
            call.size
        );
        Ok(())
    }

    /// Returns the index of the stream of this name, which is added if it is new.
    fn stream(&mut self, name: &str) -> usize {
        let known = self.step.streams.iter().position(|known| known == name);
        known.unwrap_or_else(|| {
            self.step.streams.push(name.to_owned());
            self.step.streams.len() - 1
        })
    }

    /// Returns the index of the communicator of a collective in a stream, which is added if it is
    /// new.
    fn communicator(&mut self, call: &CollectiveCall, stream: &str) -> usize {
        let stream = self.stream(stream);
        let name = self.grid.name(&call.group);
        let mut known = self.step.communicators.iter();
        let known = known.position(|known| known.stream == stream && known.name == name);
        known.unwrap_or_else(|| {
            let group = self.grid.group(&call.group);
            self.step.communicators.push(Communicator {
                name,
                stream,
                group,
            });
            self.step.communicators.len() - 1
        })
    }
}

impl CollectiveCall {
    /// Returns the case of this collective among `ranks` ranks, in place where PyTorch calls it so.
    fn case(&self, ranks: u64) -> anyhow::Result<Case> {
        let spec = self.collective.spec();
        ensure!(
            self.root.is_none_or(|root| u64::from(root) < ranks),
            "its root is {}, but its group has {}; name a smaller one",
            self.root.unwrap_or_default(),
            counted(ranks, "rank")
        );
        ensure!(
            !spec.powers_of_two || ranks.is_power_of_two(),
            "its group has {}, and a {} needs a power of 2; start another number of ranks",
            counted(ranks, "rank"),
            self.collective
        );
        let shape = CaseShape {
            collective: self.collective,
            dtype: self.dtype,
            redop: self.redop,
            root: self.root,
            buffer_mode: buffer_mode(self.collective),
            ranks,
        };
        let case = shape.nearest(self.size);
        let Some(traffic) = self.traffic else {
            return Ok(case);
        };
        if let Traffic::Matrix(matrix) = traffic {
            ensure!(
                ranks <= matrix.side(),
                "its matrix has {}, but its group has {}; give it a row for each",
                counted(matrix.side(), "row"),
                counted(ranks, "rank")
            );
        }
        Ok(case.with_size(self.size, traffic))
    }
}

/// Returns how PyTorch calls a collective: on one tensor, or from one into another.
fn buffer_mode(collective: Collective) -> BufferMode {
    match collective {
        Collective::AllReduce | Collective::Broadcast | Collective::Reduce => BufferMode::InPlace,
        _ => BufferMode::OutOfPlace,
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            group::{Dimension, DimensionSize},
            volume::CollectiveVolume,
        },
        *,
    };
    use crate::{
        collective::data::{DType, RedOp},
        units::{Bytes, Micros},
    };

    fn dimension(name: &str, size: DimensionSize) -> Dimension {
        Dimension {
            name: name.to_owned(),
            size,
        }
    }

    fn compute(name: &str, time: f64, after: &[usize]) -> Operation {
        Operation {
            name: name.to_owned(),
            stream: "compute".to_owned(),
            after: after.to_vec(),
            work: Work::Compute(Micros(time)),
        }
    }

    fn collective(
        name: &str,
        collective: Collective,
        (stream, group): (&str, &str),
        after: &[usize],
    ) -> Operation {
        let spec = collective.spec();
        Operation {
            name: name.to_owned(),
            stream: stream.to_owned(),
            after: after.to_vec(),
            work: Work::Collective(CollectiveCall {
                collective,
                size: Bytes(4096),
                dtype: DType::Float,
                redop: spec.reduces.then_some(RedOp::Sum),
                root: spec.rooted.then_some(0),
                group: group.split('+').map(String::from).collect(),
                traffic: None,
            }),
        }
    }

    fn workload(operations: Vec<Operation>) -> Workload {
        Workload {
            name: "test".to_owned(),
            about: String::new(),
            dimensions: vec![
                dimension("tensor", DimensionSize::Ranks(2)),
                dimension("data", DimensionSize::Rest),
            ],
            operations,
        }
    }

    #[test]
    fn a_stream_and_group_have_one_communicator_in_order_of_use() {
        let all = Collective::AllReduce;
        let step = workload(vec![
            compute("a", 10.0, &[]),
            collective("b", all, ("nccl", "data"), &[0]),
            collective("c", all, ("nccl", "tensor"), &[0]),
            collective("d", all, ("other", "data"), &[0]),
            collective("e", Collective::AllGather, ("nccl", "data"), &[1]),
            compute("f", 2.5, &[2, 4]),
        ])
        .on(4)
        .expect("a step");
        assert_eq!(step.streams, ["compute", "nccl", "other"]);
        let communicators: Vec<(&str, usize)> = step
            .communicators
            .iter()
            .map(|communicator| (communicator.name.as_str(), communicator.stream))
            .collect();
        assert_eq!(communicators, [("data", 1), ("tensor", 1), ("data", 2)]);
        assert_eq!(step.communicators[0].group.colors, [0, 1, 0, 1]);
        let modes: Vec<(usize, BufferMode, u64)> = step
            .operations
            .iter()
            .filter_map(|operation| match &operation.work {
                StepWork::Collective { communicator, case } => {
                    Some((*communicator, case.buffer_mode, case.ranks))
                }
                StepWork::Compute(_) | StepWork::Copies(_) => None,
            })
            .collect();
        let (within, beside) = (BufferMode::InPlace, BufferMode::OutOfPlace);
        let expected = [
            (0, within, 2),
            (1, within, 2),
            (2, within, 2),
            (0, beside, 2),
        ];
        assert_eq!(modes, expected);
        let volume = step.volume();
        assert_eq!(volume.computation, Micros(12.5));
        let reduced = CollectiveVolume {
            calls: 3,
            bytes: Bytes(3 * 4096),
        };
        assert_eq!(volume.collectives[&all], reduced);
        assert_eq!(
            volume.collectives[&Collective::AllGather].bytes,
            Bytes(4096)
        );
    }

    /// On two ranks, `data` has one: its collectives c and d are left out, and e, which waited for
    /// d, waits for what both waited for.
    #[test]
    fn operations_wait_for_what_a_left_out_collective_waited_for() {
        let all = Collective::AllReduce;
        let workload = workload(vec![
            compute("a", 1.0, &[]),
            collective("b", all, ("nccl", "tensor"), &[]),
            collective("c", all, ("nccl", "data"), &[0]),
            collective("d", all, ("alone", "data"), &[2]),
            compute("e", 1.0, &[3]),
            collective("f", all, ("nccl", "tensor"), &[2]),
        ]);
        let step = workload.on(2).expect("a step");
        let names: Vec<&str> = step.operations.iter().map(|op| op.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "e", "f"]);
        assert_eq!(step.streams, ["compute", "nccl"]);
        assert_eq!(
            step.operations[2].after,
            [0, 1],
            "through c and d, and b ran before c"
        );
        assert_eq!(step.operations[3].after, [0, 1]);
        assert_eq!(workload.left_out(2).expect("names"), ["c", "d"]);
        assert_eq!(
            workload.remark(2).expect("a remark").as_deref(),
            Some(
                "On 2 ranks, 2 collectives of 'test' would be in groups of one rank and are left \
                 out, beginning with 'c'."
            )
        );
        assert_eq!(workload.remark(4).expect("none"), None);
    }

    #[test]
    fn errors_name_the_operation() {
        let refused = |operation: Operation| {
            let error = workload(vec![operation]).on(6).expect_err("refused");
            format!("{error:#}")
        };
        let broadcast = |group, root| {
            let mut operation = collective("b", Collective::Broadcast, ("nccl", group), &[]);
            if let Work::Collective(call) = &mut operation.work {
                call.root = Some(root);
            }
            operation
        };
        assert_eq!(
            refused(broadcast("data", 3)),
            "operation 'b': its root is 3, but its group has 3 ranks; name a smaller one"
        );
        assert_eq!(
            refused(broadcast("expert", 0)),
            "operation 'b': its group has 'expert', which is no dimension of the workload; name \
             one of its dimensions"
        );
        assert_eq!(
            refused(collective(
                "h",
                Collective::HyperCube,
                ("nccl", "data"),
                &[]
            )),
            "operation 'h': its group has 3 ranks, and a hypercube needs a power of 2; start \
             another number of ranks"
        );
        assert!(refused(compute("a", f64::NAN, &[])).contains("its time is not"));
        assert!(
            refused(compute("a", 1.0, &[0]))
                .contains("it waits for 'a', which does not come before it")
        );
    }
}
