//! How requests come and replies go.

use culvert_sys::{nr, syscall};
use culvert_wire::{Message, structures::device};
use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
};
use std::{
    cell::Cell,
    io::{self, IoSlice},
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
};

/// Where answers go.
pub trait Channel {
    /// Sends a reply or a notification. One that nobody waits for any more is no error.
    ///
    /// # Errors
    /// The peer does not accept the message.
    fn send(&self, message: &Message<'_>) -> io::Result<()>;

    /// Sends a notification; whether the peer knew what it names.
    ///
    /// # Errors
    /// The peer does not accept the message.
    fn notify(&self, message: &Message<'_>) -> io::Result<bool> {
        self.send(message).map(|()| true)
    }

    /// Sends the bytes of a reply, which was made for an earlier server, to request `unique`.
    ///
    /// # Errors
    /// As [`Channel::send`]; this channel knows of no earlier servers.
    fn send_again(&self, reply: Vec<u8>, unique: u64) -> io::Result<()> {
        let _ = (reply, unique);
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Makes the file open in `file` one that the kernel reads and writes itself (passthrough); its
    /// number.
    ///
    /// # Errors
    /// The kernel refuses, or this channel has no such thing: the default.
    fn register_backing(&self, file: culvert_sys::BorrowedFd<'_>) -> io::Result<i32> {
        let _ = file;
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Gives a number of [`Channel::register_backing`] back.
    fn release_backing(&self, number: i32) {
        let _ = number;
    }

    /// This channel for another thread, which answers a request that came by it.
    ///
    /// # Errors
    /// No descriptor is left, or requests that are not answered soon would keep this one from
    /// others.
    fn owned(&self) -> io::Result<Box<dyn Channel + Send>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// A channel of a connection with the kernel (or who plays it) that requests come by, too. Each
/// thread has its own.
pub trait RequestChannel: Channel + Send {
    /// Waits for the next request and puts it into `buffer`; its length, 0 when the connection has
    /// ended.
    ///
    /// # Errors
    /// The channel is broken.
    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize>;

    /// The next request if there is one: its length. None: nothing yet, or this channel cannot
    /// tell.
    ///
    /// # Errors
    /// The channel is broken.
    fn receive_now(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let _ = buffer;
        Ok(None)
    }

    /// Another channel of the same connection, for another thread.
    ///
    /// # Errors
    /// There is none.
    fn another(&self) -> io::Result<Box<dyn RequestChannel>>;

    /// The device, where requests may come by rings as well.
    ///
    /// # Errors
    /// No descriptor is left, or there is no device.
    fn device(&self) -> io::Result<OwnedFd> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// A channel's descriptor.
#[derive(Debug)]
enum Device {
    Own(OwnedFd),
    /// Open as long as the process lives, whoever has used it.
    Kept(BorrowedFd<'static>),
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Own(device) => device.as_fd(),
            Self::Kept(device) => *device,
        }
    }
}

/// An open /dev/fuse.
#[derive(Debug)]
pub struct DeviceFuse {
    device: Device,
    /// Whether `O_NONBLOCK` is set; not known before it was, for a server that was killed may have
    /// left it so. The description is this thread's alone, see [`RequestChannel::another`].
    hasty: Cell<Option<bool>>,
}

impl DeviceFuse {
    /// Where the device is.
    pub const PATH: &'static str = "/dev/fuse";

    /// Opens the device, for a new connection.
    ///
    /// # Errors
    /// Of open(2).
    pub fn open() -> io::Result<OwnedFd> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        Ok(rustix::fs::open(Self::PATH, flags, Mode::empty())?)
    }

    /// The connection that `device` is mounted with.
    pub const fn new(device: OwnedFd) -> Self {
        Self {
            device: Device::Own(device),
            hasty: Cell::new(None),
        }
    }

    /// The same, of a descriptor that is not closed with it.
    pub(crate) const fn kept(device: BorrowedFd<'static>) -> Self {
        Self {
            device: Device::Kept(device),
            hasty: Cell::new(None),
        }
    }

    /// Its descriptor.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }

    /// Whether reads return at once when there is no request. Two cheap calls around each sleep;
    /// poll(2) would wake all threads for each request.
    fn set_hasty(&self, hasty: bool) -> io::Result<()> {
        if self.hasty.replace(Some(hasty)) != Some(hasty) {
            let nonblocking = if hasty {
                OFlags::NONBLOCK
            } else {
                OFlags::empty()
            };
            rustix::fs::fcntl_setfl(&self.device, nonblocking)?;
        }
        Ok(())
    }

    /// A read: 0 when the connection has ended.
    fn read(&self, buffer: &mut [u8]) -> Result<usize, Errno> {
        match rustix::io::read(&self.device, buffer) {
            Err(Errno::NODEV | Errno::CONNABORTED) => Ok(0),
            answer => answer,
        }
    }

    fn write(&self, message: &Message<'_>) -> Result<usize, Errno> {
        let mut slices = [IoSlice::new(&[]); culvert_wire::MAXIMUM_PIECES + 1];
        let parts = std::iter::once(message.head()).chain(message.pieces().iter().copied());
        let mut count = 0;
        for (slice, part) in slices.iter_mut().zip(parts) {
            *slice = IoSlice::new(part);
            count += 1;
        }
        rustix::io::writev(&self.device, &slices[..count])
    }

    /// `device` and others of the same connection, `count` in all if there are so many.
    pub fn channels(device: OwnedFd, count: usize) -> Vec<OwnedFd> {
        let others: Vec<_> = (1..count)
            .map_while(|_| clone_of(device.as_fd()).ok())
            .collect();
        std::iter::once(device).chain(others).collect()
    }

    /// Another channel of its connection.
    pub(crate) fn clone_device(&self) -> io::Result<OwnedFd> {
        clone_of(self.descriptor())
    }

    fn control(&self, request: u32, argument: *const u8) -> io::Result<usize> {
        control(self.descriptor(), request, argument)
    }
}

/// Another channel of the connection that `device` is one of.
fn clone_of(device: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let other = DeviceFuse::open()?;
    let connection = device.as_raw_fd();
    control(other.as_fd(), device::CLONE, (&raw const connection).cast())?;
    Ok(other)
}

fn control(device: BorrowedFd<'_>, request: u32, argument: *const u8) -> io::Result<usize> {
    let arguments = [
        device.as_raw_fd() as usize,
        request as usize,
        argument as usize,
    ];
    // SAFETY: the argument outlives the call and is what the request says: the callers.
    unsafe { syscall::call(nr::IOCTL, arguments) }
        .map_err(|error| io::Error::from_raw_os_error(error.raw()))
}

impl RequestChannel for DeviceFuse {
    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.set_hasty(false)?;
        loop {
            match self.read(buffer) {
                Ok(length) => return Ok(length),
                // ENOENT: the request was interrupted before it was read (fuse_dev_do_read,
                // fs/fuse/dev.c).
                Err(Errno::INTR | Errno::NOENT | Errno::AGAIN) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn receive_now(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        self.set_hasty(true)?;
        match self.read(buffer) {
            Ok(length) => Ok(Some(length)),
            Err(Errno::INTR | Errno::NOENT | Errno::AGAIN) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn another(&self) -> io::Result<Box<dyn RequestChannel>> {
        Ok(Box::new(Self::new(self.clone_device()?)))
    }

    fn device(&self) -> io::Result<OwnedFd> {
        self.descriptor().try_clone_to_owned()
    }
}

impl Channel for DeviceFuse {
    fn owned(&self) -> io::Result<Box<dyn Channel + Send>> {
        // The description is the same: a request is answered by the one that it was read from
        // (`fuse_dev_do_write`, fs/fuse/dev.c).
        Ok(Box::new(Self::new(self.descriptor().try_clone_to_owned()?)))
    }

    fn send(&self, message: &Message<'_>) -> io::Result<()> {
        match self.write(message) {
            // The caller was killed meanwhile, or the mount is gone.
            Ok(_) | Err(Errno::NOENT | Errno::NODEV | Errno::CONNABORTED) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn notify(&self, message: &Message<'_>) -> io::Result<bool> {
        match self.write(message) {
            Err(Errno::NOENT) => Ok(false),
            // A removed directory that is not empty here, or mounted on: it was dropped as far as
            // it could be. Or the mount is gone.
            Ok(_) | Err(Errno::NOTEMPTY | Errno::BUSY | Errno::NODEV | Errno::CONNABORTED) => {
                Ok(true)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn send_again(&self, mut reply: Vec<u8>, unique: u64) -> io::Result<()> {
        // `struct fuse_out_header`: length, error, unique.
        if let Some(place) = reply.get_mut(8..16) {
            place.copy_from_slice(&unique.to_ne_bytes());
        }
        match rustix::io::write(&self.device, &reply) {
            Ok(_) | Err(Errno::NOENT | Errno::NODEV | Errno::CONNABORTED) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn register_backing(&self, file: culvert_sys::BorrowedFd<'_>) -> io::Result<i32> {
        let map = culvert_wire::structures::BackingMap {
            fd: file.raw(),
            ..Default::default()
        };
        let number = self.control(device::BACKING_OPEN, (&raw const map).cast())?;
        i32::try_from(number).map_err(|_| io::ErrorKind::InvalidData.into())
    }

    fn release_backing(&self, number: i32) {
        // It was given by the kernel; nothing can be done if it does not know it any more.
        let _ = self.control(device::BACKING_CLOSE, (&raw const number).cast());
    }
}
