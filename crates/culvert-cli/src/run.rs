//! `culvert run`: prepares the mounts, makes the run directory and becomes the program.

use crate::{
    cover,
    failure::{Failure, NOT_EXECUTABLE, path, reason, shown},
    file_size_signal, fuse,
    inherited::{self, Inherited},
    library_copy, logs, mounts, prepare,
    program::{self, Environment},
    run_directory::{self, RunDirectory},
    save, stored_images,
    umask::OwnerRights,
    verdict::{self, Kind, Refusal, Verdict},
};
use culvert::mount::{Mount, Request};
use culvert_drivers::Source;
use culvert_preload::{exec::limits, notice};
use culvert_run::{NO_PATCH, OUTSIDE, ROOT, STRICT};
use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// The words of `culvert run`.
#[derive(Debug, Default)]
pub struct Run {
    /// The mounts, in the order given.
    pub mounts: Vec<Request>,
    /// Refuse (126) what cannot be intercepted instead of warning.
    pub strict: bool,
    /// How many bytes of mapped files the run may hold in memory.
    pub page_memory: Option<u64>,
    /// The mount's target that is to be the root directory.
    pub root: Option<PathBuf>,
    /// Load the library but rewrite no instruction: for debuggers.
    pub no_patch: bool,
    /// Whether targets are covered in a private mount namespace; None: where it costs no privilege.
    pub private: Option<bool>,
    /// The program and its arguments; never empty.
    pub command: Vec<OsString>,
}

/// Becomes the program; comes back only with the reason why not.
pub fn run(run: Run) -> Failure {
    match start(run) {
        Ok(never) => match never {},
        Err(failure) => failure,
    }
}

fn start(mut run: Run) -> Result<std::convert::Infallible, Failure> {
    let library = library()?;
    let _kept = save::take(&mut run.mounts, &mut run.command)?;
    let inherited = inherited::inherited()?.unwrap_or_default();
    let added = mounts::resolve(run.mounts, &inherited.mounts)?;
    // What cannot be run is found out before an index is built for minutes.
    let unseen = if inherited.intercepted {
        &[][..]
    } else {
        &inherited.mounts
    };
    let name = &run.command[0];
    let mounts = || unseen.iter().chain(&added);
    let mut refusal = None;
    // Where we are intercepted ourselves, exec adds the library.
    let mut carrier = (!inherited.intercepted).then_some(Carrier::Audit);
    let mut joins = true;
    let mut file = None;
    let found = match run.root {
        Some(_) => None,
        None => find(name, mounts)?,
    };
    let (program, arguments) = match found {
        Some((found, verdict)) => {
            if matches!(verdict, Ok((_, Kind::Preloaded))) && carrier.is_some() {
                carrier = Some(Carrier::Preload);
            }
            // Who has more rights than we is not told what to see, nor is what it starts.
            joins = !verdict.as_ref().is_err_and(verdict::is_privileged);
            file = verdict.as_ref().ok().cloned();
            refusal = refused(verdict.err(), run.strict)?;
            if refusal.is_some() {
                carrier = carrier.and(Some(Carrier::HandedOn));
            }
            (found, run.command)
        }
        // Only an intercepted process sees what is on the mount: culvert itself, started again,
        // looks there.
        None => inside(run.command, run.strict, run.root.as_deref())?,
    };
    // What is not intercepted itself stands in no mount.
    let outside = !inherited.intercepted;
    if let Some((file, _)) = &file
        && let Some(why) =
            limits::shortage(file.as_os_str().as_bytes(), library.as_os_str().as_bytes())
    {
        let name = shown(&program);
        return Err(Failure::new(format!(
            "{name} is not started, for it would not see its mounts: {why}"
        )));
    }
    let flag = |flag, is_set| if is_set { flag } else { 0 };
    let flags = flag(STRICT, run.strict)
        | flag(NO_PATCH, run.no_patch)
        | flag(OUTSIDE, outside)
        | flag(ROOT, run.root.is_some());
    let matters = !added.is_empty() || !inherited.mounts.is_empty();
    let ignored = (file_size_signal::Ignored::new(), OwnerRights::new());
    let directory = run_directory::create()?;
    stored_images::rehearse(&directory.path);
    let outcome = serve(&directory, added, &inherited, run.private)
        .and_then(|()| match run.page_memory {
            Some(bytes) => directory.write_page_memory(bytes),
            None => Ok(()),
        })
        .and_then(|()| match joins {
            true => environment(&directory, &library, flags, carrier),
            false => Ok(own_environment()),
        })
        .map(|environment| {
            drop(ignored);
            if let Some(Refusal {
                name,
                reason,
                remedy,
                ..
            }) = refusal
                && matters
            {
                let run = directory.path.as_os_str().as_bytes();
                notice::say(Some(run), name.as_bytes(), &reason, remedy);
            }
            program::execute(&program, &arguments, &environment)
        });
    directory.discard();
    Err(outcome.unwrap_or_else(|failure| failure))
}

