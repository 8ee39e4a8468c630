//! Descriptors inside the arguments of calls on other files: ioctl(2) of devices, fsconfig(2),
//! kexec_file_load(2), prctl(2).
//!
//! The kernel would take what stands for a file of a mount (an empty memfd, a shadow with holes)
//! for the file. Where the driver has a file of the kernel's ([`kernel_has_not`]), that has become
//! the descriptor's, and all is right; else the call fails.
//!
//! Most requests that name descriptors need none of this, because the kernel compares what the
//! descriptor is, and what stands for a file of a mount is none of it: eventfds (KVM_IRQFD,
//! VHOST_SET_VRING_KICK, VHOST_SET_LOG_FD), sockets (NBD_SET_SOCK, VHOST_NET_SET_BACKEND),
//! /dev/fuse (FUSE_DEV_IOC_CLONE), buffers of devices (DRM_IOCTL_PRIME_FD_TO_HANDLE,
//! SYNC_IOC_MERGE), events and programs (PERF_EVENT_IOC_SET_OUTPUT, PERF_EVENT_IOC_SET_BPF,
//! TUNSETSTEERINGEBPF), containers (VFIO_GROUP_SET_CONTAINER), streams (SNDRV_PCM_IOCTL_LINK),
//! pipes of autofs, and files of the same file system (EXT4_IOC_MOVE_EXT, XFS_IOC_SWAPEXT,
//! F2FS_IOC_MOVE_RANGE, BTRFS_IOC_SNAP_CREATE, FICLONE into a file of the kernel's: EXDEV, EINVAL
//! or EBADF). Of a request that is not known nothing can be known: its size does not say what is a
//! descriptor (binder's objects, drivers out of the kernel's tree).

use super::arguments::kernel_has_not;
use super::{credentials, file};
use crate::answer::{Answer, FORWARD};
use crate::fuse_server;
use crate::process::Process;
use culvert::Errno;
use culvert_intercept::Call;
use culvert_run::memory;
use culvert_sys::raw::prctl::PR_SET_MM;

/// Where a request has a descriptor.
#[derive(Clone, Copy)]
enum Operand {
    /// It is the argument.
    Argument,
    /// An i32, so many bytes into the structure.
    At(usize),
    /// One in each of several structures of 24 bytes behind the first 8, which say how many
    /// (`struct udmabuf_create_list`).
    List,
    /// It goes to another process (`struct seccomp_notif_addfd`), which gets what a child would.
    GoesAway(usize),
}

/// A request, where its descriptor is, and what it fails with where only a driver has the file.
struct Request {
    number: u32,
    operand: Operand,
    refused: Errno,
}

const fn request(number: u32, operand: Operand, refused: Errno) -> Request {
    Request {
        number,
        operand,
        refused,
    }
}

/// What would take any file.
const REQUESTS: &[Request] = &[
    // linux/loop.h: LOOP_SET_FD, LOOP_CHANGE_FD, LOOP_CONFIGURE. `loop_configure`: EINVAL for what
    // is neither file nor block device.
    request(0x4c00, Operand::Argument, Errno::EINVAL),
    request(0x4c06, Operand::Argument, Errno::EINVAL),
    request(0x4c0a, Operand::At(0), Errno::EINVAL),
    // linux/fuse.h: FUSE_DEV_IOC_BACKING_OPEN. `fuse_backing_open`: EOPNOTSUPP for what cannot be
    // read by the kernel.
    request(0x4010_e501, Operand::At(0), Errno::EOPNOTSUPP),
    // linux/btrfs.h: BTRFS_IOC_SEND, whose stream the kernel writes.
    request(0x4048_9426, Operand::At(0), Errno::EINVAL),
    // linux/udmabuf.h: UDMABUF_CREATE, UDMABUF_CREATE_LIST. `check_memfd_seals`: EBADFD for what is
    // no memfd.
    request(0x4018_7542, Operand::At(0), Errno::EBADFD),
    request(0x4008_7543, Operand::List, Errno::EBADFD),
    // linux/seccomp.h: SECCOMP_IOCTL_NOTIF_ADDFD.
    request(0x4018_2103, Operand::GoesAway(12), Errno::EBADF),
];

/// Whether `fd` is not to be had by the kernel: EBADF for one of Culvert's own, `refused` where
/// only a driver has the file.
fn check(process: &Process, fd: i32, refused: Errno, what: &str) -> Result<(), Errno> {
    if fd < 0 {
        return Ok(());
    }
    if process.run.is_internal(fd) {
        return Err(Errno::EBADF);
    }
    match kernel_has_not(process, fd as usize) {
        None => Ok(()),
        Some(held) => {
            culvert_sys::log!(
                "{what} of descriptor {fd} is refused: the kernel has no file for {}",
                held.name()
            );
            Err(refused)
        }
    }
}

fn check_request(process: &Process, request: &Request, argument: usize) -> Result<(), Errno> {
    let at = |offset: usize| memory::get::<i32>(argument.wrapping_add(offset)).unwrap_or(-1);
    let refused = request.refused;
    match request.operand {
        Operand::Argument => check(process, argument as i32, refused, "ioctl"),
        Operand::At(offset) => check(process, at(offset), refused, "ioctl"),
        Operand::List => {
            // `list_limit` of udmabuf is 1024.
            let count = (at(4).max(0) as usize).min(1 << 16);
            (0..count).try_for_each(|i| check(process, at(8 + i * 24), refused, "ioctl"))
        }
        Operand::GoesAway(offset) => super::socket::hand_over_one(process, at(offset), true),
    }
}

/// ioctl(2): of a file of a mount, or with one in its argument.
pub fn ioctl(process: &Process, call: &mut Call) -> Answer {
    if let Some(answer) = fuse_server::ioctl(call) {
        return answer;
    }
    let request = call.args[1] as u32;
    if let Some(request) = REQUESTS.iter().find(|it| it.number == request) {
        check_request(process, request, call.args[2])?;
    }
    file::ioctl(process, call)
}

/// fsconfig(2) with a descriptor, or a path from one, of a file system's parameter.
pub fn fsconfig(process: &Process, call: &mut Call) -> Answer {
    const SET_PATH: u32 = 3;
    const SET_FD: u32 = 5;
    let [_, command, _, _, descriptor, _] = call.args;
    if matches!(command as u32, SET_PATH..=SET_FD) {
        check(process, descriptor as i32, Errno::EINVAL, "fsconfig")?;
    }
    Err(FORWARD)
}

/// kexec_file_load(2): the kernel reads both.
pub fn kexec_file_load(process: &Process, call: &mut Call) -> Answer {
    const NO_INITRAMFS: usize = 4;
    let [kernel, initrd, _, _, flags, _] = call.args;
    let initrd = match flags & NO_INITRAMFS {
        0 => initrd as i32,
        _ => -1,
    };
    check(process, kernel as i32, Errno::ENOEXEC, "kexec_file_load")?;
    check(process, initrd, Errno::ENOEXEC, "kexec_file_load")?;
    Err(FORWARD)
}

/// prctl(2): the program's file, which the kernel is told by a descriptor; the rest is another
/// function's.
pub fn prctl(process: &Process, call: &mut Call) -> Answer {
    const PR_SET_MM_EXE_FILE: usize = 13;
    if call.args[0] as u32 == PR_SET_MM && call.args[1] == PR_SET_MM_EXE_FILE {
        let file = call.args[2] as i32;
        check(process, file, Errno::EACCES, "PR_SET_MM_EXE_FILE")?;
    }
    credentials::confine(process, call)
}
