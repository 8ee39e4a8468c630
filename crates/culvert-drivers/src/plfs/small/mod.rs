//! Workload `small_file`: the regular files of a directory are records and bytes in a few files, as
//! PLFS 2.5 has them ([`mod@format`]). Directories and links are those of the back ends.
//!
//! ```text
//! SmallFs     paths and handles
//! pack        the droppings of a directory: read, appended to
//! files       what their records say
//! ```
//!
//! What changes names, appends or cuts locks the directory's status file (flock(2)) and reads on
//! first, so that records of the same names follow each other in time. What writes at an offset
//! does not, once the file has a number in the process's droppings.

mod files;
mod format;
mod operations;
mod pack;

use super::filesystem::PlfsFs;
use super::host::{self, Dir};
use super::setup::{Setup, is_reserved};
use super::table::Handle as PlainHandle;
use crate::KeptFd;
use crate::passthrough::kernel;
use alloc::{sync::Arc, vec::Vec};
use culvert::path::PathFileSystem;
use culvert::{Errno, Error, Result, SetAttributes, sync::Mutex};
use culvert_sys::fd::AsFd;
use culvert_sys::raw::general as linux;
pub use format::DIRECTORY;
use format::STATUS;
use pack::{Call, Dirs, Pack};

/// Directories whose names stay in memory, as PLFS's `max_smallfile_containers`.
const MOST_PACKS: usize = 32;

/// The driver.
pub struct SmallFs {
    /// Directories, links, and files that are no small ones.
    plain: PlfsFs,
    packs: Mutex<Vec<Arc<Pack>>>,
}

/// An open file.
pub enum Handle {
    Small(Small),
    Plain(PlainHandle),
}

/// An open small file.
pub struct Small {
    pack: Arc<Pack>,
    dirs: Vec<Option<KeptFd>>,
    number: u64,
}

impl Drop for Small {
    fn drop(&mut self) {
        self.pack.state.lock().files.closed(self.number);
    }
}

/// The directory and the last name of `path`.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|&byte| byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (b"", path),
    }
}

fn hidden(path: &[u8]) -> bool {
    is_reserved(path)
        || path
            .split(|&byte| byte == b'/')
            .any(|part| part == DIRECTORY)
}

fn missing<T>(result: &Result<T>) -> bool {
    let none = |error: &Error| matches!(error.errno(), Errno::ENOENT | Errno::ENOTDIR);
    result.as_ref().err().is_some_and(none)
}

impl SmallFs {
    pub fn new(setup: Setup) -> Self {
        Self {
            plain: PlfsFs::new(Arc::new(setup)),
            packs: Mutex::new(Vec::new()),
        }
    }

    fn setup(&self) -> &Setup {
        &self.plain.setup
    }