/// Makes the sources of the mounts `added` ready and says in the run directory what is mounted,
/// after what is `inherited`.
fn serve(
    directory: &RunDirectory,
    added: Vec<Mount>,
    inherited: &Inherited,
    private: Option<bool>,
) -> Result<(), Failure> {
    let (mut all, mut copies) = (inherited.mounts.clone(), 0);
    for mut mount in added {
        let place = fuse::Place::take(&mut mount)?;
        let is_served = fuse::is_served(&mount.driver);
        for leaf in mount.leaves_mut().into_iter().filter(|_| !is_served) {
            if let Some(outer) = mounts::lies_on(leaf, &inherited.mounts) {
                copies += 1;
                match mounts::source_kind(leaf) {
                    Some(Source::Directory) => mounts::source_behind(leaf, outer)?,
                    _ => prepare::copy_source(leaf, &directory.path, copies)?,
                }
            }
        }
        if place == fuse::Place::Host {
            let enter = |place: &RunDirectory, flags, preloaded| {
                let carrier = match preloaded {
                    true => Carrier::Preload,
                    false => Carrier::Audit,
                };
                let carrier = (!inherited.intercepted).then_some(carrier);
                environment(place, &library()?, flags, carrier)
            };
            all.push(fuse::start(&mount, directory, inherited, &enter)?);
            continue;
        }
        all.push(prepare::prepare(&mount, &directory.path, false)?);
    }
    logs::note_idle(&mut all[inherited.mounts.len()..]);
    if private != Some(false) {
        cover::cover(&mut all[inherited.mounts.len()..], private.is_some())?;
    }
    logs::start(&all[inherited.mounts.len()..], &directory.path)?;
    let outer = inherited.mounts.len();
    directory.write_mounts(&all)?;
    // Who changes that file for a server that is started again finds it.
    for mount in &all[..outer] {
        fuse::inherits(mount, &directory.path);
    }
    if !all[..outer].iter().any(culvert_run::restarts::is_restarted) {
        return Ok(());
    }
    // Such a one may have changed the outer run's meanwhile, and have looked for others before; and
    // from now on it may change the file itself.
    let _turn = fuse::turn_of(&directory.path);
    let (mut written, mut changed) = (directory.read_mounts()?, false);
    loop {
        let now = inherited::inherited()?.unwrap_or_default().mounts;
        for mount in now.iter().filter(|mount| !written.contains(mount)) {
            fuse::inherits(mount, &directory.path);
        }
        match joined(now, &written) {
            Some(all) => (written, changed) = (all, true),
            None if changed => return directory.write_mounts(&written),
            None => return Ok(()),
        }
    }
}

/// The mounts `outer`, and behind them what a run of its own has `written`; none: that is so
/// already.
fn joined(outer: Vec<Mount>, written: &[Mount]) -> Option<Vec<Mount>> {
    if outer.iter().all(|mount| written.contains(mount)) {
        return None;
    }
    let own = written.iter().filter(|mount| !outer.contains(mount));
    let own: Vec<Mount> = own.cloned().collect();
    Some(outer.into_iter().chain(own).collect())
}

/// The program that `name` means, and how it is started. None: `mounts`, which this process does
/// not see, have a say in it.
fn find<'a, I: Iterator<Item = &'a Mount>>(
    name: &OsStr,
    mounts: impl Fn() -> I,
) -> Result<Option<(PathBuf, Verdict)>, Failure> {
    let on_mount = |place: &Path| {
        let place = std::path::absolute(place).unwrap_or_default();
        mounts().any(|mount| place.starts_with(path(&mount.target)))
    };
    let searched = match name.as_bytes().contains(&b'/') {
        true => vec![PathBuf::from(name)],
        false => program::search_path(),
    };
    if searched.iter().any(|place| on_mount(place)) {
        return Ok(None);
    }
    match program::find(name) {
        // A link may lead to a mount.
        Err(_) if mounts().next().is_some() => Ok(None),
        Err(failure) => Err(failure),
        Ok(found) => match verdict::of_program(&found) {
            Err(refusal) if on_mount(&refusal.file) => Ok(None),
            verdict => Ok(Some((found, verdict))),
        },
    }
}

