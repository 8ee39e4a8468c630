//! The module `culvert-fuse-ext` (extensions/include/culvert/fuse-ext.h).

use culvert_sys::{nr, syscall};
use rustix::fs::{Mode, OFlags};
use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd, OwnedFd},
};

const DEVICE: &str = "/dev/culvert-fuse-ext";
const VERSION: u32 = 1;
/// `_IOW(0xc7, 1, struct culvert_ext_attach)`.
const ATTACH: usize = 0x4010_c701;
/// `_IOR(0xc7, 2, struct culvert_ext_counts)`.
const COUNTS: usize = 0x8018_c702;

#[repr(C)]
struct Attach {
    version: u32,
    fuse: i32,
    program: i32,
    flags: u32,
}

/// What happened since a program was attached.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// How often it ran.
    pub asked: u64,
    /// Of these, how often it answered.
    pub answered: u64,
    /// Of these, whose answer did not fit: the server was asked.
    pub misfits: u64,
}

/// The module's device.
#[derive(Debug)]
pub struct Device(OwnedFd);

/// A program that is attached to a connection, as long as this lives.
#[derive(Debug)]
pub struct Attached(OwnedFd);

impl Device {
    /// Opens it.
    ///
    /// # Errors
    /// With what keeps it from that, for people: there is no module, no privilege.
    pub fn open() -> Result<Self, String> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let device = rustix::fs::open(DEVICE, flags, Mode::empty());
        device.map(Self).map_err(|error| match error {
            rustix::io::Errno::NOENT => {
                "the module culvert-fuse-ext is not loaded (modprobe culvert-fuse-ext)".into()
            }
            error => format!("{DEVICE}: {error}"),
        })
    }

    /// Attaches `program` to the connection that `fuse`, a descriptor of /dev/fuse, is one of.
    ///
    /// # Errors
    /// With what keeps it from that, for people.
    pub fn attach(self, fuse: BorrowedFd<'_>, program: BorrowedFd<'_>) -> Result<Attached, String> {
        let attach = Attach {
            version: VERSION,
            fuse: fuse.as_raw_fd(),
            program: program.as_raw_fd(),
            flags: 0,
        };
        control(&self.0, ATTACH, (&raw const attach) as usize)
            .map_err(|error| format!("{DEVICE}: {error}"))?;
        Ok(Attached(self.0))
    }
}

impl Attached {
    /// What happened since.
    ///
    /// # Errors
    /// None that is known.
    pub fn counts(&self) -> io::Result<Counts> {
        let mut counts = Counts::default();
        control(&self.0, COUNTS, (&raw mut counts) as usize)?;
        Ok(counts)
    }
}

fn control(device: &OwnedFd, request: usize, argument: usize) -> io::Result<()> {
    let arguments = [device.as_raw_fd() as usize, request, argument];
    // SAFETY: the argument outlives the call and is what the request says: the callers.
    let done = unsafe { syscall::call(nr::IOCTL, arguments) };
    done.map(drop)
        .map_err(|error| io::Error::from_raw_os_error(error.raw()))
}
