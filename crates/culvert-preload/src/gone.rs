//! Files that have no name any more and go to another program, of drivers whose nodes a process finds by their names
//! ([`culvert::Capabilities::transient_nodes`]).
//!
//! The driver's file cannot go with them. So before exec, before a descriptor is sent, and when the last name of a file goes that others hold, its shadow gets all
//! that the file is, and *is* the file from then on, for everybody who holds it: a bit of its mode says so. Bytes, size and times are the shadow's own; owner, mode
//! and number stand beside it. Who gets a descriptor of it has a direct description on the shadow.
//!
//! Who opened the file by its driver finds that out by a count in shared memory ([`count`], [`Description::gone`]). What it opened before the file was counted and
//! has had open since keeps the inode, so that no other file can have its number: it is this file. What was opened later is another one, which has no way to
//! this shadow: it loses its usual name.

use crate::description::{Description, Object};
use crate::looked_at;
use crate::node_locks::Mapped;
use crate::paging::{bytes, pager::fill, records, room};
use crate::process::{self, Process};
use crate::resolver::MountId;
use crate::run::{ShadowName, list, read_link, stat_descriptor, stat_path};
use crate::shadow::{self, Descriptor};
use alloc::{boxed::Box, format, sync::Arc, vec::Vec};
use core::any::Any;
use core::sync::atomic::Ordering::*;
use culvert::{
    Attributes, Errno, File, FileKind, Opened, Result, SetAttributes, Sink, Source, Timespec,
    Whence,
};
use culvert_drivers::{DescriptorFile, Keeper};
use culvert_sys::raw::general::stat;
use culvert_sys::{nr, syscall};

/// Of a shadow's mode: it is the file. The run directory is the user's alone, so the bit lets nobody in.
pub const GONE: u32 = 0o004;
/// The bits of [`Mapped::followed`] that count such shadows begin here.
const COUNT: u32 = 1;
const O_RDWR: usize = 2;
const O_CREAT: usize = 0o100;

/// Whether a file of the run directory's file system with this `struct stat` may be such a shadow: [`name_of`] knows.
pub fn is_gone(found: &stat) -> bool {
    found.st_mode & 0o101077 == shadow::FILLED | GONE | 0o100000
}

/// Whose shadow it is.
pub fn name_of(found: &stat) -> Option<ShadowName> {
    let record = open_record(found.st_ino, 0).ok()?;
    Kept::read(&record).ok().map(|kept| kept.name)
}

/// What the shadow cannot say, in its record `gone/INODE.attributes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kept {
    name: ShadowName,
    /// What [`count`] has been since it is kept.
    count: u32,
    inode: u64,
    permissions: u32,
    owner: (u32, u32),
    block_size: u32,
    made: Option<Timespec>,
    /// The time of change, as long as that of the shadow is `since`.
    changed: Timespec,
    since: Timespec,
}

const WORDS: usize = 15;

impl Kept {
    fn words(&self) -> [u64; WORDS] {
        let time = |time: Timespec| [time.seconds as u64, u64::from(time.nanoseconds)];
        let ([made, made_ns], [changed, changed_ns], [since, since_ns]) = (
            time(self.made.unwrap_or_default()),
            time(self.changed),
            time(self.since),
        );
        [
            u64::from(self.name.mount),
            self.name.node.0,
            self.inode,
            u64::from(self.permissions),
            u64::from(self.owner.0),
            u64::from(self.owner.1),
            u64::from(self.block_size),
            u64::from(self.made.is_some()),
            made,
            made_ns,
            changed,
            changed_ns,
            since,
            since_ns,
            u64::from(self.count),
        ]
    }

    fn of_words(words: &[u64; WORDS]) -> Self {
        let time = |at: usize| Timespec {
            seconds: words[at] as i64,
            nanoseconds: words[at + 1] as u32,
        };
        Self {
            name: ShadowName {
                mount: words[0] as u16,
                node: culvert::Node(words[1]),
            },
            count: words[14] as u32,
            inode: words[2],
            permissions: words[3] as u32,
            owner: (words[4] as u32, words[5] as u32),
            block_size: words[6] as u32,
            made: (words[7] != 0).then(|| time(8)),
            changed: time(10),
            since: time(12),
        }
    }

