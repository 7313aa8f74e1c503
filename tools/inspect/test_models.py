#!/usr/bin/env python3
"""Writes small model files with known answers, for test.sh:  test_models.py FOLDER

alike.safetensors    LLaMA's names, 2 layers of 2 heads, d_model 8, d_k 2. Layer 0: W^Q = W^K = W^V; layer 1: column spaces
                     orthogonal to each other.
zeros.safetensors    the same names, W^V all zero
minilm/              an encoder of BERT's names, 2 layers of 12 heads, which look at all tokens alike, as their queries are zero;
                     but head 11 of layer 1 looks at "who" alone; and its vocab.txt
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "models"))
import model_files  # noqa: E402


def write(path, arrays):
    """arrays: name -> (shape, numbers)"""
    path.write_bytes(model_files.safetensors({name: (shape, model_files.floats(x)) for name, (shape, x) in arrays.items()}))


def unit_rows(first):
    """[4, 8]: two heads of two channels; channel c reads input first + c % 2."""
    return [float(column == first + row % 2) for row in range(4) for column in range(8)]


def llama(rows):
    return {f"model.layers.{layer}.self_attn.{part}_proj.weight": ([4, 8], numbers)
            for layer, parts in enumerate(rows) for part, numbers in zip("qkv", parts)}


def encoder(words):
    width, inner = 24, 8
    arrays = {"embeddings.word_embeddings.weight": ([len(words), width], [0.1] * (len(words) * width)),
              "embeddings.position_embeddings.weight": ([300, width], [0.0] * (300 * width)),
              "embeddings.token_type_embeddings.weight": ([2, width], [0.0] * (2 * width))}

    def linear(name, out, fan_in):
        arrays[name + ".weight"] = ([out, fan_in], [0.0] * (out * fan_in))
        arrays[name + ".bias"] = ([out], [0.0] * out)

    def norm(name):
        arrays[name + ".weight"] = ([width], [1.0] * width)
        arrays[name + ".bias"] = ([width], [0.5] * width)

    norm("embeddings.LayerNorm")
    for layer in range(2):
        at = f"encoder.layer.{layer}."
        for name in ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"):
            linear(at + name, width, width)
        norm(at + "attention.output.LayerNorm")
        linear(at + "intermediate.dense", inner, width)
        linear(at + "output.dense", width, inner)
        norm(at + "output.LayerNorm")
    # Only the vector of "who" has a channel 0 of its own, which only that head's keys read.
    arrays["embeddings.word_embeddings.weight"][1][words.index("who") * width] = 1.0
    arrays["encoder.layer.1.attention.self.key.weight"][1][22 * width] = 100.0
    arrays["encoder.layer.1.attention.self.query.bias"][1][22] = 100.0
    return arrays


def main():
    folder = pathlib.Path(sys.argv[1])
    a, b, c = unit_rows(0), unit_rows(2), unit_rows(4)
    write(folder / "alike.safetensors", llama([(a, a, a), (a, b, c)]))
    write(folder / "zeros.safetensors", llama([(a, b, [0.0] * 32)]))
    (folder / "minilm").mkdir()
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "who", "<", "&"]
    write(folder / "minilm" / "model.safetensors", encoder(words))
    (folder / "minilm" / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
