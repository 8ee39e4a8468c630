//! Mapping a file: of the driver's own file of the kernel's where there is one, else of the shadow
//! (`culvert-cache`). What is checked comes in the order of `do_mmap`, mm/mmap.c.

use crate::answer::Answer;
use crate::description::{Held, Object, may_read};
use crate::process::Process;
use culvert::{Caching, Errno};
use culvert_cache::nodes::{self, Mapped};
use culvert_cache::regions::{Region, Watch};
use culvert_cache::{State, dirty, filling, pager, shadow, stores};
use culvert_run::memory::{Span, UserSink};
use culvert_run::stat_descriptor;
use culvert_sys::memory::Mapping;
use culvert_sys::raw::general::O_RDWR;
use culvert_sys::{nr, syscall};

const PROT_WRITE: usize = 2;
const PROT_EXEC: usize = 4;
const MAP_SHARED: usize = 1;
const MAP_SHARED_VALIDATE: usize = 3;
/// Flags that every file system takes with MAP_SHARED_VALIDATE (include/linux/mman.h).
const LEGACY_MAP_MASK: usize = 0x7c07_f9f3;
const MAP_TYPE: usize = 0xf;
/// MAP_ANONYMOUS.
pub const MAP_ANONYMOUS: usize = 0x20;
/// MAP_FIXED.
pub const MAP_FIXED: usize = 0x10;
/// What ld.so maps libraries with, parts of which it will execute: they are filled at once.
const MAP_DENYWRITE: usize = 0x800;

/// What mmap(2) is asked.
pub struct Asked {
    /// Where.
    pub address: usize,
    /// Bytes.
    pub length: usize,
    /// PROT_*.
    pub protection: usize,
    /// MAP_*.
    pub flags: usize,
    /// The first byte of the file.
    pub offset: usize,
}

impl Asked {
    fn is_shared(&self) -> bool {
        matches!(self.flags & MAP_TYPE, MAP_SHARED | MAP_SHARED_VALIDATE)
    }

    /// The mapping, but of this file, with this protection and these flags. It is the program's
    /// when it is left there.
    fn map(&self, fd: i32, protection: usize, flags: usize) -> Result<Mapping, Errno> {
        let (address, length) = (self.address, self.length);
        let arguments = [address, length, protection, flags, fd as usize, self.offset];
        // SAFETY: the program's own mapping asked, with its own address and length, of the content
        // of the file that it names. Nobody knows it yet.
        unsafe {
            let start = syscall::call(nr::MMAP, arguments)?;
            Ok(Mapping::from_leaked(start as *mut u8, length))
        }
    }
}

/// Maps the file; `region` is told what may be stored into.
pub fn map(
    process: &Process,
    held: &Held,
    fd: i32,
    asked: &Asked,
    region: &mut Option<Mapped>,
) -> Answer {
    let start = map_file(process, held, fd, asked, region)?;
    if asked.protection & PROT_EXEC != 0 {
        culvert_intercept::code_mapped(start, asked.length);
    }
    Ok(start)
}

