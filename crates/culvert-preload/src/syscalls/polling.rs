//! poll(2), select(2) and epoll(7), where files of mounts may be unready or tables of mounts are
//! waited for. All others are the kernel's.

use crate::answer::{Answer, FORWARD, RESTART};
use crate::description::epolls;
use crate::descriptors::{EPOLL, class, mount_tables};
use crate::process::Process;
use crate::vfs::ready::{self, Limit};
use alloc::{vec, vec::Vec};
use culvert::Errno;
use culvert_intercept::{Call, user, wait};
use culvert_run::memory;
use culvert_sys::BorrowedFd;
use culvert_sys::nr;
use culvert_sys::raw::general::{epoll_event, pollfd};

const SECOND: u64 = 1_000_000_000;
/// More descriptors the kernel does not give (`sysctl_nr_open`'s usual value).
const MOST: usize = 1 << 20;
/// Events that are fetched at once.
const EVENTS: usize = 256;
/// `struct pollfd`; where its answer lies.
const POLLED: usize = 8;
const REVENTS: usize = 6;
/// `struct epoll_event`, which is packed.
const EVENT: usize = 12;

/// No time at all. The kernel writes what is left of it, in vain.
static AT_ONCE: [i64; 2] = [0; 2];

/// How long a call waits whose time is the `timespec` at `address`, or a `timeval` if the second
/// part counts units of `unit` nanoseconds; none: the kernel refuses it.
fn limit(address: usize, unit: u64) -> Result<Option<Limit>, Errno> {
    if address == 0 {
        return Ok(Some(Limit::new(None)));
    }
    let seconds = memory::get::<i64>(address)?;
    let part = memory::get::<i64>(address.wrapping_add(8))?;
    let (Ok(seconds), Ok(part)) = (u64::try_from(seconds), u64::try_from(part)) else {
        return Ok(None);
    };
    // Of a `timeval` the kernel takes more than a second.
    if unit == 1 && part >= SECOND {
        return Ok(None);
    }
    let time = seconds.saturating_mul(SECOND);
    Ok(Some(Limit::new(Some(
        time.saturating_add(part.saturating_mul(unit)),
    ))))
}

/// Milliseconds, of which less than none are no limit.
fn milliseconds(time: usize) -> Limit {
    let time = u64::try_from(time as i32).ok();
    Limit::new(time.map(|time| time * 1_000_000))
}

/// What is left goes back to the program where it may be stored (`poll_select_finish`).
fn tell_left(limit: &Limit, address: usize, unit: u64) {
    if address != 0
        && let Some(left) = limit.left()
    {
        let _ = memory::put(address, (left / SECOND) as i64)
            .and_then(|()| memory::put(address.wrapping_add(8), (left % SECOND / unit) as i64));
    }
}

/// The mask at `address`, of `size` bytes; none: the kernel refuses it.
fn mask(address: usize, size: usize) -> Result<Option<Option<u64>>, Errno> {
    match (address, size) {
        (0, _) => Ok(Some(None)),
        (_, 8) => Ok(Some(Some(memory::get::<u64>(address)?))),
        _ => Ok(None),
    }
}

/// Runs `waits`, of a call that blocks `mask` meanwhile, if that is given. A signal that only the
/// mask lets in comes when the kernel waits with it: it does so where one is pending, for nothing.
fn under(
    call: &mut Call,
    given: (usize, Option<u64>),
    waits: impl FnOnce(&mut Call) -> Answer,
) -> Answer {
    let (address, mask) = given;
    if mask.is_some_and(wait::lets_in) {
        call.number = nr::PPOLL;
        call.args = [0, 0, (&raw const AT_ONCE) as usize, address, 8, 0];
        return Err(FORWARD);
    }
    match waits(call) {
        Err(RESTART | Errno::EINTR) if mask.is_some() && wait::is_blocked_again() => Err(RESTART),
        // It is not made again after a handler (signal(7)).
        Err(RESTART) => Err(Errno::EINTR),
        answer => answer,
    }
}

/// poll(2)
pub fn poll(_: &Process, call: &mut Call) -> Answer {
    if !ready::any() {
        return Err(FORWARD);
    }
    let Some(mut asked) = polled(call)? else {
        return Err(FORWARD);
    };
    let limit = milliseconds(call.args[2]);
    under(call, (0, None), |call| {
        answer(call, &mut asked, &limit, None)
    })
}

/// ppoll(2)
pub fn ppoll(_: &Process, call: &mut Call) -> Answer {
    if !ready::any() {
        return Err(FORWARD);
    }
    let [_, _, time, address, size, _] = call.args;
    let (Some(limit), Some(mask)) = (limit(time, 1)?, mask(address, size)?) else {
        return Err(FORWARD);
    };
    let Some(mut asked) = polled(call)? else {
        return Err(FORWARD);
    };
    under(call, (address, mask), |call| {
        let found = answer(call, &mut asked, &limit, mask);
        tell_left(&limit, time, 1);
        found
    })
}

