#!/usr/bin/env python3
"""test_receipts.py PROGRAM TEST-GENERATE-SETTINGS [COUNT]: receipts of fovea-generate on the tiny model of make_gguf.h.
Each verifies with any tier and number of threads, as do those that are kept in tests/data/receipts; COUNT that somebody
tampered with do not (default 40, 4,000 with FOVEA_TEST_SCALE=1). Where the Python package fovea is, the second verifier
(verify.py) says the same of each. Run by ctest, which sets SCRATCH, an own folder. `--keep` in place of COUNT writes the kept ones anew."""

import collections
import hashlib
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "receipts"), str(HERE.parent / "models")]
from model_files import wide_llama  # noqa: E402
from tampering import changed_bit, changed_bytes, changed_leaf, count, hostile, leaves, other, seal  # noqa: E402

try:
    import verify as second
except ImportError:
    second = None

PROGRAM, SETTINGS, KEEP = *sys.argv[1:3], sys.argv[3:] == ["--keep"]
COUNT = count(sys.argv[3:] if not KEEP else [])
KEPT = HERE.parents[1] / "tests/data/receipts"
SCRATCH = os.environ["SCRATCH"]
WAYS = [{"FOVEA_ISA": tier} for tier in ("scalar", "avx2", "avx512", "neon")] + [{}]


def run(*arguments, ways=None, tool=PROGRAM):
    done = subprocess.run([tool, *arguments], capture_output=True, text=True, env={**os.environ, **(ways or {})})
    return done.returncode, done.stdout, done.stderr.strip()


def record(path, *options, model="tiny.gguf"):
    if os.path.exists(path):
        os.remove(path)
    status, _, said = run("--model", model, "--threads", "1", "--receipt", path, *options)
    assert status == 0, said


def verify(path, *more, model="tiny.gguf", ways=None, threads="1"):
    found = run("--verify", path, "--model", model, "--threads", threads, *more, ways=ways)
    if second is not None and ways is None and not more:
        agree(found, *second.verify(path, model), same_model=model in ("tiny.gguf", "words.gguf"))
    return found


def agree(found, status, said, same_model):
    """The second verifier reads other damaged models, but never says the opposite."""
    counted[0] += 1
    assert status == found[0] or (not same_model and 2 in (status, found[0])), (found, status, said)
    row = re.search(r"answer \d+, row \d+", found[2])
    assert not row or status != 1 or row[0] in said, (found, said)


counted = [0]


def tiers():
    """The environments of all tiers that this machine has."""
    found = []
    for way in WAYS:
        status, _, said = run("--model", "tiny.gguf", "--tokens", "1", "ab", ways=way)
        if status == 0:
            found.append(way)
        else:
            assert "FOVEA_ISA" in said, said
    return found


def test_settings():
    """A receipt that was made one way verifies every way."""
    everywhere = tiers()
    sampled = ["--temperature", "1.5", "--top-k", "20", "--top-p", "0.95", "--min-p", "0.01", "--repetition-penalty", "1.1"]
    for made, options in enumerate((
        ["--type", "f32"], ["--type", "bf16", *sampled], ["--type", "f16", "--cache", "int8", *sampled],
        ["--type", "bf16", "--cache", "int4", "--values", "int8"], ["--weights", "bf16", "--type", "f32", "--cache", "f16"],
        ["--type", "f32", "--parallel", "3", "--temperature", "2", "--seed", "4"],
    )):  # fmt: skip
        record("receipt", "--tokens", "40", *options, "ab")
        kept = KEPT / f"generate_{made}.receipt"
        if KEEP:
            shutil.copy("receipt", kept)
        status, said, wrong = verify(str(kept))
        assert status == 0 and said.startswith("verified "), (kept, wrong)
        for i, ways in enumerate(everywhere):
            threads = str((made + i) % 3 + 1)
            status, said, wrong = verify("receipt", ways=ways, threads=threads)
            assert status == 0 and re.match(r"verified \d+ tokens in ", said), (options, ways, threads, wrong)


