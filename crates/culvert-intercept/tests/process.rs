//! The engine in a whole process with its libc patched: threads, fork, vfork, dlopen, signals
//! between threads.
//!
//! Each scenario runs in a process of its own, on its first thread, as a program under the engine
//! would. (The usual harness has a second thread waiting in libc, in code that would be patched
//! under it.)

#[path = "../examples/count/heap.rs"]
mod heap;

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};
use culvert_intercept::{
    Call, CloneFlags, Config, ForkHooks, Interest, Interests, Outcome, current, install, wait,
};
use culvert_sys::{nr, sync::Mutex, syscall};
use std::{
    ffi::{CStr, c_char, c_int, c_void},
    io::{Read, Write},
    os::fd::AsRawFd,
    process::{Command, ExitCode, Stdio},
    thread,
    time::Duration,
};

unsafe extern "C" {
    fn fork() -> c_int;
    fn vfork() -> c_int;
    fn waitpid(pid: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn _exit(status: c_int) -> !;
    fn getppid() -> c_int;
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    fn dlclose(library: *mut c_void) -> c_int;
    fn signal(number: c_int, handler: usize) -> usize;
    fn pthread_self() -> usize;
    fn pthread_kill(thread: usize, number: c_int) -> c_int;
    fn syscall(number: i64, ...) -> i64;
    fn getcontext(context: *mut c_void) -> c_int;
    fn setcontext(context: *const c_void) -> c_int;
}

/// Hooks that patch new code allocate.
#[global_allocator]
static HEAP: heap::Heap = heap::Heap::new();

const GETPPID_IN_HOOK: i32 = 4711;

static LOCK: Mutex<u64> = Mutex::new(0);
static CALLS: AtomicU64 = AtomicU64::new(0);
static CHILDREN: AtomicU32 = AtomicU32::new(0);
static VFORK_CHILDREN: AtomicU32 = AtomicU32::new(0);
static PARENTS: AtomicU32 = AtomicU32::new(0);
static BEFORE: AtomicU32 = AtomicU32::new(0);

/// Takes a lock in every call, as a kernel would, and holds it for a moment.
fn handler(call: &mut Call) -> Outcome {
    CALLS.fetch_add(1, Relaxed);
    {
        let mut guard = LOCK.lock();
        *guard += 1;
        // Whoever is let in now finds the lock held.
        // SAFETY: no arguments.
        unsafe { culvert_sys::syscall::raw(nr::SCHED_YIELD, [0; 6]) };
    }
    if call.number == nr::GETPPID {
        Outcome::Return(GETPPID_IN_HOOK as isize)
    } else {
        Outcome::Forward
    }
}

fn start() {
    let fork = ForkHooks {
        thread: || (),
        before: |_| _ = BEFORE.fetch_add(1, Relaxed),
        parent: |_: CloneFlags, _| _ = PARENTS.fetch_add(1, Relaxed),
        child: |_| {
            CHILDREN.fetch_add(1, Relaxed);
            if current().is_vfork_child() {
                VFORK_CHILDREN.fetch_add(1, Relaxed);
            }
        },
    };
    let config = Config {
        handler,
        interests: &Interests::ALL,
        fork,
        fresh: false,
        patch: true,
        cache_directories: &[],
        images: None,
        known_images: &[],
        said_of_program: None,
        may_make_images: || true,
        log: |_| (),
    };
    // SAFETY: the only thread, at its start.
    unsafe { install(config) }.expect("installed");
    // SAFETY: a call without effect.
    assert_eq!(unsafe { getppid() }, GETPPID_IN_HOOK, "libc is patched");
}

/// 0 when a hooked call is answered by the hook.
fn answers_wrongly() -> c_int {
    // SAFETY: a call without effect.
    (unsafe { getppid() } != GETPPID_IN_HOOK) as c_int
}

/// Forks, runs `child` in the child, and returns how it ended.
fn in_child(child: impl FnOnce() -> c_int) -> c_int {
    let mut status = 0;
    // SAFETY: the child makes calls that are safe after fork and ends.
    unsafe {
        let pid = fork();
        if pid == 0 {
            _exit(child());
        }
        assert!(pid > 0);
        assert_eq!(waitpid(pid, &mut status, 0), pid);
    }
    status
}

fn threads_come_and_go_while_others_fork_and_load_libraries() {
    start();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        // 1,000 threads, 50 at a time.
        let makers: Vec<_> = (0..50)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..20 {
                        thread::spawn(|| {
                            for _ in 0..20 {
                                // SAFETY: a call without effect.
                                assert_eq!(unsafe { getppid() }, GETPPID_IN_HOOK);
                            }
                        })
                        .join()
                        .expect("no panic");
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            while !stop.load(Relaxed) {
                for name in [
                    c"libm.so.6",
                    c"libz.so.1",
                    c"libresolv.so.2",
                    c"libutil.so.1",
                ] {
                    load(name);
                }
                thread::sleep(Duration::from_millis(2));
            }
        });
        let forks: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..60 {
                        // The child's calls take the lock, which no thread may have held.
                        assert_eq!(in_child(answers_wrongly), 0);
                        thread::sleep(Duration::from_millis(1));
                    }
                })
            })
            .collect();
        for thread in makers.into_iter().chain(forks) {
            thread.join().expect("no panic");
        }
        stop.store(true, Relaxed);
    });
    assert_eq!(PARENTS.load(Relaxed), 120);
    assert!(CALLS.load(Relaxed) > 20_000);
}