/// What a poll(2) asks for, if that is not the kernel's alone.
fn polled(call: &Call) -> Result<Option<Vec<pollfd>>, Errno> {
    let [at, count, ..] = call.args;
    let count = count as u32 as usize;
    if count > MOST {
        return Ok(None);
    }
    let mut bytes = vec![0u8; count * POLLED];
    user::copy_in(&mut bytes, at).map_err(|_| Errno::EFAULT)?;
    let asked = bytes.chunks_exact(POLLED).map(|entry| pollfd {
        fd: i32::from_ne_bytes([entry[0], entry[1], entry[2], entry[3]]),
        events: i16::from_ne_bytes([entry[4], entry[5]]),
        revents: 0,
    });
    let asked: Vec<pollfd> = asked.collect();
    Ok(ready::concerns(&asked).then_some(asked))
}

fn answer(call: &Call, asked: &mut [pollfd], limit: &Limit, mask: Option<u64>) -> Answer {
    let count = ready::wait(asked, limit, mask)?;
    for (i, one) in asked.iter().enumerate() {
        let at = call.args[0] + i * POLLED + REVENTS;
        user::copy_out(at, &one.revents.to_ne_bytes()).map_err(|_| Errno::EFAULT)?;
    }
    Ok(count)
}

/// What is ready to be read, to be written, and exceptional, as poll(2) says it (`POLLIN_SET` and
/// its kin, fs/select.c).
const SETS: [u16; 3] = [
    0x001 | 0x040 | 0x080 | 0x008 | 0x010,
    0x004 | 0x100 | 0x200 | 0x008,
    0x002,
];
const POLLNVAL: u16 = 0x20;

/// select(2), pselect6(2)
pub fn select(_: &Process, call: &mut Call) -> Answer {
    if !ready::any() {
        return Err(FORWARD);
    }
    let [count, in_, out, exceptional, time, masked] = call.args;
    let places = [in_, out, exceptional];
    let count = count as i32 as usize;
    if count > MOST {
        return Err(FORWARD);
    }
    let mut sets = Vec::with_capacity(places.len());
    for place in places {
        let mut set = vec![0u8; count.div_ceil(64) * 8];
        if place != 0 {
            user::copy_in(&mut set, place).map_err(|_| Errno::EFAULT)?;
        }
        sets.push(set);
    }
    let wants = |fd: usize| {
        let has = |set: &[u8]| {
            set.get(fd / 8)
                .is_some_and(|byte| byte >> (fd % 8) & 1 != 0)
        };
        let sets = sets.iter().zip(SETS).filter(|(set, _)| has(set));
        sets.fold(0, |events, (_, of)| events | of)
    };
    let asked = (0..count).filter_map(|fd| {
        let events = wants(fd);
        (events != 0).then_some(pollfd {
            fd: fd as i32,
            events: events as i16,
            revents: 0,
        })
    });
    let mut asked: Vec<pollfd> = asked.collect();
    if !ready::concerns(&asked) {
        return Err(FORWARD);
    }
    let (unit, address, size) = match call.number {
        nr::PSELECT6 if masked != 0 => {
            let size = memory::get::<usize>(masked.wrapping_add(8))?;
            (1, memory::get::<usize>(masked)?, size)
        }
        nr::PSELECT6 => (1, 0, 0),
        _ => (1000, 0, 0),
    };
    let (Some(limit), Some(mask)) = (limit(time, unit)?, mask(address, size)?) else {
        return Err(FORWARD);
    };
    under(call, (address, mask), |_| {
        let found = selected(&mut asked, &limit, mask, &wants);
        tell_left(&limit, time, unit);
        let found = found?;
        let mut bits = 0;
        for (place, of) in places.into_iter().zip(SETS) {
            if place == 0 {
                continue;
            }
            let mut set = vec![0u8; count.div_ceil(64) * 8];
            for &(fd, events) in found.iter().filter(|(_, events)| events & of != 0) {
                if wants(fd) & of == of && events & of != 0 {
                    set[fd / 8] |= 1 << (fd % 8);
                    bits += 1;
                }
            }
            user::copy_out(place, &set).map_err(|_| Errno::EFAULT)?;
        }
        Ok(bits)
    })
}

