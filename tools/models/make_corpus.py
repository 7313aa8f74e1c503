#!/usr/bin/env python3
"""Makes the corpus of broken GGUF files that the reader's test and fuzzer begin with.

    python3 make_corpus.py         needs nothing; writes corpus/ in its folder

corpus/sentences.txt has a line for each: its name, a tab, and what the reader says; "good" if it reads it. Files that a fuzzer has found go
there, too, with their line, and stay. test_gguf.c and fuzz_gguf.c read them.
"""
import pathlib
import struct

from model_files import ARRAY, F32, TEXT, U32, U64, setting, text

FOLDER = pathlib.Path(__file__).parent / "corpus"
TYPES = {"F32": (0, 1, 4), "Q4_0": (2, 32, 18), "Q5_0": (6, 32, 22), "Q5_1": (7, 32, 24), "Q8_0": (8, 32, 34), "Q6_K": (14, 256, 210),
         "MXFP4": (39, 32, 17)}
BIG = 2**64 - 1


def tensor(name, shape, kind, place, dims=None):
    number = TYPES[kind][0] if isinstance(kind, str) else kind
    return text(name) + struct.pack("<I", len(shape) if dims is None else dims) + b"".join(struct.pack("<Q", n) for n in shape) + \
        struct.pack("<IQ", number, place)


ARRAYS = [("a", (64,), "F32"), ("b", (64, 2), "Q4_0"), ("c", (32,), "Q5_0"), ("d", (32,), "Q5_1"), ("e", (32, 3), "Q8_0"),
          ("f", (256,), "Q6_K"), ("g", (32,), "MXFP4")]
SETTINGS = [setting("general.architecture", TEXT, "llama"), setting("general.alignment", U32, 32),
            setting("llama.rope.freq_base", F32, 5e5),
            setting("tokenizer.ggml.tokens", ARRAY, (TEXT, 3, text("a") + text("b") + text("ab")))]


def size_of(shape, kind):
    _, elements, size = TYPES[kind]
    count = 1
    for n in shape:
        count *= n
    return count // elements * size


