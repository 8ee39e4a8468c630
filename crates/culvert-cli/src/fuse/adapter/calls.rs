//! What a server that is not intercepted does with /dev/fuse by its own system calls: the kernel
//! asks the adapter about them (seccomp_unotify(2)), whatever the server's loader, language or word
//! size.
//!
//! | the server calls | answer |
//! |---|---|
//! | open("/dev/fuse") | its end of the socket |
//! | mount(2) of fuse, umount2(2) of its target | yes; the kernel hears nothing of it |
//! | fsopen(2) | ENOSYS, so that it uses mount(2) |
//! | vmsplice(2), splice(2) to the device | EINVAL: the kernel would send a reply in pieces |
//!
//! All other calls go on as they are. Of open(2) the kernel asks only where a file is opened for
//! reading and writing.

use super::super::DEVICE;
use culvert_preload::fuse_server::{OPTIONS, TARGET};
use culvert_sys::{BorrowedFd, Errno, OwnedFd};
use std::{
    fs::{self, File},
    os::unix::{ffi::OsStrExt, fs::FileExt},
    path::PathBuf,
    sync::{Arc, Mutex},
};

const AUDIT_ARCH_X86_64: u32 = 0xc000_003e;
const AUDIT_ARCH_I386: u32 = 0x4000_0003;

const ALLOW: u32 = 0x7fff_0000;
const ASK: u32 = 0x7fc0_0000;
const ERRNO: u32 = 0x0005_0000;

/// `struct sock_filter`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
struct Step {
    code: u16,
    if_true: u8,
    if_false: u8,
    value: u32,
}

/// `struct sock_fprog`.
#[repr(C)]
struct Program {
    length: u16,
    steps: *const Step,
}

