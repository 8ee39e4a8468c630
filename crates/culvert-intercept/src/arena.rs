//! Executable memory for stubs, within reach of the code that jumps to them.

use crate::maps::{Mapping, Name};
use alloc::vec::Vec;
use culvert_sys::PAGE64;
use culvert_sys::fd::memfd_create;
use culvert_sys::flags::Protection;
use culvert_sys::memory::{self, Of};
use culvert_sys::{Errno, OwnedFd, fs, raw::general as linux};

const EXECUTABLE: Protection = Protection::READ.union(Protection::EXEC);

/// Displacements reach 2 GiB; a MiB is left for stubs, jumps and rounding.
const REACH: u64 = (1 << 31) - (1 << 20);
/// Nothing may be mapped below (`vm.mmap_min_addr`'s usual value).
const LOWEST: u64 = 0x1_0000;
/// The end of user space with four-level page tables.
const HIGHEST: u64 = 0x7fff_ffff_f000;
/// How far the stack may grow down: what the kernel keeps free at least (`mmap_base`,
/// `arch/x86/mm/mmap.c`).
const STACK_ROOM: u64 = 128 << 20;
/// How far the heap may grow up before it meets a stub.
const HEAP_ROOM: u64 = 1 << 30;

/// Makes `size` bytes of read-only executable memory that reaches, and is reached by, all of
/// `object` (first and last address of everything that moved instructions may refer to). `write` is
/// given the address and the memory, full of zeros, and says how much of it it has used. The memory
/// is added to `mappings`, and its address returned.
pub fn executable(
    mappings: &mut Vec<Mapping>,
    object: (u64, u64),
    size: u64,
    mut write: impl FnMut(u64, &mut [u8]) -> usize,
) -> Result<u64, Errno> {
    let size = size.next_multiple_of(PAGE64);
    let mut result = Err(Errno::ENOMEM);
    for address in candidates(mappings, object, size, memory::program_break().unwrap_or(0)) {
        result = fill(address, size, &mut write);
        match result {
            Ok(()) => {
                let index = mappings.partition_point(|mapping| mapping.start < address);
                mappings.insert(index, stub_mapping(address, size));
                return Ok(address);
            }
            // Taken in the meantime, or outside of what this kernel allows.
            Err(Errno::EEXIST | Errno::EPERM) => {}
            Err(_) => break,
        }
    }
    Err(result.err().unwrap_or(Errno::ENOMEM))
}

fn stub_mapping(start: u64, size: u64) -> Mapping {
    Mapping {
        start,
        end: start + size,
        readable: true,
        writable: false,
        executable: true,
        shared: false,
        offset: 0,
        file: (0, 0),
        name: Name::Other,
    }
}

/// Addresses for `size` bytes in gaps, the nearest first.
fn candidates(mappings: &[Mapping], (low, high): (u64, u64), size: u64, heap_end: u64) -> Vec<u64> {
    let lowest = high
        .saturating_sub(REACH)
        .max(LOWEST)
        .next_multiple_of(PAGE64);
    let highest = low.saturating_add(REACH).min(HIGHEST);
    let mut found = Vec::new();
    let mut gap = |from: u64, to: u64| {
        let (from, to) = (from.max(lowest), to.min(highest));
        if to.saturating_sub(from) >= size {
            // Next to the object's side: page tables are shared, and large gaps stay large.
            found.push(if from >= high {
                from
            } else {
                (to - size) & !(PAGE64 - 1)
            });
        }
    };
    let mut free = 0;
    let end = stub_mapping(HIGHEST, 0);
    for mapping in mappings.iter().chain([&end]) {
        let to = if mapping.name == Name::Stack {
            mapping.start.saturating_sub(STACK_ROOM)
        } else {
            mapping.start
        };
        // The heap begins somewhere behind the program even while it is empty.
        if (free..=to).contains(&heap_end) {
            gap(free, heap_end);
            gap(heap_end + HEAP_ROOM, to);
        } else {
            gap(free, to);
        }
        free = free.max(mapping.end);
    }
    found.sort_unstable_by_key(|address| {
        if *address >= high {
            address - high
        } else {
            low.saturating_sub(*address)
        }
    });
    found
}

/// Makes the same at `address` and nowhere else (EEXIST): anonymous memory that is made executable
/// once it is written; where that is forbidden (PR_SET_MDWE, systemd's MemoryDenyWriteExecute,
/// SELinux), a memory file that is mapped executable from the start. `size` is of whole pages.
pub fn fill(
    address: u64,
    size: u64,
    mut write: impl FnMut(u64, &mut [u8]) -> usize,
) -> Result<(), Errno> {
    let fresh = map_at(
        address,
        Of::Nothing,
        size,
        Protection::READ | Protection::WRITE,
    )?;
    // SAFETY: mapped a moment ago, ours alone, and no slice when it changes below.
    let bytes = unsafe { core::slice::from_raw_parts_mut(fresh.start(), fresh.len()) };
    let used = write(address, bytes);
    if fresh.protect(EXECUTABLE.bits() as usize).is_ok() {
        fresh.leak();
        return Ok(());
    }
    let file = memory_file(bytes.get(..used).unwrap_or_default());
    drop(fresh);
    map_at(address, Of::Private(file?.borrow(), 0), size, EXECUTABLE).map(|file| {
        file.leak();
    })
}

