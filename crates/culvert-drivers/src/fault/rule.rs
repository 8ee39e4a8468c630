//! One rule, and its text.

use super::operation::Operations;
use super::{counters::STRUCK_MAX, effect::Action};
use crate::archive::warning::printable;
use crate::glob;
use crate::words::alternatives;
use alloc::ffi::CString;
use alloc::{
    format,
    string::{String, ToString},
    vec::Vec,
};
use culvert::{Errno, Operation};

/// What separates the words of a rule: neither the mount syntax nor a shell takes a meaning from
/// it.
const SEPARATOR: u8 = b'+';

/// The words with a value.
const KEYS: &[&str] = &[
    "path",
    "offset",
    "after",
    "every",
    "times",
    "probability",
    "errno",
    "delay",
    "until",
    "short",
    "action",
];

/// Which operations are meant, which of these it strikes, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Which operations; never empty.
    pub operations: Operations,
    /// On which paths; all without.
    pub path: Option<Vec<u8>>,
    /// Only where a read or write reaches this byte of the file, or one behind it.
    pub offset: Option<u64>,
    /// This many operations are let through first.
    pub after: u64,
    /// Then every so manieth is struck, beginning with the first.
    pub every: u64,
    /// And as many of them as this.
    pub times: Option<u64>,
    /// Each with this probability, in units of 2^-53.
    pub probability: u64,
    /// What happens.
    pub effect: Effect,
}

/// What a rule does to an operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effect {
    /// Waits, in nanoseconds.
    pub delay: u64,
    /// Waits until somebody writes to this FIFO.
    pub until: Option<CString>,
    /// Moves this many bytes at most.
    pub short: Option<Short>,
    /// Does not do it, but this.
    pub end: Option<End>,
}

/// How many bytes a short read or write may move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Short {
    /// This many at most.
    Bytes(usize),
    /// Any number from 1 on up to what was wanted.
    Random,
}

/// What comes in place of the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It fails.
    Error(Errno),
    /// The process suffers.
    Action(Action),
}

/// Probability 1.
pub const CERTAIN: u64 = 1 << 53;

/// Longest delay: an hour. More is a mistake.
const DELAY_MAX: u64 = 3600 * 1_000_000_000;

impl Rule {
    /// Reads a rule; else says what is wrong with it.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let mut rule = Self {
            operations: Operations::default(),
            path: None,
            offset: None,
            after: 0,
            every: 1,
            times: None,
            probability: CERTAIN,
            effect: Effect::default(),
        };
        for word in text.split(|&byte| byte == SEPARATOR) {
            match word.iter().position(|&byte| byte == b'=') {
                None => rule.operation(word)?,
                Some(at) => rule.key(&word[..at], &word[at + 1..])?,
            }
        }
        rule.check()
    }

    fn operation(&mut self, word: &[u8]) -> Result<(), String> {
        let name = printable(word).to_string();
        let operations = Operations::named(&name).ok_or_else(|| {
            let more = alternatives(&name, Operations::names());
            format!("there is no operation \"{name}\"{more}")
        })?;
        self.operations = self.operations.with(operations);
        Ok(())
    }

    fn key(&mut self, key: &[u8], value: &[u8]) -> Result<(), String> {
        let key = printable(key).to_string();
        let key = key.as_str();
        let wrong = |want: &str| format!("{key}={}: {want} is needed", printable(value));
        let count = || number(value).ok_or_else(|| wrong("a number"));
        let from_one = || match count()? {
            0 => Err(wrong("a number from 1 on")),
            count => Ok(count),
        };
        match key {
            "path" if value.starts_with(b"/") || value.starts_with(b"**") => {
                self.path = Some(value.to_vec());
            }
            "path" => {
                return Err(wrong(
                    "a pattern that starts with / (the root of the mount) or **",
                ));
            }
            "offset" => self.offset = Some(count()?),
            "after" => self.after = count()?,
            "every" => self.every = from_one()?,
            "times" => match from_one()? {
                times if times <= STRUCK_MAX => self.times = Some(times),
                _ => return Err(wrong("a number up to 16777215")),
            },
            "probability" => {
                self.probability =
                    probability(value).ok_or_else(|| wrong("a number from 0 to 1"))?;
            }
            "errno" => {
                let errno = errno(value)
                    .ok_or_else(|| wrong("the name of an errno (EIO), or its number,"))?;
                self.end(End::Error(errno))?;
            }
            "action" => {
                let action =
                    Action::named(value).ok_or_else(|| wrong("crash, panic, abort or loop"))?;
                self.end(End::Action(action))?;
            }
            "delay" => {
                self.effect.delay = time(value).ok_or_else(|| {
                    wrong("a time up to an hour with its unit (10ms; ns, us, ms, s)")
                })?;
            }
            "until" if value.starts_with(b"/") && !value.contains(&0) => {
                self.effect.until = CString::new(value).ok();
            }
            "until" => return Err(wrong("the absolute path of a FIFO")),
            "short" if value == b"random" => self.effect.short = Some(Short::Random),
            "short" => self.effect.short = Some(Short::Bytes(from_one()? as usize)),
            _ => {
                let more = alternatives(key, KEYS.iter().copied());
                return Err(format!("there is no \"{key}=\"{more}"));
            }
        }
        Ok(())
    }

    fn end(&mut self, end: End) -> Result<(), String> {
        match self.effect.end.replace(end) {
            None => Ok(()),
            Some(_) => Err("one errno or one action, not two".into()),
        }
    }

    fn check(self) -> Result<Self, String> {
        if self.operations.is_empty() {
            return Err("no operation is named (read, write, lookup, ...; any)".into());
        }
        if self.effect == Effect::default() {
            return Err(
                "nothing is to happen (errno=, delay=, until=, short= or action= is needed)".into(),
            );
        }
        for (key, given) in [
            ("offset", self.offset.is_some()),
            ("short", self.effect.short.is_some()),
        ] {
            if given && !self.operations.within(Operations::DATA) {
                return Err(format!("{key}= is for read and write only"));
            }
        }
        Ok(self)
    }

    /// Whether it is about `operation`.
    pub fn is_about(&self, operation: Operation) -> bool {
        self.operations.has(operation)
    }

    /// Whether it is about `path`, from the root of the mount, which is a slash.
    pub fn is_about_path(&self, path: &[u8]) -> bool {
        self.path
            .as_ref()
            .is_none_or(|pattern| glob::matches(pattern, path))
    }
}

