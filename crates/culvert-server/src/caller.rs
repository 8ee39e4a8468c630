//! On whose behalf the calling thread serves a request, for drivers that ask
//! ([`culvert_drivers::Environment::caller`]): operations on open files do not say.

use crate::interrupts::{self, Hand};
use culvert::Caller;
use culvert_wire::structures::InHeader;
use std::{cell::Cell, sync::Arc};

thread_local! {
    /// Process, user and group of the request.
    static NOW: Cell<(u32, u32, u32)> = const { Cell::new((0, 0, 0)) };
}

/// The thread serves a request with this `header` now.
pub(crate) fn set(header: &InHeader) {
    NOW.set((header.pid, header.uid, header.gid));
}

/// Whose request the calling thread serves, or has served last. FUSE tells no process of requests
/// that nobody waits for: 0.
pub fn caller() -> Caller<'static> {
    let (pid, uid, gid) = NOW.get();
    Caller {
        pid,
        uid,
        gid,
        ..Caller::SYSTEM
    }
}

/// The request that a thread serves, for threads that help with it.
#[derive(Clone, Debug)]
pub struct Served {
    caller: (u32, u32, u32),
    hand: Option<Arc<Hand>>,
}

impl Served {
    /// That of the calling thread.
    pub fn now() -> Self {
        Self {
            caller: NOW.get(),
            hand: interrupts::hand(),
        }
    }

    /// The calling thread, which is new and serves none of its own, helps with it from here on:
    /// [`caller`] and [`interrupted`](crate::interrupted) tell of it.
    pub fn help(&self) {
        NOW.set(self.caller);
        interrupts::lend(self.hand.clone());
    }
}
