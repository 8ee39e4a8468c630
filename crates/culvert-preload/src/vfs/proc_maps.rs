//! The files in which the kernel tells a program of its mappings: where an image of rewritten code
//! is mapped in place of a file, they name the file that the program mapped.
//!
//! Profilers, crash reporters, collectors and the JVM open what is named there, compare device and
//! inode, and count offsets in it.

use super::own_file::is_this_process;
use alloc::borrow::Cow;
use alloc::format;
use alloc::vec::Vec;
use core::ops::Range;
use culvert_intercept::maps;
use culvert_intercept::originals::{self, Original};
use culvert_run::files::c_string;

/// How one of the files says it (proc_pid_maps(5), proc_pid_smaps(5), proc_pid_numa_maps(5)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// A line for each mapping.
    Maps,
    /// The same, with counts below each.
    Smaps,
    /// A line with counts.
    NumaMaps,
}

/// Which of the files of this process `path` is, if it is one.
fn form(path: &[u8]) -> Option<Form> {
    let rest = path.strip_prefix(b"/proc/")?;
    let mut parts = rest.split(|&byte| byte == b'/');
    if !parts.next().is_some_and(is_this_process) {
        return None;
    }
    let name = match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(name), None, ..) => name,
        // A thread of ours, or the kernel has no such file.
        (Some(b"task"), Some(_), Some(name), None) => name,
        _ => return None,
    };
    match name {
        b"maps" => Some(Form::Maps),
        b"smaps" => Some(Form::Smaps),
        b"numa_maps" => Some(Form::NumaMaps),
        _ => None,
    }
}

/// Whether the file `path` may say something else than the kernel does.
pub fn is_told(path: &[u8]) -> bool {
    originals::are_any() && !culvert_run::task::has_left() && form(path).is_some()
}

/// What the file `path` says, where that is not what the kernel says.
pub fn content(path: &[u8]) -> Option<Vec<u8>> {
    if !is_told(path) {
        return None;
    }
    let form = form(path)?;
    let text = culvert_run::read_file(&c_string(path)).ok()?;
    // The kernel takes long for each of these texts: programs look at their stacks by it (grep).
    let originals = match form {
        Form::NumaMaps => originals::originals(&culvert_run::read_file(c"/proc/self/maps").ok()?),
        Form::Maps | Form::Smaps => originals::originals(&text),
    };
    let originals: Vec<&Original> = originals.iter().collect();
    Some(rewritten(&text, form, &originals))
}

/// `text` with the files of `originals` in place of what stands for them.
fn rewritten(text: &[u8], form: Form, originals: &[&Original]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut last: Option<Line> = None;
    let mut left = text;
    while !left.is_empty() {
        let (line, behind) = left.split_at(maps::line_end(left));
        left = behind;
        if form == Form::NumaMaps {
            numa_line(line, originals, &mut out);
            continue;
        }
        let Some(whole) = Line::read(line) else {
            flush(&mut last, &mut out);
            out.extend_from_slice(line);
            continue;
        };
        let mut at = whole.range.start;
        while at < whole.range.end {
            let part = whole.part(at, form, originals);
            at = part.range.end;
            match &mut last {
                // The kernel made two mappings of what is one of the original.
                Some(last) if form == Form::Maps && last.continues(&part) => {
                    last.range.end = part.range.end;
                    last.given = None;
                }
                _ => {
                    flush(&mut last, &mut out);
                    last = Some(part);
                }
            }
        }
    }
    flush(&mut last, &mut out);
    out
}

/// Writes `line` behind `out`.
fn flush(line: &mut Option<Line>, out: &mut Vec<u8>) {
    if let Some(line) = line.take() {
        line.write(out);
    }
}

/// A line of maps, and the first one of a mapping in smaps.
struct Line<'a> {
    range: Range<u64>,
    rights: &'a [u8],
    offset: u64,
    device: (u64, u64),
    inode: u64,
    /// As it is written there, without the line's end.
    name: Cow<'a, [u8]>,
    /// Names another file than the kernel does.
    named_anew: bool,
    /// The text, while it is what the kernel wrote.
    given: Option<&'a [u8]>,
}

