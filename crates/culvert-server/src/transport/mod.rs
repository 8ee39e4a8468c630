//! Transports: how the requests of a connection come. [`WAYS`] has them all, and whoever chooses
//! one, lists them or explains them reads that.

mod pool;
pub(crate) mod readers;
mod ring;

use crate::{
    capabilities::{self, Capability},
    channel::RequestChannel,
    session::Session,
    settings::Settings,
};
use culvert_wire::{InitFlags, Protocol};
use std::{
    io,
    thread::{Scope, ScopedJoinHandle},
};

/// A thread that takes requests and answers them until the connection ends.
pub(crate) type Server<'scope> = ScopedJoinHandle<'scope, io::Result<()>>;

/// A transport that serves a connection. Whichever it is, a request is carried out by
/// [`crate::worker::Worker`].
///
/// INIT is answered by the channel that it came by before any transport starts.
pub(crate) trait Transport: Sync {
    /// Starts the threads that serve `session`, and those that watch over them. The connection has
    /// ended when the threads that are given back have, the last of them with the reason.
    fn start<'scope>(
        &'scope self,
        session: &'scope Session,
        scope: &'scope Scope<'scope, '_>,
    ) -> Vec<Server<'scope>>;

    /// The connection has ended: whatever sleeps ends, too.
    fn end(&self);
}

type Make = fn(&Session, &dyn RequestChannel) -> io::Result<Box<dyn Transport>>;

/// A transport that there is.
#[derive(Debug)]
pub struct Way {
    /// Its word after `transport=`.
    pub word: &'static str,
    /// What it is.
    pub name: &'static str,
    /// What `culvert doctor` calls it.
    pub title: &'static str,
    /// What that says of it where it is available.
    pub found: &'static str,
    /// What follows where it is not; empty: nothing.
    pub missed: &'static str,
    /// Whether this process may be served so on this machine; if not, why.
    pub available: fn() -> Result<(), String>,
    /// What the kernel has to agree to.
    pub capability: Option<Capability>,
    /// Whether a session of these settings, whose INIT came by this channel, is to be served so; if
    /// not, why.
    pub(crate) fits: fn(&Settings, &dyn RequestChannel) -> Result<(), String>,
    /// Makes what serves so besides the channels that are read; none: these are all.
    pub(crate) make: Option<Make>,
}

/// Every capability that is used where the kernel offers it.
pub fn used_capabilities() -> impl Iterator<Item = &'static Capability> {
    let of_transports = WAYS.into_iter().filter_map(|way| way.capability.as_ref());
    capabilities::USED.iter().chain(of_transports)
}

/// All transports, from the slowest to the fastest: `transport=auto` is the last that can be had.
/// The first always can.
pub const WAYS: [&Way; 2] = [&readers::WAY, &ring::WAY];

impl Way {
    /// The one that `transport=` calls `word`.
    pub fn named(word: &[u8]) -> Option<&'static Self> {
        WAYS.into_iter().find(|way| way.word.as_bytes() == word)
    }

    /// The words after `transport=`, with `between` between them.
    pub fn words(between: &str) -> String {
        let words = WAYS.map(|way| way.word).join(between);
        format!("auto{between}{words}")
    }

    /// The one for a session of `settings`, whose INIT came by `channel`, and why no faster one.
    pub(crate) fn choose(
        settings: &Settings,
        channel: &dyn RequestChannel,
    ) -> Result<(&'static Self, String), String> {
        let mut why = String::new();
        let asked = |way: &&Self| {
            let without = way.capability.is_some_and(|one| settings.without(one.name));
            settings.transport.map_or(!without, |word| word == way.word)
        };
        for way in WAYS.into_iter().rev().filter(asked) {
            match (way.fits)(settings, channel) {
                Ok(()) => return Ok((way, why)),
                Err(reason) => why = reason,
            }
        }
        Err(format!(
            "transport={}: {why}",
            settings.transport.unwrap_or("auto")
        ))
    }

    /// The one that was agreed on by `protocol`.
    pub(crate) fn agreed(protocol: &Protocol) -> &'static Self {
        let agreed = |way: &&Self| way.capability.is_some() && protocol.flags.contains(way.flag());
        WAYS.into_iter().rev().find(agreed).unwrap_or(&readers::WAY)
    }

    /// The kernel's bit.
    pub(crate) fn flag(&self) -> InitFlags {
        self.capability.map_or(InitFlags::NONE, |one| one.flag)
    }
}

#[cfg(test)]
mod tests {
    use super::{capabilities::ON_REQUEST, used_capabilities};

    #[test]
    fn names_are_unique() {
        let all = || used_capabilities().chain(ON_REQUEST);
        let mut names: Vec<_> = all().map(|one| one.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all().count());
    }
}
