//! What the service asks of the kernel.

use super::Peer;
use crate::{
    bpf,
    loaded::{self, Loaded},
    module::{Device, Owner},
    object::Object,
};
use std::os::fd::BorrowedFd;

/// The kernel, or who plays it.
pub trait Kernel: Send + Sync {
    /// Whose connection `fuse` is one of.
    fn owner(&self, fuse: BorrowedFd<'_>) -> Result<Owner, String>;

    /// /proc/PID/mountinfo as a process sees it, and as this one does.
    fn mounts(&self, peer: Peer) -> Result<[String; 2], String>;

    /// The programs, and the bytes of maps, that have this name.
    fn used(&self, name: &str) -> Result<(usize, u64), String>;

    /// Loads and attaches under the name.
    fn load(
        &self,
        object: &Object<'_>,
        entries: &[u32],
        named: (BorrowedFd<'_>, &str),
    ) -> Result<Loaded, String>;
}

#[derive(Debug)]
pub struct Own;

fn device() -> Result<Device, String> {
    Device::open().map_err(|error| error.to_string())
}

impl Kernel for Own {
    fn owner(&self, fuse: BorrowedFd<'_>) -> Result<Owner, String> {
        device()?.owner(fuse)
    }

    fn mounts(&self, peer: Peer) -> Result<[String; 2], String> {
        let read = |path: String| match std::fs::read(&path) {
            Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Err(error) => Err(format!("{path}: {error}")),
        };
        Ok([
            read(format!("/proc/{}/mountinfo", peer.pid))?,
            read("/proc/self/mountinfo".into())?,
        ])
    }

    fn used(&self, name: &str) -> Result<(usize, u64), String> {
        bpf::used(name).map_err(|error| format!("what the kernel has cannot be counted: {error}"))
    }

    fn load(
        &self,
        object: &Object<'_>,
        entries: &[u32],
        named: (BorrowedFd<'_>, &str),
    ) -> Result<Loaded, String> {
        loaded::here(device()?, object, entries, named)
    }
}