    fn write(&self, record: &Descriptor) -> core::result::Result<(), Errno> {
        let words = self.words();
        let (address, length) = (words.as_ptr() as usize, size_of_val(&words));
        // SAFETY: the words are given with their length.
        match unsafe { syscall::call(nr::PWRITE64, [record.0 as usize, address, length, 0]) }? {
            written if written == length => Ok(()),
            _ => Err(Errno::ENOSPC),
        }
    }

    fn read(record: &Descriptor) -> core::result::Result<Self, Errno> {
        let mut words = [0u64; WORDS];
        let (address, length) = (words.as_mut_ptr() as usize, size_of_val(&words));
        // SAFETY: the words are given with their length.
        match unsafe { syscall::call(nr::PREAD64, [record.0 as usize, address, length, 0]) }? {
            read if read == length => Ok(Self::of_words(&words)),
            _ => Err(Errno::EIO),
        }
    }
}

/// The name of the shadow with the inode number `inode`.
fn path_of(inode: u64) -> Vec<u8> {
    process::get().run.file(&format!("gone/{inode:x}"))
}

/// The link whose text is the inode number of the last shadow of `name` that became its file.
fn last_of(name: ShadowName) -> Vec<u8> {
    process::get().run.file(&format!("gone/{}", name.text()))
}

fn number(text: &[u8]) -> Option<u64> {
    u64::from_str_radix(core::str::from_utf8(text).ok()?, 16).ok()
}

fn open_record(inode: u64, flags: usize) -> core::result::Result<Descriptor, Errno> {
    let path = process::get()
        .run
        .file(&format!("gone/{inode:x}.attributes"));
    shadow::open(&path, flags, 0o600)
}

/// A file that is its shadow.
pub struct GoneFile {
    bytes: DescriptorFile,
    name: ShadowName,
    /// The shadow's inode.
    shadow: u64,
}

impl GoneFile {
    /// That of `opened`, a description of its own on the shadow of `name`.
    fn new(name: ShadowName, opened: Descriptor, found: &stat) -> Self {
        let keeper = Keeper {
            adopt: Some(|fd| process::get().table.adopt_internal(fd)),
            table: Some(process::tables::number),
            lends: None,
        };
        let own = culvert_drivers::Descriptor::from_raw(opened.release());
        Self {
            bytes: DescriptorFile::new(own, keeper, name.node, found.st_ino),
            name,
            shadow: found.st_ino,
        }
    }

    /// Another description of the shadow, with the access mode and those status flags of `flags` that a shadow has.
    pub fn shadow(&self, flags: u32) -> core::result::Result<Descriptor, Errno> {
        shadow::open_path(self.name, &path_of(self.shadow), shadow::kept_flags(flags))
    }

    /// Changes what the shadow cannot say.
    fn change(&self, changes: &SetAttributes) -> Result<()> {
        let _lock = process::get()
            .node_locks
            .lock(MountId(self.name.mount), self.name.node);
        let record = open_record(self.shadow, O_RDWR)?;
        let mut kept = Kept::read(&record)?;
        kept.permissions = changes.permissions.unwrap_or(kept.permissions);
        kept.owner.0 = changes.uid.unwrap_or(kept.owner.0);
        kept.owner.1 = changes.gid.unwrap_or(kept.owner.1);
        kept.write(&record)?;
        let own = self.bytes.descriptor().ok_or(Errno::EIO)?;
        Ok(shadow::touch(own)?)
    }
}

impl File for GoneFile {
    fn read_at(&self, offset: u64, out: &mut dyn Sink) -> Result<usize> {
        self.bytes.read_at(offset, out)
    }

    fn write_at(&self, offset: u64, from: &mut dyn Source) -> Result<usize> {
        self.bytes.write_at(offset, from)
    }

    fn append(&self, from: &mut dyn Source) -> Result<(u64, usize)> {
        self.bytes.append(from)
    }

    fn attributes(&self) -> Result<Attributes> {
        let shadow = self.bytes.attributes()?;
        let kept = Kept::read(&open_record(self.shadow, 0)?)?;
        Ok(Attributes {
            inode: kept.inode,
            kind: FileKind::Regular,
            permissions: kept.permissions,
            links: 0,
            uid: kept.owner.0,
            gid: kept.owner.1,
            block_size: kept.block_size,
            ctime: match shadow.ctime == kept.since {
                true => kept.changed,
                false => shadow.ctime,
            },
            btime: kept.made,
            ..shadow
        })
    }