def changed(receipt, chance):
    """(a receipt that says something else, the row from which on it cannot be right or None). Where it names a row, the one who
    tampered may have sealed it again."""
    made, answer = json.loads(json.dumps(receipt)), receipt["answers"][0]
    kind = chance.choice(["token", "row", "order", "leaf", "leaf", "field", "cut", "longer"])
    at = chance.randrange(len(answer["rows"]) - 1)
    to = made["answers"][0]
    if kind == "token":
        to["tokens"][at] = (to["tokens"][at] + chance.randrange(1, 5)) % 8
        return made, at if to["tokens"][at] != answer["tokens"][at] else None
    if kind == "row":
        to["rows"][at] = other(to["rows"][at], chance)
        return made, at
    if kind == "order":
        name = chance.choice(["tokens", "rows"])
        to[name][at], to[name][at + 1] = to[name][at + 1], to[name][at]
        return made, at if answer[name][at] != answer[name][at + 1] else None
    if kind == "leaf":
        paths = [path for path in leaves(made) if path[0] != "answers" or chance.random() < 0.1]
        return changed_leaf(receipt, chance, paths), None
    if kind == "field":
        chance.choice([made, made["model"], made["sampling"], to, to["prompt"]])["new"] = 1
    elif kind == "cut":
        for name in ("tokens", "rows"):
            del to[name][-1]
    else:
        for name in ("tokens", "rows"):
            to[name].append(to[name][-1])
    return made, None


def test_tampered():
    chance = random.Random(COUNT)
    record("receipt", "--tokens", "40", "--temperature", "1.5", "--type", "f32", "ab")
    text = open("receipt").read()
    receipt, weights = json.loads(text), open("tiny.gguf", "rb").read()
    for i in range(COUNT):
        kind = i % 4
        model, row = "tiny.gguf", None
        if kind == 0:  # bytes of the file
            new = changed_bytes(text, chance)
            if new is None:
                continue
        elif kind == 1:  # a bit of the model
            new, model = text, "other.gguf"
            bytes_of_it, at = changed_bit(weights, chance)
            with open(model, "wb") as file:
                file.write(bytes_of_it)
        else:  # what it says
            made, row = changed(receipt, chance)
            if made == receipt:
                continue
            new = json.dumps(seal(made) if row is not None and chance.random() < 0.5 else made)
        with open("tampered", "w") as file:
            file.write(new)
        status, said, wrong = verify("tampered", model=model)
        if kind == 1 and status == 0:  # padding, or a name that changes nothing
            assert hashlib.sha256(weights).digest() != hashlib.sha256(open(model, "rb").read()).digest()
            untouched.append(at)
            continue
        assert status in (1, 2) and wrong.count("\n") == 0 and not said, (i, status, said, wrong)
        what = ("bytes", "model", "says", "says")[kind]
        told[what, "differs" if status == 1 else "cannot tell"] += 1
        if kind == 1:
            told["model", next((part for part in ("weights", "tokenizer", "template") if f"{part}" in wrong and status == 1), "else")] += 1
        if row is not None:
            told[what, "first row named"] += 1
            assert status == 1 and f"row {row}:" in wrong, (i, row, wrong)


untouched, told = [], collections.Counter()