culvert_sys::calls! {
    fn seccomp(operation: u32, flags: u32, program: &Program) -> usize
        = SECCOMP[operation, flags, core::ptr::from_ref(program)];
    fn no_new_rights(option: u32, yes: usize) -> () = PRCTL[option, yes, 0, 0, 0];
    fn ioctl_asked(listener: BorrowedFd<'_>, request: u32, asked: &mut Asked) -> ()
        = IOCTL[listener, request, core::ptr::from_mut(asked)];
    fn ioctl_answer(listener: BorrowedFd<'_>, request: u32, answer: &Answer) -> ()
        = IOCTL[listener, request, core::ptr::from_ref(answer)];
    fn ioctl_is_asked(listener: BorrowedFd<'_>, request: u32, id: &u64) -> ()
        = IOCTL[listener, request, core::ptr::from_ref(id)];
    fn ioctl_give(listener: BorrowedFd<'_>, request: u32, give: &Give) -> usize
        = IOCTL[listener, request, core::ptr::from_ref(give)];
}

/// `struct seccomp_notif`, with `struct seccomp_data`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Asked {
    id: u64,
    thread: u32,
    flags: u32,
    number: u32,
    processor: u32,
    instruction: u64,
    arguments: [u64; 6],
}

/// `struct seccomp_notif_resp`.
#[repr(C)]
struct Answer {
    id: u64,
    value: i64,
    error: i32,
    flags: u32,
}

/// `struct seccomp_notif_addfd`.
#[repr(C)]
struct Give {
    id: u64,
    flags: u32,
    from: u32,
    number: u32,
    descriptor_flags: u32,
}

/// The numbers of the calls for one word size.
struct Numbers {
    processor: u32,
    open: u32,
    openat: u32,
    mount: u32,
    umount: u32,
    splice: u32,
    vmsplice: u32,
}

/// arch/x86/entry/syscalls: `syscall_64.tbl`, `syscall_32.tbl`.
const NUMBERS: [Numbers; 2] = [
    Numbers {
        processor: AUDIT_ARCH_X86_64,
        open: 2,
        openat: 257,
        mount: 165,
        umount: 166,
        splice: 275,
        vmsplice: 278,
    },
    Numbers {
        processor: AUDIT_ARCH_I386,
        open: 5,
        openat: 295,
        mount: 21,
        umount: 52,
        splice: 313,
        vmsplice: 316,
    },
];
const FSOPEN: u32 = 430;

/// Where `struct seccomp_data` has the call's number, the processor and the lower half of an
/// argument.
const NUMBER: u32 = 0;
const PROCESSOR: u32 = 4;
const fn argument(index: u32) -> u32 {
    16 + 8 * index
}

const fn step(code: u16, value: u32) -> Step {
    Step {
        code,
        if_true: 0,
        if_false: 0,
        value,
    }
}

const fn load(at: u32) -> Step {
    step(0x20, at)
}

const fn result(value: u32) -> Step {
    step(0x06, value)
}

const fn mask(bits: u32) -> Step {
    step(0x54, bits)
}

/// `then`, where what was loaded is `value`.
fn when(value: u32, then: &[Step]) -> Vec<Step> {
    let skip = Step {
        if_false: then.len() as u8,
        ..step(0x15, value)
    };
    [&[skip], then].concat()
}

/// What is asked for each call.
fn filter() -> Vec<Step> {
    let error = |errno: Errno| result(ERRNO | errno.raw() as u32);
    let where_equal = |from: &[Step], value: u32, then: Step| {
        [from, &when(value, &[then]), &[result(ALLOW)]].concat()
    };
    // O_RDWR is 2 of the two bits of O_ACCMODE.
    let opened = |flags: u32| where_equal(&[load(argument(flags)), mask(3)], 2, result(ASK));
    let mut steps = vec![load(PROCESSOR)];
    for numbers in NUMBERS {
        let spliced = where_equal(&[load(argument(2))], DEVICE as u32, error(Errno::EINVAL));
        let calls = [
            vec![load(NUMBER)],
            when(numbers.open, &opened(1)),
            when(numbers.openat, &opened(2)),
            when(numbers.mount, &[result(ASK)]),
            when(numbers.umount, &[result(ASK)]),
            when(numbers.splice, &spliced),
            when(numbers.vmsplice, &[error(Errno::EINVAL)]),
            when(FSOPEN, &[error(Errno::ENOSYS)]),
            vec![result(ALLOW)],
        ];
        steps.extend(when(numbers.processor, &calls.concat()));
    }
    steps.push(result(ALLOW));
    steps
}

/// From here on the calling thread, and what it starts, asks by what is returned. Who has no rights
/// gives up the right to get some by set-user-ID programs.
pub fn listen() -> Result<OwnedFd, Errno> {
    const SET_MODE_FILTER: u32 = 1;
    const NEW_LISTENER: u32 = 1 << 3;
    const WAIT_KILLABLE: u32 = 1 << 5;
    const PR_SET_NO_NEW_PRIVS: u32 = 38;
    let steps = filter();
    let program = Program {
        length: steps.len() as u16,
        steps: steps.as_ptr(),
    };
    let install = |flags: u32| seccomp(SET_MODE_FILTER, flags, &program);
    // Before Linux 5.19 a signal may end what was asked, which is asked again.
    let both = || match install(NEW_LISTENER | WAIT_KILLABLE) {
        Err(Errno::EINVAL) => install(NEW_LISTENER),
        installed => installed,
    };
    let installed = match both() {
        Err(Errno::EACCES) => {
            no_new_rights(PR_SET_NO_NEW_PRIVS, 1)?;
            both()
        }
        installed => installed,
    };
    installed.map(|fd| OwnedFd::from_raw(fd as i32))
}

/// Who answers.
pub struct Answers {
    /// What [`listen`] has returned.
    pub listener: OwnedFd,
    /// The mount directory.
    pub place: PathBuf,
    /// The server's end of the socket, until the server has answered INIT.
    pub device: Arc<Mutex<Option<OwnedFd>>>,
    /// Whether the next open gets the device by its number, [`DEVICE`]: not twice, nor where that
    /// is the session already, for the server may close what it was given (libfuse's `clone_fd`).
    pub by_number: bool,
    /// The server has unmounted.
    pub unmounted: Box<dyn Fn() + Send>,
    /// Whether the session is over: nothing is mounted any more.
    pub has_ended: Box<dyn Fn() -> bool + Send>,
}

/// What a call is to do.
enum Done {
    /// What it says.
    GoOn,
    Return(i64),
    /// Return the device, with these flags.
    Open(u32),
}

impl Answers {
    /// Answers for as long as somebody asks.
    pub fn answer(mut self) {
        const RECEIVE: u32 = 0xc050_2100;
        const SEND: u32 = 0xc018_2101;
        const GO_ON: u32 = 1;
        let mut target = None;
        loop {
            let mut asked = Asked::default();
            match ioctl_asked(self.listener.borrow(), RECEIVE, &mut asked) {
                Ok(()) => {}
                // It has gone meanwhile.
                Err(Errno::ENOENT | Errno::EINTR) => continue,
                Err(_) => return,
            }
            let (value, error, flags) = match self.decide(&asked, &mut target) {
                Done::GoOn => (0, 0, GO_ON),
                Done::Return(value) => (value, 0, 0),
                Done::Open(flags) => match self.give(&asked, flags) {
                    Ok(number) => (number, 0, 0),
                    Err(errno) => (0, -errno.raw(), 0),
                },
            };
            let answer = Answer {
                id: asked.id,
                value,
                error,
                flags,
            };
            let _ = ioctl_answer(self.listener.borrow(), SEND, &answer);
        }
    }

    fn decide(&self, asked: &Asked, target: &mut Option<Vec<u8>>) -> Done {
        let numbers = NUMBERS
            .iter()
            .find(|numbers| numbers.processor == asked.processor);
        let Some(numbers) = numbers else {
            return Done::GoOn;
        };
        let [first, second, third, fourth, fifth, _] = asked.arguments;
        let number = asked.number;
        if number == numbers.open || number == numbers.openat {
            let (path, flags) = match number == numbers.open {
                true => (first, second),
                false => (second, third),
            };
            return match self.string(asked, path, b"/dev/fuse".len() + 1) {
                Some(path) if path == b"/dev/fuse" => Done::Open(flags as u32),
                _ => Done::GoOn,
            };
        }
        if number == numbers.mount {
            let kind = self.string(asked, third, 64).unwrap_or_default();
            let kind = kind.strip_prefix(b"fuseblk").or(kind.strip_prefix(b"fuse"));
            if !kind.is_some_and(|rest| rest.is_empty() || rest[0] == b'.') || (self.has_ended)() {
                return Done::GoOn;
            }
            *target = self.string(asked, second, LONGEST);
            let data = self.string(asked, fifth, LONGEST).unwrap_or_default();
            const MS_RDONLY: u64 = 1;
            let prefix: &[u8] = match fourth & MS_RDONLY != 0 {
                true => b"ro,",
                false => b"",
            };
            let _ = fs::write(self.place.join(OPTIONS), [prefix, &data].concat());
            return Done::Return(0);
        }
        let unmounts = self.string(asked, first, LONGEST);
        let own = fs::read_link(self.place.join(TARGET)).ok();
        let is_own = own.is_some_and(|own| unmounts.as_deref() == Some(own.as_os_str().as_bytes()));
        match number == numbers.umount && (is_own || target.is_some() && unmounts == *target) {
            true => {
                (self.unmounted)();
                Done::Return(0)
            }
            false => Done::GoOn,
        }
    }

    /// Gives the asking thread's process the device: its number there. At first by the number of
    /// which the filter knows that nothing is spliced to it.
    fn give(&mut self, asked: &Asked, flags: u32) -> Result<i64, Errno> {
        const GIVE: u32 = 0x4018_2103;
        const BY_NUMBER: u32 = 1;
        let device = self.device.lock().expect("nobody panics with it");
        let device = device.as_ref().ok_or(Errno::ENODEV)?;
        let give = |flags_of_giving, number| Give {
            id: asked.id,
            flags: flags_of_giving,
            from: device.raw() as u32,
            number,
            descriptor_flags: flags & culvert_sys::raw::general::O_CLOEXEC,
        };
        let listener = self.listener.borrow();
        let by_number = match self.by_number {
            true => ioctl_give(listener, GIVE, &give(BY_NUMBER, DEVICE as u32)),
            false => Err(Errno::EBADF),
        };
        let given = match by_number {
            // So many descriptors it may not have.
            Err(Errno::EBADF | Errno::EMFILE) => ioctl_give(listener, GIVE, &give(0, 0)),
            given => given,
        };
        self.by_number &= given.is_err();
        given.map(|number| number as i64)
    }

    /// The string at `address` of the memory of who asks, without its NUL, if it ends within `most`
    /// bytes.
    fn string(&self, asked: &Asked, address: u64, most: usize) -> Option<Vec<u8>> {
        const IS_ASKED: u32 = 0x4008_2102;
        let memory = File::open(format!("/proc/{}/mem", asked.thread)).ok()?;
        // Else the thread may be gone, and its number another's.
        ioctl_is_asked(self.listener.borrow(), IS_ASKED, &asked.id).ok()?;
        let mut bytes = vec![0; most];
        let count = memory.read_at(&mut bytes, address).ok()?;
        let end = bytes[..count].iter().position(|&byte| byte == 0)?;
        bytes.truncate(end);
        Some(bytes)
    }
}

/// The longest string that is read.
const LONGEST: usize = 4096;

/// The calling thread keeps what the kernel gives to set-user-ID programs from what it executes.
pub fn give_up_new_rights() -> Result<(), Errno> {
    const PR_SET_NO_NEW_PRIVS: u32 = 38;
    no_new_rights(PR_SET_NO_NEW_PRIVS, 1)
}
