//! Access Control Services of PCI bridges: if they redirect requests between peers to the root,
//! GPUDirect is slow or fails. The setting is in a part of the configuration space that only root
//! may read.

use std::{fs, path::Path};

use crate::native::nvml::Reading;

/// The id of the extended capability, and the bits of its control register that redirect peer
/// traffic: source validation does no harm.
const CAPABILITY: u16 = 0x000d;
const REDIRECTS: u16 = 0b0001_1100;

/// Offset of the extended capabilities: all that a conventional bridge has ends here. A reader who
/// is not root gets less.
const EXTENDED: usize = 0x100;

/// The class of a PCI bridge.
const BRIDGE_CLASS: &str = "0x0604";

/// Returns the addresses of the bridges under `root` that redirect peer traffic.
pub(super) fn redirecting_bridges(root: &Path) -> Reading<Vec<String>> {
    let devices = root.join("sys/bus/pci/devices");
    let Ok(entries) = fs::read_dir(&devices) else {
        return Reading::none("there is no /sys/bus/pci/devices");
    };
    let mut redirecting = Vec::new();
    let mut is_any_known = false;
    for entry in entries.flatten() {
        let class = fs::read_to_string(entry.path().join("class")).unwrap_or_default();
        if !class.starts_with(BRIDGE_CLASS) {
            continue;
        }
        let Ok(config) = fs::read(entry.path().join("config")) else {
            continue;
        };
        if config.len() < EXTENDED {
            return Reading::none("only root may read the PCI bridges' extended configuration");
        }
        if config.len() == EXTENDED {
            continue;
        }
        is_any_known = true;
        if control_register(&config).is_some_and(|control| control & REDIRECTS != 0) {
            redirecting.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    if !is_any_known {
        return Reading::none("no PCI bridge with an extended configuration is visible");
    }
    redirecting.sort();
    Reading::of(redirecting)
}

/// Returns the control register of the capability, if the device has it.
fn control_register(config: &[u8]) -> Option<u16> {
    let mut offset = EXTENDED;
    // Each capability takes at least 8 bytes, so a longer list is circular.
    for _ in 0..config.len() / 8 {
        let id = word(config, offset)?;
        if id == CAPABILITY {
            return word(config, offset + 6);
        }
        offset = usize::from(word(config, offset + 2)? >> 4);
        if offset < EXTENDED {
            return None;
        }
    }
    None
}

fn word(config: &[u8], offset: usize) -> Option<u16> {
    let bytes = [*config.get(offset)?, *config.get(offset + 1)?];
    Some(u16::from_le_bytes(bytes))
}
