//! One differential test.

mod difference;
mod kernel;
mod parting;

use crate::driver::Driver;
use crate::process::{Finished, LIMIT, run_within};
use crate::world::{Native, World, runtime, world};
use difference::{difference, shown, without_our_lines};
use parting::{parting, traced};
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Numeric id of the user and group without rights.
const NOBODY: u32 = 65534;

/// Where programs are looked for: where every user finds them.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Says that something is not tested here, and why: `scripts/test` names it at its end, from the
/// file that `CULVERT_NOT_TESTED` names.
pub fn not_tested(why: impl std::fmt::Display) {
    eprintln!("not tested: {why}");
    if let Some(list) = std::env::var_os("CULVERT_NOT_TESTED") {
        let list = fs::File::options().append(true).create(true).open(list);
        let line = format!("{}\n", why.to_string().replace('\n', " "));
        list.and_then(|mut list| list.write_all(line.as_bytes()))
            .expect("CULVERT_NOT_TESTED names a file that can be written");
    }
}

/// Whether Python's test suite, `module` of it (`test.test_os`), is installed; a test that wants it
/// says so and passes.
pub fn has_python_suite(module: &str) -> bool {
    let find =
        "import importlib.util, sys; sys.exit(importlib.util.find_spec(sys.argv[1]) is None)";
    let found = Command::new("/usr/bin/python3")
        .args(["-c", find, module])
        .status();
    let found = found.is_ok_and(|status| status.success());
    if !found {
        not_tested(format_args!("{module} of Python is not installed"));
    }
    found
}

/// Whether a program is installed for every user; a test for one that is not says so and passes.
pub fn installed(program: &str) -> bool {
    let found = PATH
        .split(':')
        .any(|directory| Path::new(directory).join(program).exists());
    if !found {
        not_tested(format_args!("{program} is not installed"));
    }
    found
}

/// Who runs the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum User {
    /// Whoever runs the tests.
    Me,
    /// An ordinary user. Only where the tests run as root.
    Nobody,
}

/// What a mount shows.
#[derive(Clone)]
enum Source {
    /// A read-only archive on one side, its unpacked tree on the other.
    Archive {
        archive: PathBuf,
        tree: PathBuf,
        /// What follows the target in `-v`.
        options: &'static str,
    },
    /// A directory that can be written, empty at the start of each run; each side has its own below
    /// `holder`.
    Directory { driver: Driver, holder: PathBuf },
}

/// One mount of a case.
#[derive(Clone)]
struct Mount {
    source: Source,
    target: PathBuf,
}

impl Mount {
    /// Where the native side finds what is mounted.
    fn native(&self) -> PathBuf {
        match &self.source {
            Source::Archive { tree, .. } => tree.clone(),
            Source::Directory { holder, .. } => holder.join("native"),
        }
    }
}

/// A program's surroundings, the same on both sides.
pub struct Case {
    world: &'static World,
    user: User,
    work: PathBuf,
    mounts: Vec<Mount>,
    input: Vec<u8>,
    environment: Vec<(OsString, OsString)>,
    options: Option<String>,
    strict: bool,
    limit: Duration,
}

impl Case {
    /// A case without mounts; `name` names its working directory.
    pub fn new(name: &str, user: User) -> Self {
        let world = world();
        let work = world.claim("work", &name.replace("::", "-"));
        Self {
            world,
            user,
            work,
            mounts: Vec::new(),
            input: Vec::new(),
            environment: Vec::new(),
            options: None,
            strict: false,
            limit: LIMIT,
        }
    }

    /// Mounts archive `kind` (`tar`, `tar.gz`, `zip`, ...) of the tree called `tree` at `target` of
    /// the base directory.
    pub fn mount(mut self, tree: &str, kind: &str, target: &str) -> Self {
        let owner = (self.user == User::Nobody).then_some(NOBODY);
        let tree = self.world.tree(tree, owner);
        let target = self.world.path(target);
        self.mounts.push(Mount {
            source: Source::Archive {
                archive: tree.archive(kind),
                tree: tree.path.clone(),
                options: "",
            },
            target,
        });
        self
    }

