//! The conformance kit on the examples, in each place: loaded with the libc of this process, as a
//! host loads them, and without one, as programs do.

use culvert::mount::Mount;
use culvert::testing::{Failure, Tree, reading, writing};
use culvert::{Caller, Errno, FileSystem, OpenFlags};
use culvert_drivers::Environment;
use std::{
    collections::BTreeMap,
    fs,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// A directory that goes when it is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Relaxed);
        let name = format!("culvert-examples-{}-{number}", std::process::id());
        let path = Path::new("/dev/shm").join(name);
        fs::create_dir(&path).expect("ours");
        fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).expect("ours");
        Self(path)
    }

    /// Runs a shell script in it.
    #[track_caller]
    fn sh(&self, script: &str) {
        let mut shell = Command::new("sh");
        let done = shell.args(["-ec", script]).current_dir(&self.0).status();
        assert!(done.expect("a shell").success(), "{script}");
    }

    /// The C example `name`, compiled here.
    fn compiled(&self, name: &str) -> PathBuf {
        self.sh(&format!(
            "cc -std=gnu11 -O2 -Wall -Wextra -Werror -shared -fPIC \
             -I {ROOT}/crates/culvert-library/include -o {name}.so {ROOT}/examples/c/{name}.c; \
             chmod 755 {name}.so"
        ));
        self.0.join(format!("{name}.so"))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Whether a library is loaded with a libc.
#[derive(Clone, Copy, Debug)]
enum Place {
    Host,
    Process,
}

fn opened(place: Place, library: &Path, source: &Path) -> Box<dyn FileSystem> {
    opened_with(place, library, source, "")
}

/// The same with an option, where `option` names one.
fn opened_with(place: Place, library: &Path, source: &Path, option: &str) -> Box<dyn FileSystem> {
    let (name, value) = option.split_once('=').unwrap_or((option, ""));
    let options = Some((name.to_owned(), value.as_bytes().to_vec()));
    let mount = Mount {
        driver: library.to_str().expect("a name of ours").into(),
        source: source.as_os_str().as_bytes().to_vec(),
        target: b"/mnt".to_vec(),
        options: options.filter(|_| !option.is_empty()).into_iter().collect(),
        branches: Vec::new(),
    };
    let environment = Environment {
        library: match place {
            Place::Host => Some(culvert_library::open),
            Place::Process => None,
        },
        ..Environment::default()
    };
    culvert_drivers::open(&mount, &environment).expect("it is one of ours")
}

/// Where the libraries lie that this test, started once more as an ordinary user, is to try.
const LIBRARIES: &str = "CULVERT_EXAMPLES";

/// As an ordinary user: whoever asks, the kernel judges the process, and root's may do anything.
#[test]
fn directories_in_c_pass_the_kit_in_each_place() {
    // SAFETY: sets a number of the process: modes are what the kit says.
    unsafe { culvert_sys::syscall::raw(culvert_sys::nr::UMASK, [0; 6]) };
    let scratch = Scratch::new();
    let Some(libraries) = std::env::var_os(LIBRARIES).map(PathBuf::from) else {
        let (mirror, direct) = (scratch.compiled("mirror"), scratch.compiled("direct"));
        drop((mirror, direct));
        if culvert_sys::process::geteuid() != 0 {
            return try_all(&scratch, &scratch.0);
        }
        let copy = scratch.0.join("tests");
        fs::copy(std::env::current_exe().expect("this one"), &copy).expect("ours");
        let mut again = Command::new("setpriv");
        again.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]);
        again
            .arg(&copy)
            .arg("directories_in_c")
            .env(LIBRARIES, &scratch.0);
        let done = again.current_dir("/").output().expect("setpriv(1)");
        let said = String::from_utf8_lossy(&done.stdout);
        assert!(
            done.status.success() && said.contains(" 1 passed"),
            "{said}"
        );
        return;
    };
    try_all(&scratch, &libraries);
}

