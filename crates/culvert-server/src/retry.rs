//! What could not be done for want of something: tried again, less and less often, and reported as
//! seldom.

use crate::report::report;
use std::{
    fmt,
    time::{Duration, Instant},
};

/// The first pause; each is twice the one before.
const FIRST: Duration = Duration::from_millis(10);
/// The longest pause.
const LONGEST: Duration = Duration::from_secs(1);
/// A line in so long says enough.
const QUIET: Duration = Duration::from_secs(60);

/// When to try next.
#[derive(Debug, Default)]
pub struct Retry {
    due: Option<Instant>,
    pause: Duration,
    reported: Option<Instant>,
}

impl Retry {
    /// How long to wait at `now`; zero: not at all.
    pub fn wait(&self, now: Instant) -> Duration {
        self.pending(now).unwrap_or_default()
    }

    /// The same for what has failed last; none: nothing waits to be tried again.
    pub fn pending(&self, now: Instant) -> Option<Duration> {
        Some(self.due?.saturating_duration_since(now))
    }

    /// It failed at `now`, for the reason that `line` says.
    pub fn failed(&mut self, now: Instant, line: fmt::Arguments<'_>) {
        if self.is_news(now) {
            report(line);
        }
    }

    /// It failed at `now`; whether that is to be reported.
    fn is_news(&mut self, now: Instant) -> bool {
        self.pause = (self.pause * 2).clamp(FIRST, LONGEST);
        self.due = Some(now + self.pause);
        let reported = self.reported;
        let news = reported.is_none_or(|reported| now.saturating_duration_since(reported) >= QUIET);
        if news {
            self.reported = Some(now);
        }
        news
    }

    /// It was done.
    pub const fn worked(&mut self) {
        self.due = None;
        self.pause = Duration::ZERO;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_is_tried_less_often_and_reported_once() {
        let mut retry = Retry::default();
        let start = Instant::now();
        let (mut now, mut lines, mut tries) = (start, 0, 0);
        while now < start + QUIET {
            assert_eq!(retry.wait(now), Duration::ZERO);
            lines += usize::from(retry.is_news(now));
            tries += 1;
            let wait = retry.wait(now);
            assert!((FIRST..=LONGEST).contains(&wait));
            now += wait;
        }
        assert_eq!(lines, 1);
        assert!(tries < 70, "{tries}");
        assert!(retry.is_news(now));
        retry.worked();
        assert_eq!(retry.wait(now), Duration::ZERO);
        // A thing that works now and then fills no log either.
        assert!(!retry.is_news(now));
    }
}
