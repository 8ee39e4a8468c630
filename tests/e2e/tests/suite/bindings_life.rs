//! How file systems in Java and Python begin, go on and end.

use crate::bindings::{JAVA, Place, ROOT, jdk};
use crate::kernel_mount::{culvert, possible, shell};
use culvert_e2e::world;
use std::fs;

/// Prints the number of the process that serves the mount of a run at the working directory.
const SERVER: &str = "pgrep -P $(pgrep -f \"[r]un-fuse .* $PWD \")";

/// The example, with an attribute that says how many bytes of the heap are used, and a file at the
/// end.
const STORE: &str = "import org.culvert.*;\n\
    public class Store extends KeyValue {\n\
      private String marker;\n\
      @Override public void init(Mount mount) { marker = mount.options().get(\"marker\"); \
      super.init(mount); }\n\
      @Override public byte[] getxattr(String path, String name) {\n\
        if (!name.equals(\"user.heap\")) return super.getxattr(path, name);\n\
        for (int i = 0; i < 4; i++) System.gc();\n\
        Runtime all = Runtime.getRuntime();\n\
        return Long.toString(all.totalMemory() - all.freeMemory()).getBytes();\n\
      }\n\
      @Override public void destroy() {\n\
        try { if (marker != null) java.nio.file.Files.createFile(java.nio.file.Path.of(marker)); \
        }\n\
        catch (java.io.IOException error) { throw new java.io.UncheckedIOException(error); }\n\
      }\n\
    }\n";

/// The same in Python, where what there is are objects.
const STORE_PYTHON: &str = "import gc, importlib.util, os\n\
    spec = importlib.util.spec_from_file_location('keyvalue', \
    '@root@/examples/python/keyvalue.py')\n\
    keyvalue = importlib.util.module_from_spec(spec)\n\
    spec.loader.exec_module(keyvalue)\n\
    class Store(keyvalue.KeyValue):\n \
      marker = None\n \
      def init(self, mount):\n  \
        self.marker = mount.options.get('marker')\n \
      def getxattr(self, path, name):\n  \
        if name == 'user.heap':\n   \
          gc.collect()\n   \
          return str(len(gc.get_objects()) * 100).encode()\n  \
        return super().getxattr(path, name)\n \
      def destroy(self):\n  \
        if self.marker:\n   \
          open(self.marker, 'x').close()\n";

/// Ten calls in each round.
const CALLS: &str = "import os, subprocess, sys\n\
    def server():\n \
      pid = subprocess.check_output(['bash', '-c', '@server@'], text=True).split()[0]\n \
      text = open(f'/proc/{pid}/status').read()\n \
      return int(text.split('VmRSS:')[1].split()[0]) * 1024\n\
    def work(rounds):\n \
      for i in range(rounds):\n  \
        f = os.open(f'f{i % 7}', os.O_CREAT | os.O_RDWR)\n  \
        os.pwrite(f, b'x' * 4096, 0); os.pread(f, 4096, 0); os.close(f)\n  \
        os.stat(f'f{i % 7}'); os.chmod(f'f{i % 7}', 0o600)\n  \
        os.setxattr(f'f{i % 7}', 'user.a', b'b'); os.getxattr(f'f{i % 7}', 'user.a')\n  \
        os.rename(f'f{i % 7}', 'moved'); os.unlink('moved')\n\
    rounds = int(sys.argv[1])\n\
    def used():\n \
      open('heap', 'w').close()\n \
      return int(os.getxattr('heap', 'user.heap')), server()\n\
    work(rounds // 2)\n\
    heap, resident = used()\n\
    work(rounds)\n\
    after, resident_after = used()\n\
    print('heap', after - heap, 'resident', resident_after - resident, file=sys.stderr)\n\
    print('no growth' if after - heap < 400000 and resident_after - resident < 24 << 20 else \
    'grows')\n";

/// A run with the store in each language: the mount's words, without what comes after `class`.
fn stores(place: &Place) -> Vec<(&'static str, String)> {
    let base = place.base.display();
    fs::write(place.base.join("Store.java"), STORE).expect("ours");
    let python = STORE_PYTHON.replace("@root@", ROOT);
    fs::write(place.base.join("store.py"), python).expect("ours");
    let mut found = vec![("python", format!("class={base}/store.py:Store"))];
    if place.javac("$root/examples/java/KeyValue.java $base/Store.java") {
        found.push(("java", format!("class=Store,classpath={base}/classes")));
    }
    found
}

