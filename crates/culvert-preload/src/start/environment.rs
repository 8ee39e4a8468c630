//! The environment that a program starts with: what is in it of Culvert's is read and taken out,
//! before the program's own code looks.

use crate::exec::tunables;
use crate::vfs::own_file::{self, OwnFile};
use alloc::vec::Vec;
use culvert_run::{VARIABLE, library_copy};

/// A variable that is looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Variable {
    Run,
    Log,
    Given,
    Shown,
    Tunables,
    Audit,
    Library,
    Preload,
}

impl Variable {
    const ALL: [Self; 8] = [
        Self::Run,
        Self::Log,
        Self::Given,
        Self::Shown,
        Self::Tunables,
        Self::Audit,
        Self::Library,
        Self::Preload,
    ];

    fn name(self) -> &'static [u8] {
        match self {
            Self::Run => VARIABLE,
            Self::Log => b"CULVERT_LOG",
            Self::Given => own_file::GIVEN,
            Self::Shown => own_file::SHOWN,
            Self::Tunables => b"GLIBC_TUNABLES",
            Self::Audit => b"LD_AUDIT",
            Self::Library => library_copy::LIBRARY,
            Self::Preload => b"LD_PRELOAD",
        }
    }

    /// That which `entry` sets.
    ///
    /// # Safety
    /// `entry` is a string that ends in NUL.
    unsafe fn of(entry: *const u8) -> Option<Self> {
        // SAFETY: the caller's promise.
        let first = unsafe { *entry };
        let may_be = |variable: &Self| variable.name().first() == Some(&first);
        // SAFETY: the caller's promise.
        let is_set = |variable: &Self| unsafe { has_name(variable.name(), entry) };
        let mut all = Self::ALL.into_iter().filter(may_be);
        all.find(is_set)
    }
}

/// The program's environment: a NULL-terminated array of strings on its stack, which is read once.
pub struct Environment {
    pub(super) array: *mut *mut u8,
    /// Where each variable is set, first if more than once.
    at: [Option<usize>; Variable::ALL.len()],
    /// The auxiliary vector, which lies behind it.
    pub(super) vector: *const [usize; 2],
}

impl Environment {
    /// # Safety
    /// `array` is the program's environment, ends in a null pointer, and nobody else uses it
    /// meanwhile.
    pub unsafe fn new(array: *mut *mut u8) -> Self {
        let mut at = [None; Variable::ALL.len()];
        let mut length = 0;
        // SAFETY: the array ends in a null pointer; each entry before is a string.
        unsafe {
            while !(*array.add(length)).is_null() {
                if let Some(variable) = Variable::of(*array.add(length)) {
                    at[variable as usize].get_or_insert(length);
                }
                length += 1;
            }
        }
        Self {
            array,
            at,
            vector: array.wrapping_add(length + 1).cast(),
        }
    }

    pub(super) fn get(&self, variable: Variable) -> Option<&[u8]> {
        let at = self.at[variable as usize]?;
        // SAFETY: the entry is a string that ends in NUL, begins with the name and `=`, and stays.
        let value = unsafe {
            let value = (*self.array.add(at)).add(variable.name().len() + 1);
            core::ffi::CStr::from_ptr(value.cast())
        };
        Some(value.to_bytes())
    }

    /// What the auxiliary vector says of `kind` (getauxval(3)).
    fn auxiliary(&self, kind: usize) -> Option<usize> {
        // SAFETY: the kernel puts the vector there (`create_elf_tables`, fs/binfmt_elf.c), pairs of
        // which AT_NULL is the last.
        unsafe { culvert_sys::process::find_auxiliary(self.vector, kind) }
    }

    /// Whether no code ran in this process before that which could have set a signal's handler: the
    /// kernel has started the program's ld.so, which loads the first library of `LD_AUDIT`, ours.
    pub(super) fn is_fresh(&self) -> bool {
        const AT_BASE: usize = 7;
        // Where ld.so itself was executed, its options may name other auditors.
        let has_interpreter = self.auxiliary(AT_BASE).is_some_and(|base| base != 0);
        has_interpreter && self.get(Variable::Audit).map(first_of).is_some_and(is_own)
    }