impl<'a> Line<'a> {
    /// The line `text`; none where it is another one.
    fn read(text: &'a [u8]) -> Option<Self> {
        let (from, text_behind) = number_before(text, b'-')?;
        let (to, text_behind) = number_before(text_behind, b' ')?;
        let (rights, text_behind) = text_behind.split_at_checked(4)?;
        let (offset, text_behind) = number_before(text_behind.strip_prefix(b" ")?, b' ')?;
        let (major, text_behind) = number_before(text_behind, b':')?;
        let (minor, mut text_behind) = number_before(text_behind, b' ')?;
        let mut inode = 0_u64;
        while let [digit @ b'0'..=b'9', behind @ ..] = text_behind {
            inode = inode.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'));
            text_behind = behind;
        }
        let name = match text_behind {
            [b' ', behind @ ..] => behind.trim_ascii_start(),
            [] | b"\n" => b"",
            _ => return None,
        };
        Some(Self {
            range: from..to,
            rights,
            offset,
            device: (major, minor),
            inode,
            name: name.strip_suffix(b"\n").unwrap_or(name).into(),
            named_anew: false,
            given: Some(text),
        })
    }

    /// What is said of the mapping from `at` on, as far as that is one thing.
    fn part(&self, at: u64, form: Form, originals: &[&Original]) -> Self {
        let stands = |original: &&&Original| {
            original.mapped_inode == self.inode && original.end > at && self.inode != 0
        };
        let mut near = originals.iter().filter(stands);
        let here = near.clone().find(|original| original.start <= at);
        let end = match (form, here) {
            // What is counted for the whole is said of the whole.
            (Form::Smaps | Form::NumaMaps, _) => self.range.end,
            (Form::Maps, Some(original)) => original.end.min(self.range.end),
            (Form::Maps, None) => near
                .by_ref()
                .map(|original| original.start)
                .fold(self.range.end, u64::min),
        };
        let mut part = Self {
            range: at..end,
            offset: self.offset + (at - self.range.start),
            name: self.name.clone(),
            given: self.given.filter(|_| (at..end) == self.range),
            ..*self
        };
        if let Some(original) = here {
            part.offset = original.offset + (at - original.start);
            part.device = device(original.device);
            part.inode = original.inode;
            part.name = escaped(&original.path, b"\n").into();
            part.named_anew = true;
            part.given = None;
        }
        part
    }

    /// Whether `next` is the same file's, with the same rights, and goes on where this one ends;
    /// one of them is named anew.
    fn continues(&self, next: &Self) -> bool {
        let length = self.range.end - self.range.start;
        (self.named_anew || next.named_anew)
            && self.range.end == next.range.start
            && self.offset + length == next.offset
            && (self.rights, self.device, self.inode) == (next.rights, next.device, next.inode)
            && self.name == next.name
    }

    /// Writes it as the kernel does (`show_vma_header_prefix`, fs/proc/task_mmu.c).
    fn write(&self, out: &mut Vec<u8>) {
        if let Some(given) = self.given {
            out.extend_from_slice(given);
            return;
        }
        /// Where the name begins.
        const NAME: usize = 73;
        let begin = out.len();
        out.extend_from_slice(
            format!("{:08x}-{:08x} ", self.range.start, self.range.end).as_bytes(),
        );
        out.extend_from_slice(self.rights);
        let (major, minor) = self.device;
        let numbers = format!(
            " {:08x} {major:02x}:{minor:02x} {} ",
            self.offset, self.inode
        );
        out.extend_from_slice(numbers.as_bytes());
        if !self.name.is_empty() {
            let width = (out.len() - begin).max(NAME);
            out.resize(begin + width, b' ');
            out.extend_from_slice(&self.name);
        }
        out.push(b'\n');
    }
}