/// Refuses a program that is not intercepted (126) when `strict`.
fn refused(refusal: Option<Refusal>, strict: bool) -> Result<Option<Refusal>, Failure> {
    match refusal {
        Some(refusal) if strict => Err(Failure::new(refusal.message())
            .status(NOT_EXECUTABLE)
            .advice(format!(
                "it would not see the mounts; without --strict it runs anyway; {}",
                refusal.remedy
            ))),
        refusal => Ok(refusal),
    }
}

/// The command that looks for `command` from inside the run.
fn inside(
    command: Vec<OsString>,
    strict: bool,
    root: Option<&Path>,
) -> Result<(PathBuf, Vec<OsString>), Failure> {
    let own = own_path()?;
    let mut arguments: Vec<OsString> = vec![own.clone().into(), crate::INSIDE.into()];
    if strict {
        arguments.push("--strict".into());
    }
    if let Some(root) = root {
        arguments.extend(["--root".into(), root.into()]);
    }
    arguments.push("--".into());
    arguments.extend(command);
    Ok((own, arguments))
}

/// The second half of [`start`] for programs on a mount: this process is part of the run and sees
/// the mounts.
pub fn continue_inside(run: Run) -> Failure {
    let entered = run.root.as_deref().map_or(Ok(()), enter_root);
    let found = entered.and_then(|()| program::find(&run.command[0]));
    let found = found.and_then(|found| {
        // Where it is not refused, exec tells the user.
        refused(verdict::of_program(&found).err(), run.strict)?;
        Ok(found)
    });
    match found {
        Ok(found) => program::execute(&found, &run.command, &std::env::vars_os().collect()),
        Err(failure) => failure,
    }
}

/// Makes the mount at `target` the root directory, and goes there.
fn enter_root(target: &Path) -> Result<(), Failure> {
    let entered = rustix::process::chroot(target).and_then(|()| rustix::process::chdir("/"));
    entered.map_err(|errno| {
        let why = reason(&errno.into());
        Failure::new(format!("--root {}: {why}", shown(target)))
            .advice("name the target of a mount that is no directory passed through")
    })
}

/// How libculvert.so comes into the program.
#[derive(Clone, Copy, Debug)]
pub enum Carrier {
    /// glibc's ld.so: as an auditor, before any library.
    Audit,
    /// The same, of the programs that one starts which is not intercepted: it hands the list on.
    HandedOn,
    /// musl's, which has no auditors.
    Preload,
}

impl Carrier {
    fn variable(self) -> &'static str {
        match self {
            Self::Audit | Self::HandedOn => "LD_AUDIT",
            Self::Preload => "LD_PRELOAD",
        }
    }

    /// The value of the variable: `library` first, then what is `present` already.
    fn list(self, library: &Path, present: Option<OsString>) -> Result<OsString, Failure> {
        // ld.so(8): LD_AUDIT is separated by colons, LD_PRELOAD by blanks, too.
        let separators = match self {
            Self::Audit | Self::HandedOn => &b":"[..],
            Self::Preload => b": ",
        };
        let mut list = library.as_os_str().to_owned();
        if list.as_bytes().iter().any(|byte| separators.contains(byte)) {
            return Err(Failure::new(format!(
                "{} cannot hold the name {}: it has a colon or a blank",
                self.variable(),
                shown(library)
            ))
            .advice("install culvert in another directory"));
        }
        let present = present.unwrap_or_default();
        for other in present.as_bytes().split(|byte| separators.contains(byte)) {
            if !other.is_empty() && other != library.as_os_str().as_bytes() {
                list.push(":");
                list.push(OsStr::from_bytes(other));
            }
        }
        Ok(list)
    }
}

/// Our environment without any run.
fn own_environment() -> Environment {
    let all = std::env::vars_os();
    all.filter(|(name, _)| name != "CULVERT_RUN").collect()
}

