//! The time of day as records hold it.

use chrono::{DateTime, FixedOffset, SubsecRound};

/// Returns the current time to the second, with the offset of local time.
pub fn now() -> DateTime<FixedOffset> {
    chrono::Local::now().fixed_offset().trunc_subsecs(0)
}
