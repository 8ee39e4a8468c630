//! The trees that tests read, and archives of them.

use crate::world::open_to_all;
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

/// An unpacked tree with archives beside it.
#[derive(Clone)]
pub struct Tree {
    /// The root directory of the tree.
    pub path: PathBuf,
    /// Held while an archive is made.
    making: Arc<Mutex<()>>,
}

impl Tree {
    /// Makes the tree called `name` in the new directory `directory`, owned by `owner` if that is
    /// given:
    ///
    /// - `odd`: every kind of name, link, mode, time and size;
    /// - `real`: real headers, sources and documents;
    /// - `programs`: executables of every kind, a Python package, a jar, a git repository, a
    ///   database;
    /// - those of [`crate::environments`];
    /// - `small`: one file `only` and one directory `sub`, to be mounted beside or in others.
    pub(crate) fn make(name: &str, owner: Option<u32>, directory: &Path, base: &Path) -> Self {
        let path = directory.join("tree");
        fs::create_dir_all(&path).expect("the base directory is ours");
        open_to_all(directory);
        open_to_all(&path);
        match name {
            "odd" => odd(&path, base),
            "real" => real(&path),
            "programs" => programs(&path),
            "small" => small(&path),
            _ => {
                let Some(script) = crate::environments::script(name) else {
                    panic!("there is no tree called {name}");
                };
                let at = base.join("mnt");
                shell(&path, &format!("AT={}; {script}", at.display()));
            }
        }
        if let Some(owner) = owner {
            shell(&path, &format!("chown -hR {owner}:{owner} ."));
            // chown takes set-id bits away.
            if name == "odd" {
                set_id_modes(&path);
            }
        }
        Self {
            path,
            making: Arc::default(),
        }
    }

    /// The archive of this kind (`tar`, `gnu.tar`, `tar.gz`, `tar.zst`, `tar.xz`, `tar.bz2`,
    /// `zip`), made at first use.
    pub fn archive(&self, kind: &str) -> PathBuf {
        let _guard = self
            .making
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let archive = self.path.with_file_name(format!("tree.{kind}"));
        if archive.exists() {
            return archive;
        }
        // PAX keeps nanoseconds, long names and any size; access and change times are left out,
        // they change.
        let tar = "tar --sparse --format=pax --pax-option=delete=atime,delete=ctime -cf";
        let new = format!("../new.{kind}");
        let command = match kind {
            "tar" => format!("{tar} {new} ."),
            "gnu.tar" => format!("tar --format=gnu -cf {new} ."),
            "tar.gz" => format!("{tar} - . | gzip -6 > {new}"),
            "tar.zst" => format!("{tar} - . | zstd -q > {new}"),
            "tar.xz" => format!("{tar} - . | xz -1 > {new}"),
            "tar.bz2" => format!("{tar} - . | bzip2 > {new}"),
            "zip" => format!("zip -q -r -y {new} ."),
            _ => panic!("there is no kind of archive called {kind}"),
        };
        shell(
            &self.path,
            &format!("set -o pipefail; {command} && mv {new} ../tree.{kind}"),
        );
        archive
    }
}

