//! What the dynamic loader reads of an ELF file (elf(5)): who loads it, what it needs and where
//! that is searched.

use culvert_intercept::elf::Image;

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

const PT_DYNAMIC: u32 = 2;
const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;
const DT_RPATH: u64 = 15;
const DT_RUNPATH: u64 = 29;

impl Elf {
    /// Reads the headers of a 64-bit file.
    pub fn read(bytes: &[u8]) -> Result<Self, &'static str> {
        let image = Image::of_file(bytes)?;
        let mut headers = image.headers.iter();
        let section = headers.find(|header| header.kind == PT_DYNAMIC);
        let section =
            section.and_then(|header| image.tail(header.address)?.get(..header.file_size as usize));
        let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap_or_default());
        let entries = section.unwrap_or_default().chunks_exact(16);
        let entries = entries.map(|entry| (number(&entry[..8]), number(&entry[8..])));
        let entries: Vec<(u64, u64)> = entries.take_while(|(tag, _)| *tag != 0).collect();
        let values = |wanted: u64| {
            let found = entries.iter().filter(move |(tag, _)| *tag == wanted);
            found.map(|(_, value)| *value)
        };
        let table = values(DT_STRTAB)
            .next()
            .and_then(|address| image.tail(address));
        let string = |at: u64| {
            let rest = usize::try_from(at).ok().and_then(|at| table?.get(at..));
            let rest = rest.unwrap_or_default().iter().take(STRING_LIMIT);
            rest.copied()
                .take_while(|&byte| byte != 0)
                .collect::<Vec<u8>>()
        };
        let runpath = values(DT_RUNPATH).next().map(string).unwrap_or_default();
        // ld.so(8): it is not looked at beside the other.
        let rpath = values(DT_RPATH).next().filter(|_| runpath.is_empty());
        Ok(Self {
            // As the kernel reads it: to the first NUL.
            interpreter: image.interpreter().map(|path| {
                let path = path.split(|&byte| byte == 0).next();
                path.unwrap_or_default().to_vec()
            }),
            needed: values(DT_NEEDED).map(string).collect(),
            rpath: rpath.map(string).unwrap_or_default(),
            runpath,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_needs_the_c_library() {
        let own = Elf::read(&std::fs::read("/proc/self/exe").unwrap()).unwrap();
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
            let _ = Elf::read(&head[..length]);
        }
        let mut seed = 1u64;
        for _ in 0..20_000 {
            let mut bad = head.to_vec();
            for _ in 0..3 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let at = (seed >> 33) as usize % 1024;
                bad[at] = (seed >> 20) as u8;
            }
            let _ = Elf::read(&bad);
        }
    }
}
