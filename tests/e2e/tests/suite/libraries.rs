//! Drivers of others in shared libraries, `type=./libmine.so`, by `culvert/driver.h`.

use crate::kernel_mount::{culvert, shell};
use culvert_e2e::{Finished, world};
use std::{fs, path::PathBuf};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Directories for one test, and what is compiled there.
struct Place {
    base: PathBuf,
}

impl Place {
    fn new(name: &str) -> Self {
        let base = world().claim("libraries", name);
        for directory in ["source", "target"] {
            fs::create_dir_all(base.join(directory)).expect("the base directory is ours");
        }
        fs::write(base.join("source/file"), "hello\n").expect("ours");
        Self { base }
    }

    /// Compiles a C source to `lib.so`, with more words for the compiler.
    #[track_caller]
    fn compile(&self, source: &str, words: &str) {
        let base = self.base.display();
        let include = format!("{ROOT}/crates/culvert-library/include");
        let done = shell(&format!(
            "cc -std=gnu11 -Wall -Wextra -Werror {words} -shared -fPIC -I {include} -o {base}/lib.so {source} && \
             chmod 755 {base}/lib.so"
        ));
        assert_eq!(done.status, "exit 0", "{}", done.report());
    }

    /// Compiles `code` behind the header.
    #[track_caller]
    fn compile_code(&self, code: &str) {
        let file = self.base.join("lib.c");
        let all = format!(
            "#include <culvert/driver.h>\n#include <errno.h>\n#include <stdlib.h>\n#include <stdio.h>\n{code}\n"
        );
        fs::write(&file, all).expect("ours");
        self.compile(&file.display().to_string(), "");
    }

    /// Runs `script` in the target.
    fn run(&self, options: &str, script: &str) -> Finished {
        let base = self.base.display();
        let mount =
            format!("type={base}/lib.so,source={base}/source,target={base}/target{options}");
        let script = format!("cd {base}/target; {script}");
        culvert(&["run", "--mount", &mount, "--", "bash", "-c", &script])
    }

    #[track_caller]
    fn prints(&self, options: &str, script: &str, want: &str) {
        let done = self.run(options, script);
        assert_eq!(done.text(), want, "{}", done.report());
        assert_eq!(done.status, "exit 0", "{}", done.report());
    }

    #[track_caller]
    fn refused(&self, options: &str, want: &str) {
        let done = self.run(options, "echo ran");
        let told = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status, "exit 125", "{}", done.report());
        assert!(told.contains(want), "no {want}: {told}");
    }
}

#[test]
fn a_library_serves_all_programs_of_a_run() {
    let place = Place::new("hello");
    place.compile(&format!("{ROOT}/examples/c/hello.c"), "");
    let script = "ls -l . | wc -l; cat hello | cut -d'(' -f2; (cat hello; cat hello) | cut -d'(' -f2; \
                  cat none 2>&1 | grep -c 'No such'; echo x 2>&1 > new | grep -c Read-only; :";
    let done = place.run("", script);
    let text = done.text();
    assert!(text.starts_with("2\n1)\n2)\n3)\n1\n"), "{}", done.report());
}

#[test]
fn a_directory_by_a_library_is_as_it_is() {
    let place = Place::new("mirror");
    place.compile(&format!("{ROOT}/examples/c/mirror.c"), "");
    let script = "cat file; echo one > made; echo two >> made; cat made; mkdir -p d/e; mv made d/e/m; \
         ln d/e/m d/hard; stat -c %h d/hard; ln -s hard d/soft; cat d/soft; chmod 640 d/hard; \
         stat -c %a d/hard; touch -d @5 d/hard; stat -c %Y d/hard; truncate -s 3 d/hard; cat d/hard; \
         echo; exec 5< d/hard; rm d/hard d/e/m; cat <&5; echo; rm -r d; ls; \
         for i in $(seq 300); do : > $i; done; ls | wc -l; rm -f [0-9]*; ls";
    place.prints(
        "",
        script,
        "hello\none\ntwo\n2\none\ntwo\n640\n5\none\none\nfile\n301\nfile\n",
    );
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
            "static int init(const struct culvert_mount *m, void **s) {{ (void)m; (void)s; {what} }}\n\
             const struct culvert_driver culvert_driver = {{ .version = CULVERT_DRIVER_VERSION, \
             .size = sizeof culvert_driver, .init = init }};"
        )
    };
    place.compile_code(
        "const struct culvert_driver culvert_driver = { .version = 99, .size = 16 };",
    );
    place.refused("", "version 99 of culvert/driver.h");
    place.compile_code("extern int missing(void); int (*there)(void) = missing;\nconst struct culvert_driver culvert_driver;");
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
}

#[test]
fn a_library_that_crashes_ends_its_host_alone() {
    let place = Place::new("crashing");
    place.compile_code(
        "static int attributes(void *s, const char *path, struct stat *a)\n\
         { (void)s; if (*path) { fprintf(stderr, \"%s hurts\\n\", path); abort(); }\n\
           a->st_mode = S_IFDIR | 0755; return 0; }\n\
         const struct culvert_driver culvert_driver = { .version = CULVERT_DRIVER_VERSION,\n\
         .size = sizeof culvert_driver, .getattr = attributes };",
    );
    let done = place.run("", "cat this; cat that; echo alive; sleep 1");
    let told = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.text(), "alive\n", "{}", done.report());
    assert!(told.contains("cat: that: Transport endpoint"), "{told}");
    assert!(told.contains("was ended by signal 6"), "{told}");
    assert!(told.contains("this hurts"), "{told}");
}

#[test]
fn access_of_a_library_judges_who_opens() {
    let place = Place::new("access");
    place.compile_code(
        "#include <string.h>\n\
         static int attributes(void *s, const char *path, struct stat *a)\n\
         { (void)s; a->st_mode = *path ? S_IFREG | 0644 : S_IFDIR | 0755; a->st_size = 2; return 0; }\n\
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
         {{ FILE *log = fopen(\"{}\", \"w\"); (void)m; (void)s; fprintf(log, \"%d\", getpid()); fclose(log);\n\
            kill(getppid(), SIGKILL); for (;;) pause(); return 0; }}\n\
         const struct culvert_driver culvert_driver = {{ .version = CULVERT_DRIVER_VERSION,\n\
         .size = sizeof culvert_driver, .init = init }};",
        log.display()
    ));
    place.refused("", "guardian was killed");
    // One that nobody waits for has no words any more.
    let waited = shell(&format!(
        "host=$(cat {}); for i in $(seq 100); do grep -qsa . /proc/$host/cmdline || break; sleep .1; done; \
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
        "static void told(void *s) {{ FILE *log = fopen(\"{}\", \"a\"); (void)s; fputs(\"end\\n\", log); fclose(log); }}\n\
         static int attributes(void *s, const char *path, struct stat *a)\n\
         {{ (void)s; if (*path) return ENOENT; a->st_mode = S_IFDIR | 0755; return 0; }}\n\
         const struct culvert_driver culvert_driver = {{ .version = CULVERT_DRIVER_VERSION,\n\
         .size = sizeof culvert_driver, .getattr = attributes, .finalize = told }};",
        log.display()
    ));
    let seen = format!("cat {} 2> /dev/null | wc -l", log.display());
    let script = format!("ls; (ls); exec bash -c 'ls; {seen}'");
    place.prints("", &script, "0\n");
    let waited = shell(&format!(
        "for i in $(seq 100); do [ -s {0} ] && break; sleep .1; done; cat {0}",
        log.display()
    ));
    assert_eq!(waited.text(), "end\n", "{}", waited.report());
}
