//! The conformance kit of the driver API and fsx on the examples for authors, in each language and
//! in each place where they run: in the programs of a run, in its host, behind the kernel. From
//! outside, by the program `kit`.

use crate::bindings::{JAVA, Place, ROOT, jdk};
use crate::kernel_mount::{culvert, possible, shell};
use crate::suites::FSX;
use culvert_e2e::{Finished, suite, world};
use std::{fs, path::Path};

/// Failures that are known: a rule, any where it is empty, and a part of what is said of it.
type Known = &'static [(&'static str, &'static str)];

/// What the stores do not do.
const STORE: Known = &[
    // There are no directories, and who made one of the same name has not lost against a file.
    ("", "a directory: "),
    ("", "a tree: "),
    ("", " of a directory: "),
    ("mkdir", "mkdir: "),
    ("one-winner", "made, and failed otherwise"),
    ("rmdir", "rmdir of a file: fails with ENOSYS"),
    // Where a store does not say that it keeps removed files, they are hidden, as libfuse does it:
    // ".fuse_hidden".
    ("unlink", "listing: Some([[46, 102, 117, 115, 101, "),
];

/// libfuse's interface lists names without inodes, and this source has no extended attributes.
const LIBFUSE: Known = &[("listing-agrees", "4294967295"), ("xattrs", "EOPNOTSUPP")];

/// Each open has a content of its own, whose size nobody knows before.
const COUNTS: Known = &[
    ("attributes", "/hello: size: 0"),
    ("attributes-agree", "/hello open: "),
    ("content", "/hello"),
    ("seek", "/hello: from 0: a hole"),
    ("threads", "/hello: other bytes"),
    // It says nothing of its size, and has no extended attributes.
    ("statfs", "blocks: 0"),
    ("xattrs", "EOPNOTSUPP"),
];

/// What has lost its name is not opened again by its descriptor where files are known by paths.
/// Which of a file's names /proc/self/fd has may be one that is gone, for as long as it is
/// believed.
const DIRECTORY: Known = &[
    ("removed-directory", "there is no /proc/self/fd"),
    ("links", "path left: "),
];

/// It has no extended attributes. Where the kernel serves it, /proc/self/fd names what was made or
/// moved by the directory behind the mount.
const DIRECT: Known = &[
    ("removed-directory", "there is no /proc/self/fd"),
    ("links", "path left: "),
    ("xattrs", ""),
    ("create", "path: None"),
    ("path-of", "None"),
];

/// It says nothing of its size, and has no extended attributes.
const SMALL: Known = &[("statfs", "blocks: 0"), ("xattrs", "EOPNOTSUPP")];

const NOTHING: Known = &[];

/// An example.
struct Example<'a> {
    /// The mount's words, with `@base@` for the directory.
    mount: &'a str,
    /// The first word for `kit`, and the names that it finds.
    how: &'a str,
    names: &'a [&'a str],
    known: Known,
}

impl Example<'_> {
    #[track_caller]
    fn passes(&self, place: &Place) {
        self.in_a_run(place, "");
        self.behind_the_kernel(place, "");
    }

    fn work(&self, place: &Place) -> String {
        let base = place.base.display().to_string();
        let names: String = self.names.iter().map(|name| format!(" '{name}'")).collect();
        let beside = Path::new(env!("CARGO_BIN_EXE_telling"));
        let kit = beside.with_file_name("examples").join("kit");
        let (kit, how) = (kit.display(), self.how);
        let mut script = format!(
            "umask 0; mkdir -p {base}/run {base}/said; {kit} {how} {base}/target {base}/run{names} 2>&1; "
        );
        if how != "read" {
            let configuration = match how {
                // They have no fallocate(2).
                "store" => FSX
                    .replace("_fallocate = 3", "_fallocate = 0")
                    .replace("hole = 3", "hole = 0")
                    .replace("flen = 262144", "flen = 90000"),
                _ => FSX.to_owned(),
            };
            fs::write(place.base.join("fsx.conf"), configuration).expect("ours");
            script += &format!(
                "{} -f {base}/fsx.conf -N 800 -S 7 -P {base}/said {base}/target/file \
                 > {base}/fsx.log 2>&1 || tail -n 30 {base}/fsx.log; tail -n 1 {base}/fsx.log; \
                 rm -rf {base}/target/*",
                suite("fsx").display()
            );
        }
        script
    }

    /// With more words for the mount.
    #[track_caller]
    fn in_a_run(&self, place: &Place, more: &str) {
        let base = place.base.display().to_string();
        let mount = format!("{}{more}", self.mount.replace("@base@", &base));
        let target = format!("{mount},target={base}/target");
        let script = self.work(place);
        let done = culvert(&["run", "--mount", &target, "--", "bash", "-c", &script]);
        self.judge(&done, &mount);
    }

    #[track_caller]
    fn behind_the_kernel(&self, place: &Place, more: &str) {
        if !possible() {
            return;
        }
        let base = place.base.display().to_string();
        let mount = format!("{}{more}", self.mount.replace("@base@", &base));
        let (mut kind, mut source, mut rest) = ("", "none", Vec::new());
        for word in mount.split(',') {
            match word.split_once('=') {
                Some(("type", value)) => kind = value,
                Some(("source", value)) => source = value,
                _ => rest.push(word),
            }
        }
        let (target, options) = (format!("{base}/target"), rest.join(","));
        let mut words = vec!["mount", "-t", kind, source, &target];
        if !options.is_empty() {
            words.splice(3..3, ["-o", &options]);
        }
        let done = culvert(&words);
        assert_eq!(done.status, "exit 0", "{}", done.report());
        let done = shell(&self.work(place));
        let ended = shell(&format!("umount {target}"));
        self.judge(&done, &format!("{mount}, by a kernel mount"));
        assert_eq!(ended.status, "exit 0", "{}", ended.report());
    }

    #[track_caller]
    fn judge(&self, done: &Finished, mount: &str) {
        let is_known = |line: &&str| {
            let (rule, what) = line.split_once(": ").unwrap_or_default();
            let mut known = self.known.iter();
            known.any(|(of, part)| (of.is_empty() || *of == rule) && what.contains(part))
        };
        let text = done.text();
        let (told, rest): (Vec<_>, Vec<_>) =
            text.lines().partition(|line| line.ends_with(" checks"));
        let (fsx, rest): (Vec<_>, Vec<_>) =
            rest.into_iter().partition(|line| line.contains("A-OK"));
        let wrong: Vec<_> = rest.iter().filter(|line| !is_known(line)).collect();
        assert!(wrong.is_empty(), "{mount}: {wrong:#?}\n{}", done.errors());
        assert_eq!(told.len(), 1, "{mount}: {}", done.report());
        let wanted = usize::from(self.how != "read");
        assert_eq!(fsx.len(), wanted, "{mount}: {}", done.report());
    }
}

