//! [`SlowDisk`]: a run that waits for its files longer than it should says so once.

use std::{path::Path, time::Duration};

use crate::world::deadline;

/// The part of a run that notices a slow disk.
#[derive(Default)]
pub(super) struct SlowDisk {
    was_said: bool,
}

impl SlowDisk {
    /// Returns what to say of files at `path` if writing them `took` more than half of what ends
    /// the run, once.
    pub(super) fn look(&mut self, path: &Path, took: Duration) -> Option<String> {
        let limit = deadline::current_limit()?;
        if took <= limit / 2 || std::mem::replace(&mut self.was_said, true) {
            return None;
        }
        Some(format!(
            "{} is on a slow disk: writing took {:.1} s, and a write of more than {:.1} s ends \
             the run. Write to a faster disk, or {}",
            path.display(),
            took.as_secs_f64(),
            limit.as_secs_f64(),
            deadline::remedy()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_took_more_than_half_of_the_limit_is_said_once() {
        let path = Path::new("run/x.csv");
        let mut disk = SlowDisk::default();
        let limit = Duration::from_secs(3600);
        assert_eq!(disk.look(path, limit), None, "nothing ends the run");
        let _guard = deadline::limit("a test", limit);
        assert_eq!(disk.look(path, limit / 2), None);
        assert_eq!(
            disk.look(path, limit * 3 / 4).as_deref(),
            Some(
                "run/x.csv is on a slow disk: writing took 2700.0 s, and a write of more than \
                 3600.0 s ends the run. Write to a faster disk, or raise --timeout"
            )
        );
        assert_eq!(disk.look(path, limit), None, "said already");
    }
}