fn map_file(
    process: &Process,
    held: &Held,
    fd: i32,
    asked: &Asked,
    region: &mut Option<Mapped>,
) -> Answer {
    let Asked {
        protection,
        flags,
        offset,
        ..
    } = *asked;
    if offset % 4096 != 0 {
        return Err(Errno::EINVAL);
    }
    match held.object {
        Object::File(_) | Object::Directory => {}
        Object::Path => return Err(Errno::EBADF),
        // The kernel says what is wrong with mapping a FIFO.
        Object::Fifo | Object::Broken => return Err(Errno::EIO),
    }
    if !matches!(flags & MAP_TYPE, 1..=MAP_SHARED_VALIDATE) {
        return Err(Errno::EINVAL);
    }
    if flags & MAP_TYPE == MAP_SHARED_VALIDATE && flags & !LEGACY_MAP_MASK != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    let access = held.flags(fd)? & 3;
    let shared = asked.is_shared();
    // mmap(2), EACCES: no read permission, or a shared writable mapping of a descriptor that is not
    // O_RDWR.
    if !may_read(access) || (shared && protection & PROT_WRITE != 0 && access != 2) {
        return Err(Errno::EACCES);
    }
    if matches!(held.object, Object::Directory) {
        return Err(Errno::ENODEV);
    }
    // As the kernel mount says (`fuse_file_mmap`, fs/fuse/file.c).
    if shared && held.file()?.caching() == Caching::Never {
        return Err(Errno::ENODEV);
    }
    let confined = culvert_run::task::is_confined();
    if confined && !(shared && protection & PROT_WRITE != 0) {
        return copy(held, asked);
    }
    if !confined && let Some(start) = map_kernel_file(held, access, asked)? {
        return Ok(start);
    }
    let changes = !culvert_cache::looked_at::file_system(held.mount)?
        .capabilities()
        .immutable;
    if changes && shared && access == 2 {
        return match confined || culvert_run::task::vfork_child().is_some() {
            // Opening what is needed could end the program, or is another process's.
            true => {
                culvert_sys::log!(
                    "a shared mapping of {} that can be written is refused under a seccomp \
                    filter, and to a child of vfork",
                    held.name()
                );
                Err(Errno::ENODEV)
            }
            false => map_written(process, held, fd, asked, region),
        };
    }
    let shadow = match changes {
        // One that cannot be made writable later (mprotect(2)); what is written from now on is
        // written to the shadow as well.
        true => culvert_cache::looked_at::keep_equal(&**held, on_demand(asked))
            .map(culvert_cache::mappable::Mappable::Other),
        false => culvert_cache::mappable::mappable(
            held.name(),
            held.file()?,
            held.is_shared().then_some(fd),
            on_demand(asked) && asked.flags & MAP_DENYWRITE == 0,
        ),
    };
    let shadow = match shadow {
        // Whoever has given up the run's user cannot look into it any more.
        Err(error) if error.errno() == Errno::EACCES && !(shared && changes) => {
            return copy(held, asked);
        }
        shadow => shadow.map_err(|error| crate::description::report(held, "mmap", &error))?,
    };
    culvert_cache::synced::maps_read_only();
    let start = map_shadow(process, held, shadow.number(), shared, asked);
    shadow.close(held.name());
    start
}

/// Whether pages of the mapping that is `asked` for may be filled when they are touched. Not what
/// is populated or locked at once: the kernel would put zeroes into the holes before anybody is
/// asked.
fn on_demand(asked: &Asked) -> bool {
    const MAP_LOCKED: usize = 0x2000;
    const MAP_POPULATE: usize = 0x8000;
    asked.protection & PROT_EXEC == 0 && asked.flags & (MAP_LOCKED | MAP_POPULATE) == 0
}

/// Maps the shadow `fd`, as the program asked for it; `read_only`: it must never become writable.
/// One that may have holes can be touched when the pager knows of it, not before (mlockall(2),
/// MCL_FUTURE).
fn map_shadow(process: &Process, held: &Held, fd: i32, read_only: bool, asked: &Asked) -> Answer {
    let Asked {
        length,
        protection,
        flags,
        offset,
        ..
    } = *asked;
    let map = |fd: i32, protection| asked.map(fd, protection, flags);
    let at_once = |fd| map(fd, protection).map(|made| made.leak() as usize);
    if !State::of(&stat_descriptor(fd)?).is_partly() {
        return at_once(fd);
    }
    let name = held.name();
    let fill =
        || filling::all(name).map_err(|error| crate::description::report(held, "mmap", &error));
    if !on_demand(asked) {
        fill()?;
        return at_once(fd);
    }
    const PROT_NONE: usize = 0;
    let writable = shadow::open_shadow(name, O_RDWR)?;
    let made = map(writable.raw(), PROT_NONE);
    process.run.posix_locks.close(name, writable);
    let made = made?;
    let start = made.address();
    let part = pager::Part {
        start,
        length,
        name,
        offset: offset as u64,
        read_only,
    };
    let ready = match pager::mapped(&part) {
        true => Ok(()),
        false => fill(),
    };
    if let Err(error) = ready.and_then(|()| made.protect(protection)) {
        pager::unmapped(start, length);
        return Err(error);
    }
    Ok(made.leak() as usize)
}

