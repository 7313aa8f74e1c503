"""Shared by tests of receipts: receipts that somebody tampered with, and the seal that only an honest writer's has."""

import hashlib
import json
import os
import re


def count(words):
    """How many are tampered with: what the words of a command say, 40, or 4,000 where all cases run (make test-all)."""
    return int(words[0]) if words else 4000 if float(os.environ.get("FOVEA_TEST_SCALE", 0)) >= 1 else 40


def seal(receipt):
    """As docs/receipts.md says."""
    rest = {key: value for key, value in receipt.items() if key not in ("sha256", "texts")}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    receipt["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    return receipt


def leaves(value, path=()):
    """The paths of all values."""
    if isinstance(value, (dict, list)):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from leaves(value[key], (*path, key))
    else:
        yield path


def other(value, chance):
    """A value of the same kind that differs."""
    if value is None:
        return 0
    if isinstance(value, int):
        return value + chance.choice([-1, 1, 7])
    if re.fullmatch("[0-9a-f]{16}|[0-9a-f]{64}", value):
        at = chance.randrange(len(value))
        return value[:at] + chance.choice([c for c in "0123456789abcdef" if c != value[at]]) + value[at + 1 :]
    made = [value + "1", "f32" if value != "f32" else "bf16", "0.5" if value != "0.5" else "2", "none", ""]
    return chance.choice([one for one in made if one != value])


def changed_leaf(receipt, chance, paths=None):
    """The receipt with another value somewhere."""
    made = json.loads(json.dumps(receipt))
    *path, last = chance.choice(paths or list(leaves(made)))
    place = made
    for key in path:
        place = place[key]
    place[last] = other(place[last], chance)
    return made


def changed_bytes(text, chance):
    """The bytes of the file, cut off or with others somewhere; None: it says the same still."""
    at = chance.randrange(len(text))
    new = text[:at] + chance.choice("0123456789abcdef\"{}[],") * chance.randrange(2) + text[at + chance.randrange(1, 3) :]
    new = new if chance.random() < 0.8 else text[:at]
    try:
        return None if json.loads(new) == json.loads(text) else new
    except ValueError:
        return new


def hostile(text):
    """Writes files that are no receipts, some like the receipt of that text, and gives their names; each is to be refused in a sentence."""
    made = text.encode()
    for name, data in {
        "empty": b"", "zeros": bytes(100), "zero": made.replace(b'"by": "', b'"by": "\0'), "byte": made.replace(b'"by": "', b'"by": "\xe9'),
        "deep": b"[" * 200000, "deeper": b'{"format":' * 100000, "twice": made.replace(b"{", b'{"bits": 1, ', 1), "behind": made + b"x",
        "large": made.replace(b'"bits": 1', b'"bits": 9007199254740993'), "huge": made.replace(b'"bits": 1', b'"bits": ' + b"9" * 5000),
        "real": made.replace(b'"bits": 1', b'"bits": 1.0'), "unknown": made.replace(b'"bits": 1', b'"bits": 1, "new": 1'),
        "nan": made.replace(b'"bits": 1', b'"bits": NaN'), "sparse": b"",
    }.items():  # fmt: skip
        assert data != made
        with open(name, "wb") as file:
            file.write(data)
            if name == "sparse":
                file.truncate(1 << 30)
        yield name
        os.remove(name)
    yield "nowhere"
    yield "."


def changed_bit(data, chance):
    """(bytes with another bit, where)"""
    at = chance.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :], at