    fn set_attributes(&self, changes: &SetAttributes) -> Result<Attributes> {
        let of_bytes = SetAttributes {
            permissions: None,
            uid: None,
            gid: None,
            ..*changes
        };
        self.bytes.set_attributes(&of_bytes)?;
        if changes
            .permissions
            .or(changes.uid)
            .or(changes.gid)
            .is_some()
        {
            self.change(changes)?;
        }
        self.attributes()
    }

    fn allocate(&self, mode: u32, offset: u64, length: u64) -> Result<()> {
        self.bytes.allocate(mode, offset, length)
    }

    fn seek(&self, offset: u64, whence: Whence) -> Result<u64> {
        self.bytes.seek(offset, whence)
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }

    fn descriptor(&self) -> Option<i32> {
        self.bytes.descriptor()
    }

    fn with_kernel_file(
        &self,
        _range: (u64, u64),
        stores: bool,
        map: &mut dyn FnMut(i32),
    ) -> Result<bool> {
        // By a descriptor that may write, a mapping could be made writable later.
        let opened = self.shadow(if stores { O_RDWR as u32 } else { 0 })?;
        map(opened.0);
        process::get().table.posix_locks.close(self.name, opened);
        Ok(true)
    }
}

/// How many shadows of the node's group have become files.
#[inline]
pub fn count(name: ShadowName) -> u32 {
    group(name).map_or(0, |group| group.followed.load(Acquire) >> COUNT)
}

fn group(name: ShadowName) -> Option<Mapped> {
    process::get()
        .node_locks
        .mapped(MountId(name.mount), name.node)
}

/// What the file of `description`, which was opened by its driver, has become since [`count`] was `seen`, if anything. An error: that is not known.
#[cold]
pub fn find(
    description: &Description,
    seen: u32,
) -> core::result::Result<Option<Box<GoneFile>>, Errno> {
    // What is opened here would be open in the child's table only, or end the program.
    if process::vfork_child().is_some() || process::get().is_confined() {
        return Err(Errno::EAGAIN);
    }
    let name = description.name();
    let Some(inode) = since(name, seen)? else {
        return Ok(None);
    };
    let opened = shadow::open_path(name, &path_of(inode), O_RDWR)?;
    let found = stat_descriptor(opened.0)?;
    if !is_gone(&found) {
        process::get().table.posix_locks.close(name, opened);
        return Ok(None);
    }
    Ok(Some(Box::new(GoneFile::new(name, opened, &found))))
}

/// The shadow of `name` that became its file since [`count`] was `seen`.
fn since(name: ShadowName, seen: u32) -> core::result::Result<Option<u64>, Errno> {
    let text = match read_link(&last_of(name)) {
        Err(Errno::ENOENT) => return Ok(None),
        text => text?,
    };
    let inode = number(&text).ok_or(Errno::EIO)?;
    let kept = Kept::read(&open_record(inode, 0)?)?;
    // What is ahead of the count was left half done.
    Ok((kept.count > seen && kept.count <= count(name)).then_some(inode))
}

/// The numbers of all such shadows.
fn all() -> Vec<u64> {
    let folder = shadow::open(&process::get().run.file("gone"), 0o200000, 0);
    let names = folder.map_or_else(|_| Vec::new(), |folder| list(&folder));
    names.iter().filter_map(|name| number(name)).collect()
}

/// The file without a name that has the attributes `wanted`, opened anew with the access mode of `flags`; none where it is the driver's.
pub fn open(mount: MountId, wanted: &Attributes, flags: u32) -> Option<Opened> {
    const O_TRUNC: u32 = 0o1000;
    let name = ShadowName {
        mount: mount.0,
        node: wanted.node,
    };
    if count(name) == 0 {
        return None;
    }
    all().into_iter().find_map(|inode| {
        let record = open_record(inode, 0).ok()?;
        if Kept::read(&record).ok()?.name != name {
            return None;
        }
        let opened = shadow::open_path(name, &path_of(inode), (flags & 3) as usize).ok()?;
        let found = stat_descriptor(opened.0).ok()?;
        let file = GoneFile::new(name, opened, &found);
        if !file.attributes().is_ok_and(|it| it == *wanted) {
            return None;
        }
        if flags & O_TRUNC != 0 {
            let empty = SetAttributes {
                size: Some(0),
                ..SetAttributes::default()
            };
            file.set_attributes(&empty).ok()?;
        }
        Some(Opened::Driven(Box::new(file)))
    })
}