/// Compiles the C example `name` to `lib.so`.
fn c(place: &Place, name: &str, words: &str) {
    place.build(&format!(
        "cc -std=gnu11 -Wall -Wextra -Werror -O2 {words} -shared -fPIC -I$include -o $base/lib.so \
         $root/examples/c/{name}.c; chmod 755 $base/lib.so"
    ));
}

#[test]
fn a_directory_in_c_passes_the_kit_in_each_place() {
    let place = Place::new("kit-directory");
    let example = |known| Example {
        mount: "type=@base@/lib.so,source=@base@/source",
        how: "write",
        names: &[],
        known,
    };
    c(&place, "mirror", "");
    example(DIRECTORY).passes(&place);
    c(&place, "direct", "");
    let example = example(DIRECT);
    // The kernel's own tree, and by each function; then not in the programs.
    for more in ["", ",calls", ",place=host"] {
        example.in_a_run(&place, more);
    }
    example.behind_the_kernel(&place, "");
}

#[test]
fn examples_to_read_pass_the_kit_in_each_place() {
    let place = Place::new("kit-read");
    let example = |names, known| Example {
        mount: "type=@base@/lib.so",
        how: "read",
        names,
        known,
    };
    c(&place, "hello", "");
    example(&["hello=Hello, none! (1)"], COUNTS).passes(&place);
    c(&place, "mailbox", "-pthread");
    example(&[], NOTHING).passes(&place);
    place.build(&format!(
        "cc -Wall -Wextra -Werror -shared -fPIC $({} config --cflags) \
         $root/examples/c/greeting.c -o $base/lib.so; chmod 755 $base/lib.so",
        world().culvert.display()
    ));
    example(&["greeting=hello"], LIBFUSE).passes(&place);
    place.build(&format!(
        "cd $root/examples/planets; {} build --quiet --offline --release --target-dir \
         $root/target/examples; cp $root/target/examples/release/libplanets.so $base/lib.so; \
         chmod 755 $base/lib.so",
        env!("CARGO")
    ));
    let planets = example(&["earth=1", "mars=2", "venus=0"], SMALL);
    planets.passes(&place);
    planets.in_a_run(&place, ",place=host");
}

fn store<'a>(mount: &'a str) -> Example<'a> {
    Example {
        mount,
        how: "store",
        names: &[],
        known: STORE,
    }
}

#[test]
fn a_store_in_java_passes_the_kit() {
    let place = Place::new("kit-java");
    if place.javac("$root/examples/java/KeyValue.java") {
        store(JAVA).passes(&place);
    }
}

#[test]
fn a_directory_in_javafuses_model_passes_the_kit() {
    let place = Place::new("kit-javafuse");
    if place.javac("$root/examples/java/Mirror.java") {
        let example = Example {
            mount: "type=java,class=Mirror,classpath=@base@/classes,source=@base@/source",
            how: "write",
            names: &[],
            known: DIRECTORY,
        };
        example.passes(&place);
    }
}

#[test]
fn a_store_in_python_passes_the_kit() {
    let place = Place::new("kit-python");
    jdk();
    // Without a source of its own its server may be that of another test's run.
    let class = format!("class={ROOT}/examples/python/keyvalue.py:KeyValue");
    store(&format!("type=python,{class},source=@base@/source")).passes(&place);
}

#[test]
fn a_store_in_cpp_passes_the_kit() {
    let place = Place::new("kit-cpp");
    place.cpp();
    store("type=@base@/kv.so").passes(&place);
}

#[test]
fn a_store_in_go_passes_the_kit() {
    let place = Place::new("kit-go");
    place.go();
    store("type=@base@/kv.so").passes(&place);
}
