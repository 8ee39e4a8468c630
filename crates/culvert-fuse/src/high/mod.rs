//! The interface by paths: `fuse.h`.
#![allow(unsafe_op_in_unsafe_fn)] // C calls: what it promises stands in fuse.h.

mod attributes;
mod changes;
mod data;
mod directories;
mod functions;
mod names;
mod tree;

use crate::{
    abi::{Config, Context, LoopConfig, LoopConfig32, Operations, Req},
    arguments::Args,
    log,
    mutex::locked,
    notify,
    option_list::{Taken, Word, number, take},
    request, serving,
    session::Session,
    threads,
    wants::Wants,
};
use std::{
    cell::Cell,
    ffi::{CStr, c_char, c_int, c_uint, c_void},
    ptr,
    sync::{
        Mutex, OnceLock,
        atomic::{AtomicPtr, Ordering::SeqCst},
    },
};
use tree::{Locked, Tree, Wanted};

pub const USAGE: &str = "\
    -o kernel_cache        the kernel keeps what it has cached
    -o [no]auto_cache      it does while size and time stay the same
    -o umask=M             permissions of all files
    -o uid=N, gid=N        owner of all files
    -o entry_timeout=T     how long names are believed, seconds (1)
    -o negative_timeout=T  how long the absence of one is believed (0)
    -o attr_timeout=T      how long attributes are believed (1)
    -o ac_attr_timeout=T   the same for auto_cache (attr_timeout)
    -o noforget            never forget a node
";

thread_local! {
    static CONTEXT: Cell<Context> = const {
        Cell::new(Context {
            fuse: ptr::null_mut(),
            uid: 0,
            gid: 0,
            pid: 0,
            private_data: ptr::null_mut(),
            umask: 0,
        })
    };
    static REQUEST: Cell<*mut Req> = const { Cell::new(ptr::null_mut()) };
}

/// `struct fuse`.
pub struct Fuse {
    session: OnceLock<&'static Session>,
    pub operations: Operations,
    pub version: c_int,
    data: AtomicPtr<c_void>,
    config: Mutex<Config>,
    tree: Tree,
    hidden: Mutex<u64>,
}

const fn configuration() -> Config {
    Config {
        set_gid: 0,
        gid: 0,
        set_uid: 0,
        uid: 0,
        set_mode: 0,
        umask: 0,
        entry_timeout: 1.0,
        negative_timeout: 0.0,
        attr_timeout: 1.0,
        intr: 0,
        intr_signal: libc::SIGUSR1,
        remember: 0,
        hard_remove: 0,
        use_ino: 0,
        readdir_ino: 0,
        direct_io: 0,
        kernel_cache: 0,
        auto_cache: 0,
        no_rofd_flush: 0,
        ac_attr_timeout_set: 0,
        ac_attr_timeout: 0.0,
        nullpath_ok: 0,
        parallel_direct_writes: 0,
        show_help: 0,
        modules: ptr::null_mut(),
        debug: 0,
    }
}

/// Option `word`, if it is one of the interface's by paths.
fn option(config: &mut Config, word: &str) -> Option<Result<(), ()>> {
    let switches: [(&str, &mut c_int, c_int); 10] = [
        ("hard_remove", &mut config.hard_remove, 1),
        ("use_ino", &mut config.use_ino, 1),
        ("readdir_ino", &mut config.readdir_ino, 1),
        ("direct_io", &mut config.direct_io, 1),
        ("kernel_cache", &mut config.kernel_cache, 1),
        // Whether a request was interrupted fuse_interrupted() says in any case.
        ("intr", &mut config.intr, 1),
        ("noforget", &mut config.remember, -1),
        ("no_rofd_flush", &mut config.no_rofd_flush, 1),
        ("nullpath_ok", &mut config.nullpath_ok, 1),
        (
            "parallel_direct_writes",
            &mut config.parallel_direct_writes,
            1,
        ),
    ];
    for (name, place, value) in switches {
        if name == word {
            *place = value;
            return Some(Ok(()));
        }
    }
    match word {
        "auto_cache" => config.auto_cache = 1,
        "noauto_cache" => config.auto_cache = 0,
        _ => {
            let seconds = [
                ("entry_timeout", &mut config.entry_timeout),
                ("negative_timeout", &mut config.negative_timeout),
                ("attr_timeout", &mut config.attr_timeout),
            ];
            for (name, place) in seconds {
                if let Some(value) = number(word, name) {
                    return Some(value.map(|value| *place = value));
                }
            }
            if let Some(value) = number(word, "ac_attr_timeout") {
                return Some(value.map(|value| {
                    (config.ac_attr_timeout, config.ac_attr_timeout_set) = (value, 1);
                }));
            }
            if let Some(value) = number(word, "remember") {
                return Some(value.map(|value| config.remember = value));
            }
            if let Some(value) = number(word, "intr_signal") {
                return Some(value.map(|value| config.intr_signal = value));
            }
            if let Some(umask) = word.strip_prefix("umask=") {
                let umask = c_uint::from_str_radix(umask, 8)
                    .ok()
                    .filter(|umask| *umask <= 0o7777);
                return Some(umask.ok_or(()).map(|umask| {
                    (config.umask, config.set_mode) = (umask, 1);
                }));
            }
            let owners = [
                ("uid", &mut config.uid, &mut config.set_uid),
                ("gid", &mut config.gid, &mut config.set_gid),
            ];
            for (name, place, set) in owners {
                if let Some(value) = number(word, name) {
                    return Some(value.map(|value| (*place, *set) = (value, 1)));
                }
            }
            if word.starts_with("modules=") {
                log::say("option modules: there are no modules");
                return Some(Err(()));
            }
            return None;
        }
    }
    Some(Ok(()))
}

