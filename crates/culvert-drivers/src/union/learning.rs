//! Names that are known to be on no branch but one, where a program makes file after file: so that
//! the others are not searched for each.
//!
//! The directories of the others are watched, and listed: what is not in the list is not there as
//! long as nothing happens in them ([`super::beliefs`]). Who makes a file asks that once, and the
//! branch on which it is made says by itself that there is one.

use super::absences::{Absences, number};
use super::beliefs::State;
use super::searcher::Who;
use super::state::{Core, Parts};
use alloc::{sync::Arc, vec::Vec};
use culvert::{Access, Caller, Errno, Node, Result};

/// How many directories are known so at a time, and how many names are in them at most.
const MOST: usize = 8;
const NAMES: usize = 1024;

/// How many files must have been made in a directory, all on one branch.
const MADE: i32 = 16;

impl State {
    /// A file was made in the directory `dir`, on branch `index`.
    fn made(&mut self, dir: Node, index: usize) {
        match self.made.iter_mut().find(|one| one.0 == dir) {
            Some(one) if one.1 == index => one.2 = one.2.saturating_add(1),
            Some(one) => (one.1, one.2) = (index, 1),
            None => {
                if self.made.len() == MOST {
                    self.made.remove(0);
                }
                self.made.push((dir, index, 1));
            }
        }
    }

    /// The branch on which files of the directory `dir` are made, should it pay to learn which
    /// names the others lack. It is asked once, and anew when as many were made since.
    fn is_worth_learning(&mut self, dir: Node) -> Option<usize> {
        if self.looking || self.rests() {
            return None;
        }
        let one = self.made.iter_mut().find(|one| one.0 == dir)?;
        let is_enough = one.2 >= MADE;
        if is_enough {
            one.2 = 0;
        }
        is_enough.then_some(one.1)
    }

    /// It is not worth it.
    fn never(&mut self, dir: Node) {
        if let Some(one) = self.made.iter_mut().find(|one| one.0 == dir) {
            one.2 = i32::MIN;
        }
    }
}

impl Core {
    /// Notes where a file was made in the directory `dir`, which is `parts`.
    pub fn made_in(&self, dir: Node, parts: &Parts, index: usize) {
        if parts.iter().flatten().count() > 1 {
            self.beliefs.0.lock().made(dir, index);
        }
    }

    /// The branch that alone may have `name` in the directory `dir`, which is `parts`, as far as
    /// that is known.
    pub fn alone_may_have(
        &self,
        caller: &Caller<'_>,
        (dir, parts): (Node, &Parts),
        name: &[u8],
    ) -> Option<usize> {
        if !self.believes(caller) {
            return None;
        }
        let mut state = self.beliefs.0.lock();
        let Some(at) = state.absences.iter().position(|one| one.dir == dir) else {
            let but = state.is_worth_learning(dir)?;
            state.looking = true;
            drop(state);
            let learnt = self.learn(caller, (dir, parts), but);
            let mut state = self.beliefs.0.lock();
            state.looking = false;
            match learnt {
                Ok(()) => {}
                Err(error) if error.errno() == Errno::EAGAIN => state.disturbed(),
                Err(_) => state.never(dir),
            }
            return None;
        };
        let one = &state.absences[at];
        let is_on = one.branches.as_ptr() == Arc::as_ptr(&self.branches);
        if !is_on || one.parts != *parts || !one.who.is(caller) {
            state.absences.swap_remove(at);
            return None;
        }
        let but = one.lack(name).then_some(one.but)?;
        if !state.is_quiet() {
            return None;
        }
        state.saved();
        Some(but)
    }

    /// Learns which names the directory `dir`, which is `parts`, has on all branches `but` one.
    ///
    /// - `EAGAIN`: something has changed meanwhile.
    /// - anything else: it cannot be known, or is too much.
    #[cold]
    fn learn(&self, caller: &Caller<'_>, (dir, parts): (Node, &Parts), but: usize) -> Result<()> {
        if !self.branches.iter().all(|branch| branch.is_local) {
            return Err(Errno::EXDEV.into());
        }
        let watching = self.watch().ok_or(Errno::ENOSPC)?;
        let others = || {
            let all = self.branches.iter().zip(parts).enumerate();
            let others = all.filter(|(index, _)| *index != but);
            others.filter_map(|(_, (branch, part))| Some((branch, (*part)?)))
        };
        for (branch, part) in others() {
            watching.add(branch, part)?;
        }
        // What has happened before does not matter.
        let happened = self.beliefs.0.lock().now();
        let (mut names, mut is_odd) = (Vec::new(), false);
        for (branch, part) in others() {
            branch.fs.access(caller, part, Access::EXECUTE)?;
            branch.fs.read_directory(caller, part, 0, &mut |entry| {
                if !matches!(entry.name, b"." | b"..") {
                    is_odd |= !entry.name.is_ascii();
                    names.push(number(entry.name));
                }
                names.len() <= NAMES
            })?;
            if names.len() > NAMES {
                return Err(Errno::E2BIG.into());
            }
        }
        names.sort_unstable();
        let mut state = self.beliefs.0.lock();
        if !state.is_still(&watching, happened) {
            return Err(Errno::EAGAIN.into());
        }
        if state.absences.len() == MOST {
            state.absences.remove(0);
        }
        state.absences.push(Absences {
            dir,
            parts: parts.clone(),
            branches: Arc::downgrade(&self.branches),
            who: Who::of(caller),
            but,
            names,
            is_odd,
        });
        Ok(())
    }
}
