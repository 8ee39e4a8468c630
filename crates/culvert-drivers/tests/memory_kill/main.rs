//! kill -9 at any store: the file system in shared memory stays consistent.
//!
//! A process that has the driver does one operation, stepped by instructions. Behind each of its
//! stores into the shared file the file is copied: the copy is what a process killed there leaves
//! behind, as nobody alive holds a lock on it. Another user opens the copy, which recovers it,
//! finds the tree as it was before the operation or as it is after it, nothing lost and nothing
//! twice, and can work with it.
//!
//! `cargo test -p culvert-drivers --test memory_kill -- WORD...` takes the operations whose names
//! hold one of the words.

mod operations;
mod stepper;
mod tree;

use culvert::{FileSystem, mount::Mount, testing::caller};
use culvert_drivers::Environment;
use operations::{ALL, Operation};
use std::{
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    time::Instant,
};
use stepper::{Step, Stepped};

/// A place for one test's files, in memory.
struct Place(PathBuf);

impl Place {
    fn new() -> Self {
        let base = match Path::new("/dev/shm").is_dir() {
            true => PathBuf::from("/dev/shm"),
            false => std::env::temp_dir(),
        };
        let place = base.join(format!("culvert-kill-{}", std::process::id()));
        std::fs::create_dir_all(&place).expect("there is room for a directory");
        Self(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn bytes(path: &Path) -> Vec<u8> {
    path.as_os_str().as_encoded_bytes().to_vec()
}

fn mount(source: Vec<u8>) -> Mount {
    Mount {
        driver: "memory".into(),
        source,
        target: b"/m".to_vec(),
        options: vec![("size".into(), b"16m".to_vec())],
        branches: Vec::new(),
    }
}

fn open(image: &Path) -> Box<dyn FileSystem> {
    culvert_drivers::open(&mount(bytes(image)), &Environment::default())
        .unwrap_or_else(|error| panic!("it cannot be opened: {error}"))
}

/// The directory of the files of their own beside an image.
fn files_of(image: &Path) -> PathBuf {
    let mut path = image.as_os_str().to_owned();
    path.push(".files");
    path.into()
}

/// Makes `copy` what `image` is, with all that lies beside it: false while the stepped process
/// looks whether somebody has one of the files open, which is no store.
fn copy_all(image: &Path, copy: &Path) -> bool {
    const O_NONBLOCK: i32 = 0o4000;
    std::fs::copy(image, copy).expect("there is room for a copy");
    let (from, to) = (files_of(image), files_of(copy));
    let _ = std::fs::remove_dir_all(&to);
    std::fs::create_dir(&to).expect("there is room for a directory");
    for file in std::fs::read_dir(from).expect("it was made with the image") {
        let file = file.expect("nobody else is here");
        let from = std::fs::OpenOptions::new()
            .read(true)
            .custom_flags(O_NONBLOCK)
            .open(file.path());
        let mut from = match from {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return false,
            from => from.expect("nobody else is here"),
        };
        let mut to = std::fs::File::create(to.join(file.file_name())).expect("it is ours");
        std::io::copy(&mut from, &mut to).expect("there is room for a copy");
    }
    true
}

/// An image on which the operation can begin.
fn image(place: &Path, operation: &Operation) -> PathBuf {
    let directory = bytes(place);
    let environment = Environment {
        run_directory: Some(&directory),
        ..Environment::default()
    };
    let prepared = culvert_drivers::prepare(&mount(b"memory".to_vec()), &environment, &mut |_| {})
        .unwrap_or_else(|error| panic!("no file system: {error}"));
    let image = PathBuf::from(String::from_utf8(prepared.mount.source).expect("our own name"));
    (operation.setup)(&*open(&image));
    image
}

/// What is wrong with the image at `path`, of which the tree may be one of `states`, or lie between
/// two that follow each other.
fn wrong(path: &Path, states: &[tree::Tree], partial: bool) -> Option<String> {
    let checked = |when: &str| match culvert_drivers::memory::testing::check(&bytes(path)) {
        Ok(found) if found.is_empty() => None,
        Ok(found) => Some(format!("{when}:\n  {}", found.join("\n  "))),
        Err(error) => Some(format!("{when}: {error}")),
    };
    let fs = open(path);
    let now = match tree::read(&*fs) {
        Ok(now) => now,
        Err(error) => return Some(format!("the tree cannot be read: {error}")),
    };
    let steps = states.windows(2);
    let differences = steps.map(|two| tree::is_between(&two[0], &now, &two[1], partial).err());
    let differences: Option<Vec<_>> = differences.collect();
    if let Some(differences) = differences {
        let text = differences.join("\n  or\n");
        return Some(format!("neither before nor after:\n{text}"));
    }
    drop(fs);
    if let Some(wrong) = checked("after recovery") {
        return Some(wrong);
    }
    let fs = open(path);
    let who = &caller();
    let dir = fs
        .mkdir(who, fs.root(), b"after", 0o755)
        .unwrap()
        .attributes
        .node;
    let file = operations::make(&*fs, dir, "file", &[b'x'; 9000]);
    assert_eq!(file.append(&mut &b"y"[..]).unwrap(), (9000, 1));
    drop(file);
    fs.unlink(who, dir, b"file").unwrap();
    fs.rmdir(who, fs.root(), b"after").unwrap();
    if tree::read(&*fs).unwrap() != now {
        return Some("it cannot be worked with".into());
    }
    drop(fs);
    checked("after work")
}

/// Steps through one operation; returns how many stores it has, and what was wrong where.
fn step_through(place: &Path, operation: &Operation) -> (usize, Vec<String>) {
    let image = image(place, operation);
    let copy = place.join("copy");
    let before = tree::read(&*open(&image)).expect("it is whole");
    // The states after: the same, done at once.
    assert!(copy_all(&image, &copy));
    let states = {
        let fs = open(&copy);
        let mut begun = (operation.begin)(&*fs);
        let mut states = vec![before];
        for run in operation.run {
            run(&*fs, &mut begun);
            states.push(tree::read(&*fs).expect("it is whole"));
        }
        states
    };
    let name = image.file_name().expect("it has one").to_string_lossy();
    let mut stepped = Stepped::start(&name, || {
        let fs = open(&image);
        let mut begun = (operation.begin)(&*fs);
        move || {
            operation.run.iter().for_each(|run| run(&*fs, &mut begun));
            // What ends is the process, not the mount.
            std::mem::forget((fs, begun));
        }
    });
    let (mut stores, mut found) = (0, Vec::new());
    while stepped.next() == Step::Changed {
        stores += 1;
        if !copy_all(&image, &copy) {
            continue;
        }
        if let Some(wrong) = wrong(&copy, &states, operation.partial) {
            found.push(format!(
                "{}: killed behind store {stores}, at {:#x}: {wrong}",
                operation.name,
                stepped.place()
            ));
        }
    }
    stepped.finish();
    if let Some(wrong) = wrong(&image, &states[states.len() - 2..], operation.partial) {
        found.push(format!("{}: killed when done: {wrong}", operation.name));
    }
    std::fs::remove_file(&image).expect("it is ours");
    std::fs::remove_dir_all(files_of(&image)).expect("it is ours");
    (stores, found)
}

fn main() {
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with('-'))
        .collect();
    let place = Place::new();
    let (mut total, mut failed) = (0, 0);
    let begun = Instant::now();
    for operation in ALL {
        let wanted = words.is_empty() || words.iter().any(|word| operation.name.contains(word));
        if !wanted {
            continue;
        }
        let (stores, found) = step_through(&place.0, operation);
        println!("{}: {stores} stores, {} wrong", operation.name, found.len());
        for wrong in found.iter().take(3) {
            println!("{wrong}");
        }
        total += stores;
        failed += found.len();
        assert!(
            stores > 0 || operation.name == "nothing",
            "{}: nothing was stored: this test tests nothing",
            operation.name
        );
    }
    println!("{total} stores in {:.1?}", begun.elapsed());
    drop(place);
    assert_eq!(failed, 0, "see above");
}
