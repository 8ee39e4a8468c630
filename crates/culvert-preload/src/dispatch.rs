//! From a call's number to who answers it, by [`crate::table`].

use crate::answer::Answer;
use crate::descriptors::mount_tables;
use crate::process::{self, Process};
use crate::syscalls::arguments::{self, At};
use crate::syscalls::{done, path};
use crate::table::{Handler, Submitter, TABLE, Treatment};
use crate::vfs::proc_files;
use culvert::Errno;
use culvert_intercept::{Call, Interest, Interests, Outcome};
use culvert_mounts::resolver::LastStep;
use culvert_run::internal::{with_more, with_more_for_one};
use culvert_run::memory;
use culvert_sys::nr;

/// From a number to what happens to the call, up to a number that is higher than all that there
/// are. Only read when this is compiled.
static TREATMENTS: [Treatment; 512] = {
    let mut treatments = [Treatment::Forwarded; 512];
    let mut i = 0;
    while i < TABLE.len() {
        let (number, treatment) = TABLE[i];
        treatments[number as usize] = treatment;
        i += 1;
    }
    treatments
};

/// A call's treatment without the address of its function. Each address is a relocation: ld.so
/// writes it in each program, and the page that it is in becomes the program's own.
#[derive(Clone, Copy)]
enum Row {
    /// By the function at this place of [`HANDLERS`].
    Handled(Interest, u16),
    /// By the function at this place of [`SUBMITTERS`].
    Submits(u16),
    Forwarded,
    /// As this place of [`REFUSALS`] says.
    RefusedInside(u16),
    RefusedOn(Errno),
}

// Each call looks here: eight bytes a call.
const _: () = assert!(size_of::<Row>() == 8);

static ROWS: [Row; 512] = {
    let mut rows = [Row::Forwarded; 512];
    let (mut handled, mut submit, mut refused, mut i) = (0, 0, 0, 0);
    while i < rows.len() {
        rows[i] = match TREATMENTS[i] {
            Treatment::Handled(interest, _) => {
                handled += 1;
                Row::Handled(interest, handled - 1)
            }
            Treatment::Submits(_) => {
                submit += 1;
                Row::Submits(submit - 1)
            }
            Treatment::Forwarded => Row::Forwarded,
            Treatment::RefusedInside(..) => {
                refused += 1;
                Row::RefusedInside(refused - 1)
            }
            Treatment::RefusedOn(errno) => Row::RefusedOn(errno),
        };
        i += 1;
    }
    rows
};