/// Runs `script` in `directory`.
fn shell(directory: &Path, script: &str) {
    let output = Command::new("bash")
        .args(["-ec", script])
        .current_dir(directory)
        .env("LC_ALL", "C.UTF-8")
        .output()
        .expect("there is a shell");
    assert!(
        output.status.success(),
        "{script}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Writes a file, making its directories.
fn put(tree: &Path, name: impl AsRef<Path>, content: impl AsRef<[u8]>) {
    let path = tree.join(name);
    let parent = path.parent().expect("a file in the tree has a parent");
    fs::create_dir_all(parent).expect("the tree is ours");
    fs::write(&path, content).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

/// Bytes without a pattern, the same in every run (xorshift).
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// `count` numbered lines.
fn lines(count: usize) -> String {
    (1..=count)
        .map(|number| format!("line {number}\n"))
        .collect()
}

/// One time for everything, so that formats with whole or even seconds keep it.
fn settle_times(tree: &Path) {
    shell(
        tree,
        "find . -exec touch -h -d '2020-02-02 02:02:02 UTC' {} +",
    );
}

/// See [`Tree::make`].
fn odd(tree: &Path, base: &Path) {
    put(tree, "hello.txt", "hello, world\n");
    put(tree, "lines.txt", lines(1000));
    put(tree, "empty", "");
    put(tree, "data.bin", noise(300_001));
    put(tree, "big.txt", lines(400_000));
    let mut sparse = fs::File::create(tree.join("sparse.bin")).expect("the tree is ours");
    sparse.set_len(3 << 20).expect("the tree is ours");
    sparse.write_all(b"start").expect("the tree is ours");
    std::os::unix::fs::FileExt::write_all_at(&sparse, b"middle", 2 << 20)
        .expect("the tree is ours");
    drop(sparse);

    put(tree, "dir/a.txt", "a\n");
    put(tree, "dir/b.txt", "b\n");
    put(tree, "dir/sub/deep.txt", "deep\n");
    fs::create_dir(tree.join("dir/empty-dir")).expect("the tree is ours");
    let deep: PathBuf = (0..60).map(|level| format!("level-{level}")).collect();
    put(
        tree,
        Path::new("deep").join(deep).join("bottom"),
        "bottom\n",
    );
    for number in 0..1500 {
        put(tree, format!("many/f{number:04}"), format!("{number}\n"));
    }
    odd_links(tree, base);
    odd_names(tree);
    put(tree, "hard/one", "three names\n");
    for name in ["two", "three"] {
        fs::hard_link(tree.join("hard/one"), tree.join("hard").join(name))
            .expect("the tree is ours");
    }
    fs::create_dir(tree.join("special")).expect("the tree is ours");
    shell(&tree.join("special"), "mkfifo fifo");
    for name in ["600", "644", "755", "000", "444", "4755", "2755", "111"] {
        put(tree, format!("modes/{name}"), format!("mode {name}\n"));
    }
    for name in ["d700", "d555", "d1777", "d000"] {
        put(tree, format!("modes/{name}/file"), "in a directory\n");
    }
    for name in ["epoch", "before", "future", "ns"] {
        put(tree, format!("times/{name}"), "");
    }
    settle_times(tree);
    shell(&tree.join("times"), script!("fixture/odd.sh"));
    set_id_modes(tree);
}

/// Modes of `odd/modes`, last of all, for they keep their maker out too.
fn set_id_modes(tree: &Path) {
    shell(&tree.join("modes"), script!("fixture/set_id_modes.sh"));
}

/// Links of every kind.
fn odd_links(tree: &Path, base: &Path) {
    let links = tree.join("links");
    fs::create_dir(&links).expect("the tree is ours");
    let base = base.to_str().expect("the base directory has a plain name");
    let mut all: Vec<(String, String)> = [
        ("file", "../hello.txt"),
        ("dir", "../dir"),
        ("dir-slash", "../dir/"),
        ("file-slash", "../hello.txt/"),
        ("dot", "."),
        ("up", ".."),
        ("dangling", "nowhere"),
        ("loop-a", "loop-b"),
        ("loop-b", "loop-a"),
        ("self", "self"),
        ("root", "/"),
        ("out", "../../outside/outside.txt"),
        ("out-dir", "../../outside"),
        ("out-and-in", "../../outside/in-file"),
        ("above", "../../.."),
        ("many-slashes", "..///dir//./sub/../a.txt"),
        ("null", "/dev/null"),
        ("proc", "/proc/self"),
    ]
    .map(|(name, target)| (name.to_owned(), target.to_owned()))
    .to_vec();
    for (name, target) in [
        ("out-absolute", "outside/outside.txt"),
        ("in-absolute", "mnt/hello.txt"),
        ("in-dir", "mnt/dir"),
        ("in-root", "mnt"),
    ] {
        all.push((name.to_owned(), format!("{base}/{target}")));
    }
    all.extend((0..45).map(|number| {
        (
            format!("chain-{number:02}"),
            format!("chain-{:02}", number + 1),
        )
    }));
    all.push(("chain-45".to_owned(), "../hello.txt".to_owned()));
    all.push((
        "long".to_owned(),
        format!("{}hello.txt", "../links/".repeat(400)),
    ));
    for (name, target) in all {
        symlink(target, links.join(name)).expect("the tree is ours");
    }
}

/// Names that programs and archives get wrong.
fn odd_names(tree: &Path) {
    let long = "n".repeat(255);
    let names: [&[u8]; 16] = [
        b"a space",
        b"trailing ",
        b"new\nline",
        b"tab\there",
        b"\xff\xfe\x80 not UTF-8",
        "\u{e4}\u{df} \u{4e16}\u{754c} \u{1f980}".as_bytes(),
        b"back\\slash",
        b"quote'\"",
        b"-dash",
        b"*",
        b"...",
        b" ",
        b"$(id)",
        b"\x01\x7f",
        b"colon:comma,equals=",
        long.as_bytes(),
    ];
    for name in names {
        put(&tree.join("names"), OsStr::from_bytes(name), name);
    }
    let middle: PathBuf = std::iter::repeat_n("m".repeat(90), 4).collect();
    put(
        &tree.join("names"),
        middle.join("end"),
        "a path that fits no ustar header\n",
    );
}

/// See [`Tree::make`].
fn small(tree: &Path) {
    put(tree, "only", "the only file\n");
    put(tree, "sub/below", "below\n");
    symlink("../outside/outside.txt", tree.join("out")).expect("the tree is ours");
    settle_times(tree);
}

/// See [`Tree::make`]. About ten megabytes.
fn real(tree: &Path) {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates");
    shell(
        tree,
        &script!("fixture/real.sh", sources = sources.display()),
    );
    settle_times(tree);
}

/// See [`Tree::make`].
fn programs(tree: &Path) {
    put(
        tree,
        "hello.c",
        "#include <stdio.h>\n#include \"answer.h\"\nint main(void) { printf(\"the answer is \
        %d\\n\", ANSWER); return 3; }\n",
    );
    put(tree, "inc/answer.h", "#define ANSWER 42\n");
    put(tree, "lib.c", "int answer(void) { return 42; }\n");
    put(
        tree,
        "use.c",
        "#include <stdio.h>\nint answer(void);\nint main(void) { printf(\"linked: %d\\n\", \
        answer()); return 0; }\n",
    );
    put(
        tree,
        "Makefile",
        "all: $(OUT)/hello\n$(OUT)/hello: hello.c inc/answer.h\n\tcc -Iinc -o $@ hello.c\n\t@echo \
        built\n.PHONY: all\n",
    );
    put(
        tree,
        "bin/script.sh",
        "#!/bin/sh\necho \"script $0\" \"$@\"\ncat \"$(dirname \"$0\")/../inc/answer.h\"\nexit 7\n",
    );
    put(
        tree,
        "bin/script.py",
        "#!/usr/bin/env python3\nimport sys\nprint('python', sys.argv[1:])\n",
    );
    put(tree, "bin/bad-interpreter", "#!/nonexistent/interpreter\n");
    put(tree, "bin/no-shebang", "echo no shebang \"$@\"\n");
    put(tree, "bin/not-executable", "#!/bin/sh\necho never\n");
    put(
        tree,
        "package/__init__.py",
        "from .part import value\nNAME = __name__\n",
    );
    put(
        tree,
        "package/part.py",
        "value = 'imported from the mount'\n",
    );
    put(tree, "package/data/table.csv", "a,b\n1,2\n");
    put(
        tree,
        "node/package.json",
        "{\"name\": \"thing\", \"version\": \"1.2.3\", \"main\": \"main.js\"}\n",
    );
    put(
        tree,
        "node/main.js",
        "module.exports = { value: require('./lib/part.js').value + \
        require('./package.json').version };\n",
    );
    put(tree, "node/lib/part.js", "exports.value = 'node ';\n");
    put(
        tree,
        "Hello.java",
        "public class Hello { public static void main(String[] a) { System.out.println(\"java \" \
        + a.length); } }\n",
    );
    put(
        tree,
        "config.sh",
        "SETTING=value\ngreet() { echo \"greetings, $1\"; }\n",
    );
    shell(tree, script!("fixture/programs.sh"));
    settle_times(tree);
    // git compares the index of the work tree with the times of its files.
    shell(
        &tree.join("work"),
        "git status --short >/dev/null; touch -d '2020-02-02 02:02:02 UTC' .git/index .git",
    );
}

/// The directory `outside`: files beside the mounts, with links into them; and a real tree for
/// foreign calls.
pub(crate) fn outside(base: &Path) {
    let outside = base.join("outside");
    put(&outside, "outside.txt", "outside\n");
    put(&outside, "d/file", "file in a directory outside\n");
    let links = [
        ("in-file", "../mnt/hello.txt".to_owned()),
        ("in-dir", "../mnt/dir".to_owned()),
        ("in-root", "../mnt".to_owned()),
        ("in-absolute", format!("{}/mnt/dir", base.display())),
        ("in-up", "../mnt/dir/../hello.txt".to_owned()),
        ("in-and-out", "../mnt/links/out".to_owned()),
        ("in-missing", "../mnt/missing".to_owned()),
        ("in-new", "../mnt/dir/new".to_owned()),
    ];
    for (name, target) in links {
        symlink(target, outside.join(name)).expect("the base directory is ours");
    }
    fs::set_permissions(&outside, fs::Permissions::from_mode(0o755))
        .expect("the base directory is ours");
}
