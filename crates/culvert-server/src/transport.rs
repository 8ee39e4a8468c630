//! How the requests of a connection come, whichever way: one trait for all of them.

use crate::session::Session;
use std::{
    io,
    thread::{Scope, ScopedJoinHandle},
};

/// A thread that takes requests and answers them until the connection ends.
pub type Server<'scope> = ScopedJoinHandle<'scope, io::Result<()>>;

/// A way by which requests of a connection come. Whichever it is, a request is carried out by
/// [`crate::worker::Worker`].
///
/// INIT is answered by the channel that it came by before any transport starts.
pub trait Transport: Sync {
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
