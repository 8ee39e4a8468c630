//! From a request of the protocol to a function of the file system's.

use crate::{
    abi::{Buf, BufVec, Ctx, FileInfo, ForgetData, Req},
    connection, files,
    mutex::locked,
    notify::PollHandle,
    reply,
    request::{Asked, send},
    session::Session,
};
use culvert_wire::{
    Answer, Operation, Request,
    structures::{
        FileLock, FsyncIn, GetattrIn, InHeader, IoctlIn, LkIn, ReadIn, ReleaseIn, SetattrIn,
        WriteIn,
    },
};
use libc::flock;
use std::{
    ffi::{c_char, c_int, c_void},
    ptr,
    sync::atomic::Ordering::SeqCst,
};

/// Carries out the request that `bytes` are.
pub fn serve(session: &'static Session, bytes: &[u8]) {
    let protocol = session.protocol();
    let request = match Request::decode(bytes, &protocol) {
        Ok(request) => request,
        Err(_) => {
            if let Some(header) = Request::header(bytes) {
                send(session, header.unique, Answer::Error(libc::EIO));
            }
            return;
        }
    };
    let header = request.header;
    if session.debug {
        let name = Operation::name(header.opcode);
        let (unique, node) = (header.unique, header.nodeid);
        crate::log::say(&format!("request {unique}: {name} of node {node}"));
    }
    match request.operation {
        Operation::Init { init } => connection::begin(session, header.unique, &init),
        Operation::Interrupt { interrupt } => {
            if !Asked::interrupt(session, interrupt.unique) {
                // Nobody has it in hand yet, or any more; then nobody hears this answer.
                send(session, header.unique, Answer::Error(libc::EAGAIN));
            }
        }
        Operation::Destroy {} => {
            session.finish();
            send(session, header.unique, Answer::Done {});
        }
        Operation::NotifyReply { retrieve, data } => {
            let waits = locked(&session.retrieving).waiting.remove(&header.unique);
            if let (Some((node, cookie)), Some(function)) =
                (waits, session.operations.retrieve_reply)
            {
                let memory = Buf::memory(data.0.as_ptr().cast_mut().cast(), data.0.len());
                let mut buffer = BufVec::of(memory);
                let req = begin(session, &header, 0);
                let offset = retrieve.offset as i64;
                // SAFETY: the file system's own function, with what the header says.
                unsafe { function(req, cookie as *mut c_void, node, offset, &raw mut buffer) };
            }
        }
        operation => {
            if session.version >= 0 && !session.begun.load(SeqCst) {
                send(session, header.unique, Answer::Error(libc::EIO));
                return;
            }
            // SAFETY: the file system's own functions, with what the headers say.
            unsafe { call(session, &header, &operation) }
        }
    }
}

fn begin(session: &'static Session, header: &InHeader, umask: u32) -> *mut Req {
    let ctx = Ctx {
        uid: header.uid,
        gid: header.gid,
        pid: header.pid as i32,
        umask,
    };
    Asked::begin(session, header.unique, ctx)
}

fn text(bytes: &[u8]) -> *const c_char {
    // In a request a NUL follows.
    bytes.as_ptr().cast()
}

/// The lock that is asked for, as fcntl(2) has it.
fn lock(asked: &FileLock) -> flock {
    let mut lock: flock = files::zeroed();
    lock.l_type = asked.r#type as i16;
    lock.l_whence = libc::SEEK_SET as i16;
    lock.l_start = asked.start as i64;
    lock.l_len = match asked.end >= i64::MAX as u64 {
        true => 0,
        false => (asked.end - asked.start + 1) as i64,
    };
    lock.l_pid = asked.pid as i32;
    lock
}

