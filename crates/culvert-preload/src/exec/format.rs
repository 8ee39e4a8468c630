//! What kind of program a file is, from its first bytes.

use super::Why;
use alloc::{vec, vec::Vec};

/// How a program file will take to interception.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loader {
    /// glibc's ld.so: LD_AUDIT.
    Glibc,
    /// LD_PRELOAD: musl's, which has no auditors, and glibc's where an auditor would end the
    /// program (`Elf::is_alone_with_tls`).
    Preload,
    /// None: the reason.
    None(Why),
}

/// What the first bytes of a program file say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Format {
    /// An ELF program.
    Elf {
        /// What loads it.
        loader: Loader,
        /// PT_INTERP: the path of its interpreter.
        interpreter: Option<Vec<u8>>,
    },
    /// `#!`: interpreter and the one argument.
    Script {
        /// Path of the interpreter.
        interpreter: Vec<u8>,
        /// Everything after it on the line, if anything.
        argument: Option<Vec<u8>>,
    },
    /// Neither: the kernel says ENOEXEC, or knows better (binfmt_misc).
    Other,
}

/// `BINPRM_BUF_SIZE`: what the kernel looks at to tell formats apart.
pub const HEAD: usize = 256;

/// Reads the format from the first bytes of a file; `read_at` gives more of it.
pub fn format(head: &[u8], read_at: &mut dyn FnMut(u64, &mut [u8]) -> usize) -> Format {
    if let Some(rest) = head.strip_prefix(b"#!") {
        return script(&rest[..rest.len().min(HEAD - 2)]);
    }
    let plain = |why| Format::Elf {
        loader: Loader::None(why),
        interpreter: None,
    };
    if let Some(why) = Why::foreign(head) {
        return plain(why);
    }
    let Some(elf) = Elf::of(head) else {
        return Format::Other;
    };
    let mut header = [0u8; 56];
    let Some(at) = elf.find(PT_INTERP, read_at) else {
        // Culvert's own first stage hands the environment on to the whole command.
        if elf.has_note(b"Culvert\0", 1, read_at) {
            return Format::Elf {
                loader: Loader::Glibc,
                interpreter: None,
            };
        }
        // A program without PT_INTERP may be the dynamic loader itself, which loads others: it
        // honours LD_AUDIT too. Go's linker notes the build's identity (cmd/link, `-buildid`;
        // ELF_NOTE_GOBUILDID_TAG).
        return plain(match elf.has_note(b"Go\0\0", 4, read_at) {
            true => Why::StaticGo,
            false => Why::Static,
        });
    };
    if read_at(at, &mut header) != 56 {
        return Format::Other;
    }
    let (offset, length) = (u64_at(&header, 8), u64_at(&header, 32).min(4096) as usize);
    let mut name = vec![0u8; length];
    let got = read_at(offset, &mut name);
    name.truncate(got);
    if name.last() == Some(&0) {
        name.pop();
    }
    let base = super::base_name(&name);
    let loader = if base.starts_with(b"ld-linux") {
        match elf.is_alone_with_tls(read_at) {
            true => Loader::Preload,
            false => Loader::Glibc,
        }
    } else if base.starts_with(b"ld-musl") {
        Loader::Preload
    } else {
        Loader::None(Why::OtherLoader)
    };
    Format::Elf {
        loader,
        interpreter: Some(name),
    }
}

/// `p_type` of the interpreter's path.
pub const PT_INTERP: u32 = 3;

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(core::array::from_fn(|i| bytes[at + i]))
}

/// Where an x86-64 ELF file's program headers lie.
pub struct Elf {
    table: u64,
    count: u16,
}

impl Elf {
    /// From the file's first bytes.
    pub fn of(head: &[u8]) -> Option<Self> {
        if head.len() < 64 || head[..4] != *b"\x7fELF" || head[54..56] != [56, 0] {
            return None;
        }
        Some(Self {
            table: u64_at(head, 32),
            count: u16::from_le_bytes([head[56], head[57]]).min(128),
        })
    }

    /// Where in the file the first program header of `kind` lies.
    pub fn find(&self, kind: u32, read_at: &mut dyn FnMut(u64, &mut [u8]) -> usize) -> Option<u64> {
        let mut table = vec![0u8; usize::from(self.count) * 56];
        let got = read_at(self.table, &mut table);
        let is_kind = |header: &[u8]| header.len() == 56 && header[..4] == kind.to_le_bytes();
        let index = table[..got].chunks(56).position(is_kind)?;
        Some(self.table.saturating_add(index as u64 * 56))
    }