impl Fuse {
    /// A file system of `operations`; none: an option was wrong, which was said.
    ///
    /// # Safety
    /// All is what the header says.
    pub unsafe fn new(
        args: *mut Args,
        operations: *const c_void,
        size: usize,
        data: *mut c_void,
        version: c_int,
    ) -> Option<&'static Self> {
        let operations = Operations::read(operations, size);
        let mut config = configuration();
        let mut wants = Wants::of(version);
        let done = args.is_null()
            || take(args, &mut |word| match word {
                Word::Option(word) => {
                    match option(&mut config, word).or_else(|| wants.take(word)) {
                        Some(Ok(())) => Taken::Mine,
                        Some(Err(())) => Taken::Wrong,
                        None => Taken::Others,
                    }
                }
                Word::Other(_) => Taken::Others,
            });
        if !done {
            return None;
        }
        if version < 30 {
            // The bits of `flags`.
            let flags = operations.flags.map_or(0, |flags| flags as usize);
            config.nullpath_ok |= c_int::from(flags & 3 != 0);
        }
        let fuse: &'static Self = Box::leak(Box::new(Self {
            session: OnceLock::new(),
            operations,
            version,
            data: AtomicPtr::new(data),
            config: Mutex::new(config),
            tree: Tree::new(config.remember != 0),
            hidden: Mutex::new(0),
        }));
        let own = ptr::from_ref(fuse).cast_mut().cast();
        let session = Session::new(args, functions::table(&fuse.operations), own, version)?;
        *locked(&session.wants) = wants;
        let _ = fuse.session.set(session);
        Some(fuse)
    }

    pub fn session(&self) -> &'static Session {
        self.session.get().expect("set when it was made")
    }

    fn config(&self) -> Config {
        *locked(&self.config)
    }

    /// Notes who has made `req`, for the function that is called next.
    unsafe fn enter(&self, req: *mut Req) {
        let ctx = *request::ctx(req);
        REQUEST.set(req);
        CONTEXT.set(Context {
            fuse: ptr::from_ref(self).cast_mut().cast(),
            uid: ctx.uid,
            gid: ctx.gid,
            pid: ctx.pid,
            private_data: self.data.load(SeqCst),
            umask: ctx.umask,
        });
    }

    /// Notes that nobody asks, for the function that is called next.
    fn enter_alone(&self) {
        CONTEXT.set(Context {
            fuse: ptr::from_ref(self).cast_mut().cast(),
            uid: 0,
            gid: 0,
            pid: 0,
            private_data: self.data.load(SeqCst),
            umask: 0,
        });
    }

    /// The path of `node`, or of `name` in it.
    fn path(&self, node: u64, name: Option<&CStr>) -> Result<Locked<'_>, c_int> {
        let wanted = Wanted {
            node,
            name,
            write: false,
        };
        let [found] = self.tree.lock([wanted]).ok_or(libc::ENOENT)?;
        Ok(found)
    }

    /// The path of `node`, of which a file is open: none where it has no name and the file system
    /// does without.
    fn open_path(&self, node: u64) -> Result<Option<Locked<'_>>, c_int> {
        match self.path(node, None) {
            Ok(path) => Ok(Some(path)),
            Err(_) if self.config().nullpath_ok != 0 => Ok(None),
            Err(errno) => Err(errno),
        }
    }
}

/// The address of a path, null where there is none.
fn address(path: Option<&Locked<'_>>) -> *const c_char {
    path.map_or(ptr::null(), |path| path.path.as_ptr())
}

