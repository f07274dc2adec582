//! The configuration of a communicator, in the layout of each version.

use std::{
    ffi::{c_char, c_float, c_int, c_uint},
    mem, ptr,
};

use super::version::{NcclVersion, OLDEST};

/// `ncclConfig_t` of NCCL 2.30. NCCL only ever appends fields, so this one works with every
/// version: a library reads at most `size` bytes and no more than it knows, and uses its own
/// defaults for fields newer than `version`.
#[repr(C)]
pub(super) struct RawConfig {
    size: usize,
    magic: c_uint,
    version: c_uint,
    blocking: c_int,
    cga_cluster_size: c_int,
    min_ctas: c_int,
    max_ctas: c_int,
    net_name: *const c_char,
    split_share: c_int,
    traffic_class: c_int,
    comm_name: *const c_char,
    collnet_enable: c_int,
    cta_policy: c_int,
    shrink_share: c_int,
    nvls_ctas: c_int,
    n_channels_per_net_peer: c_int,
    nvlink_centric_sched: c_int,
    graph_usage_mode: c_int,
    num_rma_ctx: c_int,
    max_p2p_peers: c_int,
    graph_stream_ordering: c_int,
}

/// `NCCL_CONFIG_UNDEF_INT`: the library decides.
const UNDEFINED: c_int = c_int::MIN;

/// A layout of `ncclConfig_t`.
struct Layout {
    /// The first version of the library that has it.
    since: NcclVersion,
    /// Its size in bytes.
    size: usize,
    /// The version to declare.
    version: c_uint,
}

/// The layouts that matter here, the newest first. 2.28 brought `nvlinkCentricSched`, and 2.30
/// `maxP2pPeers`.
const LAYOUTS: [Layout; 4] = [
    Layout {
        since: NcclVersion(23000),
        size: mem::size_of::<RawConfig>(),
        version: 23000,
    },
    Layout {
        since: NcclVersion(22800),
        size: mem::offset_of!(RawConfig, graph_usage_mode),
        version: 22800,
    },
    Layout {
        since: NcclVersion(22700),
        size: mem::offset_of!(RawConfig, n_channels_per_net_peer),
        version: 22700,
    },
    Layout {
        since: OLDEST,
        size: mem::offset_of!(RawConfig, comm_name),
        version: 21800,
    },
];

impl RawConfig {
    /// Returns the configuration that nccl-tests uses with `version`, so that numbers are
    /// comparable.
    pub(super) fn new(version: NcclVersion, settings: CommConfig) -> RawConfig {
        let oldest = &LAYOUTS[LAYOUTS.len() - 1];
        let layout = LAYOUTS
            .iter()
            .find(|layout| version >= layout.since)
            .unwrap_or(oldest);
        RawConfig {
            size: layout.size,
            magic: 0xcafe_beef,
            version: layout.version,
            blocking: UNDEFINED,
            cga_cluster_size: UNDEFINED,
            min_ctas: UNDEFINED,
            max_ctas: UNDEFINED,
            net_name: ptr::null(),
            split_share: UNDEFINED,
            traffic_class: UNDEFINED,
            comm_name: ptr::null(),
            collnet_enable: UNDEFINED,
            cta_policy: settings.cta_policy.unwrap_or(UNDEFINED),
            shrink_share: UNDEFINED,
            nvls_ctas: UNDEFINED,
            n_channels_per_net_peer: UNDEFINED,
            nvlink_centric_sched: 1,
            graph_usage_mode: UNDEFINED,
            num_rma_ctx: UNDEFINED,
            max_p2p_peers: settings.max_p2p_peers.unwrap_or(UNDEFINED),
            graph_stream_ordering: UNDEFINED,
        }
    }
}

/// The configuration of a communicator where it differs from NCCL's defaults.
#[derive(Clone, Copy, Debug, Default)]
pub struct CommConfig {
    /// The most ranks that each rank exchanges messages with (2.30). nccl-tests sets 2 if it runs
    /// only sendrecv. A value that is too low makes other collectives slower.
    pub max_p2p_peers: Option<c_int>,
    /// `CTAPolicy` (2.27): 0 default, 1 efficient, 2 no CTA if possible.
    pub cta_policy: Option<c_int>,
}

/// `ncclSimInfo_t`, which has not changed since NCCL 2.22.
#[repr(C)]
pub(super) struct RawSimInfo {
    size: usize,
    magic: c_uint,
    version: c_uint,
    pub(super) estimated_time: c_float,
}

impl RawSimInfo {
    /// Returns what `NCCL_SIM_INFO_INITIALIZER` is.
    pub(super) fn new(version: NcclVersion) -> RawSimInfo {
        RawSimInfo {
            size: mem::size_of::<RawSimInfo>(),
            magic: 0x7468_5283,
            version: version.0.unsigned_abs(),
            // `NCCL_UNDEF_FLOAT`.
            estimated_time: -1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Offsets and sizes printed by a C program from the headers of 2.18.3, 2.27.7, 2.28.3, 2.30.7.
    #[test]
    fn the_configuration_has_the_layout_of_the_headers() {
        assert_eq!(mem::offset_of!(RawConfig, magic), 8);
        assert_eq!(mem::offset_of!(RawConfig, version), 12);
        assert_eq!(mem::offset_of!(RawConfig, blocking), 16);
        assert_eq!(mem::offset_of!(RawConfig, net_name), 32);
        assert_eq!(mem::offset_of!(RawConfig, split_share), 40);
        assert_eq!(mem::offset_of!(RawConfig, traffic_class), 44);
        assert_eq!(mem::offset_of!(RawConfig, comm_name), 48);
        assert_eq!(mem::offset_of!(RawConfig, cta_policy), 60);
        assert_eq!(mem::offset_of!(RawConfig, nvls_ctas), 68);
        assert_eq!(mem::offset_of!(RawConfig, n_channels_per_net_peer), 72);
        assert_eq!(mem::offset_of!(RawConfig, nvlink_centric_sched), 76);
        assert_eq!(mem::offset_of!(RawConfig, graph_usage_mode), 80);
        assert_eq!(mem::offset_of!(RawConfig, max_p2p_peers), 88);
        assert_eq!(mem::offset_of!(RawConfig, graph_stream_ordering), 92);
        for (library, size, version) in [
            (21803, 48, 21800),
            (22507, 48, 21800),
            (22707, 72, 22700),
            (22803, 80, 22800),
            (22907, 80, 22800),
            (23007, 96, 23000),
        ] {
            let config = RawConfig::new(NcclVersion(library), CommConfig::default());
            assert_eq!(
                (config.size, config.version, config.magic),
                (size, version, 0xcafe_beef),
                "{library}"
            );
        }
        assert_eq!(
            RawConfig::new(
                NcclVersion(23007),
                CommConfig {
                    max_p2p_peers: Some(2),
                    cta_policy: None
                }
            )
            .max_p2p_peers,
            2
        );
    }
}