    /// [`Case::mount`] of the tree that belongs to whoever runs the tests, with the owners that the
    /// archive names.
    pub fn mount_of_tester(mut self, tree: &str, kind: &str, target: &str) -> Self {
        let tree = self.world.tree(tree, None);
        let target = self.world.path(target);
        self.mounts.push(Mount {
            source: Source::Archive {
                archive: tree.archive(kind),
                tree: tree.path.clone(),
                options: ":uid=archive,gid=archive",
            },
            target,
        });
        self
    }

    /// Mounts a directory of the user's that is empty at the start of each run, served by `driver`,
    /// at a target of this case's own (`$M`).
    pub fn directory(mut self, driver: Driver) -> Self {
        let name = self.work.file_name().expect("a case has a name").to_owned();
        let target = self.world.path("mounts").join(&name);
        let holder = self.world.path("backing").join(&name);
        for made in [&target, &holder] {
            fs::create_dir_all(made).expect("the base directory is ours");
        }
        self.mounts.push(Mount {
            source: Source::Directory { driver, holder },
            target,
        });
        self
    }

    /// How long each side may take, where a minute is too short.
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// The driver of the first directory that is mounted.
    pub fn driver(&self) -> Option<Driver> {
        self.mounts.iter().find_map(|mount| match mount.source {
            Source::Directory { driver, .. } => Some(driver),
            Source::Archive { .. } => None,
        })
    }

    /// Who runs the programs.
    pub fn user(&self) -> User {
        self.user
    }

    /// The usual mount: a tar of the tree `odd` at `mnt`.
    pub fn odd(self) -> Self {
        self.mount("odd", "tar", "mnt")
    }

    /// What the program reads from its standard input.
    pub fn input(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.input = bytes.into();
        self
    }

    /// More options (`layer=fault,...`) for every mount, which the native side does not have.
    pub fn options(mut self, options: impl Into<String>) -> Self {
        self.options = Some(options.into());
        self
    }

