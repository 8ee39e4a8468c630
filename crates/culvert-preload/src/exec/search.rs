//! From the file that execve is given to the program that the kernel starts: a script's file leads
//! to its interpreter, a program's to its dynamic loader.

use super::format::{Format, Loader};
use super::limits::Limits;
use super::look::{self, Look};
use super::materialise::{Executable, materialise};
use super::{Extras, Image, Locate, Program, Why, environment, interpreter, loader, static_tls};
use crate::notice;
use crate::process::Process;
use crate::vfs::busy::may_execute;
use crate::vfs::own_file::OwnFile;
use alloc::boxed::Box;
use alloc::ffi::CString;
use alloc::vec::Vec;
use core::cell::LazyCell;
use culvert::Errno;
use culvert_intercept::images::{Key, Said};
use culvert_run::{STRICT, ShadowName};

/// How many interpreters may follow one another (`exec_binprm`, fs/exec.c).
const DEEPEST: u32 = 5;

/// A search that has looked at some files.
pub struct Search<'s> {
    process: &'s Process,
    locate: &'s Locate<'s>,
    /// Asked for when a file was found: most names of a search in PATH are not there.
    limits: LazyCell<Option<Limits>>,
    /// What is wrong with the arrays of the call. What is wrong with the file comes first: the
    /// kernel opens it before.
    bad: Option<Errno>,
    /// What has been found.
    pub image: Box<Image>,
    /// The file to look at, as the call or the script before it names it.
    name: Vec<u8>,
    /// The arguments of that file.
    arguments: Vec<usize>,
    /// The environment of the call.
    environment: Vec<usize>,
    /// How many interpreters were looked at.
    pub depth: u32,
    /// The kernel does not read the `#!` line itself, because the script or an interpreter lies on
    /// a mount.
    ourselves: bool,
    /// What /proc/self/exe is to show, where the kernel shows another name of the file.
    shown: Option<Vec<u8>>,
    /// [`Extras::room`].
    room: Option<u64>,
    /// [`Extras::said`].
    said: Option<Said>,
}

/// A file that was found.
struct Found {
    /// Its path for the kernel.
    host: CString,
    /// It lies on a mount.
    on_mount: bool,
    /// The path at which programs see it, where that is another one.
    seen: Option<Vec<u8>>,
    /// The node whose shadow it is.
    shadow: Option<ShadowName>,
    /// Which file it is, where that was asked.
    key: Option<Key>,
}

impl<'s> Search<'s> {
    /// A search for the program at `path`, with the arrays at the program's addresses.
    pub fn new(
        process: &'s Process,
        locate: &'s Locate<'s>,
        path: &[u8],
        arguments: usize,
        environment: usize,
    ) -> Self {
        let arguments = environment::pointers(arguments);
        let environment = environment::pointers(environment);
        let bad = arguments.as_ref().err().or(environment.as_ref().err());
        let bad = bad.copied();
        let arguments = arguments.unwrap_or_default();
        Self {
            process,
            locate,
            limits: LazyCell::new(Limits::now),
            bad,
            image: Box::new(Image {
                arguments: arguments.clone(),
                ..Image::default()
            }),
            name: path.to_vec(),
            arguments,
            environment: environment.unwrap_or_default(),
            depth: 0,
            ourselves: false,
            shown: None,
            room: None,
            said: None,
        }
    }

    /// Looks at files until one is no script; the answer is how that program gets the library.
    pub fn loader(&mut self) -> Result<Loader, Errno> {
        loop {
            if let Some(loader) = self.step()? {
                return Ok(loader);
            }
        }
    }

    /// Looks at one file. None: it is a script, whose interpreter is next.
    fn step(&mut self) -> Result<Option<Loader>, Errno> {
        let Some(found) = self.find()? else {
            return Ok(Some(Loader::None(Why::NoInterpreter)));
        };
        if self.is_started_before(&found) {
            return Ok(Some(Loader::Glibc));
        }
        let look = match self.look(&found)? {
            Ok(look) => look,
            Err(why) => return Ok(Some(Loader::None(why))),
        };
        match look.format() {
            Format::Script {
                interpreter,
                argument,
            } => {
                self.enter_script(&found, &look, interpreter, argument)?;
                Ok(None)
            }
            Format::Elf {
                loader,
                interpreter,
            } => match look.privileges() {
                Some(why) => Ok(Some(Loader::None(why))),
                None => self.elf(found, look, loader, interpreter).map(Some),
            },
            Format::Other => Ok(Some(Loader::None(Why::UnknownFormat))),
        }
    }

