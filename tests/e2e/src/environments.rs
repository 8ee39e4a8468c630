//! Trees from which whole environments run: a Python virtual environment, a Java runtime with a compiler, a C toolchain.

use std::path::Path;

/// What makes the tree `name` in an empty directory, for a place at which it will be seen (`$AT`); none for other trees. It fails where the packages are missing.
pub(crate) fn script(name: &str) -> Option<&'static str> {
    Some(match name {
        "venv" => {
            "/usr/bin/python3 -m venv --without-pip --copies . && cd lib/python3*/site-packages && cp -r /usr/lib/python3/dist-packages/numpy . && rm -rf numpy/*/tests
             mkdir own && printf 'from . import fast\\ndef main():\\n    print(fast.twice(21), __file__)\\n' > own/__init__.py
             printf '#include <Python.h>\\nstatic PyObject *twice(PyObject *s, PyObject *x) { return PyLong_FromLong(2 * PyLong_AsLong(x)); }\\nstatic PyMethodDef m[] = {{\"twice\", twice, METH_O, \"\"}, {0}};\\nstatic struct PyModuleDef d = {PyModuleDef_HEAD_INIT, \"fast\", 0, -1, m};\\nPyMODINIT_FUNC PyInit_fast(void) { return PyModule_Create(&d); }\\n' > fast.c
             i=$(/usr/bin/python3 -c 'import sysconfig; print(sysconfig.get_paths()[\"include\"])'); if test -e $i/Python.h; then cc -shared -fPIC -I $i -o own/fast.so fast.c; else printf 'def twice(x):\\n    return 2 * x\\n' > own/fast.py; fi; rm fast.c
             cd - > /dev/null; printf '#!%s/bin/python3\\nimport own, sys\\nown.main()\\nprint(sys.argv)\\n' $AT > bin/tool; chmod +x bin/tool"
        }
        "jdk" => {
            "jlink --add-modules java.base,jdk.compiler,jdk.jartool --no-man-pages --output new && mv new/* . && rmdir new"
        }
        "toolchain" => {
            "v=$(gcc -dumpversion); for p in gcc-$v gcc-$v-x86-64-linux-gnu cpp-$v cpp-$v-x86-64-linux-gnu libgcc-$v-dev libgcc-s1 libc6 libc6-dev linux-libc-dev binutils-x86-64-linux-gnu libbinutils libctf0 libctf-nobfd0 libgprofng0 libsframe1 libmpc3 libmpfr6 libgmp10 libisl23 libjansson4 libzstd1 zlib1g; do dpkg -L $p 2> /dev/null || :; done | grep -Ev '^/(usr/share|etc)|lto-dump|gcov|gold|gprof|gconv|/lib(a|t|l|ub|hwa)san|/plugin/|x86_64-linux-gnu-dwp' | sort -u > ../list
             mkdir -p usr/lib usr/lib64 && ln -s usr/lib usr/lib64 . && sed -E 's,^/lib(64)?/,/usr&,' ../list | while read -r f; do if test -f $f; then echo $f; fi; done | sort -u | tar -cf - -T - 2> /dev/null | tar -xf -
             cd usr/bin && for t in as ld ar ranlib nm objdump strip gcc-$v; do ln -sf x86_64-linux-gnu-$t $t; done"
        }
        _ => return None,
    })
}

/// Whether this machine has what the tree `name` is made of.
pub fn can_be_made(name: &str) -> bool {
    let needs: &[&str] = match name {
        "venv" => &["/usr/bin/python3", "/usr/lib/python3/dist-packages/numpy"],
        "jdk" => &["/usr/bin/jlink", "/usr/bin/javac"],
        "toolchain" => &["/usr/bin/dpkg", "/usr/bin/x86_64-linux-gnu-gcc"],
        _ => &[],
    };
    let missing = needs.iter().find(|path| !Path::new(path).exists());
    if let Some(path) = missing {
        crate::not_tested(format_args!("{path} is missing"));
    }
    missing.is_none()
}
