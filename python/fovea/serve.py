"""python -m fovea.serve MODEL: vectors and scores of texts over HTTP, each with the bits that it has alone.

    POST /v1/embeddings   as OpenAI's API has it
    POST /embed, /rerank  as Hugging Face's text-embeddings-inference (TEI) has them
    GET  /health, /info, /v1/models

Requests wait while a batch is computed; all that wait are the next batch, which encode() sorts by length. One thread computes.
Nothing polls: an idle server takes no CPU. docs/serving.md has the limits and errors."""

import argparse
import asyncio
import base64
import json
import signal
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

try:
    from aiohttp import web
except ImportError:
    raise ImportError("fovea.serve needs aiohttp: pip install aiohttp") from None

from fovea import BITS_VERSION, __version__
from fovea.sentence_transformers import CrossEncoder, SentenceTransformer


@dataclass
class Limits:
    texts: int = 1024  # of a request
    body: int = 4 << 20  # bytes of a request
    waiting: int = 8192  # texts that wait or are computed
    batch: int = 1024  # texts of a batch, unless one request has more
    timeout: float = 60  # seconds of a request, from its first byte


class Refused(Exception):
    """A request that is answered with an error: the status of OpenAI's errors, TEI's kind of error, a sentence."""

    def __init__(self, status: int, kind: str, sentence: str):
        super().__init__(sentence)
        self.status, self.kind, self.sentence = status, kind, sentence


def wrong(sentence: str) -> Refused:
    return Refused(400, "Tokenizer", sentence)


# TEI's statuses, by its kinds of errors.
TEI = {"Validation": 413, "Tokenizer": 422, "Overloaded": 429, "Backend": 424}


@dataclass(eq=False)
class Job:
    inputs: list[Any]
    options: tuple[Any, ...]
    result: "asyncio.Future[Any]" = field(repr=False)


class Batches:
    """Jobs that wait, and the thread that computes them."""

    def __init__(self, compute: Callable[..., Any], limits: Limits):
        self.compute, self.limits = compute, limits
        self.waiting: deque[Job] = deque()
        self.held, self.sizes = 0, [0, 0]  # texts now; batches and jobs so far
        self.some = asyncio.Event()
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="fovea-serve")

    async def put(self, inputs: list[Any], *options: Any) -> Any:
        """The results of inputs, with these options of compute()."""
        if self.held and self.held + len(inputs) > self.limits.waiting:
            sentence = f"{self.held} texts wait, of at most {self.limits.waiting}: try again later"
            raise Refused(429, "Overloaded", sentence)
        job = Job(inputs, options, asyncio.get_running_loop().create_future())
        self.held += len(inputs)
        self.waiting.append(job)
        self.some.set()
        try:
            return await job.result
        finally:
            self.held -= len(inputs)

    async def run(self) -> None:
        while True:
            await self.some.wait()
            jobs: list[Job] = []
            texts = 0
            while self.waiting and (not jobs or texts + len(self.waiting[0].inputs) <= self.limits.batch):
                job = self.waiting.popleft()
                if not job.result.done():  # its client went, or its time is up
                    jobs.append(job)
                    texts += len(job.inputs)
            if not self.waiting:
                self.some.clear()
            for options in {job.options: None for job in jobs}:
                await self.batch([job for job in jobs if job.options == options], options)

    async def batch(self, jobs: list[Job], options: tuple[Any, ...]) -> None:
        self.sizes[0] += 1
        self.sizes[1] += len(jobs)
        inputs = [each for job in jobs for each in job.inputs]
        try:
            found = await asyncio.get_running_loop().run_in_executor(self.thread, self.compute, inputs, *options)
        except Exception as error:
            found = Refused(500, "Backend", f"{type(error).__name__}: {error}")
        at = 0
        for job in jobs:
            if not job.result.done():
                if isinstance(found, Refused):
                    job.result.set_exception(found)
                else:
                    job.result.set_result(found[at : at + len(job.inputs)])
            at += len(job.inputs)


def value(body: dict[str, Any], name: str, kinds: Any, default: Any) -> Any:
    found = body.pop(name, None)
    if found is None:
        return default
    if not isinstance(found, kinds) or (isinstance(found, bool) and kinds is not bool):
        raise wrong(f"{name} has the wrong type: {json.dumps(found)[:60]}")
    return found


