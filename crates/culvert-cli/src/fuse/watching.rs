//! What the guardian hears of the programs that use a server: that they are there, and that they
//! are not any more.

use super::{
    heirs::Heirs,
    shared::{JOINED, User},
};
use culvert_slots::Area;
use culvert_sys::{Errno, OwnedFd, process, raw::general::RLIMIT_NOFILE};
use std::{
    collections::{HashMap, HashSet},
    io,
    os::unix::process::CommandExt,
    process::Command,
    sync::{OnceLock, mpsc::Sender},
};

/// How many descriptors are for the guardian's own use, and not for watching programs.
const OWN: u64 = 64;

/// How often programs that cannot be watched are looked for.
const LOOKS: i32 = 1000;

/// What is known of a process that has told of itself.
#[derive(Debug)]
enum Watched {
    /// It is there, and this tells of its end.
    Lives(OwnedFd),
    /// It is gone, or no process of this PID namespace.
    Gone,
    /// It cannot be watched now.
    Unknown,
}

/// Watches a process of which `number` says its number, while it is there. It may end, and another
/// one get that number, at any moment.
fn watched(
    number: impl Fn() -> Option<u32>,
    open: impl FnOnce(u32) -> Result<OwnedFd, Errno>,
) -> Watched {
    match number().map(open) {
        Some(Ok(process)) if number().is_some() => Watched::Lives(process),
        None | Some(Ok(_) | Err(Errno::ESRCH)) => Watched::Gone,
        Some(Err(_)) => Watched::Unknown,
    }
}

/// The soft and the hard limit of this process's descriptors before they were raised.
static BEFORE: OnceLock<[u64; 2]> = OnceLock::new();

/// Raises the soft limit of this process's descriptors to the hard one.
pub fn raise_limit() {
    if let Ok(limits @ [_, hard]) = process::getrlimit(RLIMIT_NOFILE)
        && process::setrlimit(RLIMIT_NOFILE, &[hard, hard]).is_ok()
    {
        let _ = BEFORE.set(limits);
    }
}

/// What `command` starts has the limit that there was before.
pub fn keep_limit(command: &mut Command) {
    let Some(limits) = BEFORE.get().copied() else {
        return;
    };
    let lower = move || {
        process::setrlimit(RLIMIT_NOFILE, &limits)
            .map_err(|errno| io::Error::from_raw_os_error(errno.raw()))
    };
    // SAFETY: a system call, which uses nothing that another thread may hold.
    unsafe { command.pre_exec(lower) };
}

/// How many programs can be watched at once.
fn room() -> usize {
    let limit = process::getrlimit(RLIMIT_NOFILE).map_or(OWN, |[soft, _]| soft);
    usize::try_from(limit.saturating_sub(OWN)).unwrap_or(usize::MAX)
}

/// Watches the programs that tell of themselves by `guard`: what one that dies has left in the
/// slots is freed. Tells `joined` of runs.
pub fn watch(guard: &OwnedFd, heirs: &Heirs, joined: &Sender<User>) {
    use culvert_sys::raw::general::pollfd;
    const POLLIN: i16 = 1;
    let mut known: HashMap<u64, OwnedFd> = HashMap::new();
    // Those for which there is no room.
    let mut others: HashSet<u64> = HashSet::new();
    let room = room();
    loop {
        let asked = |fd: i32| pollfd {
            fd,
            events: POLLIN,
            revents: 0,
        };
        let (identities, processes): (Vec<u64>, Vec<i32>) = known
            .iter()
            .map(|(identity, process)| (*identity, process.raw()))
            .unzip();
        let all = [guard.raw()].into_iter().chain(processes);
        let mut polled: Vec<_> = all.map(asked).collect();
        let patience = if others.is_empty() { -1 } else { LOOKS };
        if process::poll(&mut polled, patience).is_err() {
            continue;
        }
        let ended = polled.iter().skip(1).zip(identities);
        for (_, identity) in ended.filter(|(process, _)| process.revents != 0) {
            known.remove(&identity);
            heirs.died(identity);
        }
        // All that is there: what is no whole identity shifts none that comes later.
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = culvert_sys::fs::read(guard, &mut bytes) {
            for identity in bytes[..count].chunks_exact(8) {
                let identity = u64::from_ne_bytes(identity.try_into().unwrap_or_default());
                if identity == JOINED {
                    let _ = joined.send(User::Joined);
                    continue;
                }
                if !known.contains_key(&identity) {
                    others.insert(identity);
                }
            }
        }
        others.retain(|&identity| {
            let open = |number| match known.len() < room {
                true => process::pidfd_open(number),
                false => Err(Errno::EMFILE),
            };
            match watched(|| Area::process_of(identity), open) {
                Watched::Lives(process) => drop(known.insert(identity, process)),
                Watched::Gone => heirs.died(identity),
                Watched::Unknown => return true,
            }
            false
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn the_soft_limit_becomes_the_hard_one_but_for_what_is_started() {
        let before = process::getrlimit(RLIMIT_NOFILE).unwrap();
        process::setrlimit(RLIMIT_NOFILE, &[before[1] - 1, before[1]]).unwrap();
        raise_limit();
        assert_eq!(process::getrlimit(RLIMIT_NOFILE).unwrap(), [before[1]; 2]);
        assert_eq!(room() as u64, before[1].saturating_sub(OWN));
        let mut shell = Command::new("sh");
        keep_limit(shell.args(["-c", "ulimit -n"]));
        let said = String::from_utf8(shell.output().unwrap().stdout).unwrap();
        assert_eq!(said.trim(), (before[1] - 1).to_string());
        process::setrlimit(RLIMIT_NOFILE, &before).unwrap();
    }

    #[test]
    fn a_process_that_ends_while_the_guardian_hears_of_it_is_gone() {
        let own = std::process::id();
        let lives = watched(|| Some(own), process::pidfd_open);
        assert!(matches!(lives, Watched::Lives(_)), "{lives:?}");
        assert!(matches!(
            watched(|| None, process::pidfd_open),
            Watched::Gone
        ));
        // It was there when it was asked for, and then not any more.
        let gone = watched(|| Some(own), |_| Err(Errno::ESRCH));
        assert!(matches!(gone, Watched::Gone), "{gone:?}");
        // Its number is another's.
        let asked = Cell::new(0);
        let number = || {
            asked.set(asked.get() + 1);
            (asked.get() == 1).then_some(own)
        };
        assert!(matches!(
            watched(number, process::pidfd_open),
            Watched::Gone
        ));
        let full = watched(|| Some(own), |_| Err(Errno::EMFILE));
        assert!(matches!(full, Watched::Unknown), "{full:?}");
    }
}
