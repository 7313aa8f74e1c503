#!/usr/bin/env python3
"""serve.py MODEL [--port N]: vectors of texts over HTTP, by Python's standard library and fovea.

    curl -d '{"input": ["How tall is the caterpillar?"]}' http://127.0.0.1:8080/v1/embeddings

The answer has the form of OpenAI's. While a batch is computed, requests wait; all that wait are the next batch. A
text's vector has the same bits in each of them, and as JSON: the digits tell every float apart.
"""

import argparse
import json
import queue
import threading
from concurrent.futures import Future
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from fovea.sentence_transformers import SentenceTransformer

MOST_TEXTS, MOST_BYTES = 4096, 16 << 20  # of a batch; of a request


def encode_for_ever(model, waiting, sizes):
    """Batches form by themselves: of what has come since the last one began."""
    while True:
        jobs = [waiting.get()]
        while sum(len(texts) for texts, _ in jobs) < MOST_TEXTS and not waiting.empty():
            jobs.append(waiting.get())
        sizes.append(len(jobs))
        try:
            vectors = iter(model.encode([text for texts, _ in jobs for text in texts], batch_size=64).tolist())
            for texts, result in jobs:
                result.set_result([next(vectors) for _ in texts])
        except Exception as error:
            for _, result in jobs:
                result.set_exception(error)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        try:
            size = int(self.headers.get("Content-Length", 0))
            if not 0 < size <= MOST_BYTES:
                self.close_connection = True
                raise ValueError(f"Content-Length is {size}, not from 1 to {MOST_BYTES}")
            texts = json.loads(self.rfile.read(size))["input"]
            texts = [texts] if isinstance(texts, str) else texts
            if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
                raise ValueError("input is no text and no list of texts")
            "".join(texts).encode()  # half of a surrogate pair would fail a batch, and with it other requests
            self.server.waiting.put((texts, result := Future()))
            data = [{"object": "embedding", "index": i, "embedding": v} for i, v in enumerate(result.result())]
            self.answer(200, {"object": "list", "data": data})
        except (KeyError, TypeError, ValueError) as error:
            self.answer(400, {"error": {"message": f"{type(error).__name__}: {error}"}})

    def answer(self, status, body):
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def make_server(model, port):
    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.waiting, server.sizes = queue.Queue(), []
    arguments = SentenceTransformer(model), server.waiting, server.sizes
    threading.Thread(target=encode_for_ever, args=arguments, daemon=True).start()
    return server


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("model", help="a folder, or a name on the hub")
    parser.add_argument("--port", type=int, default=8080)
    make_server(**vars(parser.parse_args())).serve_forever()
