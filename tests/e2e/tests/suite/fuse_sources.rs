//! Sources for libfuse, compiled against Culvert's headers to shared objects: `type=./hello.so`.

use crate::kernel_mount::{culvert, shell};
use culvert_e2e::{Finished, not_tested, world};
use std::{
    fs,
    path::{Path, PathBuf},
};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// Where scripts/prerequisites unpacks Debian's sources of libfuse.
pub const SOURCES: [(&str, &str); 2] = [
    ("/usr/src/culvert/fuse", "2.9"),
    ("/usr/src/culvert/fuse3", "3.14"),
];

pub struct Place {
    pub base: PathBuf,
}

impl Place {
    pub fn new(name: &str) -> Self {
        let library = world().culvert.with_file_name("libculvert_fuse.so");
        assert!(
            library.exists(),
            "the command under test has no libculvert_fuse.so beside it: cargo build -p \
             culvert-fuse, in the same profile, makes it"
        );
        let base = world().claim("fuse-sources", name);
        for directory in ["source", "target"] {
            fs::create_dir_all(base.join(directory)).expect("the base directory is ours");
        }
        Self { base }
    }

    pub fn cc(&self, source: &str, words: &str) -> Finished {
        let base = self.base.display();
        let culvert = world().culvert.display();
        shell(&format!(
            "cc -Wall {words} -shared -fPIC $({culvert} config --cflags) {source} -o {base}/fs.so \
            && \
             chmod 755 {base}/fs.so"
        ))
    }

    #[track_caller]
    pub fn compile(&self, source: &str, words: &str) {
        let done = self.cc(source, words);
        assert_eq!(done.status, "exit 0", "{}", done.report());
    }

    /// Runs `script` in the target.
    pub fn run(&self, options: &str, script: &str) -> Finished {
        let base = self.base.display();
        let mount = format!("type={base}/fs.so,target={base}/target{options}");
        let script = format!("cd {base}/target; {script}");
        culvert(&["run", "--mount", &mount, "--", "bash", "-c", &script])
    }

    #[track_caller]
    fn prints(&self, options: &str, script: &str, want: &str) {
        let done = self.run(options, script);
        assert_eq!(done.text(), want, "{}", done.report());
        assert_eq!(done.status, "exit 0", "{}", done.report());
    }
}

/// A file system that shows the directory `source`, in both versions.
const MIRROR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/suite/fuse_mirror.c");
const CHANGES: &str = "echo one > made; echo two >> made; cat made; mkdir -p d/e; mv made d/e/m; \
     ln d/e/m d/hard; ln -s hard d/soft; cat d/soft; chmod 640 d/hard; stat -c %a d/hard; \
     touch -d @5 d/hard; stat -c %Y d/hard; truncate -s 3 d/hard; cat d/hard; echo; \
     exec 5<> x; rm x; echo kept >&5; ls -A; exec 5>&-; \
     setfattr -n user.a -v b d/hard && getfattr --only-values -n user.a d/hard; echo; \
     rm -r d; for i in $(seq 300); do : > $i; done; ls | wc -l; rm [0-9]*; df . | wc -l";

#[test]
fn a_source_of_either_version_serves_a_directory() {
    for (version, words) in [
        (26, ""),
        (29, "-DPOSITIONS"),
        (30, ""),
        (312, "-DPOSITIONS"),
    ] {
        let place = Place::new(&format!("mirror-{version}"));
        place.compile(MIRROR, &format!("-DFUSE_USE_VERSION={version} {words}"));
        let source = format!(",source={}/source", place.base.display());
        let done = place.run(&source, CHANGES);
        let lines: Vec<_> = done.text().lines().map(str::to_owned).collect();
        let want = ["one", "two", "one", "two", "640", "5", "one"];
        assert_eq!(lines[..7], want, "{version}: {}", done.report());
        // The file that is open has a name that nobody looks for; its close removes it.
        assert!(lines[7].starts_with(".fuse_hidden"), "{}", done.report());
        assert_eq!(lines[8], "d", "{version}: {}", done.report());
        assert_eq!(
            lines[lines.len() - 2..],
            ["300", "2"],
            "{version}: {}",
            done.report()
        );
        let left = shell(&format!("ls -A {}/source", place.base.display()));
        assert_eq!(left.text(), "", "{version}");
    }
}

#[test]
fn the_main_of_a_source_gets_the_mounts_arguments() {
    let place = Place::new("greeting");
    place.compile(&format!("{ROOT}/examples/c/greeting.c"), "-Wextra -Werror");
    place.prints("", "ls; cat greeting", "greeting\nhello\n");
    // fuse_opt_parse(3) takes a backslash for itself, as libfuse has it.
    place.prints(",words=good day", "cat greeting", "good day\n");
    let done = place.run(",nonsense", "echo ran");
    let told = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status, "exit 125", "{}", done.report());
    assert!(told.contains("unknown option `nonsense'"), "{told}");
}