/// Writes a line of numa_maps behind `out`.
fn numa_line(line: &[u8], originals: &[&Original], out: &mut Vec<u8>) {
    const FILE: &[u8] = b" file=";
    let at = line
        .split(|&byte| byte == b' ')
        .next()
        .and_then(hexadecimal);
    let here =
        |original: &&&Original| at.is_some_and(|at| (original.start..original.end).contains(&at));
    let name = line.windows(FILE.len()).position(|part| part == FILE);
    let (Some(original), Some(name)) = (originals.iter().find(here), name) else {
        out.extend_from_slice(line);
        return;
    };
    let name = name + FILE.len();
    let end = line[name..].iter().position(|byte| b" \n".contains(byte));
    out.extend_from_slice(&line[..name]);
    out.extend_from_slice(&escaped(&original.path, b"\n\t= "));
    out.extend_from_slice(end.map_or(&[][..], |end| &line[name + end..]));
}

/// Major and minor number in an `st_dev` (`new_encode_dev`, include/linux/kdev_t.h).
pub fn device(number: u64) -> (u64, u64) {
    (
        number >> 8 & 0xfff | number >> 32 & !0xfff,
        number & 0xff | number >> 12 & 0xfff00,
    )
}

/// The hexadecimal number with which `text` begins, and what comes behind it and `end`.
fn number_before(text: &[u8], end: u8) -> Option<(u64, &[u8])> {
    let (number, digits) = maps::hexadecimal(text);
    let behind = text.get(digits..)?.strip_prefix(&[end])?;
    (digits != 0).then_some((number, behind))
}

fn hexadecimal(text: &[u8]) -> Option<u64> {
    let (number, digits) = maps::hexadecimal(text);
    (digits != 0 && digits == text.len()).then_some(number)
}

