//! What is used only where the user asks for it (`--with`), because it costs something that others
//! would miss.

use super::{Capability, Situation, always, writable};
use culvert_wire::InitFlags;

/// Those by which locks are the server's.
pub const LOCKS: [&str; 2] = ["posix-locks", "flock-locks"];

macro_rules! on_request {
    ($($flag:ident $name:literal $honoured:expr, $reason:literal;)*) => {
        /// Capabilities that are used where the kernel offers them, the driver can honour them, and
        /// the user asks for them.
        pub const ON_REQUEST: &[Capability] = &[$(Capability {
            flag: InitFlags::$flag,
            name: $name,
            reason: $reason,
            honoured: $honoured,
            switchable: true,
        }),*];
    };
}

on_request! {
    ATOMIC_O_TRUNC "atomic-o-trunc" always, "open and truncation in one request instead of two. \
        But the kernel looks whether a file is being executed after that request \
        (`handle_truncate`, fs/namei.c): open(2) with O_RDONLY | O_TRUNC of a running program is \
        ETXTBSY, and the program is gone";
    POSIX_LOCKS "posix-locks" locks, "record locks (fcntl(2), lockf(3)) are taken where the files \
        are: they exclude those of programs that use the files by another way than this mount, \
        which locks that the kernel keeps do not. A request for each lock, and one for each \
        close(2)";
    FLOCK_LOCKS "flock-locks" locks, "the same for flock(2), without a request at close(2)";
    ALLOW_IDMAP "idmap" |situation| match situation.truncates_apart {
        true => Ok(()),
        false => Err("with atomic-o-trunc nobody would take set-user-ID off at a truncation"),
    }, "the mount may be mounted again with other owners (mount_setattr(2), MOUNT_ATTR_IDMAP). \
        But the kernel then names the caller only where something is made, and judges alone: what \
        the file system below would refuse him besides (a security module, a network file \
        system's server) it does not";
    WRITEBACK_CACHE "writeback-cache" writable, "small writes stay in the kernel until there are \
        many, or until fsync(2) or close(2): fewer requests. But size and times are the kernel's \
        meanwhile: what others change behind the mount is not seen, and what they see is old; and \
        no file is passed through";
}

const fn locks(situation: &Situation) -> Result<(), &'static str> {
    match situation.keeps_locks {
        true => Ok(()),
        false => Err(
            "the driver keeps no locks that others could see; those of the kernel are right for \
            everybody who uses the mount",
        ),
    }
}

/// What of `asked` is used where the kernel offers `offered`, and why the rest is not.
pub fn chosen(
    situation: &Situation,
    offered: InitFlags,
    asked: &[String],
) -> (InitFlags, Vec<(&'static str, &'static str)>) {
    let mut refused = Vec::new();
    let wanted = ON_REQUEST
        .iter()
        .filter(|one| asked.iter().any(|name| name == one.name));
    let flags = wanted.fold(InitFlags::NONE, |flags, one| {
        let verdict = match offered.contains(one.flag) {
            true => (one.honoured)(situation),
            false => Err("this kernel does not offer it"),
        };
        match verdict {
            Ok(()) => flags.with(one.flag),
            Err(reason) => {
                refused.push((one.name, reason));
                flags
            }
        }
    });
    (flags, refused)
}
