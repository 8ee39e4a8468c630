//! The process of the pager that calls drivers: a few threads that all wait for the same events.

use super::{
    fault,
    file::File,
    kernel,
    model::{Connection, Known, Model},
    room,
    table::{RangeOf, THREADS, Table},
};
use culvert::Errno;
use culvert_cache::pager::{
    LISTENING, message,
    message::{Kind, Message},
    name_of, userfault,
};
use culvert_mounts::MountId;
use culvert_run::ShadowName;
use culvert_sys::OwnedFd;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, Weak, atomic::Ordering::*},
};

/// What an event is about: the upper half of its data; the lower is an index.
const LISTEN: u64 = 0;
const SOCKET: u64 = 1;
const USERFAULT: u64 = 2;
const GUARDIAN: u64 = 3;

/// How long a pager without connections waits for another, milliseconds: a script starts many short
/// programs.
const LINGER: usize = 100;

struct Worker {
    table: &'static Table,
    epoll: i32,
    model: Mutex<Model>,
    /// An earlier worker had ranges that its table had no room for: this one does not know them.
    lacks_ranges: bool,
}

/// Serves until nobody is connected.
///
/// `follows`: this is not the first worker.
pub fn work(table: &'static Table, epoll: i32, guardian: u32, follows: bool) -> ! {
    // A driver that panics is a worker that dies, not one with a thread less.
    std::panic::set_hook(Box::new(|what| {
        culvert_sys::log!("the pager panics: {what}");
        std::process::abort();
    }));
    let worker: &'static Worker = Box::leak(Box::new(Worker {
        table,
        epoll,
        model: Mutex::default(),
        lacks_ranges: table.unnoted.load(Acquire) != 0,
    }));
    worker.take_over();
    if let Err(error) = kernel::watch(epoll, LISTENING, LISTEN << 32, true) {
        culvert_sys::log!("the pager cannot wait for anything: {error}");
        kernel::end(1);
    }
    let watched = kernel::process(guardian)
        .and_then(|guardian| kernel::watch(epoll, guardian, GUARDIAN << 32, true));
    // It may have died before it could be watched, and its number may be another's.
    let last = watched.is_err() || std::os::unix::process::parent_id() != guardian;
    if worker.model().connections.is_empty() && follows {
        worker.end();
    }
    std::thread::scope(|scope| {
        if last {
            // While the others serve: the lock of a file may be with somebody who waits for a page.
            let _ = std::thread::Builder::new().spawn_scoped(scope, || worker.guardian_died());
        }
        for thread in 1..THREADS {
            let _ = std::thread::Builder::new().spawn_scoped(scope, move || worker.events(thread));
        }
        worker.events(0);
    });
    kernel::end(0)
}