/// What a function of the file system's has returned.
fn checked(result: c_int) -> Result<c_int, c_int> {
    match result {
        0.. => Ok(result),
        result => Err(result.saturating_neg()),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn culvert_fuse_new(
    channel: Option<&'static Session>,
    args: *mut Args,
    operations: *const c_void,
    size: usize,
    data: *mut c_void,
    version: c_int,
) -> *const Fuse {
    let Some(fuse) = Fuse::new(args, operations, size, data, version) else {
        return ptr::null();
    };
    if let Some(channel) = channel {
        fuse.session().add(channel);
    }
    fuse
}

#[unsafe(export_name = "culvert_fuse_mount_3")]
unsafe extern "C" fn mount_3(fuse: &'static Fuse, target: *const c_char) -> c_int {
    -c_int::from(!fuse.session().mount_at(CStr::from_ptr(target)))
}

#[unsafe(export_name = "culvert_fuse_unmount_3")]
extern "C" fn unmount_3(fuse: &'static Fuse) {
    fuse.session().unmount();
}

#[unsafe(export_name = "culvert_fuse_destroy")]
extern "C" fn destroy(fuse: &'static Fuse) {
    fuse.session().finish();
}

#[unsafe(export_name = "culvert_fuse_loop")]
extern "C" fn run(fuse: &'static Fuse) -> c_int {
    serving::alone(fuse.session())
}

#[unsafe(export_name = "culvert_fuse_loop_mt_31")]
extern "C" fn loop_mt_31(fuse: &'static Fuse, clone_fd: c_int) -> c_int {
    threads::serve(fuse.session(), Some(threads::cloning(clone_fd)))
}

#[unsafe(export_name = "culvert_fuse_loop_mt_32")]
unsafe extern "C" fn loop_mt_32(fuse: &'static Fuse, config: *const LoopConfig32) -> c_int {
    threads::serve(fuse.session(), config.as_ref().map(threads::of_32))
}

#[unsafe(export_name = "culvert_fuse_loop_mt_312")]
unsafe extern "C" fn loop_mt_312(fuse: &'static Fuse, config: *const LoopConfig) -> c_int {
    threads::serve(fuse.session(), config.as_ref().copied())
}

#[unsafe(export_name = "culvert_fuse_exit")]
extern "C" fn exit(fuse: &'static Fuse) {
    fuse.session().exit();
}

#[unsafe(export_name = "culvert_fuse_get_session")]
extern "C" fn get_session(fuse: &'static Fuse) -> *const Session {
    fuse.session()
}

#[unsafe(export_name = "culvert_fuse_get_context")]
extern "C" fn get_context() -> *mut Context {
    CONTEXT.with(Cell::as_ptr)
}

#[unsafe(export_name = "culvert_fuse_getgroups")]
unsafe extern "C" fn getgroups(size: c_int, list: *mut libc::gid_t) -> c_int {
    request::groups(CONTEXT.get().pid, size, list)
}

#[unsafe(export_name = "culvert_fuse_interrupted")]
unsafe extern "C" fn interrupted() -> c_int {
    match REQUEST.get() {
        req if req.is_null() => 0,
        req => request::interrupted(req),
    }
}

#[unsafe(export_name = "culvert_fuse_invalidate_path")]
unsafe extern "C" fn invalidate_path(fuse: &'static Fuse, path: *const c_char) -> c_int {
    match fuse.tree.walk(CStr::from_ptr(path)) {
        Some(node) => notify::inval_inode(Some(fuse.session()), node, 0, 0),
        None => -libc::ENOENT,
    }
}

#[unsafe(export_name = "culvert_fuse_is_lib_option")]
unsafe extern "C" fn is_lib_option(word: *const c_char) -> c_int {
    let word = CStr::from_ptr(word).to_str().unwrap_or_default();
    let known = option(&mut configuration(), word).or_else(|| Wants::of(29).take(word));
    c_int::from(known.is_some())
}

/// What `remember` keeps is kept for good, so there is nothing to clean up.
#[unsafe(export_name = "culvert_fuse_start_cleanup_thread")]
extern "C" fn start_cleanup_thread(fuse: &'static Fuse) -> c_int {
    if fuse.config().remember != 0 {
        fuse.tree.keep();
    }
    0
}

#[unsafe(export_name = "culvert_fuse_stop_cleanup_thread")]
extern "C" fn stop_cleanup_thread(_: &'static Fuse) {}

/// Seconds until it is to be called again.
#[unsafe(export_name = "culvert_fuse_clean_cache")]
extern "C" fn clean_cache(_: &'static Fuse) -> c_int {
    60
}