/// A name of a file is about to go.
pub struct Losing {
    name: ShadowName,
    file: Box<dyn File>,
}

/// A name of `node` is about to be removed or replaced: none where no other process can have a shadow of it.
pub fn losing(mount: MountId, found: &Attributes) -> Option<Losing> {
    let file_system = process::file_system(mount).ok()?;
    if found.kind != FileKind::Regular || !file_system.capabilities().transient_nodes {
        return None;
    }
    let name = ShadowName {
        mount: mount.0,
        node: found.node,
    };
    stat_path(&process::get().run.shadow(name)).ok()?;
    if process::get().is_confined() {
        return None;
    }
    let file = looked_at::opened(name, 0).ok()?;
    Some(Losing { name, file })
}

impl Losing {
    /// The name is gone. If it was the last one, and somebody has the shadow, who may not know the driver's file, that is the file from now on.
    pub fn lost(self) {
        let (name, file) = (self.name, &*self.file);
        let nameless = file.attributes().is_ok_and(|it| it.links == 0);
        if !nameless || !crate::holders::is_held(name.mount, name.node) {
            return;
        }
        let made = shadow::open_shadow(name, O_RDWR as u32).map_err(culvert::Error::from);
        let result = made.and_then(|writable| {
            let locks = &process::get().node_locks;
            let lock = locks.lock(MountId(name.mount), name.node);
            let result = take_over(name, file, file, &writable);
            drop(lock);
            process::get().table.posix_locks.close(name, writable);
            result
        });
        if let Err(error) = result {
            report(name, &error);
        }
    }
}

fn report(name: ShadowName, error: &culvert::Error) {
    crate::log!(
        "node {:x} of mount {}, which has no name any more, is lost to processes that have not opened it: {error}",
        name.node.0,
        name.mount
    );
}

/// The description of a descriptor of the program's on the shadow of `name`, which is a file itself and has the status flags `flags`.
pub fn adopt(name: ShadowName, found: &stat, flags: u32) -> Result<Description> {
    let opened = shadow::open_path(name, &path_of(found.st_ino), O_RDWR)?;
    let file = Box::new(GoneFile::new(name, opened, found));
    let mount = MountId(name.mount);
    Ok(Description::direct(mount, name.node, file, flags))
}

fn unlink(path: &[u8]) {
    // SAFETY: the path ends in NUL.
    let _ = unsafe { syscall::call(nr::UNLINK, [path.as_ptr() as usize]) };
}

/// Makes the shadows of all files without a name that survive exec these files. One of which that fails is EIO in the next program, with the reason in the log.
pub fn hand_down(process: &Process) {
    let mut inherited: Vec<Arc<Description>> = Vec::new();
    process.table.each(|fd, description| {
        if description.may_go() && !crate::descriptors::close_on_exec(fd).unwrap_or(true) {
            inherited.push(description.clone());
        }
    });
    if let Some(child) = process::vfork_child() {
        let installed = child.installed().into_iter();
        inherited.extend(installed.filter_map(|(_, description)| description));
    }
    for description in inherited {
        hand_over(&description);
    }
}

/// Makes the shadow of `description`'s file this file, if that has no name any more: another program is about to get it.
pub fn hand_over(description: &Description) {
    if let Err(error) = become_file(description) {
        report(description.name(), &error);
    }
}

fn become_file(description: &Description) -> Result<()> {
    let Object::File(file) = &description.object else {
        return Ok(());
    };
    let name = description.name();
    if !description.may_go() || file.attributes()?.links != 0 {
        return Ok(());
    }
    if description.gone().is_some() || since(name, description.seen())?.is_some() {
        return Ok(());
    }
    sweep();
    let anew;
    let reader = match description.readable() {
        Ok(file) => file,
        Err(_) => {
            anew = looked_at::opened(name, 0)?;
            &*anew
        }
    };
    let writable = shadow::open_shadow(name, O_RDWR as u32)?;
    let result = {
        let locks = &process::get().node_locks;
        let _lock = locks.lock(description.mount, description.node);
        take_over(name, &**file, reader, &writable)
    };
    process::get().table.posix_locks.close(name, writable);
    result
}

