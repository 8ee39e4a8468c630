//! What libraries by `culvert/driver.h` are called for besides files and names: open files that go
//! on over execve(2), who waits, locks, open directories.

use crate::kernel_mount::{culvert, shell};
use crate::libraries::{Place, ROOT};
use culvert_e2e::{not_tested, world};
use std::path::Path;

/// A library whose open files count their reads, and hand the count on.
const COUNTS: &str = "#include <culvert/freestanding.h>\n#include <string.h>\n\
    static int attributes(void *s, const char *path, struct stat *a)\n\
    { (void)s; if (*path && strcmp(path, \"count\")) return ENOENT;\n\
      a->st_mode = *path ? S_IFREG | 0444 : S_IFDIR | 0555; return 0; }\n\
    static int open_(void *s, const char *path, int flags, mode_t mode, void **file)\n\
    { (void)s, (void)path, (void)flags, (void)mode; *file = calloc(1, 1); return *file ? 0 : \
    ENOMEM; }\n\
    static int close_(void *s, void *file) { (void)s; free(file); return 0; }\n\
    static int read_(void *s, void *file, void *to, size_t size, off_t at, size_t *done)\n\
    { (void)s, (void)at; *(char *)to = (char)('0' + ++*(char *)file); *done = size > 0; return 0; \
    }\n\
    static int save(void *s, void *file, void *buffer, size_t *size)\n\
    { (void)s; *(char *)buffer = *(char *)file; *size = 1; return 0; }\n\
    static int restore(void *s, const char *path, int flags, const void *saved, size_t size, void \
    **file)\n\
    { int failed = open_(s, path, flags, 0, file);\n\
      if (!failed && size) { *(char *)*file = *(const char *)saved; }\n return failed; }\n\
    const struct culvert_driver culvert_driver = { .version = CULVERT_DRIVER_VERSION,\n\
    .size = sizeof culvert_driver, .flags = CULVERT_NO_CACHE | CULVERT_STATELESS, .getattr = \
    attributes,\n\
    .open = open_, .close = close_, .read = read_, .save = save, .restore = restore };";

#[test]
fn an_open_file_of_a_library_goes_on_in_the_next_program() {
    let place = Place::new("saved");
    place.compile_code(COUNTS);
    let next = "import os; print(os.read(5, 1).decode())";
    let first = "import os; fd = os.open(\\\"count\\\", 0); os.dup2(fd, 5); os.read(5, 1); \
        os.read(5, 1); \
                 os.execvp(\\\"python3\\\", [\\\"python3\\\", \\\"-c\\\", \
                 os.environ[\\\"NEXT\\\"]])";
    let script = format!("export NEXT='{next}'; python3 -c \"{first}\"");
    place.prints("", &script, "3\n");
    // In a host it is one for all.
    place.prints(",place=host", &script, "3\n");
}

#[test]
fn a_library_runs_where_memory_that_was_written_is_not_executed() {
    let place = Place::new("mdwe");
    place.compile(&format!("{ROOT}/examples/c/direct.c"), "-O2");
    let limits = world().program("limits");
    let limits = limits.display();
    place.prints(
        ",calls",
        &format!("{limits} mdwe cat file | tail -n 1"),
        "hello\n",
    );
}

/// What waits for a mailbox, and has locks on it.
const WAITS: &str = r#"
import fcntl, os, select, signal, subprocess, sys
box = os.open("box", os.O_RDWR | os.O_CREAT)
ready = select.poll()
ready.register(box, select.POLLIN)
print(len(ready.poll(0)))
writer = subprocess.Popen(["sh", "-c", "read go; echo hello > box"], stdin=subprocess.PIPE)
writer.stdin.write(b"go\n"); writer.stdin.close()
print(len(ready.poll(30000)), os.read(box, 99).decode().strip())
writer.wait()
print(len(ready.poll(0)))
other = os.open("box", os.O_RDWR)
fcntl.flock(box, fcntl.LOCK_EX)
try:
    fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
except BlockingIOError:
    print("busy")
class Over(Exception):
    pass
def over(*_):
    raise Over
signal.signal(signal.SIGALRM, over)
signal.setitimer(signal.ITIMER_REAL, 0.2)
try:
    fcntl.flock(other, fcntl.LOCK_EX)
except Over:
    print("interrupted")
waiter = subprocess.Popen(["flock", "box", "echo", "granted"])
os.close(box)
print(waiter.wait())
"#;