/// An array of what the treatments of one kind have, in the order of the calls' numbers.
macro_rules! gathered {
    ($(#[$doc:meta])* $name:ident: $kind:ty, $pattern:pat => $what:expr, or $none:expr) => {
        $(#[$doc])*
        static $name: [$kind; {
            let (mut count, mut i) = (0, 0);
            while i < TREATMENTS.len() {
                #[allow(unused_variables)]
                if let $pattern = TREATMENTS[i] {
                    count += 1;
                }
                i += 1;
            }
            count
        }] = {
            let mut all: [$kind; _] = [$none; _];
            let (mut count, mut i) = (0, 0);
            while i < TREATMENTS.len() {
                if let $pattern = TREATMENTS[i] {
                    all[count] = $what;
                    count += 1;
                }
                i += 1;
            }
            all
        };
    };
}

gathered! {
    /// The functions of handled calls.
    HANDLERS: Handler, Treatment::Handled(_, function) => function, or |_, _| Err(Errno::ENOSYS)
}
gathered! {
    /// The functions of calls that submit others.
    SUBMITTERS: Submitter, Treatment::Submits(function) => function, or |_, _, _| Outcome::Forward
}
gathered! {
    /// What is refused inside a mount, and how.
    REFUSALS: (At, Errno), Treatment::RefusedInside(at, errno) => (at, errno),
    or (At::new(0, LastStep::Follow), Errno::ENOSYS)
}

/// When the engine is to offer each call, where some mount's target is a directory of the kernel's,
/// and where none is.
static INTERESTS: [Interests; 2] = [wished(true), wished(false)];

/// When the engine is to offer each call.
pub fn interests(targets_exist: bool) -> &'static Interests {
    &INTERESTS[usize::from(!targets_exist)]
}

const fn wished(targets_exist: bool) -> Interests {
    let mut interests = [Interest::Never; 512];
    let mut i = 0;
    while i < interests.len() {
        interests[i] = match &TREATMENTS[i] {
            Treatment::Handled(interest, _) => *interest,
            Treatment::Submits(_) | Treatment::RefusedInside(..) => Interest::Always,
            Treatment::RefusedOn(_) => Interest::Descriptor0,
            Treatment::Forwarded => Interest::Never,
        };
        i += 1;
    }
    // Foreign descriptors of these matter only when one may be on the empty directory under a
    // mount.
    if !targets_exist {
        interests[nr::FSTAT] = Interest::Descriptor0;
    }
    Interests::new(interests)
}

/// Answers a call.
pub fn dispatch(call: &mut Call) -> Outcome {
    let process = process::get();
    if mount_tables::are_due()
        && let Err(errno) = proc_files::write_due(call)
    {
        return done(Err(errno));
    }
    match ROWS.get(call.number) {
        Some(Row::Handled(interest, _)) if names_hidden(process, *interest, call) => {
            done(without_hidden(process, *interest, call))
        }
        Some(Row::Handled(_, at)) => {
            let function = HANDLERS[usize::from(*at)];
            done(match function(process, call) {
                Err(Errno::ESTALE) => again(process, call, function),
                Err(Errno::EMFILE) => with_room(process, call, function),
                answer => answer,
            })
        }
        Some(Row::Submits(at)) => SUBMITTERS[usize::from(*at)](process, call, dispatch),
        Some(Row::RefusedInside(at)) => {
            let (at, errno) = REFUSALS[usize::from(*at)];
            done(path::refuse_inside(process, call, at, errno))
        }
        Some(Row::RefusedOn(_)) if names_hidden(process, Interest::Descriptor0, call) => {
            done(without_hidden(process, Interest::Descriptor0, call))
        }
        Some(Row::RefusedOn(errno)) => done(arguments::refuse(process, call, *errno)),
        Some(Row::Forwarded) | None => Outcome::Forward,
    }
}

/// A node that was found by its name and removed by another process before the operation on it
/// began: nothing was done, and the name is to be looked up again (`retry_estale`,
/// include/linux/namei.h, which tries once; here the others run at the same speed).
///
/// Somebody may go on exchanging names, and a driver may know by its name alone what a path leads
/// to ([`culvert::FileSystem::reach`]). So the later tries look names up one by one: then it is
/// kept.
#[cold]
fn again(process: &Process, call: &mut Call, function: Handler) -> Answer {
    const TRIES: usize = 8;
    const QUICK: usize = 3;
    // More than the paths of a call: other threads may walk meanwhile.
    const WALKS: u32 = 16;
    for tries in 1..TRIES {
        if tries >= QUICK {
            process.mounts.walk_next(WALKS);
        }
        match function(process, call) {
            Err(Errno::ESTALE) => {}
            answer => {
                process.mounts.walk_next(0);
                return answer;
            }
        }
    }
    process.mounts.walk_next(0);
    Err(Errno::ESTALE)
}

/// There was no number for a descriptor. What Culvert holds makes room; a call that gives the
/// program none may use more than the program may. Not a call that makes a name: a driver may have
/// made it before it missed a descriptor for it.
#[cold]
fn with_room(process: &Process, call: &mut Call, function: Handler) -> Answer {
    let excludes = |flags: usize| flags & 0o300 == 0o300; // O_CREAT | O_EXCL
    let makes_name = match call.number {
        nr::OPEN => excludes(call.args[1]),
        nr::OPENAT => excludes(call.args[2]),
        nr::OPENAT2 => memory::get(call.args[2]).is_ok_and(excludes),
        nr::MKDIR | nr::MKDIRAT | nr::MKNOD | nr::MKNODAT | nr::SYMLINK | nr::SYMLINKAT => true,
        nr::LINK | nr::LINKAT | nr::RENAME | nr::RENAMEAT | nr::RENAMEAT2 | nr::BIND => true,
        _ => false,
    };
    if makes_name {
        process.run.make_room();
        return Err(Errno::EMFILE);
    }
    // A driver may open several things for a call.
    const TRIES: usize = 16;
    for _ in 0..TRIES {
        if !process.run.make_room() {
            break;
        }
        match function(process, call) {
            Err(Errno::EMFILE) => {}
            answer => return answer,
        }
    }
    let answer = match call.number {
        nr::OPEN | nr::CREAT | nr::OPENAT | nr::OPENAT2 => {
            with_more_for_one(|| function(process, call))
        }
        nr::DUP | nr::DUP2 | nr::DUP3 | nr::FCNTL => None,
        nr::RECVMSG | nr::RECVMMSG | nr::PIDFD_GETFD => None,
        // The program that is executed would keep the limit.
        nr::EXECVE | nr::EXECVEAT => None,
        _ => with_more(|| function(process, call)),
    };
    answer.unwrap_or(Err(Errno::EMFILE))
}

/// Whether a call on descriptors names one that only Culvert knows of: the program has not opened
/// that number.
#[inline]
fn names_hidden(process: &Process, interest: Interest, call: &Call) -> bool {
    let hidden = |index: usize| process.run.is_internal(call.args[index] as i32);
    match interest {
        Interest::Descriptor0 | Interest::Bytes0 => hidden(0),
        Interest::Bytes01 => hidden(0) || hidden(1),
        Interest::Bytes02 => hidden(0) || hidden(2),
        _ => false,
    }
}

/// The answer to a call that names one: that of the kernel for a descriptor that does not exist,
/// since it may look at other things first.
#[cold]
fn without_hidden(process: &Process, interest: Interest, call: &Call) -> Answer {
    let descriptors: &[usize] = match interest {
        Interest::Bytes01 => &[0, 1],
        Interest::Bytes02 => &[0, 2],
        _ => &[0],
    };
    let mut without = call.replacing();
    for &at in descriptors {
        if process.run.is_internal(call.args[at] as i32) {
            without = without.word(at, usize::MAX);
        }
    }
    without.execute()
}
