//! Serves a driver as a kernel mount: what is not intercepted (static and set-user-ID programs,
//! other users, the kernel itself) reaches it through FUSE.
//!
//! [`serve()`] does all of it for a server that wants no more. [`mounting`] gives a connection to
//! the kernel, [`Session::negotiate`] agrees with it on what both sides do ([`capabilities`]),
//! [`Session::serve`] answers its requests with several threads until the mount is gone. What a
//! request means is in `dispatch`, one function for each; by what requests come is in `transport`.
//!
//! A driver's node numbers are the kernel's, except that the root's is exchanged with 1
//! (`FUSE_ROOT_ID`). Every entry that the driver gives is one reference, as is every entry that the
//! kernel gets, so that lookup counts are the driver's own: nothing is kept here for a node.
#![warn(missing_docs)]

mod attributes;
mod buffer;
mod cache_retention;
mod cache_timeout;
mod caller;
pub mod capabilities;
mod channel;
mod connection;
pub mod counters;
mod dispatch;
mod extension;
mod groups;
mod handles;
pub mod handover;
mod identity;
mod interrupts;
mod locks;
mod mapped_writers;
pub mod mounting;
mod notifications;
mod opened;
mod passthrough;
mod paths;
mod report;
mod retry;
mod serve;
mod session;
mod settings;
mod slots;
mod takeover;
mod touched;
mod transport;
mod worker;
mod zero_open;

/// The kernel's name of a flag of INIT, without `FUSE_`.
pub fn flag_name(flag: culvert_wire::InitFlags) -> &'static str {
    let all = culvert_wire::InitFlags::ALL;
    let found = all.iter().find(|(_, known)| *known == flag);
    found.map_or("?", |(name, _)| name)
}

pub use caller::{Served, caller};
pub use channel::{Channel, DeviceFuse, RequestChannel};
pub use connection::Ended;
pub use culvert_extend::{Map, Parts, Program, loader};
pub use interrupts::interrupted;
pub use serve::serve;
pub use session::Session;
pub use settings::Settings;
pub use slots::{Hears, Slots};
pub use transport::{WAYS, Way, used_capabilities};