/// Calls the function for `operation`, or answers that there is none.
///
/// # Safety
/// The table's functions are what the header says.
unsafe fn call(session: &'static Session, header: &InHeader, operation: &Operation<'_>) {
    let table = &session.operations;
    let node = header.nodeid;
    let umask = match operation {
        Operation::Mknod { mknod, .. } => mknod.umask,
        Operation::Mkdir { mkdir, .. } => mkdir.umask,
        Operation::Create { create, .. } => create.umask,
        _ => 0,
    };
    let req = begin(session, header, umask);
    /// The function of that name; without one the request ends.
    macro_rules! ask {
        ($name:ident($($argument:expr),*)) => {
            match table.$name {
                // SAFETY: the file system's own function, with the arguments of the header.
                Some(function) => unsafe { function(req $(, $argument)*) },
                // SAFETY: the request has not ended.
                None => unsafe { reply::missing(req) },
            }
        };
    }
    // SAFETY: the request has not ended.
    let refuse = |errno| unsafe {
        reply::reply_err(req, errno);
    };
    // SAFETY: the request has not ended.
    let end = || unsafe { reply::reply_none(req) };
    let mut file = FileInfo::default();
    match *operation {
        Operation::Lookup { name } => ask!(lookup(node, text(name.bytes()))),
        Operation::Forget { forget } => match table.forget {
            Some(_) => ask!(forget(node, forget.nlookup)),
            None => end(),
        },
        Operation::BatchForget { forgets, .. } => {
            let mut all: Vec<_> = forgets
                .iter()
                .map(|one| ForgetData {
                    ino: one.nodeid,
                    count: one.nlookup,
                })
                .collect();
            match (table.forget_multi, table.forget) {
                (Some(_), _) => ask!(forget_multi(all.len(), all.as_mut_ptr())),
                (None, Some(function)) => {
                    end();
                    for one in all {
                        let req = begin(session, header, 0);
                        // SAFETY: as above.
                        unsafe { function(req, one.ino, one.count) };
                    }
                }
                (None, None) => end(),
            }
        }
        Operation::Getattr { getattr } => {
            file.fh = getattr.fh;
            file.fh_old = getattr.fh;
            let is_open = getattr.getattr_flags & GetattrIn::FH != 0;
            ask!(getattr(
                node,
                if is_open {
                    &raw mut file
                } else {
                    ptr::null_mut()
                }
            ))
        }
        Operation::Setattr { setattr } => {
            file = FileInfo::of(setattr.fh);
            let is_open = setattr.valid & SetattrIn::FH != 0;
            let (mut stat, to_set) = files::set_attr(&setattr);
            let file = if is_open {
                &raw mut file
            } else {
                ptr::null_mut()
            };
            ask!(setattr(node, &raw mut stat, to_set, file))
        }
        Operation::Readlink {} => ask!(readlink(node)),
        Operation::Symlink { name, target } => {
            ask!(symlink(text(target.bytes()), node, text(name.bytes())))
        }
        Operation::Mknod { mknod, name } => {
            ask!(mknod(
                node,
                text(name.bytes()),
                mknod.mode,
                mknod.rdev.into()
            ))
        }
        Operation::Mkdir { mkdir, name } => ask!(mkdir(node, text(name.bytes()), mkdir.mode)),
        Operation::Unlink { name } => ask!(unlink(node, text(name.bytes()))),
        Operation::Rmdir { name } => ask!(rmdir(node, text(name.bytes()))),
        Operation::Rename {
            rename,
            name,
            new_name,
        } => {
            let (name, new_name) = (text(name.bytes()), text(new_name.bytes()));
            ask!(rename(node, name, rename.newdir, new_name, 0))
        }
        // The functions of version 2 have no flags.
        Operation::Rename2 { rename, .. } if rename.flags != 0 && session.version < 30 => {
            refuse(libc::EINVAL)
        }
        Operation::Rename2 {
            rename,
            name,
            new_name,
        } => {
            let (name, new_name) = (text(name.bytes()), text(new_name.bytes()));
            ask!(rename(node, name, rename.newdir, new_name, rename.flags))
        }
        Operation::Link { link, name } => {
            ask!(link(link.oldnodeid, node, text(name.bytes())))
        }
        Operation::Open { open } => {
            file.flags = open.flags as c_int;
            match table.open {
                Some(_) => ask!(open(node, &raw mut file)),
                None => opened(session, header.opcode, req, &raw mut file),
            }
        }
        Operation::Opendir { open } => {
            file.flags = open.flags as c_int;
            match table.opendir {
                Some(_) => ask!(opendir(node, &raw mut file)),
                None => opened(session, header.opcode, req, &raw mut file),
            }
        }
        Operation::Read { read } => {
            file = reading(&read);
            ask!(read(
                node,
                read.size as usize,
                read.offset as i64,
                &raw mut file
            ))
        }
        Operation::Write { write, data } => {
            file = FileInfo::of(write.fh);
            file.flags = write.flags as c_int;
            file.write_page = c_int::from(write.write_flags & WriteIn::CACHE != 0);
            if write.write_flags & WriteIn::LOCK_OWNER != 0 {
                file.lock_owner = write.lock_owner;
            }
            let (place, size, offset) = (data.0.as_ptr(), data.0.len(), write.offset as i64);
            match table.write_buf {
                Some(_) => {
                    let mut buffer = BufVec::of(Buf::memory(place.cast_mut().cast(), size));
                    ask!(write_buf(node, &raw mut buffer, offset, &raw mut file))
                }
                None => ask!(write(node, place.cast(), size, offset, &raw mut file)),
            }
        }
        Operation::Flush { flush } => {
            file = FileInfo::of(flush.fh);
            file.bits = FileInfo::FLUSH;
            file.lock_owner = flush.lock_owner;
            ask!(flush(node, &raw mut file))
        }
        Operation::Release { release } => {
            file = releasing(&release);
            match table.release {
                Some(_) => ask!(release(node, &raw mut file)),
                None => refuse(0),
            }
        }
        Operation::Releasedir { release } => {
            file = releasing(&release);
            match table.releasedir {
                Some(_) => ask!(releasedir(node, &raw mut file)),
                None => refuse(0),
            }
        }
        Operation::Fsync { fsync } => {
            file = FileInfo::of(fsync.fh);
            let data_only = c_int::from(fsync.fsync_flags & FsyncIn::DATA_ONLY != 0);
            ask!(fsync(node, data_only, &raw mut file))
        }
        Operation::Fsyncdir { fsync } => {
            file = FileInfo::of(fsync.fh);
            let data_only = c_int::from(fsync.fsync_flags & FsyncIn::DATA_ONLY != 0);
            ask!(fsyncdir(node, data_only, &raw mut file))
        }
        Operation::Readdir { read } => {
            file = reading(&read);
            ask!(readdir(
                node,
                read.size as usize,
                read.offset as i64,
                &raw mut file
            ))
        }
        Operation::Readdirplus { read } => {
            file = reading(&read);
            ask!(readdirplus(
                node,
                read.size as usize,
                read.offset as i64,
                &raw mut file
            ))
        }
        Operation::Statfs {} => match table.statfs {
            Some(_) => ask!(statfs(node)),
            None => {
                let mut system: libc::statvfs = files::zeroed();
                (system.f_namemax, system.f_bsize) = (255, 512);
                // SAFETY: the request has not ended.
                unsafe { reply::reply_statfs(req, &raw const system) };
            }
        },
        Operation::Setxattr {
            setxattr,
            name,
            value,
        } => {
            let (place, size) = (value.0.as_ptr().cast(), value.0.len());
            ask!(setxattr(
                node,
                text(name.bytes()),
                place,
                size,
                setxattr.flags as c_int
            ))
        }
        Operation::Getxattr { getxattr, name } => {
            ask!(getxattr(node, text(name.bytes()), getxattr.size as usize))
        }
        Operation::Listxattr { listxattr } => ask!(listxattr(node, listxattr.size as usize)),
        Operation::Removexattr { name } => ask!(removexattr(node, text(name.bytes()))),
        Operation::Access { access } => ask!(access(node, access.mask as c_int)),
        Operation::Create { create, name } => {
            file.flags = create.flags as c_int;
            ask!(create(node, text(name.bytes()), create.mode, &raw mut file))
        }
        Operation::Getlk { lock: asked } => {
            file = locking(&asked);
            let mut lock = lock(&asked.lk);
            ask!(getlk(node, &raw mut file, &raw mut lock))
        }
        Operation::Setlk { lock: asked } => locks(session, req, node, &asked, false),
        Operation::Setlkw { lock: asked } => locks(session, req, node, &asked, true),
        Operation::Bmap { bmap } => ask!(bmap(node, bmap.blocksize as usize, bmap.block)),
        Operation::Ioctl { ioctl, .. }
            if ioctl.flags & IoctlIn::DIRECTORY != 0
                && locked(&session.connection).want & (1 << 11) == 0 =>
        {
            refuse(libc::ENOTTY)
        }
        Operation::Ioctl { ioctl, data } => {
            file = FileInfo::of(ioctl.fh);
            let input = match data.0 {
                [] => ptr::null(),
                data => data.as_ptr().cast::<c_void>(),
            };
            let argument = ioctl.arg as *mut c_void;
            let sizes = (data.0.len(), ioctl.out_size as usize);
            ask!(ioctl(
                node,
                ioctl.cmd,
                argument,
                &raw mut file,
                ioctl.flags,
                input,
                sizes.0,
                sizes.1
            ))
        }
        Operation::Poll { poll } => {
            file = FileInfo::of(poll.fh);
            file.poll_events = poll.events;
            let handle = match poll.flags & culvert_wire::structures::PollIn::SCHEDULE_NOTIFY {
                0 => ptr::null_mut(),
                _ if table.poll.is_none() => ptr::null_mut(),
                _ => Box::into_raw(Box::new(PollHandle {
                    session,
                    handle: poll.kh,
                })),
            };
            ask!(poll(node, &raw mut file, handle.cast()))
        }
        Operation::Fallocate { fallocate } => {
            file = FileInfo::of(fallocate.fh);
            let (offset, length) = (fallocate.offset as i64, fallocate.length as i64);
            ask!(fallocate(
                node,
                fallocate.mode as c_int,
                offset,
                length,
                &raw mut file
            ))
        }
        Operation::CopyFileRange { copy } => {
            file = FileInfo::of(copy.fh_in);
            let mut to = FileInfo::of(copy.fh_out);
            let (from, into) = (copy.off_in as i64, copy.off_out as i64);
            let flags = copy.flags as c_int;
            let size = copy.len as usize;
            ask!(copy_file_range(
                node,
                from,
                &raw mut file,
                copy.nodeid_out,
                into,
                &raw mut to,
                size,
                flags
            ))
        }
        Operation::Lseek { lseek } => {
            file = FileInfo::of(lseek.fh);
            ask!(lseek(
                node,
                lseek.offset as i64,
                lseek.whence as c_int,
                &raw mut file
            ))
        }
        // SAFETY: the request has not ended.
        _ => unsafe { reply::missing(req) },
    }
}

