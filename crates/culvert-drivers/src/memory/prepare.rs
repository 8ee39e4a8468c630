//! The two moments of a memory mount: `prepare` makes or finds the shared file, `open` joins it.

use super::{
    MemoryFs,
    core::{Core, join},
    host,
    image::{Image, damaged},
    kernel_files,
    layout::{self, BLOCK, header},
    options::{self, Options},
};
use crate::archive::host as files;
use crate::{Environment, OwnedFd, Prepared, Progress, Warnings};
use alloc::{boxed::Box, format, sync::Arc};
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering::*};
use culvert::{Errno, Error, FileSystem, Result, mount::Mount};
use culvert_sys::{clock::Clock, fs, sync::Mutex};

/// Blocks that a new file has at once: the least that a file system needs.
const FIRST: u64 = layout::FEWEST_BLOCKS;

/// Makes the shared file of `mount`, or finds the one that has its name, and returns the mount with
/// the file as its source.
pub fn prepare(
    mount: &Mount,
    environment: &Environment<'_>,
    _progress: &mut dyn FnMut(Progress),
) -> Result<Prepared> {
    let options = Options::parse(mount)?;
    let run = environment.run_directory.ok_or_else(|| {
        Error::because(Errno::ENOENT, "type memory needs a run directory to lie in")
    })?;
    let mut travelling = mount.clone();
    let summary = match options::name_of(&mount.source)? {
        None => {
            let path = [run, format!("/memory.{:016x}", files::random()).as_bytes()].concat();
            let fd = host::create(&path)?;
            // The run directory is what keeps others out. A process that has changed its user must
            // be able to open the file anew after a fork.
            let formatted = fs::fchmod(&fd, 0o666)
                .map_err(Error::from)
                .and_then(|()| kernel_files::make_directory(&path, 0o777))
                .and_then(|()| format(&fd, &options));
            if let Err(error) = formatted {
                let _ = files::unlink(&path);
                return Err(error);
            }
            travelling.source = path;
            "a file system in memory, for this run"
        }
        Some(name) => {
            let base = &run[..run.iter().rposition(|&byte| byte == b'/').unwrap_or(0)];
            let directory = [base, b"/memory"].concat();
            match host::make_directory(&directory) {
                Ok(()) | Err(Errno::EEXIST) => {}
                Err(errno) => return Err(errno.into()),
            }
            private(&host::open_directory(&directory)?, true)?;
            travelling.source = [&directory[..], b"/", name].concat();
            match host::open(&travelling.source) {
                Ok(fd) => adjust(fd, &travelling.source, &options)?,
                Err(Errno::ENOENT) => make_named(&directory, &travelling.source, &options)?,
                Err(Errno::ELOOP) => return Err(not_ours("a symbolic link")),
                Err(errno) => return Err(errno.into()),
            }
            "a named file system in memory"
        }
    };
    Ok(Prepared {
        mount: travelling,
        warnings: Warnings::default(),
        summary: summary.into(),
        index: None,
    })
}

fn not_ours(what: &str) -> Error {
    Error::because(Errno::EACCES, format!("its file is {what}"))
}

/// Refuses what others may change, or is not this user's.
fn private(fd: &OwnedFd, directory: bool) -> Result<()> {
    let status = files::status(fd)?;
    if status.mode & 0o077 != 0 && status.uid == files::effective_user() {
        return Err(not_ours("open to others (its mode must be 0600 or 0700)"));
    }
    match directory && status.uid == files::effective_user() {
        true => Ok(()),
        false => ours(fd),
    }
}

/// Refuses what is another user's, or no regular file.
fn ours(fd: &OwnedFd) -> Result<()> {
    let status = files::status(fd)?;
    if status.uid != files::effective_user() {
        return Err(not_ours("another user's"));
    }
    match status.is_regular() {
        true => Ok(()),
        false => Err(not_ours("no regular file")),
    }
}

/// Makes a named file system: complete when it gets its name. Another run may have been quicker.
fn make_named(directory: &[u8], path: &[u8], options: &Options) -> Result<()> {
    let fd = host::create_unnamed(directory)?;
    format(&fd, options)?;
    match files::name(&fd, path) {
        Ok(()) | Err(Errno::EEXIST) => adjust(host::open(path)?, path, options),
        Err(errno) => Err(errno.into()),
    }
}

/// Makes the file system of `fd` as large as the options want; what they say of its root counts
/// only for a new one.
fn adjust(fd: OwnedFd, path: &[u8], options: &Options) -> Result<()> {
    private(&fd, false)?;
    kernel_files::make_directory(path, 0o700)?;
    let core = join_core(fd, path, &Environment::default())?;
    core.remove_dangling()?;
    let mut change = core.change()?;
    for (index, wanted, what) in [
        (header::LIMIT, options.blocks, "size"),
        (header::INODES, options.inodes, "inodes"),
    ] {
        let Some(wanted) = wanted else { continue };
        let there = change.header(index)?;
        if wanted < there {
            return Err(Error::because(
                Errno::EINVAL,
                format!(
                    "option {what}: it has more already ({there} blocks or inodes), and can only grow"
                ),
            ));
        }
        change.set_header(index, wanted)?;
    }
    change.commit();
    Ok(())
}