    /// How much address space its segments take, from the first to the last, and how much of it can
    /// be written, bytes.
    pub fn extent(&self, read_at: &mut dyn FnMut(u64, &mut [u8]) -> usize) -> (u64, u64) {
        const PT_LOAD: u32 = 1;
        const PF_W: u8 = 2;
        let mut table = vec![0u8; usize::from(self.count) * 56];
        let got = read_at(self.table, &mut table).min(table.len());
        let (mut first, mut end, mut writable) = (u64::MAX, 0, 0u64);
        for header in table[..got].chunks_exact(56) {
            if header[..4] == PT_LOAD.to_le_bytes() {
                let (address, size) = (u64_at(header, 16), u64_at(header, 40));
                first = first.min(address);
                end = end.max(address.saturating_add(size));
                if header[4] & PF_W != 0 {
                    writable = writable.saturating_add(size);
                }
            }
        }
        (end.saturating_sub(first), writable)
    }

    /// Whether the program has a note of this name, padded to four bytes, and kind (elf(5),
    /// "Notes").
    fn has_note(
        &self,
        name: &[u8],
        kind: u32,
        read_at: &mut dyn FnMut(u64, &mut [u8]) -> usize,
    ) -> bool {
        const PT_NOTE: u32 = 4;
        /// Linkers' own notes are a few dozen bytes.
        const LOOKED_AT: u64 = 512;
        let mut table = vec![0u8; usize::from(self.count) * 56];
        let got = read_at(self.table, &mut table).min(table.len());
        let mut segments = table[..got]
            .chunks_exact(56)
            .filter(|header| header[..4] == PT_NOTE.to_le_bytes());
        segments.any(|header| {
            let mut notes = vec![0u8; u64_at(header, 32).min(LOOKED_AT) as usize];
            let got = read_at(u64_at(header, 8), &mut notes).min(notes.len());
            let mut rest = &notes[..got];
            // Length of the name, length of what is noted, kind, name.
            while let Some((head, behind)) = rest.split_at_checked(12) {
                let word = |at: usize| u32::from_le_bytes(core::array::from_fn(|i| head[at + i]));
                let length = |at: usize| word(at).min(1 << 16).next_multiple_of(4) as usize;
                if word(8) == kind && length(0) == name.len() && behind.starts_with(name) {
                    return true;
                }
                rest = behind.get(length(0) + length(4)..).unwrap_or_default();
            }
            false
        })
    }

    /// Whether the program has thread-local storage and needs no library, as Go makes
    /// position-independent programs without C. With an auditor glibc's ld.so gives the program's
    /// own block a generation that is never reached, unless a library's block follows, and ends it:
    /// `_dl_allocate_tls_init`, elf/dl-tls.c (seen in 2.36).
    fn is_alone_with_tls(&self, read_at: &mut dyn FnMut(u64, &mut [u8]) -> usize) -> bool {
        const PT_DYNAMIC: u32 = 2;
        const PT_TLS: u32 = 7;
        const DT_NEEDED: u64 = 1;
        /// More than Go's are; libraries are named first.
        const LOOKED_AT: u64 = 1024;
        if self.find(PT_TLS, read_at).is_none() {
            return false;
        }
        let mut header = [0u8; 56];
        let at = self.find(PT_DYNAMIC, read_at);
        if at.map(|at| read_at(at, &mut header)) != Some(56) {
            return false;
        }
        let mut section = vec![0u8; u64_at(&header, 32).min(LOOKED_AT) as usize];
        let got = read_at(u64_at(&header, 8), &mut section);
        !section[..got]
            .chunks_exact(16)
            .any(|entry| u64_at(entry, 0) == DT_NEEDED)
    }
}

