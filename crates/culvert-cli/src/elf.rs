//! What the dynamic loader reads of an ELF file (elf(5)): who loads it, what it needs and where
//! that is searched.

/// The headers of one file.
#[derive(Debug)]
pub struct Elf {
    /// PT_INTERP.
    pub interpreter: Option<Vec<u8>>,
    /// DT_NEEDED, in order.
    pub needed: Vec<Vec<u8>>,
    /// DT_RPATH, unless there is a DT_RUNPATH.
    pub rpath: Vec<u8>,
    /// DT_RUNPATH.
    pub runpath: Vec<u8>,
}

/// Strings of a file longer than this are damage.
const STRING_LIMIT: usize = 4096;
/// The largest dynamic section and string table that are looked at, bytes.
const TABLE_LIMIT: u64 = 16 << 20;

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_INTERP: u32 = 3;
const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;
const DT_STRSZ: u64 = 10;
const DT_RPATH: u64 = 15;
const DT_RUNPATH: u64 = 29;

struct Segment {
    kind: u32,
    offset: u64,
    address: u64,
    size: u64,
}

impl Elf {
    /// Reads the headers of a 64-bit file; `read_at` fills its buffer from an offset of the file
    /// and says whether it could.
    pub fn read(read_at: impl Fn(u64, &mut [u8]) -> bool) -> Result<Self, &'static str> {
        let mut header = [0; 64];
        if !read_at(0, &mut header[..20]) || header[..5] != *b"\x7fELF\x02" {
            return Err("it is not a 64-bit ELF file");
        }
        let mut elf = Self {
            interpreter: None,
            needed: Vec::new(),
            rpath: Vec::new(),
            runpath: Vec::new(),
        };
        if !read_at(0, &mut header) {
            return Err("its ELF header is truncated");
        }
        let segments = segments(&header, &read_at)?;
        let bytes = |segment: &Segment, limit: u64| {
            let mut bytes = vec![0; segment.size.min(limit) as usize];
            read_at(segment.offset, &mut bytes)
                .then_some(bytes)
                .ok_or("its program headers lead outside the file")
        };
        for segment in &segments {
            match segment.kind {
                PT_INTERP => {
                    let mut name = bytes(segment, STRING_LIMIT as u64)?;
                    name.truncate(
                        name.iter()
                            .position(|&byte| byte == 0)
                            .unwrap_or(name.len()),
                    );
                    elf.interpreter = Some(name);
                }
                PT_DYNAMIC => elf.dynamic(&bytes(segment, TABLE_LIMIT)?, &segments, &read_at)?,
                _ => {}
            }
        }
        Ok(elf)
    }

    fn dynamic(
        &mut self,
        section: &[u8],
        segments: &[Segment],
        read_at: impl Fn(u64, &mut [u8]) -> bool,
    ) -> Result<(), &'static str> {
        let entries: Vec<(u64, u64)> = section
            .chunks_exact(16)
            .map(|entry| (u64_at(entry, 0), u64_at(entry, 8)))
            .take_while(|(tag, _)| *tag != 0)
            .collect();
        let value = |wanted: u64| {
            entries
                .iter()
                .find(|(tag, _)| *tag == wanted)
                .map(|(_, value)| *value)
        };
        let (Some(address), Some(size)) = (value(DT_STRTAB), value(DT_STRSZ)) else {
            return Ok(());
        };
        let holder = segments
            .iter()
            .find(|segment| {
                segment.kind == PT_LOAD && address.wrapping_sub(segment.address) < segment.size
            })
            .ok_or("its string table lies in no segment")?;
        let mut strings = vec![0; size.min(TABLE_LIMIT) as usize];
        if !read_at(
            holder.offset.wrapping_add(address - holder.address),
            &mut strings,
        ) {
            return Err("its string table is truncated");
        }
        let string = |at: u64| -> Vec<u8> {
            let rest = usize::try_from(at)
                .ok()
                .and_then(|at| strings.get(at..))
                .unwrap_or_default();
            rest.iter()
                .copied()
                .take(STRING_LIMIT)
                .take_while(|&byte| byte != 0)
                .collect()
        };
        self.needed = entries
            .iter()
            .filter(|(tag, _)| *tag == DT_NEEDED)
            .map(|(_, at)| string(*at))
            .collect();
        self.rpath = value(DT_RPATH).map(string).unwrap_or_default();
        self.runpath = value(DT_RUNPATH).map(string).unwrap_or_default();
        if !self.runpath.is_empty() {
            self.rpath.clear(); // ld.so(8)
        }
        Ok(())
    }
}

fn segments(
    header: &[u8],
    read_at: impl Fn(u64, &mut [u8]) -> bool,
) -> Result<Vec<Segment>, &'static str> {
    const SIZE: usize = 56;
    let (table, count) = (
        u64_at(header, 32),
        u64::from(u16::from_le_bytes([header[56], header[57]])),
    );
    (0..count)
        .map(|index| {
            let mut entry = [0; SIZE];
            if !read_at(table.wrapping_add(index * SIZE as u64), &mut entry) {
                return Err("its program headers are truncated");
            }
            let kind = u32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]);
            Ok(Segment {
                kind,
                offset: u64_at(&entry, 8),
                address: u64_at(&entry, 16),
                size: u64_at(&entry, 32),
            })
        })
        .collect()
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Elf, &'static str> {
        Elf::read(|at, into| {
            let from = usize::try_from(at)
                .ok()
                .and_then(|at| bytes.get(at..))
                .and_then(|rest| rest.get(..into.len()));
            from.map(|from| into.copy_from_slice(from)).is_some()
        })
    }

    #[test]
    fn this_program_needs_the_c_library() {
        let own = read(&std::fs::read("/proc/self/exe").unwrap()).unwrap();
        assert!(own.interpreter.unwrap().ends_with(b"ld-linux-x86-64.so.2"));
        assert!(
            own.needed.contains(&b"libc.so.6".to_vec()),
            "{:?}",
            own.needed
        );
    }

    #[test]
    fn damaged_files_are_refused_or_read_but_never_a_crash() {
        let good = std::fs::read("/proc/self/exe").unwrap();
        let head = &good[..good.len().min(4096)];
        for length in (0..head.len()).step_by(7) {
            let _ = read(&head[..length]);
        }
        let mut seed = 1u64;
        for _ in 0..20_000 {
            let mut bad = head.to_vec();
            for _ in 0..3 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let at = (seed >> 33) as usize % 1024;
                bad[at] = (seed >> 20) as u8;
            }
            let _ = read(&bad);
        }
    }
}