    /// Takes the entry of `variable` out.
    pub(super) fn remove(&mut self, variable: Variable) {
        let Some(index) = self.at[variable as usize].take() else {
            return;
        };
        let mut i = index;
        // SAFETY: the array ends in a null pointer, at which this stops.
        unsafe {
            while !(*self.array.add(i)).is_null() {
                *self.array.add(i) = *self.array.add(i + 1);
                i += 1;
            }
        }
        let behind = self.at.iter_mut().flatten().filter(|at| **at > index);
        behind.for_each(|at| *at -= 1);
    }

    /// Opens the log that the program names, or else the run (`log`).
    pub(super) fn open_log(&self, log: Option<&[u8]>) {
        if let Some(path) = self.get(Variable::Log).or(log) {
            culvert_sys::log::open(path);
        }
    }

    /// Takes what the exec hook has added to GLIBC_TUNABLES out again, and says how many bytes of
    /// static TLS it gave.
    pub(super) fn hide_room(&mut self) -> u64 {
        let given = self.get(Variable::Tunables).and_then(tunables::given);
        let Some(((own, bytes), at)) = given.zip(self.at[Variable::Tunables as usize]) else {
            return 0;
        };
        match own {
            None => self.remove(Variable::Tunables),
            Some(own) => {
                let value_at = Variable::Tunables.name().len() + 1;
                // SAFETY: the entry's value has more than `own` bytes, and nobody else uses it.
                unsafe { *(*self.array.add(at)).add(value_at + own) = 0 }
            }
        }
        bytes
    }

    /// Takes what the exec hook tells the program about its own file.
    pub(super) fn take_own_file(&mut self) -> Option<OwnFile> {
        let mut take = |variable| {
            let value = self.get(variable)?.to_vec();
            self.remove(variable);
            Some(value)
        };
        let own = OwnFile {
            given: take(Variable::Given),
            shown: take(Variable::Shown),
        };
        (own.given.is_some() || own.shown.is_some()).then_some(own)
    }

    /// Lets `LD_AUDIT` name the library and not its copy, for this process and for who reads its
    /// environment from outside (/proc/PID/environ), and lets ld.so find no library behind the copy:
    /// it reads on in the same string, and skips empty names (`audit_list_next`, elf/rtld.c). Says
    /// the path of the copy.
    pub(super) fn take_copy(&mut self) -> Option<Vec<u8>> {
        let (audit, library) = (Variable::Audit as usize, Variable::Library as usize);
        let both = self.get(Variable::Audit).zip(self.get(Variable::Library));
        let parts = both.and_then(|(list, own)| {
            let copy = list.strip_suffix(own)?.strip_suffix(b":")?;
            Some((copy.to_vec(), first_of(own).len()))
        });
        if let Some((copy, length)) = &parts
            && let [Some(named), Some(path)] = [self.at[audit], self.at[library]]
        {
            let behind = Variable::Audit.name().len() + 1 + copy.len() + 1;
            // SAFETY: each entry begins with a name of that length, the library's path lies behind
            // the copy's, and nobody else uses them but ld.so, which goes on when this returns.
            unsafe {
                let (named, path) = (*self.array.add(named), *self.array.add(path));
                named.add(behind).write_bytes(b':', *length);
                for (at, name) in [(named, library_copy::USED), (path, Variable::Audit.name())] {
                    at.copy_from_nonoverlapping(name.as_ptr(), name.len());
                }
            }
            self.at.swap(audit, library);
        }
        self.remove(Variable::Library);
        parts.map(|(copy, _)| copy)
    }