/// A decimal number.
pub fn number(text: &[u8]) -> Option<u64> {
    let digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    core::str::from_utf8(text)
        .ok()
        .filter(|_| digits)?
        .parse()
        .ok()
}

fn errno(text: &[u8]) -> Option<Errno> {
    let raw = |number| match number {
        1..4096 => Some(Errno::new(number as i32)),
        _ => None,
    };
    Errno::named(text).or_else(|| number(text).and_then(raw))
}

fn probability(text: &[u8]) -> Option<u64> {
    let value: f64 = core::str::from_utf8(text).ok()?.parse().ok()?;
    (0.0..=1.0)
        .contains(&value)
        .then_some((value * CERTAIN as f64) as u64)
}

fn time(text: &[u8]) -> Option<u64> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (value, unit) = text.split_at(digits);
    let unit = match unit {
        b"ns" => 1,
        b"us" => 1_000,
        b"ms" => 1_000_000,
        b"s" => 1_000_000_000,
        _ => return None,
    };
    number(value)?
        .checked_mul(unit)
        .filter(|time| (1..=DELAY_MAX).contains(time))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_read_as_written() {
        let rule = Rule::parse(
            b"read+open+path=/d/*+after=3+every=2+times=5+probability=0.5+errno=ENOSPC+delay=2ms",
        )
        .unwrap();
        assert!(rule.is_about(Operation::ReadAt) && rule.is_about(Operation::Open));
        assert!(!rule.is_about(Operation::WriteAt));
        assert!(rule.is_about_path(b"/d/x") && !rule.is_about_path(b"/x"));
        assert_eq!((rule.after, rule.every, rule.times), (3, 2, Some(5)));
        assert_eq!(rule.probability, CERTAIN / 2);
        assert_eq!(rule.effect.delay, 2_000_000);
        assert_eq!(rule.effect.end, Some(End::Error(Errno::ENOSPC)));
        let short = Rule::parse(b"write+offset=4096+short=random").unwrap();
        assert_eq!(short.effect.short, Some(Short::Random));
        assert_eq!(short.offset, Some(4096));
        let number = Rule::parse(b"any+errno=123").unwrap();
        assert_eq!(number.effect.end, Some(End::Error(Errno::new(123))));
    }

    #[test]
    fn every_errno_has_a_name_that_reads_back() {
        for raw in 1..=133 {
            let errno = Errno::new(raw);
            // 41 and 58 are numbers that no errno has.
            if !matches!(raw, 41 | 58) {
                assert_eq!(Errno::named(errno.name().as_bytes()), Some(errno), "{raw}");
            }
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (text, want) in [
            (
                "xyzw+errno=EIO",
                "there is no operation \"xyzw\"; there are: read, write, any, lookup",
            ),
            ("reed+errno=EIO", "did you mean read?"),
            ("errno=EIO", "no operation is named"),
            ("read", "nothing is to happen"),
            (
                "read+erno=EIO",
                "there is no \"erno=\"; did you mean errno?",
            ),
            ("read+errno=EOI", "errno=EOI: the name of an errno"),
            ("read+errno=0", "errno=0: the name of an errno"),
            ("read+errno=4096", "errno=4096"),
            ("read+errno=EIO+action=crash", "one errno or one action"),
            ("read+until=x", "until=x: the absolute path of a FIFO"),
            ("read+delay=10", "delay=10: a time"),
            ("read+delay=0s", "delay=0s: a time"),
            ("read+delay=99999999999999999999s", "a time"),
            ("read+delay=2h", "a time"),
            ("read+every=0+errno=EIO", "every=0: a number from 1 on"),
            ("read+probability=2+errno=EIO", "a number from 0 to 1"),
            ("read+probability=NaN+errno=EIO", "a number from 0 to 1"),
            ("read+path=d+errno=EIO", "starts with /"),
            ("lookup+short=1", "short= is for read and write only"),
            (
                "any+offset=1+errno=EIO",
                "offset= is for read and write only",
            ),
            ("read+action=explode", "crash, panic, abort or loop"),
            ("", "there is no operation \"\""),
            ("read++errno=EIO", "there is no operation \"\""),
        ] {
            let message = Rule::parse(text.as_bytes()).unwrap_err();
            assert!(message.contains(want), "{text}: {message}");
        }
    }
}
