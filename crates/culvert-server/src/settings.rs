//! What the user chooses of a kernel mount; `culvert mount` fills it in.

use crate::{counters::Counters, handover::Handover};
use culvert_extend::{Parts, Program};
use std::{sync::Arc, thread, time::Duration};

/// What the user may choose.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Capabilities, by their names, that are not to be used.
    pub without: Vec<String>,
    /// Capabilities that are to be used only where they are asked for.
    pub with: Vec<String>,
    /// The mount is read-only, whatever the driver could.
    pub read_only: bool,
    /// How long names and attributes may be believed after others than this mount have changed
    /// them; none: as the driver says.
    pub valid: Option<Duration>,
    /// The same for names that do not exist.
    pub absent: Option<Duration>,
    /// Threads; 0: one for each processor, at least 4.
    pub threads: usize,
    /// Every request is printed to standard error.
    pub trace: bool,
    /// What outlives this server, should it be killed, and what an earlier one has left. Its
    /// channels, where it has some, are the session's.
    pub handover: &'static Handover,
    /// Where it is counted what is done.
    pub counters: Option<&'static Counters>,
    /// The word of the transport (`WAYS`) that requests come by; none: the fastest that can be
    /// had.
    pub transport: Option<&'static str>,
    /// What is answered, and logged, inside the kernel, where it has the module culvert-fuse-ext.
    pub extend: Parts,
    /// A program of the driver's author that is asked instead.
    pub program: Option<Arc<Program>>,
    /// Seconds after which the kernel ends the connection for a request that was not answered.
    pub request_timeout: Option<u16>,
}

impl Settings {
    /// How many threads a session has.
    pub fn threads(&self) -> usize {
        match self.threads {
            0 => thread::available_parallelism().map_or(4, |count| count.get().clamp(4, 16)),
            threads => threads,
        }
    }

    /// Whether `capability` is not to be used.
    pub fn without(&self, capability: &str) -> bool {
        self.without.iter().any(|name| name == capability)
    }
}