/// `text` with those of its bytes that are among `which` as the kernel writes them (`mangle_path`).
fn escaped(text: &[u8], which: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for &byte in text {
        match which.contains(&byte) {
            true => out.extend_from_slice(format!("\\{byte:03o}").as_bytes()),
            false => out.push(byte),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::string::String;

    const IMAGE: u64 = 77;

    fn original(start: u64, end: u64, offset: u64) -> Original {
        Original {
            start,
            end,
            mapped_inode: IMAGE,
            offset,
            device: 0xfd01,
            inode: 4711,
            path: b"/usr/lib/a b.so".to_vec(),
        }
    }

    fn said(text: &str, form: Form, originals: &[Original]) -> String {
        let originals: Vec<&Original> = originals.iter().collect();
        String::from_utf8(rewritten(text.as_bytes(), form, &originals)).unwrap()
    }

    #[test]
    fn names_of_the_files() {
        let own = std::format!("/proc/{}/maps", std::process::id());
        let mine = culvert_sys::process::getpid();
        for (path, want) in [
            ("/proc/self/maps", Some(Form::Maps)),
            (own.as_str(), Some(Form::Maps)),
            ("/proc/thread-self/smaps", Some(Form::Smaps)),
            ("/proc/self/task/1/numa_maps", Some(Form::NumaMaps)),
            ("/proc/1/maps", (mine == 1).then_some(Form::Maps)),
            ("/proc/self/maps/", None),
            ("/proc/self/task/maps", None),
            ("/proc/self/mapsx", None),
            ("/proc/maps", None),
            ("maps", None),
        ] {
            assert_eq!(form(path.as_bytes()), want, "{path}");
        }
    }

    #[test]
    fn what_the_kernel_says_of_anything_else_stays_as_it_is() {
        let kernel = fs::read_to_string("/proc/self/smaps").unwrap();
        assert_eq!(
            said(&kernel, Form::Smaps, &[original(0x1000, 0x2000, 0)]),
            kernel
        );
        let kernel = fs::read_to_string("/proc/self/maps").unwrap();
        assert_eq!(
            said(&kernel, Form::Maps, &[original(0x1000, 0x2000, 0)]),
            kernel
        );
        // Written by us they are the same, too.
        for line in kernel.split_inclusive('\n') {
            let read = Line::read(line.as_bytes()).unwrap();
            let mut written = Vec::new();
            Line {
                given: None,
                ..read
            }
            .write(&mut written);
            assert_eq!(String::from_utf8(written).unwrap(), line);
        }
    }

    /// A library of three mappings, of which the middle one is an image's with stubs behind it.
    #[test]
    fn the_original_is_named_and_is_one_mapping() {
        let native = "\
7f0000000000-7f0000001000 r--p 00000000 fd:01 4711                       /usr/lib/a b.so
7f0000001000-7f0000005000 r-xp 00001000 fd:01 4711                       /usr/lib/a b.so
7f0000005000-7f0000006000 rw-p 00005000 fd:01 4711                       /usr/lib/a b.so
7f0000006000-7f0000007000 rw-p 00000000 00:00 0 
";
        let stubs = "\
7f0000005000-7f0000006000 r-xp 00005000 00:1a 77                         /dev/shm/c/images/x/a.so
";
        let text = native.split_inclusive('\n').nth(1).unwrap();
        let image = native.replace(
            text,
            "7f0000001000-7f0000005000 r-xp 00001000 00:1a 77                         \
            /dev/shm/c/images/x/a.so\n",
        );
        let entries = [original(0x7f00_0000_1000, 0x7f00_0000_5000, 0x1000)];
        assert_eq!(said(&image, Form::Maps, &entries), native);

        // The kernel shows text and stubs as one mapping.
        let merged = "\
7f0000001000-7f0000006000 r-xp 00001000 00:1a 77                         /dev/shm/c/images/x/a.so
";
        assert_eq!(said(merged, Form::Maps, &entries), [text, stubs].concat());

        // Part of the text is the original's, one page was made writable.
        let parts = "\
7f0000001000-7f0000002000 r-xp 00001000 fd:01 4711                       /usr/lib/a b.so
7f0000002000-7f0000003000 r-xp 00002000 00:1a 77                         /dev/shm/c/images/x/a.so
7f0000003000-7f0000004000 rwxp 00003000 00:1a 77                         /dev/shm/c/images/x/a.so
7f0000004000-7f0000005000 r-xp 00004000 00:1a 77                         /dev/shm/c/images/x/a.so
";
        let want = "\
7f0000001000-7f0000003000 r-xp 00001000 fd:01 4711                       /usr/lib/a b.so
7f0000003000-7f0000004000 rwxp 00003000 fd:01 4711                       /usr/lib/a b.so
7f0000004000-7f0000005000 r-xp 00004000 fd:01 4711                       /usr/lib/a b.so
";
        let entries = [original(0x7f00_0000_2000, 0x7f00_0000_5000, 0x2000)];
        assert_eq!(said(parts, Form::Maps, &entries), want);
    }

    #[test]
    fn what_was_mapped_there_since_is_named_by_the_kernel() {
        let entries = [original(0x1000, 0x2000, 0)];
        for line in [
            "00001000-00002000 rw-p 00000000 00:00 0 \n",
            "00001000-00002000 r-xp 00000000 00:1a 78                                 /other\n",
        ] {
            assert_eq!(said(line, Form::Maps, &entries), line);
        }
    }

    #[test]
    fn counts_stay_and_names_are_escaped() {
        let head = |device: &str, inode: u64, path: &str| {
            let fields = std::format!("00001000-00003000 r-xp 00000000 {device} {inode} ");
            std::format!("{fields:<73}{path}\nSize:                  8 kB\nVmFlags: rd ex mr\n")
        };
        let mut entry = original(0x1000, 0x2000, 0x4000);
        entry.path = b"/a\nb c".to_vec();
        let entries = [entry];
        let want = head("fd:01", 4711, "/a\\012b c").replace("r-xp 00000000", "r-xp 00004000");
        assert_eq!(
            said(&head("00:1a", IMAGE, "/image"), Form::Smaps, &entries),
            want
        );

        let numa = "1000 default file=/image mapped=2 N0=2\n5000 default anon=1\n";
        let want = "1000 default file=/a\\012b\\040c mapped=2 N0=2\n5000 default anon=1\n";
        assert_eq!(said(numa, Form::NumaMaps, &entries), want);
    }
}
