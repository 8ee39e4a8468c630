//! Where the dynamic loader finds a library (ld.so(8)), without running anything.

use crate::{elf::Elf, failure::path};
use std::{
    collections::HashMap,
    fs::File,
    os::unix::{ffi::OsStrExt, fs::FileExt},
    path::{Path, PathBuf},
};

/// Directories that are searched last: those of a multiarch system (Debian) and of others.
const DEFAULT: [&str; 6] = [
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
];

/// What is searched for every library.
pub struct Search {
    cache: HashMap<Vec<u8>, PathBuf>,
    library_path: Vec<PathBuf>,
    program_rpath: Vec<PathBuf>,
}

impl Search {
    /// The search for the libraries of `program` at `file`.
    pub fn new(program: &Elf, file: &Path) -> Self {
        let library_path = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
        let split = |byte: &u8| *byte == b':' || *byte == b';';
        Self {
            cache: std::fs::read("/etc/ld.so.cache")
                .map(|bytes| cache(&bytes))
                .unwrap_or_default(),
            library_path: directories(library_path.as_bytes(), split, file),
            program_rpath: directories(&program.rpath, |byte| *byte == b':', file),
        }
    }

    /// The file of library `name`, needed by `object` at `file`. None: the loader would not find it
    /// either.
    pub fn find(&self, name: &[u8], object: &Elf, file: &Path) -> Option<PathBuf> {
        if name.contains(&b'/') {
            return fits(path(name)).then(|| path(name).to_owned());
        }
        let colon = |byte: &u8| *byte == b':';
        let rpath = match object.runpath.is_empty() {
            true => [
                directories(&object.rpath, colon, file),
                self.program_rpath.clone(),
            ]
            .concat(),
            false => Vec::new(),
        };
        let runpath = directories(&object.runpath, colon, file);
        let in_directories = |list: &[PathBuf]| {
            list.iter()
                .map(|directory| directory.join(path(name)))
                .find(|found| fits(found))
        };
        in_directories(&rpath)
            .or_else(|| in_directories(&self.library_path))
            .or_else(|| in_directories(&runpath))
            .or_else(|| self.cache.get(name).filter(|found| fits(found)).cloned())
            .or_else(|| in_directories(&DEFAULT.map(PathBuf::from)))
    }
}

/// Whether the loader would take this file: 64-bit x86.
fn fits(file: &Path) -> bool {
    let Ok(file) = File::open(file) else {
        return false;
    };
    let mut head = [0; 20];
    file.read_exact_at(&mut head, 0).is_ok()
        && head[..5] == *b"\x7fELF\x02"
        && head[18..20] == [62, 0]
}

/// The directories of a search path of the object at `file`, with `$ORIGIN`, `$LIB` and `$PLATFORM`
/// filled in.
fn directories(list: &[u8], separator: impl Fn(&u8) -> bool, file: &Path) -> Vec<PathBuf> {
    let origin = file
        .parent()
        .unwrap_or(Path::new("/"))
        .as_os_str()
        .as_bytes();
    let tokens: [(&[u8], &[u8]); 6] = [
        (b"${ORIGIN}", origin),
        (b"$ORIGIN", origin),
        (b"${LIB}", b"lib/x86_64-linux-gnu"),
        (b"$LIB", b"lib/x86_64-linux-gnu"),
        (b"${PLATFORM}", b"x86_64"),
        (b"$PLATFORM", b"x86_64"),
    ];
    let fill = |entry: &[u8]| {
        let (mut out, mut at) = (Vec::new(), 0);
        while at < entry.len() {
            match tokens
                .iter()
                .find(|(token, _)| entry[at..].starts_with(token))
            {
                Some((token, value)) => {
                    out.extend_from_slice(value);
                    at += token.len();
                }
                None => {
                    out.push(entry[at]);
                    at += 1;
                }
            }
        }
        path(&out).to_owned()
    };
    list.split(separator)
        .filter(|entry| !entry.is_empty())
        .map(fill)
        .collect()
}

/// Library names and files of `/etc/ld.so.cache` (glibc's `sysdeps/generic/dl-cache.h`:
/// `cache_file_new`), those of the baseline processor.
fn cache(bytes: &[u8]) -> HashMap<Vec<u8>, PathBuf> {
    const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
    const HEADER: usize = 48;
    const ENTRY: usize = 24;
    const X86_64_LIBC6: u32 = 0x0303;
    let mut found = HashMap::new();
    // Older caches have the oldest format in front.
    let Some(start) = bytes
        .windows(MAGIC.len())
        .position(|window| window == MAGIC)
    else {
        return found;
    };
    let bytes = &bytes[start..];
    let number = |at: usize| {
        bytes
            .get(at..at + 4)
            .map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
    };
    let string =
        |at: u32| -> Option<&[u8]> { bytes.get(at as usize..)?.split(|&byte| byte == 0).next() };
    for index in 0..number(MAGIC.len()).unwrap_or(0) as usize {
        let at = HEADER + index * ENTRY;
        let (Some(flags), Some(key), Some(value), Some(hwcap)) =
            (number(at), number(at + 4), number(at + 8), number(at + 20))
        else {
            break;
        };
        if flags != X86_64_LIBC6 || hwcap != 0 {
            continue;
        }
        if let (Some(key), Some(value)) = (string(key), string(value)) {
            found
                .entry(key.to_vec())
                .or_insert_with(|| path(value).to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn search_paths_are_filled_in() {
        let file = Path::new("/opt/app/bin/tool");
        let got = directories(
            b"$ORIGIN/../lib:${ORIGIN}:/a/$LIB::$PLATFORM/x",
            |byte| *byte == b':',
            file,
        );
        let want = [
            "/opt/app/bin/../lib",
            "/opt/app/bin",
            "/a/lib/x86_64-linux-gnu",
            "x86_64/x",
        ];
        assert_eq!(got, want.map(PathBuf::from));
    }

    #[test]
    fn the_loader_and_we_find_the_same_c_library() {
        let own = std::env::current_exe().unwrap();
        let bytes = std::fs::read(&own).unwrap();
        let elf = Elf::read(&bytes).unwrap();
        let found = Search::new(&elf, &own)
            .find(b"libc.so.6", &elf, &own)
            .unwrap();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let real = std::fs::canonicalize(found).unwrap();
        assert!(maps.contains(real.to_str().unwrap()), "{real:?}");
        assert_eq!(
            Search::new(&elf, &own).find(b"libnosuch.so.9", &elf, &own),
            None
        );
    }

    #[test]
    fn damaged_caches_are_no_harm() {
        let mut bytes = b"glibc-ld.so.cache1.1\xff\xff\xff\xff".to_vec();
        bytes.resize(100, 0xff);
        assert!(cache(&bytes).is_empty());
        assert!(cache(b"").is_empty());
    }
}
