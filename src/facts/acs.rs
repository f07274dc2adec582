//! Access Control Services of PCI bridges: where they redirect requests between peers up to the root, GPUDirect is slow or
//! fails. The setting stands in a part of the configuration space that only root may read.

use std::{fs, path::Path};

use crate::native::nvml::Reading;

/// The extended capability, and its control register's bits that redirect peers: source validation is harmless.
const CAPABILITY: u16 = 0x000d;
const REDIRECTS: u16 = 0b0001_1100;
/// Where extended capabilities begin; as much as a conventional bridge has. Who may not read on gets less.
const EXTENDED: usize = 0x100;

/// The bridges under `root` that redirect, by address.
pub(super) fn redirecting(root: &Path) -> Reading<Vec<String>> {
    let devices = root.join("sys/bus/pci/devices");
    let Ok(entries) = fs::read_dir(&devices) else {
        return Reading::none("there is no /sys/bus/pci/devices");
    };
    let (mut found, mut read) = (Vec::new(), 0);
    for entry in entries.flatten() {
        let class = fs::read_to_string(entry.path().join("class")).unwrap_or_default();
        if !class.starts_with("0x0604") {
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
        read += 1;
        if control(&config).is_some_and(|control| control & REDIRECTS != 0) {
            found.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    found.sort();
    if read == 0 {
        Reading::none("no PCI bridge with an extended configuration is visible")
    } else {
        Reading::of(found)
    }
}

/// The control register of the capability, where the device has it.
fn control(config: &[u8]) -> Option<u16> {
    let word = |at: usize| Some(u16::from_le_bytes([*config.get(at)?, *config.get(at + 1)?]));
    let mut at = EXTENDED;
    // Each capability takes at least 8 bytes: a list that goes on longer is a circle.
    for _ in 0..config.len() / 8 {
        let id = word(at)?;
        if id == CAPABILITY {
            return word(at + 6);
        }
        at = usize::from(word(at + 2)? >> 4);
        if at < EXTENDED {
            return None;
        }
    }
    None
}