    /// Takes this library out of the lists of libraries that ld.so loads, and says its path.
    pub(super) fn take_library(&mut self) -> Vec<u8> {
        let mut library = Vec::new();
        for variable in [Variable::Audit, Variable::Preload] {
            let Some(list) = self.get(variable) else {
                continue;
            };
            let first = first_of(list).to_vec();
            if !is_own(&first) {
                continue;
            }
            if list.len() == first.len() {
                self.remove(variable);
            } else {
                self.skip(variable, first.len() + 1);
            }
            library = first;
        }
        library
    }

    /// Lets the entry of `variable` begin `bytes` later.
    fn skip(&mut self, variable: Variable, bytes: usize) {
        let name = variable.name();
        let Some(index) = self.at[variable as usize] else {
            return;
        };
        // SAFETY: the entry is `name=` and at least `bytes` more; the name is written over what is
        // skipped.
        unsafe {
            let entry = *self.array.add(index);
            let moved = entry.add(bytes);
            core::ptr::copy(name.as_ptr(), moved, name.len());
            *moved.add(name.len()) = b'=';
            *self.array.add(index) = moved;
        }
    }
}

/// Whether the environment's `entry` has this `name`. Not the whole string is read: only few are
/// looked for, among many that may be long.
///
/// # Safety
/// `entry` is a string that ends in NUL.
unsafe fn has_name(name: &[u8], entry: *const u8) -> bool {
    // SAFETY: the NUL, if there is one, is none of the name's bytes.
    let is_there = |(i, byte): (usize, &u8)| unsafe { *entry.add(i) == *byte };
    name.iter().chain(b"=").enumerate().all(is_there)
}

/// The first of a list of libraries.
fn first_of(list: &[u8]) -> &[u8] {
    list.split(|&b| b == b':').next().unwrap_or(list)
}

