//! A session: a file system, and the device by which requests come to it.
#![allow(unsafe_op_in_unsafe_fn)] // C calls: what it promises stands in fuse_lowlevel.h.

use crate::{
    abi::{Buf, Connection, CustomIo, LowLevel},
    arguments::Args,
    log,
    mounting::{self, Mount},
    mutex::locked,
    option_list::{Taken, Word, take},
    wants::Wants,
};
use culvert_wire::{Message, Protocol};
use libc::iovec;
use std::{
    collections::HashMap,
    ffi::{CStr, CString, c_char, c_int, c_void},
    io,
    os::fd::RawFd,
    sync::{
        Mutex, OnceLock,
        atomic::{AtomicBool, AtomicI32, AtomicPtr, Ordering::SeqCst},
    },
};

/// Bytes of a request besides what is written.
pub const HEADER: usize = 4096;

/// What was asked of the kernel's cache: the number of the last question, and the node and the
/// caller's cookie of each that waits.
#[derive(Debug, Default)]
pub struct Retrieving {
    pub last: u64,
    pub waiting: HashMap<u64, (u64, usize)>,
}

/// `struct fuse_session`, and, in version 2, its one `struct fuse_chan`.
pub struct Session {
    pub operations: LowLevel,
    pub data: *mut c_void,
    pub version: c_int,
    pub wants: Mutex<Wants>,
    pub connection: Mutex<Connection>,
    pub protocol: OnceLock<Protocol>,
    pub in_hand: Mutex<HashMap<u64, usize>>,
    /// Requests and replies are written to standard error.
    pub debug: bool,
    pub begun: AtomicBool,
    pub destroyed: AtomicBool,
    pub retrieving: Mutex<Retrieving>,
    /// The device.
    pub fd: AtomicI32,
    exited: AtomicBool,
    /// Read by who waits for the end.
    wake: RawFd,
    pub mount: Mutex<Mount>,
    custom: OnceLock<CustomIo>,
    /// What version 2 calls a channel has this session.
    pub owner: AtomicPtr<Session>,
}

// SAFETY: `data` is the file system's, which is called by several threads.
unsafe impl Send for Session {}
// SAFETY: as above.
unsafe impl Sync for Session {}