    /// Whether the kernel will look for the interpreter by itself, and say what is wrong with it.
    fn is_kernels(&self) -> bool {
        self.depth > 0 && !self.ourselves
    }

    /// Finds the file, which becomes the image unless the kernel is to find it by itself. None: it
    /// is not there, which the kernel will say.
    fn find(&mut self) -> Result<Option<Found>, Errno> {
        let program = match (self.locate)(&self.name) {
            Err(_) if self.is_kernels() => return Ok(None),
            program => program?,
        };
        let found = self.found(program)?;
        self.shown = match found.shadow {
            // The kernel shows the name that the shadow has, which says the same.
            Some(_) => None,
            None => found.seen.clone(),
        };
        self.ourselves |= found.on_mount && self.depth > 0;
        if !self.is_kernels() {
            self.image.path.clone_from(&found.host);
            self.image.arguments.clone_from(&self.arguments);
            self.image.shadow = found.shadow;
        }
        Ok(Some(found))
    }

    fn found(&self, program: Program) -> Result<Found, Errno> {
        let (host, on_mount, seen, shadow, key) = match program {
            Program::Host(host, key) => (host, false, None, None, key),
            Program::Backed { host, seen } => {
                let seen = seen.filter(|seen| *seen != host.to_bytes());
                (host, true, seen, None, None)
            }
            Program::Mount {
                path,
                name,
                keeper: _keeper,
            } => {
                let Executable { host, is_shadow } = materialise(self.process, &path, name)?;
                (host, true, Some(path), is_shadow.then_some(name), None)
            }
        };
        Ok(Found {
            host,
            on_mount,
            seen,
            shadow,
            key,
        })
    }

    /// Whether the file need not be opened, because all that is asked of it was found out when it
    /// was started before. The limits depend on more than the file.
    fn is_started_before(&mut self, found: &Found) -> bool {
        let (Some(key), None, None) = (&found.key, self.bad, &*self.limits) else {
            return false;
        };
        let Some(before) = look::started_before(self.process, key) else {
            return false;
        };
        let path = before.interpreter.to_bytes();
        let interpreter = self.by_kernel(path);
        if (interpreter.as_ref()).is_some_and(|found| found.host.to_bytes() != path) {
            return false;
        }
        let interpreter = interpreter.and_then(|found| found.key);
        self.said = before.nothing.zip(interpreter).map(|(nothing, key)| Said {
            nothing,
            interpreter: key.hash(),
        });
        true
    }

    /// Opens the file for a look, or says why it is left to the kernel.
    fn look(&self, found: &Found) -> Result<Result<Look, Why>, Errno> {
        match (Look::open(&found.host), self.bad) {
            (Ok(look), None) => Ok(Ok(look)),
            (Ok(look), Some(bad)) => Err(look.check(&found.host).err().unwrap_or(bad)),
            (Err(Errno::EACCES), Some(bad)) if look::is_executable(&found.host) => Err(bad),
            (Err(errno), Some(_)) => Err(errno),
            // Executable but not readable: the kernel may still run it.
            (Err(Errno::EACCES), None) => Ok(Err(look::unreadable(&found.host))),
            (Err(_), None) if self.is_kernels() => Ok(Err(Why::NoInterpreter)),
            (Err(errno), None) => Err(errno),
        }
    }

