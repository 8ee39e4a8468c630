//! `culvert run`: prepares the mounts, makes the run directory and becomes the program.

use crate::{
    arguments::Run,
    cover,
    failure::{Failure, NOT_EXECUTABLE, path, shown},
    mounts, prepare,
    program::{self, Environment},
    run_directory::{self, Held, Inherited},
    verdict,
};
use culvert::mount::Mount;
use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// Becomes the program; comes back only with the reason why not.
pub fn run(run: Run) -> Failure {
    match start(run) {
        Ok(never) => match never {},
        Err(failure) => failure,
    }
}

fn start(run: Run) -> Result<std::convert::Infallible, Failure> {
    let library = library()?;
    let inherited = run_directory::inherited()?.unwrap_or_default();
    let added = mounts::resolve(run.mounts, &inherited.mounts)?;
    // What cannot be run is found out before an index is built for minutes.
    let unseen = if inherited.intercepted {
        &[][..]
    } else {
        &inherited.mounts
    };
    let name = &run.command[0];
    let on_mount = may_lie_on_mount(name, unseen.iter().chain(&added));
    let (program, arguments) = match (program::find(name), on_mount) {
        (Ok(found), false) => {
            warn(verdict::of_program(&found).err(), run.strict)?;
            (found, run.command)
        }
        (Err(failure), false) if unseen.is_empty() && added.is_empty() => return Err(failure),
        // Only an intercepted process sees what is on the mount: culvert itself, started again, looks there.
        _ => inside(run.command, run.strict)?,
    };
    let flags = u8::from(run.strict) | u8::from(run.no_patch) << 1;
    let directory = run_directory::create()?;
    let outcome = serve(&directory, added, &inherited, run.private)
        .and_then(|()| environment(&directory, &library, flags, inherited.intercepted))
        .map(|environment| program::execute(&program, &arguments, &environment));
    directory.discard();
    Err(outcome.unwrap_or_else(|failure| failure))
}

/// Makes the sources of the mounts `added` ready and says in the run directory what is mounted, after what is `inherited`.
fn serve(
    directory: &Held,
    added: Vec<Mount>,
    inherited: &Inherited,
    private: Option<bool>,
) -> Result<(), Failure> {
    let mut all = inherited.mounts.clone();
    for mut mount in added {
        if mounts::lies_on(&mount, &inherited.mounts).is_some() {
            prepare::copy_source(&mut mount, &directory.path, all.len())?;
        }
        all.push(prepare::prepare(&mount, &directory.path)?);
    }
    directory.write_mounts(&all)?;
    match private {
        Some(false) => Ok(()),
        asked => cover::cover(&all[inherited.mounts.len()..], asked.is_some()),
    }
}

/// Prints why a program is not intercepted, or refuses it (126) when `strict`.
fn warn(why: Option<String>, strict: bool) -> Result<(), Failure> {
    match why {
        None => Ok(()),
        Some(why) if strict => Err(Failure::new(why)
            .status(NOT_EXECUTABLE)
            .advice("it would not see the mounts; without --strict it runs anyway")),
        Some(why) => {
            eprintln!("culvert: warning: {why}; it will not see the mounts");
            Ok(())
        }
    }
}

/// Whether `name` can mean something on one of `mounts`: its own path, or a directory of PATH.
fn may_lie_on_mount<'a>(name: &OsStr, mounts: impl Iterator<Item = &'a Mount> + Clone) -> bool {
    let within = |place: &Path| {
        let place = std::path::absolute(place).unwrap_or_default();
        mounts
            .clone()
            .any(|mount| place.starts_with(path(&mount.target)))
    };
    match name.as_bytes().contains(&b'/') {
        true => within(Path::new(name)),
        false => program::search_path()
            .iter()
            .any(|directory| within(directory)),
    }
}

/// The command that looks for `command` from inside the run.
fn inside(command: Vec<OsString>, strict: bool) -> Result<(PathBuf, Vec<OsString>), Failure> {
    let own = own_path()?;
    let mut arguments: Vec<OsString> = vec![own.clone().into(), crate::INSIDE.into()];
    if strict {
        arguments.push("--strict".into());
    }
    arguments.push("--".into());
    arguments.extend(command);
    Ok((own, arguments))
}

/// The second half of [`start`] for programs on a mount: this process is part of the run and sees the mounts.
pub fn continue_inside(run: Run) -> Failure {
    let found = program::find(&run.command[0]).and_then(|found| {
        warn(verdict::of_program(&found).err(), run.strict)?;
        Ok(found)
    });
    match found {
        Ok(found) => program::execute(&found, &run.command, &std::env::vars_os().collect()),
        Err(failure) => failure,
    }
}

/// Our environment with what makes a process part of the run in `directory`; where we are `intercepted` ourselves, exec adds the library.
fn environment(
    directory: &Held,
    library: &Path,
    flags: u8,
    intercepted: bool,
) -> Result<Environment, Failure> {
    let mut environment: Environment = std::env::vars_os().collect();
    environment.retain(|(name, _)| name != "CULVERT_RUN");
    if !intercepted {
        let audit = audit(library, std::env::var_os("LD_AUDIT"))?;
        environment.retain(|(name, _)| name != "LD_AUDIT");
        environment.push(("LD_AUDIT".into(), audit));
    }
    // As culvert_preload::start reads it: path, lock descriptor, flags (1: strict, 2: no patching).
    let mut value = directory.path.clone().into_os_string();
    value.push(format!(":{}:{flags}", directory.lock));
    environment.push(("CULVERT_RUN".into(), value));
    Ok(environment)
}

/// The value of LD_AUDIT: `library` first, then the auditors that are there already.
fn audit(library: &Path, present: Option<OsString>) -> Result<OsString, Failure> {
    let mut audit = library.as_os_str().to_owned();
    if audit.as_bytes().contains(&b':') {
        return Err(Failure::new(format!(
            "{}: LD_AUDIT cannot name a path with a colon",
            shown(library)
        ))
        .advice("install culvert in another directory"));
    }
    for other in present
        .unwrap_or_default()
        .as_bytes()
        .split(|&byte| byte == b':')
    {
        if !other.is_empty() && other != library.as_os_str().as_bytes() {
            audit.push(":");
            audit.push(OsStr::from_bytes(other));
        }
    }
    Ok(audit)
}

/// This command's own file.
pub fn own_path() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(|error| {
        Failure::new(format!("cannot tell where culvert itself lies: {error}"))
            .advice("/proc must be mounted")
    })
}

/// libculvert.so: beside the command, or in ../lib/culvert from there.
pub fn library() -> Result<PathBuf, Failure> {
    let own = own_path()?;
    let here = own.parent().unwrap_or(Path::new("/"));
    let places = [
        here.join("libculvert.so"),
        here.join("../lib/culvert/libculvert.so"),
    ];
    for place in &places {
        if let Ok(found) = std::fs::canonicalize(place) {
            return Ok(found);
        }
    }
    Err(Failure::new(format!(
        "libculvert.so is missing: neither {} nor {}",
        shown(&places[0]),
        shown(&places[1])
    ))
    .advice("install it beside the culvert command, or build both: cargo build --release"))
}
