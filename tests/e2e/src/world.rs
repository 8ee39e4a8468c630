//! What all tests of one run share: fixtures, compiled programs, the binaries under test.

use crate::fixture::{self, Tree};
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{self, ThreadId};

/// Name of the base directories in the temporary directory; the process id follows.
const PREFIX: &str = "culvert-e2e-";

/// How the native side gets its tree to the target path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Native {
    /// `unshare -m`, as root.
    BindAsRoot,
    /// `unshare` with a user namespace.
    BindAsUser,
    /// Neither is allowed here: the tree stays where it is, and its path is replaced in what is
    /// printed.
    InPlace,
}

/// The base directory of this run and what lies in it.
pub struct World {
    /// Directory of everything; anybody may enter it.
    pub base: PathBuf,
    /// The command under test, beside its library, where an ordinary user can reach it.
    pub culvert: PathBuf,
    /// What it is a copy of is the release build, not one that is quickly built.
    pub is_release: bool,
    /// How the native side is run.
    pub native: Native,
    /// Both sides native: tests the tests.
    pub only_native: bool,
    root: bool,
    programs: Mutex<HashMap<String, Arc<OnceLock<PathBuf>>>>,
    trees: Mutex<HashMap<String, Arc<OnceLock<Tree>>>>,
    claimed: Mutex<HashMap<String, ThreadId>>,
}

/// Root's directory for what lives as long as a login (XDG_RUNTIME_DIR): one in whose place nobody
/// else can put another, so that programs of root's are given a copy of the library, and those of
/// others, as in a directory that everybody may write in, none.
pub fn runtime() -> PathBuf {
    PathBuf::from(format!("/run/{PREFIX}{}", std::process::id()))
}

/// The world of this process, made at first use.
pub fn world() -> &'static World {
    static WORLD: OnceLock<World> = OnceLock::new();
    WORLD.get_or_init(World::new)
}

impl World {
    fn new() -> Self {
        let base = std::env::temp_dir().join(format!("{PREFIX}{}", std::process::id()));
        let _ = fs::remove_dir_all(&base);
        fs::create_dir_all(&base).expect("the temporary directory can be written");
        open_to_all(&base);
        remove_when_we_end(&base);
        for directory in [
            "mnt",
            "mnt2",
            "mnt22",
            "other",
            "trees",
            "programs",
            "bin",
            "work",
            "home",
            "home-nobody",
            "hostile",
            "mounts",
            "backing",
        ] {
            fs::create_dir(base.join(directory)).expect("the base directory is ours");
            open_to_all(&base.join(directory));
        }
        let root = fs::metadata(&base).expect("the base was just made").uid() == 0;
        if root {
            let runtime = runtime();
            let _ = fs::remove_dir_all(&runtime);
            let made = fs::DirBuilder::new().mode(0o700).create(&runtime);
            made.expect("root may write in /run");
            remove_when_we_end(&runtime);
        }
        fixture::outside(&base);
        let only_native = std::env::var_os("CULVERT_E2E_NATIVE").is_some();
        let culvert = base.join("bin/culvert");
        let mut is_release = false;
        if !only_native {
            let built = built_culvert();
            is_release = built
                .parent()
                .is_some_and(|place| place.ends_with("release"));
            for file in ["culvert", "culvert-full", "libculvert.so"] {
                let from = built.with_file_name(file);
                let to = base.join("bin").join(file);
                fs::copy(&from, &to).unwrap_or_else(|error| {
                    panic!(
                        "{}: {error}: run `cargo build --release` first, or name the command \
                        in CULVERT_BIN",
                        from.display()
                    )
                });
                open_to_all(&to);
            }
            copy_for_sources(&built, &base);
        }
        let native = native_way(root);
        Self {
            base,
            culvert,
            is_release,
            native,
            only_native,
            root,
            programs: Mutex::default(),
            trees: Mutex::default(),
            claimed: Mutex::default(),
        }
    }

    /// Whether the tests run as root, so that they can also run as somebody else.
    pub fn is_root(&self) -> bool {
        self.root
    }

    /// The path of `name` in the base directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.base.join(name)
    }

    /// The directory `below/name`, of this test alone.
    ///
    /// # Panics
    ///
    /// Where a test that runs beside this one has it: two that share a directory fail only now and
    /// then.
    pub fn claim(&self, below: &str, name: &str) -> PathBuf {
        let (me, path) = (thread::current().id(), self.path(below).join(name));
        let mut claimed = self.claimed.lock().expect("no panic under this lock");
        let owner = *claimed.entry(format!("{below}/{name}")).or_insert(me);
        drop(claimed);
        assert_eq!(owner, me, "two tests use {}", path.display());
        path
    }

    /// The program `programs/NAME.c`, compiled at first use: `NAME` dynamically, `NAME-static`
    /// statically linked, `NAME-musl` and `NAME-static-musl` likewise with musl (musl-gcc must be
    /// there). A name that ends in `.py`, `.sh`, `.bash` or `.zsh` is a script as it stands.
    pub fn program(&self, name: &str) -> PathBuf {
        let cell = self
            .programs
            .lock()
            .expect("no test panics here")
            .entry(name.to_owned())
            .or_default()
            .clone();
        cell.get_or_init(|| compile(name, &self.path("programs")))
            .clone()
    }

    /// The tree called `name`, see [`Tree::make`], made at first use.
    pub fn tree(&self, name: &str, owner: Option<u32>) -> Tree {
        let key = format!(
            "{name}{}",
            owner.map(|id| format!("-{id}")).unwrap_or_default()
        );
        let cell = self
            .trees
            .lock()
            .expect("no test panics here")
            .entry(key.clone())
            .or_default()
            .clone();
        cell.get_or_init(|| Tree::make(name, owner, &self.path("trees").join(key), &self.base))
            .clone()
    }
}