    /// Goes on with the interpreter of the script that was found.
    fn enter_script(
        &mut self,
        found: &Found,
        look: &Look,
        interpreter: Vec<u8>,
        argument: Option<Vec<u8>>,
    ) -> Result<(), Errno> {
        if !look::is_executable(&found.host) {
            return Err(Errno::EACCES);
        }
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(Errno::ELOOP);
        }
        // The kernel would tell the interpreter another name than the program gave.
        self.ourselves |= found.on_mount || found.host.to_bytes() != self.name;
        // The kernel will not see it.
        if self.ourselves {
            may_execute(look.file.raw())?;
        }
        let script = core::mem::replace(&mut self.name, interpreter.clone());
        let first = [Some(interpreter), argument, Some(script)];
        self.arguments = self.image.with_first(first, &self.arguments);
        Ok(())
    }

    /// The program that was found is the last one. Its interpreter may be one that only we find.
    fn elf(
        &mut self,
        found: Found,
        mut look: Look,
        mut loader: Loader,
        interpreter: Option<Vec<u8>>,
    ) -> Result<Loader, Errno> {
        let (process, locate) = (self.process, self.locate);
        if matches!(loader, Loader::None(_)) && loader::is_dynamic_loader(&self.name) {
            loader = loader::name_program(process, &self.name, &mut self.image, locate)?;
        } else if let Some(interpreter) = interpreter
            && let Some(own) = self.for_kernel(&interpreter)
        {
            // Of the copy the kernel would not say so.
            if !look::is_executable(&found.host) {
                return Err(Errno::EACCES);
            }
            may_execute(look.file.raw())?;
            let place = match found.seen {
                Some(path) => path,
                None => culvert_run::descriptor_path(look.file.raw())?,
            };
            self.image.path = interpreter::with_interpreter(process, &look, &own, &place)?;
            self.image.shadow = None;
            self.image.arguments.clone_from(&self.arguments);
            self.shown = Some(place);
            look = Look::open(&self.image.path)?;
        }
        if loader == Loader::Glibc {
            self.room = static_tls::wanted(process, &look);
        }
        let shortage = |limits: &Limits| limits.shortage(&look, &process.library);
        self.image.hindrance = self.limits.as_ref().and_then(shortage);
        Ok(loader)
    }

    /// The path by which the kernel finds the interpreter that a program calls `path`, if that is
    /// another one.
    fn for_kernel(&self, path: &[u8]) -> Option<CString> {
        let host = self.by_kernel(path)?.host;
        (host.to_bytes() != path).then_some(host)
    }

    /// Where the kernel finds the interpreter that a program calls `path`.
    fn by_kernel(&self, path: &[u8]) -> Option<Found> {
        let found = (self.locate)(path).and_then(|program| self.found(program));
        found.ok()
    }

    /// Completes the image of the program that execve calls `path`, which gets the library by
    /// `loader`.
    pub fn complete(&mut self, path: &[u8], loader: Loader) -> Result<Loader, Errno> {
        let copy = match loader {
            Loader::Glibc => look::library_copy(),
            _ => None,
        };
        // Who finds the copy need not find the library.
        let loader = match copy {
            Some(_) => loader,
            None => permitted(self.process, path, loader)?,
        };
        let own = match loader {
            // It is not intercepted, and would hand it on.
            Loader::None(_) => OwnFile::default(),
            _ => OwnFile {
                given: (self.image.path.to_bytes() != path).then(|| path.to_vec()),
                shown: self.shown.take(),
            },
        };
        let extras = Extras {
            room: self.room,
            said: self.said,
            own,
            copy,
        };
        let environment = core::mem::take(&mut self.environment);
        environment::extend(self.process, &mut self.image, environment, loader, &extras)?;
        self.image.environment.push(0);
        self.image.arguments.push(0);
        Ok(loader)
    }
}

/// How the program at `path` gets the library, where `loader` was found for it: EACCES where it
/// would not get it, and must not start so.
fn permitted(process: &Process, path: &[u8], loader: Loader) -> Result<Loader, Errno> {
    let why = match loader {
        Loader::None(why) => why,
        _ if look::library_is_there(process) => return Ok(loader),
        // A loader that finds no library would start the program without it.
        _ => Why::NoLibrary,
    };
    let refusal = match process.flags & STRICT != 0 {
        true => Some("so --strict does not let it start"),
        false => {
            // It would take the machine's files for those below its root.
            let root = process.mounts.root();
            root.map(|_| "so it is not started below a root directory on a mount")
        }
    };
    match refusal {
        Some(because) => {
            notice::mounts_are_lost(path, why.reason(), because);
            Err(Errno::EACCES)
        }
        None => Ok(Loader::None(why)),
    }
}