fn load(name: &CStr) {
    const RTLD_NOW: c_int = 2;
    // SAFETY: libraries of the system, whose constructors do nothing.
    unsafe {
        let library = dlopen(name.as_ptr(), RTLD_NOW);
        if !library.is_null() {
            dlclose(library);
        }
    }
}

fn fork_runs_its_hooks_once_on_each_side() {
    start();
    assert_eq!(
        in_child(|| (CHILDREN.load(Relaxed) != 1
            || VFORK_CHILDREN.load(Relaxed) != 0
            || PARENTS.load(Relaxed) != 0) as c_int),
        0
    );
    assert_eq!(
        (
            BEFORE.load(Relaxed),
            CHILDREN.load(Relaxed),
            PARENTS.load(Relaxed)
        ),
        (1, 0, 1)
    );
}

fn a_failed_clone_tells_the_parent_only() {
    start();
    // CLONE_SIGHAND without CLONE_VM is EINVAL.
    // SAFETY: no child is made.
    let refused = unsafe { syscall(nr::CLONE as i64, 0x800 | 17, 0, 0, 0, 0) };
    assert_eq!(refused, -1);
    // SAFETY: as above.
    assert_eq!(unsafe { syscall(nr::CLONE3 as i64, 8, 64) }, -1);
    assert_eq!(
        (
            BEFORE.load(Relaxed),
            CHILDREN.load(Relaxed),
            PARENTS.load(Relaxed)
        ),
        (1, 0, 1)
    );
    assert_eq!(in_child(|| 0), 0);
}

extern "C" fn nothing(_: c_int) {}

fn a_vfork_child_shares_memory_but_not_signal_actions() {
    start();
    current().slot[0].store(17, Relaxed);
    // SAFETY: the child makes system calls only and ends by _exit.
    unsafe {
        signal(10, nothing as *const () as usize);
        let pid = vfork();
        if pid == 0 {
            signal(10, 0);
            getppid();
            current().slot[1].store(
                current().slot[0].load(Relaxed) + current().is_vfork_child() as usize,
                Relaxed,
            );
            _exit(7);
        }
        let mut status = 0;
        assert_eq!(waitpid(pid, &mut status, 0), pid);
        assert_eq!(status >> 8, 7);
        assert_eq!(
            signal(10, 0),
            nothing as *const () as usize,
            "the parent's action"
        );
    }
    assert_eq!(current().slot[1].load(Relaxed), 18);
    assert!(!current().is_vfork_child());
    assert_eq!(
        (
            BEFORE.load(Relaxed),
            CHILDREN.load(Relaxed),
            VFORK_CHILDREN.load(Relaxed),
            PARENTS.load(Relaxed)
        ),
        (1, 1, 1, 1)
    );
}

fn spawned_commands_work() {
    start();
    for round in 0..20 {
        let mut child = Command::new("/bin/sh")
            .args(["-c", "read line; echo got $line"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("started");
        writeln!(child.stdin.take().expect("piped"), "{round}").expect("written");
        let mut text = String::new();
        child
            .stdout
            .take()
            .expect("piped")
            .read_to_string(&mut text)
            .expect("read");
        assert_eq!(text, format!("got {round}\n"));
        assert!(child.wait().expect("waited").success());
    }
    assert!(Command::new("/nonexistent").spawn().is_err());
    // SAFETY: a call without effect.
    assert_eq!(unsafe { getppid() }, GETPPID_IN_HOOK);
}

static HANDLED: AtomicU32 = AtomicU32::new(0);

extern "C" fn count(_: c_int) {
    HANDLED.fetch_add(1, Relaxed);
    // SAFETY: a call without effect; it is hooked.
    assert_eq!(unsafe { getppid() }, GETPPID_IN_HOOK);
}

fn signals_between_threads_restart_what_they_interrupt() {
    start();
    // SAFETY: a handler that makes one call. glibc's signal() sets SA_RESTART.
    unsafe { signal(10, count as *const () as usize) };
    let (mut reader, mut writer) = std::io::pipe().expect("a pipe");
    let victim = AtomicUsize::new(0);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            // SAFETY: no argument.
            victim.store(unsafe { pthread_self() }, Release);
            let mut all = Vec::new();
            // A raw read would not repeat EINTR; read_to_end does, so count on SA_RESTART by a
            // plain read.
            let mut byte = [0];
            while reader.read(&mut byte).expect("no EINTR") == 1 {
                all.push(byte[0]);
            }
            stop.store(true, Relaxed);
            assert_eq!(all, b"abcdefghij");
        });
        while victim.load(Acquire) == 0 {
            thread::yield_now();
        }
        for byte in b"abcdefghij" {
            for _ in 0..50 {
                // SAFETY: the thread runs until the pipe is closed.
                assert_eq!(unsafe { pthread_kill(victim.load(Acquire), 10) }, 0);
            }
            writer.write_all(&[*byte]).expect("written");
        }
        drop(writer);
    });
    assert!(HANDLED.load(Relaxed) > 0);
}

