//! The last lines that a server has written, for who asks why it is gone.

use std::{
    collections::VecDeque,
    fs::File,
    io::Read,
    sync::{Arc, Mutex},
};

/// How many lines are kept, a sanitizer's trace among them, and how many bytes of one.
const LINES: usize = 200;
const BYTES: usize = 500;

/// The last lines.
#[derive(Clone, Debug, Default)]
pub struct Lines(Arc<Mutex<VecDeque<String>>>);

impl Lines {
    /// Takes what comes by `pipe`, to its end.
    pub fn take(&self, mut pipe: File) {
        let (mut room, mut line) = ([0; 4096], Vec::new());
        while let Ok(count @ 1..) = pipe.read(&mut room) {
            for &byte in &room[..count] {
                match byte {
                    b'\n' => self.add(&std::mem::take(&mut line)),
                    _ if line.len() < BYTES => line.push(byte),
                    _ => {}
                }
            }
        }
        self.add(&line);
    }

    fn add(&self, line: &[u8]) {
        let line = crate::failure::shown(String::from_utf8_lossy(line).trim_end());
        if line.is_empty() {
            return;
        }
        let mut lines = self.0.lock().expect("nobody panics with it");
        if lines.len() == LINES {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    /// `what`, and below it the lines.
    pub fn below(&self, what: &str) -> String {
        let lines = self.0.lock().expect("nobody panics with it");
        let mut text = what.to_owned();
        if !lines.is_empty() {
            text += "; its last lines:";
        }
        for line in lines.iter() {
            text += "\n         ";
            text += line;
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_stay() {
        let (lines, text) = (Lines::default(), "x".repeat(900));
        for number in 0..LINES + 2 {
            lines.add(format!("line {number}").as_bytes());
        }
        lines.add(b"");
        let told = lines.below("it is gone");
        assert!(told.starts_with("it is gone; its last lines:\n         line 2\n"));
        assert!(told.ends_with(&format!("line {}", LINES + 1)));
        let (mut into, from) = std::io::pipe().map(|(from, into)| (into, from)).unwrap();
        std::io::Write::write_all(&mut into, text.as_bytes()).unwrap();
        drop(into);
        lines.take(File::from(std::os::fd::OwnedFd::from(from)));
        assert!(lines.below("").ends_with(&"x".repeat(BYTES)));
    }
}
