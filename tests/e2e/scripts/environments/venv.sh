/usr/bin/python3 -m venv --without-pip --copies . && cd lib/python3*/site-packages \
    && cp -r /usr/lib/python3/dist-packages/numpy . && rm -rf numpy/*/tests
mkdir own \
    && printf 'from . import fast\ndef main():\n    print(fast.twice(21), __file__)\n' > own/__init__.py
printf '#include <Python.h>\nstatic PyObject *twice(PyObject *s, PyObject *x) { return PyLong_FromLong(2 * PyLong_AsLong(x)); }\nstatic PyMethodDef m[] = {{"twice", twice, METH_O, ""}, {0}};\nstatic struct PyModuleDef d = {PyModuleDef_HEAD_INIT, "fast", 0, -1, m};\nPyMODINIT_FUNC PyInit_fast(void) { return PyModule_Create(&d); }\n' > fast.c
i=$(/usr/bin/python3 -c 'import sysconfig; print(sysconfig.get_paths()["include"])')
if test -e $i/Python.h; then cc -shared -fPIC -I $i -o own/fast.so fast.c; else printf 'def twice(x):\n    return 2 * x\n' > own/fast.py; fi
rm fast.c
cd - > /dev/null
printf '#!%s/bin/python3\nimport own, sys\nown.main()\nprint(sys.argv)\n' $AT > bin/tool
chmod +x bin/tool
