//! Whether a program can be intercepted, from its file, and why not.

use crate::failure::shown;
use culvert_preload::exec::{self, Format, Loader, Why};
use rustix::fs::OFlags;
use std::{
    fs::{self, File},
    io::{self, Read},
    os::unix::{
        ffi::OsStrExt,
        fs::{FileExt, MetadataExt},
    },
    path::{Path, PathBuf},
};

/// How deep interpreters of scripts may nest (`BINPRM_MAX_RECURSION` of fs/exec.c, and one).
const SCRIPT_DEPTH: usize = 5;

/// What the kernel looks at to tell formats apart (`BINPRM_BUF_SIZE`), bytes.
const HEAD: u64 = 256;

/// How a program file is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// By glibc's ld.so: libculvert.so is its auditor.
    Glibc,
    /// By musl's, or by glibc's where it cannot load an auditor: libculvert.so is preloaded.
    Preloaded,
    /// As a script, by this interpreter.
    Script(PathBuf),
    /// Not intercepted, because.
    Not(Why),
}

/// Why a program is not intercepted.
#[derive(Debug)]
pub struct Refusal {
    /// The file that decides: the program, or one of its interpreters.
    pub file: PathBuf,
    /// Which program that is, for users.
    pub name: String,
    /// Why, in a clause about "it".
    pub reason: String,
    /// The same, where the file says it.
    pub why: Option<Why>,
    /// What the user can do.
    pub remedy: &'static str,
}

impl Refusal {
    /// One line, without what to do.
    pub fn message(&self) -> String {
        format!("{} cannot be intercepted: {}", self.name, self.reason)
    }
}

/// The program that really runs and how it is started, or why it is not intercepted.
pub type Verdict = Result<(PathBuf, Kind), Refusal>;

/// The verdict on the program `path`; for a script, on its interpreter.
pub fn of_program(path: &Path) -> Verdict {
    follow(path, of_file)
}

/// The same for a program that gets no rights which its caller lacks (`PR_SET_NO_NEW_PRIVS`,
/// prctl(2)).
pub fn without_rights(path: &Path) -> Verdict {
    follow(path, |file| loaded(file, |_| None))
}

fn follow(path: &Path, of_file: impl Fn(&Path) -> Kind) -> Verdict {
    let mut current = path.to_path_buf();
    for _ in 0..SCRIPT_DEPTH {
        let why = match of_file(&current) {
            Kind::Script(interpreter) => {
                current = interpreter;
                continue;
            }
            Kind::Not(why) => why,
            kind => return Ok((current, kind)),
        };
        let name = if current == path {
            shown(path)
        } else {
            format!("{} (interpreter of {})", shown(&current), shown(path))
        };
        return Err(Refusal {
            file: current,
            name,
            reason: why.reason().into(),
            why: Some(why),
            remedy: why.remedy(),
        });
    }
    Err(Refusal {
        name: shown(path),
        reason: "interpreters nest too deep".into(),
        why: None,
        remedy: "let its first line name a program",
        file: current,
    })
}

/// How the one file `path` is started: `culvert_preload::exec` decides by the same rules at every
/// later exec.
pub fn of_file(path: &Path) -> Kind {
    loaded(path, privileged)
}

