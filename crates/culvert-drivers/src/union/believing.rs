//! Which directories are [believed](super::beliefs) to be what they are known to be.

use super::beliefs::{Belief, MOST, State, Watching, Who};
use super::state::{Core, Parts};
use alloc::{sync::Arc, vec::Vec};
use culvert::{Caller, Errno, Node};

/// How deep a directory may lie.
const DEEPEST: usize = 16;

/// A directory on the way: what it is on each branch, the name of the next in it, and what that is.
type Step = (Parts, Vec<u8>, Parts);

impl Core {
    /// Whether the directory `dir` is `parts` on all branches, as it is known to be, and no more.
    pub fn is_whole(&self, caller: &Caller<'_>, dir: Node, parts: &Parts) -> bool {
        if dir == super::ROOT {
            return true;
        }
        // Nobody's calls are made by whoever makes them.
        if self.elevates || caller.is_system() || self.keeper.table() != 0 {
            return false;
        }
        let mut state = self.beliefs.0.lock();
        match state.all.iter().position(|one| one.dir == dir) {
            None => state.is_worth_it(dir) && self.believe(&mut state, caller, (dir, parts)),
            Some(at) => {
                let one = &state.all[at];
                let is_on = one.branches.as_ptr() == Arc::as_ptr(&self.branches);
                if !is_on || one.parts != *parts || !one.who.is(caller) {
                    state.all.swap_remove(at);
                    return false;
                }
                let is_quiet = state.is_quiet();
                if is_quiet {
                    state.saved();
                }
                is_quiet
            }
        }
    }

    /// Looks whether the directory `dir` is `parts`, once that and those above are watched.
    #[cold]
    fn believe(
        &self,
        state: &mut State,
        caller: &Caller<'_>,
        (dir, parts): (Node, &Parts),
    ) -> bool {
        // What does not answer is not asked: others wait here.
        if !self.branches.iter().all(|branch| branch.is_local) {
            state.rest();
            return false;
        }
        // What a branch has that nobody has asked is known next time.
        if !self.directory(caller, dir).is_ok_and(|now| now == *parts) {
            return false;
        }
        let Some(way) = self.way_to(dir, parts) else {
            return false;
        };
        if state.watching.as_ref().is_some_and(Watching::is_full) {
            state.all.clear();
            state.watching = None;
        }
        if state.watching.is_none() {
            state.watching = Watching::new(&self.names, self.keeper);
        }
        let Some(watching) = &mut state.watching else {
            state.rest();
            return false;
        };
        for (over, ..) in &way {
            for (index, part) in over.iter().enumerate() {
                let watched = part.map_or(Ok(()), |part| watching.add(&self.branches[index], part));
                if watched.is_err() {
                    state.disturbed();
                    return false;
                }
            }
        }
        // What has happened before does not matter.
        state.is_quiet();
        let leads = |(over, name, next): &Step| {
            let mut all = over.iter().zip(next).enumerate();
            all.all(|(index, both)| match both {
                (None, next) => next.is_none(),
                (Some(over), next) => match (self.find(caller, index, *over, name), next) {
                    (Ok(found), Some(next)) => found.node() == *next,
                    (Err(error), None) => error.errno() == Errno::ENOENT,
                    _ => false,
                },
            })
        };
        if !way.iter().all(leads) {
            state.disturbed();
            return false;
        }
        if !state.is_quiet() {
            return false;
        }
        if state.all.len() == MOST {
            state.all.remove(0);
        }
        state.all.push(Belief {
            dir,
            parts: parts.clone(),
            branches: Arc::downgrade(&self.branches),
            who: Who::of(caller),
        });
        true
    }

    /// The way from the root to the directory `dir`, which is `parts`; none where it is not known,
    /// or long.
    fn way_to(&self, dir: Node, parts: &Parts) -> Option<Vec<Step>> {
        let mut way = Vec::new();
        let (mut here, mut next) = (dir, parts.clone());
        while here != super::ROOT {
            if way.len() == DEEPEST {
                return None;
            }
            let (above, name) = self.known_directory(here).ok()?.1?;
            let over = self.known_directory(above).ok()?.0;
            way.push((over.clone(), name, next));
            (here, next) = (above, over);
        }
        way.reverse();
        Some(way)
    }
}
