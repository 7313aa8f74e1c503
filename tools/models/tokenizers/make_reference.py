#!/usr/bin/env python3
"""Records what llama.cpp makes of the hostile texts (hostile.c), or compares it with what was recorded.

    test-tokenizers --write-texts FILE
    python3 make_reference.py FILE [VOCABULARY.gguf ...] > reference.txt
    python3 make_reference.py --check FILE [VOCABULARY.gguf ...]        needs gguf and llama-cpp-python

The small vocabularies (small.h) come first, then the files: llama.cpp's models/ggml-vocab-*.gguf, and SmolLM2. For each
two lines: its name, flags (0; 3: special tokens are parsed, BOS and EOS added), and a hash of the tokens of each 250
texts. --check ends with 1 if a line is not in reference.txt. Takes 15 minutes.
"""
import ctypes
import pathlib
import struct
import sys
import tempfile

import gguf
import llama_cpp

HERE = pathlib.Path(__file__).parent
BLOCK = 250
TOKENS_MOST = 1 << 19
CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<s>", "</s>"]
USER = ["<tool>", "\n\n\n", "\n\n", "<ab>>", "b>>>"]


def byte_characters():
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(256, 512))
    return [chr(byte if byte in printable else next(others)) for byte in range(256)]


def small_tokens(merges, pieces):
    """{token: type}, as small.c has them."""
    characters = byte_characters()
    tokens = {}
    if pieces:
        tokens = {"<unk>": 2, "<s>": 3, "</s>": 3, **{f"<0x{byte:02X}>": 6 for byte in range(256)}}
        spelt = ["\u2581", *map(chr, range(0x21, 0x7F))]
        for merge in merges:
            text = bytes(characters.index(c) for c in merge.replace(" ", "")).replace(b" ", "\u2581".encode())
            try:
                spelt.append(text.decode())
            except UnicodeDecodeError:
                pass
    else:
        spelt = [*characters, *(merge.replace(" ", "") for merge in merges)]
    special = {**dict.fromkeys(CONTROL, 3), "<unk>": 2, **dict.fromkeys(USER, 4)}
    for text, kind in [*((text, 1) for text in spelt), *special.items()]:
        tokens.setdefault(text, kind)
    return tokens


def write_small(name, path):
    merges = (HERE / "small.txt").read_text(encoding="utf-8").split("\n")[:-1]
    pieces = name == "llama"
    tokens = small_tokens(merges, pieces)
    ids = list(tokens)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("llama" if pieces else "gpt2")
    writer.add_tokenizer_pre("default" if pieces else name)
    writer.add_token_list(ids)
    writer.add_token_types(list(tokens.values()))
    if pieces:
        writer.add_token_scores([-float(i // 2) for i in range(len(ids))])
    else:
        writer.add_token_merges(merges)
    writer.add_bos_token_id(ids.index("<s>"))
    writer.add_eos_token_id(ids.index("</s>"))
    if name == "smollm":
        writer.add_add_bos_token(True)
    if pieces or name == "gpt-2":
        writer.add_add_eos_token(True)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def read_texts(path):
    data, at = pathlib.Path(path).read_bytes(), 0
    while at < len(data):
        (count,) = struct.unpack_from("<I", data, at)
        yield data[at + 4:at + 4 + count]
        at += 4 + count


def hashes(vocab, texts, flags):
    ids = (llama_cpp.llama_token * TOKENS_MOST)()
    value = 0
    for i, text in enumerate(texts):
        if i % BLOCK == 0:
            value = 0xCBF29CE484222325
        count = llama_cpp.llama_tokenize(vocab, text, len(text), ids, TOKENS_MOST, bool(flags & 2), bool(flags & 1))
        for x in [count, *ids[:count]]:
            value = (value ^ x) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
        if i % BLOCK == BLOCK - 1:
            yield f"{value:016x}"


def lines(name, path, texts):
    parameters = llama_cpp.llama_model_default_params()
    parameters.vocab_only = True
    model = llama_cpp.llama_model_load_from_file(str(path).encode(), parameters)
    if not model:
        raise SystemExit(f"make_reference.py: {path}: llama.cpp does not load it")
    for flags in (0, 3):
        yield " ".join([name, str(flags), *hashes(llama_cpp.llama_model_get_vocab(model), texts, flags)])
    llama_cpp.llama_model_free(model)


def name_of(path):
    return path.stem.removeprefix("ggml-vocab-").split("-Instruct")[0]


@llama_cpp.llama_log_callback
def quiet(*_):
    pass


def main():
    check = sys.argv[1:2] == ["--check"]
    arguments = sys.argv[1 + check:]
    if not arguments:
        raise SystemExit(__doc__)
    llama_cpp.llama_backend_init()
    llama_cpp.llama_log_set(quiet, ctypes.c_void_p(0))
    texts = list(read_texts(arguments[0]))
    known = set((HERE / "reference.txt").read_text(encoding="utf-8").split("\n")) if check else set()
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for name in ("smollm", "gpt-2", "qwen2", "qwen35", "llama-bpe", "llama"):
            files.append((f"small-{name}", pathlib.Path(folder) / f"{name}.gguf"))
            write_small(name, files[-1][1])
        for name, path in [*files, *((name_of(path), path) for path in map(pathlib.Path, arguments[1:]))]:
            for line in lines(name, path, texts):
                if not check:
                    print(line, flush=True)
                elif line not in known:
                    print(f"{name}: llama.cpp gives other tokens than reference.txt has")
                    wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(main())
