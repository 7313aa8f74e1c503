"""python -m fovea.sentence_transformers MODEL TEXT...: prints the SHA-256 of each text's vector of float32, its length, first numbers."""

import hashlib
import sys

from . import SentenceTransformer


def main():
    if len(sys.argv) < 3 or sys.argv[1].startswith("-"):
        print(__doc__, file=sys.stderr)
        raise SystemExit(2)
    for text, vector in zip(sys.argv[2:], SentenceTransformer(sys.argv[1]).encode(sys.argv[2:]), strict=True):
        first = " ".join(f"{number:.4f}" for number in vector[:3])
        print(f"{hashlib.sha256(vector.tobytes()).hexdigest()} {len(vector)} {first} {text}")


if __name__ == "__main__":
    main()
