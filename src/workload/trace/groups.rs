//! [`TraceGroups`]: the process groups of a trace, and the dimensions of a workload with these
//! groups.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::document::{ExecutionNode, TraceDocument, numbers, text, whole};
use crate::workload::group::{Dimension, DimensionSize, MOST_RANKS};

/// Evenly spaced ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RankStride {
    stride: u64,
    count: u64,
}

/// The process groups of a trace.
#[derive(Debug, Default)]
pub(super) struct TraceGroups {
    /// The ranks of the groups that the trace lists, by name.
    listed: BTreeMap<String, Vec<u64>>,
    /// The strides of the groups that collectives use.
    used: BTreeSet<Vec<RankStride>>,
    /// The number of ranks of the job: the largest that the trace shows so far.
    ranks: u64,
}

/// The fields of a call that describe its process group.
#[derive(Debug, Default)]
pub(super) struct GroupFields {
    pub(super) name: String,
    pub(super) size: Option<u64>,
    pub(super) ranks: Option<Vec<u64>>,
    pub(super) start: Option<u64>,
    pub(super) stride: Option<u64>,
}

/// The strides of a process group: ranks 0, 1, 8, 9 are two ranks with stride 1, twice with
/// stride 8.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TraceGroup(Vec<RankStride>);

/// The ranks of a job, divided into dimensions whose products are its process groups.
#[derive(Debug)]
pub(super) struct TraceWorld {
    pub(super) dimensions: Vec<Dimension>,
    pub(super) ranks: u64,
    /// The stride of each dimension: how far apart two ranks are that are neighbours in it.
    strides: Vec<u64>,
    /// The product of the sizes of all dimensions.
    divided: u64,
}

impl TraceGroup {
    /// Returns how many ranks it has.
    pub(super) fn size(&self) -> u64 {
        self.0.iter().map(|part| part.count).product()
    }
}

impl TraceGroups {
    pub(super) fn new(document: &TraceDocument) -> TraceGroups {
        let mut groups = TraceGroups::default();
        let job = &document.job;
        groups.ranks = job.get("world_size").and_then(whole).unwrap_or_default();
        groups.list(job.get("pg_config"));
        for node in document.nodes.iter().flatten() {
            groups.list_of(node);
        }
        groups
    }

    /// Notes the groups of a node that lists them, as JSON in a text.
    fn list_of(&mut self, node: &ExecutionNode) {
        let inputs = node.inputs.get("values").unwrap_or(&node.inputs);
        let Some(Value::String(text)) = inputs.get(0) else {
            return;
        };
        if node.name.contains("process_group:init") {
            let listed: Option<Value> = serde_json::from_str(text).ok();
            self.list(listed.as_ref());
        }
    }

    fn list(&mut self, listed: Option<&Value>) {
        for group in listed.and_then(Value::as_array).into_iter().flatten() {
            let name = text(group.get("pg_name").unwrap_or(&Value::Null));
            let ranks = group.get("ranks").and_then(numbers).unwrap_or_default();
            let size = group.get("group_size").and_then(whole).unwrap_or_default();
            // An empty list, or none, stands for all ranks.
            let ranks = if ranks.is_empty() && size <= MOST_RANKS {
                (0..size).collect()
            } else {
                ranks
            };
            let all = ranks.iter().max().map_or(0, |rank| rank.saturating_add(1));
            self.ranks = self.ranks.max(all);
            self.listed.insert(name, ranks);
        }
    }

    /// Returns the group of a collective, and notes that it is used; `None` if its ranks are
    /// unknown or not evenly spaced.
    pub(super) fn group(&mut self, fields: &GroupFields) -> Option<TraceGroup> {
        let strides = self.strides(fields)?;
        self.used.insert(strides.clone());
        Some(TraceGroup(strides))
    }

    fn strides(&mut self, fields: &GroupFields) -> Option<Vec<RankStride>> {
        let given = fields.ranks.as_ref().filter(|ranks| !ranks.is_empty());
        if let Some(ranks) = given.or_else(|| self.listed.get(&fields.name)) {
            let mut ranks = ranks.clone();
            ranks.sort_unstable();
            ranks.dedup();
            let last = *ranks.last()?;
            if last >= MOST_RANKS {
                return None;
            }
            self.ranks = self.ranks.max(last + 1);
            return strides(&ranks);
        }
        let count = fields.size.filter(|size| (1..=MOST_RANKS).contains(size))?;
        let stride = fields.stride.unwrap_or_default();
        let stride = match stride {
            // Without a stride, a group of all ranks is known all the same.
            0 if count >= self.ranks => 1,
            0 => return None,
            stride => stride,
        };
        let start = fields.start.unwrap_or_default();
        let last = stride.checked_mul(count - 1)?.checked_add(start)?;
        if last >= MOST_RANKS {
            return None;
        }
        self.ranks = self.ranks.max(last + 1);
        Some(Vec::from_iter(
            (count > 1).then_some(RankStride { stride, count }),
        ))
    }