#[test]
fn a_library_is_told_who_waits_and_who_locks() {
    let place = Place::new("mailbox");
    place.compile(&format!("{ROOT}/examples/c/mailbox.c"), "-pthread");
    // In a run: names as they were at the open, and messages in their order.
    let script = "echo one > a; echo two > a; ls; cat a; flock a echo locked";
    place.prints("", script, "a\none\ntwo\nlocked\n");
    if !world().is_root() || !Path::new("/dev/fuse").exists() {
        return not_tested("poll and locks of libraries: that wants root and /dev/fuse");
    }
    let base = place.base.display().to_string();
    let target = format!("{base}/target");
    let done = culvert(&["mount", "-t", &format!("{base}/lib.so"), "none", &target]);
    assert_eq!(done.status, "exit 0", "{}", done.report());
    std::fs::write(place.base.join("waits.py"), WAITS).expect("ours");
    let done = shell(&format!(
        "cd {target} && timeout 60 python3 -u {base}/waits.py"
    ));
    let ended = shell(&format!("umount {target}"));
    let want = "0\n1 hello\n0\nbusy\ninterrupted\ngranted\n0\n";
    assert_eq!(done.text(), want, "{}", done.report());
    assert_eq!(ended.status, "exit 0", "{}", ended.report());
}

/// A class whose functions say that they were called.
const CLASS: &str = r#"
#include <culvert/driver.hpp>
#include <poll.h>
#include <sys/file.h>
#include <sys/ioctl.h>
struct Sheet : culvert::File {
    size_t read(void *to, size_t size, off_t at) override {
        size_t count = at < 8 ? std::min<size_t>(size, 8 - at) : 0;
        memcpy(to, "content\n" + at, count);
        return count;
    }
    size_t write(const void *, size_t size, off_t) override { return size; }
    void fgetattr(struct stat &found) override {
        found.st_mode = S_IFREG | 0666;
        found.st_size = 8;
    }
    int ioctl(uint32_t request, void *argument, size_t size) override {
        if (request != _IOWR('c', 1, int) || size != sizeof(int))
            throw culvert::Errno(ENOTTY);
        return ++*static_cast<int *>(argument) * 2;
    }
    unsigned poll(culvert::Waker) override { return POLLOUT; }
    void flock(uint64_t, int how, const culvert_wait *) override {
        if (how == LOCK_EX)
            throw culvert::Errno(EAGAIN);
    }
};
struct Kept : culvert::Directory {
    std::vector<culvert::Entry> list() override { return {{"kept", S_IFREG}}; }
    void fsync(bool) override { throw culvert::Errno(EDQUOT); }
};
struct Sheets : culvert::FileSystem {
    explicit Sheets(const culvert::Mount &) {}
    uint64_t flags() override { return 0; }
    void access(const std::string &path, int) override {
        if (path == "secret")
            throw culvert::Errno(EACCES);
    }
    void getattr(const std::string &path, struct stat &found) override {
        found.st_mode = path.empty() ? S_IFDIR | 0755 : S_IFREG | 0666;
        found.st_size = path.empty() ? 0 : 8;
    }
    std::unique_ptr<culvert::File> open(const std::string &, int, mode_t) override {
        return std::make_unique<Sheet>();
    }
    std::unique_ptr<culvert::Directory> opendir(const std::string &) override {
        return std::make_unique<Kept>();
    }
};
CULVERT_FILE_SYSTEM(Sheets)
"#;

/// What a program sees of it, and on a kernel mount.
const USES: &str = r#"
import errno, fcntl, os, select, sys
def failed(what, *words):
    try:
        return what(*words)
    except OSError as error:
        return errno.errorcode[error.errno]
fd = os.open("a", os.O_RDWR)
print(os.read(fd, 99), os.listdir("."), failed(open, "secret"))
number = bytearray((20).to_bytes(4, "little"))
print(fcntl.ioctl(fd, 0xc0046301, number), number[0], failed(fcntl.ioctl, fd, 0xc0046302, number))
print(failed(os.fsync, os.open(".", os.O_RDONLY)))
if "kernel" in sys.argv:
    ready = select.poll()
    ready.register(fd, select.POLLIN | select.POLLOUT)
    print([events for _, events in ready.poll(0)])
"#;

#[test]
fn a_class_in_cpp_is_asked_what_the_table_has() {
    let place = Place::new("class");
    let base = place.base.display().to_string();
    std::fs::write(place.base.join("lib.cpp"), CLASS).expect("ours");
    std::fs::write(place.base.join("uses.py"), USES).expect("ours");
    let done = shell(&format!(
        "c++ -std=c++17 -Wall -Wextra -Werror -O1 -shared -fPIC \
         -I {ROOT}/crates/culvert-library/include -o {base}/lib.so {base}/lib.cpp"
    ));
    assert_eq!(done.status, "exit 0", "{}", done.report());
    let want = "b'content\\n' ['kept'] EACCES\n42 21 ENOTTY\nEDQUOT\n";
    place.prints("", &format!("python3 {base}/uses.py"), want);
    if !world().is_root() || !Path::new("/dev/fuse").exists() {
        return not_tested("poll of a class: that wants root and /dev/fuse");
    }
    let target = format!("{base}/target");
    let done = culvert(&["mount", "-t", &format!("{base}/lib.so"), "none", &target]);
    assert_eq!(done.status, "exit 0", "{}", done.report());
    let done = shell(&format!("cd {target} && python3 {base}/uses.py kernel"));
    shell(&format!("umount {target}"));
    assert_eq!(done.text(), format!("{want}[4]\n"), "{}", done.report());
}

