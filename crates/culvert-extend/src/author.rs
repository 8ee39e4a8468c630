//! A program of a file system's author, and its maps.

use crate::{
    bpf, loaded, loader,
    module::{Attached, Device},
    object::Object,
};
use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    sync::Arc,
};

/// A program that the kernel has taken, with its maps.
#[derive(Debug)]
pub struct Program {
    maps: Maps,
    program: OwnedFd,
}

/// A map, which its program in the kernel and this process read and change. Nobody else can open
/// it, and it goes with both.
#[derive(Debug)]
pub struct Map {
    pub(crate) map: OwnedFd,
    pub(crate) kind: bpf::MapKind,
}

/// The maps of a program, by their names.
pub type Maps = Vec<(String, Arc<Map>)>;

/// Loads an object and has the kernel ask it for the connection that `fuse` is one of; who has no
/// privilege has the loader service do both. `sizes` as of [`Program::load`].
///
/// # Errors
/// With what keeps it from that, for people.
pub fn attach(
    object: &[u8],
    sizes: &[(&str, u32)],
    fuse: BorrowedFd<'_>,
) -> Result<(Attached, Maps), String> {
    let read = Object::read(object).ok_or(NONE)?;
    let entries = read.entries(sizes)?;
    let loaded = loader::load(object, &entries, fuse)?;
    let made = loaded::kinds(&read, &entries)?.into_iter().zip(loaded.maps);
    Ok((loaded.attached, named(&read, made)))
}

const NONE: &str = "it is no object of an extension";

fn named(object: &Object<'_>, made: impl Iterator<Item = (bpf::MapKind, OwnedFd)>) -> Maps {
    let names = object.maps.iter().map(|(name, _)| (*name).to_owned());
    let made = made.map(|(kind, map)| Arc::new(Map { map, kind }));
    names.zip(made).collect()
}

impl Program {
    /// Loads an object of clang's (`culvert/extend.h`). `sizes`: so many entries of maps, by name,
    /// instead of what the object says.
    ///
    /// # Errors
    /// With the reason, for people: it is none, a map is of another kind than a hash, array, LRU
    /// hash or ring, there is no privilege, the verifier refuses it.
    pub fn load(object: &[u8], sizes: &[(&str, u32)]) -> Result<Self, String> {
        let object = Object::read(object).ok_or(NONE)?;
        let made = loaded::maps(&object, &object.entries(sizes)?, loaded::NAME)?;
        let maps = named(&object, made.into_iter());
        let descriptors: Vec<_> = maps.iter().map(|(_, map)| map.map.as_raw_fd()).collect();
        let program = bpf::program(&object.code(&descriptors), loaded::NAME)?;
        Ok(Self { maps, program })
    }

    /// The map of this name.
    pub fn map(&self, name: &str) -> Option<Arc<Map>> {
        let found = self.maps.iter().find(|(map, _)| map == name);
        found.map(|(_, map)| Arc::clone(map))
    }

    /// All maps.
    pub const fn maps(&self) -> &Maps {
        &self.maps
    }

    /// Has the kernel ask it for the connection that `fuse` is one of.
    ///
    /// # Errors
    /// With what keeps it from that, for people.
    pub fn attach(&self, fuse: BorrowedFd<'_>) -> Result<Attached, String> {
        let device = Device::open().map_err(|error| error.to_string())?;
        let attached = device.attach(fuse, self.program.as_fd())?;
        Ok(attached.with_memory(self.maps.iter().map(|(_, map)| &map.map)))
    }
}

impl Map {
    /// The lengths of a key and of a value, bytes.
    pub const fn sizes(&self) -> [usize; 2] {
        [self.kind.key_size as usize, self.kind.value_size as usize]
    }

    /// The key behind `key`, or the first one; behind one that is gone the first one.
    ///
    /// # Errors
    /// As of [`Map::get`].
    pub fn next(&self, key: Option<&[u8]>, next: &mut [u8]) -> io::Result<bool> {
        let size = self.kind.key_size as usize;
        self.check(next.len() == size && key.is_none_or(|key| key.len() == size))?;
        bpf::next_key(&self.map, key, next)
    }

    /// The value of `key`, if there is one.
    ///
    /// # Errors
    /// `EINVAL`: the key has another length than the map's; what bpf(2) says.
    pub fn get(&self, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let mut value = vec![0; self.kind.value_size as usize];
        Ok(self.read(key, &mut value)?.then_some(value))
    }

    /// The same into `value`; whether there is one.
    ///
    /// # Errors
    /// As above; `value` has another length than the map's.
    pub fn read(&self, key: &[u8], value: &mut [u8]) -> io::Result<bool> {
        self.check([key.len(), value.len()] == self.sizes())?;
        bpf::lookup(&self.map, key, value)
    }

    /// Makes it, or changes it, as one.
    ///
    /// # Errors
    /// `E2BIG`: the map is full, and no LRU; else as above.
    pub fn put(&self, key: &[u8], value: &[u8]) -> io::Result<()> {
        self.check([key.len(), value.len()] == self.sizes())?;
        bpf::update(&self.map, key, value)
    }

    /// Removes it; whether it was there.
    ///
    /// # Errors
    /// As above.
    pub fn remove(&self, key: &[u8]) -> io::Result<bool> {
        self.check(key.len() == self.kind.key_size as usize)?;
        bpf::delete(&self.map, key)
    }

    /// All keys; while the program changes the map, some of them, and some twice.
    ///
    /// # Errors
    /// As above.
    pub fn keys(&self) -> io::Result<Vec<Vec<u8>>> {
        let mut keys = Vec::<Vec<u8>>::new();
        while keys.len() < self.kind.max_entries as usize {
            let mut next = vec![0; self.kind.key_size as usize];
            if !bpf::next_key(&self.map, keys.last().map(Vec::as_slice), &mut next)? {
                break;
            }
            keys.push(next);
        }
        Ok(keys)
    }

    /// Bytes of memory that the kernel has for it.
    ///
    /// # Errors
    /// Of /proc.
    pub fn memory(&self) -> io::Result<u64> {
        bpf::memory(&self.map)
    }

    fn check(&self, holds: bool) -> io::Result<()> {
        match holds {
            true => Ok(()),
            false => Err(io::ErrorKind::InvalidInput.into()),
        }
    }
}