/// Writes an empty file system to `fd`.
fn format(fd: &OwnedFd, options: &Options) -> Result<()> {
    let free = host::free_space(fd)? / BLOCK;
    let blocks = match options.blocks {
        Some(blocks) => blocks,
        None => (free / 2).clamp(layout::FEWEST_BLOCKS, layout::MOST_BLOCKS),
    };
    host::set_aside(fd, 0, 0, FIRST * BLOCK)
        .map_err(|errno| Error::because(errno, "no room for a memory file system"))?;
    let core = core_of(host::reopen(fd)?, None, &Environment::default())?;
    core.image.has_grown(FIRST);
    let inodes = options.inodes.unwrap_or(blocks.min(layout::MOST_INODES));
    for (index, value) in [
        (header::LIMIT, blocks),
        (header::INODES, inodes),
        (header::SEED, files::random()),
        (header::GROWN, FIRST),
        (header::FREE, FIRST - layout::RESERVED),
        (header::INODE_COUNTS, join(0, layout::ROOT)),
    ] {
        core.image.header(index)?.store(value, Relaxed);
    }
    let bitmap = core.image.word(layout::FIRST_BITMAP * BLOCK)?;
    bitmap.store((1 << layout::RESERVED) - 1, Relaxed);
    let owner = culvert::Caller {
        uid: options.uid.unwrap_or_else(files::effective_user),
        gid: options.gid.unwrap_or_else(files::effective_group),
        groups: &[],
        pid: 0,
        umask: 0,
        rights: None,
    };
    let mode = 0o040000 | options.mode.unwrap_or(0o755);
    let mut change = core.change()?;
    let root = change.new_inode(&owner, None, mode)?;
    change.set_links(&root, 2, root.number)?;
    change.commit();
    let magic = core.image.header(header::MAGIC)?;
    magic.store(layout::MAGIC, Release);
    Ok(())
}

/// The file system of a mount that [`prepare`] made ready.
pub fn open(mount: &Mount, environment: &Environment<'_>) -> Result<Box<dyn FileSystem>> {
    let fd = host::open(&mount.source)?;
    ours(&fd)?;
    let mut core = join_core(fd, &mount.source, environment)?;
    core.run = environment.run_directory.map(<[u8]>::to_vec);
    core.in_use = environment.in_use;
    core.join_run()?;
    // A file system that nobody else uses is tidied up: what dead processes kept.
    let (orphan, _) = super::core::split(core.header(header::ORPHANS)?);
    if orphan != 0 {
        core.reclaim()?;
    }
    Ok(Box::new(MemoryFs {
        core: Arc::new(core),
        read_only: mount.read_only(),
        alone: environment.alone && lies_in(&mount.source, environment.run_directory),
    }))
}

/// Whether the shared file `source` is of this run alone: it lies in the run's directory, where
/// those with a name do not.
fn lies_in(source: &[u8], run: Option<&[u8]>) -> bool {
    let rest = run.and_then(|run| source.strip_prefix(run));
    rest.is_some_and(|rest| rest.first() == Some(&b'/'))
}

/// Joins the file system in `fd`; `EIO` when there is none.
fn join_core(fd: OwnedFd, path: &[u8], environment: &Environment<'_>) -> Result<Core> {
    if files::status(&fd)?.size < FIRST * BLOCK {
        return Err(damaged("the file is too short for a memory file system"));
    }
    let core = core_of(fd, Some(path), environment)?;
    core.image.has_grown(1);
    if core.header(header::MAGIC)? != layout::MAGIC {
        return Err(damaged(
            "the file is no memory file system, or one of another version of culvert",
        ));
    }
    core.attach()?;
    Ok(core)
}

fn core_of(fd: OwnedFd, path: Option<&[u8]>, environment: &Environment<'_>) -> Result<Core> {
    let files = match path {
        Some(path) => kernel_files::Directory::open(path, &fd, environment.keeper)?,
        None => None,
    };
    Ok(Core {
        files,
        image: Image::new(environment.keeper.keep(fd)),
        proof: Mutex::new(None),
        vacant: Mutex::new(None),
        keeper: environment.keeper,
        slot: AtomicU32::new(0),
        slot_at: AtomicPtr::default(),
        opened: Mutex::new(Default::default()),
        run: None,
        run_number: AtomicU32::new(0),
        in_use: None,
        places: Default::default(),
        paths: Default::default(),
        clock: Clock::new(),
    })
}

/// The file system in the shared file `path`, for tests.
#[cfg(any(test, feature = "testing"))]
pub fn joined(path: &[u8]) -> Result<Core> {
    join_core(host::open(path)?, path, &Environment::default())
}
