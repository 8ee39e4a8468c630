//! What drivers save of open files for the next program ([`culvert::File::save`]).
//!
//! It lies in a memfd, which the variable names and which is hidden there as all of Culvert's
//! descriptors are. Each record says of which descriptor it is; who meets that descriptor first
//! gives the state to its driver ([`culvert::FileSystem::restore`]). Nothing is made where nothing
//! is saved.

use crate::description::{Description, Object};
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::AtomicI32;
use core::sync::atomic::Ordering::*;
use culvert_cache::shadow::write_all;
use culvert_mounts::MountId;
use culvert_run::files::{close_on_exec, dup_high};
use culvert_run::{ShadowName, stat_descriptor};
use culvert_sys::raw::general::MFD_CLOEXEC;
use culvert_sys::sync::Mutex;
use culvert_sys::{BorrowedFd, OwnedFd};

/// What one open file may save, bytes.
const MOST: usize = 4096;
/// What all of a program may.
const MOST_OF_ALL: usize = 4 << 20;
/// Bytes before the state: descriptor, its length, node, mount (with six bytes of nothing).
const HEAD: usize = 24;

/// The memfd that this program was given.
static GIVEN: Mutex<Option<&'static AtomicI32>> = Mutex::new(None);

/// One record.
struct Saved {
    fd: i32,
    name: ShadowName,
    state: Vec<u8>,
}

impl Saved {
    fn encode(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(&self.fd.to_ne_bytes());
        into.extend_from_slice(&(self.state.len() as u32).to_ne_bytes());
        into.extend_from_slice(&self.name.node.0.to_ne_bytes());
        into.extend_from_slice(&u64::from(self.name.mount.0).to_ne_bytes());
        into.extend_from_slice(&self.state);
    }

    /// The first record of `bytes`, and what is behind it; none where they are no record.
    fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (head, rest) = bytes.split_at_checked(HEAD)?;
        let word = |at: usize| {
            head.get(at..at + 4)?
                .try_into()
                .ok()
                .map(u32::from_ne_bytes)
        };
        let long = |at: usize| {
            head.get(at..at + 8)?
                .try_into()
                .ok()
                .map(u64::from_ne_bytes)
        };
        let (state, rest) = rest.split_at_checked(word(4)? as usize)?;
        let name = ShadowName {
            mount: MountId(u16::try_from(long(16)?).ok()?),
            node: culvert::Node(long(8)?),
        };
        let fd = word(0)? as i32;
        let state = state.to_vec();
        Some((Self { fd, name, state }, rest))
    }
}

/// A descriptor on what the driven files of this program that survive exec have saved; none where
/// nothing is. It survives exec, and is closed where that fails.
pub fn hand_down() -> Option<OwnedFd> {
    let inherited = super::table().inherited(|_| true);
    let mut all = Vec::new();
    for (fd, description) in &inherited {
        if let Some(state) = save(description) {
            let (fd, name) = (*fd, description.name());
            Saved { fd, name, state }.encode(&mut all);
        }
    }
    // What this program was given and has not looked at goes on.
    for saved in given() {
        let known = inherited.iter().any(|(fd, _)| *fd == saved.fd);
        if !known && !close_on_exec(saved.fd).unwrap_or(true) {
            saved.encode(&mut all);
        }
    }
    if all.is_empty() || all.len() > MOST_OF_ALL {
        return None;
    }
    let low = culvert_sys::fd::memfd_create(c"culvert-saved", MFD_CLOEXEC).ok()?;
    write_all(low.raw(), 0, &all).ok()?;
    Some(OwnedFd::from_raw(dup_high(low.raw(), false).ok()?))
}

/// What the driver of `description` saves of it, if that is anything.
fn save(description: &Description) -> Option<Vec<u8>> {
    let Object::File(file) = &description.object else {
        return None;
    };
    if description.is_direct() || file.descriptor().is_some() {
        return None;
    }
    match file.save() {
        Ok(state) if state.len() <= MOST => (!state.is_empty()).then_some(state),
        Ok(_) => None,
        Err(error) => {
            crate::description::report(description, "exec", &error);
            None
        }
    }
}

/// This program was given `fd`.
pub fn receive(fd: i32) {
    if super::set_close_on_exec(fd, true).is_ok() {
        *GIVEN.lock() = Some(culvert_run::get().receive_internal(fd));
    }
}

/// All records that this program was given.
fn given() -> Vec<Saved> {
    let Some(place) = *GIVEN.lock() else {
        return Vec::new();
    };
    let fd = place.load(Relaxed);
    let size = stat_descriptor(fd).map_or(0, |found| found.st_size as usize);
    let mut bytes = vec![0u8; size.min(MOST_OF_ALL)];
    let read = culvert_sys::fs::pread(BorrowedFd::number(fd), &mut bytes, 0);
    bytes.truncate(read.unwrap_or(0));
    let (mut records, mut rest) = (Vec::new(), &bytes[..]);
    while let Some((saved, behind)) = Saved::decode(rest) {
        records.push(saved);
        rest = behind;
    }
    records
}

/// What was saved of the open file that `fd` stands for; nothing of one that came in another way.
pub fn of(fd: i32, name: ShadowName) -> Vec<u8> {
    let mut records = given().into_iter();
    let found = records.find(|saved| saved.fd == fd && saved.name == name);
    found.map_or_else(Vec::new, |saved| saved.state)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_as_they_were_written() {
        let name = ShadowName {
            mount: MountId(7),
            node: culvert::Node(9),
        };
        let mut bytes = Vec::new();
        for (fd, state) in [(3, &b"one"[..]), (5, b"")] {
            let state = state.to_vec();
            Saved { fd, name, state }.encode(&mut bytes);
        }
        let (first, rest) = Saved::decode(&bytes).unwrap();
        assert!(first.fd == 3 && first.name == name && first.state == b"one");
        let (second, rest) = Saved::decode(rest).unwrap();
        assert!(second.fd == 5 && second.state.is_empty() && rest.is_empty());
        for cut in 0..bytes.len() - HEAD {
            assert!(Saved::decode(&bytes[..cut.min(HEAD + 2)]).is_none());
        }
    }
}
