//! File systems in Java, Python, C++ and Go: the same example in each, by docs/bindings.md.

use crate::kernel_mount::{culvert, possible, shell};
use crate::suites::FSX;
use culvert_e2e::{Finished, run_within, suite, world};
use std::{fs, path::PathBuf, process::Command, sync::OnceLock, time::Duration};

pub const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
pub const JAVA: &str = "type=java,class=KeyValue,classpath=@base@/classes";

/// The JDK by which `scripts/bindings` has built Java's part; none: there is none of release 22.
pub fn jdk() -> Option<&'static PathBuf> {
    static JDK: OnceLock<Option<PathBuf>> = OnceLock::new();
    let found = JDK.get_or_init(|| {
        let bin = world().path("bin");
        let done = shell(&format!("{ROOT}/scripts/bindings {} 2>&1", bin.display()));
        assert_eq!(done.status, "exit 0", "{}", done.report());
        let text = done.text();
        let line = text.lines().find(|line| line.starts_with("Java: "));
        let (_, jdk) = line?.rsplit_once(", by ")?;
        Some(jdk.into())
    });
    if found.is_none() {
        eprintln!("skipped: no JDK of release 22 or later is installed");
    }
    found.as_ref()
}

/// Directories for one test.
pub struct Place {
    pub base: PathBuf,
}

impl Place {
    pub fn new(name: &str) -> Self {
        let base = world().claim("bindings", name);
        for directory in ["source", "target", "classes"] {
            fs::create_dir_all(base.join(directory)).expect("the base directory is ours");
        }
        Self { base }
    }

    /// Runs a script that may fetch what it builds with.
    #[track_caller]
    pub fn build(&self, script: &str) {
        let base = self.base.display();
        let include = format!("{ROOT}/crates/culvert-library/include");
        let mut command = Command::new("bash");
        command.args([
            "-c",
            &format!(
                "set -e; base={base} root={ROOT} include={include} bin={}; {script}",
                world().path("bin").display()
            ),
        ]);
        let done = run_within(command, &[], Duration::from_secs(240));
        assert_eq!(done.status, "exit 0", "{}", done.report());
    }

    /// Compiles Java sources, which are below `root` or written before.
    pub fn javac(&self, sources: &str) -> bool {
        let Some(jdk) = jdk() else { return false };
        let javac = jdk.join("bin/javac");
        self.build(&format!(
            "{} -Xlint:all -Werror -cp $bin/culvert.jar -d $base/classes {sources}",
            javac.display()
        ));
        true
    }

    /// The example in C++, as kv.so.
    pub fn cpp(&self) {
        self.build(
            "c++ -std=c++17 -Wall -Wextra -Werror -D_GNU_SOURCE -O1 -shared -fPIC -I$include \
             -o $base/kv.so $root/examples/cpp/keyvalue.cpp",
        );
    }

    /// The example in Go, as kv.so.
    pub fn go(&self) {
        self.build(
            "cp -r $root/examples/go $base/go; cd $base/go; \
             CGO_CFLAGS=\"-I$include\" go build -buildmode=c-shared -o $base/kv.so .",
        );
    }

    pub fn run(&self, mount: &str, script: &str) -> Finished {
        let base = self.base.display().to_string();
        let mount = mount.replace("@base@", &base);
        let mount = format!("{mount},target={base}/target");
        let script = format!("cd {base}/target; {script}");
        culvert(&["run", "--mount", &mount, "--", "bash", "-c", &script])
    }

    #[track_caller]
    pub fn prints(&self, mount: &str, script: &str, want: &str) {
        let done = self.run(mount, script);
        assert_eq!(done.text(), want, "{}", done.report());
        assert_eq!(done.status, "exit 0", "{}", done.report());
    }

