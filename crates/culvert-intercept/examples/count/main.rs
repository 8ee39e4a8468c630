//! Counts the system calls of a command, and of everything it starts, by number:
//!
//! ```text
//! cargo run --release -p culvert-intercept --example count -- ls -l
//! ```
//!
//! The command is loaded into this very process (`loader`) after the engine, so its dynamic linker
//! is patched before it runs its first instruction, and statically linked programs are counted as
//! well. An execve is turned into one of this program, which loads the new one in the same way.

mod heap;
mod loader;

use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering::Relaxed};
use culvert_intercept::{Call, Config, ForkHooks, Interests, Outcome, install, user, wait};
use culvert_sys::{Errno, nr, syscall};
use std::{ffi::CString, os::unix::ffi::OsStringExt, process::exit, sync::OnceLock};

#[global_allocator]
static HEAP: heap::Heap = heap::Heap::new();

const NUMBERS: usize = 512;
/// The word that tells this program that it was started in place of another one; the descriptor of
/// the counters follows.
const INSTEAD: &[u8] = b"--counting-instead";
/// Where the counters' descriptor is kept, out of the program's way; the next one is standard
/// error, which programs may close.
const HIGH: usize = 700;

/// Counters, in memory that all processes share.
static COUNTERS: AtomicPtr<[AtomicU64; NUMBERS]> = AtomicPtr::new(core::ptr::null_mut());
/// The last counter, of a number that no call has, is the process that prints them.
const FIRST: usize = NUMBERS - 1;

/// The path of the program that was loaded.
static PROGRAM: OnceLock<CString> = OnceLock::new();

fn counters() -> &'static [AtomicU64; NUMBERS] {
    // SAFETY: set before the engine starts, to memory that stays mapped.
    unsafe { &*COUNTERS.load(Relaxed) }
}

/// Runs on every call, inside the hook: nothing here may use libc.
fn handler(call: &mut Call) -> Outcome {
    counters()[call.number % NUMBERS].fetch_add(1, Relaxed);
    match call.number {
        nr::EXECVE => exec(call),
        nr::READLINK if is_own_link(call.args[0]) => answer_link(call.args[1], call.args[2]),
        nr::READLINKAT if is_own_link(call.args[1]) => answer_link(call.args[2], call.args[3]),
        nr::EXIT_GROUP => {
            // SAFETY: a number.
            if unsafe { syscall::raw(nr::GETPID, [0; 6]) } as u64 == counters()[FIRST].load(Relaxed)
            {
                print();
            }
            Outcome::Forward
        }
        _ => Outcome::Forward,
    }
}

/// Whether the program asks for its executable, which the kernel takes to be this one.
fn is_own_link(path: usize) -> bool {
    let mut name = [0; 64];
    user::string_in(path, &mut name).is_ok_and(|length| &name[..length] == b"/proc/self/exe")
}

/// readlink(2) of it.
fn answer_link(buffer: usize, size: usize) -> Outcome {
    let path = program();
    let length = path.len().min(size);
    Outcome::Return(
        user::copy_out(buffer, &path[..length])
            .map_or(Errno::EFAULT.negated(), |()| length as isize),
    )
}

fn program() -> &'static [u8] {
    PROGRAM.get().map_or(&[], |path| path.as_bytes())
}

/// `path args...` becomes `count --counting-instead DESCRIPTOR path args...`; what cannot be
/// executed fails as it would.
fn exec(call: &Call) -> Outcome {
    const X_OK: usize = 1;
    let [mut path, args, environment, ..] = call.args;
    if is_own_link(path) {
        path = PROGRAM
            .get()
            .map_or(path, |program| program.as_ptr() as usize);
    }
    // SAFETY: a check by the kernel.
    if unsafe { syscall::raw(nr::ACCESS, [path, X_OK, 0, 0, 0, 0]) } != 0 || !loader::can_load(path)
    {
        return Outcome::Forward;
    }
    let mut vector = [0usize; 4096];
    vector[0] = c"count".as_ptr() as usize;
    vector[1] = c"--counting-instead".as_ptr() as usize;
    vector[2] = path;
    // args[0] is kept: programs look at it.
    let mut length = 3;
    loop {
        let Ok(argument) = user::read::<usize>(args + (length - 3) * 8) else {
            return Outcome::Return(Errno::EFAULT.negated());
        };
        vector[length] = argument;
        if argument == 0 {
            break;
        }
        length += 1;
        if length == vector.len() {
            return Outcome::Forward;
        }
    }
    let executable = c"/proc/self/exe".as_ptr() as usize;
    culvert_intercept::before_exec();
    // SAFETY: an exec with checked arguments; it returns only when it fails.
    let result = unsafe {
        wait::interruptible(
            nr::EXECVE,
            [executable, vector.as_ptr() as usize, environment, 0, 0, 0],
        )
    };
    culvert_intercept::exec_failed();
    match result {
        Ok(result) => Outcome::Return(result),
        Err(wait::Interrupted) => Outcome::Restart,
    }
}

