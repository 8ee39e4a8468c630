//! glibc's dynamic loader, started as a program.

use super::materialise::materialise;
use super::{Format, Image, Loader, Locate, Look, Program};
use alloc::vec;
use culvert::Errno;
use culvert_intercept::user;

/// Whether `path` is glibc's ld.so, started as a program: it loads another, with auditors.
pub fn is_dynamic_loader(path: &[u8]) -> bool {
    let name = path.rsplit(|&b| b == b'/').next().unwrap_or(path);
    name.starts_with(b"ld-linux") || name == b"ld.so"
}

/// ld.so opens the program it is told to load before any auditor runs: a program on a mount is named by its filled shadow. Its options are those of
/// ld.so(8). Returns how it is told to load the library: as that program would have it when the kernel starts it.
pub fn name_program(image: &mut Image, locate: &Locate<'_>) -> Result<Loader, Errno> {
    const WITH_VALUE: [&[u8]; 7] = [
        b"--library-path",
        b"--inhibit-rpath",
        b"--audit",
        b"--preload",
        b"--argv0",
        b"--glibc-hwcaps-prepend",
        b"--glibc-hwcaps-mask",
    ];
    let mut index = 1;
    while let Some(&address) = image.arguments.get(index) {
        let mut word = vec![0u8; 4096];
        let length = user::string_in(address, &mut word).map_err(|_| Errno::E2BIG)?;
        word.truncate(length);
        if word.starts_with(b"--") {
            index += if WITH_VALUE.contains(&&word[..]) {
                2
            } else {
                1
            };
            continue;
        }
        let (file, is_named) = match locate(&word) {
            Ok(Program::Mount { path, name }) => (materialise(&path, name)?.host, false),
            Ok(Program::Backed { host, .. }) => (host, false),
            Ok(Program::Host(host)) => (host, true),
            Err(_) => break,
        };
        let loader = loader_of(&file);
        if !is_named {
            image.arguments[index] = file.as_ptr() as usize;
            image.strings.push(file);
        }
        return Ok(loader);
    }
    Ok(Loader::Glibc)
}

/// How glibc's ld.so is to load the library with the program at `path` (NUL-terminated).
fn loader_of(path: &[u8]) -> Loader {
    match Look::open(path).map(|look| look.format()) {
        // Another library's program has not been asked whether an auditor ends it.
        Ok(Format::Elf {
            loader: Loader::Preload,
            interpreter: Some(interpreter),
        }) if is_dynamic_loader(&interpreter) => Loader::Preload,
        _ => Loader::Glibc,
    }
}
