"""fovea.serve by the clients that people use: the bits of vectors computed alone; limits, errors, an idle process."""

import base64
import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

pytest.importorskip("aiohttp", reason="needs aiohttp and openai, which python/tools/venv.sh installs")
openai = pytest.importorskip("openai", reason="needs openai's client, which python/tools/venv.sh installs")

import embedding_models

from fovea.sentence_transformers import CrossEncoder, SentenceTransformer

CALLERS = 32
PATIENCE = 120  # seconds, after which a client gives up and a server that does not start or stop is killed


class Running:
    """A server, which ends with the block: with status 0, or killed if the block fails."""

    def __init__(self, folder, *options):
        self.folder = str(folder)
        command = [sys.executable, "-m", "fovea.serve", self.folder, "--port", "0", *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        timer = threading.Timer(PATIENCE, self.process.kill)
        timer.start()
        first = self.process.stdout.readline()
        timer.cancel()
        if " at http://" not in first:
            self.process.kill()
            pytest.fail(f"the server has not started: {first!r}, status {self.process.wait()}")
        self.url = first.split()[-1]
        self.place = self.url.removeprefix("http://")

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        try:
            if kind is None:
                assert self.stop() == 0
        finally:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection(self.place, timeout=PATIENCE)
        connection.request(method, path, body if body is None or isinstance(body, bytes) else json.dumps(body))
        response = connection.getresponse()
        text = response.read()
        connection.close()
        return response.status, json.loads(text) if text else None

    def post(self, path, **body):
        return self.ask("POST", path, body)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)


@pytest.fixture(scope="module")
def server():
    with Running(embedding_models.backbone("bert"), "--max-texts", "40", "--max-bytes", "60000") as running:
        yield running


@pytest.fixture(scope="module")
def alone():
    model, texts = SentenceTransformer(str(embedding_models.backbone("bert"))), embedding_models.texts()
    texts = [text for text in texts if model.preprocess([text])["input_ids"].shape[1] < model.max_seq_length]  # not cut
    return texts, np.stack([model.encode(text, normalize_embeddings=True) for text in texts])


def drawn(caller, i, count):
    return np.random.default_rng((caller, i)).integers(count, size=1 + i % 4)


def test_openai_client(server, alone):
    """Both of its formats, from 32 callers at once."""
    texts, vectors = alone
    client = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0, timeout=PATIENCE)

    def ask(caller):
        same = []
        for i in range(6):
            places = drawn(caller, i, len(texts))
            options = {"encoding_format": "float"} if i % 2 else {}  # by default the client asks for base64
            found = client.embeddings.create(model=server.folder, input=[texts[p] for p in places], **options)
            same.append(np.array([d.embedding for d in found.data], np.float32).tobytes() == vectors[places].tobytes())
            assert found.usage.prompt_tokens >= len(places)
        return same

    with ThreadPoolExecutor(CALLERS) as pool:
        assert list(pool.map(ask, range(CALLERS))) == [[True] * 6] * CALLERS
    facts = server.ask("GET", "/info")[1]
    assert facts["batches"] < facts["requests"] and facts["waiting_texts"] == 0  # batches have formed
    with pytest.raises(openai.NotFoundError, match="has the model .* alone"):
        client.embeddings.create(model="other", input="x")
    assert client.models.list().data[0].id == server.folder


def test_plain_http(server, alone):
    texts, vectors = alone

    def ask(caller):
        places = drawn(caller, caller, len(texts))
        status, found = server.post("/embed", inputs=[texts[p] for p in places])
        return status == 200 and np.array(found, np.float32).tobytes() == vectors[places].tobytes()

    with ThreadPoolExecutor(CALLERS) as pool:
        assert all(pool.map(ask, range(CALLERS)))
    raw = server.post("/embed", inputs=texts[0], normalize=False)[1]
    model = SentenceTransformer(server.folder)
    assert np.array(raw[0], np.float32).tobytes() == model.encode(texts[0]).tobytes()
    data = server.post("/v1/embeddings", input=texts[0], encoding_format="base64")[1]["data"]
    assert base64.b64decode(data[0]["embedding"]) == vectors[0].tobytes()
    assert server.ask("GET", "/health")[0] == 200


LONG = "word " * 5000


