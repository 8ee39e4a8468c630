//! Mapping a file: of the driver's own file of the kernel's where there is one, else of the shadow
//! (`culvert-cache`). What is checked comes in the order of `do_mmap`, mm/mmap.c.

use crate::answer::Answer;
use crate::description::{Held, Object, may_read};
use crate::process::Process;
use culvert::{Caching, Errno};
use culvert_cache::mappable::{self, Mappable};
use culvert_cache::nodes::{self, Mapped};
use culvert_cache::regions::{Region, Watch};
use culvert_cache::{State, dirty, filling, pager, shadow, stores};
use culvert_run::memory::{Span, UserSink};
use culvert_run::stat_descriptor;
use culvert_sys::raw::general::O_RDWR;
use culvert_sys::{memory, nr, syscall};

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

/// A file that mmap(2) is asked to map.
pub struct FileMapping<'m> {
    /// The process.
    pub process: &'m Process,
    /// The file, and the descriptor that names it.
    pub held: &'m Held,
    /// That descriptor.
    pub fd: i32,
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

/// Where a file was mapped, and what may be stored into.
type Mapping = (usize, Option<Mapped>);

impl FileMapping<'_> {
    /// Maps it.
    pub fn make(&self) -> Result<Mapping, Errno> {
        let access = self.check()?;
        let made = self.make_checked(access)?;
        if self.protection & PROT_EXEC != 0 {
            culvert_intercept::code_mapped(made.0, self.length);
        }
        Ok(made)
    }

    /// What is wrong with it before any memory is looked at; else how the descriptor is open
    /// (O_ACCMODE).
    fn check(&self) -> Result<u32, Errno> {
        if !self.offset.is_multiple_of(4096) {
            return Err(Errno::EINVAL);
        }
        match self.held.object {
            Object::File(_) | Object::Directory => {}
            Object::Path => return Err(Errno::EBADF),
            // The kernel says what is wrong with mapping a FIFO.
            Object::Fifo | Object::Broken => return Err(Errno::EIO),
        }
        let kind = self.flags & MAP_TYPE;
        if !matches!(kind, 1..=MAP_SHARED_VALIDATE) {
            return Err(Errno::EINVAL);
        }
        if kind == MAP_SHARED_VALIDATE && self.flags & !LEGACY_MAP_MASK != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        let access = self.held.flags(self.fd)? & 3;
        // mmap(2), EACCES: no read permission, or a shared writable mapping of a descriptor that is
        // not O_RDWR.
        if !may_read(access) || (self.stores_into_file() && access != 2) {
            return Err(Errno::EACCES);
        }
        if matches!(self.held.object, Object::Directory) {
            return Err(Errno::ENODEV);
        }
        // As the kernel mount says (`fuse_file_mmap`, fs/fuse/file.c).
        if self.is_shared() && self.held.file()?.caching() == Caching::Never {
            return Err(Errno::ENODEV);
        }
        Ok(access)
    }

    fn make_checked(&self, access: u32) -> Result<Mapping, Errno> {
        let confined = culvert_run::task::is_confined();
        if confined && !self.stores_into_file() {
            return self.copy();
        }
        // A shared mapping of a file that is open for writing may be made writable later
        // (mprotect(2)).
        let may_store = self.is_shared() && access == 2;
        if !confined && let Some(start) = self.map_kernel_file(may_store)? {
            return Ok((start, None));
        }
        let file_system = culvert_cache::file_system(self.held.mount)?;
        if file_system.capabilities().immutable {
            return self.map_unchanging();
        }
        if !may_store {
            return self.map_equal();
        }
        // Opening what is needed could end the program, or is another process's.
        if confined || culvert_run::task::vfork_child().is_some() {
            culvert_sys::log!(
                "a shared mapping of {} that can be written is refused under a seccomp filter, and \
                to a child of vfork",
                self.held.name()
            );
            return Err(Errno::ENODEV);
        }
        self.map_written()
    }

    fn is_shared(&self) -> bool {
        matches!(self.flags & MAP_TYPE, MAP_SHARED | MAP_SHARED_VALIDATE)
    }

    fn stores_into_file(&self) -> bool {
        self.is_shared() && self.protection & PROT_WRITE != 0
    }

    /// Whether pages may be filled when they are touched. Not what is populated or locked at once:
    /// the kernel would put zeroes into the holes before anybody is asked.
    fn on_demand(&self) -> bool {
        const MAP_LOCKED: usize = 0x2000;
        const MAP_POPULATE: usize = 0x8000;
        self.protection & PROT_EXEC == 0 && self.flags & (MAP_LOCKED | MAP_POPULATE) == 0
    }

    /// The program's mapping, but of this file, with this protection and these flags. It is the
    /// program's when it is left there.
    fn map(&self, fd: i32, protection: usize, flags: usize) -> Result<memory::Mapping, Errno> {
        let (address, length) = (self.address, self.length);
        let arguments = [address, length, protection, flags, fd as usize, self.offset];
        // SAFETY: the program's own mapping asked, with its own address and length, of the content
        // of the file that it names. Nobody knows it yet.
        unsafe {
            let start = syscall::call(nr::MMAP, arguments)?;
            Ok(memory::Mapping::from_leaked(start as *mut u8, length))
        }
    }

    /// The errno of a failed operation on the file; its cause goes to the log.
    fn failed(&self, error: &culvert::Error) -> Errno {
        crate::description::report(self.held, "mmap", error)
    }

    /// A mapping of the shadow of a file that nobody can change.
    fn map_unchanging(&self) -> Result<Mapping, Errno> {
        let shadow = mappable::mappable(
            self.held.name(),
            self.held.file()?,
            self.held.is_shared().then_some(self.fd),
            self.on_demand() && self.flags & MAP_DENYWRITE == 0,
        );
        match shadow {
            // Whoever has given up the run's user cannot look into it any more.
            Err(error) if error.errno() == Errno::EACCES => self.copy(),
            shadow => self.map_read_only(shadow),
        }
    }

    /// A mapping of the shadow that cannot be made writable later (mprotect(2)); what is written
    /// from now on is written to the shadow as well.
    fn map_equal(&self) -> Result<Mapping, Errno> {
        let shadow = culvert_cache::strangers::keep_equal(&**self.held, self.on_demand());
        match shadow {
            Err(error) if error.errno() == Errno::EACCES && !self.is_shared() => self.copy(),
            shadow => self.map_read_only(shadow.map(Mappable::Other)),
        }
    }

    fn map_read_only(&self, shadow: culvert::Result<Mappable>) -> Result<Mapping, Errno> {
        let shadow = shadow.map_err(|error| self.failed(&error))?;
        culvert_cache::synced::maps_read_only();
        let start = self.map_shadow(shadow.number(), self.is_shared());
        shadow.close(self.held.name());
        Ok((start?, None))
    }

    /// Maps the shadow `fd`, as the program asked for it; `read_only`: it must never become
    /// writable. One that may have holes can be touched when the pager knows of it, not before
    /// (mlockall(2), MCL_FUTURE).
    fn map_shadow(&self, fd: i32, read_only: bool) -> Answer {
        let at_once = |fd| {
            let made = self.map(fd, self.protection, self.flags);
            made.map(|made| made.leak() as usize)
        };
        if !State::of(&stat_descriptor(fd)?).is_partly() {
            return at_once(fd);
        }
        let name = self.held.name();
        let fill = || filling::all(name).map_err(|error| self.failed(&error));
        if !self.on_demand() {
            fill()?;
            return at_once(fd);
        }
        const PROT_NONE: usize = 0;
        let writable = shadow::open_shadow(name, O_RDWR)?;
        let made = self.map(writable.raw(), PROT_NONE, self.flags);
        self.process.run.posix_locks.close(name, writable);
        let made = made?;
        let part = pager::Part {
            start: made.address(),
            length: self.length,
            name,
            offset: self.offset as u64,
            read_only,
        };
        let ready = match pager::mapped(&part) {
            true => Ok(()),
            false => fill(),
        };
        if let Err(error) = ready.and_then(|()| made.protect(self.protection)) {
            pager::unmapped(part.start, part.length);
            return Err(error);
        }
        Ok(made.leak() as usize)
    }

    /// A shared mapping that can be written, or can be made so (mprotect(2)).
    fn map_written(&self) -> Result<Mapping, Errno> {
        let failed = |error| match self.failed(&error) {
            Errno::EMFILE | Errno::ENFILE => Errno::ENOMEM,
            errno => errno,
        };
        let table = &self.process.table;
        let description = table.reference(self.fd).ok_or(Errno::EBADF)?;
        if let Object::File(file) = &description.object {
            // The file may be mapped when this process has closed it.
            file.shared();
        }
        let name = self.held.name();
        culvert_cache::recover_node(name);
        let written = self.protection & PROT_WRITE != 0;
        if written {
            pager::introduce();
            stores::records_for_one_more();
        }
        let (offset, pages) = (self.offset as u64, nodes::pages(self.length));
        let mut filled = false;
        let enter = |opened: culvert_cache::follow::Opened, now| {
            filled = now;
            let node = nodes::enter(description, opened.into_own());
            if written {
                node.record((offset, offset.saturating_add(pages as u64)))?;
            }
            Ok(node)
        };
        let node = culvert_cache::strangers::follow(&**self.held, self.on_demand(), enter)
            .map_err(failed)?;
        culvert_run::node_paths::note(name);
        let shadow = culvert_cache::follow::followed(name)?.ok_or(Errno::EIO)?;
        let start = self.map_shadow(shadow.number(), false)?;
        // Where something else was mapped, another thread may have stored already.
        let watch = match written && self.flags & MAP_FIXED == 0 {
            true => dirty::watch(start, pages),
            false => Watch::No,
        };
        if filled && watch == Watch::Protected {
            dirty::enter(start, pages);
        }
        let region = Region {
            start,
            end: start + pages,
            offset,
            written,
            watch,
            of: node,
        };
        Ok((start, Some(region)))
    }

    /// The mapping of a driver's own file of the kernel's, where the driver has one for this file;
    /// `stores`: it may be stored into. Not of one that its shadow becomes once it has no name
    /// (`orphans.rs` of `culvert-cache`): what is written from then on would not be seen there.
    fn map_kernel_file(&self, stores: bool) -> Result<Option<usize>, Errno> {
        if self.held.may_go() && self.held.orphan().is_none() {
            return Ok(None);
        }
        let mut mapped = Err(Errno::ENODEV);
        let mut map = |fd: i32| {
            let made = self.map(fd, self.protection, self.flags);
            mapped = made.map(|made| made.leak() as usize);
        };
        let part = (self.offset as u64, self.length as u64);
        let has_one = self
            .held
            .file()?
            .with_kernel_file(part, stores, &mut map)
            .map_err(|error| self.failed(&error))?;
        has_one.then_some(mapped).transpose()
    }

    /// The mapping as a copy in anonymous memory: needs no call that a filter which allows mapping
    /// files is likely to forbid. Later changes of the file are not seen, which a private mapping
    /// may do anyway (mmap(2)).
    fn copy(&self) -> Result<Mapping, Errno> {
        const MAP_PRIVATE: usize = 2;
        const PROT_READ: usize = 1;
        let flags = self.flags & !MAP_TYPE | MAP_PRIVATE | MAP_ANONYMOUS;
        let anonymous = Self { offset: 0, ..*self };
        let made = anonymous.map(-1, PROT_READ | PROT_WRITE, flags)?;
        let file = self.held.readable()?;
        let spans = [Span {
            base: made.address(),
            length: self.length,
        }];
        let mut sink = UserSink::new(&spans);
        let mut at = self.offset as u64;
        loop {
            match file.read_at(at, &mut sink) {
                Ok(0) => break,
                Ok(count) => at += count as u64,
                Err(error) => return Err(self.failed(&error)),
            }
        }
        made.protect(self.protection)?;
        Ok((made.leak() as usize, None))
    }
}