    /// Returns the dimensions of which the used groups are products.
    pub(super) fn dimensions(&self) -> TraceWorld {
        // Each stride, and where its ranks end, is a border. A dimension goes from each border to
        // the next.
        let mut borders = BTreeSet::from([1, self.ranks.max(1)]);
        for RankStride { stride, count } in self.used.iter().flatten() {
            borders.extend([*stride, stride * count]);
        }
        let mut strides: Vec<u64> = Vec::new();
        let mut sizes: Vec<u64> = Vec::new();
        let mut reached = 1;
        for border in borders.into_iter().skip(1) {
            // A border that is no multiple of the one before belongs to a group that is no product
            // of dimensions.
            if border % reached == 0 {
                strides.push(reached);
                sizes.push(border / reached);
                reached = border;
            }
        }
        let last = sizes.len().saturating_sub(1);
        let mut dimensions = Vec::new();
        for (at, (size, stride)) in sizes.into_iter().zip(&strides).enumerate() {
            let size = if at == last {
                DimensionSize::Rest
            } else {
                DimensionSize::Ranks(size)
            };
            let name = format!("stride {stride}");
            dimensions.push(Dimension { name, size });
        }
        TraceWorld {
            dimensions,
            ranks: self.ranks,
            strides,
            divided: reached,
        }
    }
}

impl TraceWorld {
    /// Returns the names of the dimensions in which the ranks of a group differ; `None` if the
    /// group is no product of dimensions.
    pub(super) fn names(&self, group: &TraceGroup) -> Option<BTreeSet<String>> {
        let mut names = BTreeSet::new();
        for RankStride { stride, count } in &group.0 {
            let first = self.strides.iter().position(|known| known == stride)?;
            let end = stride * count;
            let behind = if end == self.divided {
                self.strides.len()
            } else {
                self.strides.iter().position(|known| *known == end)?
            };
            names.extend((first..behind).map(|at| self.dimensions[at].name.clone()));
        }
        Some(names)
    }
}

/// Returns the strides of sorted ranks: those of 0, 1, 8, 9 are 2 ranks with stride 1 and 2 with
/// stride 8. `None` if the ranks are not evenly spaced.
fn strides(ranks: &[u64]) -> Option<Vec<RankStride>> {
    let mut offsets: Vec<u64> = ranks.iter().map(|rank| rank - ranks[0]).collect();
    let mut found = Vec::new();
    while offsets.len() > 1 {
        let stride = offsets[1];
        let run = (0..).zip(&offsets);
        let run = run.take_while(|(at, offset)| **offset == at * stride);
        let count = run.count();
        if !offsets.len().is_multiple_of(count) {
            return None;
        }
        let repeats = offsets.chunks(count).all(|chunk| {
            let run = (0..).zip(chunk);
            run.into_iter()
                .all(|(at, offset): (u64, _)| *offset == chunk[0] + at * stride)
        });
        if !repeats {
            return None;
        }
        found.push(RankStride {
            stride,
            count: count as u64,
        });
        offsets = offsets.into_iter().step_by(count).collect();
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(ranks: &[u64]) -> GroupFields {
        GroupFields {
            ranks: Some(ranks.to_vec()),
            ..GroupFields::default()
        }
    }

    fn names(world: &TraceWorld, group: &TraceGroup) -> Vec<String> {
        let names = world.names(group).expect("a product");
        names.into_iter().collect()
    }

    #[test]
    fn groups_of_three_dimensions_are_found() {
        let mut groups = TraceGroups::default();
        let tensor = groups.group(&fields(&[2, 3])).expect("a group");
        let pipeline = groups.group(&fields(&[0, 2, 4, 6])).expect("a group");
        let both = groups.group(&fields(&[0, 1, 8, 9])).expect("a group");
        let all = groups.group(&fields(&(0..16).collect::<Vec<_>>()));
        let world = groups.dimensions();
        let sizes: Vec<DimensionSize> = world.dimensions.iter().map(|it| it.size).collect();
        let fixed = DimensionSize::Ranks;
        assert_eq!(sizes, [fixed(2), fixed(4), DimensionSize::Rest]);
        assert_eq!(names(&world, &tensor), ["stride 1"]);
        assert_eq!(names(&world, &pipeline), ["stride 2"]);
        assert_eq!(names(&world, &both), ["stride 1", "stride 8"]);
        assert_eq!(names(&world, &all.expect("a group")).len(), 3);
    }

    #[test]
    fn ranks_that_are_not_evenly_spaced_are_no_group() {
        let mut groups = TraceGroups::default();
        assert_eq!(groups.group(&fields(&[0, 1, 3])), None);
        assert_eq!(groups.group(&fields(&[0, 1, 2, 4, 5, 7])), None);
        assert_eq!(groups.group(&fields(&[u64::MAX])), None);
        // Three and two do not divide six ranks in one way.
        let three = groups.group(&fields(&[0, 1, 2])).expect("a group");
        let two = groups.group(&fields(&[0, 1])).expect("a group");
        groups.ranks = 6;
        let world = groups.dimensions();
        assert!(world.names(&three).is_none() || world.names(&two).is_none());
    }

    #[test]
    fn a_group_can_be_given_by_its_size_and_stride() {
        let mut groups = TraceGroups {
            ranks: 8,
            ..TraceGroups::default()
        };
        let by = |size, stride| GroupFields {
            size: Some(size),
            stride,
            ..GroupFields::default()
        };
        let four = groups.group(&by(4, Some(2))).expect("a group");
        let all = groups.group(&by(8, None)).expect("a group");
        assert_eq!(groups.group(&by(4, None)), None);
        let world = groups.dimensions();
        assert_eq!(names(&world, &four), ["stride 2"]);
        assert_eq!(names(&world, &all), ["stride 1", "stride 2"]);
    }
}
