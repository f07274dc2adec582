//! Which GPUs and NICs are near each other, by NCCL's rules.

use std::cmp::Ordering;

use super::{
    node::Topology,
    path::{Path, PathType},
};

/// The nearest devices of each device.
pub(super) struct Nearest<'a> {
    all: &'a Topology,
    /// For each GPU, the NICs that are nearest; they are equally near, and in the order of NCCL's
    /// list.
    nics: Vec<Vec<usize>>,
    /// For each NIC, the GPUs that are nearest; they are equally near, and in the order of NCCL's
    /// list.
    gpus: Vec<Vec<usize>>,
}

impl Nearest<'_> {
    pub(super) fn new(all: &Topology) -> Nearest<'_> {
        let usable = usable_nics(all);
        let mut nics = Vec::new();
        for gpu in 0..all.gpus.len() {
            let paths = usable.iter().map(|nic| (*nic, all.to_nic(gpu, *nic)));
            nics.push(nearest(paths.collect()));
        }
        let mut listed: Vec<usize> = (0..all.gpus.len()).collect();
        listed.sort_by_key(|gpu| all.gpus[*gpu].listed);
        let mut gpus = Vec::new();
        for nic in 0..all.nics.len() {
            let paths = listed.iter().map(|gpu| (*gpu, all.to_nic(*gpu, nic)));
            gpus.push(nearest(paths.collect()));
        }
        Nearest { all, nics, gpus }
    }

    /// Returns the NIC that a GPU uses on a channel. GPUs with the same nearest NICs start at
    /// different ones and take turns.
    fn nic_on(&self, gpu: usize, channel: usize) -> Option<usize> {
        let near = &self.nics[gpu];
        let sharing = self.gpus[*near.first()?].len().max(1);
        let start = spread(self.all.gpus[gpu].index as usize % sharing, near.len());
        let turn = channel % near.len().div_ceil(sharing);
        Some(near[(start + turn) % near.len()])
    }

    /// Returns the nearest NICs of a GPU, the one of its first channel first.
    pub(super) fn nics_of(&self, gpu: usize) -> Vec<usize> {
        let first = self.nic_on(gpu, 0);
        let mut near = self.nics[gpu].clone();
        near.sort_by_key(|nic| Some(*nic) != first);
        near
    }

    /// Returns whether a GPU uses the same NIC on every channel, in every version of NCCL: it does
    /// if the GPUs that share its nearest NICs can be divided evenly between them.
    fn is_same_on_all_channels(&self, gpu: usize) -> bool {
        let near = &self.nics[gpu];
        let sharing = near.first().map_or(0, |first| self.gpus[*first].len());
        !near.is_empty() && sharing.is_multiple_of(near.len())
    }

    /// Returns the GPU that relays to a NIC: the one that uses it on the earliest channel.
    pub(super) fn gpu_beside(&self, nic: usize) -> Option<usize> {
        for channel in 0..self.all.nics.len() {
            for gpu in &self.gpus[nic] {
                if self.nic_on(*gpu, channel) == Some(nic) {
                    return Some(*gpu);
                }
            }
        }
        None
    }
}

impl Topology {
    /// Returns for each GPU whether it uses one NIC only, as far as NCCL's choice between equally
    /// near ones goes.
    pub fn use_one_nic(&self) -> Vec<bool> {
        let nearest = Nearest::new(self);
        let gpus = 0..self.gpus.len();
        gpus.map(|gpu| nearest.is_same_on_all_channels(gpu))
            .collect()
    }
}

/// Returns the NICs of the network that NCCL uses, as it lists them: those with RDMA if one of them
/// works, else those with sockets.
pub(super) fn usable_nics(all: &Topology) -> Vec<usize> {
    let mut rdma = Vec::new();
    let mut sockets = Vec::new();
    for (at, nic) in all.nics.iter().enumerate() {
        if nic.up == Some(false) {
            continue;
        }
        if nic.sockets == Some(true) {
            sockets.push(at);
        } else {
            rdma.push(at);
        }
    }
    let mut usable = if rdma.is_empty() { sockets } else { rdma };
    usable.sort_by_key(|nic| all.nics[*nic].listed);
    usable
}

/// Returns the nearest devices, in the order given: NCCL chooses between equally near ones by the
/// order of its lists (graph/topo.cc, `ncclTopoGetLocal`).
fn nearest(paths: Vec<(usize, Path)>) -> Vec<usize> {
    let Some(best) = paths
        .iter()
        .map(|(_, path)| path)
        .min_by(|a, b| compare(a, b))
    else {
        return Vec::new();
    };
    let nearest = paths.iter().filter(|(_, path)| compare(path, best).is_eq());
    nearest.map(|(device, _)| *device).collect()
}

/// Orders paths, the nearest first. NCCL goes by bandwidth, then by type. The bandwidth between
/// sockets is unknown here and, on most machines, below that of a current NIC, so such a path comes
/// last.
fn compare(a: &Path, b: &Path) -> Ordering {
    let a_is_far = a.kind.is_none_or(|kind| kind == PathType::Sys);
    let b_is_far = b.kind.is_none_or(|kind| kind == PathType::Sys);
    a_is_far
        .cmp(&b_is_far)
        .then_with(|| b.peak.speed().total_cmp(&a.peak.speed()))
        .then_with(|| a.kind.cmp(&b.kind))
}

/// Returns where the GPU of this number starts among `count` NICs. If `count` is a power of two,
/// the bits of the number are reversed, so that neighbours start far apart.
fn spread(number: usize, count: usize) -> usize {
    if count > 1 && count.is_power_of_two() {
        (number % count).reverse_bits() >> (usize::BITS - count.ilog2())
    } else {
        number
    }
}
