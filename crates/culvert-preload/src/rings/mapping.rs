//! mmap(2) of a ring: the queues are the kernel's, the requests are not.

use crate::answer::{Answer, FORWARD};
use crate::descriptors::rings::memory::REQUESTS;
use crate::descriptors::rings::{DescriptorKind, Ring, find};
use crate::process::Process;
use crate::syscalls::memory_map;
use culvert::Errno;
use culvert_intercept::Call;
use culvert_sys::{PAGE, nr, syscall};

const MAP_ANONYMOUS: usize = 0x20;
const MAP_TYPE: usize = 0xf;
const MAP_SHARED: usize = 1;
/// `IORING_OFF_MMAP_MASK`: which of a ring's memories is meant.
const WHICH: usize = 0xf800_0000;

/// mmap(2)
pub fn mmap(process: &Process, call: &mut Call) -> Answer {
    let map = |call: &mut Call| memory_map::mmap(process, call);
    mapped(call, map).unwrap_or_else(|| map(call))
}

/// The answer to the mmap of a ring's requests; none for all else. `map` maps.
#[inline]
fn mapped(call: &Call, map: impl FnOnce(&mut Call) -> Answer) -> Option<Answer> {
    let [_, _, _, flags, _, offset] = call.args;
    // The queues are at 0 and 0x800_0000, groups of buffers from 0x8000_0000 on: what lies between
    // is the requests' (`io_uring_validate_mmap_request`).
    if flags & MAP_ANONYMOUS != 0 || offset & WHICH != REQUESTS {
        return None;
    }
    match find(call.args[4] as i32) {
        DescriptorKind::Ring(ring) => Some(map_requests(&ring, call, map)),
        DescriptorKind::Stranger => {
            culvert_sys::log!(
                "io_uring: the requests of a ring that this program has not made are not mapped"
            );
            Some(Err(Errno::EACCES))
        }
        DescriptorKind::Other => None,
    }
}

#[cold]
fn map_requests(ring: &Ring, call: &Call, map: impl FnOnce(&mut Call) -> Answer) -> Answer {
    let [_, length, _, flags, _, offset] = call.args;
    // Behind the last request the kernel has nothing.
    let pages = length.min(ring.memory.length()).next_multiple_of(PAGE);
    if length == 0 || offset != REQUESTS {
        return Err(Errno::EINVAL);
    }
    let mut anonymous = Call { ..*call };
    anonymous.args[3] = flags & !MAP_TYPE | MAP_SHARED | MAP_ANONYMOUS;
    anonymous.args[4] = usize::MAX;
    anonymous.args[5] = 0;
    let start = match map(&mut anonymous) {
        Err(FORWARD) => anonymous.execute(),
        mapped => mapped,
    };
    start.and_then(|start| {
        const MAYMOVE_FIXED: usize = 3;
        let originals = ring.memory.originals();
        // mremap(2): of an old size of 0 it makes another mapping of shared pages.
        // SAFETY: replaces, or removes, what was just mapped, which nobody knows.
        unsafe {
            syscall::call(nr::MREMAP, [originals, 0, pages, MAYMOVE_FIXED, start]).inspect_err(
                |_| {
                    let _ = syscall::call(nr::MUNMAP, [start, pages]);
                },
            )
        }
    })
}