    #[track_caller]
    pub fn refused(&self, mount: &str, want: &str) {
        self.await_servers();
        let done = self.run(mount, "echo ran");
        let told = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status, "exit 125", "{}", done.report());
        assert!(told.contains(want), "no {want}: {told}");
    }

    /// Waits until the servers of runs that have ended are gone: a run that begins before that is
    /// served by them, whatever has become of their files.
    fn await_servers(&self) {
        let base = self.base.as_os_str().as_encoded_bytes();
        let own = std::process::id().to_string();
        let names_base = |entry: fs::DirEntry| {
            let name = entry.file_name();
            let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            name != own.as_str() && words.windows(base.len()).any(|part| part == base)
        };
        for _ in 0..200 {
            let mut all = fs::read_dir("/proc").expect("mounted").flatten();
            if !all.any(names_base) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }

    /// What the store is to programs: names, data, attributes, threads, fsx.
    #[track_caller]
    fn is_a_store(&self, mount: &str) {
        let script = "echo one > a; echo two >> a; cat a; mv a b; ls; stat -c '%s %a %F' b; chmod \
            640 b; \
             stat -c %a b; touch -d @5 b; stat -c %Y b; setfattr -n user.k -v v b; \
             getfattr --only-values -n user.k b; echo; getfattr -n user.none b 2>&1 | grep -c 'No \
             such'; \
             setfattr -x user.k b; getfattr -d b; exec 5< b; rm b; cat <&5; exec 5<&-; ls; \
             head -c 300000 /dev/urandom > big; cp big copy; cmp big copy && echo same; \
             truncate -s 5 copy; stat -c %s copy; (cat big; cat big) | wc -c; rm big copy; \
             for i in $(seq 200); do : > f$i; done; ls | wc -l; rm f*; ls; cat none 2>&1 | grep \
             -c 'No such'; \
             printf x > $'not\\xffutf8'; ls -b; rm *";
        let want = "one\ntwo\nb\n8 644 regular \
            file\n640\n5\nv\n1\none\ntwo\nsame\n5\n600000\n200\n1\n\
             not\\377utf8\n";
        self.prints(mount, script, want);
        let threads = "import threading, os\ndef one(i):\n for n in range(40):\n  p = f't{i}'\n  \
             open(p, 'w').write(p * n); assert open(p).read() == p * n; os.unlink(p)\n\
             ts = [threading.Thread(target=one, args=(i,)) for i in range(100)]\n\
             [t.start() for t in ts]; [t.join() for t in ts]; print(os.listdir('.'))";
        self.prints(mount, &format!("python3 -c \"{threads}\""), "[]\n");
        // Stores have no fallocate(2) and no mappings of their own.
        let configuration = FSX
            .replace("_fallocate = 3", "_fallocate = 0")
            .replace("hole = 3", "hole = 0")
            .replace("flen = 262144", "flen = 90000");
        fs::write(self.base.join("fsx.conf"), configuration).expect("ours");
        let (fsx, base) = (suite("fsx"), self.base.display());
        let script = format!(
            "mkdir {base}/said; {} -f {base}/fsx.conf -N 1500 -S 7 -P {base}/said file > \
            {base}/fsx.log 2>&1 \
             || tail -n 30 {base}/fsx.log; rm -r {base}/said; tail -n 1 {base}/fsx.log",
            fsx.display()
        );
        let done = self.run(mount, &script);
        assert!(done.text().contains("A-OK"), "{}", done.report());
    }
}

#[test]
fn a_store_in_java() {
    let place = Place::new("java");
    if place.javac("$root/examples/java/KeyValue.java") {
        place.is_a_store(JAVA);
    }
}

#[test]
fn a_store_in_python() {
    let place = Place::new("python");
    jdk();
    place.is_a_store(&format!(
        "type=python,class={ROOT}/examples/python/keyvalue.py:KeyValue"
    ));
}

#[test]
fn a_store_in_cpp() {
    let place = Place::new("cpp");
    place.cpp();
    place.is_a_store("type=@base@/kv.so");
}

