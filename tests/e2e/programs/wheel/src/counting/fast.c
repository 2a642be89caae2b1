#include <Python.h>

static PyObject* add(PyObject* self, PyObject* arguments) {
    long left, right;
    (void)self;
    if (!PyArg_ParseTuple(arguments, "ll", &left, &right)) return NULL;
    return PyLong_FromLong(left + right);
}

static PyMethodDef methods[] = {{"add", add, METH_VARARGS, "The sum of two."}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "fast", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_fast(void) { return PyModule_Create(&module); }