/// A library whose functions know nothing: what there is, its tree has.
const TREE: &str = "#include <culvert/freestanding.h>\n#include <fcntl.h>\n\
    #ifndef O_PATH\n#define O_PATH 010000000\n#endif\n\
    static int init(const struct culvert_mount *mount, void **state)\n\
    { long fd = culvert_syscall(SYS_open, (long)mount->source, O_PATH, 0, 0, 0, 0);\n\
      if (fd < 0) return (int)-fd;\n  *state = culvert_keep((int)fd); return 0; }\n\
    static void finalize(void *state) { culvert_drop(state); }\n\
    static int attributes(void *s, const char *path, struct stat *a)\n\
    { (void)s; a->st_mode = S_IFDIR | 0555; return *path ? ENOENT : 0; }\n\
    static int tree(void *state, int *fd) { *fd = culvert_number(state); return 0; }\n\
    const struct culvert_driver culvert_driver = { .version = CULVERT_DRIVER_VERSION,\n\
    .size = sizeof culvert_driver, .flags = CULVERT_STATELESS, .init = init,\n\
    .finalize = finalize, .getattr = attributes, .tree = tree };";

#[test]
fn a_library_that_is_a_tree_of_the_kernels_is_served_by_it() {
    let place = Place::new("tree");
    place.compile_code(TREE);
    let base = place.base.display();
    let script = format!(
        "cat file; [ file -ef {base}/source/file ] && echo same; echo more >> file; cat < file; \
         exec 5< file 6< .; bash -c 'cat <&5; ls /proc/self/fd/6'; mkdir d; mv file d/f; \
         (cd d && cat f); readlink -f d/f | sed s:.*/target/::; rm -r d; ls | wc -l"
    );
    let want = "hello\nsame\nhello\nmore\nhello\nmore\nfile\nhello\nmore\nd/f\n0\n";
    place.prints("", &script, want);
    std::fs::write(place.base.join("source/file"), "hello\n").expect("ours");
    // Layers over it hear what they want to hear.
    place.prints(",layer=casefold", "cat FILE", "hello\n");
    let refused = "cat file; { echo x > file; } 2>&1 | grep -c Read-only; chmod 600 file || :";
    place.prints(",ro", refused, "hello\n1\n");
    // In a host its functions are called, which know of no file.
    place.prints(",place=host", "cat file 2>&1 | grep -c 'No such'", "1\n");
    // It is the same one in every program of the run.
    let script = format!(
        "cd /; cat {base}/target/file; mv {base}/source {base}/kept; mkdir {base}/source; \
         echo other > {base}/source/file; cat {base}/target/file 2>&1 | grep -c output.error; \
         rm -r {base}/source; mv {base}/kept {base}/source"
    );
    place.prints("", &script, "hello\n1\n");
    // One that is none is told before a program starts.
    place.compile_code(&TREE.replace("*fd = culvert_number(state)", "*fd = 1000; (void)state"));
    place.refused("", "tree of the library gives 1000, which is no directory");
}

/// What was opened before is read and listed below another root, where no path leads to the
/// library: by a driver that the program begins to use there, too.
#[test]
fn a_library_is_used_by_programs_below_another_root() {
    if !world().is_root() {
        return not_tested("chroot(2) wants root");
    }
    let place = Place::new("rooted");
    let base = place.base.display();
    let look = "import os, sys\n\
        early = os.open('.', os.O_RDONLY) if 'early' in sys.argv else 6\n\
        os.chroot(sys.argv[1])\n\
        print(os.read(5, 99), os.listdir(early), os.path.exists('/bin'))\n\
        if early != 6: print(os.read(os.open('file', os.O_RDONLY, dir_fd=early), 99))\n";
    std::fs::write(place.base.join("look.py"), look).expect("ours");
    std::fs::create_dir(place.base.join("root")).expect("ours");
    let script = format!(
        "for when in early late; do python3 {base}/look.py {base}/root $when 5< file 6< .; done"
    );
    let seen = "b'hello\\n' ['file'] False\n";
    let want = format!("{seen}b'hello\\n'\n{seen}");
    place.compile(&format!("{ROOT}/examples/c/mirror.c"), "");
    place.prints("", &script, &want);
    place.compile(&format!("{ROOT}/examples/c/direct.c"), "-O2");
    place.prints("", &script, &want);
    place.prints(",calls", &script, &want);
}

#[test]
fn a_library_is_mounted_in_defuses_words() {
    if !world().is_root() || !Path::new("/dev/fuse").exists() {
        return not_tested("mounts of libraries: that wants root and /dev/fuse");
    }
    let place = Place::new("defuse");
    place.compile(&format!("{ROOT}/examples/c/mirror.c"), "");
    let done = shell(&format!(
        "cd {0}; ln -s {1} mount.culvert; \
         ./mount.culvert culvert {0}/target -o backend={0}/source,library={0}/lib.so && \
         cat target/file; umount target; echo $?",
        place.base.display(),
        world().culvert.display()
    ));
    assert_eq!(done.text(), "hello\n0\n", "{}", done.report());
}
