//! The child of a fork: registrations are not inherited, so all ranges get new ones before the
//! program goes on.

use super::pager::{Part, STATE, State, launch};
use super::{filling, nodes, state};
use crate::shadow::OwnedFd;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::*;
use culvert::Errno;
use culvert_intercept::descriptors as classes;
use culvert_run::{self as run, ShadowName, stat_descriptor, stat_path};
use culvert_sys::{nr, sync::MutexGuard, syscall};

/// This is the child of a fork, its only thread; `shares_table`: its descriptors are its parent's
/// too. Registrations are not inherited: all ranges get new ones before the program goes on.
pub fn forked(shares_table: bool) {
    let mut state = state_by_force();
    let inherited = [
        state.socket.take(),
        state.userfault.take().map(|(place, _)| place),
    ];
    for place in inherited.into_iter().flatten() {
        let fd = place.swap(-1, AcqRel);
        if !shares_table && fd >= 0 {
            classes::set(fd, classes::UNKNOWN);
            drop(OwnedFd::from_raw(fd));
        }
    }
    state.forked = true;
    state.unheard.clear();
    let mut ranges = core::mem::take(&mut state.ranges);
    // Of one that is filled nothing goes any more; that it may only be read is still to be known.
    ranges.retain(|range| range.read_only || may_lack(range.name));
    let userfault = match ranges.is_empty() {
        true => None,
        false => state.userfault().filter(|(_, full)| *full),
    };
    let mut refused = Vec::new();
    for range in ranges {
        let registered = userfault.ok_or(Errno::EPERM);
        match registered.and_then(|(fd, _)| range.register(fd)) {
            Ok(()) => state.ranges.push(range),
            Err(error) => refused.push((range, error)),
        }
    }
    // All that are registered are told in the greeting, which is answered while this process does
    // what else a new one has to.
    if !state.ranges.is_empty() {
        let _ = launch::connect().and_then(|socket| state.greet(socket));
    }
    // To fill may need room, for which the pager is asked.
    drop(state);
    for (range, error) in &refused {
        fill_now(range, *error);
    }
}

/// [`STATE`], of which this is the only thread. Another one of the parent's may have had it: a fork
/// waits ten seconds for who is in a hook (`culvert_intercept`), and the pager's answer may take
/// longer. Between its messages the state is whole.
fn state_by_force() -> MutexGuard<'static, State> {
    if let Some(state) = STATE.try_lock() {
        return state;
    }
    // SAFETY: whoever had it is in another process.
    unsafe { culvert_sys::sync::release_of_another(&STATE) };
    STATE.lock()
}

/// The end of what [`forked`] began: the pager knows all ranges, or they are filled.
pub fn settle() {
    let mut state = STATE.lock();
    state.forked = false;
    if state.ranges.is_empty() {
        return;
    }
    if state.hear().is_err() {
        state.disconnect();
    }
    if let Err(error) = state.connect() {
        let ranges = core::mem::take(&mut state.ranges);
        let userfault = state.userfault().map(|(fd, _)| fd);
        drop(state);
        for range in &ranges {
            if let Some(fd) = userfault {
                range.unregister(fd);
            }
        }
        ranges.iter().for_each(|range| fill_now(range, error));
    }
}

/// Whether the shadow of `name`, of which something is mapped, may have holes that mean missing
/// pages.
fn may_lack(name: ShadowName) -> bool {
    let found = match nodes::open(name) {
        Some((_node, fd)) => stat_descriptor(fd),
        None => stat_path(&run::get().shadow(name)),
    };
    !found.is_ok_and(|found| !state::State::of(&found).is_partly())
}

/// A range that cannot be registered here: its file is filled. A child that cannot even do that
/// must not see zeroes: the range is unmapped.
fn fill_now(range: &Part, cause: Errno) {
    if let Err(error) = filling::all(range.name) {
        culvert_sys::log!(
            "{}, which is mapped, can neither be filled on demand ({cause}) nor now: {error}",
            range.name
        );
        // SAFETY: a mapping of this process whose content is missing.
        let _ = unsafe { syscall::call(nr::MUNMAP, [range.start, range.length]) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_thread_of_the_parents_had_is_taken() {
        core::mem::forget(STATE.lock());
        assert!(state_by_force().ranges.is_empty());
        assert!(!STATE.is_locked());
    }
}
