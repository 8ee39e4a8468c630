//! What a log of JSON lines says in all: counts, failures, latencies, bytes of files.

use serde_json::Value;
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io::{self, BufRead, Write},
    thread,
    time::Duration,
};

/// Files that are listed.
const FILES: usize = 10;

/// What is known of one kind of operation.
#[derive(Default)]
pub(crate) struct Operations {
    pub count: u64,
    pub failed: u64,
    /// How long each took, nanoseconds.
    pub took: Vec<u64>,
}

/// What is known of one file.
#[derive(Default)]
struct Bytes {
    read: u64,
    written: u64,
    operations: u64,
}

/// What a log says in all.
#[derive(Default)]
pub struct Summary {
    pub(crate) operations: BTreeMap<String, Operations>,
    files: BTreeMap<String, Bytes>,
    programs: BTreeMap<String, u64>,
    /// Operations by the second in which they began, since the epoch.
    pub(crate) seconds: BTreeMap<u64, u64>,
    dropped: u64,
    /// Lines that are none of such a log.
    unknown: u64,
}

impl Operations {
    /// How long all but `1 - part` of them took at most, nanoseconds. They must be in order.
    pub(crate) fn quantile(&self, part: f64) -> u64 {
        let last = self.took.len().saturating_sub(1);
        let at = (last as f64 * part).round() as usize;
        self.took.get(at).copied().unwrap_or(0)
    }
}

/// Seconds since the epoch of `YYYY-MM-DDTHH:MM:SS...`, with days counted as 31 of each month: what
/// matters is which second it is, not how many lie between two days.
fn second(text: &str) -> Option<u64> {
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<u64>().ok();
    let days = (number(0, 4)? * 12 + number(5, 7)?) * 31 + number(8, 10)?;
    Some(((days * 24 + number(11, 13)?) * 60 + number(14, 16)?) * 60 + number(17, 19)?)
}

impl Summary {
    /// Takes in all lines of `from`.
    pub fn read(from: impl BufRead) -> io::Result<Self> {
        let mut summary = Self::default();
        for line in from.split(b'\n') {
            let line = line?;
            if !line.is_empty() {
                summary.add(&line);
            }
        }
        for operations in summary.operations.values_mut() {
            operations.took.sort_unstable();
        }
        Ok(summary)
    }

    /// Whether no line was one of such a log.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    fn add(&mut self, line: &[u8]) {
        let Some(line) = parsed(line) else {
            self.unknown += 1;
            return;
        };
        let number = |name: &str| line.get(name).and_then(Value::as_u64).unwrap_or(0);
        self.dropped += number("dropped") + number("lost");
        let Some(name) = line.get("op").and_then(Value::as_str) else {
            return;
        };
        let operations = self.operations.entry(name.to_string()).or_default();
        operations.count += 1;
        operations.failed += u64::from(line.get("error").is_some());
        let micros = line.get("us").and_then(Value::as_f64).unwrap_or(0.0);
        operations.took.push((micros * 1000.0) as u64);
        if let Some(path) = line.get("path").and_then(Value::as_str) {
            let file = self.files.entry(path.to_string()).or_default();
            file.operations += 1;
            match name {
                "read_at" => file.read += number("bytes"),
                "write_at" | "append" => file.written += number("bytes"),
                _ => {}
            }
        }
        if let Some(program) = line.get("program").and_then(Value::as_str) {
            *self.programs.entry(program.to_string()).or_default() += 1;
        }
        if let Some(second) = line.get("time").and_then(Value::as_str).and_then(second) {
            *self.seconds.entry(second).or_default() += 1;
        }
    }

    /// For people: tables of operations, files and programs.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let micros = |nanos: u64| format!("{:.1}", nanos as f64 / 1000.0);
        let _ = writeln!(
            out,
            "{:<18} {:>10} {:>8} {:>10} {:>10} {:>10}",
            "operation", "count", "failed", "median us", "99% us", "most us"
        );
        let mut all: Vec<_> = self.operations.iter().collect();
        all.sort_by_key(|(_, operations)| std::cmp::Reverse(operations.count));
        for (name, one) in all {
            let _ = writeln!(
                out,
                "{name:<18} {:>10} {:>8} {:>10} {:>10} {:>10}",
                one.count,
                one.failed,
                micros(one.quantile(0.5)),
                micros(one.quantile(0.99)),
                micros(one.quantile(1.0))
            );
        }
        let mut files: Vec<_> = self.files.iter().collect();
        files.sort_by_key(|(_, file)| {
            std::cmp::Reverse((file.read + file.written, file.operations))
        });
        let _ = writeln!(
            out,
            "\n{:>12} {:>12} {:>10}  file",
            "read", "written", "operations"
        );
        for (path, file) in files.iter().take(FILES) {
            let (read, written) = (file.read, file.written);
            let path = if path.is_empty() { "." } else { path };
            let path = crate::escape::for_line(path.as_bytes());
            let _ = writeln!(
                out,
                "{read:>12} {written:>12} {:>10}  {path}",
                file.operations
            );
        }
        if files.len() > FILES {
            let _ = writeln!(out, "{:>37} {} more files", "", files.len() - FILES);
        }
        let mut programs: Vec<_> = self.programs.iter().collect();
        programs.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let _ = writeln!(out, "\n{:>12}  program", "operations");
        for (name, count) in programs.into_iter().take(FILES) {
            let _ = writeln!(
                out,
                "{count:>12}  {}",
                crate::escape::for_line(name.as_bytes())
            );
        }
        if self.dropped > 0 {
            let _ = writeln!(
                out,
                "\n{} operations are missing: they did not fit",
                self.dropped
            );
        }
        if self.unknown > 0 {
            let _ = writeln!(out, "\n{} lines are no JSON objects of a log", self.unknown);
        }
        out
    }
}