#[test]
fn a_store_in_go() {
    let place = Place::new("go");
    place.go();
    place.is_a_store("type=@base@/kv.so");
}

#[test]
fn javafuse_hooks_before_and_behind_system_calls() {
    let place = Place::new("javafuse");
    if !place.javac("$root/examples/java/Mirror.java") {
        return;
    }
    fs::write(place.base.join("source/file"), "hello\n").expect("ours");
    let configuration =
        "/*\n * Of the example.\n */\nCLASSNAME Mirror\nMETA_DATA_ONLY 1\nPRE_CALL 1 \n";
    let classes = place.base.join("classes");
    let text = format!("{configuration}CLASSPATH {}\n", classes.display());
    fs::write(place.base.join("conf"), &text).expect("ours");
    let mount = "type=java,config=@base@/conf,source=@base@/source";
    let script = "cat file; echo more >> file; cat file; mkdir -p d/e; mv file d/e/f; ln d/e/f g; \
         stat -c '%h %s' g; ln -s d/e/f soft; cat soft | wc -c; chmod 600 g; stat -c %a d/e/f; \
         touch -d @7 g; stat -c %Y g; truncate -s 3 g; cat g; echo; setfattr -n user.a -v b g; \
         getfattr --only-values -n user.a g; echo; fallocate -l 4096 g; stat -c %s g; \
         echo x > secret; cat secret 2>&1 | grep -c denied; rm -r d soft g; ls; ls ../source";
    let want = "hello\nhello\nmore\n2 11\n11\n600\n7\nhel\nb\n4096\n1\nsecret\nsecret\n";
    place.prints(mount, script, want);
    // JavaFuse's command line.
    if possible() {
        let (base, target) = (place.base.display(), place.base.join("target"));
        let target = target.display();
        let done = shell(&format!(
            "CULVERT={} {ROOT}/bindings/java/javafuse -CMirror -F{base}/conf \
             -o source={base}/source,big_writes {target} && \
             {{ echo x > {target}/made; cat {base}/source/made; \
             cat {target}/secret 2>&1 | grep -c denied; }}; umount {target}; echo $?",
            world().culvert.display()
        ));
        assert_eq!(done.text(), "x\n1\n0\n", "{}", done.report());
    }
    fs::write(place.base.join("conf"), "CLASSNAME Mirror\nPRECALL 1\n").expect("ours");
    place.refused(mount, "no such setting: PRECALL 1");
}

#[test]
fn exceptions_of_java_are_errors_of_the_call() {
    let place = Place::new("exceptions");
    let code = "import org.culvert.*;\n\
        public class Bad extends FileSystem {\n\
        @Override public void getattr(String path, Stat stat) throws Exception {\n\
          switch (path) {\n\
            case \"\" -> stat.mode = Stat.S_IFDIR | 0755;\n\
            case \"deep\" -> getattr(path, stat);\n\
            case \"gone\" -> throw new java.nio.file.NoSuchFileException(path);\n\
            case \"mine\" -> throw new ErrnoException(ErrnoException.EACCES);\n\
            default -> throw new IllegalStateException(path + \" hurts\");\n\
          }\n\
        }\n}\n";
    fs::write(place.base.join("Bad.java"), code).expect("ours");
    if !place.javac("$base/Bad.java") {
        return;
    }
    let mount = "type=java,class=Bad,classpath=@base@/classes";
    let script = "for name in deep gone mine other; do stat $name 2>&1 | sed 's/.*: //'; done; \
         stat -c %F .";
    let done = place.run(mount, script);
    let want = "Input/output error\nNo such file or directory\nPermission denied\nInput/output \
        error\n\
         directory\n";
    assert_eq!(done.text(), want, "{}", done.report());
}

