//! What an open file has open beside it: the mirrors of its directory's entry and of its own node,
//! opened as the program opened the file. The kernel tells of their opening and, when the last
//! process has closed them, of their end.
//!
//! Over exec they go with the descriptors that do, and the next program finds its own by the node
//! that they stand for.

use super::{Description, Object};
use crate::watch::{Event, count, mirror_of, raise_at, tells};
use alloc::vec::Vec;
use core::ffi::CStr;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::*;
use culvert::Node;
use culvert_drivers::KeptFd;
use culvert_run::task::{self, tables};
use culvert_run::{ShadowName, descriptor_path};
use culvert_sys::fd::{Command, fcntl};
use culvert_sys::raw::general::{O_DIRECTORY, O_NONBLOCK};
use culvert_sys::sync::Mutex;
use culvert_sys::{BorrowedFd, OwnedFd};

const ACCESS_MODE: u32 = 3;
const O_PATH: u32 = culvert_run::files::O_PATH;

/// The companions of a description.
pub struct Companions {
    /// What [`count`] was when they were last looked for.
    known: AtomicU32,
    open: Mutex<Open>,
}

/// In the order in which the kernel tells their events.
struct Open {
    entry: Option<KeptFd>,
    own: Option<KeptFd>,
}

impl Default for Companions {
    fn default() -> Self {
        Self {
            known: AtomicU32::new(0),
            open: Mutex::new(Open {
                entry: None,
                own: None,
            }),
        }
    }
}

/// How a description's companions are opened.
fn flags_of(flags: u32, directory: bool) -> u32 {
    let kind = if directory { O_DIRECTORY } else { 0 };
    // The fourth access mode is for ioctl alone, and wants the right to write.
    flags & ACCESS_MODE | O_NONBLOCK | kind
}

fn open(path: &CStr, flags: u32) -> Option<KeptFd> {
    let opened = culvert_run::files::open(path, flags, 0).ok()?;
    Some(culvert_run::internal::keeper().keep(OwnedFd::from_raw(opened.into_raw())))
}

impl Description {
    /// Its file was just opened, under the name `at` (directory, name), with `flags`; it was cut by
    /// that if it is `truncated`.
    #[inline]
    pub fn tell_opened(&self, at: Option<(Node, &[u8])>, flags: u32, truncated: bool) {
        if tells() && flags & O_PATH == 0 {
            self.open_companions(at, flags);
            if truncated {
                self.tell(Event::Modify);
            }
        }
    }

    #[cold]
    fn open_companions(&self, at: Option<(Node, &[u8])>, flags: u32) {
        let flags = flags_of(flags, matches!(self.object, Object::Directory));
        let mut companions = self.companions.open.lock();
        self.companions.known.store(count(), Relaxed);
        if let Some((directory, name)) = at
            && let Some(mirror) = mirror_of(self.mount, directory)
        {
            companions.entry = open(&mirror.entry(name), flags);
        }
        if let Some(own) = mirror_of(self.mount, self.node) {
            companions.own = open(own.path(), flags);
        }
    }

    /// Tells that `event` happened to it by this description.
    #[inline]
    pub fn tell(&self, event: Event) {
        if tells() {
            self.tell_companions(event);
        }
    }

    #[cold]
    fn tell_companions(&self, event: Event) {
        self.look_for_companions();
        let companions = self.companions.open.lock();
        // A child of vfork has copies of its parent's in its own table.
        let (own, child) = (tables::number(), task::vfork_child().is_some());
        let opened = [&companions.entry, &companions.own].into_iter().flatten();
        for companion in opened.filter(|it| child || it.table() == own) {
            raise_at(companion.raw(), event);
        }
    }

    /// Opens the companions that it has not, where something was watched since it was looked at.
    fn look_for_companions(&self) {
        // What a child of vfork opens is in its own table, and this memory is its parent's, too.
        if task::vfork_child_with_table().is_some() {
            return;
        }
        let now = count();
        if self.companions.known.swap(now, Relaxed) == now {
            return;
        }
        let mut companions = self.companions.open.lock();
        let directory = matches!(self.object, Object::Directory);
        // Who alone has it can tell of its end; of one that others have, too, nobody knows who will
        // be the last, so that nothing is told of that.
        let flags = match self.is_shared() || matches!(self.object, Object::Path) {
            true => O_PATH,
            false => flags_of(self.access_mode(), directory),
        };
        if self.is_shared() {
            self.adopt(&mut companions);
        }
        if companions.entry.is_none()
            && let Some((parent, name)) = self.name_now()
            && let Some(mirror) = mirror_of(self.mount, parent)
        {
            companions.entry = open(&mirror.entry(&name), flags);
        }
        if companions.own.is_none()
            && let Some(own) = mirror_of(self.mount, self.node)
        {
            companions.own = open(own.path(), flags);
        }
    }

