//! The memory that the service shares with the writers of its host
//! ([`culvert_sync_wire::memory`]), and how they see that it has died.

use culvert_sync_wire::memory::{LENGTH, Table};
use culvert_sys::fd::BorrowedFd;
use culvert_sys::flags::Protection;
use culvert_sys::memory::{Mapping, Of};
use culvert_sys::process;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::Ordering::SeqCst;

/// See the module.
pub struct Memory {
    fd: OwnedFd,
    mapping: Mapping,
}

/// A thread by which the service lives, as long as this does.
pub struct Life<'a> {
    memory: &'a Memory,
    /// The list of locks that the thread had before: the C library's.
    before: [usize; 2],
    /// What the kernel follows to the word. It is not in the memory that others can write.
    _list: Box<[usize; 4]>,
    /// It is the thread's own.
    _of_thread: PhantomData<*const ()>,
}

/// Bytes of `struct robust_list_head`.
const HEAD: usize = 3 * size_of::<usize>();

fn failed(errno: culvert_sys::Errno) -> io::Error {
    io::Error::from_raw_os_error(errno.raw())
}

impl Memory {
    /// Memory that nobody can make shorter.
    pub fn new() -> io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = memfd_create("culvert-sync", flags)?;
        ftruncate(&fd, LENGTH as u64)?;
        fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let both = Protection::READ | Protection::WRITE;
        let of = BorrowedFd::number(fd.as_raw_fd());
        let mapping = Mapping::new(Of::file(&of), LENGTH, both).map_err(failed)?;
        Ok(Self { fd, mapping })
    }

    /// What writers get.
    pub fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// Its words.
    pub fn table(&self) -> Table {
        // SAFETY: the mapping is so long, is writable, lives as long as `self`, which whoever holds
        // a file has too, and nothing but atomic words and the kernel reach it.
        unsafe { Table::new(self.mapping.start()) }
    }

    /// From now on the service lives as long as the calling thread and what is returned: when the
    /// thread dies the kernel marks the word of life, before it gives back the process's locks.
    pub fn live(&self) -> io::Result<Life<'_>> {
        let before = process::robust_list().map_err(failed)?;
        let mut list = Box::new([0; 4]);
        let (word, head) = (self.mapping.address(), &raw mut *list as usize);
        let entry = head + HEAD;
        // `struct robust_list_head`: the first entry, from an entry to its word, one under way.
        // Then the entry, behind which the head comes again.
        let filled = [entry, word.wrapping_sub(entry), 0, head];
        // SAFETY: it is the box's own; the kernel reads it, which the compiler does not see.
        unsafe { (&raw mut *list).write_volatile(filled) };
        // SAFETY: the list leads to the word of life alone, which is there to be marked, and lives
        // until the thread has another one.
        unsafe { process::set_robust_list([head, HEAD]) }.map_err(failed)?;
        self.table().life().store(process::gettid(), SeqCst);
        Ok(Life {
            memory: self,
            before,
            _list: list,
            _of_thread: PhantomData,
        })
    }
}

impl Drop for Life<'_> {
    fn drop(&mut self) {
        self.memory.table().life().store(0, SeqCst);
        // SAFETY: what the C library had set for this thread.
        let _ = unsafe { process::set_robust_list(self.before) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_has_the_memory_sees_that_the_service_died() {
        let memory = Memory::new().unwrap();
        assert!(!memory.table().lives());
        std::thread::scope(|scope| {
            let life = memory.live().unwrap();
            assert!(memory.table().lives());
            drop(life);
            assert!(!memory.table().lives());
            // As if it had been killed: the kernel finds the word.
            let dies = scope.spawn(|| std::mem::forget(memory.live().unwrap()));
            dies.join().unwrap();
            // The thread is joined before the kernel is done with it.
            while memory.table().lives() {
                std::thread::yield_now();
            }
            assert_eq!(memory.table().life().load(SeqCst), 0x4000_0000);
        });
    }
}
