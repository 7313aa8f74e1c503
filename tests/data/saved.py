#!/usr/bin/env python3
"""Writes saved_0_3.arrays for test_cache_save.c: sequences that fovea_kv_cache_save() of version 0.3 wrote, each a file.
Run with a file of bfloat16 keys and float32 values, and one of int8:
    python3 tests/data/saved.py FLOATS INTEGERS
"""
import sys

import numpy as np
from arrays import Arrays

arrays = Arrays(__file__.replace("saved.py", "saved_0_3.py"))
for name, path in zip(("floats", "i8"), sys.argv[1:], strict=True):
    arrays.add(name, np.fromfile(path, np.uint8))
arrays.write()
