//! From the mounts as typed to mounts that can be served: types found, paths absolute and checked.

use crate::{
    bindings, branches,
    failure::{Failure, path, reason, shown},
    shared_object,
};
use culvert::mount::{Mount, Request, is_library, is_url};
use culvert_drivers::{Source, binding};
use std::{
    fs, io,
    os::unix::ffi::OsStrExt,
    os::unix::fs::FileTypeExt,
    path::{Component, Path, PathBuf},
};

/// The mounts that `requests` ask for, to be added to those of the run that this process is part
/// of, if any (`inherited`).
pub fn resolve(requests: Vec<Request>, inherited: &[Mount]) -> Result<Vec<Mount>, Failure> {
    let typed: Vec<_> = requests
        .iter()
        .map(|request| absolute(path(&request.target)))
        .collect::<Result<_, _>>()?;
    let mut mounts: Vec<Mount> = Vec::new();
    for (index, request) in requests.into_iter().enumerate() {
        let others = typed
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != index);
        let covering = inherited
            .iter()
            .map(|mount| path(&mount.target))
            .chain(others.map(|(_, target)| target.as_path()));
        let (target, missing) = target(&typed[index], covering.collect::<Vec<_>>().as_slice())?;
        for directory in missing {
            let directory = directory.into_os_string().into_encoded_bytes();
            if !mounts.iter().any(|other| other.target == directory) {
                mounts.push(empty_directory(directory));
            }
        }
        let target = target.into_os_string().into_encoded_bytes();
        let mount = served(request, target)?;
        mount
            .check()
            .map_err(|error| Failure::new(error.to_string()))?;
        let on_itself = |leaf: &Mount| {
            leaf.source == leaf.target && source_kind(leaf) == Some(Source::Directory)
        };
        if mount.leaves().into_iter().any(on_itself) {
            return Err(Failure::new(format!(
                "source and target are the same directory {}",
                shown(path(&mount.target))
            ))
            .advice("give another target; the directory itself is there without a mount"));
        }
        if mounts.iter().any(|other| other.target == mount.target) {
            return Err(Failure::new(format!(
                "two mounts have the target {}",
                shown(path(&mount.target))
            )));
        }
        mounts.push(mount);
    }
    Ok(mounts)
}

/// What stands for a directory that a target lies in and that does not exist: nothing is in it but
/// that.
fn empty_directory(target: Vec<u8>) -> Mount {
    Mount {
        driver: "memory".to_owned(),
        source: b"memory".to_vec(),
        target,
        options: vec![("ro".to_owned(), Vec::new())],
        branches: Vec::new(),
    }
}

/// The one of `mounts` that the source of `mount` lies on, the innermost.
pub fn lies_on<'a>(mount: &Mount, mounts: &'a [Mount]) -> Option<&'a Mount> {
    mounts
        .iter()
        .filter(|other| path(&mount.source).starts_with(path(&other.target)))
        .max_by_key(|other| other.target.len())
}

/// Makes the source of `mount`, a directory on the mount `outer` of the run that we are in, the
/// kernel's directory that it is there.
pub fn source_behind(mount: &mut Mount, outer: &Mount) -> Result<(), Failure> {
    // What the kernel has bound there it finds itself.
    if binding::is_bound(outer) {
        return Ok(());
    }
    let source = path(&mount.source);
    if !binding::may_be_bound(outer) || outer.read_only() && !mount.read_only() {
        return Err(Failure::new(format!(
            "source {} lies on the mount {}, which is not simply a directory of the kernel's",
            shown(source),
            shown(path(&outer.target))
        ))
        .advice("serve a directory outside of it, or copy this one there"));
    }
    let below = source
        .strip_prefix(path(&outer.target))
        .expect("found by this prefix");
    let behind = path(&outer.source).join(below);
    mount.source = behind.into_os_string().into_encoded_bytes();
    while mount.source.last() == Some(&b'/') && mount.source.len() > 1 {
        mount.source.pop();
    }
    Ok(())
}

/// What the source of `mount` is, as its driver declares.
pub fn source_kind(mount: &Mount) -> Option<Source> {
    culvert_drivers::declared(mount).map(|declared| declared.source)
}

/// `typed` from the root, its dots resolved by name where they lead nowhere yet.
fn absolute(typed: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(typed)
        .map_err(|error| Failure::new(format!("target {}: {}", shown(typed), reason(&error))))
}