/// Our environment with what makes a process part of the run in `directory`.
pub fn environment(
    directory: &RunDirectory,
    library: &Path,
    flags: u8,
    carrier: Option<Carrier>,
) -> Result<Environment, Failure> {
    let mut environment = own_environment();
    if let Some(carrier) = carrier {
        let list = carrier.list(library, std::env::var_os(carrier.variable()))?;
        let is_ours = |name: &OsString| {
            name == carrier.variable() || name.as_bytes() == culvert_run::library_copy::LIBRARY
        };
        environment.retain(|(name, _)| !is_ours(name));
        let copy = match carrier {
            Carrier::Audit => library_copy::copy(library),
            // A copy that goes meanwhile would cost each of those programs a line.
            Carrier::HandedOn | Carrier::Preload => None,
        };
        match copy {
            None => environment.push((carrier.variable().into(), list)),
            Some(copy) => {
                let library = library.as_os_str().as_bytes();
                let own = list.as_bytes().get(library.len() + 1..).unwrap_or_default();
                for entry in culvert_run::library_copy::entries(library, Some(&copy), own) {
                    let mut parts = entry.splitn(2, |&byte| byte == b'=').map(OsStr::from_bytes);
                    let mut next = || parts.next().unwrap_or_default().to_owned();
                    environment.push((next(), next()));
                }
            }
        }
    }
    let path = directory.path.as_os_str().as_bytes();
    let value = run_directory::variable(path, directory.lock, flags);
    let value = OsStr::from_bytes(&value).to_owned();
    environment.push(("CULVERT_RUN".into(), value));
    Ok(environment)
}

/// This command's own file.
pub fn own_path() -> Result<PathBuf, Failure> {
    let own = crate::own_path::own_path();
    own.map(Path::to_owned).map_err(|error| {
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
            return check_library(&found).map(|()| found);
        }
    }
    Err(Failure::new(format!(
        "libculvert.so is missing: neither {} nor {}",
        shown(&places[0]),
        shown(&places[1])
    ))
    .advice("install it beside the culvert command, or build both: cargo build --release"))
}

/// Refuses a library that ld.so could not map: it would say so, and start the program without.
fn check_library(library: &Path) -> Result<(), Failure> {
    let failed = |why: &str, advice: &str| {
        Failure::new(format!("{} cannot be loaded: {why}", shown(library))).advice(advice)
    };
    let file = std::fs::File::open(library).map_err(|error| {
        let why = crate::failure::reason(&error);
        failed(&why, "every user who runs programs must be able to read it")
    })?;
    let system = rustix::fs::fstatvfs(&file);
    let noexec = rustix::fs::StatVfsMountFlags::NOEXEC;
    match system.is_ok_and(|system| system.f_flag.contains(noexec)) {
        true => Err(failed(
            "it lies on a file system that is mounted noexec",
            "install culvert elsewhere, or remount that with exec",
        )),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_guardian_has_added_to_a_run_stays_behind_the_outer_ones() {
        let mount = |name: &str| Mount {
            driver: name.into(),
            source: Vec::new(),
            target: b"/m".to_vec(),
            options: Vec::new(),
            branches: Vec::new(),
        };
        let of = |names: &str| names.split(' ').map(mount).collect::<Vec<_>>();
        // Server 1 was started again as 2 in the outer run before that knew of this one, and as 3
        // in this one's file.
        let all = joined(of("1 x 2"), &of("1 x own 3"));
        assert_eq!(all, Some(of("1 x 2 own 3")));
        assert_eq!(joined(of("1 x 2"), &of("1 x 2 own 3")), None);
        assert_eq!(joined(of("1 x 2 3"), &of("1 x 2 own 3")), None);
    }

    #[test]
    fn the_library_comes_first_and_once() {
        let library = Path::new("/a/libculvert.so");
        for (present, want) in [
            (None, "/a/libculvert.so"),
            (Some("/a/libculvert.so"), "/a/libculvert.so"),
            (
                Some("/x.so::/a/libculvert.so:/y.so"),
                "/a/libculvert.so:/x.so:/y.so",
            ),
        ] {
            assert_eq!(
                Carrier::Audit
                    .list(library, present.map(OsString::from))
                    .unwrap(),
                want
            );
        }
        assert!(
            Carrier::Audit
                .list(Path::new("/a:b/libculvert.so"), None)
                .is_err()
        );
        assert!(
            Carrier::Audit
                .list(Path::new("/a b/libculvert.so"), None)
                .is_ok()
        );
        assert!(
            Carrier::Preload
                .list(Path::new("/a b/libculvert.so"), None)
                .is_err()
        );
    }
}