fn try_all(scratch: &Scratch, libraries: &Path) {
    scratch.sh(
        "mkdir -p tree/a/b tree/empty; cd tree; echo hello > a/hello; : > a/nothing; seq 1 50000 \
        > a/b/n; \
         truncate -s 1M sparse; printf x >> sparse; ln -s ../hello a/b/soft; ln a/hello same; \
         i=0; while [ $i -lt 300 ]; do echo $i > empty/$i; i=$((i+1)); done",
    );
    let tree = Tree::of_directory(&scratch.0.join("tree")).expect("made above");
    let all = [
        ("mirror", Place::Host, ""),
        ("direct", Place::Host, ""),
        // The kernel's own tree, and by each function.
        ("direct", Place::Process, ""),
        ("direct", Place::Process, "calls"),
    ];
    for (name, place, option) in all {
        println!("{name} {place:?} {option}");
        let library = libraries.join(format!("{name}.so"));
        let read = opened_with(place, &library, &scratch.0.join("tree"), option);
        reading(&*read, &tree).assert_ok();
        let count = AtomicUsize::new(0);
        let fresh = || {
            let number = count.fetch_add(1, Relaxed);
            let source = scratch
                .0
                .join(format!("{name}.{place:?}.{option}.{number}"));
            fs::create_dir(&source).expect("ours");
            fs::set_permissions(&source, PermissionsExt::from_mode(0o755)).expect("ours");
            opened_with(place, &library, &source, option)
        };
        writing(&fresh).assert_ok();
    }
}

/// One whose content counts how often it was opened.
#[test]
fn an_example_with_a_state_passes_the_kit_in_a_host() {
    let scratch = Scratch::new();
    let hello = scratch.compiled("hello");
    let tree = Tree::new()
        .file("hello", "Hello, none! (1)\n")
        .permissions(0o444);
    let mut report = reading(&*opened(Place::Host, &hello, Path::new("none")), &tree);
    // Each open has a content of its own, whose size nobody knows before.
    let of_a_count = [
        ("attributes", "/hello: size: 0"),
        ("attributes-agree", "/hello open: "),
        ("content", "/hello"),
        ("seek", "/hello: from 0: a hole"),
        ("threads", "/hello: other bytes"),
    ];
    let is_known = |failure: &Failure| {
        let mut known = of_a_count.iter();
        known.any(|(rule, part)| *rule == failure.rule && failure.what.contains(part))
    };
    report.failures.retain(|failure| !is_known(failure));
    report.assert_ok();
}

/// The maps of an extension, as a driver in a mount has them from the kernel: `hidden`, of `MOST`
/// entries.
#[derive(Default)]
struct Maps(Mutex<BTreeMap<Vec<u8>, Vec<u8>>>);

/// Of keys and values, bytes.
const SIZES: [usize; 2] = [64, 4];
const MOST: usize = 2;

fn fits(map: &str, key: &[u8], value: Option<&[u8]>) -> culvert::Result<()> {
    match map {
        "hidden" if key.len() != SIZES[0] || value.is_some_and(|value| value.len() != SIZES[1]) => {
            Err(Errno::EINVAL.into())
        }
        "hidden" => Ok(()),
        _ => Err(Errno::ENXIO.into()),
    }
}

impl culvert::Maps for Maps {
    fn sizes(&self, map: &str) -> culvert::Result<[usize; 2]> {
        fits(map, &[0; 64], None).map(|()| SIZES)
    }

    fn get(&self, map: &str, key: &[u8], value: &mut [u8]) -> culvert::Result<()> {
        fits(map, key, Some(value))?;
        let kept = self.0.lock().expect("no panic");
        value.copy_from_slice(kept.get(key).ok_or(Errno::ENOENT)?);
        Ok(())
    }

    fn put(&self, map: &str, key: &[u8], value: &[u8]) -> culvert::Result<()> {
        fits(map, key, Some(value))?;
        let mut kept = self.0.lock().expect("no panic");
        if kept.len() == MOST && !kept.contains_key(key) {
            return Err(Errno::E2BIG.into());
        }
        kept.insert(key.to_vec(), value.to_vec());
        Ok(())
    }

    fn remove(&self, map: &str, key: &[u8]) -> culvert::Result<()> {
        fits(map, key, None)?;
        let removed = self.0.lock().expect("no panic").remove(key);
        removed.map(drop).ok_or_else(|| Errno::ENOENT.into())
    }

    fn next(&self, map: &str, key: Option<&[u8]>, next: &mut [u8]) -> culvert::Result<()> {
        fits(map, next, None)?;
        let kept = self.0.lock().expect("no panic");
        let mut behind = kept
            .keys()
            .filter(|kept| key.is_none_or(|key| &kept[..] > key));
        next.copy_from_slice(behind.next().ok_or(Errno::ENOENT)?);
        Ok(())
    }
}

/// `text` is written to the file that chooses what is hidden.
fn write(filesystem: &dyn FileSystem, text: &[u8]) -> culvert::Result<usize> {
    let file = curtain(filesystem)?;
    file.write_at(0, &mut &text[..])
}