#[test]
fn numbers_of_python_are_cut_as_those_of_c() {
    let place = Place::new("numbers");
    let code = "import culvert\nclass Odd(culvert.FileSystem):\n \
        inodes = True\n \
        def stat(self, path):\n  \
          mode = 0o100600 if path else 0o40755\n  \
          inode = {'': 1, 'less': -2}.get(path, (1 << 64) + 7)\n  \
          return {'st_mode': mode - (1 << 32), 'st_ino': inode, 'st_rdev': -1}\n";
    fs::write(place.base.join("odd.py"), code).expect("ours");
    jdk();
    let want = "18446744073709551614 600\n7 600\n";
    place.prints(
        "type=python,class=@base@/odd.py:Odd",
        "stat -c '%i %a' less more",
        want,
    );
}

#[test]
fn what_java_and_python_lack_is_said_with_the_remedy() {
    let place = Place::new("lacking");
    fs::write(place.base.join("classes/module.py"), "class Other: pass\n").expect("ours");
    let python = |rest: &str| format!("type=python{rest}");
    jdk();
    place.refused(&python(""), "needs a class");
    place.refused(&python(",class=nowhere.Class"), "say with path=DIRECTORY");
    place.refused(
        &python(",class=module.Class,path=@base@/classes"),
        "module has no Class",
    );
    place.refused(
        &python(",class=module.Other,path=@base@/classes"),
        "no culvert.FileSystem",
    );
    if jdk().is_some() {
        place.refused("type=java", "no class; name one with class=");
        place.refused("type=java,class=No", "class No is not to be found");
        place.refused(
            "type=java,class=java.lang.Object",
            "is no org.culvert.FileSystem",
        );
        place.refused("type=java,class=No,jdk=/usr", "jdk=/usr: there is no");
        place.refused(
            "type=java,class=No,jvm=-Xnothing",
            "does not start with jvm=-Xnothing",
        );
    }
}

#[test]
fn the_virtual_machine_has_the_collector_that_was_asked_for() {
    let place = Place::new("collector");
    if !place.javac("$root/examples/java/KeyValue.java") {
        return;
    }
    for words in ["-XX:+UseParallelGC", "-Xmn1m", "-Xmx8m"] {
        place.prints(
            &format!("type=java,class=KeyValue,classpath=@base@/classes,jvm={words}"),
            "echo text > a; cat a",
            "text\n",
        );
    }
}

#[test]
fn a_store_in_java_and_one_in_python_behind_the_kernel() {
    let place = Place::new("kernel");
    if !place.javac("$root/examples/java/KeyValue.java") {
        return;
    }
    let (base, target) = (
        place.base.display(),
        format!("{}/target", place.base.display()),
    );
    let kinds = [
        ("java", format!("class=KeyValue,classpath={base}/classes")),
        (
            "python",
            format!("class={ROOT}/examples/python/keyvalue.py:KeyValue"),
        ),
    ];
    for (kind, options) in kinds {
        let done = culvert(&["mount", "-t", kind, "-o", &options, "none", &target]);
        assert_eq!(done.status, "exit 0", "{}", done.report());
        let done = shell(&format!(
            "cd {target}; echo text > a; cat a; mv a b; ls; cd /; \
             grep ' {target} ' /proc/mounts | grep -c default_permissions; umount {target}"
        ));
        assert_eq!(done.text(), "text\nb\n1\n", "{kind}: {}", done.report());
    }
}

#[test]
fn a_program_for_mfusepy_runs_unchanged() {
    let place = Place::new("mfusepy");
    jdk();
    let program = place.base.join("loopback.py");
    fs::write(&program, include_str!("../../programs/mfusepy_loopback.py")).expect("ours");
    fs::write(place.base.join("source/file"), "hello\n").expect("ours");
    let bin = world().path("bin");
    let mount = format!(
        "type=fuse,command=env PYTHONPATH={0}/python CULVERT_FUSE_LIBRARY={0}/libculvert_fuse.so \
        python3 -m culvert \
         --as mfusepy {1} %s %m,source=@base@/source",
        bin.display(),
        program.display()
    );
    let script = "cat file; echo more > new; cat new; mkdir d; mv new d; ls d; ln -s file soft; \
        readlink soft; \
         chmod 600 file; stat -c %a file; rm -r d soft; ls";
    place.prints(&mount, script, "hello\nmore\nnew\nfile\n600\nfile\n");
}

