//! Finding the program that a command names, as execvp(3) does, and starting it.

use crate::failure::{Failure, NOT_EXECUTABLE, NOT_FOUND, reason, shown};
use rustix::fs::{Access, access};
use std::{
    ffi::{CString, OsStr, OsString},
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// Where programs are looked for when there is no PATH (execvp(3), confstr(_CS_PATH)).
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// The file that `name` means: itself when it has a slash, else the first one in PATH that can be
/// executed.
///
/// Status 127 when there is none, 126 when there is one that may not be executed.
pub fn find(name: &OsStr) -> Result<PathBuf, Failure> {
    if name.is_empty() {
        return Err(missing(name, "an empty name"));
    }
    if name.as_bytes().contains(&b'/') {
        return executable(Path::new(name))
            .map(|()| name.into())
            .map_err(|error| refused(name, &error));
    }
    let mut denied = None;
    for directory in search_path() {
        let candidate = directory.join(name);
        match executable(&candidate) {
            Ok(()) => return Ok(candidate),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && candidate.exists() => {
                denied = denied.or(Some((candidate, error)));
            }
            Err(_) => {}
        }
    }
    match denied {
        Some((candidate, error)) => Err(refused(candidate.as_os_str(), &error)),
        None => Err(missing(name, "no such program in PATH")),
    }
}

/// The directories of PATH; an empty entry is the working directory.
pub fn search_path() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into());
    let here = |directory: PathBuf| {
        if directory.as_os_str().is_empty() {
            ".".into()
        } else {
            directory
        }
    };
    std::env::split_paths(&path).map(here).collect()
}

fn executable(path: &Path) -> io::Result<()> {
    access(path, Access::EXEC_OK)?;
    // Directories have the x bit too; execve says EACCES for them.
    if std::fs::metadata(path)?.is_file() {
        Ok(())
    } else {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}

fn missing(name: &OsStr, why: &str) -> Failure {
    let failure = Failure::new(format!("cannot run \"{}\": {why}", shown(name)));
    let failure = match name.as_encoded_bytes().contains(&b':') {
        true => failure.advice("a mount is named by -v SOURCE:TARGET before the program"),
        false => failure,
    };
    failure.status(NOT_FOUND)
}

fn refused(name: &OsStr, error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::NotFound => missing(name, &reason(error)),
        io::ErrorKind::PermissionDenied => {
            let why = match std::fs::metadata(name) {
                Ok(found) if found.is_dir() => "it is a directory".into(),
                Ok(found) if found.is_file() => "it is not executable (no x permission)".into(),
                _ => reason(error),
            };
            Failure::new(format!("cannot run {}: {why}", shown(name))).status(NOT_EXECUTABLE)
        }
        _ => Failure::new(format!("cannot run {}: {}", shown(name), reason(error)))
            .status(NOT_EXECUTABLE),
    }
}

/// An environment, in its order.
pub type Environment = Vec<(OsString, OsString)>;

/// Becomes `program`; comes back only with the reason why not. Signal mask and dispositions pass
/// unchanged, unlike with `std::process::Command`, which resets them.
pub fn execute(program: &Path, arguments: &[OsString], environment: &Environment) -> Failure {
    let error = exec(program, arguments, environment);
    if error.raw_os_error() == Some(culvert_sys::Errno::ENOEXEC.raw()) {
        // A script without "#!" is given to the shell (execvp(3)).
        let mut shell: Vec<OsString> = vec!["/bin/sh".into(), program.into()];
        shell.extend_from_slice(&arguments[1..]);
        if is_text(program) {
            return refused(
                program.as_os_str(),
                &exec(Path::new("/bin/sh"), &shell, environment),
            );
        }
    }
    let interpreter_is_missing = error.kind() == io::ErrorKind::NotFound && program.exists();
    if interpreter_is_missing {
        return Failure::new(format!(
            "cannot run {}: its interpreter does not \
            exist",
            shown(program)
        ))
        .advice(
            "a script names it after \"#!\", a binary in its PT_INTERP; see: culvert \
                doctor -- COMMAND",
        )
        .status(NOT_EXECUTABLE);
    }
    refused(program.as_os_str(), &error)
}

/// Whether the file has no NUL byte in its first block: bash's test for a script.
fn is_text(program: &Path) -> bool {
    use std::io::Read;
    let mut block = Vec::new();
    let read = std::fs::File::open(program).and_then(|file| file.take(512).read_to_end(&mut block));
    read.is_ok() && !block.contains(&0)
}

fn exec(program: &Path, arguments: &[OsString], environment: &Environment) -> io::Error {
    let c_string = |bytes: &[u8]| CString::new(bytes).map_err(io::Error::other);
    let strings = || -> io::Result<_> {
        let program = c_string(program.as_os_str().as_bytes())?;
        let arguments = arguments
            .iter()
            .map(|word| c_string(word.as_bytes()))
            .collect::<io::Result<Vec<_>>>()?;
        let variables = environment
            .iter()
            .map(|(name, value)| c_string(&[name.as_bytes(), b"=", value.as_bytes()].concat()))
            .collect::<io::Result<Vec<_>>>()?;
        Ok((program, arguments, variables))
    };
    let (program, arguments, variables) = match strings() {
        Ok(strings) => strings,
        Err(error) => return error,
    };
    let error = culvert_sys::process::execve(&program, &arguments, &variables);
    io::Error::from_raw_os_error(error.raw())
}