fn a_context_can_be_taken_and_resumed() {
    start();
    static PASSES: AtomicU32 = AtomicU32::new(0);
    let mut context = [0u64; 256];
    // SAFETY: a ucontext_t is 968 bytes; nothing between the two depends on registers.
    unsafe {
        assert_eq!(getcontext(context.as_mut_ptr().cast()), 0);
        if PASSES.fetch_add(1, SeqCst) < 3 {
            setcontext(context.as_ptr().cast());
        }
    }
    assert_eq!(PASSES.load(SeqCst), 4);
}

fn a_fork_goes_on_while_a_thread_waits_inside_a_hook() {
    static PIPE: AtomicUsize = AtomicUsize::new(0);
    static WAITING: AtomicBool = AtomicBool::new(false);
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    PIPE.store(reader.as_raw_fd() as usize, Relaxed);
    let config = Config {
        handler: |call| {
            if call.number != nr::GETPPID {
                return Outcome::Forward;
            }
            let byte = 0u8;
            WAITING.store(true, Relaxed);
            // SAFETY: reads one byte.
            match unsafe {
                wait::interruptible(
                    nr::READ,
                    [PIPE.load(Relaxed), (&raw const byte) as usize, 1, 0, 0, 0],
                )
            } {
                Ok(result) => Outcome::Return(result),
                Err(wait::Interrupted) => Outcome::Restart,
            }
        },
        interests: const {
            let mut wished = [Interest::Never; 512];
            wished[nr::GETPPID] = Interest::Always;
            &Interests::new(wished)
        },
        fork: ForkHooks {
            thread: || (),
            before: |_| (),
            parent: |_, _| (),
            child: |_| (),
        },
        fresh: false,
        patch: true,
        cache_directories: &[],
        images: None,
        known_images: &[],
        said_of_program: None,
        may_make_images: || true,
        log: |_| (),
    };
    // SAFETY: the only thread.
    unsafe { install(config) }.expect("installed");
    // SAFETY: a call without effect.
    let waits = thread::spawn(|| unsafe { getppid() });
    while !WAITING.load(Relaxed) {
        thread::yield_now();
    }
    for _ in 0..10 {
        assert_eq!(in_child(|| 0), 0);
    }
    writer.write_all(b"x").expect("written");
    assert_eq!(waits.join().expect("no panic"), 1);
}

const SCENARIOS: [(&str, fn()); 9] = [
    (
        "threads_come_and_go_while_others_fork_and_load_libraries",
        threads_come_and_go_while_others_fork_and_load_libraries,
    ),
    (
        "fork_runs_its_hooks_once_on_each_side",
        fork_runs_its_hooks_once_on_each_side,
    ),
    (
        "a_failed_clone_tells_the_parent_only",
        a_failed_clone_tells_the_parent_only,
    ),
    (
        "a_vfork_child_shares_memory_but_not_signal_actions",
        a_vfork_child_shares_memory_but_not_signal_actions,
    ),
    ("spawned_commands_work", spawned_commands_work),
    (
        "signals_between_threads_restart_what_they_interrupt",
        signals_between_threads_restart_what_they_interrupt,
    ),
    (
        "a_context_can_be_taken_and_resumed",
        a_context_can_be_taken_and_resumed,
    ),
    (
        "a_fork_goes_on_while_a_thread_waits_inside_a_hook",
        a_fork_goes_on_while_a_thread_waits_inside_a_hook,
    ),
    ("a_new_thread_has_empty_slots", || {
        start();
        current().slot[2].store(5, Relaxed);
        thread::spawn(|| assert_eq!(current().slot[2].load(Relaxed), 0))
            .join()
            .expect("no panic");
    }),
];

fn main() -> ExitCode {
    const MARK: &str = "CULVERT_TEST_SCENARIO";
    if let Some(name) = std::env::var_os(MARK) {
        // SAFETY: a number. SIGALRM ends a scenario that hangs.
        unsafe { syscall::raw(nr::ALARM, [120, 0, 0, 0, 0, 0]) };
        let (_, scenario) = SCENARIOS
            .iter()
            .find(|(known, _)| *known == name)
            .expect("a scenario");
        scenario();
        return ExitCode::SUCCESS;
    }
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    let mut failed = 0;
    for (name, _) in SCENARIOS.iter().filter(|(name, _)| {
        wanted.is_empty() || wanted.iter().any(|wanted| name.contains(wanted.as_str()))
    }) {
        let executable = std::env::current_exe().expect("a path");
        let output = Command::new(executable)
            .env(MARK, name)
            .output()
            .expect("started");
        let success = output.status.success();
        println!("test {name} ... {}", if success { "ok" } else { "FAILED" });
        if !success {
            failed += 1;
            println!(
                "{}\n{}",
                output.status,
                String::from_utf8_lossy(&output.stderr)
            );
        }
    }
    println!("\n{failed} failed");
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