/// The same, where `rights` says what gets rights that its caller lacks.
fn loaded(path: &Path, rights: impl Fn(&File) -> Option<Why>) -> Kind {
    let not = Kind::Not;
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) => {
            let why = match error.kind() {
                io::ErrorKind::NotFound => Why::NoInterpreter,
                _ => fs::metadata(path).map_or(Why::Unreadable, |found| {
                    changes_of_user(&found).unwrap_or(Why::Unreadable)
                }),
            };
            return not(why);
        }
    };
    let mut head = Vec::with_capacity(HEAD as usize);
    if (&file).take(HEAD).read_to_end(&mut head).is_err() {
        return not(Why::Unreadable);
    }
    let mut read_at = |at: u64, into: &mut [u8]| file.read_at(into, at).unwrap_or(0);
    let loader = match exec::format(&head, &mut read_at) {
        Format::Script { interpreter, .. } => {
            return Kind::Script(crate::failure::path(&interpreter).to_owned());
        }
        // A text without "#!" is run by the shell (execvp(3)).
        Format::Other if !head.contains(&0) => return Kind::Script("/bin/sh".into()),
        Format::Other => return not(Why::UnknownFormat),
        Format::Elf { loader, .. } => loader,
    };
    if let Some(why) = rights(&file) {
        return not(why);
    }
    // A dynamic loader may be started by hand, as ldd(1) does; it loads our library then, too.
    let name = path.file_name().unwrap_or_default().as_bytes();
    match loader {
        Loader::Glibc => Kind::Glibc,
        Loader::Preload => Kind::Preloaded,
        Loader::None(_) if name.starts_with(b"ld-linux") => Kind::Glibc,
        Loader::None(_) if name.starts_with(b"ld-musl") => Kind::Preloaded,
        Loader::None(why) => not(why),
    }
}

/// Whether the kernel starts the program of `refusal` with rights that its caller lacks.
pub fn is_privileged(refusal: &Refusal) -> bool {
    // What can only be executed can still be looked at.
    let path = OFlags::PATH | OFlags::CLOEXEC;
    let opened = rustix::fs::open(&refusal.file, path, rustix::fs::Mode::empty());
    opened.is_ok_and(|file| {
        let mut value = [0; 64];
        let mut capable =
            || rustix::fs::getxattr(&refusal.file, "security.capability", &mut value[..]);
        privileged(&File::from(file)).is_some()
            || (!rustix::process::geteuid().is_root() && capable().is_ok())
    })
}

/// Why the kernel starts this file with rights that its caller lacks (AT_SECURE), so that ld.so
/// ignores LD_AUDIT and LD_PRELOAD.
fn privileged(file: &File) -> Option<Why> {
    let mut value = [0; 64];
    let mut capable = || {
        !rustix::process::geteuid().is_root()
            && rustix::fs::fgetxattr(file, "security.capability", &mut value[..]).is_ok()
    };
    let found = changes_of_user(&file.metadata().ok()?);
    found.or_else(|| capable().then_some(Why::Capabilities))
}

/// Why a program runs as another user or group than its caller.
fn changes_of_user(found: &fs::Metadata) -> Option<Why> {
    let (uid, gid) = (
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
    );
    if found.mode() & 0o4000 != 0 && found.uid() != uid {
        return Some(Why::SetUser);
    }
    (found.mode() & 0o2010 == 0o2010 && found.gid() != gid).then_some(Why::SetGroup)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_told_apart() {
        let own = std::env::current_exe().unwrap();
        assert_eq!(of_program(&own).unwrap().1, Kind::Glibc);
        let place = std::env::temp_dir().join(format!("culvert-verdict-{}", std::process::id()));
        fs::create_dir_all(&place).unwrap();
        let script = place.join("script");
        fs::write(&script, format!("#!{}\n", own.display())).unwrap();
        assert_eq!(of_program(&script).unwrap().0, own);
        fs::write(&script, "#!/nonexistent/interpreter\n").unwrap();
        assert!(
            of_program(&script)
                .unwrap_err()
                .message()
                .contains("/nonexistent/interpreter")
        );
        fs::write(&script, format!("#!{}\n", script.display())).unwrap();
        assert!(
            of_program(&script)
                .unwrap_err()
                .message()
                .contains("too deep")
        );
        // The header of an arm64 program, and a static program: the loader's own kind without an
        // interpreter.
        let mut header = fs::read(&own).unwrap()[..64].to_vec();
        header[18..20].copy_from_slice(&183u16.to_le_bytes());
        fs::write(&script, &header).unwrap();
        assert!(
            of_program(&script)
                .unwrap_err()
                .message()
                .contains("not an x86-64 program")
        );
        header[18..20].copy_from_slice(&62u16.to_le_bytes());
        header[56..58].fill(0);
        fs::write(&script, &header).unwrap();
        assert!(
            of_program(&script)
                .unwrap_err()
                .message()
                .contains("statically linked")
        );
        fs::remove_dir_all(&place).unwrap();
    }
}