/// A mapping at `address` and nowhere else.
fn map_at(
    address: u64,
    of: Of<'_>,
    size: u64,
    rights: Protection,
) -> Result<memory::Mapping, Errno> {
    let mapped = memory::Mapping::near(address as usize, of, size as usize, rights)?;
    if mapped.address() as u64 != address {
        return Err(Errno::EEXIST);
    }
    Ok(mapped)
}

/// An executable memory file (memfd_create(2)) with these contents.
fn memory_file(contents: &[u8]) -> Result<OwnedFd, Errno> {
    let create = |flags| memfd_create(c"culvert-stubs", flags);
    // MFD_EXEC since Linux 6.3, where vm.memfd_noexec may ask for it.
    let file =
        create(linux::MFD_CLOEXEC | linux::MFD_EXEC).or_else(|_| create(linux::MFD_CLOEXEC))?;
    let mut written = 0;
    while let Some(rest) = contents.get(written..).filter(|rest| !rest.is_empty()) {
        match fs::pwrite(&file, rest, written as u64) {
            Ok(0) => break,
            Ok(count) => written += count,
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maps;

    fn at(start: u64, end: u64, name: Name) -> Mapping {
        Mapping {
            end,
            name,
            ..stub_mapping(start, 0)
        }
    }

    #[test]
    fn gaps_are_used_nearest_first_and_leave_room_for_stack_and_heap() {
        const OBJECT: (u64, u64) = (0x7f00_0000_0000, 0x7f00_0020_0000);
        let stack = at(0x7f00_1000_0000, 0x7f00_1002_1000, Name::Stack);
        let mappings = [
            at(0x7eff_fff0_0000, OBJECT.0, Name::Other),
            at(OBJECT.0, OBJECT.1, Name::Other),
            stack,
        ];
        let found = candidates(&mappings, OBJECT, 0x3000, 0);
        assert_eq!(found, [OBJECT.1, 0x7eff_fff0_0000 - 0x3000, stack.end]);
        // A stack nearer than its room closes the gap below it.
        let close = at(OBJECT.1 + 0x10_0000, OBJECT.1 + 0x12_0000, Name::Stack);
        assert!(
            !candidates(&[mappings[0], mappings[1], close], OBJECT, 0x3000, 0).contains(&OBJECT.1)
        );
        // The heap, still empty, begins a page behind the object.
        let found = candidates(&mappings[1..2], OBJECT, 0x3000, OBJECT.1 + 0x1000);
        assert_eq!(found, [OBJECT.0 - 0x3000, OBJECT.1 + 0x1000 + HEAP_ROOM]);
        // Nothing in reach: the neighbours fill it all.
        let full = [at(OBJECT.0 - 2 * REACH, OBJECT.1 + 2 * REACH, Name::Other)];
        assert_eq!(candidates(&full, OBJECT, 0x1000, 0), []);
    }

    #[test]
    fn memory_is_executable_by_either_way() {
        const SEVEN: [u8; 6] = [0xb8, 7, 0, 0, 0, 0xc3]; // mov $7,%eax; ret
        let mut mappings = maps::View::all().unwrap().mappings;
        let here = memory_is_executable_by_either_way as fn() as usize as u64;
        let address = executable(&mut mappings, (here, here + 1), 100, |_, memory| {
            memory[..SEVEN.len()].copy_from_slice(&SEVEN);
            SEVEN.len()
        })
        .unwrap();
        assert!(address.abs_diff(here) < 1 << 31);
        assert!(mappings.is_sorted_by_key(|mapping| mapping.start));
        assert_eq!(call(address), 7);

        let file = memory_file(&SEVEN).unwrap();
        let other = *candidates(&mappings, (here, here + 1), PAGE64, 0)
            .first()
            .unwrap();
        let mapped = map_at(other, Of::Private(file.borrow(), 0), PAGE64, EXECUTABLE).unwrap();
        drop(file);
        assert_eq!(call(other), 7);
        let again = map_at(other, Of::Nothing, PAGE64, Protection::empty());
        assert_eq!(again.map(drop), Err(Errno::EEXIST));
        drop(mapped);
    }

    fn call(address: u64) -> u32 {
        // SAFETY: a function of the C ABI was written there.
        let function: extern "C" fn() -> u32 = unsafe { core::mem::transmute(address as usize) };
        function()
    }
}
