//! `fuse_main` and what it is made of: the command line of a server.
#![allow(unsafe_op_in_unsafe_fn)] // C calls: what it promises stands in the headers.

use crate::{
    abi::LoopConfig,
    arguments::{self, Args},
    high::{self, Fuse},
    log,
    option_list::{Taken, Word, number, take},
    serving,
    session::duplicated,
    signals, threads,
};
use std::{
    ffi::{CStr, CString, c_char, c_int, c_uint, c_void},
    os::unix::ffi::OsStrExt,
    path::Path,
    ptr,
    sync::Mutex,
};

/// What the command line of a server says besides the options of its file system.
#[derive(Debug)]
pub struct CommandLine {
    pub single_thread: bool,
    pub foreground: bool,
    debug: bool,
    help: bool,
    version: bool,
    pub target: Option<CString>,
    config: LoopConfig,
}

/// Takes those words from `args`; none: one was wrong, which was said.
///
/// # Safety
/// `args` is what the header says.
pub unsafe fn parse(args: *mut Args, version: c_int) -> Option<CommandLine> {
    let mut line = CommandLine {
        single_thread: false,
        foreground: false,
        debug: false,
        help: false,
        version: false,
        target: None,
        config: LoopConfig {
            max_threads: 10,
            ..threads::cloning(0)
        },
    };
    let mut named = false;
    let done = take(args, &mut |word| {
        match word {
            Word::Option("-s") => line.single_thread = true,
            Word::Option("-f") => line.foreground = true,
            Word::Option("-d" | "debug") => {
                (line.debug, line.foreground) = (true, true);
                return Taken::Others;
            }
            Word::Option("-h" | "--help") => line.help = true,
            Word::Option("-V" | "--version") => line.version = true,
            Word::Option("clone_fd") => line.config.clone_fd = 1,
            Word::Option(word) => {
                let places: [(&str, &mut c_uint); 2] = [
                    ("max_idle_threads", &mut line.config.max_idle_threads),
                    ("max_threads", &mut line.config.max_threads),
                ];
                for (name, place) in places {
                    match number(word, name) {
                        Some(Ok(value)) => *place = value,
                        Some(Err(())) => return Taken::Wrong,
                        None => continue,
                    }
                    return Taken::Mine;
                }
                named |=
                    word.starts_with("subtype=") || version < 30 && word.starts_with("fsname=");
                return Taken::Others;
            }
            Word::Other(word) if line.target.is_none() => {
                let typed = word.to_string_lossy();
                if typed.starts_with("/dev/fd/") {
                    line.target = Some(word.to_owned());
                    return Taken::Mine;
                }
                match std::fs::canonicalize(Path::new(std::ffi::OsStr::from_bytes(word.to_bytes())))
                {
                    Ok(path) => line.target = CString::new(path.as_os_str().as_bytes()).ok(),
                    Err(error) => {
                        log::say(&format!("bad mount point `{typed}': {error}"));
                        return Taken::Wrong;
                    }
                }
            }
            Word::Other(word) => {
                log::say(&format!("invalid argument `{}'", word.to_string_lossy()));
                return Taken::Wrong;
            }
        }
        Taken::Mine
    });
    if done && !named && (*args).argc > 0 {
        let name = CStr::from_ptr(*(*args).argv).to_bytes();
        let name = name.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        let name = name.strip_prefix(b"lt-").unwrap_or(name);
        if let Ok(word) = CString::new([b"-osubtype=", name].concat()) {
            arguments::insert_arg(args, 1, word.as_ptr());
        }
    }
    done.then_some(line)
}

const USAGE: &str = "\
    -h   --help            print help
    -V   --version         print version
    -d   -o debug          stay in the foreground
    -f                     stay in the foreground
    -s                     one thread
    -o clone_fd            a device of its own for each thread
    -o max_idle_threads    how many threads may wait for requests (10)
    -o max_threads         how many threads there may be (10)
";

