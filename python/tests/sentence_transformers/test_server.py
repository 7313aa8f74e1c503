"""tools/embed/serve.py under load, on loopback: answers equal vectors computed alone, bit by bit."""

import http.client
import importlib.util
import json
import pathlib
import threading
from concurrent.futures import ThreadPoolExecutor

import embedding_models
import numpy as np
import pytest

from fovea.sentence_transformers import SentenceTransformer

FILE = pathlib.Path(__file__).parents[3] / "tools/embed/serve.py"


@pytest.fixture
def server():
    spec = importlib.util.spec_from_file_location("serve", FILE)
    serve = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(serve)
    server = serve.make_server(str(embedding_models.backbone("bert")), 0)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def test_load(server):
    model, texts = SentenceTransformer(str(embedding_models.backbone("bert"))), embedding_models.texts()
    alone = np.stack([model.encode(text) for text in texts])
    answers = [[] for _ in range(16)]

    def ask(client):
        connection = http.client.HTTPConnection(*server.server_address)
        for i in range(20):
            places = np.random.default_rng((client, i)).integers(len(texts), size=1 + i % 4)
            connection.request("POST", "/v1/embeddings", json.dumps({"input": [texts[p] for p in places]}))
            data = json.loads(connection.getresponse().read())["data"]
            answers[client].append(
                np.array([d["embedding"] for d in data], np.float32).tobytes() == alone[places].tobytes()
            )
        connection.close()

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(ask, range(16)))
    assert answers == [[True] * 20] * 16
    assert sum(server.sizes) == 320 and max(server.sizes) > 1  # batches have formed


def test_wrong_requests(server):
    for body, sentence in [
        (b"{", "JSON"),
        (b'{"x": 1}', "input"),
        (b'{"input": 5}', "no text"),
        (b'{"input": [5]}', "no text"),
        (b'{"input": ["\\ud800"]}', "surrogates not allowed"),
        (b"", "Length"),
    ]:
        connection = http.client.HTTPConnection(*server.server_address)
        connection.request("POST", "/", body)
        response = connection.getresponse()
        assert response.status == 400 and sentence in json.loads(response.read())["error"]["message"]
        connection.close()