impl Worker {
    fn model(&self) -> MutexGuard<'_, Model> {
        match self.model.lock() {
            Ok(model) => model,
            Err(poisoned) => poisoned.into_inner(),
        }
    }

    /// Takes what an earlier worker has left: pages that it died of are given up, all others that
    /// are waited for are asked for again.
    fn take_over(&self) {
        for (index, socket, userfault, slot) in self.table.known_connections() {
            let connection = Connection {
                socket,
                userfault,
                slot,
                ranges: BTreeMap::new(),
                prepared: None,
            };
            self.model().connections.insert(index, connection);
        }
        for (index, connection, about) in self.table.known_ranges() {
            let mut model = self.model();
            let name = ShadowName {
                mount: MountId(about.mount),
                node: culvert::Node(about.node),
            };
            let file = model.file(name).ok();
            if let Some(connection) = model.connections.get_mut(&connection) {
                let known = Known {
                    about,
                    index: Some(index),
                    file,
                };
                connection.ranges.insert(about.start, known);
            }
        }
        for fault in &self.table.faults {
            let connection = fault.connection.swap(0, AcqRel);
            let model = self.model();
            let at = connection
                .checked_sub(1)
                .and_then(|index| model.connections.get(&(index as usize)));
            if let Some(userfault) = at.and_then(|connection| connection.userfault) {
                let address = fault.address.load(Relaxed);
                culvert_sys::log!("the pager died at a page, which is SIGBUS now");
                fault::refuse(userfault, address);
            }
        }
        let model = self.model();
        for (&index, connection) in &model.connections {
            if let Some(userfault) = connection.userfault {
                for range in connection.ranges.values() {
                    let _ = userfault::wake(userfault, range.about.start, range.about.length);
                }
            }
            self.watch(index, connection);
        }
    }

    fn watch(&self, index: usize, connection: &Connection) {
        self.watch_faults(index, connection);
        self.listen_to(index, connection.socket);
    }

    fn watch_faults(&self, index: usize, connection: &Connection) {
        if let Some(userfault) = connection.userfault {
            let data = USERFAULT << 32 | index as u64;
            let _ = kernel::watch(self.epoll, userfault, data, false);
        }
    }

    /// The life of thread `thread`.
    fn events(&'static self, thread: usize) {
        loop {
            let data = kernel::wait(self.epoll);
            let index = data as u32 as usize;
            match data >> 32 {
                LISTEN => self.accept(),
                SOCKET => self.message(index),
                USERFAULT => self.fault(index, thread),
                _ => self.guardian_died(),
            }
        }
    }

    /// A connection is noted before anything is read from it, so that a successor answers it.
    fn accept(&self) {
        while let Ok(socket) = kernel::accept(LISTENING) {
            let mut model = self.model();
            let Some(index) = self.table.add_connection(socket) else {
                culvert_sys::log!("the pager has too many connections");
                kernel::close(socket);
                continue;
            };
            let connection = Connection {
                socket,
                userfault: None,
                slot: 0,
                ranges: BTreeMap::new(),
                prepared: None,
            };
            self.watch(index, &connection);
            model.connections.insert(index, connection);
        }
        let _ = kernel::watch(self.epoll, LISTENING, LISTEN << 32, true);
    }

    fn greet(&self, index: usize, message: &Message, userfault: Option<i32>) -> Result<(), Errno> {
        let mut model = self.model();
        let connection = model.connections.get_mut(&index).ok_or(Errno::EPIPE)?;
        (connection.slot, connection.userfault) = (message.slot, userfault);
        self.table.name_connection(index, userfault, message.slot);
        // Not the socket: this very message is still to be taken from it.
        self.watch_faults(index, connection);
        Ok(())
    }

    /// A message, or the end, of connection `index`. A message is taken from the socket when it is
    /// answered, so that a successor finds it again.
    fn message(&'static self, index: usize) {
        let Some(socket) = self.model().connections.get(&index).map(|it| it.socket) else {
            return;
        };
        let arrived = match Message::receive(socket, message::PEEK) {
            Ok(Some(arrived)) => arrived,
            Err(Errno::EAGAIN) => return self.listen_to(index, socket),
            Ok(None) | Err(_) => return self.gone(index),
        };
        let (message, fd) = arrived;
        let hello = message.kind == Kind::Hello as u32;
        let answer = match message.kind {
            _ if hello => Some(self.greet(index, &message, fd.map(OwnedFd::into_raw))),
            kind if kind == Kind::Prepare as u32 => Some(self.prepare(index, &message)),
            kind if kind == Kind::Attach as u32 => Some(self.attach(index, &message)),
            kind if kind == Kind::Room as u32 => Some(self.make_room(index, &message)),
            kind if kind == Kind::Detach as u32 => {
                self.detach(index, message.start, message.length);
                None
            }
            _ => Some(Err(Errno::EBADMSG)),
        };
        if let Some(answer) = answer {
            let errno = answer.err().map_or(0, |error| error.raw());
            let _ = message::answer(socket, message.number, errno);
        }
        // Its descriptor came a second time.
        drop(Message::receive(socket, 0));
        self.listen_to(index, socket);
    }

    fn listen_to(&self, index: usize, socket: i32) {
        let _ = kernel::watch(self.epoll, socket, SOCKET << 32 | index as u64, true);
    }

    fn prepare(&self, index: usize, message: &Message) -> Result<(), Errno> {
        let name = name_of(message).ok_or(Errno::EINVAL)?;
        let mut model = self.model();
        if model.last {
            return Err(Errno::ESRCH);
        }
        let file = model.file(name)?;
        if let Some(connection) = model.connections.get_mut(&index) {
            connection.prepared = Some(file);
        }
        Ok(())
    }

    fn make_room(&self, index: usize, message: &Message) -> Result<(), Errno> {
        let slot = self.model().connections.get(&index).map(|it| it.slot);
        room::drop_oldest(message.length, slot.ok_or(Errno::EPIPE)?);
        Ok(())
    }

    fn attach(&'static self, index: usize, message: &Message) -> Result<(), Errno> {
        let name = name_of(message).ok_or(Errno::EINVAL)?;
        let about = RangeOf {
            start: message.start,
            length: message.length,
            offset: message.offset,
            node: message.node,
            mount: name.mount.0,
        };
        let bounded = about.start.checked_add(about.length).is_some()
            && about.offset.checked_add(about.length).is_some();
        if !bounded {
            return Err(Errno::EINVAL);
        }
        self.detach(index, about.start, about.length);
        let mut model = self.model();
        if model.last {
            return Err(Errno::ESRCH);
        }
        let file = model.file(name)?;
        let connection = model.connections.get_mut(&index).ok_or(Errno::EPIPE)?;
        if connection.userfault.is_none() {
            return Err(Errno::EPERM);
        }
        let entry = self.table.add_range(index, &about).ok_or(Errno::ENOSPC)?;
        connection.prepared = None;
        let known = Known {
            about,
            index: Some(entry),
            file: Some(file),
        };
        connection.ranges.insert(about.start, known);
        Ok(())
    }

    /// Takes a range away; what reaches beyond it stays.
    fn detach(&'static self, index: usize, start: u64, length: u64) {
        let end = start.saturating_add(length);
        let mut model = self.model();
        let Some(connection) = model.connections.get_mut(&index) else {
            return;
        };
        let touched: Vec<u64> = connection
            .ranges
            .range(..end)
            .filter(|(_, known)| known.about.end() > start)
            .map(|(&at, _)| at)
            .collect();
        let mut unnoted = Vec::new();
        for at in touched {
            let Some(known) = connection.ranges.remove(&at) else {
                continue;
            };
            let about = known.about;
            let rest = |from: u64, to: u64| RangeOf {
                start: from,
                length: to.saturating_sub(from),
                offset: about.offset + (from - about.start),
                ..about
            };
            let before = Some(rest(about.start, start)).filter(|part| part.length != 0);
            let behind = (end < about.end()).then(|| rest(end, about.end()));
            // Each is noted before the whole goes.
            let entry = behind.and_then(|behind| match (known.index, before) {
                (Some(whole), None) => self.table.replace_range(whole, &behind),
                _ => self.table.add_range(index, &behind),
            });
            if let Some(behind) = behind {
                if entry.is_none() {
                    unnoted.push(known.file.clone());
                }
                let known = Known {
                    about: behind,
                    index: entry,
                    file: known.file.clone(),
                };
                connection.ranges.insert(end, known);
            }
            match (known.index, before) {
                (Some(whole), Some(before)) => self.table.shorten_range(whole, before.length),
                (Some(whole), None) => self.table.remove_range(whole),
                (None, _) => {}
            }
            if let Some(before) = before {
                let known = Known {
                    about: before,
                    ..known
                };
                connection.ranges.insert(before.start, known);
            }
        }
        for file in unnoted {
            self.fill_unnoted(file);
        }
        model.forget_files();
    }

    /// The table has no room for a range of `file`: this worker serves it all the same, and fills
    /// the file, since a successor would not know the range.
    fn fill_unnoted(&'static self, file: Option<Arc<File>>) {
        if file.as_ref().is_some_and(|file| !file.is_first_to_fill()) {
            return;
        }
        culvert_sys::log!("the pager has too many ranges: what is mapped is filled now");
        self.table.unnoted.fetch_add(1, AcqRel);
        let Some(file) = file else { return };
        // While the others serve: the lock of the file may be with somebody who waits for a page.
        let _ = std::thread::Builder::new().spawn(move || match file.fill_all() {
            Ok(()) => {
                self.table.unnoted.fetch_sub(1, AcqRel);
            }
            Err(error) => culvert_sys::log!("a mapped file cannot be filled: {error}"),
        });
    }

    /// Faults of connection `index`.
    fn fault(&self, index: usize, thread: usize) {
        let place = &self.table.faults[thread];
        loop {
            let found = {
                let model = self.model();
                let Some(connection) = model.connections.get(&index) else {
                    return;
                };
                let Some(userfault) = connection.userfault else {
                    return;
                };
                let Ok(address) = userfault::next(userfault) else {
                    return;
                };
                let range = connection.ranges.range(..=address).next_back();
                let range = range.filter(|(_, known)| known.about.end() > address);
                let range = range.map(|(_, known)| (known.about, known.file.clone()));
                (userfault, connection.slot, address, range)
            };
            let (userfault, slot, address, range) = found;
            match range {
                Some((about, Some(file))) => {
                    place.address.store(address, Relaxed);
                    place.connection.store(index as u64 + 1, Release);
                    fault::resolve(userfault, slot, &about, &file, address);
                    place.connection.store(0, Release);
                }
                Some((about, None)) => {
                    culvert_sys::log!(
                        "node {:x} of mount {} cannot be opened any more, SIGBUS",
                        about.node,
                        about.mount
                    );
                    fault::refuse(userfault, address);
                }
                // Perhaps one that an earlier worker knew: to wake who waits would only make it ask
                // again.
                None if self.lacks_ranges => fault::refuse(userfault, address),
                // Unmapped meanwhile: the thread looks again and finds nothing, or something else.
                None => {
                    let _ = userfault::wake(userfault, address, culvert_sys::PAGE64);
                }
            }
        }
    }

    /// The process of connection `index` has ended or executes another program.
    fn gone(&self, index: usize) {
        let connection = {
            let mut model = self.model();
            model.connections.remove(&index)
        };
        let Some(connection) = connection else {
            return;
        };
        // The kernel closes what an ending process had open a moment before it drops the proof of
        // life (`exit_task_work`, kernel/exit.c). Who has ended in an orderly manner has no
        // records, and needs no look at /proc.
        while culvert_cache::is_alive_with_records(connection.slot)
            && kernel::is_ending(connection.socket)
        {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        culvert_cache::recover(connection.slot);
        let noted = connection.ranges.values().filter_map(|known| known.index);
        noted.for_each(|index| self.table.remove_range(index));
        self.table.connections[index].socket.store(0, Release);
        for fd in connection.userfault.into_iter().chain([connection.socket]) {
            kernel::unwatch(self.epoll, fd);
            kernel::close(fd);
        }
        drop(connection);
        let mut model = self.model();
        model.forget_files();
        let empty = model.connections.is_empty();
        drop(model);
        if empty {
            self.end();
        }
    }

    /// Ends, unless somebody comes in time: whoever connects too late finds no socket, or a
    /// connection that ends at once, and starts another pager.
    fn end(&self) {
        let _ = kernel::somebody_waits(LISTENING, LINGER);
        let model = self.model();
        if !model.connections.is_empty() || kernel::somebody_waits(LISTENING, 0) {
            return;
        }
        kernel::end(0);
    }

    /// From now on nobody would follow this worker: what programs have mapped is filled, so that
    /// none waits for a page that nobody fills.
    fn guardian_died(&self) {
        culvert_sys::log!("the pager's guardian has died: all that is mapped is filled now");
        let files: Vec<Arc<File>> = {
            let mut model = self.model();
            model.last = true;
            model.files.values().filter_map(Weak::upgrade).collect()
        };
        for file in files {
            if let Err(error) = file.fill_all() {
                culvert_sys::log!("a mapped file cannot be filled: {error}");
            }
        }
    }
}
