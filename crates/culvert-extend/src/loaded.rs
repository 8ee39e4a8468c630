//! A program with its maps, for a connection.

use crate::{
    bpf::{self, MapKind},
    module::{Attached, Device},
    object::Object,
};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// What stands beside programs and maps where the kernel lists them.
pub const NAME: &str = "culvert";

/// A program that the kernel asks, and its maps in the order of the object's.
#[derive(Debug)]
pub struct Loaded {
    /// As long as this is there the kernel asks it.
    pub attached: Attached,
    /// The kernel counts its uses of them itself.
    pub maps: Vec<OwnedFd>,
}

impl Loaded {
    /// Counts the memory.
    pub fn new(attached: Attached, maps: Vec<OwnedFd>) -> Self {
        Self {
            attached: attached.with_memory(maps.iter()),
            maps,
        }
    }
}

/// By this process, under a name.
pub fn here(
    device: Device,
    object: &Object<'_>,
    entries: &[u32],
    (fuse, name): (BorrowedFd<'_>, &str),
) -> Result<Loaded, String> {
    let maps = maps(object, entries, name)?;
    let maps: Vec<_> = maps.into_iter().map(|(_, map)| map).collect();
    let descriptors: Vec<_> = maps.iter().map(AsRawFd::as_raw_fd).collect();
    let program = bpf::program(&object.code(&descriptors), name)?;
    Ok(Loaded::new(device.attach(fuse, program.as_fd())?, maps))
}

/// What the object's maps are to be.
pub fn kinds(object: &Object<'_>, entries: &[u32]) -> Result<Vec<MapKind>, String> {
    let maps = object.maps.iter().enumerate().map(|(n, (name, kind))| {
        if !bpf::PLAIN.contains(&kind.kind) {
            return Err(format!("map {name}: kind {} is not known", kind.kind));
        }
        let max_entries = match entries.get(n) {
            None | Some(0) => kind.max_entries,
            Some(entries) => *entries,
        };
        Ok(MapKind {
            max_entries,
            ..*kind
        })
    });
    match entries.len() <= object.maps.len() {
        true => maps.collect(),
        false => Err("it has fewer maps".into()),
    }
}

/// Makes them.
pub fn maps(
    object: &Object<'_>,
    entries: &[u32],
    name: &str,
) -> Result<Vec<(MapKind, OwnedFd)>, String> {
    let kinds = kinds(object, entries)?.into_iter();
    let made = kinds.zip(&object.maps).map(|(kind, (map, _))| {
        let made = bpf::map(&kind, name).map_err(|error| format!("map {map}: {error}"))?;
        Ok((kind, made))
    });
    made.collect()
}
