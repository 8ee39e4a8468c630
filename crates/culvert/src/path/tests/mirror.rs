//! A path-based driver that mirrors a directory, with std and a few system calls.

use crate::{
    Attributes, Caller, Capabilities, Errno, Error, FileKind, OpenFlags, RenameFlags, Result,
    SetAttributes, Timespec,
    path::{PathEntry, PathFileSystem},
};
use culvert_sys::raw::general::AT_FDCWD;
use culvert_sys::{nr, syscall};
use std::{
    ffi::{CString, OsStr},
    fs,
    os::unix::{
        ffi::OsStrExt,
        fs::{DirEntryExt, FileExt, FileTypeExt, MetadataExt, PermissionsExt, lchown, symlink},
    },
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    vec::Vec,
};

/// A directory that is removed when the test ends.
pub(super) struct Scratch(pub(super) PathBuf, bool);

impl Scratch {
    pub(super) fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = (std::process::id(), COUNT.fetch_add(1, Relaxed));
        let path =
            std::env::temp_dir().join(std::format!("culvert-path-{}-{}", number.0, number.1));
        fs::create_dir(&path).unwrap();
        Self(path, true)
    }

    /// A directory in this one, removed with it.
    pub(super) fn below(&self, name: &str) -> Self {
        let path = self.0.join(name);
        fs::create_dir(&path).unwrap();
        Self(path, false)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.1 {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}

#[derive(Clone)]
pub(super) struct Mirror {
    root: PathBuf,
    read_only: bool,
    inodes: bool,
    /// Open files are descriptors, that keep what has lost its name.
    descriptors: bool,
    /// How many calls are using a path, and whether a rename met one.
    using: Arc<AtomicUsize>,
    pub(super) met: Arc<AtomicBool>,
}

impl Mirror {
    pub(super) fn new(root: &Scratch) -> Self {
        Self {
            root: root.0.clone(),
            read_only: false,
            inodes: true,
            descriptors: true,
            using: Arc::default(),
            met: Arc::default(),
        }
    }
    pub(super) fn read_only(self) -> Self {
        Self {
            read_only: true,
            ..self
        }
    }
    pub(super) fn without_inodes(self) -> Self {
        Self {
            inodes: false,
            ..self
        }
    }
    /// As a driver would be whose back end knows no open files.
    pub(super) fn with_paths_for_handles(self) -> Self {
        Self {
            descriptors: false,
            ..self
        }
    }

    /// What a driver without files of its own would hand out.
    pub(super) fn descriptor(&self, path: &[u8], flags: OpenFlags) -> std::io::Result<fs::File> {
        let mut options = fs::OpenOptions::new();
        options.read(flags.read()).append(flags.append());
        options.write(flags.write() && !flags.append());
        options.open(self.on_disk(path))
    }

    fn on_disk(&self, path: &[u8]) -> PathBuf {
        match path {
            b"" => self.root.clone(),
            _ => self.root.join(OsStr::from_bytes(path)),
        }
    }

    fn attributes_of(&self, status: &fs::Metadata) -> Attributes {
        let time = |seconds, nanoseconds| Timespec {
            seconds,
            nanoseconds: nanoseconds as u32,
        };
        let kind = FileKind::of_mode(status.mode()).unwrap();
        Attributes {
            inode: if self.inodes { status.ino() } else { 0 },
            links: status.nlink() as u32,
            uid: status.uid(),
            gid: status.gid(),
            rdev: status.rdev(),
            size: status.size(),
            blocks: status.blocks(),
            atime: time(status.atime(), status.atime_nsec()),
            mtime: time(status.mtime(), status.mtime_nsec()),
            ctime: time(status.ctime(), status.ctime_nsec()),
            ..Attributes::new(kind, status.mode() & 0o7777)
        }
    }

    /// Gives what was just made to its maker, or to the directory's group.
    fn adopt(&self, caller: &Caller<'_>, path: &Path, mode: Option<u32>) -> Result<()> {
        let parent = fs::metadata(path.parent().unwrap()).map_err(errno)?;
        let inherits = parent.mode() & 0o2000 != 0;
        let gid = if inherits { parent.gid() } else { caller.gid };
        let _ = lchown(path, Some(caller.uid), Some(gid)); // only the superuser can
        if let Some(mode) = mode {
            let directory = fs::symlink_metadata(path).map_err(errno)?.is_dir();
            let mode = mode | if inherits && directory { 0o2000 } else { 0 };
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(errno)?;
        }
        Ok(())
    }
}

fn drop_privileges(file: &fs::File, superuser: bool) -> Result<()> {
    let mode = file.metadata().map_err(errno)?.mode() & 0o7777;
    let kept = mode & !0o4000 & if mode & 0o010 != 0 { !0o2000 } else { !0 };
    match superuser || kept == mode {
        true => Ok(()),
        false => file
            .set_permissions(fs::Permissions::from_mode(kept))
            .map_err(errno),
    }
}

fn errno(error: std::io::Error) -> Error {
    Errno::new(error.raw_os_error().unwrap_or(5)).into()
}

fn c(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap()
}

pub(super) struct Handle {
    file: fs::File,
    superuser: bool,
}

impl PathFileSystem for Mirror {
    type Handle = Handle;

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            read_only: self.read_only,
            hard_links: self.inodes,
            ..Capabilities::default()
        }
    }

    fn attributes(&self, path: &[u8]) -> Result<Attributes> {
        self.using.fetch_add(1, Relaxed);
        std::thread::yield_now();
        let status = fs::symlink_metadata(self.on_disk(path)).map_err(errno);
        self.using.fetch_sub(1, Relaxed);
        Ok(self.attributes_of(&status?))
    }

    fn list(&self, path: &[u8]) -> Result<Vec<PathEntry>> {
        let entry = |entry: std::io::Result<fs::DirEntry>| -> std::io::Result<PathEntry> {
            let (entry, kind) = entry.and_then(|e| e.file_type().map(|kind| (e, kind)))?;
            let kind = match () {
                () if kind.is_dir() => FileKind::Directory,
                () if kind.is_symlink() => FileKind::Symlink,
                () if kind.is_fifo() => FileKind::Fifo,
                () if kind.is_socket() => FileKind::Socket,
                () if kind.is_char_device() => FileKind::CharacterDevice,
                () if kind.is_block_device() => FileKind::BlockDevice,
                () => FileKind::Regular,
            };
            Ok(PathEntry {
                name: entry.file_name().as_bytes().to_vec(),
                kind,
                inode: if self.inodes { entry.ino() } else { 0 },
            })
        };
        let entries = fs::read_dir(self.on_disk(path)).map_err(errno)?;
        entries
            .map(entry)
            .collect::<std::io::Result<_>>()
            .map_err(errno)
    }

    fn readlink(&self, path: &[u8]) -> Result<Vec<u8>> {
        let target = fs::read_link(self.on_disk(path)).map_err(errno)?;
        Ok(target.as_os_str().as_bytes().to_vec())
    }

    fn open(&self, caller: &Caller<'_>, path: &[u8], flags: OpenFlags) -> Result<Handle> {
        let mut options = fs::OpenOptions::new();
        options.read(true).write(!self.read_only);
        let file = options.open(self.on_disk(path)).map_err(errno)?;
        let superuser = caller.has(crate::Rights::FSETID);
        if flags.truncate() {
            file.set_len(0).map_err(errno)?;
            drop_privileges(&file, superuser)?;
        }
        Ok(Handle { file, superuser })
    }

    fn read(&self, handle: &Handle, offset: u64, out: &mut [u8]) -> Result<usize> {
        handle.file.read_at(out, offset).map_err(errno)
    }

    fn keeps_unlinked(&self) -> bool {
        self.descriptors
    }

    fn handle_attributes(&self, handle: &Handle) -> Option<Result<Attributes>> {
        let status = self.descriptors.then(|| handle.file.metadata())?;
        Some(
            status
                .map_err(errno)
                .map(|status| self.attributes_of(&status)),
        )
    }

    fn create(&self, caller: &Caller<'_>, path: &[u8], _: OpenFlags, mode: u32) -> Result<Handle> {
        let path = self.on_disk(path);
        let mut options = fs::OpenOptions::new();
        options.read(true).write(true).create_new(true);
        let file = options.open(&path).map_err(errno)?;
        self.adopt(caller, &path, Some(mode))?;
        let superuser = caller.has(crate::Rights::FSETID);
        Ok(Handle { file, superuser })
    }

    fn write(&self, handle: &Handle, offset: u64, bytes: &[u8]) -> Result<usize> {
        let count = handle.file.write_at(bytes, offset).map_err(errno)?;
        drop_privileges(&handle.file, handle.superuser)?;
        Ok(count)
    }

    fn set_attributes(
        &self,
        caller: Option<&Caller<'_>>,
        path: &[u8],
        changes: &SetAttributes,
    ) -> Result<()> {
        let path = self.on_disk(path);
        if let Some(size) = changes.size {
            let file = fs::OpenOptions::new()
                .write(true)
                .open(&path)
                .map_err(errno)?;
            file.set_len(size).map_err(errno)?;
            drop_privileges(
                &file,
                caller.is_none_or(|who| who.has(crate::Rights::FSETID)),
            )?;
        }
        if changes.uid.is_some() || changes.gid.is_some() {
            lchown(&path, changes.uid, changes.gid).map_err(errno)?;
        }
        if let Some(mode) = changes.permissions {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).map_err(errno)?;
        }
        if changes.atime.is_some() || changes.mtime.is_some() {
            const UTIME_OMIT: i64 = 0x3fff_fffe;
            const AT_SYMLINK_NOFOLLOW: usize = 0x100;
            let time = |time: Option<Timespec>| match time {
                Some(time) => [time.seconds, i64::from(time.nanoseconds)],
                None => [0, UTIME_OMIT],
            };
            let times = [time(changes.atime), time(changes.mtime)];
            let path = c(&path);
            let args = [
                AT_FDCWD as usize,
                path.as_ptr() as usize,
                times.as_ptr() as usize,
                AT_SYMLINK_NOFOLLOW,
            ];
            // SAFETY: path and times outlive the call.
            unsafe { syscall::call(nr::UTIMENSAT, args) }?;
        }
        Ok(())
    }

    fn set_handle_attributes(
        &self,
        handle: &Handle,
        changes: &SetAttributes,
    ) -> Option<Result<()>> {
        let size = changes.size.filter(|_| self.descriptors)?;
        let cut = handle.file.set_len(size).map_err(errno);
        Some(cut.and_then(|()| drop_privileges(&handle.file, handle.superuser)))
    }

    fn mkdir(&self, caller: &Caller<'_>, path: &[u8], mode: u32) -> Result<()> {
        let path = self.on_disk(path);
        fs::create_dir(&path).map_err(errno)?;
        self.adopt(caller, &path, Some(mode))
    }

    fn mknod(&self, caller: &Caller<'_>, path: &[u8], mode: u32, rdev: u64) -> Result<()> {
        let path = self.on_disk(path);
        let name = c(&path);
        // SAFETY: the path outlives the call.
        unsafe {
            syscall::call(
                nr::MKNODAT,
                [
                    AT_FDCWD as usize,
                    name.as_ptr() as usize,
                    mode as usize,
                    rdev as usize,
                ],
            )
        }?;
        self.adopt(caller, &path, Some(mode & 0o7777))
    }

    fn symlink(&self, caller: &Caller<'_>, path: &[u8], target: &[u8]) -> Result<()> {
        let path = self.on_disk(path);
        symlink(OsStr::from_bytes(target), &path).map_err(errno)?;
        self.adopt(caller, &path, None)
    }

    fn link(&self, _: &Caller<'_>, path: &[u8], new: &[u8]) -> Result<()> {
        match self.inodes {
            true => fs::hard_link(self.on_disk(path), self.on_disk(new)).map_err(errno),
            false => Err(Errno::EPERM.into()),
        }
    }

    fn unlink(&self, _: &Caller<'_>, path: &[u8]) -> Result<()> {
        fs::remove_file(self.on_disk(path)).map_err(errno)
    }

    fn rmdir(&self, _: &Caller<'_>, path: &[u8]) -> Result<()> {
        fs::remove_dir(self.on_disk(path)).map_err(errno)
    }

    fn rename(&self, _: &Caller<'_>, from: &[u8], to: &[u8], flags: RenameFlags) -> Result<()> {
        let (from, to) = (c(&self.on_disk(from)), c(&self.on_disk(to)));
        let args = [
            AT_FDCWD as usize,
            from.as_ptr() as usize,
            AT_FDCWD as usize,
            to.as_ptr() as usize,
            flags.0 as usize,
        ];
        // SAFETY: both paths outlive the call.
        let moved = unsafe { syscall::call(nr::RENAMEAT2, args) };
        self.met.fetch_or(self.using.load(Relaxed) > 0, Relaxed);
        Ok(moved.map(drop)?)
    }
}
