//! Files that may be unready in epoll instances (epoll(7)). In the place of each stands a
//! descriptor of its driver's ([`super::waits`]), and readable means that the file is to be asked
//! (the kernel's ready list). The event's data are the program's own, for who waits without this
//! module gets them as they are: a call that was under way when the instance got its first such
//! file, a child of a fork or a program after exec that shares the instance. By instance and data
//! the file is found, and by `MARK` its event is told from another descriptor's with the same
//! data.

use super::{
    Description,
    waits::{ALWAYS_FOUND, Own},
};
use alloc::{
    sync::{Arc, Weak},
    vec,
    vec::Vec,
};
use core::sync::atomic::Ordering::*;
use culvert::Errno;
use culvert_sys::BorrowedFd;
use culvert_sys::fd::epoll_ctl;
use culvert_sys::raw::general::epoll_event;
use culvert_sys::sync::Mutex;

const EPOLLIN: u32 = 1;
/// EPOLLRDNORM, which a FIFO is together with EPOLLIN (`pipe_poll`, fs/pipe.c), and for which
/// programs do not ask.
const MARK: u32 = 0x40;
const EPOLLHUP: u32 = 0x10;
const EPOLLONESHOT: u32 = 1 << 30;
const EPOLLET: u32 = 1 << 31;
const ADD: u32 = 1;
const DEL: u32 = 2;
const MOD: u32 = 3;

/// What the program wants of a file.
struct Wanted {
    events: u32,
    data: u64,
    /// It was not given since, if it is wanted once (`EPOLLONESHOT`).
    is_armed: bool,
}

impl Wanted {
    /// What the kernel has for the file: who does not know of this module is told of readers only
    /// where the program asks for that.
    fn kernels(&self) -> epoll_event {
        epoll_event {
            events: MARK | self.events & EPOLLIN,
            data: self.data,
        }
    }

    fn found_in(&self, ready: u16) -> u32 {
        u32::from(ready) & (self.events | u32::from(ALWAYS_FOUND))
    }
}

/// A file in an epoll instance.
struct Item {
    /// The descriptors of the instance, and the file's.
    epolls: Vec<i32>,
    fd: i32,
    wanted: Wanted,
    of: Weak<Description>,
    own: Arc<Own>,
}

static ITEMS: Mutex<Vec<Item>> = Mutex::new(Vec::new());

impl Item {
    /// The key is the number and the file (`ep_find`, fs/eventpoll.c): the number may be another
    /// file's by now, and the file be open still by a duplicate.
    fn is_of(&self, description: &Arc<Description>, (epoll, fd): (i32, i32)) -> bool {
        self.fd == fd
            && self.epolls.contains(&epoll)
            && self.of.as_ptr() == Arc::as_ptr(description)
    }

    /// Whether the kernel's `event` of `epoll` may be of this one.
    fn may_be(&self, epoll: i32, event: &epoll_event) -> bool {
        let (events, data) = (event.events, event.data);
        self.wanted.data == data
            // A process that is waited for already says EPOLLHUP, too (`pidfd_poll`, fs/pidfs.c).
            && events & !EPOLLHUP | EPOLLIN == MARK | EPOLLIN
            && self.epolls.contains(&epoll)
    }

    /// Takes it out of the instance when its file is closed, where that is this process's to do:
    /// others that share the instance may have the file still.
    fn leave(&self) {
        if self.own.is_own() {
            for &epoll in &self.epolls {
                let _ = kernels(epoll, DEL, &self.own, None);
            }
        }
    }
}

