//! Drivers of others in shared libraries, `type=./libmine.so`, by `culvert/driver.h`.

use crate::kernel_mount::{culvert, shell};
use culvert_e2e::{Finished, world};
use std::{fs, path::PathBuf};

pub const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Directories for one test, and what is compiled there.
pub struct Place {
    pub base: PathBuf,
}

impl Place {
    pub fn new(name: &str) -> Self {
        let base = world().claim("libraries", name);
        for directory in ["source", "target"] {
            fs::create_dir_all(base.join(directory)).expect("the base directory is ours");
        }
        fs::write(base.join("source/file"), "hello\n").expect("ours");
        Self { base }
    }

    /// Compiles a C source to `lib.so`, with more words for the compiler.
    #[track_caller]
    pub fn compile(&self, source: &str, words: &str) {
        let base = self.base.display();
        let include = format!("{ROOT}/crates/culvert-library/include");
        let done = shell(&format!(
            "cc -std=gnu11 -Wall -Wextra -Werror {words} -shared -fPIC -I {include} -o \
            {base}/lib.so {source} && \
             chmod 755 {base}/lib.so"
        ));
        assert_eq!(done.status, "exit 0", "{}", done.report());
    }

    /// Compiles `code` behind the header.
    #[track_caller]
    pub fn compile_code(&self, code: &str) {
        let file = self.base.join("lib.c");
        let all = format!(
            "#include <culvert/driver.h>\n#include <errno.h>\n#include <stdlib.h>\n#include \
            <stdio.h>\n{code}\n"
        );
        fs::write(&file, all).expect("ours");
        self.compile(&file.display().to_string(), "");
    }

    /// Runs `script` in the target.
    pub fn run(&self, options: &str, script: &str) -> Finished {
        let base = self.base.display();
        let mount =
            format!("type={base}/lib.so,source={base}/source,target={base}/target{options}");
        let script = format!("cd {base}/target; {script}");
        culvert(&["run", "--mount", &mount, "--", "bash", "-c", &script])
    }

    /// Runs `script` in the target with `before` in front of the command, and waits until something
    /// is told of a host that has ended. What the script printed, and what was told.
    #[track_caller]
    fn told(&self, before: &str, script: &str) -> (String, String) {
        let (base, command) = (self.base.display(), world().culvert.display());
        let done = shell(&format!(
            "export HOME={base}; {before} {command} run \
             --mount type={base}/lib.so,source={base}/source,target={base}/target -- bash -c '\
             cd {base}/target; {script}; \
             for i in $(seq 200); do grep -qs ended {base}/told && break; sleep .1; done' 2> \
             {base}/told"
        ));
        let told = fs::read_to_string(self.base.join("told")).unwrap_or_default();
        (done.text(), told)
    }

    #[track_caller]
    pub fn prints(&self, options: &str, script: &str, want: &str) {
        let done = self.run(options, script);
        assert_eq!(done.text(), want, "{}", done.report());
        assert_eq!(done.status, "exit 0", "{}", done.report());
    }

    #[track_caller]
    pub fn refused(&self, options: &str, want: &str) {
        let done = self.run(options, "echo ran");
        let told = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status, "exit 125", "{}", done.report());
        assert!(told.contains(want), "no {want}: {told}");
    }
}

/// What a directory is used for in all ways that a shell has.
const USE: &str = "cat file; echo one > made; echo two >> made; cat made; mkdir -p d/e; mv made \
    d/e/m; \
     ln d/e/m d/hard; stat -c %h d/hard; ln -s hard d/soft; cat d/soft; chmod 640 d/hard; \
     stat -c %a d/hard; touch -d @5 d/hard; stat -c %Y d/hard; truncate -s 3 d/hard; cat d/hard; \
     echo; exec 5< d/hard; rm d/hard d/e/m; cat <&5; echo; rm -r d; ls; \
     for i in $(seq 300); do : > $i; done; ls | wc -l; rm -f [0-9]*; ls";

/// What that prints.
const USED: &str = "hello\none\ntwo\n2\none\ntwo\n640\n5\none\none\nfile\n301\nfile\n";

