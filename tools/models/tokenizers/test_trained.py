"""Tokens of 5,000 hostile texts, compared with PyPI's tokenizers and sentencepiece, on vocabularies that this trains.

    python3 test_trained.py TEST-TOKENIZERS-IDS FOLDER TEXT

Needs tokenizers and sentencepiece; ends with 77 where they are missing. WordPiece of BERT (uncased and cased) and in MPNet's frame;
Unigram as XLM-R has it, with SentencePiece's table of characters, in both ways to find words."""

import json
import pathlib
import random
import subprocess
import sys

try:
    import sentencepiece
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
except ImportError as error:
    print(f"SKIPPED: {error}")
    sys.exit(77)

program, folder, source = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
draw = random.Random(7)
NONE, FIRST, BOTH = "0", "1", "2"
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
RANGES = [(0x20, 0x7F), (0xA0, 0x250), (0x300, 0x370), (0x370, 0x530), (0x590, 0x700), (0x900, 0xA00), (0xE00, 0xE80),
          (0x1E00, 0x2070), (0x20A0, 0x2200), (0x2580, 0x2600), (0x3000, 0x3100), (0x3300, 0x3500), (0x4E00, 0x4F00), (0xAC00, 0xAD00),
          (0xF900, 0xFB50), (0xFE00, 0xFFEF), (0x1D400, 0x1D500), (0x1F300, 0x1F650)]
ODD = ["\t", "\n", "\r\n", " ", "  ", "   ", "\u2581", "\u00a0", "\u3000", "\u200b", "\u200d", "\ufeff", "\u00ad", "\0", "\x7f", "\x01",
       "e\u0301", "A\u030a", "\u1100\u1161", "\u0e33", "\ufb01", "\u0130", "\u00df", "##", "[UNK]x", "a" * 120,
       "\U0001f468\u200d\U0001f469", "\ufffd", "'", "\u2026", "½", "ﷺ"]
ODD += "\v\f\u0085\u1680\u2000\u200a\u2028\u2029\u202f\u205f"  # the other white space


def hostile(words):
    kind = draw.randrange(4)
    parts = []
    for _ in range(draw.choice((0, 1, 2, 5, 12, 40))):
        if kind == 0 or draw.random() < 0.4:
            parts.append(draw.choice(words))
        elif draw.random() < 0.4:
            parts.append(draw.choice(ODD))
        else:
            low, high = draw.choice(RANGES)
            parts.append("".join(chr(draw.randrange(low, high)) for _ in range(draw.randint(1, 4))))
        if draw.random() < 0.5:
            parts.append(" ")
    return "".join(parts)


def ids_of(place, frame, texts):
    lines = "".join(json.dumps(t) + "\n" for t in texts)
    run = subprocess.run([program, place, frame], input=lines, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return [[int(i) for i in line.split()] for line in run.stdout.split("\n")[: len(texts)]]


def compare(name, place, frame, want, texts):
    wrong = [(t, w, g) for t, w, g in zip(texts, want, ids_of(place, frame, texts)) if w != g]
    print(f"{name}: {len(texts) - len(wrong)} of {len(texts)} texts have the same tokens")
    for text, wanted, got in wrong[:5]:
        print("  ", ascii(text)[:300], "\n     wanted", wanted[:40], "\n     got   ", got[:40])
    return len(wrong)


lines = source.read_text().splitlines()
words = [w for line in lines for w in line.split()]
texts = [hostile(words) for _ in range(5000)]
failures = 0


def place_of(name):
    place = folder / name
    place.mkdir(parents=True, exist_ok=True)
    return place


# WordPiece
for name, lower, frame, ends in (("uncased", True, NONE, ("[CLS]", "[SEP]")), ("cased", False, NONE, ("[CLS]", "[SEP]")),
                                 ("mpnet", True, BOTH, ("<s>", "</s>"))):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer(lowercase=lower)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.train_from_iterator(lines, trainers.WordPieceTrainer(vocab_size=1500, show_progress=False, special_tokens=["[PAD]", "[UNK]", *ends]))
    t.post_processor = processors.TemplateProcessing(f"{ends[0]} $A {ends[1]}", special_tokens=[(e, t.token_to_id(e)) for e in ends])
    stored = json.loads(t.to_str())
    t = Tokenizer.from_str(json.dumps(stored | {"added_tokens": []}))  # a text's "[UNK]" is text
    t.save(str(place_of(name) / "tokenizer.json"))
    failures += compare(f"WordPiece, {name}", place_of(name), frame, [e.ids for e in t.encode_batch(texts)], texts)

# Unigram
place = place_of("spm")
sentencepiece.SentencePieceTrainer.train(input=str(source), model_prefix=str(place / "m"), vocab_size=800, model_type="unigram",
                                         character_coverage=0.9995, minloglevel=2)
model = (place / "m.model").read_bytes()
spm = sentencepiece.SentencePieceProcessor(model_file=str(place / "m.model"))


def fields(data):
    """Protocol buffers: (number, bytes or integer)."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        else:
            size = varint() if key & 7 == 2 else 4 if key & 7 == 5 else 8
            yield key >> 3, data[at : at + size]
            at += size


charsmap = next(v for n, v in fields(next(v for n, v in fields(model) if n == 3)) if n == 2)
vocab = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)] + [
    (spm.id_to_piece(i), spm.get_score(i)) for i in range(spm.get_piece_size()) if not spm.is_control(i) and not spm.is_unknown(i)]
collapse = normalizers.Replace(Regex(" {2,}"), " ")
for name, normalizer, pre in (
    ("xlm-r", normalizers.Precompiled(charsmap),
     pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])),
    ("spaces", normalizers.Sequence([normalizers.Precompiled(charsmap), normalizers.Strip(left=True, right=True), collapse]),
     pre_tokenizers.Metaspace()),
    ("plain", normalizers.Strip(left=False, right=True), pre_tokenizers.Metaspace()),
):
    t = Tokenizer(models.Unigram(vocab, unk_id=3))
    t.normalizer, t.pre_tokenizer = normalizer, pre
    t.post_processor = processors.TemplateProcessing("<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    t.save(str(place_of(name) / "tokenizer.json"))
    failures += compare(f"Unigram, {name}", place_of(name), BOTH, [e.ids for e in t.encode_batch(texts)], texts)
    if name == "spaces":  # without marks that tokenizers and sentencepiece read differently: graphemes, U+2581
        plain = [" ".join(draw.choices(words, k=draw.randint(0, 30))) for _ in range(5000)]
        shift = {spm.piece_to_id(p): i for i, (p, _) in enumerate(vocab)} | {spm.unk_id(): 3}
        failures += compare("sentencepiece", place_of(name), BOTH, [[0, *(shift[i] for i in ids), 2] for ids in spm.encode(plain)], plain)
sys.exit(1 if failures else 0)
