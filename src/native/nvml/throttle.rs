//! What can limit the clocks of a GPU.

/// A bit of NVML's mask of what limits the clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThrottleReason {
    /// The bit.
    pub bit: u64,
    /// Its name.
    pub name: &'static str,
    /// Whether it makes the GPU slower than it could be. An idle GPU, or clocks that an
    /// administrator has set, are no fault.
    pub slows: bool,
}

/// All reasons, by NVML's `nvmlClocksThrottleReason…` (later `nvmlClocksEventReason…`): GpuIdle,
/// ApplicationsClocksSetting, SwPowerCap, HwSlowdown, SyncBoost, SwThermalSlowdown,
/// HwThermalSlowdown, HwPowerBrakeSlowdown, DisplayClockSetting.
pub const THROTTLE_REASONS: [ThrottleReason; 9] = [
    reason(0x1, "idle", false),
    reason(0x2, "application clocks", false),
    reason(0x4, "power cap", true),
    reason(0x8, "hardware slowdown", true),
    reason(0x10, "sync boost", true),
    reason(0x20, "thermal slowdown", true),
    reason(0x40, "hardware thermal slowdown", true),
    reason(0x80, "power brake", true),
    reason(0x100, "display clocks", false),
];

const fn reason(bit: u64, name: &'static str, slows: bool) -> ThrottleReason {
    ThrottleReason { bit, name, slows }
}

/// Returns the names of the bits that are set in `mask`.
pub fn throttle_names(mask: u64) -> Vec<&'static str> {
    names_of(mask, |_| true)
}

/// Returns the names of the bits in `mask` that make a GPU slower than it could be.
pub fn slowing_names(mask: u64) -> Vec<&'static str> {
    names_of(mask, |reason| reason.slows)
}

/// Returns whether any of `names`, joined by `+`, makes a GPU slower than it could be.
pub fn is_slowed(names: &str) -> bool {
    names.split('+').any(|name| {
        THROTTLE_REASONS
            .iter()
            .any(|reason| reason.slows && reason.name == name)
    })
}

fn names_of(mask: u64, is_meant: fn(&ThrottleReason) -> bool) -> Vec<&'static str> {
    let mut names = Vec::new();
    for reason in &THROTTLE_REASONS {
        if mask & reason.bit != 0 && is_meant(reason) {
            names.push(reason.name);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_gpu_is_not_slowed_down() {
        assert_eq!(throttle_names(0x5), ["idle", "power cap"]);
        assert_eq!(slowing_names(0x5), ["power cap"]);
        assert_eq!(slowing_names(0x103), [] as [&str; 0]);
        assert_eq!(throttle_names(0), [] as [&str; 0]);
    }
}
