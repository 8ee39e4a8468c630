//! The two moments of a memory mount: `prepare` makes or finds the shared file, `open` joins it.

use super::{
    MemoryFs,
    core::{Core, join},
    host,
    image::{Image, damaged},
    kernel_files,
    layout::{self, BLOCK, header},
    options::{self, Options},
    spill,
};
use crate::archive::host as files;
use crate::{Environment, OwnedFd, Prepared, Progress, Warnings};
use alloc::{boxed::Box, format, sync::Arc};
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering::*};
use culvert::{Errno, Error, FileSystem, Result, mount::Mount};
use culvert_sys::raw::general as linux;
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
    let mut options = Options::parse(mount)?;
    let mut travelling = mount.clone();
    if let Some(spill) = options
        .spill
        .as_mut()
        .filter(|path| !path.starts_with(b"/"))
    {
        // Other processes will have other working directories.
        *spill = [&files::current_directory()?[..], b"/", spill].concat();
        travelling.options.retain(|(name, _)| name != "spill");
        travelling.options.push(("spill".into(), spill.clone()));
    }
    if let Some(spill) = &options.spill
        && lies_below(spill, &mount.target)
    {
        let why = "option spill: the directory lies below the mount, which hides it";
        return Err(Error::because(Errno::EINVAL, why));
    }
    let run = environment.run_directory.ok_or_else(|| {
        Error::because(Errno::ENOENT, "type memory needs a run directory to lie in")
    })?;
    let summary = match options::name_of(&mount.source)? {
        None => {
            let path = [run, format!("/memory.{:016x}", files::random()).as_bytes()].concat();
            let fd = host::create(&path)?;
            // The run directory is what keeps others out. A process that has changed its user must
            // be able to open the file anew after a fork.
            let formatted = fs::fchmod(&fd, 0o666)
                .map_err(Error::from)
                .and_then(|()| kernel_files::make_directory(&path, 0o777))
                .and_then(|()| spill_of(&options, &path, true))
                .and_then(|spill| {
                    format(&fd, &options, spill.as_ref())?;
                    if let Some(spill) = spill {
                        spill.link(&path)?;
                        spill.keep();
                    }
                    Ok(())
                });
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

/// Whether the absolute path `path` is `directory`, or lies in it.
fn lies_below(path: &[u8], directory: &[u8]) -> bool {
    let rest = path.strip_prefix(directory);
    rest.is_some_and(|rest| !directory.is_empty() && matches!(rest.first(), None | Some(b'/')))
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

/// A new spill, where one is wanted.
fn spill_of(options: &Options, image: &[u8], shared: bool) -> Result<Option<spill::Made>> {
    let directory = options.spill.as_deref();
    directory
        .map(|directory| spill::Made::new(directory, image, shared))
        .transpose()
}

/// Makes a named file system: complete when it gets its name. Another run may have been quicker.
fn make_named(directory: &[u8], path: &[u8], options: &Options) -> Result<()> {
    let fd = host::create_unnamed(directory)?;
    let spill = spill_of(options, path, false)?;
    format(&fd, options, spill.as_ref())?;
    let named;
    if let Some(spill) = &spill {
        // One at a time: the link must be that of the one that gets the name.
        let directory = host::open_directory(directory)?;
        culvert_sys::fd::flock(&directory, linux::LOCK_EX)?;
        match files::status_of(path) {
            Err(Errno::ENOENT) => spill.link(path)?,
            _ => return adjust(host::open(path)?, path, options),
        }
        named = name(&fd, path)?;
        if !named {
            // One without a spill was quicker.
            spill.unlink(path)?;
        }
    } else {
        named = name(&fd, path)?;
    }
    if let Some(spill) = spill
        && named
    {
        spill.keep();
    }
    adjust(host::open(path)?, path, options)
}

/// Gives the file the name `path`; whether no other had it.
fn name(fd: &OwnedFd, path: &[u8]) -> Result<bool> {
    match files::name(fd, path) {
        Ok(()) => Ok(true),
        Err(Errno::EEXIST) => Ok(false),
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
    if let Some(policy) = &options.numa {
        policy.set(core.image.fd(), core.header(header::LIMIT)?)?;
    }
    let has_spill = core.image.spill().is_some();
    if options.spill.is_some() && !has_spill {
        return Err(Error::because(
            Errno::EINVAL,
            "option spill: it was made without one, and gets none later",
        ));
    }
    let mut change = core.change()?;
    for (index, wanted, what) in [
        // What is spilled begins where memory ends.
        (header::LIMIT, options.blocks.filter(|_| !has_spill), "size"),
        (header::INODES, options.inodes, "inodes"),
    ] {
        let Some(wanted) = wanted else { continue };
        let there = change.header(index)?;
        if wanted < there {
            return Err(Error::because(
                Errno::EINVAL,
                format!(
                    "option {what}: it has more already ({there} blocks or inodes), and can only \
                    grow"
                ),
            ));
        }
        change.set_header(index, wanted)?;
    }
    change.commit();
    Ok(())
}

/// Writes an empty file system to `fd`, which goes on in `spill`.
fn format(fd: &OwnedFd, options: &Options, spill: Option<&spill::Made>) -> Result<()> {
    let free = host::free_space(fd)? / BLOCK;
    let blocks = match options.blocks {
        Some(blocks) => blocks,
        None => (free / 2).clamp(layout::FEWEST_BLOCKS, layout::MOST_BLOCKS),
    };
    let (mut limit, mut id) = (blocks, 0);
    if let Some(spill) = spill {
        let more = options.spill_blocks.unwrap_or(spill.free / BLOCK);
        limit = blocks.saturating_add(more).min(layout::MOST_BLOCKS);
        id = spill.id;
    }
    if let Some(policy) = &options.numa {
        policy.set(fd.borrow(), blocks)?;
    }
    host::set_aside(fd, 0, 0, FIRST * BLOCK)
        .map_err(|errno| Error::because(errno, "no room for a memory file system"))?;
    let core = core_of(host::reopen(fd)?, None, &Environment::default())?;
    core.image.has_grown(FIRST);
    let inodes = options.inodes.unwrap_or(limit.min(layout::MOST_INODES));
    for (index, value) in [
        (header::LIMIT, limit),
        (header::SPLIT, if id == 0 { 0 } else { blocks }),
        (header::SPILL, id),
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
    let mut core = core_of(fd, Some(path), environment)?;
    core.image.has_grown(1);
    if core.header(header::MAGIC)? != layout::MAGIC {
        return Err(damaged(
            "the file is no memory file system, or one of another version of culvert",
        ));
    }
    let id = core.header(header::SPILL)?;
    if id != 0 {
        let owner = files::status(core.image.fd())?.uid;
        let (place, pages) = spill::open(path, id, owner)?;
        // Mapped files lie there, too: the memory is for the blocks.
        let path = spill::pages_of(&place);
        core.files = kernel_files::Directory::open(&path, &pages, environment.keeper)?;
        core.image.spills_to(environment.keeper.keep(pages))?;
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

/// The file system in the shared file `path`, for who looks at it.
pub fn joined(path: &[u8]) -> Result<Core> {
    let fd = host::open(path)?;
    ours(&fd)?;
    join_core(fd, path, &Environment::default())
}

/// `core` as a file system that is only looked at.
pub fn read_only(core: Core) -> MemoryFs {
    MemoryFs {
        core: Arc::new(core),
        read_only: true,
        alone: false,
    }
}