/// epoll_ctl(2) of what stands in the file's place, and of what says that nobody tells it anything
/// any more: once, for from then on it is told here.
fn kernels(epoll: i32, operation: u32, own: &Own, event: Option<epoll_event>) -> Result<(), Errno> {
    let event = event.unwrap_or(epoll_event { events: 0, data: 0 });
    let [instance, fifo] = [epoll, own.descriptor()].map(BorrowedFd::number);
    epoll_ctl(instance, operation, fifo, &event)?;
    if let Some(ended) = own.ended() {
        let event = epoll_event {
            events: event.events | EPOLLONESHOT,
            ..event
        };
        let _ = epoll_ctl(instance, operation, BorrowedFd::number(ended), &event);
    }
    Ok(())
}

/// epoll_ctl(2) of `fd`, which is `description`: the answer; none: the file is ready always, and
/// the call the kernel's. Whether the instance has the file is the kernel's to say: another process
/// that shares it may have changed it.
pub fn control(
    description: &Arc<Description>,
    (epoll, fd): (i32, i32),
    operation: u32,
    event: Option<epoll_event>,
) -> Option<Result<(), Errno>> {
    let wanted = event.map(|event| Wanted {
        events: event.events,
        data: event.data,
        is_armed: true,
    });
    let mut items = ITEMS.lock();
    let at = items
        .iter()
        .position(|item| item.is_of(description, (epoll, fd)));
    match (operation, at, wanted) {
        (ADD, None, Some(wanted)) => {
            drop(items);
            add(description, (epoll, fd), wanted)
        }
        (ADD | MOD, Some(at), Some(wanted)) => {
            let (item, event) = (&mut items[at], wanted.kernels());
            // Known by its new data before the kernel gives them.
            let before = core::mem::replace(&mut item.wanted, wanted);
            let own = Arc::clone(&item.own);
            let done = kernels(epoll, operation, &own, Some(event));
            if done.is_err() {
                item.wanted = before;
            }
            drop(items);
            Some(done.inspect(|()| ask(description, &own)))
        }
        (DEL, Some(at), _) => {
            let gone = items.swap_remove(at);
            drop(items);
            Some(kernels(epoll, DEL, &gone.own, None))
        }
        (MOD, None, Some(_)) | (DEL, None, _) => Some(Err(Errno::ENOENT)),
        _ => None,
    }
}

fn add(
    description: &Arc<Description>,
    (epoll, fd): (i32, i32),
    wanted: Wanted,
) -> Option<Result<(), Errno>> {
    let own = Arc::new(description.waiter()?);
    let event = wanted.kernels();
    // Found first: another thread may be waiting.
    description.waits.is_watched.store(true, Relaxed);
    ITEMS.lock().push(Item {
        epolls: vec![epoll],
        fd,
        wanted,
        of: Arc::downgrade(description),
        own: Arc::clone(&own),
    });
    let added = kernels(epoll, ADD, &own, Some(event));
    match added {
        Ok(()) => ask(description, &own),
        Err(_) => ITEMS.lock().retain(|item| !Arc::ptr_eq(&item.own, &own)),
    }
    Some(added)
}

/// The file is asked for the first time (`ep_insert`, `ep_modify`): who waits already is told if it
/// is ready, and else by its driver. Where a signal ends that, who waits asks.
fn ask(description: &Arc<Description>, own: &Arc<Own>) {
    let ready = description.ready(true);
    let items = ITEMS.lock();
    let found = items.iter().find(|item| Arc::ptr_eq(&item.own, own));
    let is_ready = found.is_some_and(|item| match ready {
        Ok(ready) => item.wanted.found_in(ready) != 0,
        Err(_) => true,
    });
    drop(items);
    if is_ready {
        own.tell();
    }
}