/// Whether a list names this library there.
fn is_own(library: &[u8]) -> bool {
    library.ends_with(b"/libculvert.so")
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::ffi::CStr;

    /// A NULL-terminated array of `strings`.
    fn array_of(strings: &mut [Vec<u8>]) -> Vec<*mut u8> {
        let strings = strings.iter_mut().map(|string| string.as_mut_ptr());
        strings.chain([core::ptr::null_mut()]).collect()
    }

    /// An environment and the vector behind it, as the kernel puts them on the stack.
    fn on_stack(entries: &[&CStr], base: usize) -> Vec<usize> {
        let entries = entries.iter().map(|entry| entry.as_ptr() as usize);
        let vector = [6, 4096, 7, base, 0, 0];
        entries.chain([0]).chain(vector).collect()
    }

    #[test]
    fn handlers_are_looked_for_unless_ours_is_the_first_code_that_runs() {
        let is_fresh = |entries: &[&CStr], base| {
            let mut stack = on_stack(entries, base);
            // SAFETY: an array as it is on the stack, of strings that are constant.
            unsafe { Environment::new(stack.as_mut_ptr().cast()) }.is_fresh()
        };
        assert!(is_fresh(&[c"A=1", c"LD_AUDIT=/a/libculvert.so"], 4096));
        assert!(is_fresh(&[c"LD_AUDIT=/a/libculvert.so:/other.so"], 4096));
        assert!(!is_fresh(&[c"LD_AUDIT=/other.so:/a/libculvert.so"], 4096));
        assert!(!is_fresh(
            &[c"LD_AUDIT=/other.so", c"LD_AUDIT=/a/libculvert.so"],
            4096
        ));
        assert!(!is_fresh(&[c"LD_PRELOAD=/a/libculvert.so"], 4096));
        assert!(
            !is_fresh(&[c"LD_AUDIT=/a/libculvert.so"], 0),
            "ld.so was executed"
        );
        assert!(!is_fresh(&[], 4096));
    }

    #[test]
    fn an_entry_is_found_by_its_whole_name() {
        let mut stack = on_stack(&[c"CULVERT", c"CULVERT_RUNS=1", c"CULVERT_RUN=2", c""], 0);
        // SAFETY: an array as it is on the stack, of strings that are constant.
        let environment = unsafe { Environment::new(stack.as_mut_ptr().cast()) };
        assert_eq!(environment.get(Variable::Run), Some(&b"2"[..]));
        assert_eq!(environment.at[Variable::Run as usize], Some(2));
        assert_eq!(environment.get(Variable::Log), None);
    }

    #[test]
    fn the_environment_is_shortened_in_place() {
        let mut strings: Vec<Vec<u8>> = [
            "A=1",
            "CULVERT_RUN=x",
            "LD_AUDIT=/a/libculvert.so:/other.so",
            "B=2",
        ]
        .iter()
        .map(|s| [s.as_bytes(), b"\0"].concat())
        .collect();
        let mut array = array_of(&mut strings);
        // SAFETY: the array is NULL-terminated and ours.
        let mut environment = unsafe { Environment::new(array.as_mut_ptr()) };
        environment.remove(Variable::Run);
        assert!(environment.get(Variable::Run).is_none());
        let value = environment.get(Variable::Audit);
        assert_eq!(value, Some(&b"/a/libculvert.so:/other.so"[..]));
        environment.skip(Variable::Audit, "/a/libculvert.so:".len());
        assert_eq!(environment.get(Variable::Audit), Some(&b"/other.so"[..]));
        let left: Vec<Vec<u8>> = array
            .iter()
            .take_while(|entry| !entry.is_null())
            // SAFETY: a string of the above, shortened in place.
            .map(|entry| unsafe { CStr::from_ptr(entry.cast()) }.to_bytes().to_vec())
            .collect();
        assert_eq!(left, [&b"A=1"[..], b"LD_AUDIT=/other.so", b"B=2"]);
    }

    #[test]
    fn the_library_stands_where_its_copy_was() {
        let text = |text: &str| [text.as_bytes(), b"\0"].concat();
        let mut strings = [
            text("CV_AUDIT=/a/libculvert.so:/b.so"),
            text("LD_AUDIT=/copy/libculvert.so:/a/libculvert.so:/b.so"),
        ];
        let mut array = array_of(&mut strings);
        // SAFETY: the array is NULL-terminated and ours.
        let mut environment = unsafe { Environment::new(array.as_mut_ptr()) };
        let copy = environment.take_copy();
        assert_eq!(copy.as_deref(), Some(&b"/copy/libculvert.so"[..]));
        assert_eq!(array[1], core::ptr::null_mut());
        assert_eq!(strings[0], text("LD_AUDIT=/a/libculvert.so:/b.so"));
        // Here ld.so reads on.
        let rest = strings[1].strip_prefix(b"CV_COPY_=/copy/libculvert.so:");
        assert_eq!(rest, Some(&b":::::::::::::::::/b.so\0"[..]));
        // What is not ours stays.
        let mut strings = [
            text("LD_AUDIT=/c.so:/b.so"),
            text("CV_AUDIT=/a/libculvert.so"),
        ];
        let mut array = array_of(&mut strings);
        // SAFETY: as above.
        let mut environment = unsafe { Environment::new(array.as_mut_ptr()) };
        assert_eq!(environment.take_copy(), None);
        assert_eq!(strings[0], text("LD_AUDIT=/c.so:/b.so"));
    }

    #[test]
    fn tunables_that_were_added_are_hidden() {
        for own in [None, Some(&b""[..]), Some(b"glibc.malloc.check=3")] {
            let mut strings = [tunables::entry(own, 4096), b"B=2\0".to_vec()];
            let mut array = array_of(&mut strings);
            // SAFETY: the array is NULL-terminated and ours.
            let mut environment = unsafe { Environment::new(array.as_mut_ptr()) };
            assert_eq!(environment.hide_room(), 4096);
            assert_eq!(environment.get(Variable::Tunables), own);
            assert_eq!(environment.hide_room(), 0);
            assert!(array.contains(&strings[1].as_mut_ptr()));
        }
    }
}