/// Compiles one test program.
fn compile(name: &str, directory: &Path) -> PathBuf {
    let output = directory.join(name);
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs");
    if [".py", ".sh", ".bash", ".zsh"]
        .iter()
        .any(|end| name.ends_with(end))
    {
        fs::copy(sources.join(name), &output).unwrap_or_else(|error| panic!("{name}: {error}"));
        open_to_all(&output);
        return output;
    }
    let (stem, compiler) = match name.strip_suffix("-musl") {
        Some(stem) => (stem, "musl-gcc"),
        None => (name, "cc"),
    };
    let (source, linking) = match stem.strip_suffix("-static") {
        Some(stem) => (stem, "-static"),
        None => (stem, "-rdynamic"),
    };
    let done = Command::new(compiler)
        .args([
            "-std=gnu11",
            "-O1",
            "-g",
            "-Wall",
            "-Wno-unused-result",
            "-Wno-nonnull",
            "-pthread",
            linking,
        ])
        .arg("-o")
        .arg(&output)
        .arg(sources.join(format!("{source}.c")))
        .arg("-ldl")
        .output()
        .unwrap_or_else(|error| panic!("the tests need a C compiler called {compiler}: {error}"));
    assert!(
        done.status.success(),
        "{name}.c does not compile:\n{}",
        String::from_utf8_lossy(&done.stderr)
    );
    output
}

/// What sources for libfuse are compiled against, as scripts/install lays it.
fn copy_for_sources(built: &Path, base: &Path) {
    let library = built.with_file_name("libculvert_fuse.so");
    // Without it the tests of such sources fail, and no others.
    if fs::copy(&library, base.join("bin/libculvert_fuse.so")).is_err() {
        return;
    }
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates");
    let to = base.join("include/culvert");
    fs::create_dir_all(&to).expect("the base directory is ours");
    for from in ["culvert-fuse/include", "culvert-library/include/culvert"] {
        for header in fs::read_dir(crates.join(from))
            .expect("in the source")
            .flatten()
        {
            if header.path().is_file() {
                fs::copy(header.path(), to.join(header.file_name())).expect("ours");
            }
        }
    }
}

/// The release build to test.
fn built_culvert() -> PathBuf {
    if let Some(path) = std::env::var_os("CULVERT_BIN") {
        return fs::canonicalize(&path)
            .unwrap_or_else(|error| panic!("CULVERT_BIN={}: {error}", path.display()));
    }
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| workspace.join("target"), |target| workspace.join(target));
    target.join("release/culvert")
}

/// The best way of running natively that this machine allows.
fn native_way(root: bool) -> Native {
    let works = |arguments: &[&str]| {
        Command::new("unshare")
            .args(arguments)
            .args(["mount", "--bind", "/tmp", "/tmp"])
            .output()
            .is_ok_and(|output| output.status.success())
    };
    if root && works(&["-m"]) {
        Native::BindAsRoot
    } else if works(&["--user", "--map-current-user", "--keep-caps", "-m"]) {
        Native::BindAsUser
    } else {
        Native::InPlace
    }
}

/// Lets everybody read and enter.
pub fn open_to_all(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("the file is ours");
}

/// What removes the base directory, and the directories of runs of the command in it. Those of
/// programs that were killed with stores that cannot be written back would rest for a week, until
/// their sources are there again.
const REMOVE: &str = r#"
read -r _
chmod -R u+rwX "$1" 2>/dev/null
rm -rf "$1"
for run in /dev/shm/culvert-*/???????????????? /tmp/culvert-*/????????????????; do
    case $(readlink "$run/command") in
    "$1"/*) flock -n "$run/lock" rm -rf "$run" ;;
    esac
done
"#;

/// Removes the base directory when this process ends, however it ends: the shell reads from a pipe
/// whose other end is only here.
fn remove_when_we_end(base: &Path) {
    use std::process::Stdio;
    let watcher = Command::new("sh")
        .args(["-c", REMOVE, "sh"])
        .arg(base)
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("there is a shell");
    // Never waited for and never closed: both end with this process.
    std::mem::forget(watcher);
}