/// `CULVERT_CALLS=1000000` does what the issue says; without it a twentieth.
#[test]
fn many_calls_leave_nothing_behind() {
    let place = Place::new("growth");
    let calls = std::env::var("CULVERT_CALLS").ok();
    let rounds = calls
        .and_then(|text| text.parse::<u32>().ok())
        .unwrap_or(50_000)
        / 10;
    let code = CALLS.replace("@server@", SERVER);
    fs::write(place.base.join("calls.py"), code).expect("ours");
    for (kind, options) in stores(&place) {
        let more = match kind {
            "java" => ",jvm=-Xmx64m -Xms64m -XX:+AlwaysPreTouch",
            _ => "",
        };
        let script = format!("python3 {}/calls.py {rounds}", place.base.display());
        let mount = format!("type={kind},{options}{more}");
        let done = place.run(&mount, &script);
        assert_eq!(done.text(), "no growth\n", "{kind}: {}", done.report());
    }
}

#[test]
fn two_virtual_machines_serve_two_mounts_and_one_may_die() {
    let place = Place::new("two");
    if !place.javac("$root/examples/java/KeyValue.java") {
        return;
    }
    let base = place.base.display().to_string();
    fs::create_dir_all(place.base.join("second")).expect("ours");
    // Mounts of one source with equal options are one file system.
    let mount = |target: &str| {
        let java = JAVA.replace("@base@", &base);
        format!("{java},only={target},target={base}/{target}")
    };
    let script = format!(
        "cd {base}/target; echo one > a; echo two > {base}/second/a; cat a {base}/second/a; \
         first=$({SERVER}); cd {base}/second; second=$({SERVER}); [ $first != $second ] && echo \
         two; \
         kill -9 $second; while kill -0 $second 2> /dev/null; do sleep .05; done; \
         cat a 2>&1 | sed 's/.*: //'; cat {base}/target/a"
    );
    let done = culvert(&[
        "run",
        "--mount",
        &mount("target"),
        "--mount",
        &mount("second"),
        "--",
        "bash",
        "-c",
        &script,
    ]);
    let want = "one\ntwo\ntwo\nTransport endpoint is not connected\none\n";
    assert_eq!(done.text(), want, "{}", done.report());
}

#[test]
fn an_interpreter_that_is_killed_is_an_error_of_its_files() {
    let place = Place::new("killed");
    jdk();
    let script = format!(
        "echo one > a; cat a; server=$({SERVER}); kill -9 $server; \
         while kill -0 $server 2> /dev/null; do sleep .05; done; cat a 2>&1 | sed 's/.*: //'"
    );
    let done = place.run(
        &format!("type=python,class={ROOT}/examples/python/keyvalue.py:KeyValue"),
        &script,
    );
    let want = "one\nTransport endpoint is not connected\n";
    assert_eq!(done.text(), want, "{}", done.report());
}

/// An interpreter of release 3.12 or later, which ends threads by rules of its own; none: none is
/// installed.
fn newer_python() -> Option<String> {
    let found = shell(
        "for python in ~/.pyenv/versions/3.1[2-9]*/bin/python3 /usr/bin/python3.1[2-9]; do \
         $python -c pass 2> /dev/null && echo $python; done",
    );
    found.text().lines().last().map(str::to_owned)
}

/// At the end of a run, at an unmount, and at SIGTERM of a kernel mount's server.
#[test]
fn a_file_system_hears_of_its_end() {
    let place = Place::new("end");
    let base = place.base.display().to_string();
    let gone = |marker: &str| {
        let wait =
            format!("for i in $(seq 100); do [ -e {marker} ] && exit; sleep .1; done; exit 1");
        assert_eq!(shell(&wait).status, "exit 0", "{marker}");
    };
    let mut stores = stores(&place);
    if let Some(python) = newer_python() {
        stores.push(("python", format!("{},python={python}", stores[0].1)));
    }
    for (at, (kind, options)) in stores.into_iter().enumerate() {
        let marker = format!("{base}/{at}-run");
        place.prints(
            &format!("type={kind},{options},marker={marker}"),
            "echo one > a; cat a",
            "one\n",
        );
        gone(&marker);
        if !possible() {
            continue;
        }
        for how in ["umount", "term"] {
            let marker = format!("{base}/{at}-{how}");
            let target = format!("{base}/target");
            let options = format!("{options},marker={marker}");
            let done = culvert(&["mount", "-t", kind, "-o", &options, "none", &target]);
            assert_eq!(done.status, "exit 0", "{}", done.report());
            let end = match how {
                "umount" => format!("umount {target}"),
                _ => format!(
                    "pkill -TERM -f '^[^ ]*(python3[.0-9]*|culvert) [^;]* {target}( |$)'; \
                     for i in $(seq 100); do mountpoint -q {target} || exit 0; sleep .1; done; \
                     exit 1"
                ),
            };
            let done = shell(&format!("echo one > {target}/a; cat {target}/a; {end}"));
            assert_eq!(
                (done.status.as_str(), done.text().as_str()),
                ("exit 0", "one\n"),
                "{kind} {how}: {}",
                done.report()
            );
            gone(&marker);
        }
    }
}

