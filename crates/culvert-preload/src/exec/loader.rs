//! A dynamic loader, glibc's or musl's, started as a program.

use super::look::Look;
use super::materialise::materialise;
use super::{Format, Image, Loader, Locate, Program};
use crate::process::Process;
use alloc::vec;
use core::ffi::CStr;
use culvert::Errno;
use culvert_intercept::user;

/// Whether `path` is a dynamic loader, started as a program: it loads another, with our library.
pub fn is_dynamic_loader(path: &[u8]) -> bool {
    let name = super::base_name(path);
    name.starts_with(b"ld-linux") || name == b"ld.so" || is_musl(path)
}

/// Whether `path` is musl's loader, which is its whole library, too.
fn is_musl(path: &[u8]) -> bool {
    super::base_name(path).starts_with(b"ld-musl")
}

/// ld.so, here at the path `own`, opens the program it is told to load before any auditor runs: a
/// program on a mount is named by its filled shadow. Its options are those of ld.so(8), of which
/// musl has some. Returns how it is told to load the library: as that program would have it when
/// the kernel starts it.
pub fn name_program(
    process: &Process,
    own: &[u8],
    image: &mut Image,
    locate: &Locate<'_>,
) -> Result<Loader, Errno> {
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
            Ok(Program::Mount {
                path,
                name,
                keeper: _keeper,
            }) => (materialise(process, &path, name)?.host, false),
            Ok(Program::Backed { host, .. }) => (host, false),
            Ok(Program::Host(host, _)) => (host, true),
            Err(_) => break,
        };
        let loader = match is_musl(own) {
            true => Loader::Preload,
            false => loader_of(&file),
        };
        if !is_named {
            image.arguments[index] = file.as_ptr() as usize;
            image.strings.push(file);
        }
        return Ok(loader);
    }
    Ok(match is_musl(own) {
        true => Loader::Preload,
        false => Loader::Glibc,
    })
}

/// How glibc's ld.so is to load the library with the program at `path`.
fn loader_of(path: &CStr) -> Loader {
    match Look::open(path).map(|look| look.format()) {
        // Another library's program has not been asked whether an auditor ends it.
        Ok(Format::Elf {
            loader: Loader::Preload,
            interpreter: Some(interpreter),
        }) if !is_musl(&interpreter) => Loader::Preload,
        _ => Loader::Glibc,
    }
}
