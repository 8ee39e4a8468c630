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
const DT_SYMTAB: u64 = 6;
const DT_GNU_HASH: u64 = 0x6fff_fef5;
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

/// Whether the shared object in `bytes`, one that no loader is named in, defines a symbol `name`:
/// what dlsym(3) would find in its table of hashes (DT_GNU_HASH).
pub fn defines(bytes: &[u8], name: &[u8]) -> bool {
    let Ok(image) = Image::of_file(bytes) else {
        return false;
    };
    image.interpreter().is_none() && finds(&image, name).unwrap_or(false)
}

fn finds(image: &Image<'_>, name: &[u8]) -> Option<bool> {
    let long = |address: u64| {
        let bytes = image.at(address, 8)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    };
    let word = |address: u64| {
        let bytes = image.at(address, 4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    };
    let dynamic = image
        .headers
        .iter()
        .find(|header| header.kind == PT_DYNAMIC)?;
    let value = |wanted: u64| {
        let entries = (0..dynamic.file_size / 16).map(|at| dynamic.address + 16 * at);
        let mut found = entries.filter(|&entry| long(entry) == Some(wanted));
        long(found.next()? + 8)
    };
    let (hashes, symbols, strings) = (value(DT_GNU_HASH)?, value(DT_SYMTAB)?, value(DT_STRTAB)?);
    let (count, first, bloom) = (word(hashes)?, word(hashes + 4)?, word(hashes + 8)?);
    let buckets = hashes + 16 + 8 * u64::from(bloom);
    let chains = buckets + 4 * u64::from(count);
    let step = |hash: u32, byte: &u8| hash.wrapping_mul(33).wrapping_add((*byte).into());
    let hash = name.iter().fold(5381, step);
    let mut at = word(buckets + 4 * u64::from(hash.checked_rem(count)?))?;
    while at >= first {
        let found = word(chains + 4 * u64::from(at - first))?;
        if found | 1 == hash | 1 {
            // `Elf64_Sym`: the name is its first word.
            let string = strings + u64::from(word(symbols + 24 * u64::from(at))?);
            let rest = image.tail(string)?.strip_prefix(name);
            if rest.is_some_and(|rest| rest.first() == Some(&0)) {
                return Some(true);
            }
        }
        if found & 1 != 0 {
            return Some(false);
        }
        at += 1;
    }
    Some(false)
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
