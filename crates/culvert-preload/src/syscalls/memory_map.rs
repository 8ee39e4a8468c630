//! mmap of driven files: of the driver's own file of the kernel's where there is one, else of the
//! shadow (`culvert-cache`).

use super::arguments::kernel_has_not;
use super::mappings;
use crate::answer::{Answer, FORWARD};
use crate::description::Object;
use crate::process::Process;
use crate::vfs::map::{FileMapping, MAP_ANONYMOUS, MAP_FIXED};
use culvert::Errno;
use culvert_cache::{nodes, pager};
use culvert_intercept::Call;

const MAP_FIXED_NOREPLACE: usize = 0x10_0000;

/// mmap(2)
pub fn mmap(process: &Process, call: &mut Call) -> Answer {
    let [address, length, protection, flags, fd, offset] = call.args;
    let held = match flags & MAP_ANONYMOUS {
        0 if process.run.is_internal(fd as i32) => return Err(Errno::EBADF),
        0 => kernel_has_not(process, fd),
        _ => None,
    };
    // The descriptor is looked at before the length (`ksys_mmap_pgoff`, mm/mmap.c), and the offset
    // before both.
    let is_path = held
        .as_ref()
        .is_some_and(|held| matches!(held.object, Object::Path));
    if length == 0 && (!is_path || !offset.is_multiple_of(4096)) {
        return Err(FORWARD);
    }
    let replaces = flags & (MAP_FIXED | MAP_FIXED_NOREPLACE) == MAP_FIXED
        && (nodes::any() || pager::is_lazy(address, length));
    if held.is_none() && !replaces {
        return Err(FORWARD);
    }
    let _changing = nodes::changing();
    let run = || {
        let lazy = match replaces {
            true => pager::between(address, nodes::pages(length)),
            false => alloc::vec::Vec::new(),
        };
        if replaces {
            pager::unmapped(address, length);
        }
        let made = match &held {
            None => mappings::native(call).map(|start| (start, None)),
            Some(held) => FileMapping {
                process,
                held,
                fd: fd as i32,
                address,
                length,
                protection,
                flags,
                offset,
            }
            .make(),
        };
        if made.is_err() {
            mappings::stays(&lazy);
        }
        let (start, region) = made?;
        if replaces {
            nodes::take(start, length);
        }
        region.into_iter().for_each(nodes::insert);
        Ok(start)
    };
    let answer = match replaces {
        true => mappings::replacing(address, length, run),
        false => run(),
    };
    if answer.is_err() {
        // Of a node that was entered for this mapping alone.
        nodes::release();
    }
    answer
}