/// What follows `#!`, as `load_script` (fs/binfmt_script.c) reads it: of a longer line than its
/// buffer, whose last byte is never looked at, what is there; but not of an interpreter's path that
/// may go on.
fn script(rest: &[u8]) -> Format {
    let end_of_line = rest.iter().position(|&b| b == b'\n' || b == 0);
    let line = &rest[..end_of_line.unwrap_or(rest.len()).min(HEAD - 3)];
    let blank = |b: &u8| *b == b' ' || *b == b'\t';
    let trimmed = {
        let start = line.iter().position(|b| !blank(b)).unwrap_or(line.len());
        let end = line
            .iter()
            .rposition(|b| !blank(b))
            .map_or(start, |end| end + 1);
        &line[start..end]
    };
    if trimmed.is_empty() {
        return Format::Other;
    }
    let end = trimmed.iter().position(blank).unwrap_or(trimmed.len());
    let goes_on = rest.get(HEAD - 3).is_some_and(|next| !blank(next)) && end_of_line.is_none();
    if goes_on && end == trimmed.len() && line.ends_with(trimmed) {
        return Format::Other;
    }
    let rest = &trimmed[end..];
    let argument = rest
        .iter()
        .position(|b| !blank(b))
        .map(|start| rest[start..].to_vec());
    Format::Script {
        interpreter: trimmed[..end].to_vec(),
        argument,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(head: &[u8]) -> Format {
        format(head, &mut |offset, into| {
            let from = head.get(offset as usize..).unwrap_or(&[]);
            let count = from.len().min(into.len());
            into[..count].copy_from_slice(&from[..count]);
            count
        })
    }

    #[test]
    fn script_lines_are_split_as_the_kernel_splits_them() {
        let script = |interpreter: &[u8], argument: Option<&[u8]>| Format::Script {
            interpreter: interpreter.to_vec(),
            argument: argument.map(<[u8]>::to_vec),
        };
        for (line, wanted) in [
            (&b"#!/bin/sh\necho"[..], script(b"/bin/sh", None)),
            (b"#! /bin/sh -e  x \n", script(b"/bin/sh", Some(b"-e  x"))),
            (
                b"#!\t/usr/bin/env\tpython3\n",
                script(b"/usr/bin/env", Some(b"python3")),
            ),
            (b"#!/bin/sh", script(b"/bin/sh", None)),
            (b"#!\n", Format::Other),
            (b"#!   ", Format::Other),
            (b"plain", Format::Other),
        ] {
            assert_eq!(
                of(line),
                wanted,
                "{:?}",
                std::string::String::from_utf8_lossy(line)
            );
        }
    }

    /// Such files were given to the kernel of Linux 6.18, whose arguments and errors these are.
    #[test]
    fn of_long_script_lines_the_kernel_looks_at_255_bytes() {
        let path = |length: usize| [&b"/"[..], &b"x".repeat(length - 1)].concat();
        let script = |interpreter: &[u8], argument: Option<usize>| Format::Script {
            interpreter: interpreter.to_vec(),
            argument: argument.map(|length| b"a".repeat(length)),
        };
        for (line, wanted) in [
            (
                [b"#!/i ", &b"a".repeat(300)[..]].concat(),
                script(b"/i", Some(250)),
            ),
            (
                [b"#!/i ", &b"a".repeat(251)[..], b"\n"].concat(),
                script(b"/i", Some(250)),
            ),
            (
                [b"#!/i ", &b"a".repeat(250)[..], b"\n"].concat(),
                script(b"/i", Some(250)),
            ),
            (
                [b"#!/i ", &b"a".repeat(249)[..], b"\n"].concat(),
                script(b"/i", Some(249)),
            ),
            (
                [b"#!", &path(253)[..], b"\n"].concat(),
                script(&path(253), None),
            ),
            (
                [b"#!", &path(253)[..], b" a\n"].concat(),
                script(&path(253), None),
            ),
            ([b"#!", &path(254)[..], b"\n"].concat(), Format::Other),
            ([b"#!", &path(300)[..]].concat(), Format::Other),
            ([b"#!", &path(253)[..]].concat(), script(&path(253), None)),
        ] {
            let head = &line[..line.len().min(HEAD)];
            assert_eq!(of(head), wanted, "{} bytes", line.len());
        }
    }

    #[test]
    fn loaders_are_told_apart() {
        let this = std::fs::read("/proc/self/exe").unwrap();
        assert_eq!(
            of(&this),
            Format::Elf {
                loader: Loader::Glibc,
                interpreter: Some(b"/lib64/ld-linux-x86-64.so.2".to_vec()),
            }
        );
        assert_eq!(of(&this[..40]), Format::Other);
    }

    /// A static program whose only segment is notes: a linker's, and then one of `name`.
    fn with_note(name: &[u8; 8], kind: u8) -> Vec<u8> {
        let mut file = std::fs::read("/proc/self/exe").unwrap()[..64].to_vec();
        file[32..40].copy_from_slice(&64u64.to_le_bytes());
        file[56..58].copy_from_slice(&1u16.to_le_bytes());
        let mut header = [0; 56];
        header[0] = 4;
        header[8] = 120;
        header[32] = 20 + 20;
        file.extend(header);
        file.extend(b"\x04\0\0\0\x04\0\0\0\x03\0\0\0GNU\0\x01\x02\x03\x04");
        file.extend([8, 0, 0, 0, 0, 0, 0, 0, kind, 0, 0, 0]);
        file.extend(name);
        file
    }

    #[test]
    fn the_first_stage_of_the_command_is_known_by_its_note() {
        let elf = |loader| Format::Elf {
            loader,
            interpreter: None,
        };
        assert_eq!(of(&with_note(b"Culvert\0", 1)), elf(Loader::Glibc));
        for other in [with_note(b"Culvert\0", 2), with_note(b"Convert\0", 1)] {
            assert_eq!(of(&other), elf(Loader::None(Why::Static)));
        }
    }
}
