//! The user's images of rewritten code (docs/design/images.md): what no process can use any more is
//! removed when a run begins.
//!
//! A store is removed while programs run its code: their mappings keep the files. What a store
//! loses is made again by whoever misses it.

use culvert_intercept::images;
use culvert_launch::stores::{MOST as STORES, NAME, is_store};
use culvert_run::filters;
use std::{
    fs,
    os::unix::{ffi::OsStrExt, fs::DirBuilderExt},
    path::{Path, PathBuf},
    time::SystemTime,
};

/// The file that names the boot of which the images are.
const BOOT: &str = "boot";
/// `TMPFS_MAGIC` (include/uapi/linux/magic.h).
const TMPFS: i64 = 0x0102_1994;

/// Removes the stores in `base` that are of an earlier boot, after which another file system may
/// have a device's number, those that are spent, and the oldest of more than [`STORES`].
pub fn tidy(base: &Path) {
    let directory = base.join(NAME);
    // Through no link, and nothing but stores.
    if !fs::symlink_metadata(&directory).is_ok_and(|found| found.is_dir()) {
        return;
    }
    let (mut stores, mut boot) = (Vec::new(), None);
    for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
        match entry.file_name().as_bytes() {
            name if name == BOOT.as_bytes() => boot = fs::read_to_string(entry.path()).ok(),
            name if is_store(name) => stores.push(entry.path()),
            _ => {}
        }
    }
    if !is_forgotten_at_boot(&directory) {
        let now = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        if boot.as_deref() != Some(now.as_str()) && fs::write(directory.join(BOOT), now).is_ok() {
            stores.drain(..).for_each(remove);
        }
    }
    stores.retain(|store| {
        let is_spent = culvert_intercept::images::is_spent(store.as_os_str().as_bytes());
        if is_spent {
            remove(store.clone());
        }
        !is_spent
    });
    if stores.len() > STORES {
        let age = |store: &PathBuf| {
            // The index is read at each start.
            fs::metadata(store.join("index")).and_then(|found| found.accessed())
        };
        stores.sort_by_key(|store| age(store).unwrap_or(SystemTime::UNIX_EPOCH));
        let many = stores.len() - STORES;
        stores.drain(..many).for_each(remove);
    }
}

/// Makes the directory of the stores in a base that has none.
pub fn begin(base: &Path) {
    let made = fs::DirBuilder::new().mode(0o700).create(base.join(NAME));
    if made.is_ok() {
        tidy(base);
    }
}

/// Finds out, in a run that is begun under seccomp filters, whether images can be made under them:
/// in a child, as one of the filters may end it. The run directory `run` says it to its programs.
pub fn rehearse(run: &Path) {
    if !culvert_sys::process::is_filtered() {
        return;
    }
    let Some(count) = filters::count() else {
        return;
    };
    let scratch = run.join("rehearsal");
    if fs::DirBuilder::new().mode(0o700).create(&scratch).is_err() {
        return;
    }
    if in_child(|| images::rehearse(scratch.as_os_str().as_bytes().to_vec().leak()).is_ok()) {
        // Who does not find it makes none.
        let _ = fs::write(run.join(filters::FILE), count.to_string());
    }
    let _ = fs::remove_dir_all(&scratch);
}

/// Whether `attempt` succeeds in a child, which leaves no signal behind and no core.
fn in_child(attempt: impl FnOnce() -> bool) -> bool {
    use culvert_sys::{nr, process, syscall};
    const WALL: usize = 0x4000_0000;
    // SAFETY: as fork(2), without a signal at the end. This process has one thread.
    match unsafe { syscall::call(nr::CLONE, [0; 6]) } {
        Err(_) => false,
        Ok(0) => {
            let none = rustix::process::Rlimit {
                current: Some(0),
                maximum: Some(0),
            };
            let _ = rustix::process::setrlimit(rustix::process::Resource::Core, none);
            process::exit_group(i32::from(!attempt()))
        }
        Ok(child) => {
            let mut status = 0_i32;
            let place = &raw mut status as usize;
            loop {
                // SAFETY: the kernel writes the status.
                match unsafe { syscall::call(nr::WAIT4, [child, place, WALL, 0]) } {
                    Err(culvert_sys::Errno::EINTR) => {}
                    waited => return waited == Ok(child) && status == 0,
                }
            }
        }
    }
}

/// A program that finds half of a store has its code patched in place.
fn remove(store: PathBuf) {
    let _ = fs::remove_dir_all(store);
}

/// Whether the file system of `directory` is in memory.
fn is_forgotten_at_boot(directory: &Path) -> bool {
    rustix::fs::statfs(directory).is_ok_and(|found| found.f_type == TMPFS)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory of its own on the disk, removed at the end.
    struct Base(PathBuf);

    impl Base {
        fn new(name: &str, stores: usize) -> Self {
            let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
            let base = target.join(format!("stored-images-{name}-{}", std::process::id()));
            for store in 0..stores {
                let store = base.join(NAME).join(format!("{store:016x}"));
                fs::create_dir_all(store.join("libc-1")).unwrap();
                fs::write(store.join("index"), "index").unwrap();
            }
            Self(base)
        }

        fn stores(&self) -> usize {
            let entries = fs::read_dir(self.0.join(NAME)).unwrap().flatten();
            entries
                .filter(|entry| is_store(entry.file_name().as_bytes()))
                .count()
        }
    }

    impl Drop for Base {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn images_of_another_boot_are_removed() {
        let base = Base::new("boot", 2);
        if is_forgotten_at_boot(&base.0) {
            return; // a tree in memory
        }
        tidy(&base.0);
        assert_eq!(base.stores(), 0, "nobody knows of which boot they are");
        fs::create_dir(base.0.join(NAME).join("00000000000000aa")).unwrap();
        tidy(&base.0);
        assert_eq!(base.stores(), 1);
        fs::write(base.0.join(NAME).join(BOOT), "another").unwrap();
        tidy(&base.0);
        assert_eq!(base.stores(), 0);
    }

    #[test]
    fn nothing_but_stores_is_removed() {
        let base = Base::new("other", 0);
        let other = base.0.join("other");
        fs::create_dir_all(other.join("0123456789abcdef")).unwrap();
        std::os::unix::fs::symlink(&other, base.0.join(NAME)).unwrap();
        tidy(&base.0);
        assert!(other.join("0123456789abcdef").exists(), "behind a link");
        fs::remove_file(base.0.join(NAME)).unwrap();
        fs::create_dir_all(base.0.join(NAME).join("notes")).unwrap();
        tidy(&base.0);
        assert!(base.0.join(NAME).join("notes").exists());
    }

    #[test]
    fn few_stores_stay() {
        let base = Base::new("many", 0);
        fs::create_dir_all(base.0.join(NAME)).unwrap();
        tidy(&base.0);
        for store in 0..STORES + 3 {
            fs::create_dir(base.0.join(NAME).join(format!("{store:016x}"))).unwrap();
        }
        tidy(&base.0);
        assert_eq!(base.stores(), STORES);
    }
}