/// A shared mapping that can be written, or can be made so (mprotect(2)).
fn map_written(
    process: &Process,
    held: &Held,
    fd: i32,
    asked: &Asked,
    region: &mut Option<Mapped>,
) -> Answer {
    let Asked {
        length,
        protection,
        flags,
        offset,
        ..
    } = *asked;
    let table = &process.table;
    let failed = |error: culvert::Error| match crate::description::report(held, "mmap", &error) {
        Errno::EMFILE | Errno::ENFILE => Errno::ENOMEM,
        errno => errno,
    };
    let description = table.reference(fd).ok_or(Errno::EBADF)?;
    if let Object::File(file) = &description.object {
        // The file may be mapped when this process has closed it.
        file.shared();
    }
    let name = held.name();
    culvert_cache::recover_node(name);
    let written = protection & PROT_WRITE != 0;
    if written {
        pager::introduce();
        stores::records_for_one_more();
    }
    let mut filled = false;
    let enter = |opened: culvert_cache::follow::Opened, now| {
        filled = now;
        let node = nodes::enter(description, opened.into_own());
        if written {
            let end = (offset as u64).saturating_add(nodes::pages(length) as u64);
            node.record((offset as u64, end))?;
        }
        Ok(node)
    };
    let node =
        culvert_cache::looked_at::follow(&**held, on_demand(asked), enter).map_err(failed)?;
    culvert_run::node_paths::note(name);
    let shadow = culvert_cache::follow::followed(name)?.ok_or(Errno::EIO)?;
    let start = map_shadow(process, held, shadow.number(), false, asked)?;
    // Where something else was mapped, another thread may have stored already.
    let watch = match written && flags & MAP_FIXED == 0 {
        true => dirty::watch(start, nodes::pages(length)),
        false => Watch::No,
    };
    if filled && watch == Watch::Protected {
        dirty::enter(start, nodes::pages(length));
    }
    *region = Some(Region {
        start,
        end: start + nodes::pages(length),
        offset: offset as u64,
        written,
        watch,
        of: node,
    });
    Ok(start)
}

/// The mapping of a driver's own file of the kernel's, where the driver has one for this file. Not
/// of one that its shadow becomes once it has no name (culvert-cache, `orphans.rs`): what is
/// written from then on would not be seen there.
fn map_kernel_file(held: &Held, access: u32, asked: &Asked) -> Result<Option<usize>, Errno> {
    if held.may_go() && held.gone().is_none() {
        return Ok(None);
    }
    let mut mapped = Err(Errno::ENODEV);
    let mut map = |fd: i32| {
        let made = asked.map(fd, asked.protection, asked.flags);
        mapped = made.map(|made| made.leak() as usize);
    };
    // A shared mapping of a file that is open for writing may be made writable later (mprotect(2)).
    let stores = asked.is_shared() && access == 2;
    let part = (asked.offset as u64, asked.length as u64);
    let has_one = held
        .file()?
        .with_kernel_file(part, stores, &mut map)
        .map_err(|error| crate::description::report(held, "mmap", &error))?;
    has_one.then_some(mapped).transpose()
}

/// The mapping as a copy in anonymous memory: needs no call that a filter which allows mapping
/// files is likely to forbid. Later changes of the file are not seen, which a private mapping may
/// do anyway (mmap(2)).
fn copy(held: &Held, asked: &Asked) -> Answer {
    const MAP_PRIVATE: usize = 2;
    const PROT_READ: usize = 1;
    let flags = asked.flags & !MAP_TYPE | MAP_PRIVATE | MAP_ANONYMOUS;
    let anonymous = Asked {
        offset: 0,
        ..*asked
    };
    let made = anonymous.map(-1, PROT_READ | PROT_WRITE, flags)?;
    let file = held.readable()?;
    let spans = [Span {
        base: made.address(),
        length: asked.length,
    }];
    let mut sink = UserSink::new(&spans);
    let mut at = asked.offset as u64;
    loop {
        match file.read_at(at, &mut sink) {
            Ok(0) => break,
            Ok(count) => at += count as u64,
            Err(error) => return Err(crate::description::report(held, "mmap", &error)),
        }
    }
    made.protect(asked.protection)?;
    Ok(made.leak() as usize)
}