    /// One more environment variable.
    pub fn variable(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Compares standard error with culvert's own lines left in: nothing may be said at all.
    pub fn strict(mut self) -> Self {
        self.strict = true;
        self
    }

    /// Path of the compiled program `programs/NAME.c`, as text for a script.
    pub fn program(&self, name: &str) -> String {
        self.world
            .program(name)
            .to_str()
            .expect("the base directory has a plain name")
            .to_owned()
    }

    /// Whether changing calls of the native side meet a read-only mount here.
    pub fn native_is_read_only(&self) -> bool {
        self.world.native != Native::InPlace
    }

    /// Runs `argv` both ways in a fresh working directory and demands the same result.
    /// The result is returned for further questions.
    #[track_caller]
    pub fn same(&self, argv: &[&str]) -> Finished {
        let native = self.natively(argv);
        let ours = self.through_culvert(argv);
        self.compare(native, ours, argv, |argv| self.through_culvert(argv))
    }

    /// Demands the same result of both sides. `again` runs a command on the side of culvert.
    #[track_caller]
    fn compare(
        &self,
        native: Finished,
        ours: Finished,
        argv: &[&str],
        again: impl FnOnce(&[&str]) -> Finished,
    ) -> Finished {
        let compared = if self.strict {
            ours.clone()
        } else {
            without_our_lines(ours.clone())
        };
        if native != compared {
            let line = match argv {
                ["bash", "-c", script] => {
                    let traced = traced(script);
                    let words: Vec<&str> = traced.iter().map(String::as_str).collect();
                    parting(
                        &self.natively(&words),
                        &without_our_lines(again(&words)),
                        script,
                    )
                }
                _ => String::new(),
            };
            panic!(
                "{}\n====== native {}\n====== culvert {}\n====== differences\n{}\n{line}",
                shown(argv),
                native.report(),
                ours.report(),
                difference(&native, &compared)
            );
        }
        native
    }

    /// [`Case::same`] of a shell script. `$B` is the base directory, `$M` the target `mnt`, `$W`
    /// the working directory, `$O` a tree outside of all mounts, `$P` the directory of compiled
    /// programs.
    #[track_caller]
    pub fn script(&self, script: &str) -> Finished {
        self.same(&["bash", "-c", script])
    }

    /// A script that both sides must end with status 0.
    #[track_caller]
    pub fn good(&self, script: &str) -> Finished {
        let done = self.script(script);
        assert_eq!(done.status, "exit 0", "{script}\n{}", done.report());
        done
    }

    /// Runs `argv` on the unpacked tree.
    pub fn natively(&self, argv: &[&str]) -> Finished {
        let mut script = String::from("set -e\n");
        for mount in &self.mounts {
            let (tree, target) = (mount.native(), mount.target.display());
            script += &format!("mkdir -p '{target}' 2>/dev/null || :\n");
            script += &format!("mount --bind '{}' '{target}'\n", tree.display());
            match &mount.source {
                Source::Archive { .. } => {
                    script += &format!("mount -o remount,bind,ro '{target}'\n");
                }
                Source::Directory { .. } => self.fresh(&tree),
            }
        }
        let command = match (self.mounts.is_empty(), self.world.native) {
            (true, _) => self.command(None, argv),
            (_, Native::BindAsRoot) => self.command(Some(("unshare -m", &script)), argv),
            (_, Native::BindAsUser) => self.command(
                Some(("unshare --user --map-current-user --keep-caps -m", &script)),
                argv,
            ),
            (_, Native::InPlace) => return self.in_place(argv),
        };
        run_within(command, &self.input, self.limit)
    }

    /// Runs `argv` with nothing mounted.
    pub fn alone(&self, argv: &[&str]) -> Finished {
        run_within(self.command(None, argv), &self.input, self.limit)
    }

    /// The directory behind the first mount on the side of culvert, where its driver has one.
    pub fn behind(&self) -> Option<PathBuf> {
        self.mounts.iter().find_map(|mount| match &mount.source {
            Source::Directory { driver, holder } if *driver != Driver::Memory => {
                Some(holder.join("culvert"))
            }
            _ => None,
        })
    }

    /// Runs `argv` through `culvert run`.
    pub fn through_culvert(&self, argv: &[&str]) -> Finished {
        if self.world.only_native {
            return self.natively(argv);
        }
        let mut all = vec![
            self.world.culvert.to_str().expect("plain").to_owned(),
            "run".to_owned(),
        ];
        for mount in &self.mounts {
            let target = mount.target.display();
            match &mount.source {
                Source::Archive {
                    archive, options, ..
                } => {
                    all.push("-v".to_owned());
                    all.push(format!("{}:{target}{options}", archive.display()));
                }
                Source::Directory { driver, holder } => {
                    let tree = holder.join("culvert");
                    self.fresh(&tree);
                    for name in driver.beside() {
                        self.fresh(&holder.join(name));
                    }
                    driver.lay(&tree);
                    all.extend(driver.words(&tree, &mount.target));
                }
            }
            if let Some(options) = &self.options {
                let last = all.last_mut().expect("a mount has words");
                // In a volume without options they follow a colon.
                let separator = match last.ends_with(&format!(":{target}")) {
                    true => ':',
                    false => ',',
                };
                last.push(separator);
                last.push_str(options);
            }
        }
        all.push("--".to_owned());
        all.extend(argv.iter().map(|word| (*word).to_owned()));
        let words: Vec<&str> = all.iter().map(String::as_str).collect();
        let done = run_within(self.command(None, &words), &self.input, self.limit);
        self.nothing_strayed(&done);
        done
    }

    /// A directory served by us is written in its source, never in the empty directory that its
    /// target is.
    #[track_caller]
    fn nothing_strayed(&self, done: &Finished) {
        for mount in &self.mounts {
            if matches!(mount.source, Source::Directory { .. }) {
                let strayed = fs::read_dir(&mount.target).map_or(0, Iterator::count);
                assert_eq!(
                    strayed,
                    0,
                    "files were made in {} itself\n{}",
                    mount.target.display(),
                    done.report()
                );
            }
        }
    }

    /// Runs the `culvert` command itself with these arguments.
    pub fn culvert(&self, arguments: &[&str]) -> Finished {
        let mut all = vec![self.world.culvert.to_str().expect("plain")];
        all.extend(arguments);
        run_within(self.command(None, &all), &self.input, self.limit)
    }

    /// The tree itself in place of the mount, and its path replaced by the target's in all that is
    /// said.
    fn in_place(&self, argv: &[&str]) -> Finished {
        let plain = |path: &Path| path.to_str().expect("plain").to_owned();
        let swap = |text: &str, back: bool| {
            self.mounts.iter().fold(text.to_owned(), |text, mount| {
                let (tree, target) = (plain(&mount.native()), plain(&mount.target));
                if back {
                    text.replace(&tree, &target)
                } else {
                    text.replace(&target, &tree)
                }
            })
        };
        let words: Vec<String> = argv.iter().map(|word| swap(word, false)).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut command = self.command(None, &words);
        if let Some(mount) = self.mounts.first() {
            command.env("M", mount.native());
        }
        let done = run_within(command, &self.input, self.limit);
        Finished {
            stdout: swap(&done.text(), true).into_bytes(),
            stderr: swap(&done.errors(), true).into_bytes(),
            status: done.status,
        }
    }

    /// A command in a fresh working directory with a small known environment. `inside` is a way
    /// into a namespace and a script to prepare it.
    fn command(&self, inside: Option<(&str, &str)>, argv: &[&str]) -> Command {
        let home = self.fresh_work();
        let mut words: Vec<String> = Vec::new();
        if let Some((enter, script)) = inside {
            words.extend(enter.split(' ').map(str::to_owned));
            words.extend(["bash", "-c"].map(str::to_owned));
            words.push(format!("{script}cd \"$W\"\nexec \"$@\""));
            words.push("bash".to_owned());
        }
        if self.user == User::Nobody {
            let drop_rights =
                format!("setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups --");
            words.extend(drop_rights.split(' ').map(str::to_owned));
        }
        words.extend(argv.iter().map(|word| (*word).to_owned()));
        let mut command = Command::new(&words[0]);
        command
            .args(&words[1..])
            .current_dir(&self.work)
            .env_clear();
        command.env("PATH", PATH);
        command
            .env("LC_ALL", "C.UTF-8")
            .env("HOME", home)
            .env("TMPDIR", &self.work)
            .env("TZ", "UTC");
        command
            .env("B", &self.world.base)
            .env("M", self.place())
            .env("W", &self.work);
        command
            .env("O", self.world.path("outside"))
            .env("P", self.world.path("programs"));
        if self.user == User::Me && self.world.is_root() {
            command.env("XDG_RUNTIME_DIR", runtime());
        }
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// What `$M` names.
    fn place(&self) -> PathBuf {
        match self.mounts.first() {
            Some(Mount {
                source: Source::Directory { .. },
                target,
            }) => target.clone(),
            _ => self.world.path("mnt"),
        }
    }

    /// Makes `directory` new, empty and the user's.
    fn fresh(&self, directory: &Path) {
        remove(directory);
        fs::create_dir_all(directory).expect("the base directory is ours");
        if self.user == User::Nobody {
            std::os::unix::fs::chown(directory, Some(NOBODY), Some(NOBODY)).expect("we are root");
        }
    }

    /// Empties the working directory. The home directory beside it, where the index cache lies, is
    /// kept.
    fn fresh_work(&self) -> PathBuf {
        let home = self.world.path(if self.user == User::Nobody {
            "home-nobody"
        } else {
            "home"
        });
        self.fresh(&self.work);
        fs::create_dir_all(&home).expect("the base directory is ours");
        if self.user == User::Nobody {
            std::os::unix::fs::chown(&home, Some(NOBODY), Some(NOBODY)).expect("we are root");
        }
        home
    }
}

impl Drop for Case {
    fn drop(&mut self) {
        remove(&self.work);
        for mount in &self.mounts {
            if let Source::Directory { holder, .. } = &mount.source {
                remove(holder);
            }
        }
    }
}

/// Removes a tree whatever its modes are.
fn remove(tree: &Path) {
    if tree.exists() && fs::remove_dir_all(tree).is_err() {
        let _ = Command::new("chmod")
            .args(["-R", "u+rwX"])
            .arg(tree)
            .output();
        let _ = fs::remove_dir_all(tree);
    }
}