/// The JSON object of a line. A lone surrogate, by which a name that is no UTF-8 is written, is
/// U+FFFD here.
fn parsed(line: &[u8]) -> Option<Value> {
    if let Ok(value) = serde_json::from_slice::<Value>(line) {
        return value.is_object().then_some(value);
    }
    let text = std::str::from_utf8(line).ok()?;
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("\\udc") {
        out.push_str(&rest[..at]);
        out.push('\u{fffd}');
        rest = rest.get(at + 6..)?;
    }
    out.push_str(rest);
    let value = serde_json::from_str::<Value>(&out).ok()?;
    value.is_object().then_some(value)
}

/// Prints what `from` holds and what is added to it, until `over` says that nothing will be.
pub fn follow(
    mut from: impl BufRead,
    out: &mut impl Write,
    over: impl Fn() -> bool,
) -> io::Result<()> {
    let mut line = Vec::new();
    loop {
        // Asked before the end is met: what was added meanwhile is read once more.
        let last = over();
        while from.read_until(b'\n', &mut line)? > 0 && line.ends_with(b"\n") {
            out.write_all(&line)?;
            line.clear();
        }
        out.flush()?;
        if last {
            return out.write_all(&line);
        }
        thread::sleep(Duration::from_millis(100));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = r#"{"time":"2026-11-23T20:01:42.475123456Z","op":"open","path":"a","pid":1,"program":"cat","uid":0,"gid":0,"us":1.500}
{"time":"2026-11-23T20:01:42.475123456Z","op":"read_at","path":"a","pid":1,"program":"cat","uid":0,"gid":0,"us":2.500,"offset":0,"wanted":10,"bytes":7}
{"time":"2026-11-23T20:01:43.475123456Z","op":"open","path":"b\udcff","pid":1,"program":"cat","uid":0,"gid":0,"us":3.500,"error":2,"dropped":4}
no line of a log
"#;

    #[test]
    fn a_summary_counts() {
        let summary = Summary::read(LOG.as_bytes()).unwrap();
        let open = &summary.operations["open"];
        assert_eq!((open.count, open.failed), (2, 1));
        assert_eq!((open.quantile(0.0), open.quantile(1.0)), (1500, 3500));
        assert_eq!(summary.files["a"].read, 7);
        assert_eq!(summary.files["b\u{fffd}"].operations, 1);
        assert_eq!((summary.dropped, summary.unknown), (4, 1));
        assert_eq!(
            summary.seconds.values().copied().collect::<Vec<_>>(),
            [2, 1]
        );
        let text = summary.text();
        assert!(
            text.contains("open                        2        1"),
            "{text}"
        );
        assert!(text.contains("4 operations are missing"), "{text}");
    }

    #[test]
    fn following_ends_with_the_log() {
        let mut out = Vec::new();
        follow(LOG.as_bytes(), &mut out, || true).unwrap();
        assert_eq!(out, LOG.as_bytes());
    }
}