/// The mount at `target` that `request` asks for, its sources canonical. Of several sources each is
/// a branch, whose driver is found from what it is.
pub fn served(mut request: Request, target: Vec<u8>) -> Result<Mount, Failure> {
    request = bindings::resolved(request, true)?;
    if let Some(driver) = request.driver.clone()
        && let Some(served) = shared_object::served_type(&driver)
    {
        // One without a source is named after its type.
        if request.source == driver.as_bytes() {
            request.source = served.clone().into_bytes();
        }
        let inside = served.strip_prefix("fuse.").map(Path::new);
        if inside.is_some_and(|library| library.starts_with(path(&target))) {
            let wrong = Failure::new(format!("type {driver}: it lies in the target"));
            return Err(wrong.advice("put it elsewhere"));
        }
        request.driver = Some(served);
    }
    if request
        .driver
        .as_deref()
        .is_some_and(culvert_drivers::fuse::is_served)
    {
        // Its source means something to the server alone.
        request.target = target;
        return Ok(request.into_mount(""));
    }
    if let Some(driver) = request.driver.take_if(|driver| is_library(driver)) {
        let target = path(&target).to_owned();
        return library(request, Path::new(&driver), &target);
    }
    let declared = request
        .driver
        .as_deref()
        .and_then(culvert_drivers::declared_by);
    let kind = declared.map(|declared| declared.source);
    let more = std::mem::take(&mut request.more_sources);
    if !kind.is_some_and(Source::has_branches) {
        if !more.is_empty() {
            let failure = Failure::new(match &request.driver {
                Some(driver) => format!("type {driver} serves one source, not {}", more.len() + 1),
                None => "several sources need a type that makes one file system of them".to_owned(),
            });
            return Err(failure.advice("give each source a mount and a target of its own"));
        }
        let (source, driver) = source(&request)?;
        request.source = source.into_os_string().into_encoded_bytes();
        request.target = target;
        return Ok(request.into_mount(driver));
    }
    if let Some(Source::Options { branches, paths }) = kind {
        return branches::listed(request, target, (branches, paths), &served);
    }
    let expanded = |source: &[u8]| Ok(culvert_drivers::union::expanded(source));
    let (branches, modes) = branches::of(&request, &target, &expanded, &served)?;
    if modes.iter().any(|mode| !mode.is_empty()) {
        request.options.push(("modes".into(), modes.join(&b':')));
    }
    let shown: Vec<_> = branches.iter().map(|branch| &branch.source[..]).collect();
    request.source = shown.join(&b':');
    request.target = target;
    Ok(Mount {
        branches,
        ..request.into_mount("")
    })
}

/// The mount at `target` that `request` asks for, by the library at `typed`.
fn library(mut request: Request, typed: &Path, target: &Path) -> Result<Mount, Failure> {
    let wrong = |why: String| Failure::new(format!("type {}: {why}", shown(typed)));
    let found = fs::canonicalize(typed).map_err(|error| {
        wrong(reason(&error)).advice("a type with a slash is the path of a library")
    })?;
    if found.starts_with(target) {
        return Err(wrong("it lies in the target".into()).advice("put it elsewhere"));
    }
    let found = found.into_os_string().into_string();
    let found = found.map_err(|_| wrong("its path is not UTF-8".into()))?;
    if !request.more_sources.is_empty() {
        return Err(wrong("a library has one source".into()));
    }
    // What is no path means something to the library alone.
    if let Ok(source) = fs::canonicalize(path(&request.source)) {
        request.source = source.into_os_string().into_encoded_bytes();
    }
    request.target = target.as_os_str().as_bytes().to_vec();
    request.driver = Some(found);
    Ok(request.into_mount(""))
}

