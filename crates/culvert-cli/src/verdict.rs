//! Whether a program can be intercepted, from its file, and why not.

use crate::{
    elf::{Elf, Machine},
    failure::shown,
};
use std::{
    fs::{self, File},
    io::Read,
    os::unix::{
        ffi::OsStrExt,
        fs::{FileExt, MetadataExt},
    },
    path::{Path, PathBuf},
};

/// How deep interpreters of scripts may nest (`BINPRM_MAX_RECURSION` of fs/exec.c, and one).
const SCRIPT_DEPTH: usize = 5;

/// How a program file is started.
#[derive(Debug, PartialEq, Eq)]
pub enum Kind {
    /// By glibc's ld.so, at this path: libculvert.so is its auditor.
    Glibc(PathBuf),
    /// By musl's, at this path: libculvert.so is preloaded.
    Musl(PathBuf),
    /// As a script, by this interpreter.
    Script(PathBuf),
    /// Not intercepted, because.
    Not(String),
}

/// The program that really runs for `path` (the interpreter for a script), or one line with the reason why it is not intercepted.
pub fn of_program(path: &Path) -> Result<(PathBuf, Kind), String> {
    let mut current = path.to_path_buf();
    for _ in 0..SCRIPT_DEPTH {
        let name = if current == path {
            shown(path)
        } else {
            format!("{} (interpreter of {})", shown(&current), shown(path))
        };
        match of_file(&current) {
            Kind::Script(interpreter) => current = interpreter,
            Kind::Not(why) => return Err(format!("{name} cannot be intercepted: {why}")),
            kind => return Ok((current, kind)),
        }
    }
    Err(format!(
        "{} cannot be intercepted: interpreters nest too deep",
        shown(path)
    ))
}

/// How the one file `path` is started.
pub fn of_file(path: &Path) -> Kind {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) => {
            return Kind::Not(format!(
                "it cannot be read ({})",
                crate::failure::reason(&error)
            ));
        }
    };
    let mut head = Vec::new();
    if (&file).take(256).read_to_end(&mut head).is_err() {
        return Kind::Not("it cannot be read".into());
    }
    if let Some(interpreter) = interpreter(&head) {
        return Kind::Script(interpreter);
    }
    if !head.starts_with(b"\x7fELF") {
        // A text without "#!" is run by the shell (execvp(3)).
        return match head.contains(&0) {
            false => Kind::Script("/bin/sh".into()),
            true => Kind::Not("its format is unknown".into()),
        };
    }
    let elf = match Elf::read(|at, into| file.read_exact_at(into, at).is_ok()) {
        Ok(elf) => elf,
        Err(why) => return Kind::Not(why.into()),
    };
    if elf.machine != Machine::X86_64 {
        return Kind::Not(format!("it is {} code, not x86-64", elf.machine.name()));
    }
    if let Some(why) = privileged(&file) {
        return Kind::Not(why.into());
    }
    match elf.interpreter {
        None => Kind::Not(
            "it is statically linked: no dynamic loader runs that would load libculvert.so".into(),
        ),
        Some(loader) => {
            let loader = crate::failure::path(&loader).to_path_buf();
            let name = loader.file_name().unwrap_or_default().as_bytes();
            if name.starts_with(b"ld-linux") {
                Kind::Glibc(loader)
            } else if name.starts_with(b"ld-musl") {
                Kind::Musl(loader)
            } else {
                Kind::Not(format!(
                    "its dynamic loader {} is neither glibc's nor musl's",
                    shown(&loader)
                ))
            }
        }
    }
}

/// The interpreter in the first line of a script, as `load_script` (fs/binfmt_script.c) reads it.
fn interpreter(head: &[u8]) -> Option<PathBuf> {
    let line = head.strip_prefix(b"#!")?;
    let line = line.split(|&byte| byte == b'\n' || byte == 0).next()?;
    let word = line
        .split(|&byte| byte == b' ' || byte == b'\t')
        .find(|word| !word.is_empty())?;
    Some(crate::failure::path(word).to_path_buf())
}

/// Why the kernel starts this file with rights that its caller lacks (AT_SECURE), so that ld.so ignores LD_AUDIT and LD_PRELOAD.
fn privileged(file: &File) -> Option<&'static str> {
    let found: fs::Metadata = file.metadata().ok()?;
    let (uid, gid) = (
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
    );
    if found.mode() & 0o4000 != 0 && found.uid() != uid {
        return Some(
            "it changes its user (set-user-ID), so that the dynamic loader ignores LD_AUDIT",
        );
    }
    if found.mode() & 0o2010 == 0o2010 && found.gid() != gid {
        return Some(
            "it changes its group (set-group-ID), so that the dynamic loader ignores LD_AUDIT",
        );
    }
    let mut value = [0; 64];
    if uid != 0 && rustix::fs::fgetxattr(file, "security.capability", &mut value[..]).is_ok() {
        return Some("it has file capabilities, so that the dynamic loader ignores LD_AUDIT");
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn script_lines_are_read_as_the_kernel_reads_them() {
        for (head, want) in [
            (&b"#!/bin/sh\necho"[..], Some("/bin/sh")),
            (b"#! \t/usr/bin/env -S x\n", Some("/usr/bin/env")),
            (b"#!\n/bin/sh", None),
            (b"echo", None),
        ] {
            assert_eq!(interpreter(head), want.map(PathBuf::from));
        }
    }

    #[test]
    fn programs_are_told_apart() {
        let own = std::env::current_exe().unwrap();
        assert!(
            matches!(of_program(&own).unwrap().1, Kind::Glibc(loader) if loader.ends_with("ld-linux-x86-64.so.2"))
        );
        let place = std::env::temp_dir().join(format!("culvert-verdict-{}", std::process::id()));
        fs::create_dir_all(&place).unwrap();
        let script = place.join("script");
        fs::write(&script, format!("#!{}\n", own.display())).unwrap();
        assert_eq!(of_program(&script).unwrap().0, own);
        fs::write(&script, "#!/nonexistent/interpreter\n").unwrap();
        assert!(
            of_program(&script)
                .unwrap_err()
                .contains("/nonexistent/interpreter")
        );
        fs::write(&script, format!("#!{}\n", script.display())).unwrap();
        assert!(of_program(&script).unwrap_err().contains("too deep"));
        // The header of an arm64 program, and a static program: the loader's own kind without an interpreter.
        let mut header = fs::read(&own).unwrap()[..64].to_vec();
        header[18..20].copy_from_slice(&183u16.to_le_bytes());
        fs::write(&script, &header).unwrap();
        assert!(of_program(&script).unwrap_err().contains("ARM64 code"));
        header[18..20].copy_from_slice(&62u16.to_le_bytes());
        header[56..58].fill(0);
        fs::write(&script, &header).unwrap();
        assert!(
            of_program(&script)
                .unwrap_err()
                .contains("statically linked")
        );
        fs::remove_dir_all(&place).unwrap();
    }
}
