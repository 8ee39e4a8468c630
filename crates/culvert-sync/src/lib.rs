//! The synchronisation service: it says where each of many writers of a file appends. The writers
//! put their bytes there by themselves; no data pass through here.
//!
//! ```text
//! listener --client--> FIFO queue --client--> workers --> table of files --> answer
//!    |                                           |
//!    +---- table of clients: admits, evicts -----+
//! ```
//!
//! A file that the service *holds* is locked for it on the back end, so that there is one service
//! for it at a time, and nobody appends or cuts without one meanwhile ([`mod@files`]). It lets go
//! of a file after [`files::LONGEST`], or when nobody has asked for [`files::IDLE`]. When it dies
//! the kernel lets go, and writers go on by the locks alone: a service makes them faster, and is
//! never what a file's content depends on. Writers of its host share its memory, and take positions
//! there by themselves ([`mod@memory`]).
#![warn(missing_docs)]

mod clients;
pub mod files;
pub mod lease;
mod locks;
pub mod memory;
mod queue;
mod relay;
mod remote;
mod service;
mod socket;
mod tls;
mod workers;

pub use relay::relay;
pub use remote::Secret;
pub use service::{Service, Settings, Stopper};
pub use socket::{Kind, Listener, Reserved};
pub use tls::Identity;
