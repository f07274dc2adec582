//! [`PxnSettings`]: the variables that decide about relays, as NCCL reads them.

use crate::{
    env::Env,
    levels::{Preset, reading},
};

/// When send/recv uses relays: `NCCL_P2P_PXN_LEVEL` (`ncclTopoGetNetDev` in graph/search.cc).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendRecvRelays {
    /// Level 0: never.
    Never,
    /// Level 1: for NICs that the sender cannot reach through PCI switches.
    IfNeeded,
    /// Level 2: for every NIC that is beside another GPU.
    Always,
}

/// The settings that decide about relays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PxnSettings {
    /// Whether `NCCL_PXN_DISABLE` is 1.
    pub is_off: bool,
    /// When send/recv uses relays.
    pub send_recv: SendRecvRelays,
    /// `NCCL_CROSS_NIC`: 0 keeps traffic on one rail, 1 lets it cross rails, 2 lets NCCL choose.
    pub cross_nic: i64,
    /// Whether GPUs may access each other's memory.
    pub has_p2p: bool,
    /// Whether NICs may access the memory of GPUs.
    pub has_gpudirect: bool,
}

impl PxnSettings {
    /// Reads the settings from an environment, as NCCL does.
    pub fn read(env: Env) -> PxnSettings {
        let integer = |name: &str| env(name).and_then(|value| reading::integer(&value));
        let path = |name: &str| env(name).and_then(|value| reading::path(&value));
        let is_off = integer("NCCL_PXN_DISABLE") == Some(1);
        let send_recv = match integer("NCCL_P2P_PXN_LEVEL").unwrap_or(2) {
            _ if is_off => SendRecvRelays::Never,
            1 => SendRecvRelays::IfNeeded,
            2 => SendRecvRelays::Always,
            _ => SendRecvRelays::Never,
        };
        PxnSettings {
            is_off,
            send_recv,
            cross_nic: integer("NCCL_CROSS_NIC").unwrap_or(2),
            has_p2p: integer("NCCL_P2P_DISABLE") != Some(1)
                && path("NCCL_P2P_LEVEL") != Some("LOC"),
            has_gpudirect: path("NCCL_NET_GDR_LEVEL") != Some("LOC"),
        }
    }

    /// Returns the settings of a level in an empty environment.
    pub fn of_level(level: &Preset) -> PxnSettings {
        let set = level.apply(&|_| None, &[]);
        PxnSettings::read(&|name| {
            let setting = set.iter().find(|(other, _)| other == name);
            setting.map(|(_, value)| value.clone())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::levels;

    #[test]
    fn each_level_has_the_settings_that_nccl_reads() {
        let expected = [
            ("off", true, SendRecvRelays::Never),
            ("conservative", false, SendRecvRelays::Never),
            ("balanced", false, SendRecvRelays::IfNeeded),
            ("aggressive", false, SendRecvRelays::Always),
            ("default", false, SendRecvRelays::Always),
        ];
        assert_eq!(expected.len(), levels::all().len());
        for (name, is_off, send_recv) in expected {
            let level = levels::level(name).expect("a level");
            let settings = PxnSettings::of_level(level);
            assert_eq!((settings.is_off, settings.send_recv), (is_off, send_recv));
            assert!(settings.has_p2p && settings.has_gpudirect, "{name}");
            assert_eq!(settings.cross_nic, 2);
        }
    }

    #[test]
    fn values_are_read_as_nccl_reads_them() {
        let read = |name: &'static str, value: &'static str| {
            PxnSettings::read(&move |asked| (asked == name).then(|| value.to_owned()))
        };
        assert!(!read("NCCL_PXN_DISABLE", "true").is_off, "0 for strtoll");
        let level = |value| read("NCCL_P2P_PXN_LEVEL", value).send_recv;
        assert_eq!(level("3"), SendRecvRelays::Never);
        assert_eq!(level("0x1"), SendRecvRelays::IfNeeded);
        assert_eq!(level(""), SendRecvRelays::Always);
        assert!(!read("NCCL_P2P_DISABLE", "1").has_p2p);
        assert!(!read("NCCL_P2P_LEVEL", "LOC").has_p2p);
        assert!(!read("NCCL_NET_GDR_LEVEL", "0").has_gpudirect);
        assert!(read("NCCL_NET_GDR_LEVEL", "sys").has_gpudirect, "ignored");
    }
}