class Server:
    def __init__(self, name: str, limits: Limits, matryoshka: bool = False):
        self.name, self.limits, self.matryoshka = name, limits, matryoshka
        self.model: Any
        try:
            self.model = CrossEncoder(name)
        except (NotImplementedError, ValueError):
            self.model = SentenceTransformer(name)
        self.ranks = isinstance(self.model, CrossEncoder)
        self.width = None if self.ranks else self.model.get_embedding_dimension()

    def compute(self, inputs: list[Any], *options: Any) -> Any:
        if self.ranks:
            return self.model.predict(inputs, show_progress_bar=False, activation_fn="torch.nn." + options[0])
        normalize, width = options
        return self.model.encode(inputs, show_progress_bar=False, normalize_embeddings=normalize, truncate_dim=width)

    # ------------------------------------------------------------------------------------------------------- requests

    async def count(self, inputs: list[Any], truncate: bool) -> int:
        """Tokens of inputs, as many as are computed."""
        limit = self.model.max_seq_length

        def lengths() -> list[int]:
            return [len(ids) for ids, _ in self.model._transformer.tokens.encode(inputs, None)]

        found = await asyncio.to_thread(lengths)
        if limit is not None and not truncate and max(found) > limit:
            longest = max(found)
            sentence = f"input {found.index(longest)} has {longest} tokens, of at most {limit}"
            raise Refused(400, "Validation", sentence)
        return sum(min(n, limit or n) for n in found)

    def checked(self, given: Any, name: str) -> list[str]:
        texts = [given] if isinstance(given, str) else given
        if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
            raise wrong(f"{name} must be a text or a list of texts; numbers of tokens are not served")
        if len(texts) > self.limits.texts:
            raise Refused(413, "Validation", f"{name} has {len(texts)} texts, of at most {self.limits.texts}")
        try:
            "".join(texts).encode()
        except UnicodeEncodeError:
            raise wrong(f"{name} has half of a surrogate pair, which no encoding has") from None
        return texts

    def vectors_only(self) -> None:
        if self.ranks:
            raise Refused(400, "Backend", f"{self.name} is a reranker: it gives scores of pairs, at /rerank")

    def channels(self, body: dict[str, Any]) -> int | None:
        width = value(body, "dimensions", int, self.width)
        if width != self.width and not (self.matryoshka and 0 < width <= self.width):
            other = f"{self.width}; others need a model trained for them, and --matryoshka"
            how = f"from 1 to {self.width}" if self.matryoshka else other
            raise wrong(f"dimensions is {width}; this server gives {how}")
        return None if width == self.width else width

    @staticmethod
    def rest(body: dict[str, Any]) -> None:
        if body:
            raise wrong(f"{', '.join(sorted(body))}: not served")

    async def openai(self, batches: Batches, body: dict[str, Any]) -> Any:
        self.vectors_only()
        texts = self.checked(body.pop("input", None), "input")
        if value(body, "model", str, self.name) != self.name:
            raise Refused(404, "Validation", f"this server has the model {self.name} alone")
        form = value(body, "encoding_format", str, "float")
        if form not in ("float", "base64"):
            raise wrong(f"encoding_format is {form!r}, neither float nor base64")
        width = self.channels(body)
        body.pop("user", None)
        self.rest(body)
        tokens = await self.count(texts, False)
        vectors = await batches.put(texts, True, width)
        packed = lambda v: base64.b64encode(v.astype("<f4").tobytes()).decode()  # noqa: E731
        shown = [packed(v) if form == "base64" else v.tolist() for v in vectors]
        data = [{"object": "embedding", "index": i, "embedding": v} for i, v in enumerate(shown)]
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return {"object": "list", "model": self.name, "data": data, "usage": usage}

    async def embed(self, batches: Batches, body: dict[str, Any]) -> Any:
        self.vectors_only()
        texts = self.checked(body.pop("inputs", None), "inputs")
        normalize, truncate = value(body, "normalize", bool, True), value(body, "truncate", bool, False)
        width = self.channels(body)
        self.rest(body)
        await self.count(texts, truncate)
        return [v.tolist() for v in await batches.put(texts, normalize, width)]

    async def rerank(self, batches: Batches, body: dict[str, Any]) -> Any:
        if not self.ranks or self.model.num_labels != 1:
            raise Refused(400, "Backend", f"{self.name} is no reranker, a model with one score for a pair of texts")
        query = value(body, "query", str, None)
        if query is None:
            raise wrong("query must be a text")
        self.checked(query, "query")
        texts = self.checked(body.pop("texts", None), "texts")
        raw, shown = value(body, "raw_scores", bool, False), value(body, "return_text", bool, False)
        truncate = value(body, "truncate", bool, False)
        self.rest(body)
        pairs = [(query, text) for text in texts]
        await self.count(pairs, truncate)
        scores = (await batches.put(pairs, "Identity" if raw else "Sigmoid")).reshape(-1)
        order = np.argsort(-scores, kind="stable").tolist()
        return [{"index": i, "score": float(scores[i])} | ({"text": texts[i]} if shown else {}) for i in order]

    # ----------------------------------------------------------------------------------------------------------- HTTP

    def answering(self, handle: Callable[..., Any], openai: bool) -> Callable[..., Any]:
        """A handler of POST: reads, waits, answers with the errors of that API."""

        async def answer(request: web.Request) -> web.Response:
            try:
                async with asyncio.timeout(self.limits.timeout):
                    try:
                        body = json.loads(await request.read())
                    except web.HTTPRequestEntityTooLarge:
                        raise Refused(413, "Validation", f"a request has at most {self.limits.body} bytes") from None
                    except (ValueError, RecursionError) as parsing:
                        raise wrong(f"the body is no JSON: {parsing}") from None
                    if not isinstance(body, dict):
                        raise wrong("the body is no JSON object")
                    return web.json_response(await handle(request.app["batches"], body))
            except TimeoutError:
                error = Refused(503, "Overloaded", f"not done in {self.limits.timeout:g} seconds: try again later")
            except Refused as refused:
                error = refused
            if not openai:
                shape: Any = {"error": error.sentence, "error_type": error.kind}
                return web.json_response(shape, status=TEI[error.kind])
            kind = "invalid_request_error" if error.status < 500 and error.status != 429 else "server_error"
            shape = {"error": {"message": error.sentence, "type": kind, "param": None, "code": None}}
            return web.json_response(shape, status=error.status)

        return answer

    async def info(self, request: web.Request) -> web.Response:
        batches, sort = request.app["batches"], "reranker" if self.ranks else "embedding"
        facts = {"model_id": self.name, "model_type": {sort: {}}, "max_input_length": self.model.max_seq_length}
        limits = {"max_client_batch_size": self.limits.texts, "max_waiting_texts": self.limits.waiting}
        now = {"waiting_texts": batches.held, "batches": batches.sizes[0], "requests": batches.sizes[1]}
        return web.json_response(facts | limits | now | {"version": __version__, "bits": BITS_VERSION})

    async def health(self, request: web.Request) -> web.Response:
        return web.Response(status=503 if request.app["runs"].done() else 200)

    async def models(self, request: web.Request) -> web.Response:
        data = [{"id": self.name, "object": "model", "created": 0, "owned_by": "fovea"}]
        return web.json_response({"object": "list", "data": data})

    def app(self) -> web.Application:
        app = web.Application(client_max_size=self.limits.body)
        app.router.add_post("/v1/embeddings", self.answering(self.openai, True))
        app.router.add_post("/embed", self.answering(self.embed, False))
        app.router.add_post("/rerank", self.answering(self.rerank, False))
        for path, handle in (("/health", self.health), ("/info", self.info), ("/v1/models", self.models)):
            app.router.add_get(path, handle)

        async def batches(app: web.Application) -> Any:
            app["batches"] = Batches(self.compute, self.limits)
            app["runs"] = asyncio.create_task(app["batches"].run())
            yield
            app["runs"].cancel()
            app["batches"].thread.shutdown()

        app.cleanup_ctx.append(batches)
        return app