#[test]
fn a_wrong_jdk_and_parts_that_are_missing_are_said_with_the_remedy() {
    let place = Place::new("missing");
    jdk();
    let base = place.base.display().to_string();
    place.build(
        "mkdir -p $base/jdk/lib/server $base/alone; : > $base/jdk/lib/server/libjvm.so; \
         echo 'JAVA_VERSION=\"17.0.1\"' > $base/jdk/release; \
         cp $bin/culvert $bin/culvert-full $bin/libculvert.so $bin/libculvert_fuse.so $base/alone",
    );
    if jdk().is_some() {
        place.refused(
            "type=java,class=No,jdk=@base@/jdk",
            "is release 17; give one of release 22 or later",
        );
    }
    let alone = |kind: &str, want: &str| {
        let done = shell(&format!(
            "HOME={base} {base}/alone/culvert run --mount type={kind},target={base}/target -- true"
        ));
        let told = done.errors();
        assert_eq!(done.status, "exit 125", "{}", done.report());
        assert!(told.contains(want), "no {want}: {told}");
    };
    let install = "install it by scripts/bindings";
    alone("java,class=No", install);
    alone("python,class=no.No", install);
    place.build("cp $bin/culvert_python.py $base/alone");
    alone(
        "python,class=no.No",
        "has no package culvert; install it by scripts/bindings",
    );
    alone("python,class=no.No,python=/no/python3", "/no/python3");
    if jdk().is_some() {
        place.build("cp $bin/libculvert_java.so $base/alone");
        alone(
            "java,class=No",
            "culvert.jar is missing; install it by scripts/bindings",
        );
    }
}

#[test]
fn root_runs_no_class_or_module_that_others_may_write() {
    let place = Place::new("trust");
    if !world().is_root() {
        return;
    }
    let python = "import culvert\nclass Mine(culvert.FileSystem):\n \
                  def stat(self, path):\n  return {'st_mode': 0o40755}\n";
    fs::create_dir_all(place.base.join("modules/part")).expect("ours");
    fs::write(place.base.join("modules/part/mine.py"), python).expect("ours");
    let others = "others than root may write";
    let mount = "type=python,class=part.mine.Mine,path=@base@/modules";
    jdk();
    place.prints(mount, "stat -c %F .", "directory\n");
    place.build(
        "chown -R 65534 $base/modules/part/__pycache__ || chown 65534 $base/modules/part/mine.py",
    );
    place.refused(mount, others);
    place.build("chown -R 0 $base/modules; chmod 666 $base/modules/part/mine.py");
    place.refused(mount, others);
    // By a link, too, which leads to another's file.
    place.build(
        "cd $base/modules/part; mkdir $base/theirs; mv mine.py $base/theirs; \
         ln -s $base/theirs/mine.py .; chmod 644 mine.py; chown -R 65534 $base/theirs",
    );
    place.refused(mount, others);
    place.build("chown -R 0 $base/theirs");
    place.prints(mount, "stat -c %F .", "directory\n");
    if !place.javac("$root/examples/java/KeyValue.java") {
        return;
    }
    place.prints(JAVA, "stat -c %F .", "directory\n");
    place.build("chown 65534 $base/classes/KeyValue.class");
    place.refused(JAVA, others);
    place.build(
        "chown 0 $base/classes/KeyValue.class; chmod 666 $base/classes/KeyValue\\$Value.class",
    );
    // Its second class is looked at when it is needed: the mount begins with it.
    place.refused(JAVA, others);
    // What a jar names besides is looked at with it.
    let jar = jdk().expect("javac has run").join("bin/jar");
    place.build(&format!(
        "chmod 644 $base/classes/*; cd $base; echo 'Class-Path: more.jar' > manifest; \
         {0} -cf more.jar -C classes .; mkdir -p none; {0} -cfm first.jar manifest -C none .",
        jar.display()
    ));
    let mount = "type=java,class=KeyValue,classpath=@base@/first.jar";
    place.prints(mount, "stat -c %F .", "directory\n");
    place.build("chmod 666 $base/more.jar");
    place.refused(mount, others);
    // And where one is not there, who may make it; a link may lead elsewhere later.
    place.build(&format!(
        "cd $base; chmod 644 more.jar; mkdir open; chmod 777 open; ln -s more.jar linked.jar; \
         for name in open/more linked 'not['; do \
           echo \"Class-Path: $name.jar more.jar\" > manifest; \
           {} -cfm first-${{name%%/*}}.jar manifest -C none .; done; \
         mkdir classes/part; chmod 777 classes/part",
        jar.display()
    ));
    let named = |name| mount.replace("first", &format!("first-{name}"));
    place.refused(&named("open"), others);
    place.refused(&named("linked"), "leads through a link");
    place.refused(&named("not["), "Illegal character");
    let absent = JAVA.replace("KeyValue", "part.KeyValue");
    place.refused(&absent, others);
}

