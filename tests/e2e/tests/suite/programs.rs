//! Real programs, as people use them, on real trees.

use culvert_e2e::{Case, as_each_user, installed};

/// On the tree of real files, through a tar and through a zip.
fn on_real_files(kind: &str, name: &str, script: &str) {
    let case =
        Case::new(&format!("{name}-{kind}"), culvert_e2e::User::Me).mount("real", kind, "mnt");
    case.good(&format!("cd $M; {script}"));
}

macro_rules! real_files {
    ($($name:ident $script:expr;)*) => { $(
        mod $name {
            #[test]
            fn tar() { super::on_real_files("gnu.tar", stringify!($name), $script); }
            #[test]
            fn zip() { super::on_real_files("zip", stringify!($name), $script); }
        }
    )* };
}

real_files! {
    grep "grep -rn 'include' include | sort | md5sum; grep -rlE 'fn [a-z]+_[a-z]+' . | sort; grep -c define include/*.h; grep -r --include='*.rs' unsafe . | wc -l";
    find "find . -type d -printf '%P %m %U %G\\n' -o -printf '%P %y %m %U %G %s %T@ %l\\n' | sort; find . -name '*.h' -newermt 2019-01-01 -size +10k | sort; find -L . -maxdepth 3 -type f | sort | md5sum; find . -empty | sort";
    checksums "find . -type f -print0 | sort -z | xargs -0 md5sum; find . -type f -print0 | sort -z | xargs -0 cksum | md5sum";
    tar "tar --sort=name -cf - . | tar -tf - | md5sum; tar --sort=name --owner=0 --group=0 -cf - include | md5sum; tar -cf $W/x.tar -C $M doc && tar -xf $W/x.tar -C $W && diff -r --no-dereference $W/doc $M/doc && echo equal";
    cp "cp -a $M/. $W/copy && diff -r --no-dereference $M $W/copy && echo equal; find $W/copy -type f -printf '%P %m %T@\\n' | sort | md5sum; cp -r include $W/second; du -s --apparent-size -b $W/second | cut -f1 >/dev/null; cp --reflink=auto include/stdio.h $W && cmp include/stdio.h $W/stdio.h && install -m 600 include/stdio.h $W/i && stat -c %a $W/i";
    listing "ls -lAR --time-style=full-iso | sed 's/^total .*/total/' | tr -s ' ' | awk '$1 !~ /^d/ { print } $1 ~ /^d/ { print $1, $3, $4, $NF }'; ls -ld include/stdio.h; ls --color=always include | md5sum; ls -1U | sort";
    text "wc include/*.h | tail -n 1; sort include/*.h | uniq -c | sort -rn | head -n 20; head -n 3 include/stdio.h; tail -n 3 include/stdio.h; cat include/*.h | tr a-z A-Z | md5sum; awk 'END { print NR }' include/*.h; cut -c 1-10 include/stdio.h | md5sum; sed -n '10,20p' include/stdio.h; tac include/stdio.h | md5sum; od -c include/stdio.h | tail -n 2; split -b 1000 include/stdio.h $W/part && cat $W/part* | cmp - include/stdio.h; nl include/errno.h | tail -n 1; paste include/errno.h include/ctype.h | md5sum; comm -12 <(sort include/errno.h) <(sort include/ctype.h) | md5sum; less include/errno.h | md5sum; more include/errno.h | md5sum; strings include/errno.h | md5sum; file include/errno.h 2>/dev/null; xz -c include/stdio.h | xz -d | cmp - include/stdio.h; gzip -c include/stdio.h | gzip -d | md5sum; dd if=include/stdio.h bs=100 skip=3 count=2 status=none | md5sum";
    diff "diff -r $M $M && echo same; diff -rq include/linux $M/include/linux && echo same; cp -r include/linux $W/l; echo x >> $W/l/fs.h; diff -r include/linux $W/l; cmp include/stdio.h include/errno.h; true";
    du "du -a --apparent-size include/*.h | sort; du -s --apparent-size -b include/stdio.h doc/*/copyright 2>/dev/null | sort -k 2";
}

#[test]
fn rsync() {
    if installed("rsync") {
        on_real_files(
            "gnu.tar",
            "rsync",
            "rsync -a --stats $M/ $W/copy | grep -E '^(Number of (files|regular)|Total file size)' | sed 's/(.*//'; diff -r --no-dereference $M $W/copy && echo equal; rsync -a -i --size-only $M/ $W/copy; rsync -ac --dry-run -i $M/ $W/copy; rsync -a --list-only $M/include/linux/fs.h",
        );
    }
}

fn programs(case: Case) -> Case {
    case.mount("programs", "tar", "mnt")
        .variable("GIT_CONFIG_GLOBAL", "/dev/null")
        .variable("GIT_CONFIG_COUNT", "1")
        .variable("GIT_CONFIG_KEY_0", "safe.directory")
        .variable("GIT_CONFIG_VALUE_0", "*")
}

