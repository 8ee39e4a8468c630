//! Files below a layer that leaves their bytes alone: the program has the kernel's own file, and
//! what is not about bytes is the layer's.

use crate::kernel_mount::{culvert, shell};
use culvert_e2e::{Case, Driver, as_each_user, world};

/// The program `programs/backed.py` in the mount and in a directory of the kernel.
fn program(case: Case) {
    let program = case.program("backed.py");
    case.good(&format!("cd $M && exec python3 {program}"));
}

fn nameless(case: Case) {
    let program = case.program("nameless.py");
    case.good(&format!("exec python3 {program} $M"));
}

as_each_user! {
    descriptors_are_the_kernels_files |case| program(case.directory(Driver::Backed));
    files_without_a_name_go_to_other_programs |case| nameless(case.directory(Driver::Backed));
}

/// Runs `script` in a source under `options`, traced; the calls that it made between its marks.
fn traced(name: &str, options: &str, script: &str) -> Option<Vec<String>> {
    traced_on(name, "BASE/source", options, script)
}

/// The same in a mount of `sources`, in which `BASE` is a directory of the test's.
fn traced_on(name: &str, sources: &str, options: &str, script: &str) -> Option<Vec<String>> {
    if world().only_native || !culvert_e2e::installed("strace") {
        culvert_e2e::not_tested("strace is not installed");
        return None;
    }
    let base = world().claim("backed", name);
    for directory in ["source", "two", "three", "target"] {
        std::fs::create_dir_all(base.join(directory)).expect("the base directory is ours");
    }
    let [sources, options, script] =
        [sources, options, script].map(|text| text.replace("BASE", &base.display().to_string()));
    let (base, culvert) = (base.display(), world().culvert.display());
    let done = shell(&format!(
        "strace -f -qq -o {base}/trace {culvert} run --no-private \
         -v {sources}:{base}/target:{options} -- python3 -c '
import os
os.chdir(\"{base}/target\")
def mark(): os.write(2, b\"MARK\")
{script}'"
    ));
    assert_eq!(done.status, "exit 0", "{}", done.report());
    let trace = std::fs::read_to_string(format!("{base}/trace")).expect("strace has written it");
    let mut parts = trace.split("MARK");
    let marked = parts.next().and_then(|before| before.lines().last());
    let process = marked.and_then(|line| line.split_whitespace().next());
    // The rest of the first mark's line, and the beginning of the second.
    let between = parts.next().expect("two marks").lines().skip(1);
    let names = between.filter_map(|line| {
        let mut words = line.split_whitespace();
        // What writes a log does so meanwhile.
        let is_own = words.next() == process;
        let call = words.next().filter(|call| is_own && *call != "<...")?;
        Some(call.split('(').next()?.to_owned())
    });
    let names: Vec<_> = names.collect();
    Some(names[..names.len().saturating_sub(1)].to_vec())
}

const TOUCHES_ATTRIBUTES: &str = "layer=fault,fault.rule=attributes+after=1000000000+errno=EIO";

#[test]
fn reads_and_writes_are_the_programs_own_calls() {
    let script = "
fd = os.open(\"f\", os.O_RDWR | os.O_CREAT)
mark()
os.write(fd, b\"hello\"); os.lseek(fd, 0, 0); os.read(fd, 3); os.pread(fd, 2, 0)
os.pwrite(fd, b\"x\", 1)
mark()";
    let want = ["write", "lseek", "read", "pread64", "pwrite64"];
    if let Some(calls) = traced("bytes", TOUCHES_ATTRIBUTES, script) {
        assert_eq!(calls, want);
    }
}

#[test]
fn a_layer_that_touches_nothing_costs_nothing() {
    let script = "
os.close(os.open(\"f\", os.O_RDWR | os.O_CREAT)); os.stat(\"f\")
mark()
fd = os.open(\"f\", os.O_RDWR); os.read(fd, 3); os.close(fd); os.stat(\"f\")
mark()";
    let plain = traced("plain", "rw", script);
    assert_eq!(plain, traced("idle", "layer=fault,fault.seed=1", script));
}

/// A path of two names: what the directory is, and the file, and what is done to it. No node gets a
/// descriptor for that.
#[test]
fn a_path_below_a_layer_costs_few_calls() {
    const UNION: &str = "BASE/source=RW:BASE/two=RW:BASE/three=RO";
    let layer = ["BASE/source", "layer=fault,fault.rule=statfs+errno=EIO"];
    let log = ["BASE/source", "layer=log,log.file=BASE/log,log.data=no"];
    let owners = ["BASE/source", "layer=bind,bind.xattr-none"];
    let union = [UNION, "type=union,category.create=ff"];
    // Where a module of the kernel's labels programs, modes alone do not say who may read.
    let read = match std::fs::read("/proc/self/attr/current") {
        Ok(_) => "epoll_wait statx faccessat2",
        Err(_) => "epoll_wait statx",
    };
    let mut wrong = Vec::new();
    for (name, [sources, options], operation, want) in [
        ("stat", layer, "os.stat(path)", "statx statx"),
        (
            "absent",
            layer,
            "os.path.exists(path + \"x\")",
            "statx statx",
        ),
        (
            "access",
            layer,
            "os.access(path, 4)",
            "statx statx faccessat2",
        ),
        (
            "chmod",
            layer,
            "os.chmod(path, 0o600)",
            "statx statx fchmodat2",
        ),
        (
            "link",
            layer,
            "os.readlink(path + \"l\")",
            "statx statx statx statx readlinkat",
        ),
        (
            "open",
            layer,
            "os.close(os.open(path, 0))",
            "statx statx openat2 statx close",
        ),
        (
            "create",
            layer,
            "os.close(os.open(path + \"n\", os.O_CREAT | os.O_EXCL | 1))",
            "statx statx openat statx close",
        ),
        ("log", log, "os.stat(path)", "statx statx"),
        ("bind", owners, "os.stat(path)", "statx statx"),
        ("union", union, "os.stat(path)", "statx statx"),
        (
            "union-root",
            union,
            "os.path.exists(\"BASE/target/x\")",
            "statx statx statx",
        ),
        (
            "union-access",
            union,
            "os.access(path, 4)",
            "statx statx faccessat2",
        ),
        (
            "union-chmod",
            union,
            "os.chmod(path, 0o600)",
            "statx statx statx statx statx fchmodat2",
        ),
        (
            "union-open",
            union,
            "os.close(os.open(path, 0))",
            "statx statx openat2 statx close",
        ),
        (
            "union-create",
            union,
            "os.close(os.open(path + \"n\", os.O_CREAT | os.O_EXCL | 1))",
            "statx statx statx statx fstatfs openat statx close",
        ),
        (
            "union-rename",
            union,
            "os.rename(path, path + \"r\"); os.rename(path + \"r\", path)",
            "statx statx statx statx statx statx renameat2 \
             statx statx statx statx statx statx renameat2",
        ),
        // What the directory is on each branch is believed once many calls have used it.
        (
            "union-used-stat",
            union,
            "os.stat(path)",
            "epoll_wait statx",
        ),
        (
            "union-used-access",
            union,
            "os.access(path, 6)",
            "epoll_wait statx faccessat2",
        ),
        ("union-used-read", union, "os.access(path, 4)", read),
        (
            "union-used-chmod",
            union,
            "os.chmod(path, 0o600)",
            "epoll_wait fchmodat2",
        ),
        (
            "union-used-open",
            union,
            "os.close(os.open(path, 0))",
            "epoll_wait statx openat2 statx close",
        ),
        (
            "union-used-create",
            union,
            "os.close(os.open(path + \"n\", os.O_CREAT | os.O_EXCL | 1))",
            "epoll_wait fstatfs openat statx close",
        ),
        (
            "union-used-rename",
            union,
            "os.rename(path, path + \"r\"); os.rename(path + \"r\", path)",
            "epoll_wait statx renameat2 epoll_wait statx renameat2",
        ),
    ] {
        let many = match name.contains("used") {
            true => 200,
            false => 0,
        };
        // Some calls must have been made often before they are made at once.
        let often = ["rename", "chmod", "read"]
            .iter()
            .any(|word| name.contains(word));
        let often = match often {
            true => "work()",
            false => "pass",
        };
        let script = format!(
            "
path = \"BASE/target/d/f\"
def work(): {operation}
os.mkdir(\"d\"); os.close(os.open(path, os.O_CREAT)); os.symlink(\"f\", path + \"l\")
for again in range({many}): os.stat(path); {often}
work()
if os.path.exists(path + \"n\"): os.unlink(path + \"n\")
mark()
work()
mark()"
        );
        let name = format!("path-{name}");
        if let Some(calls) = traced_on(&name, sources, options, &script) {
            // Old kernels and the tracer's older tables have no name for fchmodat2.
            let calls = calls.join(" ").replace("syscall_0x1c4", "fchmodat2");
            // What wakes the writer of a log, should it sleep.
            let calls = match name == "path-log" {
                true => calls.replace(" write", ""),
                false => calls,
            };
            if calls != want {
                wrong.push(format!("{name}: {calls}, not {want}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// What a program asks that inherited the descriptor, or got it through a socket, is the layer's
/// still.
#[test]
fn a_layer_hears_of_descriptors_of_other_programs() {
    if world().only_native {
        return;
    }
    let base = world().claim("backed", "others");
    for directory in ["source", "target"] {
        std::fs::create_dir_all(base.join(directory)).expect("the base directory is ours");
    }
    let base = base.display();
    let volume = format!("{base}/source:{base}/target:layer=fault,fault.rule=sync+errno=EDQUOT");
    let script = script!("backed/others.sh", base);
    let done = culvert(&["run", "-v", &volume, "--", "bash", "-c", &script]);
    assert_eq!(done.status, "exit 0", "{}", done.report());
    let quota = "[Errno 122] Disk quota exceeded\n";
    assert_eq!(done.text(), quota.repeat(4), "{}", done.report());
}

/// Flags of the inode are set through the layer; what else the kernel's file knows it does itself.
#[test]
fn a_layer_hears_of_flags_of_the_inode() {
    if world().only_native {
        return;
    }
    let base = world().claim("backed", "ioctl");
    for directory in ["source", "target"] {
        std::fs::create_dir_all(base.join(directory)).expect("the base directory is ours");
    }
    let base = base.display();
    let volume = format!("{base}/source:{base}/target:layer=fault,fault.rule=ioctl+errno=EDQUOT");
    let script = format!(
        "import array, fcntl, os
fd = os.open('{base}/target/f', os.O_RDWR | os.O_CREAT)
try: fcntl.ioctl(fd, 0x40086602, array.array('i', [0]))
except OSError as error: print(error)
print(array.array('i', fcntl.ioctl(fd, 0x541b, bytes(4)))[0])"
    );
    let done = culvert(&["run", "-v", &volume, "--", "python3", "-c", &script]);
    assert_eq!(done.status, "exit 0", "{}", done.report());
    let want = "[Errno 122] Disk quota exceeded\n0\n";
    assert_eq!(done.text(), want, "{}", done.report());
}

/// A program that is in another mount namespace than its branches hears of other mounts; so nothing
/// is believed there.
#[test]
fn what_is_mounted_where_a_program_has_been_is_seen() {
    if world().only_native || !world().is_root() {
        return;
    }
    let base = world().claim("backed", "left");
    for directory in ["one/d", "two", "three", "target"] {
        std::fs::create_dir_all(base.join(directory)).expect("the base directory is ours");
    }
    std::fs::write(base.join("one/d/f"), "12").expect("the base directory is ours");
    let base = base.display();
    let mount =
        format!("type=union,source={base}/one:{base}/two:{base}/three,target={base}/target");
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/left_namespace.py");
    let (target, branch) = (format!("{base}/target"), format!("{base}/one"));
    let words = ["python3", program, &target, &branch];
    let done = culvert(&[&["run", "--mount", &mount, "--"][..], &words].concat());
    assert_eq!(done.status, "exit 0", "{}", done.report());
    assert_eq!(done.text(), "2\n2\nNone\n", "{}", done.report());
}