/// Makes the shadow in `writable` the file, under the node's lock.
fn take_over(
    name: ShadowName,
    file: &dyn File,
    reader: &dyn File,
    writable: &Descriptor,
) -> Result<()> {
    let fd = writable.0;
    let found = stat_descriptor(fd)?;
    if is_gone(&found) {
        // Somebody was faster.
        return Ok(());
    }
    let group = group(name).ok_or(Errno::ENOMEM)?;
    if looked_at::strangers_have(name) {
        looked_at::take_changes(name, fd)?;
    }
    // While it is mapped so that it can be written, the shadow holds the truth.
    match shadow::is_followed(&found) && records::any(name) {
        true => fill::complete(reader, fd)?,
        false => {
            let fresh =
                !shadow::is_filled(&found) && !fill::is_partly(&found) && found.st_size == 0;
            room::make(
                file.attributes()?
                    .size
                    .saturating_sub(found.st_blocks as u64 * 512),
            )?;
            bytes::equalise(reader, fd, fresh)?;
        }
    }
    let now = file.attributes()?;
    let mut kept = Kept {
        name,
        count: (group.followed.load(Acquire) >> COUNT) + 1,
        inode: now.inode,
        permissions: now.permissions,
        owner: (now.uid, now.gid),
        block_size: now.block_size,
        made: now.btime,
        changed: now.ctime,
        since: Timespec::default(),
    };
    let (folder, first) = (
        process::get().run.file("gone"),
        process::get().run.shadow(name),
    );
    let (second, last) = (path_of(found.st_ino), last_of(name));
    let text = format!("{:x}\0", found.st_ino);
    // SAFETY: the path ends in NUL. A folder that is there already is right.
    let _ = unsafe { syscall::call(nr::MKDIR, [folder.as_ptr() as usize, 0o700]) };
    let record = open_record(found.st_ino, O_RDWR | O_CREAT)?;
    // SAFETY: the paths end in NUL.
    unsafe {
        kept.write(&record)?;
        match syscall::call(
            nr::LINK,
            [first.as_ptr() as usize, second.as_ptr() as usize],
        ) {
            // Somebody was killed who had begun.
            Ok(_) | Err(Errno::EEXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
        unlink(&last);
        syscall::call(
            nr::SYMLINK,
            [text.as_ptr() as usize, last.as_ptr() as usize],
        )?;
    }
    unlink(&first);
    shadow::set_times(writable, &now);
    shadow::mark_gone(fd, &now)?;
    let marked = stat_descriptor(fd)?;
    kept.since = Timespec {
        seconds: marked.st_ctime as i64,
        nanoseconds: marked.st_ctime_nsec as u32,
    };
    // Only the time of change depends on it.
    let _ = kept.write(&record);
    // Groups have one lock, which is held.
    group.followed.fetch_add(1 << COUNT, AcqRel);
    Ok(())
}

/// Removes what nobody has open any more.
fn sweep() {
    for inode in all() {
        let path = path_of(inode);
        let Ok(kept) = open_record(inode, 0).and_then(|record| Kept::read(&record)) else {
            continue;
        };
        let Ok(alone) = crate::holders::alone_at(kept.name, &path) else {
            continue;
        };
        // Who opened it by its driver and has not looked yet would lose what others wrote.
        let since = (kept.since.seconds, kept.since.nanoseconds);
        let unchanged = stat_descriptor(alone.0)
            .is_ok_and(|now| (now.st_ctime as i64, now.st_ctime_nsec as u32) == since);
        if !unchanged {
            process::get().table.posix_locks.close(kept.name, alone);
            continue;
        }
        let last = last_of(kept.name);
        if read_link(&last).is_ok_and(|text| number(&text) == Some(inode)) {
            unlink(&last);
        }
        unlink(
            &process::get()
                .run
                .file(&format!("gone/{inode:x}.attributes")),
        );
        unlink(&path);
        process::get().table.posix_locks.close(kept.name, alone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_says_what_it_was_told() {
        let time = |seconds| Timespec {
            seconds,
            nanoseconds: 7,
        };
        for made in [None, Some(time(-3))] {
            let kept = Kept {
                name: ShadowName {
                    mount: 3,
                    node: culvert::Node(1 << 40),
                },
                count: 77,
                inode: 5,
                permissions: 0o4755,
                owner: (65534, 1000),
                block_size: 4096,
                made,
                changed: time(1 << 33),
                since: time(9),
            };
            assert_eq!(Kept::of_words(&kept.words()), kept);
        }
    }
}