as_each_user! {
    gcc_reads_sources_and_headers |case| { programs(case).good(
        "cd $M; cc -Iinc -o $W/hello hello.c && $W/hello; test $? = 3 && cc -E -Iinc hello.c | tail -n 3; cc -M -Iinc hello.c; cc -c -g -O2 -I$M/inc -o $W/x.o $M/hello.c && echo object
         cc -o $W/use use.c -Llib -lanswer -Wl,-rpath,$M/lib && $W/use; cc -fsyntax-only -Imissing hello.c 2>&1 | head -n 2; ar t $M/lib/libanswer.so 2>&1 | head -n 1; nm -D lib/libanswer.so | grep answer; objdump -d lib/libanswer.so | md5sum; readelf -h bin/hello | md5sum",
    ); };

    // ThreadSanitizer allows mappings in few places; where ours are changes from start to start.
    sanitizers |case| { programs(case).good(
        "cd $M; for s in thread address undefined leak; do
           cc -Iinc -fsanitize=$s -o $W/$s hello.c || exit; for i in $(seq 12); do $W/$s > $W/said 2>&1; echo $s $?; cat $W/said; done
         done",
    ); };

    make_with_its_makefile_in_the_mount |case| { programs(case).good("make -C $M OUT=$W && $W/hello; cd $M; make -n OUT=$W; make -q OUT=$W; echo $?; make OUT=$W"); };

    programs_on_the_mount |case| { programs(case).good(
        "cd $M/bin; ./hello; echo $?; ./hello-static; echo $?; ./linked; echo $?; ./script.sh a b; echo $?; ./script.py x y; echo $?
         ./bad-interpreter; echo $?; ./no-shebang q; echo $?; ./not-executable; echo $?; ./missing; echo $?; cd /; $M/bin/script.sh; PATH=$M/bin:$PATH script.sh z; env -i $M/bin/script.sh; (exec -a other $M/bin/hello); ldd $M/bin/linked | grep -c answer
         LD_LIBRARY_PATH=$M/lib $M/bin/linked; nice $M/bin/hello; xargs -n1 $M/bin/script.sh <<< 'a b'; true",
    ); };

    a_library_loaded_from_the_mount |case| { programs(case).good(
        "python3 -c 'import ctypes, os; l = ctypes.CDLL(os.environ[\"M\"] + \"/lib/libanswer.so\"); print(l.answer()); print(any(\"libanswer\" in x for x in open(\"/proc/self/maps\")) or \"unnamed\")' | head -n 1; LD_PRELOAD=$M/lib/libanswer.so cat $M/words | md5sum",
    ); };

    shell_sources_and_tests |case| { programs(case).good(
        ". $M/config.sh; greet $SETTING; cd $M; for f in *; do test -d $f && echo $f/; test -f $f && test -r $f && test -s $f && echo $f; test -x $f || echo no $f; done; [ hello.c -nt lib.c ]; echo $?; [ hello.c -ef ./hello.c ]; echo $?; [ -w hello.c ]; echo $?
         bash bin/script.sh; sh -c '. ./config.sh; greet sh'; echo $(<words) | md5sum; while read -r l; do n=$((n + 1)); done < words; echo $n; cd bin && cd ../inc && cd - && pushd ../lib && dirs && popd; command -v ./script.sh; type -P ./hello; hash; select x in a; do break; done < /dev/null 2>/dev/null; compgen -f s",
    ); };

    python_imports_from_the_mount |case| { programs(case).variable("PYTHONDONTWRITEBYTECODE", "1").good(
        "cd $M; python3 -c 'import package, os, importlib.resources as r; print(package.value, package.__file__); print(sorted((d, sorted(s), sorted(f)) for d, s, f in os.walk(\"package\"))); print((r.files(\"package\") / \"data\" / \"table.csv\").read_text()); print(open(\"words\").read()[:30], os.path.getsize(\"words\"), [e.name for e in sorted(os.scandir(\"bin\"), key=lambda e: e.name) if e.is_file()])'
         cd /; PYTHONPATH=$M python3 -c 'from package.part import value; import mmap, pathlib, shutil, glob, os, zipfile; print(value); p = pathlib.Path(os.environ[\"M\"]); print(sorted(str(x) for x in p.glob(\"**/*.py\"))); f = open(p / \"words\", \"rb\"); m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ); print(m[:5], len(m)); shutil.copytree(p / \"package\", \"copy\", dirs_exist_ok=True) if os.access(\".\", os.W_OK) and False else None; print((p / \"bin\" / \"..\" / \"words\").resolve())'
         cd $W; python3 $M/bin/script.py 1 2; python3 -m package 2>&1 | tail -n 1; python3 -m compileall -q $M/package; echo $?; python3 -m json.tool $M/node/package.json",
    ); };

    python_imports_from_a_zip |case| { case.mount("programs", "zip", "mnt").good(
        "cd /; PYTHONPATH=$M python3 -c 'import package; print(package.value, package.__file__)'; cp -r $M/package $W && cmp $M/package/part.py $W/package/part.py && echo copied",
    ); };

    git_reads_an_archived_repository |case| {
        let case = programs(case);
        case.good(
            "export HOME=$W; G='git --git-dir'; $G $M/repo.git log --stat; $G $M/repo.git fsck --full; $G $M/repo.git show v1 | head -n 5; $G $M/repo.git cat-file -p HEAD:numbers | md5sum; $G $M/repo.git rev-list --all --objects | md5sum; $G $M/repo.git blame main -- d1/file; $G $M/repo.git grep -c 1 main
             git clone -q $M/repo.git $W/clone && git -C $W/clone log --oneline && diff $W/clone/numbers $M/work/numbers && echo cloned; git clone -q --no-local $M/repo.git $W/second && git -C $W/second fsck; git clone -q --shared $M/repo.git $W/third && git -C $W/third status -s -b; git -C $M/repo.git archive main | tar t; git -C $M/repo.git branch -a; git ls-remote $M/repo.git; git -C $M/repo.git verify-pack -s $M/repo.git/objects/pack/*.idx");
        case.good("export HOME=$W; cd $M/work; git log --oneline; git diff HEAD~1 --stat; git ls-files; git cat-file --batch-check --batch-all-objects | md5sum; GIT_OPTIONAL_LOCKS=0 git status --short; git stash list; cd d3; git rev-parse --show-toplevel --show-prefix");
    };

    sqlite_reads_a_database |case| {
        if installed("sqlite3") { programs(case).good(
            "cd $M; python3 -c 'import sqlite3; c = sqlite3.connect(\"file:data.db?mode=ro\", uri=True); print(c.execute(\"select count(*), sum(n), max(s) from t\").fetchone()); print(c.execute(\"select * from t where s = ?\", (\"row 77\",)).fetchall()); print(c.execute(\"pragma integrity_check\").fetchall())'
             sqlite3 -readonly data.db 'select count(*) from t; pragma mmap_size=10000000; select sum(n) from t;'; sqlite3 -readonly data.db .schema; sqlite3 'file:data.db?immutable=1' 'select avg(n) from t'; sqlite3 data.db 'insert into t values (9999, 1)'; sqlite3 -readonly data.db .dump | md5sum"); }
    };

    node_requires_from_the_mount |case| {
        if installed("node") { programs(case).good(
            "cd $M; node -e 'const fs = require(\"fs\"); console.log(require(\"./node\").value, fs.readdirSync(\"bin\").sort(), fs.statSync(\"words\").size, fs.existsSync(\"missing\"), fs.realpathSync(\"bin/../words\"))'
             node -e 'const fs = require(\"fs\"); fs.promises.readFile(process.env.M + \"/words\", \"utf8\").then(t => console.log(t.length)); fs.createReadStream(process.env.M + \"/words\", { start: 5, end: 20 }).on(\"data\", d => console.log(d.toString())); fs.readFile(\"missing\", e => console.log(e.code)); fs.writeFile(\"new\", \"\", e => console.log(e.code)); try { fs.mkdirSync(\"d\") } catch (e) { console.log(e.code) }'
             cd /; node $M/node/main.js; node -p 'require(process.env.M + \"/node/package.json\").version'; node -e 'const { execFileSync, spawnSync } = require(\"child_process\"); console.log(execFileSync(\"head\", [\"-n\", \"2\", \"words\"], { cwd: process.env.M }).toString(), spawnSync(process.env.M + \"/bin/hello\").status)'"); }
    };

    java_reads_a_jar |case| {
        if installed("java") && installed("javac") { programs(case).good(
            "cd $M; java -Xshare:auto -cp hello.jar Hello a b; java -jar $M/hello.jar; cd /; java -cp $M/classes Hello x; javac -d $W $M/Hello.java && java -cp $W Hello; unzip -l $M/hello.jar 2>/dev/null | awk '{ print $4 }' | grep Hello; jar tf $M/hello.jar | sort; java -version 2>&1 | head -n 1"); }
    };

    perl_and_awk |case| {
        if installed("perl") { programs(case).good("cd $M; perl -ne '$n++ if /1/; END { print \"$n\\n\" }' words; perl -MFile::Find -e 'find({ wanted => sub { print \"$File::Find::name\\n\" if -f }, preprocess => sub { sort @_ } }, \".\")' | head -n 30; perl -e 'print join \",\", sort glob(\"*\"), (stat \"words\")[7], -M \"words\" > 1; open F, \"<\", \"words\"; seek F, 10, 0; print tell F, <F> . \"\"' | md5sum; awk '/1/ { n++ } END { print n }' words; perl -T -e 'print -e \"words\"'"); }
    };
}
