#!/usr/bin/env python3
"""test_receipts.py FOVEA-EMBED [COUNT]: receipts of vectors by a tiny model. Each verifies on any tier with any number of
threads, as do those that are kept in tests/data/receipts; COUNT that somebody tampered with do not (default 40, 4,000 with
FOVEA_TEST_SCALE=1). Run by ctest, which sets SCRATCH, an own folder. `--keep` in place of COUNT writes the kept one anew."""

import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "receipts"))
from tampering import changed_bit, changed_bytes, changed_leaf, count, hostile, seal  # noqa: E402

PROGRAM, KEEP = sys.argv[1], sys.argv[2:] == ["--keep"]
COUNT = count(sys.argv[2:] if not KEEP else [])
KEPT = HERE.parents[1] / "tests/data/receipts"
TEXTS = ["a b c", "", "ab abc k l", "z " * 60, "x", "é und ü", 'a "b" \\ \t c']
WAYS = [{"FOVEA_ISA": tier} for tier in ("scalar", "avx2", "avx512", "neon")] + [{}]


def run(*arguments, ways=None):
    done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, env={**os.environ, **(ways or {})})
    return done.returncode, done.stdout, done.stderr.strip()


def record(path, *options, model="model"):
    pathlib.Path(path).unlink(missing_ok=True)
    status, _, said = run("--model", model, "--text", "texts", "--output", "vectors.npy", "--receipt", path, *options)
    assert status == 0, said


def verify(path, *more, model="model", ways=None):
    return run("--verify", path, *more, model, ways=ways)


def test_ways():
    for options, model in (([], "model"), (["--type", "bf16"], "model"), (["--type", "f16"], "model"),
                           (["--weights", "q8_0"], "wide")):  # fmt: skip
        record("receipt", "--threads", "1", *options, model=model)
        found = 0
        for i, ways in enumerate(WAYS):
            status, said, wrong = verify("receipt", "--threads", str(i % 3 + 1), model=model, ways=ways)
            if "FOVEA_ISA" not in wrong:  # a tier that this CPU has
                assert status == 0 and re.match(r"verified 7 texts in ", said), (options, ways, wrong)
                found += 1
        assert found >= 2