    /// The directory in which it is, and the name that it has there.
    fn name_now(&self) -> Option<(Node, Vec<u8>)> {
        if let Some((parent, name)) = &*self.opened_as.lock() {
            return Some((*parent, name.to_vec()));
        }
        let file_system = self.file_system().ok()?;
        let path = file_system.path_of(self.node).ok()?;
        let slash = path.iter().rposition(|&byte| byte == b'/');
        let (parent, name) = match slash {
            Some(slash) => (&path[..slash], &path[slash + 1..]),
            None => (&[][..], &path[..]),
        };
        if name.is_empty() {
            return None;
        }
        let caller = task::caller();
        let mut node = file_system.root();
        for part in parent
            .split(|&byte| byte == b'/')
            .filter(|part| !part.is_empty())
        {
            let next = file_system.lookup(&caller, node, part);
            if node != file_system.root() {
                file_system.forget(node, 1);
            }
            node = next.ok()?.attributes.node;
        }
        if node != file_system.root() {
            // Its number is all that is asked for.
            file_system.forget(node, 1);
        }
        Some((node, name.to_vec()))
    }

    /// Takes over companions that came through exec.
    fn adopt(&self, companions: &mut Open) {
        if tables::are_asked_for() || task::vfork_child().is_some() {
            return;
        }
        for fd in culvert_run::files::open_descriptors() {
            if culvert_run::get().is_internal(fd) {
                continue;
            }
            let Some(of) = descriptor_path(fd).ok().and_then(|path| parse(&path)) else {
                continue;
            };
            let place = match &of {
                Stray::Own(name) if *name == self.name() => &mut companions.own,
                Stray::Entry(name, entry) if self.is_entry(*name, entry) => &mut companions.entry,
                _ => continue,
            };
            let same = culvert_run::files::kernel_flags(fd)
                .is_ok_and(|flags| flags & ACCESS_MODE == self.access_mode() & ACCESS_MODE);
            if place.is_none() && same {
                let keeper = culvert_run::internal::keeper();
                *place = Some(keeper.keep(OwnedFd::from_raw(fd)));
            }
        }
    }

    /// Whether `entry` of the directory `of` is its node.
    fn is_entry(&self, of: ShadowName, entry: &[u8]) -> bool {
        if of.mount != self.mount {
            return false;
        }
        let Ok(file_system) = self.file_system() else {
            return false;
        };
        file_system
            .lookup(&task::caller(), of.node, entry)
            .is_ok_and(|found| {
                file_system.forget(found.attributes.node, 1);
                found.attributes.node == self.node
            })
    }

    /// This process has closed it. What was opened before anybody watched has its end told: that it
    /// was opened comes with it.
    pub(crate) fn tell_closed(&self) {
        let seen = !tells() || self.companions.known.load(Relaxed) == count();
        let alone = !self.is_shared() && task::vfork_child().is_none();
        if !seen && alone && !matches!(self.object, Object::Path) {
            self.look_for_companions();
        }
    }

    /// Whether it has any.
    pub fn has_companions(&self) -> bool {
        self.companions.known.load(Relaxed) != 0
    }

    /// Its companions go through exec, or end there.
    pub fn companions_go(&self, on: bool) {
        if !self.has_companions() {
            return;
        }
        let companions = self.companions.open.lock();
        for companion in [&companions.entry, &companions.own].into_iter().flatten() {
            let _ = fcntl(
                BorrowedFd::number(companion.raw()),
                Command::SETFD,
                usize::from(!on),
            );
        }
    }
}

/// What a companion that was inherited is one of.
enum Stray {
    Entry(ShadowName, Vec<u8>),
    Own(ShadowName),
}

fn parse(path: &[u8]) -> Option<Stray> {
    let rest = path.strip_prefix(&culvert_run::get().path[..])?;
    let rest = rest.strip_prefix(b"/watch/")?;
    let mut parts = rest.splitn(3, |&byte| byte == b'/');
    let name = ShadowName::of_text(parts.next()?)?;
    // The mirror's own name, which changes.
    let _mirror = parts.next()?;
    Some(match parts.next() {
        Some(entry) => Stray::Entry(name, entry.into()),
        None => Stray::Own(name),
    })
}