/// The source of `request`, canonical, and the driver for it: the one asked for, which can serve
/// what the source is, or the one found from that.
fn source(request: &Request) -> Result<(PathBuf, &'static str), Failure> {
    let typed = path(&request.source);
    let wrong = |error: io::Error| {
        let failure = Failure::new(format!("source {}: {}", shown(typed), reason(&error)));
        match error.kind() {
            io::ErrorKind::NotFound if is_url(&request.source) => {
                failure.advice("that is a URL, not a path: download it first, and name the file")
            }
            io::ErrorKind::NotFound => failure.advice("give a directory or a file that is there"),
            io::ErrorKind::PermissionDenied => failure.advice("give one that you may read"),
            _ => failure,
        }
    };
    let driver = match request.driver.as_deref() {
        Some(name) => culvert_drivers::find(name),
        // Whatever it is, it is for the script.
        None if crate::extfs::is_asked(&request.options) => culvert_drivers::find("archive"),
        None => culvert_drivers::detect(&request.source),
    };
    let name = match driver {
        Ok(driver) => driver.name,
        Err(error) if request.driver.is_none() => {
            return Err(wrong(io::Error::from_raw_os_error(error.errno().raw())));
        }
        Err(error) => return Err(Failure::new(error.to_string())),
    };
    let serves = culvert_drivers::declared_by(name).map(|declared| declared.source);
    if serves == Some(Source::Name) {
        return Ok((typed.to_path_buf(), name));
    }
    let canonical = fs::canonicalize(typed).map_err(wrong)?;
    let kind = fs::metadata(&canonical).map_err(wrong)?.file_type();
    let what = if kind.is_dir() {
        "a directory"
    } else if kind.is_file() {
        "a file"
    } else if kind.is_fifo() {
        "a pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    };
    let wrong = |wanted: &str| {
        let source = shown(&canonical);
        Failure::new(format!("source {source} is {what}, not {wanted}"))
    };
    match serves {
        Some(Source::Directory) if !kind.is_dir() => {
            Err(wrong("a directory").advice(match kind.is_file() {
                true => format!("type {name} serves a directory; give the one that holds the file"),
                false => format!("type {name} serves a directory"),
            }))
        }
        Some(Source::File(wanted)) if !kind.is_file() => {
            let other = culvert_drivers::detect(&request.source);
            Err(wrong(wanted).advice(match (kind.is_dir(), other) {
                (true, Ok(other)) => format!("a directory is served by type {}", other.name),
                _ => format!("type {name} reads at any place, so it must be a regular file"),
            }))
        }
        _ => Ok((canonical, name)),
    }
}

/// `target`, canonical: an empty directory, or a name that does not exist, or anything below one of
/// `covering`; and the directories above it that do not exist either.
fn target(typed: &Path, covering: &[&Path]) -> Result<(PathBuf, Vec<PathBuf>), Failure> {
    const WANTED: &str = "give an empty directory or a name that does not exist yet";
    let wrong = |why: String| Failure::new(format!("target {}: {why}", shown(typed)));
    let (mut existing, mut rest) = (typed.to_path_buf(), Vec::new());
    let canonical = loop {
        match fs::canonicalize(&existing) {
            Ok(canonical) => break canonical,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if existing.symlink_metadata().is_ok() {
                    return Err(wrong(format!(
                        "{} is a link that leads nowhere",
                        shown(&existing)
                    )));
                }
                match existing.components().next_back() {
                    Some(Component::Normal(name)) => rest.push(name.to_owned()),
                    _ => return Err(wrong("\"..\" below a directory that does not exist".into())),
                }
                existing.pop();
            }
            Err(error) => {
                let failure = wrong(reason(&error));
                return Err(match error.kind() {
                    io::ErrorKind::PermissionDenied => {
                        failure.advice("give one below directories that you may search")
                    }
                    io::ErrorKind::NotADirectory => failure.advice(WANTED),
                    _ => failure,
                });
            }
        }
    };
    let target = rest
        .iter()
        .rev()
        .fold(canonical.clone(), |path, name| path.join(name));
    if target.as_os_str().as_bytes() == b"/" {
        return Err(wrong("the root directory cannot be covered".into()));
    }
    if !canonical.is_dir() {
        return Err(wrong("not a directory".into()).advice(WANTED));
    }
    let inside = covering
        .iter()
        .any(|outer| target.starts_with(outer) && target != *outer);
    if inside {
        return Ok((target, Vec::new()));
    }
    match rest.len() {
        0 => {
            let mut entries = fs::read_dir(&canonical).map_err(|error| wrong(reason(&error)))?;
            match entries.next() {
                None => Ok((target, Vec::new())),
                Some(_) => Err(wrong("the directory is not empty".into()).advice(WANTED)),
            }
        }
        missing => {
            let mut above: Vec<_> = target.ancestors().skip(1).take(missing - 1).collect();
            above.reverse();
            let above = above.into_iter().map(Path::to_path_buf).collect();
            Ok((target, above))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Self {
            let place =
                std::env::temp_dir().join(format!("culvert-mounts-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&place);
            fs::create_dir_all(place.join("empty")).unwrap();
            fs::create_dir_all(place.join("full")).unwrap();
            fs::write(place.join("full/file"), b"x").unwrap();
            fs::write(place.join("a.tar"), b"x").unwrap();
            std::os::unix::fs::symlink("empty", place.join("link")).unwrap();
            std::os::unix::fs::symlink("nowhere", place.join("dangling")).unwrap();
            Self(fs::canonicalize(place).unwrap())
        }
        fn ask(&self, source: &str, target: &str) -> Request {
            let full = |name: &str| self.0.join(name).into_os_string().into_encoded_bytes();
            Request::new(None, &full(source), &full(target), Vec::new()).unwrap()
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn targets_are_empty_directories_or_new_names() {
        let place = Place::new("targets");
        for (typed, want) in [
            ("empty", "empty"),
            ("empty/", "empty"),
            ("link", "empty"),
            ("new", "new"),
            ("full/../new", "new"),
            ("link/new", "empty/new"),
            ("./empty/./new", "empty/new"),
        ] {
            let mounts = resolve(vec![place.ask("a.tar", typed)], &[]).unwrap();
            assert_eq!(path(&mounts[0].target), place.0.join(want), "{typed}");
            assert_eq!(path(&mounts[0].source), place.0.join("a.tar"));
            assert_eq!(mounts[0].driver, "archive");
        }
        let mounts = resolve(vec![place.ask("full", "empty")], &[]).unwrap();
        assert_eq!(path(&mounts[0].source), place.0.join("full"));
        assert_eq!(mounts[0].driver, "passthrough");
    }

    #[test]
    fn directories_that_do_not_exist_are_empty_ones() {
        let place = Place::new("missing");
        let asked = [
            place.ask("a.tar", "x/y/z"),
            place.ask("full", "x/y/other"),
            place.ask("full", "x/y"),
        ];
        let targets = |asked: &[Request]| -> Vec<_> {
            let mounts = resolve(asked.to_vec(), &[]).unwrap();
            let of = |mount: &Mount| {
                path(&mount.target)
                    .strip_prefix(&place.0)
                    .unwrap()
                    .to_owned()
            };
            mounts
                .iter()
                .map(|mount| (of(mount), mount.driver.clone()))
                .collect()
        };
        let want = |list: &[(&str, &str)]| -> Vec<_> {
            list.iter()
                .map(|(target, driver)| (PathBuf::from(target), driver.to_string()))
                .collect()
        };
        let above = [("x", "memory"), ("x/y", "memory")];
        let both = [("x/y/z", "archive"), ("x/y/other", "passthrough")];
        assert_eq!(targets(&asked[..2]), want(&[above, both].concat()));
        let covered = [both[0], both[1], above[0], ("x/y", "passthrough")];
        assert_eq!(targets(&asked), want(&covered));
    }

    #[test]
    fn bad_mounts_say_why() {
        let place = Place::new("bad");
        for (source, target, want) in [
            ("a.tar", "full", "the directory is not empty"),
            ("a.tar", "a.tar", "not a directory"),
            ("a.tar", "dangling", "a link that leads nowhere"),
            ("a.tar", "x/../y", "\"..\" below a directory"),
            ("a.tar", "full/file/x", "Not a directory"),
            ("missing.tar", "new", "No such file or directory"),
        ] {
            let failure = resolve(vec![place.ask(source, target)], &[]).unwrap_err();
            let message = failure.to_string();
            assert!(message.contains(want), "{source} {target}: {message}");
            assert!(message.contains(place.0.to_str().unwrap()), "{message}");
        }
        let device = Request {
            source: b"/dev/null".to_vec(),
            ..place.ask("a.tar", "new")
        };
        assert!(
            resolve(vec![device], &[])
                .unwrap_err()
                .to_string()
                .contains("is a device")
        );
        let mut unknown = place.ask("a.tar", "new");
        unknown.driver = Some("floppy".into());
        let message = resolve(vec![unknown], &[]).unwrap_err().to_string();
        assert!(
            message.contains("no driver \"floppy\"") && message.contains("archive"),
            "{message}"
        );
    }

    #[test]
    fn mounts_may_lie_in_mounts_but_not_on_each_other() {
        let place = Place::new("nested");
        let outer = place.ask("a.tar", "new");
        let inner = place.ask("a.tar", "new/deep/inside");
        let mounts = resolve(vec![inner.clone(), outer.clone()], &[]).unwrap();
        assert_eq!(path(&mounts[0].target), place.0.join("new/deep/inside"));
        assert!(resolve(vec![inner], &mounts[1..]).is_ok());
        let twice = resolve(vec![outer.clone(), place.ask("a.tar", "full/../new")], &[]);
        assert!(twice.unwrap_err().to_string().contains("two mounts"));
    }
}