def test_answers():
    """0, 1 and 2, each with its sentence."""
    record("receipt", "--tokens", "20", "--type", "f32", "ab")
    receipt = json.load(open("receipt"))

    def check(status, words, **changes):
        made = {**receipt, **changes}
        seal(made)
        with open("made", "w") as file:
            json.dump(made, file)
        found, _, said = verify("made")
        assert found == status and re.search(words, said), (found, said)

    def changed_answer(**fields):
        return {"answers": [{**receipt["answers"][0], **fields}]}

    def another_digit(text):
        return text[:-1] + ("0" if text[-1] != "0" else "1")

    answer = receipt["answers"][0]
    ids = b"".join(i.to_bytes(4, "little") for i in answer["prompt"]["tokens"])
    assert answer["prompt"]["sha256"] == hashlib.sha256(ids).hexdigest()
    check(0, "^$")
    for seed in ("", "x", "1x", "-1", "+1", " 1", "1e0", "99999999999999999999", "0" * 32):
        check(2, "seed is no number", **changed_answer(seed=seed))
    for number in ("", "x", "1x", "-0", "+1", " 1", ".5", "1.", "1e", "1e+", "1E0", "0x1", "inf", "nan", "1_0", "0" * 32):
        check(2, "is no (number|word)", sampling={**receipt["sampling"], "top_p": number})
        check(2, "made.seconds is no number", made={**receipt["made"], "seconds": number})
    for number in ("1", "1.0", "01", "1e0", "10e-1", "0.1e+1", "0" * 30 + "1"):
        check(0, "^$", sampling={**receipt["sampling"], "top_p": number}, made={"seconds": number, "by": "~ \"\\/"})
    for name, number in (("top_k", "1.0"), ("top_k", "1e0"), ("top_k", "16777217"), ("top_p", "1.1"), ("temperature", "101"),
                         ("repetition_penalty", "0")):  # fmt: skip
        check(2, "is no number|is unknown", sampling={**receipt["sampling"], name: number})
    check(2, "has no token at 0", **changed_answer(tokens=[1 << 31, *answer["tokens"][1:]]))
    check(1, "the model has no token 2147483647", **changed_answer(tokens=[(1 << 31) - 1, *answer["tokens"][1:]]))
    for name in ("tokens", "rows", "blocks"):
        check(2, f"{name} is no array|tokens is no array", **changed_answer(**{name: answer[name][:-1]}))
    for count in (0, 3, 1 << 24, (1 << 24) + 1):
        check(2, "count is not from 1|tokens is no array", **changed_answer(prompt={**answer["prompt"], "count": count}))
    check(2, "has no answers", answers=[])
    check(2, "answers is no array", answers=[0] * ((1 << 16) + 1))
    # The order of checks: bits, arrays and settings, weights, tokenizer, template, room, products, answers, its own SHA-256.
    wrong = {name: "0" * 64 for name in receipt["model"]}
    for status, words, right in ((2, "another model", ()), (2, "another model", ("arrays",)), (1, "weights", ("arrays", "settings")),
                                 (1, "tokenizer", ("arrays", "settings", "weights"))):  # fmt: skip
        check(status, words, model={**wrong, **{name: receipt["model"][name] for name in right}})
    check(2, "of the bits", bits=2, model=wrong)
    check(2, "rows has no hash at 0", **changed_answer(rows=[answer["rows"][0] + "0", *answer["rows"][1:]]))
    check(1, "rows from 0 on have another SHA-256", **changed_answer(blocks=[another_digit(answer["blocks"][0])]))
    check(1, "its rows have another SHA-256", **changed_answer(sha256=another_digit(answer["sha256"])))
    check(1, "differs: the chat template has another SHA-256", model={**receipt["model"], "template": "0" * 64})
    check(1, "differs: weights:", model={**receipt["model"], "weights": another_digit(receipt["model"]["weights"])})
    check(1, "differs: weights", model={**receipt["model"], "weights": "0" * 64}, arithmetic={**receipt["arithmetic"], "products": "q16"})
    check(2, 'cannot tell: products by "q16" are none of this model', arithmetic={**receipt["arithmetic"], "products": "q16"})
    outside = [*answer["prompt"]["tokens"], 10**6]
    bytes_of_it = b"".join(i.to_bytes(4, "little") for i in outside)
    prompt = {"count": len(outside), "tokens": outside, "sha256": hashlib.sha256(bytes_of_it).hexdigest()}
    check(1, "the model has no token 1000000", **changed_answer(prompt=prompt))
    prompt = {"count": 80, "tokens": [0] * 80, "sha256": hashlib.sha256(bytes(4 * 80)).hexdigest()}
    check(2, "cannot tell: --context 99: the model reads at most 64 tokens", **changed_answer(prompt=prompt))
    with open("twice", "w") as file:
        file.write(open("receipt").read().replace("{", '{"bits": 1, ', 1))
    status, _, said = verify("twice")
    assert status == 2 and "is no JSON" in said, said
    check(2, "cannot tell: it was made with version 2 of the bits", bits=2)
    check(2, "cannot tell: .*is no receipt of the format", format="fovea-receipt 2")
    check(2, "the receipt has the field new, which is unknown", new=1)
    check(2, 'cannot tell: the setting "f64" is unknown', arithmetic={**receipt["arithmetic"], "type": "f64"})
    check(1, "differs: the tokenizer has another SHA-256", model={**receipt["model"], "tokenizer": "0" * 64})
    check(1, "differs: weights:", model={**receipt["model"], "weights": "0" * 64})
    check(2, "it is of another model", model={**receipt["model"], "arrays": "0" * 64})
    assert run("--verify", "receipt", "--model", "tiny.gguf", "--type", "f32")[::2] == (
        2, "fovea-generate: --verify takes settings from the receipt: none may be given")  # fmt: skip
    # A receipt is never overwritten, and nothing is computed where it could not be written.
    status, said, wrong = run("--model", "tiny.gguf", "--receipt", "receipt", "ab")
    assert status == 1 and "receipt" in wrong and not said, wrong
    # A private prompt is asked for.
    record("private", "--tokens", "20", "--type", "f32", "--private-prompt", "ab")
    assert json.load(open("private"))["answers"][0]["prompt"]["tokens"] is None
    assert verify("private")[0] == 2 and verify("private", "ba")[0] == 2 and verify("private", "ab")[0] == 0
    # A prompt that is given must be the receipt's, and so must each line of several.
    assert verify("receipt", "ab")[0] == 0 and "the prompt given is not that of" in verify("receipt", "ba")[2]
    for name, text in (("lines", "a\nababababababababab\n"), ("swapped", "ababababababababab\na\n")):
        with open(name, "w") as file:
            file.write(text)
    record("two", "--tokens", "3", "--type", "f32", "--private-prompt", "--parallel", "2", "--file", "lines")
    assert verify("two", "--file", "lines")[0] == 0 and verify("two", "--file", "swapped")[0] == 2
    # The last token does not fit into the model.
    record("full", "--tokens", "100", "--type", "f32", "--temperature", "3", "--top-p", "1", "ab")
    assert verify("full")[0] == 0, verify("full")
    # Words in blocks are no products while the head is another array, and settings may say what is computed anyway.
    pathlib.Path("words.gguf").write_bytes(wide_llama(quantized_words=True))
    record("words", "--tokens", "5", "--plain", "--type", "f32", "ab", model="words.gguf")
    assert json.load(open("words"))["arithmetic"]["products"] == "none"
    assert verify("words", model="words.gguf")[0] == 0, verify("words", model="words.gguf")
    # A model that is not there, or that cannot be read, tells nothing.
    assert verify("receipt", model="nowhere.gguf")[0] == 77
    with open("none.gguf", "wb") as file:
        file.write(b"GGUF")
    status, _, said = verify("receipt", model="none.gguf")
    assert status == 2 and "cannot tell: " in said, said
    for name in hostile(open("receipt").read()):
        status, said, wrong = verify(name)
        assert status == 2 and "cannot tell: " in wrong and wrong.count("\n") == 0 and not said, (name, status, said, wrong)


def main():
    shutil.rmtree(SCRATCH, ignore_errors=True)
    os.makedirs(SCRATCH)
    os.chdir(SCRATCH)
    with open("tiny.gguf", "wb"):
        pass
    status, _, wrong = run("--write", "tiny.gguf", tool=SETTINGS)
    assert status == 0, wrong
    if KEEP:
        shutil.copy("tiny.gguf", KEPT)
        return test_settings()
    assert (KEPT / "tiny.gguf").read_bytes() == open("tiny.gguf", "rb").read(), "the model of the kept receipts is another"
    test_answers()
    test_settings()
    test_tampered()
    print(f"receipts: {COUNT} tampered, {len(untouched)} of them in bytes that mean nothing; {counted[0]} by both verifiers")
    print(*(f"{' '.join(key)}: {count}" for key, count in sorted(told.items())), sep=", ")


main()
