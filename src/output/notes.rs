//! Notes on stderr: information that is not an error. `--quiet` leaves them out.

use std::sync::atomic::{AtomicBool, Ordering};

static ARE_LEFT_OUT: AtomicBool = AtomicBool::new(false);

/// Leaves out all notes from now on.
pub fn leave_out() {
    ARE_LEFT_OUT.store(true, Ordering::Relaxed);
}

/// Returns whether notes are shown.
pub fn are_shown() -> bool {
    !ARE_LEFT_OUT.load(Ordering::Relaxed)
}