#[test]
fn a_source_is_served_by_the_kernel_too() {
    if !world().is_root() || !Path::new("/dev/fuse").exists() {
        return not_tested("sources for libfuse behind the kernel: that wants root and /dev/fuse");
    }
    let place = Place::new("kernel");
    place.compile(MIRROR, "-DFUSE_USE_VERSION=31");
    let base = place.base.display();
    let file = format!("{base}/fs.so");
    let (source, target) = (format!("{base}/source"), format!("{base}/target"));
    let done = culvert(&["mount", "-t", &file, &source, &target]);
    assert_eq!(done.status, "exit 0", "{}", done.report());
    let done = shell(&format!(
        "cd {target} && grep -c ' {target} fuse.fs.so ' /proc/mounts; {CHANGES}"
    ));
    let ended = shell(&format!(
        "umount {target} && for i in $(seq 100); do [ -e {base}/ended ] && break; sleep 0.1; \
        done; cat {base}/ended"
    ));
    assert!(
        done.text()
            .starts_with("1\none\ntwo\none\ntwo\n640\n5\none\n"),
        "{}",
        done.report()
    );
    assert_eq!(
        ended.text(),
        "ended\n",
        "destroy has run once: {}",
        ended.report()
    );
}

#[test]
fn a_source_that_does_not_fit_is_refused_with_the_reason() {
    let place = Place::new("misfits");
    let code = place.base.join("code.c");
    let refused = |text: &str, want: &str| {
        fs::write(&code, text).expect("ours");
        place.compile(&code.display().to_string(), "");
        let done = place.run("", "echo ran");
        let told = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status, "exit 125", "{}", done.report());
        assert!(told.contains(want), "no {want}: {told}");
    };
    refused("int nothing;", "does not define culvert_driver");
    refused("int main(void) { return 3; }", "status 3 before it served");
    refused(
        "extern int missing(void); int main(void) { return missing(); } int (*there)(void) = \
        missing;",
        "undefined symbol: missing",
    );
    refused(
        "#include <stdlib.h>\nint main(void) { abort(); }",
        "signal 6",
    );
    fs::write(&code, "#define FUSE_USE_VERSION 21\n#include <fuse.h>\n").expect("ours");
    let done = place.cc(&code.display().to_string(), "");
    let told = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(told.contains("older than 22"), "{told}");
}

#[test]
fn a_program_linked_to_the_library_is_a_server() {
    let place = Place::new("linked");
    let base = place.base.display();
    let culvert_path = world().culvert.display();
    let done = shell(&format!(
        "mkdir -p {base}/pc && for p in culvert fuse fuse3; do {culvert_path} config --pkg-config \
        $p > {base}/pc/$p.pc; done; \
         export PKG_CONFIG_PATH={base}/pc; pkg-config --modversion fuse fuse3 culvert && \
         cc $(pkg-config --cflags fuse3) {ROOT}/examples/c/greeting.c -o {base}/greeting \
         $(pkg-config --libs fuse3) && \
         chmod 755 {base}/greeting"
    ));
    assert_eq!(done.text(), "2.9.9\n3.14.0\n3.14.0\n", "{}", done.report());
    let mount = format!("type=fuse.{base}/greeting,target={base}/target,words=linked");
    let done = culvert(&[
        "run",
        "--mount",
        &mount,
        "--",
        "cat",
        &format!("{base}/target/greeting"),
    ]);
    assert_eq!(done.text(), "linked\n", "{}", done.report());
}

#[test]
fn examples_of_libfuse_compile_unchanged() {
    for (directory, version) in SOURCES {
        let examples = Path::new(directory).join("example");
        if !examples.is_dir() {
            not_tested(format!(
                "libfuse's examples {version}: {directory} is not there"
            ));
            continue;
        }
        let place = Place::new(&format!("examples-{version}"));
        for name in ["hello", "hello_ll"] {
            place.compile(
                &examples.join(format!("{name}.c")).display().to_string(),
                "-w",
            );
            place.prints("", "ls; cat hello", "hello\nHello World!\n");
        }
        let (name, words) = match version {
            "2.9" => (
                "fusexmp",
                "-w -D_GNU_SOURCE -DHAVE_UTIMENSAT -DHAVE_SETXATTR",
            ),
            _ => ("passthrough", "-w -DHAVE_UTIMENSAT -DHAVE_SETXATTR"),
        };
        place.compile(
            &examples.join(format!("{name}.c")).display().to_string(),
            words,
        );
        let script = format!(
            "cd .{}/source; echo one > a; mv a b; cat b; ls; rm b",
            place.base.display()
        );
        place.prints("", &script, "one\nb\n");
        if version != "2.9" {
            place.compile(
                &examples.join("passthrough_ll.c").display().to_string(),
                "-w",
            );
            place.prints("", &script, "one\nb\n");
        }
    }
}

/// A `configure` links programs that call functions by their plain names.
#[test]
fn a_configure_that_links_a_name_finds_it() {
    let place = Place::new("names");
    let (base, culvert) = (place.base.display(), world().culvert.display());
    let program = "char fuse_session_loop(void); int main(void) { return fuse_session_loop(); }";
    fs::write(place.base.join("names.c"), program).expect("ours");
    let linked = |words: &str| shell(&format!("cc {base}/names.c -o {base}/names {words}"));
    assert_ne!(linked("").status, "exit 0");
    let done = linked(&format!("$({culvert} config --libs)"));
    assert_eq!(done.status, "exit 0", "{}", done.report());
    // Each that a header has.
    let include = format!("{ROOT}/crates/culvert-fuse/include");
    let script = format!(
        "cd {include}; grep -ohE '\\bfuse_[a-z0-9_]+\\(' fuse*.h | grep -oE '^[a-z0-9_]+' | \
         sort -u | while read name; do \
         grep -qx \"PROVIDE($name = 0);\" fuse_names.ld || echo $name; done"
    );
    assert_eq!(shell(&script).text(), "fuse_main\n");
}
