//! Waiting until one of several descriptors is ready, among them files of mounts that may be
//! unready, and tables of mounts ([`mount_tables`]).

use crate::description::Description;
use crate::description::waits::{self, ALWAYS_FOUND, Waiting};
use crate::descriptors::{mount_tables, table};
use alloc::{sync::Arc, vec::Vec};
use culvert::Errno;
use culvert_intercept::wait;
use culvert_run::task;
use culvert_sys::process::clock_gettime;
use culvert_sys::raw::general::{CLOCK_MONOTONIC, POLLIN, RLIMIT_NOFILE, pollfd, timespec};

const SECOND: u64 = 1_000_000_000;

/// Whether any descriptor may be one that the kernel cannot wait for.
#[inline]
pub fn any() -> bool {
    waits::any() || mount_tables::are_any()
}

/// The description of `fd`, if its driver is to be asked whether it is ready. Where numbers mean
/// something else to others that have this memory, files are ready always.
pub fn polled(fd: i32) -> Option<Arc<Description>> {
    if !waits::any() || fd < 0 || task::vfork_child_with_table().is_some() || table().is_shared() {
        return None;
    }
    table().reference(fd).filter(|found| found.polls())
}

/// Whether the kernel cannot wait for one of these.
pub fn concerns(asked: &[pollfd]) -> bool {
    asked
        .iter()
        .any(|one| mount_tables::kernels(one.fd).is_some() || polled(one.fd).is_some())
}

/// Nanoseconds since some moment.
pub fn now() -> u64 {
    clock_gettime(CLOCK_MONOTONIC).map_or(0, |now| now.tv_sec as u64 * SECOND + now.tv_nsec as u64)
}

/// How long somebody waits.
#[derive(Clone, Copy)]
pub struct Limit {
    began: u64,
    /// Nanoseconds; none: for ever.
    time: Option<u64>,
}

impl Limit {
    /// From now on so many nanoseconds, or for ever.
    pub fn new(time: Option<u64>) -> Self {
        Self { began: now(), time }
    }

    /// How many are left.
    pub fn left(&self) -> Option<u64> {
        let passed = now().saturating_sub(self.began);
        Some(self.time?.saturating_sub(passed))
    }

    /// Nobody waits.
    pub fn is_none(&self) -> bool {
        self.time == Some(0)
    }
}

/// poll(2) of `asked`: for how many something was found. While it waits the signals of `mask` are
/// blocked, if that is given.
///
/// - `RESTART`: a signal came.
pub fn wait(asked: &mut [pollfd], limit: &Limit, mask: Option<u64>) -> Result<usize, Errno> {
    let mask = mask.map(wait::lent);
    let described = asked.iter().map(|one| polled(one.fd));
    let described: Vec<Option<Arc<Description>>> = described.collect();
    let files = described.iter().map(|file| Some(file.as_ref()?.waiting()));
    let files: Vec<_> = files.collect();
    let waits = !limit.is_none();
    // Each end is told of once: its file says what it likes from then on.
    let mut ends: Vec<i32> = files.iter().flatten().filter_map(Waiting::ended).collect();
    if !ends.is_empty() {
        // The kernel takes no more than a process may have descriptors (poll(2), EINVAL).
        let limits = culvert_sys::process::prlimit(RLIMIT_NOFILE, None);
        let most = limits.map_or(0, |[soft, _]| usize::try_from(soft).unwrap_or(usize::MAX));
        ends.truncate(most.saturating_sub(asked.len()));
    }
    loop {
        let mut ready = 0;
        let mut kernels = Vec::with_capacity(asked.len());
        for (one, file) in asked.iter_mut().zip(&files) {
            one.revents = 0;
            let mut kernel = pollfd { ..*one };
            if let Some(file) = file {
                let wanted = one.events as u16 | ALWAYS_FOUND;
                one.revents = (file.ready(waits)? & wanted) as i16;
                ready += usize::from(one.revents != 0);
                kernel.fd = file.descriptor().unwrap_or(-1);
                kernel.events = POLLIN as i16;
            } else if let Some(fd) = mount_tables::kernels(one.fd) {
                kernel.fd = fd;
            }
            kernels.push(kernel);
        }
        kernels.extend(ends.iter().map(|&fd| pollfd {
            fd,
            events: POLLIN as i16,
            revents: 0,
        }));
        let left = match ready {
            0 => limit.left(),
            _ => Some(0),
        };
        let mut time = left.map(|left| timespec {
            tv_sec: (left / SECOND) as i64,
            tv_nsec: (left % SECOND) as i64,
        });
        wait::ppoll(&mut kernels, time.as_mut(), mask.as_ref())?;
        let before = ends.len();
        let mut found = kernels.iter().skip(asked.len());
        ends.retain(|_| found.next().is_some_and(|one| one.revents == 0));
        let (mut others, mut told) = (0, ends.len() != before);
        for ((one, kernel), file) in asked.iter_mut().zip(&kernels).zip(&files) {
            match file {
                Some(_) => told |= kernel.revents != 0,
                None => {
                    one.revents = kernel.revents;
                    others += usize::from(kernel.revents != 0);
                }
            }
        }
        if ready + others > 0 || left == Some(0) || !told {
            return Ok(ready + others);
        }
    }
}
