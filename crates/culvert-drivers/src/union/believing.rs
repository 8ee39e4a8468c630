//! Which directories are [believed](super::beliefs) to be what they are known to be.

use super::beliefs::{Belief, MOST, Watching};
use super::searcher::Who;
use super::state::{Core, Parts};
use alloc::{sync::Arc, vec::Vec};
use culvert::{Caller, Errno, Node};

/// How deep a directory may lie.
const DEEPEST: usize = 16;

/// What came of a look at a directory.
enum Looked {
    /// It is believed from here on.
    Believed,
    /// It is not, this time.
    Unknown,
    /// Something is in the way.
    Disturbed,
    /// It is not worth to look for a while.
    Never,
}

/// A directory on the way: what it is on each branch, the name of the next in it, and what that is.
type Step = (Parts, Vec<u8>, Parts);

impl Core {
    /// Whether the directory `dir` is `parts` on all branches, as it is known to be, and no more.
    pub fn is_whole(&self, caller: &Caller<'_>, dir: Node, parts: &Parts) -> bool {
        if dir == super::ROOT {
            return true;
        }
        if !self.believes(caller) {
            return false;
        }
        let mut state = self.beliefs.0.lock();
        match state.all.iter().position(|one| one.dir == dir) {
            None if state.is_worth_it(dir) => {
                state.looking = true;
                drop(state);
                let found = self.believe(caller, (dir, parts));
                let mut state = self.beliefs.0.lock();
                state.looking = false;
                match found {
                    Looked::Believed => return true,
                    Looked::Unknown => {}
                    Looked::Disturbed => state.disturbed(),
                    Looked::Never => state.rest(),
                }
                false
            }
            None => false,
            Some(at) => {
                let one = &state.all[at];
                let is_on = one.branches.as_ptr() == Arc::as_ptr(&self.branches);
                if !is_on || *one.parts != *parts || !one.who.is(caller) {
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

    /// Whether `caller` goes by what is believed. Nobody's calls are made by whoever makes them.
    pub fn believes(&self, caller: &Caller<'_>) -> bool {
        !self.elevates && !caller.is_system() && self.keeper.table() == 0
    }

    /// The directory that `is`, and what it is on all branches, should that be believed.
    pub fn believed(
        &self,
        caller: &Caller<'_>,
        is: impl Fn(&Belief) -> bool,
    ) -> Option<(Node, Arc<Parts>)> {
        if !self.believes(caller) {
            return None;
        }
        let mut state = self.beliefs.0.lock();
        let one = state.all.iter().find(|one| is(one))?;
        let is_on = one.branches.as_ptr() == Arc::as_ptr(&self.branches);
        if !is_on || !one.who.is(caller) {
            return None;
        }
        let found = (one.dir, Arc::clone(&one.parts));
        let is_quiet = state.is_quiet();
        if is_quiet {
            state.saved();
        }
        is_quiet.then_some(found)
    }

    /// What tells of changes that the branches see; none: nothing does, in this process. By who
    /// looks.
    pub fn watch(&self) -> Option<Arc<Watching>> {
        let still = self.beliefs.0.lock().watching.clone();
        let still = still.filter(|watching| !watching.is_full());
        if still.is_none() {
            // Its seat is free again.
            self.beliefs.0.lock().stop();
        }
        let new = || Watching::new(&self.names, self.keeper).map(Arc::new);
        let watching = still.or_else(new)?;
        if !watching.hears_of(&self.branches) {
            self.beliefs.0.lock().stop();
            return None;
        }
        self.beliefs.0.lock().watching = Some(Arc::clone(&watching));
        Some(watching)
    }

    /// Looks whether the directory `dir` is `parts`, once that and those above are watched.
    #[cold]
    fn believe(&self, caller: &Caller<'_>, (dir, parts): (Node, &Parts)) -> Looked {
        if !self.branches.iter().all(|branch| branch.is_local) {
            return Looked::Never;
        }
        // What a branch has that nobody has asked is known next time.
        if !self.directory(caller, dir).is_ok_and(|now| now == *parts) {
            return Looked::Unknown;
        }
        let Some(way) = self.way_to(dir, parts) else {
            return Looked::Unknown;
        };
        let Some(watching) = self.watch() else {
            return Looked::Never;
        };
        for (over, ..) in &way {
            for (index, part) in over.iter().enumerate() {
                let watched = part.map_or(Ok(()), |part| watching.add(&self.branches[index], part));
                if watched.is_err() {
                    return Looked::Disturbed;
                }
            }
        }
        // What has happened before does not matter.
        let happened = self.beliefs.0.lock().now();
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
            return Looked::Disturbed;
        }
        let mut state = self.beliefs.0.lock();
        if !state.is_still(&watching, happened) {
            return Looked::Unknown;
        }
        if state.all.len() == MOST {
            state.all.remove(0);
        }
        state.all.push(Belief {
            dir,
            path: path_of(&way),
            parts: Arc::new(parts.clone()),
            branches: Arc::downgrade(&self.branches),
            who: Who::of(caller),
        });
        Looked::Believed
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
            let over = self.known_parts(above).ok()?;
            way.push((over.clone(), name, next));
            (here, next) = (above, over);
        }
        way.reverse();
        Some(way)
    }
}

/// The path to which `way` leads, from the root.
fn path_of(way: &[Step]) -> Vec<u8> {
    let names: Vec<_> = way.iter().map(|step| &step.1[..]).collect();
    names.join(&b'/')
}