fn print(text: &str) {
    use std::io::Write;
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// `struct fuse_cmdline_opts`.
#[repr(C)]
#[derive(Debug)]
struct Options {
    single_thread: c_int,
    foreground: c_int,
    debug: c_int,
    no_default_subtype: c_int,
    target: *mut c_char,
    show_version: c_int,
    show_help: c_int,
    clone_fd: c_int,
    max_idle_threads: c_uint,
    max_threads: c_uint,
}

#[unsafe(export_name = "culvert_fuse_parse_cmdline_3")]
unsafe extern "C" fn parse_cmdline_3(args: *mut Args, options: *mut Options) -> c_int {
    let Some(line) = parse(args, 30) else {
        return -1;
    };
    *options = Options {
        single_thread: line.single_thread.into(),
        foreground: line.foreground.into(),
        debug: line.debug.into(),
        no_default_subtype: 0,
        target: line.target.as_ref().map_or(ptr::null_mut(), duplicated),
        show_version: line.version.into(),
        show_help: line.help.into(),
        clone_fd: line.config.clone_fd,
        max_idle_threads: line.config.max_idle_threads,
        max_threads: line.config.max_threads,
    };
    0
}

#[unsafe(export_name = "culvert_fuse_parse_cmdline_2")]
unsafe extern "C" fn parse_cmdline_2(
    args: *mut Args,
    target: *mut *mut c_char,
    multithreaded: *mut c_int,
    foreground: *mut c_int,
) -> c_int {
    let Some(line) = parse(args, 29) else {
        return -1;
    };
    if line.help || line.version {
        print(if line.help { USAGE } else { VERSION_2_TEXT });
        return -1;
    }
    if let Some(target) = target.as_mut() {
        *target = line.target.as_ref().map_or(ptr::null_mut(), duplicated);
    }
    if let Some(place) = multithreaded.as_mut() {
        *place = c_int::from(!line.single_thread);
    }
    if let Some(place) = foreground.as_mut() {
        *place = line.foreground.into();
    }
    0
}

#[unsafe(export_name = "culvert_fuse_cmdline_help")]
extern "C" fn cmdline_help() {
    print(USAGE);
}

#[unsafe(export_name = "culvert_fuse_lowlevel_help")]
extern "C" fn lowlevel_help() {
    print(
        "    -o allow_other         all users may use the mount\n    -o auto_unmount        \
        unmount when the server ends\n",
    );
}

#[unsafe(export_name = "culvert_fuse_lib_help")]
extern "C" fn lib_help(_: *mut Args) {
    print(high::USAGE);
    lowlevel_help();
}

#[unsafe(export_name = "culvert_fuse_lowlevel_version")]
extern "C" fn lowlevel_version() {
    print("using FUSE kernel interface version 7.38, by Culvert\n");
}

const VERSION_2: c_int = 29;
const VERSION_2_TEXT: &str = "FUSE library version: 2.9, by Culvert\n";
const VERSION_3: c_int = 314;

#[unsafe(export_name = "culvert_fuse_version_2")]
extern "C" fn version_2() -> c_int {
    VERSION_2
}

#[unsafe(export_name = "culvert_fuse_version_3")]
extern "C" fn version_3() -> c_int {
    VERSION_3
}

#[unsafe(export_name = "culvert_fuse_pkgversion")]
extern "C" fn pkgversion() -> *const c_char {
    c"3.14.0".as_ptr()
}

/// In the background: what the child says to its parent.
static PARENT: Mutex<()> = Mutex::new(());

#[unsafe(export_name = "culvert_fuse_daemonize_2")]
unsafe extern "C" fn daemonize_2(foreground: c_int) -> c_int {
    daemonize(foreground != 0, 29)
}

#[unsafe(export_name = "culvert_fuse_daemonize_3")]
unsafe extern "C" fn daemonize_3(foreground: c_int) -> c_int {
    daemonize(foreground != 0, 30)
}

/// What fuse_daemonize does in `version`: 0, or -1.
pub unsafe fn daemonize(foreground: bool, version: c_int) -> c_int {
    let _one = crate::mutex::locked(&PARENT);
    if foreground {
        // Version 2 stays where it is, and paths that the source was given mean the same.
        if version >= 30 {
            let _ = libc::chdir(c"/".as_ptr());
        }
        return 0;
    }
    let mut ends = [0; 2];
    if libc::pipe(ends.as_mut_ptr()) != 0 {
        return -1;
    }
    let mut byte = 0_u8;
    match libc::fork() {
        -1 => return -1,
        0 => {}
        _ => {
            // Until the child is there.
            libc::close(ends[1]);
            let _ = libc::read(ends[0], (&raw mut byte).cast(), 1);
            libc::_exit(0);
        }
    }
    if libc::setsid() == -1 {
        return -1;
    }
    let _ = libc::chdir(c"/".as_ptr());
    let nothing = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
    if nothing >= 0 {
        for fd in 0..3 {
            libc::dup2(nothing, fd);
        }
        if nothing > 2 {
            libc::close(nothing);
        }
    }
    let _ = libc::write(ends[1], (&raw const byte).cast(), 1);
    libc::close(ends[0]);
    libc::close(ends[1]);
    0
}

/// The statuses of libfuse's `fuse_main`.
mod status {
    pub const USAGE: i32 = 1;
    pub const NO_TARGET: i32 = 2;
    pub const NOT_NEW: i32 = 3;
    pub const NOT_MOUNTED: i32 = 4;
    pub const NO_DAEMON: i32 = 5;
    pub const NO_HANDLERS: i32 = 6;
    pub const LOOP: i32 = 7;
}

#[unsafe(no_mangle)]
unsafe extern "C" fn culvert_fuse_main(
    argc: c_int,
    argv: *mut *mut c_char,
    operations: *const c_void,
    size: usize,
    data: *mut c_void,
    version: c_int,
) -> c_int {
    let mut args = Args {
        argc,
        argv,
        allocated: 0,
    };
    let result = main(&mut args, operations, size, data, version);
    arguments::free_args(&raw mut args);
    // Version 2 knows one kind of failure.
    match result {
        0 => 0,
        _ if version < 30 => 1,
        result => result,
    }
}

unsafe fn main(
    args: &mut Args,
    operations: *const c_void,
    size: usize,
    data: *mut c_void,
    version: c_int,
) -> c_int {
    let name = args
        .words()
        .first()
        .map(|name| name.to_string_lossy().into_owned());
    let Some(line) = parse(args, version) else {
        return status::USAGE;
    };
    if line.version {
        print(&format!(
            "FUSE library version {}, by Culvert\n",
            if version < 30 { "2.9" } else { "3.14.0" }
        ));
        return 0;
    }
    if line.help {
        if let Some(name) = name.filter(|name| !name.is_empty()) {
            print(&format!("usage: {name} [options] <mountpoint>\n\n"));
        }
        print("FUSE options:\n");
        cmdline_help();
        lib_help(ptr::null_mut());
        return 0;
    }
    let Some(target) = &line.target else {
        log::say("error: no mountpoint specified");
        return status::NO_TARGET;
    };
    let Some(fuse) = Fuse::new(args, operations, size, data, version) else {
        return status::NOT_NEW;
    };
    let session = fuse.session();
    let own = ptr::from_ref(session).cast_mut();
    let result = 'ran: {
        if !session.mount_at(target) {
            break 'ran status::NOT_MOUNTED;
        }
        if daemonize(line.foreground, version) != 0 {
            break 'ran status::NO_DAEMON;
        }
        if signals::set_signal_handlers(own) != 0 {
            break 'ran status::NO_HANDLERS;
        }
        let served = match line.single_thread {
            true => serving::alone(session),
            // Version 2 has no limit.
            false if version < 30 => threads::serve(session, None),
            false => threads::serve(session, Some(line.config)),
        };
        signals::remove_signal_handlers(own);
        if served == 0 { 0 } else { status::LOOP }
    };
    session.unmount();
    session.finish();
    result
}
