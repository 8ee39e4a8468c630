//! The same paths by AVFS itself, behind the kernel.

use crate::tools::{Place, find, listing, text};
use culvert::FileKind;
use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::Command,
};

/// AVFS, mounted; none where it is not installed, or may not be mounted.
struct Avfs(PathBuf);

impl Avfs {
    fn new(place: &Place) -> Option<Self> {
        let at = place.path("../avfs");
        fs::create_dir_all(&at).unwrap();
        let started = Command::new("avfsd").arg(&at).status();
        let mounted =
            started.is_ok_and(|status| status.success()) && at.join("#avfsstat/version").exists();
        mounted.then_some(Self(at))
    }

    fn path(&self, path: &Path) -> PathBuf {
        self.0.join(path.strip_prefix("/").unwrap())
    }
}

impl Drop for Avfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn paths_lead_where_avfs_leads() {
    let place = Place::new();
    let Some(avfs) = Avfs::new(&place) else {
        return;
    };
    let culvert = place.open();
    for path in [
        "x.tgz#",
        "x.tgz#ugz",
        "x.tgz#ugz#utar",
        "x.tgz#/d",
        "x.tgz#/d/n",
        "x.tgz#/nothing",
        "x.tgz#utar",
        "x.tar#",
        "x.tar#utar/d/n",
        "link#",
        "n#",
        "n.gz#",
        "n.gz#ugz",
        "n.bz2#",
        "n.xz#",
        "n.lzma#",
        "n.Z#",
        "n.zst#uzstd",
        "d#",
        "missing#",
        "y.zip#",
        "y.zip#uzip/d/n",
        "y.zip#/x.tgz#/d/n",
        "w.zip#/y.zip#/x.tgz#/d",
        "a.a#uar/n",
        "a#b",
        "x.tgz#nobody",
    ] {
        let theirs = avfs.path(&place.path(path));
        let ours = find(&*culvert, path);
        let Ok(status) = fs::metadata(&theirs) else {
            // AVFS takes a file for what it is called, and a link has no ending; of what GNU's
            // ar writes it shows nothing.
            let is_better = ["link#", "a.a#uar/n"].contains(&path);
            assert!(ours.is_err() || is_better, "{path}: AVFS has none");
            continue;
        };
        let (_, found) = ours.unwrap_or_else(|errno| panic!("{path}: {errno}"));
        let is_directory = found.kind == FileKind::Directory;
        assert_eq!(is_directory, status.is_dir(), "{path}");
        assert_eq!(found.permissions, status.mode() & 0o7777, "{path}: mode");
        assert_eq!(
            (found.uid, found.gid),
            (status.uid(), status.gid()),
            "{path}"
        );
        match is_directory {
            true => {
                let entries = fs::read_dir(&theirs).unwrap();
                let names = entries.map(|entry| entry.unwrap().file_name());
                let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
                names.sort();
                assert_eq!(listing(&*culvert, path), names, "{path}");
            }
            false => {
                let want = fs::read(&theirs).unwrap();
                let ours = text(&*culvert, path).unwrap();
                assert!(ours.as_bytes() == want, "{path}: content");
            }
        }
    }
}