def places():
    at = []
    for _, shape, kind in ARRAYS:
        at.append(at[-1][1] if at else 0)
        at[-1] = (at[-1], -(-(at[-1] + size_of(shape, kind)) // 32) * 32)
    return [begin for begin, _ in at]


def tensors(change=None):
    """All of them; change: {index: (name, shape, kind, place, dims)}, None where nothing changes."""
    parts = []
    for i, ((name, shape, kind), place) in enumerate(zip(ARRAYS, places())):
        other = (change or {}).get(i, (None,) * 5) + (None,) * 5
        parts.append(tensor(other[0] or name, other[1] or shape, kind if other[2] is None else other[2],
                            place if other[3] is None else other[3], other[4]))
    return parts


def file(settings=SETTINGS, arrays=None, version=3, magic=b"GGUF", counts=(None, None), data=True):
    arrays = tensors() if arrays is None else arrays
    head = magic + struct.pack("<IQQ", version, len(arrays) if counts[0] is None else counts[0],
                               len(settings) if counts[1] is None else counts[1]) + b"".join(settings) + b"".join(arrays)
    head += bytes(-len(head) % 32)
    size = places()[-1] + size_of(*ARRAYS[-1][1:])
    return head + (bytes(i * 37 % 61 for i in range(size)) if data else b"")


def split(no, count, all_arrays):
    return SETTINGS + [setting("split.no", U32, no), setting("split.count", U32, count), setting("split.tensors.count", U32, all_arrays)]


def files():
    good = file()
    yield "good", good, "good"
    yield "version2", file(version=2), "good"
    yield "empty", b"", "ends within its header"
    yield "magic", file(magic=b"GGML"), "is not a GGUF file"
    yield "version1", file(version=1), "is of version 1 of GGUF"
    yield "big_endian", file(version=0x03000000), "or big-endian"
    end = len(file(data=False))
    for where, at in (("magic", 3), ("counts", 20), ("setting", 60), ("tensor", end - 70), ("header", end - 33)):
        yield f"cut_in_{where}", good[:at], "ends within its header"
    yield "cut_in_data", good[:-1], "g ends beyond the file's end"
    yield "no_data", file(data=False), "ends beyond the file's end"
    yield "arrays_overflow", file(counts=(BIG, None)), "the number of arrays is 18446744073709551615"
    yield "arrays_many", file(counts=(2**14, None)), "an array's name is empty"
    yield "settings_overflow", file(counts=(None, BIG)), "the number of settings is 18446744073709551615"
    yield "key_overflow", file([struct.pack("<Q", BIG) + b"k"]), "the length of a key is 18446744073709551615"
    yield "key_empty", file([setting("", U32, 1)]), "a key is empty"
    yield "key_twice", file(SETTINGS + SETTINGS[2:3]), "llama.rope.freq_base comes twice"
    yield "kind_unknown", file([text("general.file_type") + struct.pack("<II", 13, 1)]), "general.file_type has the type 13"
    yield "text_overflow", file([text("general.name") + struct.pack("<IQ", TEXT, 2**63) + b"n"]), \
        "the length of a text is 9223372036854775808"
    yield "array_overflow", file([setting("tokenizer.ggml.scores", ARRAY, (F32, 2**62, b""))]), \
        "the length of an array is 4611686018427387904"
    yield "array_bytes_overflow", file([setting("tokenizer.ggml.scores", ARRAY, (U64, 2**23, b""))]), "ends within its header"
    yield "array_nested", file([setting("x", ARRAY, (ARRAY, 1, b""))]), "x has the type 9"
    yield "alignment_0", file([setting("general.alignment", U32, 0)]), "general.alignment is not an integer from 8"
    yield "alignment_24", file([setting("general.alignment", U32, 24)]), "general.alignment is 24, not a power of two"
    yield "alignment_text", file([setting("general.alignment", TEXT, "32")]), "general.alignment is not an integer"
    yield "dims_0", file(arrays=tensors({0: (None, (), None, None, 0)})), "a has 0 dimensions"
    yield "dims_many", file(arrays=tensors({0: (None, None, None, None, 4000000000)})), "a has 4000000000 dimensions"
    yield "size_0", file(arrays=tensors({1: (None, (64, 0))})), "b is empty or too large"
    yield "size_overflow", file(arrays=tensors({1: (None, (2**40, 2**40))})), "b is empty or too large"
    yield "size_wraps", file(arrays=tensors({1: (None, (2**32, 2**32, 2**32, 2**32))})), "b is empty or too large"
    yield "size_negative", file(arrays=tensors({1: (None, (2**63,))})), "a size of an array is 9223372036854775808"
    yield "no_whole_blocks", file(arrays=tensors({1: (None, (48, 2))})), "b has rows of 48 elements, which are no whole blocks of 32"
    yield "type_unread", file(arrays=tensors({5: (None, None, 11)})), "f is of type Q3_K (11)"
    yield "type_unknown", file(arrays=tensors({5: (None, None, 4000000000)})), "f is of type unknown (4000000000)"
    yield "name_twice", file(arrays=tensors({6: ("a",)})), "a comes twice"
    yield "name_long", file(arrays=tensors({6: ("n" * 65,)})), "the length of an array's name is 65"
    yield "name_control", file(arrays=tensors({6: ("a\nb",)})), "an array's name is empty or not of printable characters"
    yield "overlap", file(arrays=tensors({2: (None, None, None, places()[2] - 32)})), "b and c overlap"
    yield "overlap_same", file(arrays=tensors({2: (None, None, None, 0)})), "overlap"
    yield "unaligned", file(arrays=tensors({2: (None, None, None, places()[2] + 8)})), "c is not aligned to 32 bytes"
    yield "place_beyond", file(arrays=tensors({6: (None, None, None, 2**40)})), "g ends beyond the file's end"
    yield "place_overflow", file(arrays=tensors({6: (None, None, None, BIG - 31)})), "the place of an array is 18446744073709551584"
    yield "split_alone", file(split(0, 1, 7)), "good"
    yield "split_unnamed", file(split(0, 3, 7)), "is the first of 3 files, but is not named -00001-of-00003.gguf"
    yield "split_later", file(split(1, 3, 7)), "is part 2 of 3: name the first"
    yield "split_no_overflow", file(split(2**32 - 1, 3, 7)), "split.no is not an integer from 0 to 1024"
    yield "split_count_overflow", file(split(0, 2**31, 7)), "split.count is not an integer from 0 to 1024"
    yield "split_no_missing", file(SETTINGS + [setting("split.count", U32, 2)]), "has no split.no"


def main():
    FOLDER.mkdir(exist_ok=True)
    lines = []
    for name, data, sentence in files():
        (FOLDER / f"{name}.gguf").write_bytes(data)
        lines.append(f"{name}.gguf\t{sentence}\n")
    (FOLDER / "sentences.txt").write_text("".join(lines))


if __name__ == "__main__":
    main()
