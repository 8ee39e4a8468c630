//! Programs, libraries and interpreters that live on a mount.

use culvert_e2e::{Case, as_each_user, can_be_made, installed, on_each_driver};
use std::time::Duration;

/// Runs `script` in the directory mounted, where `bin` holds the programs `own` (shows what it knows of its own file), `again` and `again-static`.
fn same(case: &Case, script: &str) {
    let [own, again, fixed] =
        ["own_file", "start_again", "start_again-static"].map(|name| case.program(name));
    case.good(&format!(
        "cd $M; mkdir bin lib; cp {own} bin/own; cp {again} bin/again; cp {fixed} bin/again-static; {script}"
    ));
}

on_each_driver! {
    a_program_knows_its_own_file |case| same(&case,
        "bin/own; ln -s bin/own link; ./link a; $M/bin/own | head -n 3; PATH=bin own; (exec -a other bin/own b); (cd bin; ./own | head -n 2); cd /; $M/link c d | grep -v size");

    a_program_starts_itself |case| same(&case,
        "bin/again; echo $?; bin/again-static; echo $?; cd bin; for f in own again-static; do $M/bin/again by $f ''; $M/bin/again by . $f; done | grep -v comm; printf '#!/bin/echo -n x\\n' > s; chmod +x s; ./again by . s; ./again by s ''; ./again by . missing; ./again by . ''; chmod -x own; ./again by own ''; true");

    a_file_that_becomes_a_program |case| same(&case,
        "cp bin/own p; chmod 644 p; busybox wc -l < p >/dev/null; ./p; chmod 755 p; ./p | grep -v size; chmod 644 p; ./p; echo $?");

    // ext4 gives the number of a removed file to the next one at once.
    a_number_that_is_used_again |case| same(&case,
        "echo old > f; busybox cat < f; rm f; for i in 1 2 3 4 5 6 7 8; do cp bin/own p$i; ./p$i | head -n 1; busybox cmp - bin/own < p$i; echo $?; done; rm p?
         cp bin/own e; ./e | head -n 1; rm e; for i in 1 2 3 4 5 6 7 8; do printf '#!/bin/echo -n %d\n' $i > s$i; chmod 755 s$i; ./s$i; busybox cat < s$i; done; rm s?
         { for round in 1 2 3; do echo old > f; (busybox sh -c 'echo stranger-bytes; kill -9 $$' > f); rm f; for i in 1 2 3 4 5 6 7 8; do echo new > g$i; done; cat g?; cat g? | busybox md5sum; rm g?; done; } 2>/dev/null
         rm -f $W/go; mkfifo $W/go; exec 6<> $W/go; for round in 1 2 3; do echo old > f; exec 7> f; busybox sh -c 'read x; echo stranger >&7' <&6 & rm f; exec 7>&-; for i in 1 2 3 4 5 6 7 8; do echo new > g$i; done; echo go >&6; wait; cat g?; rm g?; done");

    libraries_are_found |case| same(&case,
        "echo 'int answer(void) { return 42; }' | cc -shared -fPIC -o lib/libanswer.so -xc -; printf '#include <stdio.h>\\nint answer(void); int main(void) { printf(\"%d\\\\n\", answer()); return 0; }' > use.c
         cc -o bin/origin use.c -Llib -lanswer -Wl,-rpath,'$ORIGIN/../lib'; cc -o bin/rpath use.c -Llib -lanswer -Wl,-rpath,$M/lib; cc -o bin/none use.c -Llib -lanswer; ln -s bin/origin o
         bin/origin; ./o; (cd bin; ./origin); bin/rpath; LD_LIBRARY_PATH=$M/lib bin/none; LD_LIBRARY_PATH=lib bin/none; (cd lib; LD_LIBRARY_PATH=: ../bin/none); LD_PRELOAD=$M/lib/libanswer.so bin/none; bin/none; /lib64/ld-linux-x86-64.so.2 bin/origin; ldd bin/rpath | grep -c $M/lib/libanswer.so");

    // What is in the source of a directory that is not bound is executed there.
    libraries_found_by_origin_are_named_by_the_mount |case| if case.driver() != Some(culvert_e2e::Driver::Passthrough) { same(&case,
        "echo 'int one(void) { return 41; }' | cc -shared -fPIC -o lib/libone.so -xc -; printf 'int one(void); int answer(void) { return one() + 1; }' | cc -shared -fPIC -o lib/libanswer.so -xc - -Llib -lone -Wl,-rpath,'$ORIGIN/../lib'
         printf '#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <link.h>\n#include <stdio.h>\n#include <string.h>\nint answer(void); static int show(struct dl_phdr_info *i, size_t n, void *x) { if (strstr(i->dlpi_name, \"/lib/lib\") && !strstr(i->dlpi_name, \"linux-gnu\") && !strstr(i->dlpi_name, \"libculvert\")) puts(i->dlpi_name); return 0; }
             int main(void) { Dl_info d; dladdr(answer, &d); printf(\"%%d \", answer()); puts(d.dli_fname); return dl_iterate_phdr(show, 0); }' > use.c
         cc -o bin/use use.c -Llib -lanswer -Wl,-rpath,'$ORIGIN/../lib',-rpath-link,lib; bin/use; (cd bin; ./use); $M/bin/use; ln -s bin/use u; ./u; ldd bin/use | grep -o '/.*/lib/lib[oa].*so'; /lib64/ld-linux-x86-64.so.2 $M/bin/use"); };

    the_program_of_another_process |case| if case.driver() != Some(culvert_e2e::Driver::Passthrough) {
        same(&case, "cp /bin/cat bin/cat; python3 -c \"
import os, subprocess
p = subprocess.Popen(['bin/cat'], stdin=subprocess.PIPE)
link = '/proc/%d/exe' % p.pid
print(os.readlink(link), os.readlink('exe', dir_fd=os.open('/proc/%d' % p.pid, os.O_RDONLY)), os.path.getsize(link) == os.path.getsize('bin/cat'))
p.communicate()\"");
    };

    what_a_child_of_vfork_holds_survives_that_it_closes_all |case| same(&case,
        "mkdir -p a/b; cp /bin/echo a/b/e; cp /bin/pwd a/b/p; ln -s b/e a/l; python3 -c \"
import os, subprocess
a = os.environ['M'] + '/a'
for command, here in ([a + '/b/e', 'x'], a), (['./l', 'y'], a), (['b/p'], a), ([a + '/b/p'], a + '/b'):
    print(subprocess.run(command, cwd=here, capture_output=True, close_fds=True).stdout)\"");

    programs_without_a_c_library |case| same(&case,
        "printf '__thread volatile int local = 7; static long __attribute__((noinline)) call(volatile long n, long a, long b, long c) { long r; __asm__ volatile(\"syscall\" : \"=a\"(r) : \"a\"(n), \"D\"(a), \"S\"(b), \"d\"(c) : \"rcx\", \"r11\", \"memory\"); return r; }
             void _start(void) { char text[64]; long f = call(2, (long)\"f\", 0, 0), n = call(0, f, (long)text, 64); call(1, 1, (long)text, n); call(60, local, 0, 0); }' > p.c
         echo content > f; alone() { cc -O1 -nostdlib -fno-stack-protector -fno-asynchronous-unwind-tables -o $* p.c; }
         alone bin/id -fpie -pie; alone bin/none -fpie -pie -Wl,--build-id=none;
         for p in id none; do bin/$p; echo $?; env -i $M/bin/$p; echo $?; LD_PRELOAD=libc.so.6 bin/$p; echo $?; /lib64/ld-linux-x86-64.so.2 bin/$p; echo $?; done; cp bin/none $W/none; $W/none; echo $?; /lib64/ld-linux-x86-64.so.2 --argv0 x $W/none; echo $?");

    under_valgrind |case| if installed("valgrind") && case.driver() == Some(culvert_e2e::Driver::Driven) {
        same(&case, "echo content > f; valgrind -q --log-file=/dev/null /bin/echo a; echo $?; valgrind -q --log-file=/dev/null /bin/sh -c 'cat f; echo $?'");
    };

    scripts_and_their_interpreters |case| same(&case,
        "printf '#!%s/bin/own  -x\\n' $M > s; cp /bin/echo bin/echo; printf '#!%s/bin/echo -n b \\n' $M > bin/t; printf '#!bin/echo rel\\n' > r; printf '#!%s/bin/t more\\n' $M > n; printf '#!/bin/echo out\\n' > o; printf '#!/bin/echo %0300d\\n' 7 > long; chmod +x s bin/t r n o long; ./long | wc -c
         ./s a; bin/t 1 2; echo; $M/bin/t; echo; (cd bin; ./t 5; PATH=. t 6; (exec -a other ./t 7)); echo; ./r z; (cd bin; ../r z; echo $?); ./n q; env -i ./n w; ./o; $M/o e; find . -name o -exec {} \\;");

    an_interpreter_of_programs_on_the_mount |case| same(&case,
        "cp /lib64/ld-linux-x86-64.so.2 lib/; cp /lib/x86_64-linux-gnu/libc.so.6 lib; printf 'int main(void) { return 7; }' | cc -o bin/own7 -xc - -Wl,--dynamic-linker=$M/lib/ld-linux-x86-64.so.2 -Wl,-rpath,$M/lib
         bin/own7; echo $?; (cd bin; env -i ./own7; echo $?); cp bin/own7 $W; $W/own7; echo $?; printf '#!'$W'/own7\\n' > s; chmod +x s; ./s; echo $?; lib/ld-linux-x86-64.so.2 bin/again | head -n 1
         printf '#include <stdio.h>\\nint main(void) { char t[4096] = \"\"; return readlink(\"/proc/self/exe\", t, 4095) < 0 || puts(t) < 0; }' | cc -w -include unistd.h -o bin/exe -xc - -Wl,--dynamic-linker=$M/lib/ld-linux-x86-64.so.2; bin/exe; cp bin/exe e; ./e; cp e $W; $W/e; rm lib/ld*; bin/own7 2>/dev/null; echo $?");

    a_program_changed_in_place_is_the_new_one |case| same(&case,
        "cp /bin/echo e; ./e one; cp /bin/true e; ./e not; cp /bin/echo e; ./e two; printf 'echo script $1' > e; ./e three; cp /bin/echo e; chmod -x e; ./e 2>/dev/null; echo $?; chmod +x e; ./e four; rm e; ./e 2>/dev/null; echo $?; cp /bin/echo e; mv e f; ./f five; cp /bin/true e; mv e f; ./f not; cat /bin/echo > f; ./f six");

    what_is_executed_is_not_written_and_what_is_written_not_executed |case| {
        let busy = case.program("busy.py");
        case.good(&format!("python3 {busy} $M $(type -P busybox)"));
    };

    set_user_id_bits_mean_nothing_new |case| same(&case,
        "cp /usr/bin/id .; chmod u+s id; ./id -u; ./id -ru; chmod 6755 id; ./id -un");
}

/// An environment seen at `$M`, from an archive of this kind.
fn environment(case: Case, tree: &str, kind: &str, script: &str) {
    if can_be_made(tree) {
        case.limit(Duration::from_secs(120))
            .mount(tree, kind, "mnt")
            .good(script);
    }
}

as_each_user! {
    a_python_virtual_environment |case| environment(case.variable("PYTHONDONTWRITEBYTECODE", "1"), "venv", "tar.zst",
        "$M/bin/python -c 'import sys, os, numpy as n; print(sys.executable, sys.prefix, n.__file__, os.readlink(\"/proc/self/exe\")); a = n.arange(12.0).reshape(3, 4); print(a @ a.T, n.linalg.svd(a)[1].round(6))'
         $M/bin/tool a b; . $M/bin/activate; type -P python3; cd /; tool; python3 -c 'import own; own.main(); import subprocess, sys; print(subprocess.run([sys.executable, \"-c\", \"import own; own.main()\"], capture_output=True, text=True).stdout)'
         printf 'import multiprocessing as m, own\\nif __name__ == \"__main__\":\\n    for way in \"fork\", \"spawn\":\\n        with m.get_context(way).Pool(2) as p:\\n            print(p.map(own.fast.twice, range(5)))\\n' > $W/p.py; python3 $W/p.py");

    a_java_development_kit |case| environment(case, "jdk", "zip",
        "cd $W; printf 'public class H { static native int twice(int x); public static void main(String[] a) throws Exception { System.load(System.getProperty(\"user.dir\") + \"/libtwice.so\"); String home = System.getProperty(\"java.home\"); System.out.println(twice(21) + home + ProcessHandle.current().info().command().get()); if (a.length == 0) System.exit(new ProcessBuilder(home + \"/bin/java\", \"-cp\", \".\", \"H\", \"x\").inheritIO().start().waitFor()); } }' > H.java
         printf '#include <jni.h>\\nJNIEXPORT jint JNICALL Java_H_twice(JNIEnv *e, jclass c, jint x) { return 2 * x; }' | cc -shared -fPIC -I$M/include -I$M/include/linux -o libtwice.so -xc -
         $M/bin/javac H.java && $M/bin/java -cp . H 2>/dev/null; JAVA_HOME=$M $M/bin/jar cf h.jar H.class; $M/bin/java -Xshare:off -cp h.jar H x 2>/dev/null; $M/bin/java --list-modules");

    a_c_toolchain |case| environment(case, "toolchain", "tar",
        "cd $W; v=$(/usr/bin/gcc -dumpversion); export PATH=$M/usr/bin:$PATH LD_LIBRARY_PATH=$M/usr/lib/x86_64-linux-gnu; gcc() { gcc-$v --sysroot=$M \"$@\"; }; type -P gcc-$v ld; gcc -print-prog-name=cc1; gcc -print-prog-name=as
         printf '#include <stdio.h>\\n#include <math.h>\\nint b(int); int main(int c, char **v) { printf(\"hello %%d %%.3f\\\\n\", b(c), sqrt(c + 1)); return 0; }' > a.c; echo 'int b(int x) { return x * 7; }' > b.c
         gcc -O2 -o h a.c b.c -lm && ./h && gcc -c a.c b.c && ar rcs l.a b.o && gcc -o h2 a.o l.a -lm && ./h2 x; gcc -flto -O2 -o h3 a.c b.c -lm && ./h3 x y; gcc -shared -fPIC -o libb.so b.c; gcc -o h4 a.c -L. -lb -lm -Wl,-rpath,. && ./h4; gcc -static -o h5 a.c b.c -lm && ./h5; gcc -M a.c | tr ' ' '\\n' | sort | head -n 5; objdump -d h | grep -c call; echo bad | gcc -xc - 2>&1 | head -n 2
         gcc -o h6 a.c b.c -lm -Wl,--dynamic-linker=$M/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2 && ./h6");

    a_native_module_of_node |case| if installed("node") && installed("../include/node/node_api.h") {
        case.directory(culvert_e2e::Driver::Memory).good(
            "cd $M; printf '#include <node_api.h>\\nstatic napi_value init(napi_env e, napi_value x) { napi_value n; napi_create_int32(e, 42, &n); napi_set_named_property(e, x, \"answer\", n); return x; }\\nNAPI_MODULE(fast, init)\\n' | cc -shared -fPIC -I/usr/include/node -I/usr/local/include/node -o fast.node -xc -; cp $(type -P node) own-node; ./own-node -p 'require(\"./fast.node\").answer + process.execPath + process.argv0 + require(\"child_process\").execFileSync(process.execPath, [\"-p\", \"1+1\"])'");
    };
}

/// The kernel is given a copy of such a program, which must not run where the program itself would not.
#[test]
fn one_without_the_right_to_execute_whose_interpreter_is_there() {
    let case = culvert_e2e::Case::new("programs-on-mount::refused", culvert_e2e::User::Me);
    case.directory(culvert_e2e::Driver::Passthrough).good(
        "cd $M; cp /lib64/ld-linux-x86-64.so.2 ld.so; echo 'int main(void) { return 0; }' | cc -o p -xc - -Wl,--dynamic-linker=$M/ld.so
         ./p; echo $?; chmod 644 p; ./p 2>/dev/null; echo $?",
    );
}