fn reading(read: &ReadIn) -> FileInfo {
    FileInfo {
        flags: read.flags as c_int,
        lock_owner: match read.read_flags & ReadIn::LOCK_OWNER {
            0 => 0,
            _ => read.lock_owner,
        },
        ..FileInfo::of(read.fh)
    }
}

fn releasing(release: &ReleaseIn) -> FileInfo {
    let bit = |asked: u32, bit: u32| match release.release_flags & asked {
        0 => 0,
        _ => bit,
    };
    FileInfo {
        flags: release.flags as c_int,
        bits: bit(ReleaseIn::FLUSH, FileInfo::FLUSH)
            | bit(ReleaseIn::FLOCK_UNLOCK, FileInfo::FLOCK_RELEASE),
        lock_owner: release.lock_owner,
        ..FileInfo::of(release.fh)
    }
}

fn locking(asked: &LkIn) -> FileInfo {
    FileInfo {
        lock_owner: asked.owner,
        ..FileInfo::of(asked.fh)
    }
}

/// An open file of a file system that has no function for opening. A kernel that knows that none is
/// needed is told so.
fn opened(session: &Session, opcode: u32, req: *mut Req, file: *mut FileInfo) {
    const NO_OPEN: u32 = 1 << 17;
    const NO_OPENDIR: u32 = 1 << 24;
    // SAFETY: the request has not ended; a file on the caller's stack.
    unsafe {
        let bit = match opcode {
            14 => NO_OPEN,
            _ => NO_OPENDIR,
        };
        match locked(&session.connection).want & bit {
            0 => reply::reply_open(req, file),
            _ => reply::reply_err(req, libc::ENOSYS),
        };
    }
}

/// SETLK, of fcntl(2) and flock(2).
fn locks(session: &Session, req: *mut Req, node: u64, asked: &LkIn, sleep: bool) {
    let mut file = locking(asked);
    let table = &session.operations;
    // SAFETY: the file system's own functions, with what the header says; the request has not
    // ended.
    unsafe {
        match (asked.lk_flags & LkIn::FLOCK != 0, table.flock, table.setlk) {
            (true, Some(function), _) => {
                let operation = match asked.lk.r#type as c_int {
                    libc::F_RDLCK => libc::LOCK_SH,
                    libc::F_WRLCK => libc::LOCK_EX,
                    _ => libc::LOCK_UN,
                };
                let now = if sleep { 0 } else { libc::LOCK_NB };
                function(req, node, &raw mut file, operation | now);
            }
            (false, _, Some(function)) => {
                let mut lock = lock(&asked.lk);
                function(req, node, &raw mut file, &raw mut lock, c_int::from(sleep));
            }
            _ => reply::missing(req),
        }
    }
}