/// As libfuse's FUSE does, which goes to the background unless it is told not to.
#[test]
fn a_program_for_mfusepy_goes_to_the_background_when_it_is_mounted() {
    let place = Place::new("background");
    jdk();
    if !possible() {
        return;
    }
    let (base, bin) = (place.base.display().to_string(), world().path("bin"));
    let code = "import sys, mfusepy as fuse\nfuse.FUSE(fuse.Operations(), \
        sys.argv[1])\nopen(sys.argv[2], 'x')\n";
    fs::write(place.base.join("program.py"), code).expect("ours");
    let start = format!(
        "export PYTHONPATH={0}/python CULVERT_FUSE_LIBRARY={0}/libculvert_fuse.so; \
         python3 -m culvert --as mfusepy {base}/program.py",
        bin.display()
    );
    let done = shell(&format!(
        "{start} {base}/target {base}/over && mountpoint -q {base}/target && echo mounted; \
         umount {base}/target; for i in $(seq 100); do [ -e {base}/over ] && break; sleep .1; \
         done; \
         ls {base}/over; {start} {base}/nowhere {base}/never 2> /dev/null || echo refused"
    ));
    assert_eq!(
        done.text(),
        format!("mounted\n{base}/over\nrefused\n"),
        "{}",
        done.report()
    );
    // What fails before the mount comes back to the program once, as its parent.
    let code = "import sys, mfusepy as fuse\n\
        class Bad(fuse.Operations):\n \
          def init(self, path):\n  \
            raise ValueError('no')\n\
        print('begins')\n\
        try:\n \
          fuse.FUSE(Bad(), sys.argv[1])\n\
        except Exception as error:\n \
          print(repr(error))\n";
    fs::write(place.base.join("program.py"), code).expect("ours");
    let done = shell(&format!("{start} {base}/target"));
    assert_eq!(
        done.text(),
        "begins\nRuntimeError(1)\n",
        "{}",
        done.report()
    );
    assert!(
        done.errors().contains("ValueError: no"),
        "{}",
        done.report()
    );
}

/// The artefact that Maven makes, and the wheel: a class is compiled against the one, the other is
/// installed into a new environment and serves.
#[test]
fn packages_for_maven_and_pip_can_be_used() {
    let place = Place::new("packages");
    let Some(jdk) = jdk() else { return };
    let (base, jdk) = (place.base.display().to_string(), jdk.display());
    place.build(&format!(
        "$root/scripts/bindings --packages $base/packages; cd $base; \
         version=$(sed -n 's/^version = \"\\(.*\\)\"/\\1/p' $root/bindings/python/pyproject.toml); \
         for part in '' -sources -javadoc; do [ -s packages/culvert-$version$part.jar ]; done; \
         {jdk}/bin/jar -tf packages/culvert-$version-sources.jar | grep -q \
         org/culvert/FileSystem.java; \
         {jdk}/bin/jar -tf packages/culvert-$version-javadoc.jar | grep -q \
         org/culvert/FileSystem.html; \
         {jdk}/bin/javac -Werror -cp packages/culvert-$version.jar -d classes \
         $root/examples/java/KeyValue.java; \
         /usr/bin/python3 -m venv venv; venv/bin/pip -q install --no-deps --no-index \
         packages/*.whl; \
         mkdir alone; cp $bin/culvert $bin/culvert-full $bin/libculvert.so $bin/libculvert_fuse.so \
           $bin/libculvert_java.so $bin/culvert_python.py alone; \
         cp packages/culvert-$version.jar alone/culvert.jar"
    ));
    let kinds = [
        format!(
            "type=python,python={base}/venv/bin/python,class={ROOT}/examples/python/keyvalue.py:KeyValue"
        ),
        JAVA.replace("@base@", &base),
    ];
    for mount in kinds {
        let done = shell(&format!(
            "export HOME={base}; {base}/alone/culvert run --mount {mount},target={base}/target -- \
             sh -c 'cd {base}/target; echo one > a; cat a; ls'"
        ));
        assert_eq!(done.text(), "one\na\n", "{mount}: {}", done.report());
    }
}
