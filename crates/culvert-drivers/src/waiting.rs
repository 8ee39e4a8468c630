//! Waiting, for layers: as calls that others may fork beside ([`culvert_sys::waits`]).

use culvert::Errno;
use culvert_sys::process;

/// Longest sleep in one go: a signal that came just before it is noticed no later.
pub const SLICE: u64 = 20_000_000;

/// Waits `time` nanoseconds; `EINTR` as soon as a signal waits for this thread.
pub fn wait(time: u64, interrupted: &dyn Fn() -> bool) -> Result<(), Errno> {
    let mut left = time;
    while left > 0 {
        if interrupted() {
            return Err(Errno::EINTR);
        }
        let slice = left.min(SLICE);
        left -= process::waiting::nanosleep(slice);
    }
    Ok(())
}