impl Session {
    /// A session of `operations`, with the options of `args`; none: one was wrong, which was said.
    ///
    /// # Safety
    /// All is what the header says.
    pub unsafe fn new(
        args: *mut Args,
        operations: LowLevel,
        data: *mut c_void,
        version: c_int,
    ) -> Option<&'static Self> {
        let mut wants = Wants::of(version);
        let mut mount = Mount::default();
        let mut debug = false;
        if !args.is_null() {
            let all = take(args, &mut |word| match word {
                Word::Option("-d" | "debug") => {
                    debug = true;
                    Taken::Mine
                }
                Word::Option("-V" | "--version" | "-h" | "--help") if version < 30 => Taken::Others,
                Word::Option(word) => match wants.take(word).or_else(|| mount.take(word)) {
                    Some(Ok(())) => Taken::Mine,
                    Some(Err(())) => Taken::Wrong,
                    None => {
                        log::say(&format!("unknown option `{word}'"));
                        Taken::Wrong
                    }
                },
                Word::Other(word) => {
                    log::say(&format!("invalid argument `{}'", word.to_string_lossy()));
                    Taken::Wrong
                }
            });
            if !all {
                return None;
            }
        }
        // SAFETY: flags only.
        let wake = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
        Some(Box::leak(Box::new(Self {
            operations,
            data,
            version,
            wants: Mutex::new(wants),
            connection: Mutex::default(),
            protocol: OnceLock::new(),
            in_hand: Mutex::default(),
            debug,
            begun: AtomicBool::new(false),
            destroyed: AtomicBool::new(false),
            retrieving: Mutex::default(),
            fd: AtomicI32::new(-1),
            exited: AtomicBool::new(false),
            wake,
            mount: Mutex::new(mount),
            custom: OnceLock::new(),
            owner: AtomicPtr::new(std::ptr::null_mut()),
        })))
    }

    /// What version 2 calls a channel: it takes the options of a mount, and leaves the others.
    ///
    /// # Safety
    /// `args` is what the header says.
    pub unsafe fn channel(args: *mut Args) -> Option<&'static Self> {
        let mut mount = Mount::default();
        let done = args.is_null()
            || take(args, &mut |word| match word {
                Word::Option(word) => match mount.take(word) {
                    Some(Ok(())) => Taken::Mine,
                    Some(Err(())) => Taken::Wrong,
                    None => Taken::Others,
                },
                Word::Other(_) => Taken::Others,
            });
        if !done {
            return None;
        }
        let channel = Self::new(
            std::ptr::null_mut(),
            LowLevel::NONE,
            std::ptr::null_mut(),
            29,
        )?;
        *locked(&channel.mount) = mount;
        Some(channel)
    }

    /// Has the device of `channel` from here on.
    pub fn add(&'static self, channel: &'static Self) {
        self.fd.store(channel.fd.load(SeqCst), SeqCst);
        let of = |session: &'static Self| std::ptr::from_ref(session).cast_mut();
        self.owner.store(of(channel), SeqCst);
        channel.owner.store(of(self), SeqCst);
    }

    /// Itself, or the session that it is the channel of.
    pub fn whole(&'static self) -> &'static Self {
        // SAFETY: null or a session, none of which is ever freed.
        let owner = unsafe { self.owner.load(SeqCst).as_ref() };
        owner.unwrap_or(self)
    }

    /// What INIT has negotiated.
    pub fn protocol(&self) -> Protocol {
        *self.protocol.get().unwrap_or(&Protocol::UNNEGOTIATED)
    }

    /// How long a request may be.
    pub fn buffer_size(&self) -> usize {
        locked(&self.wants).max_write as usize + HEADER
    }

    /// Sends a reply or a notification.
    pub fn send(&self, message: &Message<'_>) -> io::Result<()> {
        let parts = std::iter::once(message.head()).chain(message.pieces().iter().copied());
        let parts: Vec<iovec> = parts
            .map(|part| iovec {
                iov_base: part.as_ptr().cast_mut().cast(),
                iov_len: part.len(),
            })
            .collect();
        self.send_parts(&parts)
    }

    /// The same, of a message in parts.
    pub fn send_parts(&self, parts: &[iovec]) -> io::Result<()> {
        let fd = self.fd.load(SeqCst);
        let count = parts.len() as c_int;
        let own = self.custom.get().and_then(|own| own.writev);
        // SAFETY: the parts live as long as the call.
        let done = unsafe {
            match own {
                Some(writev) => writev(fd, parts.as_ptr().cast_mut(), count, self.data),
                None => libc::writev(fd, parts.as_ptr(), count),
            }
        };
        match done < 0 {
            true => Err(io::Error::last_os_error()),
            false => Ok(()),
        }
    }

    /// Reads a request from device `fd` into `buffer`: its length, 0 when the session has ended.
    pub fn receive(&self, fd: RawFd, buffer: &mut [u8]) -> io::Result<usize> {
        let own = self.custom.get().and_then(|own| own.read);
        loop {
            let place = buffer.as_mut_ptr().cast();
            // SAFETY: the buffer is as long.
            let length = unsafe {
                match own {
                    Some(read) => read(fd, place, buffer.len(), self.data),
                    None => libc::read(fd, place, buffer.len()),
                }
            };
            if length >= 0 {
                if length == 0 {
                    self.exit();
                }
                return Ok(length as usize);
            }
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::ENODEV) => {
                    self.exit();
                    return Ok(0);
                }
                Some(libc::EINTR) if !self.has_exited() => return Err(error),
                // One that was interrupted before it was read (fuse_dev_do_read, fs/fuse/dev.c).
                Some(libc::ENOENT) if !self.has_exited() => {}
                _ => return Err(error),
            }
        }
    }

    pub fn has_exited(&self) -> bool {
        self.exited.load(SeqCst)
    }

    /// Ends the loop; a signal handler may call it.
    pub fn exit(&self) {
        self.exited.store(true, SeqCst);
        // SAFETY: eight bytes, as eventfd(2) wants them.
        unsafe { libc::write(self.wake, (&raw const WAKE).cast(), 8) };
    }

    /// Waits until [`Self::exit`].
    pub fn await_exit(&self) {
        while !self.has_exited() {
            let mut count = 0_u64;
            // SAFETY: eight bytes, as eventfd(2) wants them.
            unsafe { libc::read(self.wake, (&raw mut count).cast(), 8) };
        }
    }

    /// The file system's end: what `destroy` is for, once.
    pub fn finish(&self) {
        if self.begun.load(SeqCst)
            && !self.destroyed.swap(true, SeqCst)
            && let Some(destroy) = self.operations.destroy
        {
            // SAFETY: the file system's own function, with its data.
            unsafe { destroy(self.data) };
        }
    }

    /// Mounts at `target`: whether it was done; else the reason was said.
    pub fn mount_at(&self, target: &CStr) -> bool {
        let mut mount = locked(&self.mount);
        match mounting::mount(&mut mount, target) {
            Ok(fd) => {
                self.fd.store(fd, SeqCst);
                true
            }
            Err(why) => {
                log::say(&why);
                false
            }
        }
    }

    /// Ends the mount, if there is one.
    pub fn unmount(&self) {
        let fd = self.fd.swap(-1, SeqCst);
        mounting::unmount(&mut locked(&self.mount), fd);
    }
}