fn print() {
    let mut total = 0;
    for (number, counter) in counters()[..FIRST].iter().enumerate() {
        let count = counter.load(Relaxed);
        total += count;
        if count != 0 {
            print_line(count, Some(number));
        }
    }
    print_line(total, None);
}

/// `count` and the call's number, to standard error.
fn print_line(count: u64, number: Option<usize>) {
    let mut line = *b"              total\n";
    let put = |line: &mut [u8], mut at: usize, mut value: u64| {
        loop {
            line[at] = b'0' + (value % 10) as u8;
            value /= 10;
            if value == 0 {
                break;
            }
            at -= 1;
        }
    };
    put(&mut line, 12, count);
    if let Some(number) = number {
        line[14..19].fill(b' ');
        put(&mut line, 18, number as u64);
    }
    // SAFETY: writes the line.
    unsafe {
        syscall::raw(
            nr::WRITE,
            [HIGH + 1, line.as_ptr() as usize, line.len(), 0, 0, 0],
        )
    };
}

/// Maps the counters: those of descriptor [`HIGH`], or new ones.
fn map_counters(inherited: bool) -> Result<(), Errno> {
    const MFD_NONE: usize = 0;
    let size = size_of::<[AtomicU64; NUMBERS]>();
    // SAFETY: descriptors and a mapping of our own.
    unsafe {
        if !inherited {
            let file = syscall::call(nr::MEMFD_CREATE, [c"counters".as_ptr() as usize, MFD_NONE])?;
            syscall::call(nr::FTRUNCATE, [file, size])?;
            syscall::call(nr::DUP2, [file, HIGH])?;
            syscall::call(nr::CLOSE, [file])?;
            syscall::call(nr::DUP2, [2, HIGH + 1])?;
        }
        let shared = syscall::call(nr::MMAP, [0, size, 3, 1, HIGH, 0])
            // A program may have closed it: count for nobody.
            .or_else(|_| syscall::call(nr::MMAP, [0, size, 3, 0x21, usize::MAX, 0]))?;
        COUNTERS.store(shared as *mut _, Relaxed);
        if !inherited {
            counters()[FIRST].store(std::process::id().into(), Relaxed);
        }
    }
    Ok(())
}

fn fail(status: i32, message: &str) -> ! {
    eprintln!("count: {message}");
    exit(status);
}

fn main() {
    let mut arguments: Vec<CString> = std::env::args_os()
        .skip(1)
        .map(|argument| CString::new(argument.into_vec()).expect("arguments hold no NUL"))
        .collect();
    let instead = arguments
        .first()
        .is_some_and(|first| first.as_bytes() == INSTEAD);
    if instead {
        arguments.remove(0);
    } else {
        let Some(command) = arguments.first() else {
            fail(125, "usage: count COMMAND [ARGUMENT]...")
        };
        let path = loader::search(command)
            .unwrap_or_else(|| fail(127, &format!("{}: not found", command.to_string_lossy())));
        arguments.insert(0, path);
    }
    if let Err(errno) = map_counters(instead) {
        fail(125, &format!("no memory for counters: {errno}"));
    }
    let program = loader::load(&arguments[0], &arguments[1..]).unwrap_or_else(|reason| {
        fail(
            126,
            &format!("{}: {reason}", arguments[0].to_string_lossy()),
        )
    });
    let _ = PROGRAM.set(loader::real_path(&arguments[0]));
    loader::forget_signals();
    let nothing = ForkHooks {
        thread: || (),
        before: |_| (),
        parent: |_, _| (),
        child: |_| (),
    };
    let config = Config {
        handler,
        interests: &Interests::ALL,
        fork: nothing,
        fresh: false,
        patch: true,
        cache_directories: &[],
        images: None,
        known_images: &[],
        said_of_program: None,
        may_make_images: || true,
        log: |line| {
            if std::env::var_os("COUNT_LOG").is_some() {
                eprintln!("count: {}", String::from_utf8_lossy(line));
            }
        },
    };
    // SAFETY: the only thread, at its start.
    if let Err(error) = unsafe { install(config) } {
        fail(125, &format!("{}: {}", error.what, error.errno));
    }
    program.start();
}
