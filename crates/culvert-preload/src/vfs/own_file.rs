//! What a program is told about its own file, where the kernel was given another path than the
//! program's starter named: of a shadow, of a file in a mount's source, of an interpreter.

use crate::process::Process;
use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;
use culvert_run::{files::c_string, read_file};
use culvert_sys::BorrowedFd;
use culvert_sys::sync::AtomicRef;

/// The environment variable that holds the path that execve was given.
pub const GIVEN: &[u8] = b"CULVERT_PROGRAM";

/// The environment variable that holds what `/proc/self/exe` shows.
pub const SHOWN: &[u8] = b"CULVERT_EXE";

/// Both, as the program was given them.
#[derive(Clone, Default)]
pub struct OwnFile {
    /// The path that execve was given: AT_EXECFN, and the process's name. None: the kernel's is
    /// right.
    pub given: Option<Vec<u8>>,
    /// The file's absolute path as programs see it. None: the kernel's is right, or
    /// [`self::origin`] tells.
    pub shown: Option<Vec<u8>>,
}

static OWN: AtomicRef<OwnFile> = AtomicRef::new();

/// Of this program.
pub fn own() -> Option<&'static OwnFile> {
    OWN.get()
}

/// What `path` shows when it is this process's `/proc/self/exe`, if that is not what the kernel
/// says.
pub fn shown(path: &[u8]) -> Option<&'static [u8]> {
    let shown = own()?.shown.as_deref()?;
    let who = path.strip_prefix(b"/proc/")?.strip_suffix(b"/exe")?;
    is_this_process(who).then_some(shown)
}

/// Whether `who`, in proc(5), is this process.
pub fn is_this_process(who: &[u8]) -> bool {
    let mine = || format!("{}", culvert_sys::process::getpid());
    who == b"self" || who == b"thread-self" || who == mine().as_bytes()
}

/// What `path` below `directory` shows when it is a link to the program of some process, which is
/// executed as a file of the run directory.
pub fn of_a_process(process: &Process, directory: i32, path: &[u8]) -> Option<Vec<u8>> {
    let is_link = path == b"exe" || path.starts_with(b"/proc/") && path.ends_with(b"/exe");
    if !is_link {
        return None;
    }
    let file = culvert_sys::fs::read_link(BorrowedFd::number(directory), &c_string(path)).ok()?;
    let shown = self::origin(process, &file)?;
    (!shown.is_empty()).then(|| shown.to_vec())
}

impl OwnFile {
    /// The environment's entries that tell the next program.
    pub fn entries(&self) -> impl Iterator<Item = Vec<u8>> {
        [(GIVEN, &self.given), (SHOWN, &self.shown)]
            .into_iter()
            .filter_map(|(name, value)| Some([name, b"=", value.as_deref()?, b"\0"].concat()))
    }

    /// Tells this program, whose environment array is `environment`.
    ///
    /// # Safety
    /// Before the program's own code runs; the array ends in a null pointer.
    pub unsafe fn begin(self, environment: *mut *mut u8) {
        if let Some(given) = &self.given {
            let name = c_string(given.rsplit(|&b| b == b'/').next().unwrap_or(given));
            // The kernel calls a program that is executed by descriptor as it likes.
            if !given.starts_with(b"/dev/fd/") || name.count_bytes() + 8 != given.len() {
                let _ = culvert_sys::process::set_name(&name);
            }
            // SAFETY: the caller's promise.
            unsafe { name_in_vector(environment, given) };
        }
        OWN.set(Some(Box::leak(Box::new(self))));
    }
}

/// Lets AT_EXECFN name `given`.
///
/// # Safety
/// As for `begin`.
unsafe fn name_in_vector(environment: *mut *mut u8, given: &[u8]) {
    const AT_EXECFN: usize = 31;
    let Ok(kernels) = read_file(c"/proc/self/auxv") else {
        return;
    };
    // SAFETY: on the stack the auxiliary vector follows the environment, which was shortened by
    // null pointers; that this is it is seen from its first entry, before more of it is touched. No
    // entry but the last begins with zero.
    unsafe {
        let mut at = environment.cast::<usize>();
        while at.read() != 0 {
            at = at.add(1);
        }
        while at.read() == 0 {
            at = at.add(1);
        }
        let first = [at.read().to_ne_bytes(), at.add(1).read().to_ne_bytes()].concat();
        if !kernels.starts_with(&first) {
            return;
        }
        for entry in (0..kernels.len() / 16).map(|i| at.add(i * 2)) {
            if entry.read() == AT_EXECFN {
                entry.add(1).write(c_string(given).into_raw() as usize);
            }
        }
    }
}

/// The path that `path` of an executed shadow, or of a copy of a program (`exec/interpreter.rs`),
/// stands for.
pub fn origin<'p>(process: &Process, path: &'p [u8]) -> Option<&'p [u8]> {
    let rest = path.strip_prefix(&process.run.path[..])?;
    rest.strip_prefix(b"/exe")
        .or_else(|| rest.strip_prefix(b"/interpreted"))
        .filter(|path| matches!(path.first(), None | Some(b'/')))
}