#[test]
fn a_program_for_pyfuse3_runs_unchanged() {
    let place = Place::new("pyfuse3");
    jdk();
    let base = place.base.display();
    place.build(
        "export BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK=yes BORG_BASE_DIR=$base/borg; \
         echo hello > $base/source/f; mkdir $base/source/d; seq 1000 > $base/source/d/g; \
         borg init -e none $base/repo; cd $base; borg create repo::one source",
    );
    let bin = world().path("bin");
    let mount = format!(
        "type=fuse,command=env BORG_FUSE_IMPL=pyfuse3 \
        BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK=yes \
         BORG_BASE_DIR={base}/borg CULVERT_FUSE_LIBRARY={0}/libculvert_fuse.so \
         PYTHONPATH={0}/python /usr/bin/python3 \
         -m culvert --as pyfuse3 /usr/bin/borg mount -f {base}/repo %m",
        bin.display()
    );
    let script = "find . | sort; cat one/source/f; cmp one/source/d/g ../source/d/g && echo same; \
         stat -c '%s %a' one/source/d/g; ls one/none 2>&1 | grep -c 'No such'";
    let want = ".\n./one\n./one/source\n./one/source/d\n./one/source/d/g\n./one/source/f\nhello\nsame\n3893 644\n1\n";
    place.prints(&mount, script, want);
}

/// The commands of docs/bindings.md, in a directory with the examples.
#[test]
fn commands_of_the_page_work() {
    let place = Place::new("page");
    let Some(jdk) = jdk() else { return };
    let (base, bin) = (place.base.display().to_string(), world().path("bin"));
    let (target, bin) = (format!("{base}/target"), bin.display().to_string());
    place.build("cp $root/examples/{java,python,cpp}/* $root/examples/go/* $base");
    let page = include_str!("../../../../docs/bindings.md");
    let blocks = page.split("```sh\n").skip(1);
    let commands = blocks.flat_map(|block| block.split("```").next().unwrap_or("").lines());
    let mut tried = 0;
    for command in commands {
        let is_mount = command.contains("culvert mount") || command.contains("-m culvert");
        if is_mount && !possible() {
            continue;
        }
        let line = command
            .replace("/usr/local/lib/culvert", &bin)
            .replace("/mnt", &target);
        let (before, after) = match (
            is_mount,
            command.starts_with("go ") || command.contains(" go "),
        ) {
            (true, _) => (
                "{ ",
                format!(
                    "}} & for i in $(seq 400); do mountpoint -q {target} && break; sleep .1; \
                     done; echo x > {target}/x && cat {target}/x; umount {target} && wait"
                ),
            ),
            // What is in C++ belongs to another example.
            (_, true) => ("rm keyvalue.cpp; ", String::new()),
            _ => ("", String::new()),
        };
        let script = format!(
            "set -e; cd {base}; export PATH={bin}:{}/bin:$PATH PYTHONPATH={bin}/python \
             CULVERT_FUSE_LIBRARY={bin}/libculvert_fuse.so; {before}{line}\n{after}",
            jdk.display()
        );
        let mut command = Command::new("bash");
        command.args(["-c", &script]);
        let done = run_within(command, &[], Duration::from_secs(240));
        assert_eq!(done.status, "exit 0", "{line}: {}", done.report());
        assert!(
            !is_mount || done.text() == "x\n",
            "{line}: {}",
            done.report()
        );
        tried += 1;
    }
    assert!(tried > 5, "{tried}");
}
