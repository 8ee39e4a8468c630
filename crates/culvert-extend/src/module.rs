//! The module `culvert-fuse-ext` (extensions/include/culvert/fuse-ext.h).

use crate::bpf;
use culvert_sys::{nr, syscall};
use rustix::fs::{Mode, OFlags};
use std::{
    fmt, io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
};

const DEVICE: &str = "/dev/culvert-fuse-ext";
const VERSION: u32 = 1;
/// `_IOW(0xc7, 1, struct culvert_ext_attach)`.
const ATTACH: usize = 0x4010_c701;
/// `_IOR(0xc7, 2, struct culvert_ext_counts)`.
const COUNTS: usize = 0x8018_c702;
/// `_IOWR(0xc7, 3, struct culvert_ext_owner)`.
const OWNER: usize = 0xc010_c703;

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

/// Whose a connection is.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    fuse: i32,
    /// The user that the mount names (`user_id`).
    pub uid: u32,
    /// The number of its file system, as in /proc/PID/mountinfo.
    pub device: (u32, u32),
}

impl Owner {
    /// This user's, of this number.
    #[cfg(test)]
    pub(crate) fn of(uid: u32, device: (u32, u32)) -> Self {
        Self {
            fuse: -1,
            uid,
            device,
        }
    }
}

/// Why the device cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// The module is not loaded.
    Missing,
    /// It is root's.
    NotAllowed,
    /// Something else.
    Failed(rustix::io::Errno),
}

impl fmt::Display for Unusable {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => out
                .write_str("the module culvert-fuse-ext is not loaded (modprobe culvert-fuse-ext)"),
            Self::NotAllowed => write!(out, "{DEVICE}: Permission denied"),
            Self::Failed(error) => write!(out, "{DEVICE}: {error}"),
        }
    }
}

/// The module's device.
#[derive(Debug)]
pub struct Device(OwnedFd);

/// A program that is attached to a connection, as long as this lives.
#[derive(Debug)]
pub struct Attached {
    device: OwnedFd,
    memory: u64,
}

impl Device {
    /// Opens it.
    ///
    /// # Errors
    /// There is no module, no privilege.
    pub fn open() -> Result<Self, Unusable> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let device = rustix::fs::open(DEVICE, flags, Mode::empty());
        device.map(Self).map_err(|error| match error {
            rustix::io::Errno::NOENT => Unusable::Missing,
            rustix::io::Errno::ACCESS => Unusable::NotAllowed,
            error => Unusable::Failed(error),
        })
    }

    /// Whose connection `fuse` is one of.
    ///
    /// # Errors
    /// With why that is not known, for people.
    pub fn owner(&self, fuse: BorrowedFd<'_>) -> Result<Owner, String> {
        let mut owner = Owner {
            fuse: fuse.as_raw_fd(),
            uid: 0,
            device: (0, 0),
        };
        control(&self.0, OWNER, (&raw mut owner) as usize)
            .map_err(|error| format!("{DEVICE}: {error}"))?;
        Ok(owner)
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
        Ok(Attached::from(self.0))
    }
}

impl From<OwnedFd> for Attached {
    /// A device's descriptor that the loader service has attached.
    fn from(device: OwnedFd) -> Self {
        Self { device, memory: 0 }
    }
}

impl AsFd for Attached {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}

impl Attached {
    /// Bytes of memory that the kernel has for the program's maps.
    pub const fn memory(&self) -> u64 {
        self.memory
    }

    /// These are its maps. One whose size cannot be read counts for nothing.
    pub(crate) fn with_memory<'m>(mut self, maps: impl Iterator<Item = &'m OwnedFd>) -> Self {
        self.memory = maps.map(|map| bpf::memory(map).unwrap_or(0)).sum();
        self
    }

    /// What happened since.
    ///
    /// # Errors
    /// None that is known.
    pub fn counts(&self) -> io::Result<Counts> {
        let mut counts = Counts::default();
        control(&self.device, COUNTS, (&raw mut counts) as usize)?;
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