static WAKE: u64 = 1;

#[unsafe(no_mangle)]
unsafe extern "C" fn culvert_fuse_session_new(
    args: *mut Args,
    operations: *const c_void,
    size: usize,
    data: *mut c_void,
    version: c_int,
) -> *mut Session {
    let operations = LowLevel::read(operations, size);
    match Session::new(args, operations, data, version) {
        Some(session) => std::ptr::from_ref(session).cast_mut(),
        None => std::ptr::null_mut(),
    }
}

#[unsafe(export_name = "culvert_fuse_session_mount")]
unsafe extern "C" fn session_mount(session: &'static Session, target: *const c_char) -> c_int {
    -c_int::from(!session.mount_at(CStr::from_ptr(target)))
}

#[unsafe(export_name = "culvert_fuse_session_unmount")]
extern "C" fn session_unmount(session: &'static Session) {
    session.unmount();
}

#[unsafe(export_name = "culvert_fuse_session_destroy")]
extern "C" fn session_destroy(session: &'static Session) {
    session.finish();
    let fd = session.fd.swap(-1, SeqCst);
    if fd >= 0 {
        // SAFETY: a descriptor of this session's.
        unsafe { libc::close(fd) };
    }
}

#[unsafe(export_name = "culvert_fuse_session_exit")]
extern "C" fn session_exit(session: &'static Session) {
    session.exit();
}

#[unsafe(export_name = "culvert_fuse_session_reset")]
extern "C" fn session_reset(session: &'static Session) {
    session.exited.store(false, SeqCst);
}

#[unsafe(export_name = "culvert_fuse_session_exited")]
extern "C" fn session_exited(session: &'static Session) -> c_int {
    c_int::from(session.has_exited())
}

#[unsafe(export_name = "culvert_fuse_session_fd")]
extern "C" fn session_fd(session: &'static Session) -> c_int {
    session.fd.load(SeqCst)
}

#[unsafe(export_name = "culvert_fuse_session_receive_buf")]
unsafe extern "C" fn session_receive_buf(session: &'static Session, buffer: *mut Buf) -> c_int {
    let buffer = &mut *buffer;
    let size = session.buffer_size();
    if buffer.mem.is_null() {
        buffer.mem = libc::malloc(size);
        buffer.mem_size = size;
    }
    if buffer.mem.is_null() {
        return -libc::ENOMEM;
    }
    let place = std::slice::from_raw_parts_mut(buffer.mem.cast::<u8>(), size);
    match session.receive(session.fd.load(SeqCst), place) {
        Ok(length) => {
            (buffer.size, buffer.flags) = (length, 0);
            length as c_int
        }
        Err(error) => -error.raw_os_error().unwrap_or(libc::EIO),
    }
}

#[unsafe(export_name = "culvert_fuse_session_custom_io")]
unsafe extern "C" fn session_custom_io(
    session: &'static Session,
    io: *const CustomIo,
    fd: c_int,
) -> c_int {
    if fd < 0 {
        return -libc::EBADF;
    }
    let Some(io) = io
        .as_ref()
        .filter(|io| io.writev.is_some() && io.read.is_some())
    else {
        return -libc::EINVAL;
    };
    let _ = session.custom.set(*io);
    session.fd.store(fd, SeqCst);
    0
}

/// `text` in memory of malloc(3), for C.
pub fn duplicated(text: &CString) -> *mut c_char {
    // SAFETY: a string.
    unsafe { libc::strdup(text.as_ptr()) }
}
