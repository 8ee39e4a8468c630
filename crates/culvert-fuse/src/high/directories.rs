//! Listings.
#![allow(unsafe_op_in_unsafe_fn)] // C is called: what it promises stands in fuse.h.

use super::{Fuse, address, checked};
use crate::{
    abi::{EntryParam, FileInfo},
    files::zeroed,
    mutex::locked,
    reply,
};
use culvert_wire::structures::EntryOut;
use libc::{off_t, stat};
use std::{
    ffi::{CStr, CString, c_char, c_int, c_void},
    ptr,
    sync::Mutex,
};

/// Nobody knows the inode (`FUSE_UNKNOWN_INO`).
const UNKNOWN: u64 = 0xffff_ffff;
const READDIR_PLUS: c_int = 1;
const FILL_DIR_PLUS: c_int = 2;

/// An open directory.
struct Directory {
    fh: u64,
    /// What a file system that gives no positions has listed.
    list: Mutex<Option<Vec<(CString, stat, bool)>>>,
}

/// A listing that is being made.
struct Listing<'a> {
    fuse: &'a Fuse,
    node: u64,
    plus: bool,
    size: usize,
    bytes: Vec<u8>,
    /// Names without positions.
    list: Vec<(CString, stat, bool)>,
    wrong: bool,
}

impl Listing<'_> {
    /// Adds `name`, after which the listing goes on at `next`; false when there is no room.
    unsafe fn add(&mut self, name: &CStr, found: &stat, whole: bool, next: off_t) -> bool {
        let mut found = *found;
        let config = self.fuse.config();
        if config.use_ino == 0 {
            let node = (config.readdir_ino != 0).then(|| self.fuse.tree.find(self.node, name));
            found.st_ino = node.flatten().unwrap_or(UNKNOWN);
        }
        let at = self.bytes.len();
        let room = self.size - at;
        let extra = if self.plus { size_of::<EntryOut>() } else { 0 };
        let needed = (24 + name.count_bytes()).next_multiple_of(8) + extra;
        if needed > room {
            return false;
        }
        self.bytes.resize(at + needed, 0);
        let place = self.bytes[at..].as_mut_ptr().cast::<c_char>();
        let length = if self.plus {
            let is_dot = matches!(name.to_bytes(), b"." | b"..");
            let mut entry = EntryParam {
                ino: 0,
                generation: 0,
                attr: found,
                attr_timeout: config.attr_timeout,
                entry_timeout: config.entry_timeout,
            };
            if whole && !is_dot {
                (entry.ino, entry.generation) = self.fuse.tree.look_up(self.node, name);
                entry.attr = self.fuse.shown(entry.ino, found);
            }
            let entry = &raw const entry;
            reply::add_direntry_plus(ptr::null_mut(), place, needed, name.as_ptr(), entry, next)
        } else {
            let found = &raw const found;
            reply::add_direntry(ptr::null_mut(), place, needed, name.as_ptr(), found, next)
        };
        self.bytes.truncate(at + length);
        true
    }

    unsafe fn filled(
        &mut self,
        name: *const c_char,
        found: *const stat,
        offset: off_t,
        flags: c_int,
    ) -> c_int {
        let whole = flags & FILL_DIR_PLUS != 0 && !found.is_null();
        let found = found.as_ref().copied().unwrap_or_else(|| {
            let mut found: stat = zeroed();
            found.st_ino = UNKNOWN;
            found
        });
        let name = CStr::from_ptr(name);
        if offset == 0 {
            // Some names with positions, some without: neither way gives all.
            self.wrong |= !self.bytes.is_empty();
            self.list.push((name.to_owned(), found, whole));
            return 0;
        }
        self.wrong |= !self.list.is_empty();
        c_int::from(!self.add(name, &found, whole, offset))
    }
}

