"""OpenBLAS, of the package that numpy and scipy are built with, called without numpy."""

import ctypes
import pathlib

import numpy as np

from forms import Form

ROW_MAJOR, PLAIN, TRANSPOSED = 101, 111, 112  # of cblas.h


class OpenBlas:
    name = "openblas"
    tiers = ("best", "avx2")

    def __init__(self, threads=1):
        import scipy_openblas32

        self.c = ctypes.CDLL(str(pathlib.Path(scipy_openblas32.get_lib_dir()) / "libscipy_openblas.so"))
        self.c.scipy_openblas_get_config.restype = self.c.scipy_openblas_get_corename.restype = ctypes.c_char_p
        self.c.scipy_openblas_set_num_threads(ctypes.c_int(threads))

    def version(self):
        config = self.c.scipy_openblas_get_config().decode().split()
        return f"{config[1]} ({self.c.scipy_openblas_get_corename().decode()})"

    def forms(self, case, data):
        if case.dtype != "f32":
            return
        if case.kind != "linear":
            return
        if case.rows == 1:
            yield self._vector("sgemv", data.x, data.w, data.b, PLAIN)
            yield self._vector("sgemv, weight [in, out]", data.x, np.ascontiguousarray(data.w.T), data.b, TRANSPOSED)
        yield self._matrix("sgemm", case, data.x, data.w, data.b, TRANSPOSED)
        yield self._matrix("sgemm, weight [in, out]", case, data.x, np.ascontiguousarray(data.w.T), data.b, PLAIN)

    def _matrix(self, label, case, x, w, b, transposed):
        """The bias is what the product is added to."""
        out = np.empty((case.rows, case.columns), np.float32)
        one, (m, n, k) = ctypes.c_float(1), (case.rows, case.columns, case.channels)
        places = [ctypes.c_void_p(a.ctypes.data) for a in (x, w, out)]

        def run(gemm=self.c.scipy_cblas_sgemm, owned=(x, w)):
            out[:] = b
            gemm(ROW_MAJOR, PLAIN, transposed, m, n, k, one, places[0], k, places[1], w.shape[1], one, places[2], n)

        return Form(label, run, lambda: out)

    def _vector(self, label, x, w, b, transposed):
        out, one = np.empty((1, len(b)), np.float32), ctypes.c_float(1)
        places = [ctypes.c_void_p(a.ctypes.data) for a in (w, x, out)]

        def run(gemv=self.c.scipy_cblas_sgemv, owned=(x, w)):
            out[:] = b
            gemv(ROW_MAJOR, transposed, *w.shape, one, places[0], w.shape[1], places[1], 1, one, places[2], 1)

        return Form(label, run, lambda: out)