#[test]
fn a_library_without_a_libc_runs_in_the_programs() {
    let place = Place::new("direct");
    place.compile(&format!("{ROOT}/examples/c/direct.c"), "-O2");
    let library = place.base.join("lib.so").display().to_string();
    let told = culvert(&["doctor", &library]);
    assert!(
        told.text().contains("place=process: it is stateless"),
        "{}",
        told.report()
    );
    for options in ["", ",calls", ",place=host"] {
        place.prints(options, USE, USED);
    }
    for options in [",layer=casefold", ",calls,layer=casefold"] {
        place.prints(options, "cat FILE", "hello\n");
    }
    // Files go on over fork and exec; the run has its own copy of the library.
    let script = format!(
        "exec 5< file; rm {library}; bash -c 'cat <&5; cat file'; (read word < file; echo $word); \
        cp file c; rm c"
    );
    place.prints(",calls", &script, "hello\nhello\nhello\n");
}

#[test]
fn a_library_without_a_libc_serves_mappings_and_programs_of_musl() {
    let place = Place::new("musl");
    place.compile(&format!("{ROOT}/examples/c/direct.c"), "-O2");
    let base = place.base.display().to_string();
    let program = "#include <stdio.h>\nint main(void) { char text[9] = \"\"; FILE *file = \
        fopen(\"file\", \"r\");\n\
                   return !file || !fgets(text, 9, file) || fputs(text, stdout) < 0; }\n";
    fs::write(place.base.join("program.c"), program).expect("ours");
    let compiled = shell(&format!("musl-gcc -o {base}/program {base}/program.c"));
    assert_eq!(compiled.status, "exit 0", "{}", compiled.report());
    place.prints(",calls", &format!("{base}/program"), "hello\n");
    let stores = "import mmap; f = open('m', 'w+b'); f.write(b'a' * 8192); f.flush(); \
                  m = mmap.mmap(f.fileno(), 8192); m[0:3] = b'xyz'; f.seek(0); \
                  print(f.read(4).decode())";
    let script = format!("python3 -c \"{stores}\"; head -c 4 {base}/source/m; rm m");
    for options in ["", ",calls"] {
        place.prints(options, &script, "xyza\nxyza");
    }
}

/// A library that says in which process it runs.
const WHERE: &str = "#include <culvert/freestanding.h>\n#include <string.h>\n\
    static int attributes(void *s, const char *path, struct stat *a)\n\
    { (void)s; if (*path && strcmp(path, \"pid\")) return ENOENT;\n\
      a->st_mode = *path ? S_IFREG | 0444 : S_IFDIR | 0555; return 0; }\n\
    static int read_(void *s, void *f, void *to, size_t size, off_t at, size_t *done)\n\
    { char text[16]; size_t n = sizeof text; long pid = culvert_syscall(SYS_getpid, 0, 0, 0, 0, \
    0, 0);\n\
      (void)s, (void)f; text[--n] = '\\n'; do text[--n] = '0' + pid % 10; while (pid /= 10);\n\
      if ((size_t)at < sizeof text - n && size >= sizeof text - n - at)\n\
      { *done = sizeof text - n - at; memcpy(to, text + n + at, *done); } return 0; }\n\
    const struct culvert_driver culvert_driver = { .version = CULVERT_DRIVER_VERSION,\n\
    .size = sizeof culvert_driver, .flags = CULVERT_NO_CACHE | STATE, .getattr = attributes, \
    .read = read_ };";