unsafe extern "C" fn fill_3(
    listing: *mut c_void,
    name: *const c_char,
    found: *const stat,
    offset: off_t,
    flags: c_int,
) -> c_int {
    (*listing.cast::<Listing<'_>>()).filled(name, found, offset, flags)
}

/// Of version 2, which has no flags: what they would be is anything.
unsafe extern "C" fn fill_2(
    listing: *mut c_void,
    name: *const c_char,
    found: *const stat,
    offset: off_t,
    _: c_int,
) -> c_int {
    (*listing.cast::<Listing<'_>>()).filled(name, found, offset, 0)
}

/// Of `getdir`.
unsafe extern "C" fn fill_1(
    listing: *mut c_void,
    name: *const c_char,
    kind: c_int,
    inode: u64,
) -> c_int {
    let mut found: stat = zeroed();
    found.st_mode = (kind as u32) << 12;
    found.st_ino = inode;
    (*listing.cast::<Listing<'_>>()).filled(name, &raw const found, 0, 0)
}

/// All names of a listing, which `readdir` has got as its buffer, in one call: `names`, each ended
/// by NUL, and for each its mode and its inode. Not 0: they are not as many as `count`.
#[unsafe(export_name = "culvert_fuse_fill_names")]
unsafe extern "C" fn fill_names(
    listing: *mut c_void,
    names: *const c_char,
    size: usize,
    found: *const [u64; 2],
    count: usize,
) -> c_int {
    let listing = &mut *listing.cast::<Listing<'_>>();
    let names = std::slice::from_raw_parts(names.cast::<u8>(), size);
    let found = std::slice::from_raw_parts(found, count);
    let mut rest = names.split_inclusive(|byte| *byte == 0);
    listing.list.reserve(count);
    for [mode, inode] in found {
        let name = rest.next().map(CStr::from_bytes_with_nul);
        let Some(Ok(name)) = name else { return -1 };
        let mut attributes: stat = zeroed();
        (attributes.st_mode, attributes.st_ino) = (*mode as u32, *inode);
        listing.list.push((name.to_owned(), attributes, false));
    }
    -c_int::from(rest.next().is_some())
}

impl Fuse {
    unsafe fn directory<'a>(file: *const FileInfo) -> &'a Directory {
        &*((*file).fh as *const Directory)
    }

    /// The open directory of `file` as the file system knows it.
    pub(super) unsafe fn directory_file(&self, file: *const FileInfo) -> FileInfo {
        let fh = Self::directory(file).fh;
        FileInfo {
            flags: (*file).flags,
            lock_owner: (*file).lock_owner,
            ..FileInfo::of(fh)
        }
    }

    pub(super) unsafe fn opendir(&self, node: u64, file: *mut FileInfo) -> Result<(), c_int> {
        let mut own = FileInfo {
            flags: (*file).flags,
            ..FileInfo::default()
        };
        if let Some(function) = self.operations.opendir {
            let path = self.path(node, None)?;
            checked(function(path.path.as_ptr(), &raw mut own))?;
        }
        let directory = Box::new(Directory {
            fh: own.fh,
            list: Mutex::new(None),
        });
        (*file).bits = own.bits;
        (*file).fh = Box::into_raw(directory) as u64;
        Ok(())
    }

    pub(super) unsafe fn releasedir(&self, node: u64, file: *mut FileInfo) -> Result<(), c_int> {
        let mut own = self.directory_file(file);
        if let Some(function) = self.operations.releasedir {
            let path = self.open_path(node).ok().flatten();
            let place = match path.is_none() && self.config().nullpath_ok == 0 {
                true => c"-".as_ptr(),
                false => address(path.as_ref()),
            };
            function(place, &raw mut own);
        }
        drop(Box::from_raw((*file).fh as *mut Directory));
        Ok(())
    }

    pub(super) unsafe fn fsyncdir(
        &self,
        node: u64,
        data_only: c_int,
        file: *mut FileInfo,
    ) -> Result<(), c_int> {
        let mut own = self.directory_file(file);
        let path = self.open_path(node)?;
        let function = self.operations.fsyncdir.ok_or(libc::ENOSYS)?;
        checked(function(address(path.as_ref()), data_only, &raw mut own)).map(drop)
    }

    /// At most `size` bytes of the listing from `offset` on.
    pub(super) unsafe fn readdir(
        &self,
        node: u64,
        size: usize,
        offset: off_t,
        file: *mut FileInfo,
        plus: bool,
    ) -> Result<Vec<u8>, c_int> {
        let mut own = self.directory_file(file);
        let mut list = locked(&Self::directory(file).list);
        if offset == 0 {
            *list = None;
        }
        let mut listing = Listing {
            fuse: self,
            node,
            plus,
            size,
            bytes: Vec::new(),
            list: Vec::new(),
            wrong: false,
        };
        if list.is_none() {
            let path = self.open_path(node)?;
            let path = address(path.as_ref());
            let into = (&raw mut listing).cast::<c_void>();
            match (self.operations.readdir, self.operations.getdir) {
                (Some(function), _) => {
                    let fill = if self.version < 30 { fill_2 } else { fill_3 };
                    let flags = if plus { READDIR_PLUS } else { 0 };
                    checked(function(path, into, fill, offset, &raw mut own, flags))?;
                }
                (None, Some(function)) => {
                    checked(function(path, into, fill_1))?;
                }
                (None, None) => return Err(libc::ENOSYS),
            }
            if listing.wrong {
                crate::log::say("readdir gives some names with positions and some without");
                return Err(libc::EIO);
            }
            if listing.list.is_empty() {
                return Ok(listing.bytes);
            }
            *list = Some(std::mem::take(&mut listing.list));
        }
        let first = usize::try_from(offset).unwrap_or(usize::MAX);
        for (at, (name, found, whole)) in list.iter().flatten().enumerate().skip(first) {
            if !listing.add(name, found, *whole, at as off_t + 1) {
                break;
            }
        }
        Ok(listing.bytes)
    }
}
