"""Files of named arrays, which tests read with tests/support/arrays.h. All numbers are little-endian:
    "fvarrays", int64 count; for each array 96 bytes of name, 16 of type (as numpy calls it), int64
    rank, four int64 sizes (1 from rank on), int64 place of its elements in the file; then elements.
Arrays whose elements stand in the file already, as a part of others, share them.
"""
import struct
from pathlib import Path

import numpy as np

ENTRY = struct.Struct("<96s16s6q")


class Arrays:
    def __init__(self, script):
        """The file has the script's name, without .py."""
        self.path, self.entries, self.data = Path(script).with_suffix(".arrays"), [], bytearray()

    def elements(self, data):
        """The place of these bytes."""
        at = self.data.find(data)
        while at > 0 and at % 8:
            at = self.data.find(data, at + 1)
        if at < 0:
            self.data += bytes(-len(self.data) % 8)
            at = len(self.data)
            self.data += data
        return at

    def add(self, name, array, kind=None):
        """kind: what its elements were before they became these."""
        array = np.ascontiguousarray(array)
        kind = kind or array.dtype.name
        assert len(name) < 96 and len(kind) < 16 and array.ndim <= 4 and name not in {entry[0] for entry in self.entries}
        self.entries.append((name, kind, array.shape, self.elements(array.tobytes())))

    def write(self):
        begin = 16 + len(self.entries) * ENTRY.size
        with open(self.path, "wb") as file:
            file.write(struct.pack("<8sq", b"fvarrays", len(self.entries)))
            for name, kind, shape, at in self.entries:
                file.write(ENTRY.pack(name.encode(), kind.encode(), len(shape), *(*shape, 1, 1, 1, 1)[:4], begin + at))
            file.write(self.data)