/// The descriptors for which something was found that is wanted of them, and what.
fn selected(
    asked: &mut [pollfd],
    limit: &Limit,
    mask: Option<u64>,
    wants: &dyn Fn(usize) -> u16,
) -> Result<Vec<(usize, u16)>, Errno> {
    loop {
        ready::wait(asked, limit, mask)?;
        let mut found = Vec::new();
        let mut is_any = false;
        for one in asked.iter_mut().filter(|one| one.revents != 0) {
            let (fd, events) = (one.fd as usize, one.revents as u16);
            if events & POLLNVAL != 0 {
                return Err(Errno::EBADF);
            }
            is_any = true;
            match events & wants(fd) {
                // What nobody wants, and poll(2) says all the same.
                0 => one.fd = -1,
                events => found.push((fd, events)),
            }
        }
        if !found.is_empty() || !is_any || limit.left() == Some(0) {
            return Ok(found);
        }
    }
}

/// epoll_ctl(2)
pub fn epoll_ctl(process: &Process, call: &mut Call) -> Answer {
    let [epoll, operation, fd, event, ..] = call.args;
    let (epoll, fd) = (epoll as i32, fd as i32);
    if let Some(kernels) = mount_tables::kernels(fd) {
        call.args[2] = kernels as usize;
        return Err(FORWARD);
    }
    let Some(description) = ready::polled(fd) else {
        return Err(FORWARD);
    };
    let is_known = class(epoll) == EPOLL;
    if process.run.is_internal(epoll) {
        return Err(Errno::EBADF);
    }
    if !is_known {
        is_epoll(epoll)?;
    }
    let event = match event_at(event) {
        Err(_) if operation as u32 == 2 => None,
        event => Some(event?),
    };
    // Before the first event comes.
    if !is_known && !process.table.note_epoll(epoll) {
        return Err(FORWARD);
    }
    let done = epolls::control(&description, (epoll, fd), operation as u32, event);
    done.map_or(Err(FORWARD), |done| done.map(|()| 0))
}

fn event_at(address: usize) -> Result<epoll_event, Errno> {
    Ok(epoll_event {
        events: memory::get::<u32>(address)?,
        data: memory::get::<u64>(address.wrapping_add(4))?,
    })
}

/// `fd` is an epoll instance, or an error (EBADF, EINVAL); the call is the kernel's where nobody
/// knows.
fn is_epoll(fd: i32) -> Result<(), Errno> {
    culvert_run::files::close_on_exec(fd)?;
    match culvert_run::descriptor_path(fd) {
        Ok(path) if path == b"anon_inode:[eventpoll]" => Ok(()),
        Ok(_) => Err(Errno::EINVAL),
        Err(_) => Err(FORWARD),
    }
}

/// epoll_wait(2), epoll_pwait(2), epoll_pwait2(2)
pub fn epoll_wait(process: &Process, call: &mut Call) -> Answer {
    let [epoll, at, most, time, address, size] = call.args;
    if class(epoll as i32) != EPOLL {
        // From the next time on the call is not offered, if that is so.
        if call.number == nr::EPOLL_WAIT {
            drop(process.table.get(epoll as i32));
        }
        return Err(FORWARD);
    }
    let most = most as i32;
    if most <= 0 || most as usize > usize::MAX / EVENT {
        return Err(FORWARD);
    }
    let most = (most as usize).min(EVENTS);
    let limit = match call.number {
        nr::EPOLL_PWAIT2 => limit(time, 1)?,
        _ => Some(milliseconds(time)),
    };
    let (address, size) = match call.number {
        nr::EPOLL_WAIT => (0, 0),
        _ => (address, size),
    };
    let (Some(limit), Some(mask)) = (limit, mask(address, size)?) else {
        return Err(FORWARD);
    };
    under(call, (address, mask), |_| {
        let events = awaited(epoll as i32, most, &limit, mask)?;
        for (i, event) in events.iter().enumerate() {
            let (events, data) = (event.events, event.data);
            let mut bytes = [0; EVENT];
            bytes[..4].copy_from_slice(&events.to_ne_bytes());
            bytes[4..].copy_from_slice(&data.to_ne_bytes());
            user::copy_out(at + i * EVENT, &bytes).map_err(|_| Errno::EFAULT)?;
        }
        Ok(events.len())
    })
}

/// At most `most` events of the instance.
fn awaited(
    epoll: i32,
    most: usize,
    limit: &Limit,
    mask: Option<u64>,
) -> Result<Vec<epoll_event>, Errno> {
    let mask = mask.map(wait::lent);
    let mut kernels = vec![epoll_event { events: 0, data: 0 }; most];
    loop {
        let left = limit.left();
        let time = match left {
            None => -1,
            Some(left) => left.div_ceil(1_000_000).min(i32::MAX as u64) as i32,
        };
        let instance = BorrowedFd::number(epoll);
        let count = wait::epoll_pwait(instance, &mut kernels, time, mask.as_ref())?;
        let found = epolls::told(epoll, kernels.get(..count).unwrap_or_default())?;
        if !found.is_empty() || count == 0 || left == Some(0) {
            return Ok(found);
        }
    }
}