fn curtain(filesystem: &dyn FileSystem) -> culvert::Result<Box<dyn culvert::File>> {
    let (caller, root) = (Caller::SYSTEM, filesystem.root());
    let found = filesystem.lookup(&caller, root, b"curtain")?;
    match filesystem.open(&caller, found.attributes.node, OpenFlags(O_RDWR))? {
        culvert::Opened::Driven(file) => Ok(file),
        _ => Err(Errno::EIO.into()),
    }
}

const O_RDWR: u32 = 2;

/// What is there with an extension, and without one, in C as in Rust; the rest is the kernel's:
/// tests/kernel/parts.sh.
#[test]
fn a_driver_in_c_changes_the_maps_of_its_extension() {
    let scratch = Scratch::new();
    let library = scratch.compiled("curtain");
    let open = || opened_with(Place::Host, &library, Path::new("none"), "hide=mars");
    let errno = |done: culvert::Result<usize>| done.map_err(|error| error.errno());
    assert_eq!(errno(write(&*open(), b"venus")), Err(Errno::EOPNOTSUPP));

    let (filesystem, maps) = (open(), Arc::new(Maps::default()));
    filesystem.extended(maps.clone()).expect("the maps fit");
    let kept = || {
        let kept = maps.0.lock().expect("no panic");
        let names = kept.keys().map(|key| {
            let end = key.iter().position(|byte| *byte == 0);
            String::from_utf8_lossy(&key[..end.expect("not full")]).into_owned()
        });
        names.collect::<Vec<_>>()
    };
    assert_eq!(kept(), ["mars"]);
    assert_eq!(errno(write(&*filesystem, b"venus\n")), Ok(6));
    assert_eq!(kept(), ["mars", "venus"]);
    assert_eq!(errno(write(&*filesystem, b"earth\n")), Err(Errno::E2BIG));
    let mut read = [0; 64];
    let got = curtain(&*filesystem)
        .expect("there")
        .read_at(0, &mut &mut read[..]);
    assert_eq!(&read[..got.expect("readable")], b"mars\nvenus\n");
    assert_eq!(errno(write(&*filesystem, b"-mars\n")), Ok(6));
    assert_eq!(errno(write(&*filesystem, b"-mars\n")), Err(Errno::ENOENT));
    assert_eq!(kept(), ["venus"]);
}

/// The example in Rust is a crate of its own, as an author's is.
#[test]
fn a_driver_in_a_crate_of_its_own_passes_the_kit_in_each_place() {
    let (scratch, example) = (Scratch::new(), format!("{ROOT}/examples/planets"));
    let target = format!("{ROOT}/target/examples");
    scratch.sh(&format!(
        "cd {example} && {} build --quiet --offline --release --target-dir {target}",
        env!("CARGO")
    ));
    let library = scratch.0.join("libplanets.so");
    fs::copy(format!("{target}/release/libplanets.so"), &library).expect("just built");
    fs::set_permissions(&library, PermissionsExt::from_mode(0o755)).expect("ours");
    let mut tree = Tree::new();
    for (name, moons) in [("earth", "1\n"), ("mars", "2\n"), ("venus", "0\n")] {
        tree = tree.file(name, moons).permissions(0o444);
    }
    for place in [Place::Host, Place::Process] {
        reading(&*opened(place, &library, Path::new("none")), &tree).assert_ok();
    }
}

/// What the page on drivers shows is what is built.
#[test]
fn the_page_shows_the_example() {
    let page = fs::read_to_string(format!("{ROOT}/docs/writing-a-driver.md")).expect("there");
    for file in ["Cargo.toml", "src/lib.rs"] {
        let shown = fs::read_to_string(format!("{ROOT}/examples/planets/{file}")).expect("there");
        assert!(
            page.contains(shown.trim_end()),
            "{file} is not on the page as it is"
        );
    }
}

/// The reason why a library with a libc runs in a host: see what is compiled here.
#[test]
fn a_libc_in_a_namespace_of_its_own_calls_the_programs_malloc() {
    let scratch = Scratch::new();
    fs::write(
        scratch.0.join("touch.c"),
        "static __thread int count[4096];\nint touch(void) { return ++count[7]; }\n",
    )
    .expect("ours");
    scratch.sh(&format!(
        "cc -shared -fPIC -o touch.so touch.c; \
         cc -O1 -pthread -fno-builtin -o program {ROOT}/crates/culvert-library/tests/namespaces.c \
         -ldl"
    ));
    let mut program = Command::new(scratch.0.join("program"));
    let done = program.arg(scratch.0.join("touch.so")).status();
    assert_eq!(done.expect("just built").code(), Some(3));
}
