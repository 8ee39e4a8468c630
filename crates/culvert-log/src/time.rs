//! Moments as text.

/// What localtime_r(3) fills: `struct tm`.
#[repr(C)]
#[derive(Default)]
struct Tm {
    second: i32,
    minute: i32,
    hour: i32,
    day: i32,
    month: i32,
    year: i32,
    weekday: i32,
    yearday: i32,
    summer: i32,
    offset: i64,
    zone: usize,
}

unsafe extern "C" {
    fn localtime_r(seconds: &i64, into: &mut Tm) -> *mut Tm;
}

/// `nanoseconds` since the epoch in local time, as LoggedFS has it: `2026-11-23 20:01:42,475`.
pub fn local(nanoseconds: u64) -> String {
    let seconds = (nanoseconds / 1_000_000_000) as i64;
    let mut tm = Tm::default();
    // SAFETY: it reads the one and fills the other, which is laid out as the C library's.
    unsafe { localtime_r(&seconds, &mut tm) };
    format!(
        "{:04}-{:02}-{:02} {:02}:{:02}:{:02},{:03}",
        tm.year + 1900,
        tm.month + 1,
        tm.day,
        tm.hour,
        tm.minute,
        tm.second,
        nanoseconds / 1_000_000 % 1000
    )
}

/// `nanoseconds` since the epoch in UTC, as RFC 3339 has it: `2026-11-23T20:01:42.475123456Z`.
pub fn utc(nanoseconds: u64) -> String {
    let seconds = nanoseconds / 1_000_000_000;
    let (days, time) = (seconds / 86400, seconds % 86400);
    let (year, month, day) = civil(days);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:09}Z",
        time / 3600,
        time / 60 % 60,
        time % 60,
        nanoseconds % 1_000_000_000
    )
}

/// The date `days` after the epoch in the Gregorian calendar.
fn civil(mut days: u64) -> (u64, u64, u64) {
    let leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let february = 28 + u64::from(leap(year));
    let months = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while days >= months[month] {
        days -= months[month];
        month += 1;
    }
    (year, month as u64 + 1, days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_right() {
        assert_eq!(utc(0), "1970-01-01T00:00:00.000000000Z");
        assert_eq!(
            utc(951_782_400_000_000_001),
            "2000-02-29T00:00:00.000000001Z"
        );
        assert_eq!(
            utc(1_795_464_102_475_000_000),
            "2026-11-23T20:01:42.475000000Z"
        );
        assert_eq!(
            utc(4_107_542_399_000_000_000),
            "2100-02-28T23:59:59.000000000Z"
        );
        assert!(local(1_795_464_102_475_000_000).ends_with(":42,475"));
    }
}