@pytest.mark.parametrize(
    ("path", "body", "status", "sentence"),
    [
        ("/v1/embeddings", b"{", 400, "no JSON"),
        ("/v1/embeddings", {"x": 1}, 400, "input must be a text or a list of texts"),
        ("/v1/embeddings", {"input": [5]}, 400, "numbers of tokens are not served"),
        ("/v1/embeddings", {"input": []}, 400, "list of texts"),
        ("/v1/embeddings", b'{"input": ["\\ud800"]}', 400, "surrogate"),
        ("/v1/embeddings", {"input": "x", "colour": 1}, 400, "colour: not served"),
        ("/v1/embeddings", {"input": "x", "encoding_format": "int8"}, 400, "neither float nor base64"),
        ("/v1/embeddings", {"input": "x", "dimensions": 3}, 400, "others need a model trained for them"),
        ("/v1/embeddings", {"input": "x", "dimensions": True}, 400, "wrong type"),
        ("/v1/embeddings", {"input": LONG}, 400, "tokens, of at most"),
        ("/v1/embeddings", {"input": ["x"] * 41}, 413, "41 texts, of at most 40"),
        ("/v1/embeddings", {"input": "x" * 70000}, 413, "60000 bytes"),
        ("/embed", b"[]", 422, "no JSON object"),
        ("/embed", {"inputs": LONG}, 413, "tokens, of at most"),
        ("/embed", {"inputs": ["x"] * 41}, 413, "41 texts"),
        ("/rerank", {"query": "x", "texts": ["y"]}, 424, "no reranker"),
    ],
)
def test_refused(server, path, body, status, sentence):
    found, told = server.ask("POST", path, body)
    assert found == status
    assert sentence in (told["error"]["message"] if path.startswith("/v1") else told["error"])


def test_truncated(server):
    status, cut = server.post("/embed", inputs=LONG, truncate=True)
    expected = SentenceTransformer(server.folder).encode(LONG, normalize_embeddings=True)
    assert status == 200 and np.array(cut[0], np.float32).tobytes() == expected.tobytes()


def test_overloaded(alone):
    """More than may wait: some are answered, with the right bits, the others told to come again."""
    texts = alone[0][:20]
    with Running(embedding_models.backbone("bert"), "--max-waiting", "2", "--matryoshka") as running:
        with ThreadPoolExecutor(CALLERS) as pool:
            answers = list(pool.map(lambda _: running.post("/embed", inputs=texts), range(CALLERS)))
        assert {status for status, _ in answers} == {200, 429}
        assert len({json.dumps(found) for status, found in answers if status == 200}) == 1
        told = next(found for status, found in answers if status == 429)
        assert told["error_type"] == "Overloaded" and "try again later" in told["error"]
        vector = running.post("/v1/embeddings", input="x", dimensions=5)[1]["data"][0]["embedding"]
        expected = SentenceTransformer(running.folder).encode("x", truncate_dim=5, normalize_embeddings=True)
        assert np.array(vector, np.float32).tobytes() == expected.tobytes()
        with ThreadPoolExecutor(1) as pool:  # what was asked before is answered
            last = pool.submit(running.post, "/embed", inputs=texts)
            while not last.done() and running.ask("GET", "/info")[1]["waiting_texts"] == 0:
                pass
            assert running.stop() == 0 and last.result()[0] == 200


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="reads what Linux counts")
def test_idle(server):
    def ticks():
        fields = open(f"/proc/{server.process.pid}/stat").read().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    server.post("/embed", inputs="x")
    time.sleep(0.5)  # threads of the call before go to sleep
    before = ticks()
    time.sleep(2)
    assert ticks() - before <= 1


def test_rerank(alone):
    folder = embedding_models.classifier("bert")
    model, texts = CrossEncoder(str(folder)), alone[0][:12]
    pairs = [(texts[0], text) for text in texts]
    with Running(folder) as running:
        found = running.post("/rerank", query=texts[0], texts=texts, return_text=True)[1]
        raw = running.post("/rerank", query=texts[0], texts=texts, raw_scores=True)[1]
        assert running.post("/embed", inputs="x")[0] == 424
    for answer, activation in ((found, "torch.nn.Sigmoid"), (raw, "torch.nn.Identity")):
        alone = np.array([model.predict(pair, activation_fn=activation) for pair in pairs], np.float32)
        assert [each["index"] for each in answer] == np.argsort(-alone, kind="stable").tolist()
        assert all(np.float32(each["score"]) == alone[each["index"]] for each in answer)
    assert all(each["text"] == texts[each["index"]] for each in found)