    /// The directories of the files of `directory`; none where it never had one.
    fn dirs(&self, directory: &[u8]) -> Result<Option<Vec<Option<Dir<'static>>>>> {
        let path = match directory {
            b"" => DIRECTORY.to_vec(),
            directory => [directory, b"/", DIRECTORY].concat(),
        };
        let mut all = Vec::new();
        for at in 0..self.setup().backends.len() {
            let place = host::place(self.setup().root(at), &path);
            all.push(match place {
                place if missing(&place) && at == 0 => return Ok(None),
                place if missing(&place) => None,
                place => Some(Dir::Own(place?)),
            });
        }
        Ok(Some(all))
    }

    /// The same, made on all back ends where it is not there.
    fn make_dirs(&self, directory: &[u8]) -> Result<Vec<Option<Dir<'static>>>> {
        if let Some(dirs) = self.dirs(directory)?
            && dirs.iter().all(Option::is_some)
            && dirs
                .iter()
                .flatten()
                .all(|dir| host::status(dir, STATUS).is_ok())
        {
            return Ok(dirs);
        }
        for at in 0..self.setup().backends.len() {
            let place = host::place(self.setup().root(at), directory);
            if missing(&place) && at > 0 {
                continue;
            }
            let place = place?;
            host::make_directory(&place, DIRECTORY, 0o777)?;
            let made = host::open(&place, DIRECTORY, linux::O_PATH | linux::O_DIRECTORY, 0)?;
            host::make_file(&made, STATUS, format::MODE)?;
        }
        self.dirs(directory)?.ok_or_else(|| Errno::ENOENT.into())
    }

    /// What this process knows of the files in `dirs`.
    fn pack(&self, dirs: &Dirs<'_>) -> Result<Arc<Pack>> {
        let first = dirs[0].as_ref().ok_or(Errno::ENOENT)?;
        let identity = kernel::identity(&kernel::status(first, None)?);
        let mut packs = self.packs.lock();
        let at = packs.iter().position(|pack| pack.identity == identity);
        let pack = match at {
            Some(at) => packs.remove(at),
            None => Arc::new(Pack {
                identity,
                state: Mutex::new(pack::State::default()),
            }),
        };
        if packs.len() >= MOST_PACKS
            && let Some(idle) = packs.iter().position(|pack| Arc::strong_count(pack) == 1)
        {
            packs.remove(idle);
        }
        packs.push(Arc::clone(&pack));
        Ok(pack)
    }

    /// Runs `act` on the files in `dirs`.
    fn call<T>(
        &self,
        pack: &Pack,
        dirs: &Dirs<'_>,
        act: impl FnOnce(&mut Call<'_>) -> Result<T>,
    ) -> Result<T> {
        let mut state = pack.state.lock();
        let (setup, identity) = (self.setup(), pack.identity);
        let mut call = Call {
            setup,
            dirs,
            identity,
            state: &mut state,
        };
        act(&mut call)
    }

    /// Runs `act` on the small file at `path` and its name; none if there is no such one.
    fn at<T>(
        &self,
        path: &[u8],
        act: impl FnOnce(&Arc<Pack>, &mut Call<'_>, u64) -> Result<T>,
    ) -> Result<Option<T>> {
        if hidden(path) {
            return Err(Errno::ENOENT.into());
        }
        let (directory, name) = split(path);
        let Some(dirs) = self.dirs(directory)? else {
            return Ok(None);
        };
        let pack = self.pack(&dirs)?;
        self.call(&pack, &dirs, |call| {
            call.look()?;
            let found = call.named(name);
            found.map(|number| act(&pack, call, number)).transpose()
        })
    }

    /// The same with the directory locked.
    fn locked<T>(
        &self,
        path: &[u8],
        act: impl FnOnce(&Arc<Pack>, &mut Call<'_>, u64) -> Result<T>,
    ) -> Result<Option<T>> {
        let name = split(path).1;
        let done = self.at(path, |pack, call, _| {
            let _lock = call.lock()?;
            let found = call.named(name);
            found.map(|number| act(pack, call, number)).transpose()
        })?;
        Ok(done.flatten())
    }

    /// Runs `act` on the open file `small`.
    fn with<T>(&self, small: &Small, act: impl FnOnce(&mut Call<'_>) -> Result<T>) -> Result<T> {
        // In another table of descriptors, as a child of vfork(2) has one, the numbers may mean
        // something else; so what they mean is looked at.
        let here = small
            .dirs
            .iter()
            .flatten()
            .all(|dir| dir.table() == self.setup().keeper.table());
        let dirs: Vec<_> = small
            .dirs
            .iter()
            .map(|dir| dir.as_ref().map(|dir| Dir::Kept(dir.fd())))
            .collect();
        if !here {
            let first = dirs[0].as_ref().ok_or(Errno::ESTALE)?;
            let status = kernel::status(first, None).map_err(|_| Errno::ESTALE)?;
            if kernel::identity(&status) != small.pack.identity {
                return Err(Errno::ESTALE.into());
            }
        }
        self.call(&small.pack, &dirs, |call| {
            call.refresh()?;
            act(call)
        })
    }

    fn handle(&self, pack: &Arc<Pack>, call: &mut Call<'_>, number: u64) -> Result<Handle> {
        let keep = |dir: &Option<Dir<'_>>| {
            let dir = dir
                .as_ref()
                .map(|dir| host::place(dir.as_fd(), b""))
                .transpose()?;
            Ok(dir.map(|dir| self.setup().keeper.keep(dir)))
        };
        let dirs = call.dirs.iter().map(keep).collect::<Result<_>>()?;
        call.state.files.opened(number);
        Ok(Handle::Small(Small {
            pack: Arc::clone(pack),
            dirs,
            number,
        }))
    }

    /// Whether something other than a small file has this path.
    fn is_plain(&self, path: &[u8]) -> Result<bool> {
        match self.plain.attributes(path) {
            found if missing(&found) => Ok(false),
            found => found.map(|_| true),
        }
    }

    /// Runs `make`, which gives `path` to something that is no small file, if no such one has it.
    fn vacant(&self, path: &[u8], make: impl FnOnce() -> Result<()>) -> Result<()> {
        if hidden(path) {
            return Err(Errno::EINVAL.into());
        }
        let (directory, name) = split(path);
        let dirs = self.make_dirs(directory)?;
        let pack = self.pack(&dirs)?;
        self.call(&pack, &dirs, |call| {
            let _lock = call.lock()?;
            match call.named(name) {
                Some(_) => Err(Errno::EEXIST.into()),
                None => make(),
            }
        })
    }

    fn change(&self, call: &mut Call<'_>, number: u64, changes: &SetAttributes) -> Result<()> {
        let status = host::status(call.dirs[0].as_ref().ok_or(Errno::ESTALE)?, STATUS)?;
        let mode = u32::from(status.stx_mode) & 0o7777;
        let same = |wanted: Option<u32>, is: u32| wanted.is_none_or(|wanted| wanted == is);
        let kept = same(changes.permissions, mode)
            && same(changes.uid, status.stx_uid)
            && same(changes.gid, status.stx_gid);
        if !kept {
            let text = "all small files of a directory have one owner and one mode";
            return Err(Error::because(Errno::EPERM, text));
        }
        if changes.size.is_none() && changes.mtime.is_none() {
            return Ok(());
        }
        let _lock = call.lock()?;
        if let Some(size) = changes.size {
            call.truncate(number, size)?;
        }
        match changes.mtime {
            Some(time) => call.set_time(number, (time.seconds, time.nanoseconds)),
            None => Ok(()),
        }
    }

    /// Takes the empty directory of files away from `directory`.
    fn clear(&self, directory: &[u8]) -> Result<()> {
        let Some(dirs) = self.dirs(directory)? else {
            return Ok(());
        };
        let pack = self.pack(&dirs)?;
        self.call(&pack, &dirs, |call| {
            let _lock = call.lock()?;
            let place = host::place(self.setup().root(0), directory)?;
            let others = host::names(&place)?.len() > 1;
            if others || !call.state.files.names.is_empty() {
                return Err(Errno::ENOTEMPTY.into());
            }
            for at in 0..self.setup().backends.len() {
                if let Ok(place) = host::place(self.setup().root(at), directory) {
                    host::remove_tree(&place, DIRECTORY, 0)?;
                }
            }
            Ok(())
        })?;
        self.packs
            .lock()
            .retain(|one| one.identity != pack.identity);
        Ok(())
    }
}
