//! A directory of planets; each file says how many moons the planet has.
//!
//!     cargo build --release
//!     culvert run --mount type=target/release/libplanets.so,target=/tmp/planets -- cat /tmp/planets/mars
//!
//! It needs neither std nor a libc and keeps no state, so it runs in the programs themselves.
#![no_std]

extern crate alloc;

use alloc::{format, string::String, vec::Vec};
use culvert::library::{MountRequest, Mounted};
use culvert::path::{PathEntry, PathFileSystem};
use culvert::{Attributes, Caller, Errno, Error, FileKind, OpenFlags, Result};

struct Planets {
    /// Option `greeting=WORD`, which stands before each number.
    greeting: String,
}

const PLANETS: [(&str, u32); 3] = [("earth", 1), ("mars", 2), ("venus", 0)];

impl Planets {
    fn content(&self, path: &[u8]) -> Result<String> {
        let found = PLANETS.iter().find(|(name, _)| name.as_bytes() == path);
        let (_, moons) = found.ok_or(Errno::ENOENT)?;
        Ok(format!("{}{moons}\n", self.greeting))
    }
}

impl Mounted for Planets {
    const STATELESS: bool = true;

    fn mount(request: &MountRequest<'_>) -> Result<Self> {
        let mut greeting = String::new();
        for (name, value) in &request.options {
            match *name {
                b"greeting" => greeting = String::from_utf8_lossy(value).into_owned(),
                _ => {
                    let name = String::from_utf8_lossy(name);
                    return Err(Error::because(
                        Errno::EINVAL,
                        format!("planets has no option {name}"),
                    ));
                }
            }
        }
        Ok(Self { greeting })
    }
}

impl PathFileSystem for Planets {
    type Handle = String;

    fn attributes(&self, path: &[u8]) -> Result<Attributes> {
        if path.is_empty() {
            return Ok(Attributes::new(FileKind::Directory, 0o555));
        }
        let size = self.content(path)?.len() as u64;
        Ok(Attributes {
            size,
            ..Attributes::new(FileKind::Regular, 0o444)
        })
    }

    fn list(&self, _: &[u8]) -> Result<Vec<PathEntry>> {
        Ok(PLANETS
            .iter()
            .map(|(name, _)| PathEntry::new(*name, FileKind::Regular))
            .collect())
    }

    fn open(&self, _: &Caller<'_>, path: &[u8], _: OpenFlags) -> Result<String> {
        self.content(path)
    }

    fn read(&self, content: &String, offset: u64, out: &mut [u8]) -> Result<usize> {
        let rest = content
            .as_bytes()
            .get(offset as usize..)
            .unwrap_or_default();
        let count = rest.len().min(out.len());
        out[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }
}

culvert::export_driver!(Planets);
culvert::freestanding!();