#[test]
fn a_library_runs_where_it_says_or_is_asked_to() {
    let place = Place::new("where");
    let script = "read pid < pid; [ $pid = $$ ] && echo here || echo elsewhere; (read pid < pid; \
                  [ $pid = $BASHPID ] && echo here || echo elsewhere)";
    place.compile_code(&format!("#define STATE CULVERT_STATELESS\n{WHERE}"));
    place.prints("", script, "here\nhere\n");
    place.prints(",place=process", script, "here\nhere\n");
    place.prints(",place=host", script, "elsewhere\nelsewhere\n");
    // With a state of its own it is one for all.
    place.compile_code(&format!("#define STATE 0\n{WHERE}"));
    place.prints("", script, "elsewhere\nelsewhere\n");
    place.refused(",place=process", "it does not say that it is stateless");
    // What needs a libc has one in a host.
    let needs = "__thread int mine; int *there(void) { return &mine; }";
    place.compile_code(&format!(
        "#define STATE CULVERT_STATELESS\n{needs}\n{WHERE}"
    ));
    place.prints("", script, "elsewhere\nelsewhere\n");
    place.refused(",place=process", "thread-local");
    let needs = "int there(void) { return puts(\"there\"); }";
    place.compile_code(&format!(
        "#define STATE CULVERT_STATELESS\n{needs}\n{WHERE}"
    ));
    place.refused(",place=process", "it needs puts, which only a libc has");
    let library = place.base.join("lib.so").display().to_string();
    let told = culvert(&["doctor", "--json", &library]);
    assert!(
        told.text().contains(r#""place":"host""#),
        "{}",
        told.report()
    );
}

/// Threads that allocate and fork while signal handlers use the mount: neither the program's locks
/// nor its signals are in a driver's way, nor is a driver in the way of the program's forks.
const BUSY: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static const char *file;
static int wrong, handled;
static void look(void)
{
    char bytes[8];
    int fd = open(file, O_RDONLY);
    if (fd < 0 || read(fd, bytes, 6) != 6 || memcmp(bytes, "hello\n", 6))
        __atomic_store_n(&wrong, 1, __ATOMIC_SEQ_CST);
    close(fd);
}
static void handler(int number)
{
    (void)number;
    look();
    __atomic_fetch_add(&handled, 1, __ATOMIC_SEQ_CST);
}
static void *allocates(void *none)
{
    for (int i = 0; i < 300; i++) {
        void *all[32];
        for (int k = 0; k < 32; k++)
            all[k] = malloc(16 + k * i % 5000);
        raise(SIGUSR1);
        for (int k = 0; k < 32; k++)
            free(all[k]);
        look();
    }
    return none;
}
static void *forks(void *none)
{
    for (int i = 0; i < 60; i++) {
        int status;
        pid_t child = fork();
        if (child == 0) {
            free(malloc(100));
            look();
            _exit(wrong);
        }
        if (child < 0 || waitpid(child, &status, 0) != child || status)
            __atomic_store_n(&wrong, 2, __ATOMIC_SEQ_CST);
    }
    return none;
}
int main(int count, char **words)
{
    pthread_t threads[8];
    struct sigaction action = { .sa_handler = handler, .sa_flags = SA_RESTART };
    file = words[count - 1];
    sigaction(SIGUSR1, &action, NULL);
    for (int i = 0; i < 8; i++)
        pthread_create(&threads[i], NULL, i < 6 ? allocates : forks, NULL);
    for (int i = 0; i < 2000; i++) {
        void *memory = malloc(64 + i);
        pthread_kill(threads[i % 6], 0);
        free(memory);
        if (i % 10 == 0)
            raise(SIGUSR1);
    }
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    /* All descriptors of its own are its to close. */
    if (close_range(3, ~0U, 0) || open(file, O_RDONLY) != 3)
        wrong = 3;
    look();
    printf("%d %s\n", wrong, handled == 2000 ? "all" : "some");
    return 0;
}
"#;

#[test]
fn nothing_of_the_program_stops_a_library_in_it() {
    let place = Place::new("busy");
    place.compile(&format!("{ROOT}/examples/c/direct.c"), "-O2");
    let (source, program) = (place.base.join("busy.c"), place.base.join("busy"));
    fs::write(&source, BUSY).expect("ours");
    let compile = format!(
        "cc -O1 -pthread -o {} {}",
        program.display(),
        source.display()
    );
    assert_eq!(shell(&compile).status, "exit 0");
    place.prints(",calls", &format!("{} file", program.display()), "0 all\n");
}

#[test]
fn a_hundred_threads_use_a_library() {
    let place = Place::new("hundred");
    let threads = "import threading\n\
         wrong = []\n\
         def look():\n    for _ in range(20):\n        \
         if open('file').read() != 'hello\\n': wrong.append(1)\n\
         all = [threading.Thread(target=look) for _ in range(100)]\n\
         [one.start() for one in all]; [one.join() for one in all]; print(len(wrong))";
    let script = format!("python3 -c \"{threads}\"");
    place.compile(&format!("{ROOT}/examples/c/mirror.c"), "");
    place.prints("", &script, "0\n");
    place.compile(&format!("{ROOT}/examples/c/direct.c"), "-O2");
    place.prints(",calls", &script, "0\n");
}

/// The beginning of a library in which `init` does `what`, and a file `x` is there.
fn misbehaving(what: &str) -> String {
    format!(
        "#include <signal.h>\n#include <unistd.h>\n#include <pthread.h>\n#include <string.h>\n\
         static int init(const struct culvert_mount *m, void **s) {{ (void)m; (void)s; {what} \
         return 0; }}\n\
         static int attributes(void *s, const char *path, struct stat *a)\n\
         {{ (void)s; if (*path && strcmp(path, \"x\")) return ENOENT;\n\
           a->st_mode = *path ? S_IFREG | 0444 : S_IFDIR | 0755; return 0; }}\n\
         const struct culvert_driver culvert_driver = {{ .version = CULVERT_DRIVER_VERSION,\n\
         .size = sizeof culvert_driver, .init = init, .getattr = attributes }};"
    )
}

#[test]
fn a_library_that_forks_or_blocks_signals_serves_and_ends() {
    let place = Place::new("forking");
    let log = place.base.join("log");
    let note = format!(
        "FILE *log = fopen(\"{}\", \"w\"); fprintf(log, \"%d\", getpid()); fclose(log);",
        log.display()
    );
    let block = "sigset_t all; sigfillset(&all); pthread_sigmask(SIG_BLOCK, &all, NULL);";
    for what in ["if (fork() == 0) { sleep(1); _exit(7); }", block] {
        place.compile_code(&misbehaving(&format!("{note} {what}")));
        place.prints("", "ls; test -f x && echo there", "there\n");
        let waited = shell(&format!(
            "host=$(cat {}); for i in $(seq 200); do grep -qsa . /proc/$host/cmdline || break; \
            sleep .1; done; \
             grep -qsa . /proc/$host/cmdline && echo there || echo gone",
            log.display()
        ));
        assert_eq!(waited.text(), "gone\n", "{what}: {}", waited.report());
    }
}

#[test]
fn a_library_that_exits_in_a_call_ends_its_host_alone() {
    let place = Place::new("exiting");
    let code = misbehaving("").replace(
        "return ENOENT;",
        "{ fprintf(stderr, \"enough\\n\"); exit(9); }",
    );
    place.compile_code(&code);
    let (text, told) = place.told("", "test -f x && echo there; cat y; cat z; echo alive");
    assert_eq!(text, "there\nalive\n", "{told}");
    assert!(
        told.contains("enough") && told.contains("status 9"),
        "{told}"
    );
}

#[test]
fn a_library_with_a_sanitizer_says_what_is_wrong_with_it() {
    let place = Place::new("sanitized");
    let code = misbehaving("").replace(
        "return ENOENT;",
        "{ char few[4]; volatile size_t at = strlen(path); few[at] = 1; return few[at] ? ENOENT : \
        0; }",
    );
    let source = place.base.join("lib.c");
    let headers = "#include <culvert/driver.h>\n#include <errno.h>\n#include <stdlib.h>\n#include \
        <stdio.h>\n";
    fs::write(&source, format!("{headers}{code}\n")).expect("ours");
    place.compile(
        &source.display().to_string(),
        "-g -fsanitize=address -Wno-array-bounds",
    );
    // What is loaded later has no say in malloc(3), which this asks the sanitizer to put up with.
    let before = "ASAN_OPTIONS=verify_asan_link_order=0";
    let (text, told) = place.told(before, "test -f x && echo there; cat toolong; echo alive");
    assert_eq!(text, "there\nalive\n", "{told}");
    // The whole trace: what it is, and all that stands before it ends the process.
    let whole = [
        "AddressSanitizer: stack-buffer-overflow",
        "Shadow byte legend",
        "ABORTING",
    ];
    assert!(whole.iter().all(|part| told.contains(part)), "{told}");
}

#[test]
fn examples_are_clean_under_sanitizers() {
    let place = Place::new("clean");
    let words = "-g -fsanitize=address,undefined";
    place.compile(&format!("{ROOT}/examples/c/mirror.c"), words);
    let (base, command) = (place.base.display(), world().culvert.display());
    let use_of = |script: &str| {
        shell(&format!(
            "export HOME={base} ASAN_OPTIONS=verify_asan_link_order=0 UBSAN_OPTIONS=halt_on_error=1; \
             {command} run --mount type={base}/lib.so,source={base}/source,target={base}/target -- \
             bash -c 'cd {base}/target; {script}'"
        ))
    };
    let done = use_of(USE);
    assert_eq!(done.text(), USED, "{}", done.report());
    place.compile(
        &format!("{ROOT}/examples/c/mailbox.c"),
        &format!("{words} -pthread"),
    );
    let done = use_of("echo one > a; echo two > a; ls; cat a");
    assert_eq!(done.text(), "a\none\ntwo\n", "{}", done.report());
}

#[test]
fn a_library_serves_all_programs_of_a_run() {
    let place = Place::new("hello");
    place.compile(&format!("{ROOT}/examples/c/hello.c"), "");
    let script = "ls -l . | wc -l; cat hello | cut -d'(' -f2; (cat hello; cat hello) | cut -d'(' \
        -f2; \
                  cat none 2>&1 | grep -c 'No such'; echo x 2>&1 > new | grep -c Read-only; :";
    let done = place.run("", script);
    let text = done.text();
    assert!(text.starts_with("2\n1)\n2)\n3)\n1\n"), "{}", done.report());
}

#[test]
fn a_directory_by_a_library_is_as_it_is() {
    let place = Place::new("mirror");
    place.compile(&format!("{ROOT}/examples/c/mirror.c"), "");
    place.prints("", USE, USED);
    place.prints(",layer=casefold", "cat FILE", "hello\n");
}

#[test]
fn a_library_that_does_not_fit_is_refused_with_the_reason() {
    let place = Place::new("misfits");
    place.refused("", "lib.so: No such file");
    fs::write(place.base.join("lib.so"), "no library").expect("ours");
    place.refused("", "lib.so");
    place.compile_code("int nothing;");
    place.refused("", "does not define culvert_driver");
    let driver = |what: &str| {
        format!(
            "static int init(const struct culvert_mount *m, void **s) {{ (void)m; (void)s; {what} \
            }}\n\
             const struct culvert_driver culvert_driver = {{ .version = CULVERT_DRIVER_VERSION, \
             .size = sizeof culvert_driver, .init = init }};"
        )
    };
    place.compile_code(
        "const struct culvert_driver culvert_driver = { .version = 99, .size = 16 };",
    );
    place.refused("", "version 99 of culvert/driver.h");
    place.compile_code(
        "extern int missing(void); int (*there)(void) = missing;\nconst struct \
        culvert_driver culvert_driver;",
    );
    place.refused("", "undefined symbol: missing");
    place.compile_code(&driver("return ENOTBLK;"));
    place.refused("", "Block device required");
    place.compile_code(&driver("puts(\"I do not like it\"); exit(7);"));
    place.refused("", "status 7");
    place.refused("", "I do not like it");
    place.compile_code(&driver("return -2;"));
    place.refused("", "init of the library has returned -2");
    place.compile_code(&driver("return 0;"));
    place.refused(",place=process", "it runs in a host");
    // Where others than root may change it.
    let base = place.base.display().to_string();
    for (mode, owner, want) in [
        (0o757, "0", "others than root may write it"),
        (0o755, "65534", "it belongs to user 65534"),
    ] {
        if !world().is_root() {
            break;
        }
        let done = shell(&format!(
            "chmod {mode:o} {base}/lib.so && chown {owner} {base}/lib.so"
        ));
        assert_eq!(done.status, "exit 0", "{}", done.report());
        place.refused("", want);
    }
}

#[test]
fn a_library_that_crashes_ends_its_host_alone() {
    let place = Place::new("crashing");
    place.compile_code(
        "int that_hurts(const char *path) { fprintf(stderr, \"%s hurts\\n\", path); abort(); }\n\
         static int attributes(void *s, const char *path, struct stat *a)\n\
         { (void)s; if (*path) return that_hurts(path);\n\
           a->st_mode = S_IFDIR | 0755; return 0; }\n\
         const struct culvert_driver culvert_driver = { .version = CULVERT_DRIVER_VERSION,\n\
         .size = sizeof culvert_driver, .getattr = attributes };",
    );
    let (text, told) = place.told("", "cat this; cat that; echo alive");
    assert_eq!(text, "alive\n", "{told}");
    assert!(told.contains("cat: that: Transport endpoint"), "{told}");
    assert!(told.contains("was ended by signal 6"), "{told}");
    assert!(told.contains("this hurts"), "{told}");
    // Where it was.
    assert!(told.contains("lib.so: crashed in"), "{told}");
    assert!(told.contains("that_hurts+0x"), "{told}");
}

#[test]
fn access_of_a_library_judges_who_opens() {
    let place = Place::new("access");
    place.compile_code(
        "#include <string.h>\n\
         static int attributes(void *s, const char *path, struct stat *a)\n\
         { (void)s; a->st_mode = *path ? S_IFREG | 0644 : S_IFDIR | 0755; a->st_size = 2; return \
         0; }\n\
         static int access_(void *s, const char *path, int mode)\n\
         { (void)s; (void)mode; return strcmp(path, \"secret\") ? 0 : EACCES; }\n\
         static int read_(void *s, void *f, void *to, size_t size, off_t at, size_t *done)\n\
         { (void)s; (void)f; *done = 0;\n\
           if (at == 0 && size >= 2) { memcpy(to, \"x\\n\", 2); *done = 2; } return 0; }\n\
         const struct culvert_driver culvert_driver = { .version = CULVERT_DRIVER_VERSION,\n\
         .size = sizeof culvert_driver, .getattr = attributes, .access = access_, .read = read_ };",
    );
    let script = "cat open; cat secret 2>&1 | grep -c 'Permission denied'";
    place.prints("", script, "x\n1\n");
}

#[test]
fn a_library_that_does_not_begin_ends_with_its_guardian() {
    let place = Place::new("guardian");
    let log = place.base.join("log");
    // The guardian is its parent.
    place.compile_code(&format!(
        "#include <signal.h>\n#include <unistd.h>\n\
         static int init(const struct culvert_mount *m, void **s)\n\
         {{ FILE *log = fopen(\"{}\", \"w\"); (void)m; (void)s; fprintf(log, \"%d\", getpid()); \
         fclose(log);\n\
            kill(getppid(), SIGKILL); for (;;) pause(); return 0; }}\n\
         const struct culvert_driver culvert_driver = {{ .version = CULVERT_DRIVER_VERSION,\n\
         .size = sizeof culvert_driver, .init = init }};",
        log.display()
    ));
    place.refused("", "guardian was killed");
    // One that nobody waits for has no words any more.
    let waited = shell(&format!(
        "host=$(cat {}); for i in $(seq 100); do grep -qsa . /proc/$host/cmdline || break; sleep \
        .1; done; \
         grep -qsa . /proc/$host/cmdline && kill -9 $host && echo there || echo gone",
        log.display()
    ));
    assert_eq!(waited.text(), "gone\n", "{}", waited.report());
}

#[test]
fn finalize_runs_once_when_the_run_is_over() {
    let place = Place::new("finalized");
    let log = place.base.join("log");
    place.compile_code(&format!(
        "static void told(void *s) {{ FILE *log = fopen(\"{}\", \"a\"); (void)s; \
        fputs(\"end\\n\", log); fclose(log); }}\n\
         static int attributes(void *s, const char *path, struct stat *a)\n\
         {{ (void)s; if (*path) return ENOENT; a->st_mode = S_IFDIR | 0755; return 0; }}\n\
         const struct culvert_driver culvert_driver = {{ .version = CULVERT_DRIVER_VERSION,\n\
         .size = sizeof culvert_driver, .getattr = attributes, .finalize = told }};",
        log.display()
    ));
    let seen = format!("cat {} 2> /dev/null | wc -l", log.display());
    // Not by a program that is killed, exits or executes another one.
    let script = format!("ls; (ls); bash -c 'ls; kill -9 $$'; exec bash -c 'ls; {seen}'");
    place.prints("", &script, "0\n");
    let waited = shell(&format!(
        "for i in $(seq 100); do [ -s {0} ] && break; sleep .1; done; cat {0}",
        log.display()
    ));
    assert_eq!(waited.text(), "end\n", "{}", waited.report());
}

#[test]
fn finalize_does_not_run_in_a_host_that_is_killed() {
    let place = Place::new("killed");
    let log = place.base.join("log").display().to_string();
    place.compile_code(&format!(
        "#include <unistd.h>\n\
         static void note(const char *what, int number)\n\
         {{ FILE *log = fopen(\"{log}\", \"a\"); fprintf(log, what, number); fclose(log); }}\n\
         static int init(const struct culvert_mount *m, void **s)\n\
         {{ (void)m, (void)s; note(\"%d\", getpid()); return 0; }}\n\
         static void ended(void *s) {{ (void)s; note(\" ended\", 0); }}\n\
         static int attributes(void *s, const char *path, struct stat *a)\n\
         {{ (void)s; if (*path) return ENOENT; a->st_mode = S_IFDIR | 0755; return 0; }}\n\
         const struct culvert_driver culvert_driver = {{ .version = CULVERT_DRIVER_VERSION,\n\
         .size = sizeof culvert_driver, .init = init, .getattr = attributes, .finalize = ended }};"
    ));
    let script = format!(
        "ls; host=$(cat {log}); kill -9 $host; \
         for i in $(seq 100); do grep -qsa . /proc/$host/cmdline || break; sleep .1; done; \
         cat none 2>&1 | grep -c -e connected -e abort; grep -c ended {log}"
    );
    let done = place.run("", &script);
    assert_eq!(done.text(), "1\n0\n", "{}", done.report());
}