/// What `events`, which the kernel gives for the instance `epoll`, are to the program: without
/// those whose file is not ready for what is wanted.
///
/// - `RESTART`: as of [`Description::ready`], and there is nothing else to give. What the kernel
///   gave of other descriptors may never be given again.
pub fn told(epoll: i32, events: &[epoll_event]) -> Result<Vec<epoll_event>, Errno> {
    let mut found = Vec::with_capacity(events.len());
    let mut asked: Vec<Arc<Own>> = Vec::new();
    let mut interrupted = None;
    for event in events {
        let items = ITEMS.lock();
        let owns = items.iter().filter(|item| item.may_be(epoll, event));
        let owns: Vec<Arc<Own>> = owns.map(|item| Arc::clone(&item.own)).collect();
        drop(items);
        if owns.is_empty() {
            found.push(*event);
            continue;
        }
        if interrupted.is_some() {
            // It stays readable: the file is asked the next time.
            continue;
        }
        // Of several with the same data it is one that was told, or else that is told nothing any
        // more. None: another thread asks.
        let is_new = |own: &&Arc<Own>| !asked.iter().any(|one| Arc::ptr_eq(one, own));
        let new = || owns.iter().filter(is_new);
        let told = new().find(|own| own.clear());
        let Some(own) = told.or_else(|| new().find(|own| own.has_ended())).cloned() else {
            continue;
        };
        match answer(&own) {
            Ok(answer) => found.extend(answer),
            Err(error) => interrupted = Some(error),
        }
        asked.push(own);
    }
    match interrupted {
        Some(error) if found.is_empty() => Err(error),
        _ => Ok(found),
    }
}

/// Asks the file whose FIFO was told: its event, if it is in the instance still and ready for what
/// is wanted.
fn answer(own: &Arc<Own>) -> Result<Option<epoll_event>, Errno> {
    let items = ITEMS.lock();
    let mut all = items.iter();
    let item = all.find(|item| Arc::ptr_eq(&item.own, own));
    let of = item.filter(|item| item.wanted.is_armed);
    let of = of.map(|item| item.of.clone());
    drop(items);
    let Some(description) = of.and_then(|of| of.upgrade()) else {
        return Ok(None);
    };
    let ready = description.ready(true).inspect_err(|_| own.tell())?;
    let mut items = ITEMS.lock();
    let mut all = items.iter_mut();
    let Some(item) = all.find(|item| Arc::ptr_eq(&item.own, own)) else {
        return Ok(None);
    };
    let wanted = &mut item.wanted;
    let (events, data) = (wanted.found_in(ready), wanted.data);
    if events == 0 || !wanted.is_armed {
        return Ok(None);
    }
    match wanted.events {
        once if once & EPOLLONESHOT != 0 => wanted.is_armed = false,
        // It is told of once for each time that it was told here.
        edge if edge & EPOLLET != 0 => {}
        _ => own.tell(),
    }
    Ok(Some(epoll_event { events, data }))
}

/// `new` is a duplicate of the instance `old`.
pub fn duplicated(old: i32, new: i32) {
    let mut items = ITEMS.lock();
    for item in items.iter_mut().filter(|item| item.epolls.contains(&old)) {
        item.epolls.push(new);
    }
}

/// `epoll` is no descriptor of an instance any more.
pub fn forget(epoll: i32) {
    let mut items = ITEMS.lock();
    for item in items.iter_mut() {
        item.epolls.retain(|&one| one != epoll);
    }
    let gone: Vec<Item> = items
        .extract_if(.., |item| item.epolls.is_empty())
        .collect();
    drop(items);
    drop(gone);
}

/// A description that an instance had is closed.
pub(super) fn closed() {
    let mut items = ITEMS.lock();
    let gone: Vec<Item> = items
        .extract_if(.., |item| item.of.strong_count() == 0)
        .collect();
    drop(items);
    gone.iter().for_each(Item::leave);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_of_no_file_here_is_the_programs() {
        let [first, second] = [(EPOLLIN, 7), (MARK | EPOLLIN, u64::MAX)]
            .map(|(events, data)| epoll_event { events, data });
        let told = told(-1, &[first, second]).unwrap_or_default();
        let told: Vec<(u32, u64)> = told.iter().map(|one| (one.events, one.data)).collect();
        assert_eq!(told, [(EPOLLIN, 7), (MARK | EPOLLIN, u64::MAX)]);
    }
}