def main() -> None:
    limits = Limits()
    parser = argparse.ArgumentParser(prog="python -m fovea.serve", description="Vectors and scores of texts over HTTP.")
    option = parser.add_argument
    option("model", help="a folder, or a name on the hub: an encoder of sentence-transformers, or a reranker")
    option("--host", default="127.0.0.1", help="default 127.0.0.1; asks for no key: others need a proxy")
    option("--port", type=int, default=8080, help="default 8080; 0: any, which the first line tells")
    option("--max-texts", type=int, default=limits.texts, help="of a request; default %(default)s")
    option("--max-bytes", type=int, default=limits.body, help="of a request; default %(default)s")
    option("--max-waiting", type=int, default=limits.waiting, help="texts of all requests; default %(default)s")
    option("--timeout", type=float, default=limits.timeout, help="seconds of a request; default %(default)s")
    option("--matryoshka", action="store_true", help="the model was trained for fewer dimensions: serve them")
    args = parser.parse_args()
    given = Limits(args.max_texts, args.max_bytes, args.max_waiting, timeout=args.timeout)
    server = Server(args.model, given, args.matryoshka)

    async def serve() -> None:
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        runner = web.AppRunner(server.app(), handler_cancellation=True, shutdown_timeout=args.timeout)
        await runner.setup()
        site = web.TCPSite(runner, args.host, args.port)
        await site.start()
        host, port = runner.addresses[0][:2]
        print(f"fovea {__version__}, bits {BITS_VERSION}: {args.model} at http://{host}:{port}", flush=True)
        await stop.wait()
        await runner.cleanup()  # answers those that wait

    asyncio.run(serve())


if __name__ == "__main__":
    main()
