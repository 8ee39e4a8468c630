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
    maps: Vec<(String, Arc<Map>)>,
    program: OwnedFd,
}

/// A map, which its program in the kernel and this process read and change. Nobody else can open
/// it, and it goes with both.
#[derive(Debug)]
pub struct Map {
    map: OwnedFd,
    kind: bpf::MapKind,
}

/// Loads an object and has the kernel ask it for the connection that `fuse` is one of; who has no
/// privilege has the loader service do both.
///
/// # Errors
/// With what keeps it from that, for people.
pub fn attach(object: &[u8], fuse: BorrowedFd<'_>) -> Result<Attached, String> {
    loader::load(object, &[], fuse).map(|loaded| loaded.attached)
}

impl Program {
    /// Loads an object of clang's (`culvert/extend.h`). `sizes`: so many entries of maps, by name,
    /// instead of what the object says.
    ///
    /// # Errors
    /// With the reason, for people: it is none, a map is of another kind than a hash, array, LRU
    /// hash or ring, there is no privilege, the verifier refuses it.
    pub fn load(object: &[u8], sizes: &[(&str, u32)]) -> Result<Self, String> {
        let object = Object::read(object).ok_or("it is no object of an extension")?;
        let named = |name: &str| object.maps.iter().any(|(map, _)| *map == name);
        if let Some((name, _)) = sizes.iter().find(|(name, _)| !named(name)) {
            return Err(format!("there is no map {name}"));
        }
        let entries = object.maps.iter().map(|(name, _)| {
            let size = sizes.iter().find(|(map, _)| map == name);
            size.map_or(0, |(_, size)| *size)
        });
        let entries: Vec<u32> = entries.collect();
        let made = loaded::maps(&object, &entries, loaded::NAME)?;
        let names = object.maps.iter().map(|(name, _)| (*name).to_owned());
        let made = made
            .into_iter()
            .map(|(kind, map)| Arc::new(Map { map, kind }));
        let maps: Vec<_> = names.zip(made).collect();
        let descriptors: Vec<_> = maps.iter().map(|(_, map)| map.map.as_raw_fd()).collect();
        let program = bpf::program(&object.code(&descriptors), loaded::NAME)?;
        Ok(Self { maps, program })
    }

    /// The map of this name.
    pub fn map(&self, name: &str) -> Option<Arc<Map>> {
        let found = self.maps.iter().find(|(map, _)| map == name);
        found.map(|(_, map)| Arc::clone(map))
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
    /// The value of `key`, if there is one.
    ///
    /// # Errors
    /// `EINVAL`: the key has another length than the map's; what bpf(2) says.
    pub fn get(&self, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
        self.check(key.len() == self.kind.key_size as usize)?;
        let mut value = vec![0; self.kind.value_size as usize];
        Ok(bpf::lookup(&self.map, key, &mut value)?.then_some(value))
    }

    /// Makes it, or changes it, as one.
    ///
    /// # Errors
    /// `E2BIG`: the map is full, and no LRU; else as above.
    pub fn put(&self, key: &[u8], value: &[u8]) -> io::Result<()> {
        let kind = &self.kind;
        self.check(key.len() == kind.key_size as usize && value.len() == kind.value_size as usize)?;
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
