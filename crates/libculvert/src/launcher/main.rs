//! The first stage of the command `culvert`: a static program without libc, because each start of
//! one costs some 0.4 ms on virtual machines, whose CPUID instructions trap.
//!
//! It launches what is plain itself (`culvert_launch::plain`) and executes the whole command for
//! all else, in its place: with the same words, environment and name.
#![no_std]
#![no_main]

extern crate alloc;

mod heap;
#[path = "../memory_functions.rs"]
mod memory_functions;

use alloc::vec::Vec;
use core::ffi::{CStr, c_char};
use core::sync::atomic::{AtomicPtr, Ordering::Relaxed};
use culvert_launch::{NOT_SET_USER, NOT_SET_USER_ADVICE, WHOLE, plain};
use culvert_run::files::c_string;
use culvert_sys::fd::CWD;
use culvert_sys::raw::general::X_OK;
use culvert_sys::{BorrowedFd, Errno, fs, nr, process, syscall};

/// `culvert` itself failed (docs: exit status).
const FAILED: i32 = 125;

// The kernel leaves argc, the arguments, the environment and the auxiliary vector on the stack
// (System V ABI, AMD64 supplement, "Initial Stack and Register State").
core::arch::global_asm!(
    ".globl _start",
    "_start:",
    "xor ebp, ebp",
    "mov rdi, rsp",
    "and rsp, -16",
    "call {start}",
    "ud2",
    start = sym start,
);

/// Tells the exec hook of a run that the program is this first stage, though it is static: what it
/// executes is intercepted (`culvert_preload::exec::format`). Length of the name, length of what is
/// noted, kind, name.
#[used]
#[unsafe(link_section = ".note.culvert")]
static NOTE: Note = Note(*b"\x08\0\0\0\0\0\0\0\x01\0\0\0Culvert\0");

#[repr(C, align(4))]
struct Note([u8; 20]);

/// The initial stack.
static STACK: AtomicPtr<usize> = AtomicPtr::new(core::ptr::null_mut());

/// What the kernel has handed over.
struct Given {
    arguments: &'static [*const c_char],
    environment: &'static [*const c_char],
    /// Of the auxiliary vector (getauxval(3)).
    secure: bool,
}

impl Given {
    /// # Safety
    /// `stack` is the initial stack, which stays as it is.
    unsafe fn read(stack: *const usize) -> Self {
        const AT_NULL: usize = 0;
        const AT_SECURE: usize = 23;
        // SAFETY: the kernel's layout, see above: null pointers end the arrays, AT_NULL the pairs.
        unsafe {
            let count = *stack;
            let arguments = stack.add(1).cast::<*const c_char>();
            let environment = arguments.add(count + 1);
            let mut entries = 0;
            while !(*environment.add(entries)).is_null() {
                entries += 1;
            }
            let mut given = Self {
                arguments: core::slice::from_raw_parts(arguments, count),
                environment: core::slice::from_raw_parts(environment, entries),
                secure: false,
            };
            let mut pair = environment.add(entries + 1).cast::<[usize; 2]>();
            while (*pair)[0] != AT_NULL {
                if let [AT_SECURE, value] = *pair {
                    given.secure = value != 0;
                }
                pair = pair.add(1);
            }
            given
        }
    }
}

fn strings(pointers: &[*const c_char]) -> Vec<&'static CStr> {
    // SAFETY: strings of the initial stack, which end in NUL and stay.
    let of = |&pointer: &*const c_char| unsafe { CStr::from_ptr(pointer) };
    pointers.iter().map(of).collect()
}

unsafe extern "C" fn start(stack: *mut usize) -> ! {
    STACK.store(stack, Relaxed);
    // SAFETY: as the entry has found it.
    let given = unsafe { Given::read(stack) };
    if given.secure {
        refuse_other_rights();
    }
    let places = whole_command();
    let mut there = places.iter();
    // With capabilities of the file, which the whole command has not, nothing is done here.
    if let Some(whole) = there.find(|place| fs::access(&c_string(place), X_OK).is_ok())
        && !given.secure
    {
        plain::launch(
            &strings(given.arguments),
            &strings(given.environment),
            whole,
        );
    }
    execute_whole(&given, &places)
}

/// Where the whole command may lie: beside this one, or in ../lib/culvert from there.
fn whole_command() -> [Vec<u8>; 2] {
    // Without /proc it is nowhere: what else names this file may name a script that somebody made.
    let exe = c"/proc/self/exe";
    let own = fs::read_link(CWD, exe).unwrap_or_else(|_| exe.to_bytes().to_vec());
    let parent = |path: &[u8]| match path.iter().rposition(|&byte| byte == b'/') {
        Some(end) => path[..end].to_vec(),
        None => b".".to_vec(),
    };
    let here = parent(&own);
    let above = match own.starts_with(b"/") {
        true => parent(&here),
        false => [&here, &b"/.."[..]].concat(),
    };
    [
        [&here, &b"/"[..], WHOLE.as_bytes()].concat(),
        [&above, &b"/lib/culvert/"[..], WHOLE.as_bytes()].concat(),
    ]
}

fn execute_whole(given: &Given, places: &[Vec<u8>; 2]) -> ! {
    let mut why = Errno::ENOENT;
    for place in places {
        let place = c_string(place);
        // As they came: null pointers end both.
        let words = [
            place.as_ptr() as usize,
            given.arguments.as_ptr() as usize,
            given.environment.as_ptr() as usize,
        ];
        // SAFETY: path and strings end in NUL, the arrays in null pointers.
        why = match unsafe { syscall::call(nr::EXECVE, words) } {
            Err(errno) => errno,
            Ok(_) => Errno::ENOEXEC,
        };
        if why != Errno::ENOENT {
            break;
        }
    }
    say(&[
        b"culvert: the command's other part cannot be executed: ",
        why.text().as_bytes(),
        b"; it is ",
        &places[0],
        b" or ",
        &places[1],
        b"\n         install it there, or build both: cargo build --release\n",
    ]);
    process::exit_group(FAILED)
}

/// Files, programs and the environment are taken as the caller's own; and what lies beside this
/// file may be anybody's, who has made a link to it.
fn refuse_other_rights() {
    let (text, advice) = if process::geteuid() != process::getuid() {
        (NOT_SET_USER, NOT_SET_USER_ADVICE)
    } else if process::getegid() != process::getgid() {
        (
            "culvert must not be a set-group-ID program",
            "take the bit off (chmod g-s); users mount by fusermount3",
        )
    } else {
        return;
    };
    let (text, advice) = (text.as_bytes(), advice.as_bytes());
    say(&[b"culvert: ", text, b"\n         ", advice, b"\n"]);
    process::exit_group(FAILED)
}

fn say(parts: &[&[u8]]) {
    let _ = fs::write(BorrowedFd::number(2), &parts.concat());
}

/// A defect, or no memory: the whole command starts from the beginning.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    plain::put_back();
    heap::start_anew();
    // SAFETY: as the entry has found it.
    let given = unsafe { Given::read(STACK.load(Relaxed)) };
    execute_whole(&given, &whole_command())
}

// Named by the precompiled `core`, never called: this program aborts on panic.
core::arch::global_asm!(
    ".globl rust_eh_personality, _Unwind_Resume",
    "rust_eh_personality:",
    "_Unwind_Resume:",
    "ud2",
);
