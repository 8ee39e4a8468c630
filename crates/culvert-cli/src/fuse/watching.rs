//! What the guardian hears of the programs that use a server: that they are there, and that they
//! are not any more.

use super::{
    heirs::Heirs,
    shared::{JOINED, User},
};
use culvert_slots::Area;
use culvert_sys::{Errno, OwnedFd, process};
use std::{collections::HashMap, sync::mpsc::Sender};

/// What is known of a process that has told of itself.
#[derive(Debug)]
enum Watched {
    /// It is there, and this tells of its end.
    Lives(OwnedFd),
    /// It is gone, or no process of this PID namespace.
    Gone,
    /// It cannot be watched.
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

/// Watches the programs that tell of themselves by `guard`: what one that dies has left in the
/// slots is freed. Tells `joined` of runs.
pub fn watch(guard: &OwnedFd, heirs: &Heirs, joined: &Sender<User>) {
    use culvert_sys::raw::general::pollfd;
    const POLLIN: i16 = 1;
    let mut known: HashMap<u64, OwnedFd> = HashMap::new();
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
        if process::poll(&mut polled, -1).is_err() {
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
                match watched(|| Area::process_of(identity), process::pidfd_open) {
                    Watched::Lives(process) => drop(known.insert(identity, process)),
                    Watched::Gone => heirs.died(identity),
                    Watched::Unknown => {}
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

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
