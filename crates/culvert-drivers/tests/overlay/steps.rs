//! Random operations, and the kernel's answers to them.

use culvert::{Errno, RenameFlags};
use std::{
    ffi::CString,
    fs,
    io::{self, Write as _},
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    path::Path,
};

/// One operation; paths are relative.
#[derive(Clone, Debug)]
pub enum Step {
    Write(String, String),
    Append(String, String),
    Cut(String, u64),
    Mode(String, u32),
    Unlink(String),
    Mkdir(String),
    Rmdir(String),
    Rename(String, String),
    Exchange(String, String),
    Symlink(String, String),
    Link(String, String),
    Attribute(String, String),
}

pub struct Random(pub u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % end
    }

    fn path(&mut self) -> String {
        const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
        let depth = 1 + self.below(3);
        let names = (0..depth).map(|_| NAMES[self.below(5) as usize]);
        names.collect::<Vec<_>>().join("/")
    }

    pub fn step(&mut self) -> Step {
        let (path, other) = (self.path(), self.path());
        let number = self.below(1000);
        match self.below(14) {
            0 | 1 => Step::Write(path, format!("written {number}")),
            2 => Step::Append(path, format!("+{number}")),
            3 => Step::Cut(path, number % 7),
            4 => Step::Mode(path, 0o600 + (number % 0o200) as u32),
            5 | 6 => Step::Unlink(path),
            7 => Step::Mkdir(path),
            8 => Step::Rmdir(path),
            9 | 10 => Step::Rename(path, other),
            11 => Step::Exchange(path, other),
            12 => match number % 3 {
                0 => Step::Link(path, other),
                _ => Step::Symlink(format!("to {number}"), path),
            },
            _ => Step::Attribute(path, format!("{number}")),
        }
    }
}

pub fn on_kernel(base: &Path, step: &Step) -> Result<(), i32> {
    let at = |path: &str| base.join(path);
    let c = |path: &str| CString::new(at(path).as_os_str().as_bytes()).unwrap();
    let of = |error: io::Error| error.raw_os_error().unwrap();
    let raw = |done: Result<(), Errno>| done.map_err(Errno::raw);
    let open = |path: &str, options: &mut fs::OpenOptions| {
        use std::os::unix::fs::OpenOptionsExt;
        options.custom_flags(0o400000).open(at(path))
    };
    match step {
        Step::Write(path, text) => {
            let mut options = fs::OpenOptions::new();
            let mut file =
                open(path, options.write(true).create(true).truncate(true)).map_err(of)?;
            file.write_all(text.as_bytes()).map_err(of)
        }
        Step::Append(path, text) => {
            let mut file = open(path, fs::OpenOptions::new().append(true)).map_err(of)?;
            file.write_all(text.as_bytes()).map_err(of)
        }
        Step::Cut(path, size) => {
            let file = open(path, fs::OpenOptions::new().write(true)).map_err(of)?;
            file.set_len(*size).map_err(of)
        }
        Step::Mode(path, mode) => match fs::symlink_metadata(at(path)).map_err(of)? {
            found if found.is_symlink() => Err(Errno::EOPNOTSUPP.raw()),
            _ => fs::set_permissions(at(path), fs::Permissions::from_mode(*mode)).map_err(of),
        },
        Step::Unlink(path) => fs::remove_file(at(path)).map_err(of),
        Step::Mkdir(path) => fs::create_dir(at(path)).map_err(of),
        Step::Rmdir(path) => fs::remove_dir(at(path)).map_err(of),
        Step::Rename(path, to) => fs::rename(at(path), at(to)).map_err(of),
        Step::Exchange(path, to) => {
            let flags = culvert_sys::flags::RenameFlags::from_bits(RenameFlags::EXCHANGE);
            let cwd = culvert_sys::fd::CWD;
            raw(culvert_sys::fs::renameat2(
                cwd,
                &c(path),
                cwd,
                &c(to),
                flags,
            ))
        }
        Step::Symlink(target, path) => std::os::unix::fs::symlink(target, at(path)).map_err(of),
        Step::Link(path, to) => fs::hard_link(at(path), at(to)).map_err(of),
        Step::Attribute(path, value) => match fs::symlink_metadata(at(path)).map_err(of)? {
            found if found.is_symlink() => Err(Errno::EPERM.raw()),
            _ => raw(culvert_sys::fs::setxattr(
                &c(path),
                c"user.test",
                value.as_bytes(),
                0,
            )),
        },
    }
}
