//! All rules of a layer, and what they make of an operation.

use super::counters::Counters;
use super::effect;
use super::operation::Operations;
use super::rule::{End, Rule, Short};
use alloc::{format, vec::Vec};
use culvert::{Error, Operation, Result};

/// A set of rules: a bit for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selected(pub u64);

/// The rules of a layer.
pub struct Rules {
    rules: Vec<Rule>,
    seed: u64,
    counters: Counters,
    interrupted: Option<fn() -> bool>,
    /// What any of the rules is about.
    operations: Operations,
}

/// A read or write: where, and how many bytes are wanted.
#[derive(Clone, Copy)]
pub struct Range {
    /// Offset of its first byte.
    pub offset: u64,
    /// Its length.
    pub wanted: usize,
}

impl Rules {
    /// Rules in the order given.
    pub fn new(
        rules: Vec<Rule>,
        seed: u64,
        counters: Counters,
        interrupted: Option<fn() -> bool>,
    ) -> Self {
        let operations = rules
            .iter()
            .fold(Operations::default(), |all, rule| all.with(rule.operations));
        Self {
            rules,
            seed,
            counters,
            interrupted,
            operations,
        }
    }

    /// Whether any rule is about one of `operations`.
    pub fn are_about(&self, operations: Operations) -> bool {
        self.operations.meets(operations)
    }

    /// The rules about one of `operations` whose path is `path()`, which is asked only where it
    /// matters; no rule with a path is about a thing without one.
    pub fn select(
        &self,
        operations: Operations,
        path: impl FnOnce() -> Option<Vec<u8>>,
    ) -> Selected {
        let mut selected = 0;
        let (mut path, mut known) = (Some(path), None);
        for (number, rule) in self.rules.iter().enumerate() {
            if !rule.operations.meets(operations) {
                continue;
            }
            let meant = rule.path.is_none() || {
                if let Some(path) = path.take() {
                    known = path();
                }
                known
                    .as_ref()
                    .is_some_and(|known| rule.is_about_path(known))
            };
            selected |= u64::from(meant) << number;
        }
        Selected(selected)
    }

    /// Whether one of the rules `selected` is about one of `operations`.
    pub fn any_about(&self, selected: Selected, operations: Operations) -> bool {
        self.among(selected)
            .any(|(_, rule)| rule.operations.meets(operations))
    }

    /// Whether one of the rules `selected` about `operation` looks at offsets.
    pub fn look_at_offsets(&self, selected: Selected, operation: Operation) -> bool {
        self.among(selected)
            .any(|(_, rule)| rule.is_about(operation) && rule.offset.is_some())
    }

    fn among(&self, selected: Selected) -> impl Iterator<Item = (usize, &Rule)> {
        let chosen = move |(number, _): &(usize, &Rule)| selected.0 >> number & 1 != 0;
        self.rules.iter().enumerate().filter(chosen)
    }

    /// Counts `operation` for all of `selected` that are about it, and lets happen what is to
    /// happen: waits first, then fails with the first rule that says so. Else returns how many
    /// bytes of `range` may be moved.
    pub fn meet(
        &self,
        operation: Operation,
        selected: Selected,
        range: Range,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<usize> {
        let (mut delay, mut room, mut end) = (0u64, range.wanted, None);
        let mut until = None;
        for (number, rule) in self.among(selected) {
            if !rule.is_about(operation) {
                continue;
            }
            if let Some(bad) = rule.offset {
                let before = bad.saturating_sub(range.offset);
                if before > 0 && !self.would_strike(number, rule) {
                    continue;
                }
                if before > 0 {
                    // What lies before it is moved first; the next call begins there.
                    room = room.min(usize::try_from(before).unwrap_or(usize::MAX));
                    continue;
                }
            }
            let Some(met) = self.strikes(number, rule) else {
                continue;
            };
            delay = delay.saturating_add(rule.effect.delay);
            until = until.or(rule.effect.until.as_deref());
            match rule.effect.short {
                Some(Short::Bytes(most)) => room = room.min(most),
                Some(Short::Random) if range.wanted > 0 => {
                    let drawn = self.draw(number, met, 1) % range.wanted as u64;
                    room = room.min(drawn as usize + 1);
                }
                _ => {}
            }
            if end.is_none() {
                end = rule.effect.end.map(|end| (number, end));
            }
        }
        effect::wait(delay, interrupted)?;
        if let Some(fifo) = until {
            effect::until(fifo, interrupted)?;
        }
        match end {
            None => Ok(room),
            Some((_, End::Action(action))) => action.run(),
            Some((number, End::Error(errno))) => Err(Error::because(
                errno,
                format!("{} by rule {} of layer fault", errno.name(), number + 1),
            )),
        }
    }

    /// [`Rules::meet`] for an operation that moves no bytes.
    pub fn pass(&self, operation: Operation, selected: Selected) -> Result<()> {
        let nothing = Range {
            offset: 0,
            wanted: 0,
        };
        self.meet(operation, selected, nothing, &|| self.interrupted())
            .map(drop)
    }

    /// Whether a signal waits for this thread, as far as the place where we run can tell.
    pub fn interrupted(&self) -> bool {
        self.interrupted.is_some_and(|asked| asked())
    }

    /// The number of this operation among those of the rule, if it is struck.
    fn strikes(&self, number: usize, rule: &Rule) -> Option<u64> {
        let due = |met, struck| self.is_due(number, rule, met, struck);
        self.counters.count(number, due)
    }

    fn would_strike(&self, number: usize, rule: &Rule) -> bool {
        let due = |met, struck| self.is_due(number, rule, met, struck);
        self.counters.would_strike(number, due)
    }

    /// Whether the rule strikes an operation, when it has met and struck so many before.
    fn is_due(&self, number: usize, rule: &Rule, met: u64, struck: u64) -> bool {
        met >= rule.after
            && (met - rule.after).is_multiple_of(rule.every)
            && rule.times.is_none_or(|times| struck < times)
            && self.draw(number, met, 0) >> 11 < rule.probability
    }

    /// The random number of the `met`-th operation of rule `number`, `which` of several: a function
    /// of these and the seed alone.
    fn draw(&self, number: usize, met: u64, which: u64) -> u64 {
        let rule = mixed(self.seed ^ mixed(number as u64 * 2 + which + 1));
        mixed(rule ^ mixed(met))
    }
}

/// The output function of SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number
/// generators", OOPSLA 2014) at state `value` + 1 step.
fn mixed(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}
