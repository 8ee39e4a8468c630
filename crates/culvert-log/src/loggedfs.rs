//! Lines as LoggedFS 0.9 writes them.
//!
//! ```text
//! 2026-11-23 20:01:42,485 INFO [default] write 3 bytes to /mnt/a at offset 0 {SUCCESS} [ pid = 7 bash uid = 0 ]
//! ```
//!
//! Where LoggedFS is wrong, it is not followed: sizes and offsets beyond 2 GiB are whole (it prints
//! them by `%d`), a newline in a name is `\n` (it breaks the line), the program that closes a file
//! is named (it has pid 0 there).

use crate::{action::Action, escape::for_line, time};
use culvert_drivers::log::record::Record;
use std::fs;

/// What the lines of a mount have in common.
pub struct Lines {
    /// Where the mount is.
    pub target: Vec<u8>,
    /// Lines do not name the program.
    pub without_names: bool,
}

/// The kinds of mknod(2), as LoggedFS names them.
fn made(mode: u64) -> (&'static str, &'static str) {
    match mode & 0o170000 {
        0o100000 => ("mknod", " S_IFREG (normal file creation)"),
        0o010000 => ("mkfifo", " S_IFFIFO (fifo creation)"),
        0o020000 => ("mknod", " (character device creation)"),
        _ => ("mknod", ""),
    }
}

/// The name of an id in the file of users or groups; none: it has none.
fn name_of(id: u32, file: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let mut lines = text.lines().map(|line| line.split(':'));
    lines.find_map(|mut fields| {
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(id)).then(|| name.to_string())
    })
}

/// `chown A to 1:2 daemon:bin`; without names where one has none.
fn owners(path: &str, numbers: u64) -> String {
    let (uid, gid) = (numbers as u32, (numbers >> 32) as u32);
    let ids = format!("{}:{}", uid as i32, gid as i32);
    let names = name_of(uid, "/etc/passwd").zip(name_of(gid, "/etc/group"));
    match names {
        Some((user, group)) => format!("chown {path} to {ids} {user}:{group}"),
        None => format!("chown {path} to {ids}"),
    }
}

impl Lines {
    /// `path` below the mount, whole.
    pub fn whole(&self, path: &[u8]) -> Vec<u8> {
        [&self.target, &b"/"[..], path].concat()
    }

    /// Adds the lines of `action`, which `record` is about, to `out`. `kind`: of what was made, and
    /// the permissions it has; `program`: what did it.
    pub fn add(&self, action: &Action, record: &Record<'_>, program: &[u8], out: &mut Vec<u8>) {
        let path = for_line(&self.whole(&action.path));
        let [first, second, third, _] = record.numbers;
        let failed = record.errno != 0;
        let mut line = |text: &str, failed: bool| {
            self.line(text, failed, record, program, out);
        };
        let text = match action.word {
            "open" | "create" => {
                if action.word == "create" {
                    let (word, kind) = made(second);
                    line(&format!("{word} {path} {second:o}{kind}"), failed);
                    if failed {
                        return;
                    }
                }
                match first & 3 {
                    1 => format!("open writeonly {path}"),
                    2 => format!("open readwrite {path}"),
                    _ => format!("open {path}"),
                }
            }
            "read" => {
                line(
                    &format!("read {second} bytes from {path} at offset {first}"),
                    failed,
                );
                if failed {
                    return;
                }
                format!("{third} bytes read from {path} at offset {first}")
            }
            "write" => {
                line(
                    &format!("write {second} bytes to {path} at offset {first}"),
                    failed,
                );
                if failed {
                    return;
                }
                format!("{third} bytes written to {path} at offset {first}")
            }
            "mknod" => {
                let (word, kind) = made(first);
                format!("{word} {path} {first:o}{kind}")
            }
            "mkdir" => format!("mkdir {path} {first:o}"),
            "symlink" => format!("symlink from {path} to {}", for_line(&action.other)),
            "link" => format!(
                "hard link from {path} to {}",
                for_line(&self.whole(&action.other))
            ),
            "rename" => format!("rename {path} to {}", for_line(&self.whole(&action.other))),
            // With the type of the file, which is not known of one that failed.
            "chmod" => format!("chmod {path} to {:o}", second | record.found & 0o170000),
            "chown" => owners(&path, third),
            "truncate" => format!("truncate {path} to {} bytes", record.numbers[3]),
            "setxattr" | "getxattr" | "removexattr" => {
                format!("{} {path} {}", action.word, for_line(&action.other))
            }
            "fallocate" => format!("fallocate {path} {second} bytes at offset {first}"),
            word => format!("{word} {path}"),
        };
        line(&text, failed);
    }

    fn line(
        &self,
        text: &str,
        failed: bool,
        record: &Record<'_>,
        program: &[u8],
        out: &mut Vec<u8>,
    ) {
        let (level, result) = match failed {
            true => ("ERROR", "FAILURE"),
            false => ("INFO", "SUCCESS"),
        };
        let name = match self.without_names {
            true => String::new(),
            false => for_line(program),
        };
        let (pid, uid, _) = record.caller;
        let moment = time::local(record.began + record.took);
        out.extend_from_slice(
            format!(
                "{moment} {level} [default] {text} {{{result}}} [ pid = {pid} {name} uid = \
                {uid} ]\n"
            )
            .as_bytes(),
        );
    }

    /// A line of the log's own.
    pub fn note(now: u64, text: &str, out: &mut Vec<u8>) {
        let moment = time::local(now);
        out.extend_from_slice(format!("{moment} WARNING [default] {text}\n").as_bytes());
    }
}