def test_answers():
    """0, 1 and 2, each with its sentence."""
    record("receipt")
    receipt = json.load(open("receipt"))

    def check(status, words, sealed=True, **changes):
        made = {**receipt, **changes}
        with open("made", "w") as file:
            json.dump(seal(made) if sealed else made, file)
        found, said, wrong = verify("made")
        assert found == status and re.search(words, wrong) and wrong.count("\n") == 0, (found, said, wrong)

    def third(name, value):
        vectors = json.loads(json.dumps(receipt["vectors"]))
        vectors[2][name] = value
        return vectors

    check(0, "^$")
    check(2, "cannot tell: it was made with version 2 of the bits", bits=2)
    check(2, "cannot tell: made: is no receipt of the format", format="fovea-receipt 1")
    check(2, "the receipt has the field new, which is unknown", new=1)
    check(2, "has no vectors", vectors=[], texts=None)
    check(2, "cannot tell: a setting is unknown", arithmetic={**receipt["arithmetic"], "type": "f64"})
    check(2, "takes 40 tokens of a text, not 41", arithmetic={**receipt["arithmetic"], "tokens": "41"})
    check(2, "it is of another model", model={**receipt["model"], "arrays": "0" * 64})
    check(1, "differs: weights:", model={**receipt["model"], "weights": "0" * 64})
    check(1, "differs: the tokenizer has another", model={**receipt["model"], "tokenizer": "0" * 64})
    check(1, "differs: text 3: its vector is another", vectors=third("vector", "0" * 64))
    check(1, "differs: text 3 has another", vectors=third("text", "0" * 64))
    check(1, "differs: text 3: its tokens are others", False, vectors=third("tokens", "0" * 64))
    check(2, "cannot tell: text 3: tokens of this program are others", vectors=third("tokens", "0" * 64))
    check(1, "differs: text 1: its vector is another", arithmetic={**receipt["arithmetic"], "normalized": "0"})
    check(1, "its own SHA-256 is another", False, made={**receipt["made"], "seconds": "0"})
    assert verify("receipt", "--type", "bf16")[::2] == (
        2, "fovea-embed: --verify takes settings from the receipt: none may be given, and no --output")  # fmt: skip
    # A receipt is never overwritten, and then nothing is computed.
    status, said, wrong = run("--model", "model", "--text", "texts", "--output", "other.npy", "--receipt", "receipt")
    assert status == 1 and "receipt" in wrong and not os.path.exists("other.npy"), wrong
    # Private texts are asked for; those of the file must be as many, and the same.
    record("private", "--private-texts")
    assert json.load(open("private"))["texts"] is None
    assert "its texts are private: give them by --text" in verify("private")[2]
    assert verify("private", "--text", "texts")[0] == 0
    for lines, words in ((TEXTS[:-1], "7 texts, the file fewer"), ([*TEXTS, "a"], "7 texts, the file more"),
                         ([*TEXTS[:4], "y", *TEXTS[5:]], "cannot tell: text 5 has another")):  # fmt: skip
        write_texts("wrong", lines)
        status, said, wrong = verify("private", "--text", "wrong")
        assert status == 2 and words in wrong and not said, wrong
    for name in hostile(open("receipt").read()):
        status, said, wrong = verify(name)
        assert status == 2 and "cannot tell: " in wrong and wrong.count("\n") == 0 and not said, (name, status, said, wrong)
    # A sample of a wrong receipt finds what it checks.
    bad = seal({**receipt, "vectors": third("vector", "0" * 64)})
    with open("made", "w") as file:
        json.dump(bad, file)
    found = [verify("made", "--sample", "3", "--seed", str(seed))[0] for seed in range(20)]
    assert sorted(set(found)) == [0, 1] and verify("made", "--sample", "7")[0] == 1
    assert "verified 2 of 7 texts, chosen by the seed 9" in verify("receipt", "--sample", "2", "--seed", "9")[1]
    # A text that is no UTF-8 has no receipt with texts.
    with open("latin", "wb") as file:
        file.write(b"\xe9\n")
    made = ("--output", "vectors.npy", "--receipt", "latin.receipt")
    status, _, wrong = run("--model", "model", "--text", "latin", *made)
    assert status == 1 and "text 1 is not UTF-8" in wrong and not os.path.exists("latin.receipt"), wrong


def test_tampered():
    chance = random.Random(COUNT)
    record("receipt")
    text = open("receipt").read()
    receipt, weights = json.loads(text), open("model/model.safetensors", "rb").read()
    shutil.copytree("model", "other", dirs_exist_ok=True)
    counts = {1: 0, 2: 0}
    for i in range(COUNT):
        if i % 4 == 0:
            new = changed_bytes(text, chance)
        elif i % 4 == 1:
            new = text
            with open("other/model.safetensors", "wb") as file:
                file.write(changed_bit(weights, chance)[0])
        else:
            new = json.dumps(changed_leaf(receipt, chance))
        if new is None:
            continue
        with open("tampered", "w") as file:
            file.write(new)
        status, said, wrong = verify("tampered", model="other" if i % 4 == 1 else "model")
        assert status in (1, 2) and wrong.count("\n") == 0 and not said, (i, status, said, wrong)
        counts[status] += 1
    print(f"receipts: {sum(counts.values())} tampered: {counts[1]} differ, {counts[2]} cannot be told")


def write_texts(path, texts):
    with open(path, "w") as file:
        file.write("".join(text + "\n" for text in texts))


def main():
    scratch = os.environ["SCRATCH"]
    shutil.rmtree(scratch, ignore_errors=True)
    shutil.copytree(HERE / "tiny/bert", pathlib.Path(scratch) / "model")
    shutil.copytree(HERE / "tiny/modernbert", pathlib.Path(scratch) / "wide")
    os.chdir(scratch)
    shutil.copy("model/vocab.txt", "wide/vocab.txt")
    write_texts("texts", TEXTS)
    if KEEP:
        return record(KEPT / "embed.receipt")
    for kept in ("embed.receipt", "embed_python.receipt"):
        status, said, wrong = verify(str(KEPT / kept))
        assert status == 0 and said.startswith("verified 7 texts"), (kept, wrong)
    test_answers()
    test_ways()
    test_tampered()


main()
