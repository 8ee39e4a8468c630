//! From a long program that shows a difference to a short one: delta debugging (Zeller,
//! Hildebrandt: "Simplifying and Isolating Failure-Inducing Input", 2002) on steps, then simpler
//! words, then fewer actors.

use crate::compare::{Difference, compare};
use crate::mount::Mount;
use crate::program::{Program, Step};
use crate::world::World;

/// How many programs are tried, at most, for a shorter one.
const ATTEMPTS: usize = 300;

/// The first difference between a native run and one on `mount`; none where it cannot even be run
/// natively.
pub fn difference(
    world: &World,
    program: &Program,
    mount: &Mount,
    perturbed: Option<usize>,
) -> Option<Difference> {
    let native = world.run(program, &mount.reference(), None);
    if native.status != "exit 0" {
        return None;
    }
    let ours = world.run(program, mount, perturbed);
    compare(program, &native, &ours, mount)
}

/// The smallest program found that differs in the same way as `program` does by `found`.
pub fn smaller(
    world: &World,
    program: &Program,
    mount: &Mount,
    found: &Difference,
    perturbed: Option<usize>,
) -> Program {
    let short = shrink(program, ATTEMPTS, &mut |candidate| {
        difference(world, candidate, mount, perturbed)
            .is_some_and(|now| now.signature() == found.signature())
    });
    // Natively the same twice: else it is the short program that varies.
    if difference(world, &short, &Mount::Native, None).is_some() {
        return program.clone();
    }
    short
}

/// Makes `program` smaller as long as `fails` says that it still shows what it showed, at most
/// `attempts` times asked.
pub fn shrink(
    program: &Program,
    attempts: usize,
    fails: &mut dyn FnMut(&Program) -> bool,
) -> Program {
    let mut shrinker = Shrinker {
        best: program.clone(),
        left: attempts,
        fails,
    };
    loop {
        let before = shrinker.best.clone();
        shrinker.fewer_steps();
        shrinker.plainer_options();
        shrinker.fewer_actors();
        shrinker.simpler_words();
        if shrinker.best == before || shrinker.left == 0 {
            return shrinker.best;
        }
    }
}

struct Shrinker<'a> {
    best: Program,
    left: usize,
    fails: &'a mut dyn FnMut(&Program) -> bool,
}

impl Shrinker<'_> {
    /// Takes `candidate` if it fails too.
    fn offer(&mut self, candidate: Program) -> bool {
        if self.left == 0 || candidate == self.best {
            return false;
        }
        self.left -= 1;
        let better = (self.fails)(&candidate);
        if better {
            self.best = candidate;
        }
        better
    }

    fn fewer_steps(&mut self) {
        let mut size = self.best.steps.len().div_ceil(2);
        while size > 0 {
            // From the end: what follows the failing step goes first.
            let mut end = self.best.steps.len();
            while end > 0 {
                let start = end.saturating_sub(size);
                let mut candidate = self.best.clone();
                candidate.steps.drain(start..end);
                self.offer(candidate);
                end = start;
            }
            size /= 2;
        }
    }

    fn plainer_options(&mut self) {
        for change in [
            |program: &mut Program| program.nobody = false,
            |program: &mut Program| program.ticks = false,
        ] {
            let mut candidate = self.best.clone();
            change(&mut candidate);
            self.offer(candidate);
        }
    }

    /// Each actor's steps given to another one, and its birth left out.
    fn fewer_actors(&mut self) {
        for from in (1..8).rev() {
            for to in 0..from {
                if !self.best.steps.iter().any(|step| step.actor == from) {
                    break;
                }
                let mut candidate = self.best.clone();
                candidate.steps.retain(|step| !begets(step, from));
                for step in &mut candidate.steps {
                    if step.actor == from {
                        step.actor = to;
                    }
                }
                self.offer(candidate);
            }
        }
    }

    fn simpler_words(&mut self) {
        for index in (0..self.best.steps.len()).rev() {
            let mut word = 1;
            while self
                .best
                .steps
                .get(index)
                .is_some_and(|step| word < step.words.len())
            {
                for simpler in simplifications(&self.best.steps[index].words[word]) {
                    let mut candidate = self.best.clone();
                    candidate.steps[index].words[word] = simpler;
                    if self.offer(candidate) {
                        break;
                    }
                }
                word += 1;
            }
        }
    }
}

fn begets(step: &Step, actor: u8) -> bool {
    matches!(
        step.operation(),
        "fork" | "thread" | "clonefiles" | "clonefs"
    ) && step.words.get(1) == Some(&actor.to_string())
}

/// Simpler forms of one word, the simplest first.
fn simplifications(word: &str) -> Vec<String> {
    let mut found = Vec::new();
    if word.contains('|') {
        let flags: Vec<&str> = word.split('|').collect();
        for left_out in 0..flags.len() {
            let kept: Vec<&str> = (0..flags.len())
                .filter(|at| *at != left_out)
                .map(|at| flags[at])
                .collect();
            found.push(kept.join("|"));
        }
    } else if let Ok(number) = word.parse::<i64>() {
        for simpler in [0, 1, 10, 4096] {
            if simpler < number && !word.starts_with('0') {
                found.push(simpler.to_string());
            }
        }
    } else if word.contains('/') && word.len() > 1 {
        // Without its beginning, then without each part.
        if let Some(rest) = word.strip_prefix("{m}/") {
            found.push(rest.to_owned());
        }
        let parts: Vec<&str> = word.split('/').collect();
        for left_out in 0..parts.len() {
            let kept: Vec<&str> = (0..parts.len())
                .filter(|at| *at != left_out)
                .map(|at| parts[at])
                .collect();
            let path = kept.join("/");
            // Never an absolute path outside of the directories.
            if !path.is_empty() && !path.starts_with('/') {
                found.push(path);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_matters_is_left() {
        let program: Program = "0 mkdir d 0755\n0 fork 1\n1 open a {m}/d/f O_RDWR|O_CREAT 0644\n0 \
            getcwd 10\n1 write a 4097\n"
            .parse()
            .expect("a program");
        // What fails: any write of at least ten bytes behind an open that creates.
        let mut fails = |candidate: &Program| {
            let mut created = false;
            candidate.steps.iter().any(|step| {
                created |= step.operation() == "open" && step.words[3].contains("O_CREAT");
                created
                    && step.operation() == "write"
                    && step.words[2].parse::<u32>().is_ok_and(|size| size >= 10)
            })
        };
        let short = shrink(&program, 1000, &mut fails);
        assert_eq!(short.to_string(), "0 open a f O_CREAT 0644\n0 write a 10\n");
    }

    #[test]
    fn it_ends_when_nothing_fails_any_more() {
        let program: Program = "0 getcwd 10\n0 mkdir d 0755\n".parse().expect("a program");
        assert_eq!(shrink(&program, 1000, &mut |_| false), program);
    }
}
