"""A model server on loopback that speaks OpenAI's JSON as different servers do, and fails on order.

A real (tiny) model writes the text, so what a client says of it can be checked against the model.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fastapi import FastAPI, Request, Response

from searchgym.llms.base import Completion, GenRequest, Message, Sampling
from searchgym.llms.transformers_generator import TransformersGenerator
from tests.llms import tiny

KNOWN = {"model", "prompt", "messages", "max_tokens", "temperature", "top_p", "seed", "stop"}
LOGP = {"logprobs", "top_logprobs"}
VLLM = {"top_k", "include_stop_str_in_output", "return_token_ids", "prompt_logprobs"}


class Server:
    """``kind``: "full" does everything (vLLM's dialect); "hosted" refuses fields outside OpenAI's,
    cuts stop strings off and gives log-probabilities; "bare" ignores all but the plainest fields,
    temperature too; "tempered" gives log-probabilities after temperature; "chat" has one endpoint.
    """

    def __init__(self, kind: str = "full") -> None:
        words = tiny.tokenizer()
        self.kind = kind
        self.generator = TransformersGenerator(tiny.model("qwen2", len(words)), words)
        self.faults: list[Any] = []
        """What the next calls get instead: a status, (status, headers), a float (seconds of
        silence), a body sent as it is, or a whole response. Faults are consumed, answers follow."""
        self.bodies: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.times: list[float] = []
        self.at_once = self.most_at_once = 0
        self.delay = 0.0
        self._draw = 0

    def app(self) -> Any:
        app = FastAPI()

        @app.get("/v1/models")
        async def models() -> Any:
            return {"object": "list", "data": [{"id": "tiny", "object": "model"}]}

        async def answer(request: Request, endpoint: str) -> Any:
            body = await request.json()
            self.bodies.append(body)
            self.keys.append(request.headers.get("authorization"))
            self.times.append(time.monotonic())
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            try:
                await asyncio.sleep(self.delay)
                if self.faults:
                    fault = self.faults.pop(0)
                    if isinstance(fault, float):
                        await asyncio.sleep(fault)
                    elif isinstance(fault, tuple):
                        return Response("busy", fault[0], headers=fault[1])
                    elif isinstance(fault, Response):
                        return fault
                    elif isinstance(fault, int):
                        return Response(f"fault {fault}, key {self.keys[-1]}", fault)
                    else:
                        return Response(fault, media_type="application/json")
                return self.respond(body, endpoint)
            finally:
                self.at_once -= 1

        if self.kind != "chat":

            @app.post("/v1/completions")
            async def completions(request: Request) -> Any:
                return await answer(request, "completions")

        @app.post("/v1/chat/completions")
        async def chat(request: Request) -> Any:
            return await answer(request, "chat")

        return app

    def respond(self, body: dict[str, Any], endpoint: str) -> Any:
        fields = set(body)
        if self.kind == "hosted" and (strange := fields - KNOWN - LOGP):
            return Response(f"unknown fields {sorted(strange)}", 400)
        if body.get("model") != "tiny":
            return Response('{"error": "model not found"}', 404)
        full = self.kind in ("full", "tempered")
        heat = 0.0 if self.kind == "bare" else float(body.get("temperature", 1.0))
        self._draw += 1
        stops = body.get("stop") or []
        sampling = Sampling(
            body["max_tokens"],
            heat,
            body.get("top_p", 1.0),
            max(0, body.get("top_k", 0)) if full else 0,
            tuple(stops) if self.kind != "bare" else (),
        )
        prompt = body.get("prompt")
        if endpoint == "chat":
            prompt = tuple(Message(m["role"], m["content"]) for m in body["messages"])
        elif isinstance(prompt, list):
            prompt = tuple(prompt)
        seed = body.get("seed") if full else None
        request = GenRequest(prompt, sampling, self._draw if seed is None else seed)  # type: ignore[arg-type]
        ids = self.generator.encode(request)
        (got,) = self.generator.run([request])
        if not isinstance(got, Completion) and self.kind == "full" and len(ids) < 512:
            room = 512 - len(ids)  # as vLLM's: fewer tokens than asked, without a word
            short = request._replace(sampling=sampling._replace(max_tokens=room))
            (got,) = self.generator.run([short])
        if not isinstance(got, Completion):
            return Response(got.message, 400)
        text = got.text
        keep = full and body.get("include_stop_str_in_output")
        if got.finish == "stop" and not keep:
            end = min(text.index(s) for s in stops if s in text)
            text = text[:end]
        choice: dict[str, Any] = {"index": 0}
        choice["finish_reason"] = "length" if got.finish == "length" else "stop"
        if endpoint == "chat":
            choice["message"] = {"role": "assistant", "content": text}
        else:
            choice["text"] = text
        if self.kind != "bare" and body.get("logprobs"):
            choice["logprobs"] = self.logprobs(ids, got, endpoint, heat)
        if full and body.get("return_token_ids"):
            choice["token_ids"] = list(got.ids or ())
            choice["prompt_token_ids"] = list(ids)
        if full and body.get("prompt_logprobs") is not None:
            (scores,) = self.generator.score([(ids[:1], ids[1:])])
            choice["prompt_logprobs"] = [
                None,
                *({str(i): {"logprob": float(x)}} for i, x in zip(ids[1:], scores, strict=True)),  # type: ignore[arg-type]
            ]
        usage = {"completion_tokens": len(got.ids or ())}
        return {"id": "x", "model": "tiny", "choices": [choice], "usage": usage}

    def logprobs(self, prompt: Any, got: Completion, endpoint: str, heat: float) -> Any:
        import torch

        with torch.no_grad():
            logits = self.generator.model(torch.tensor([[*prompt, *(got.ids or ())]])).logits[0]
        if self.kind == "tempered" and heat > 0:
            logits = logits / heat
        table = logits.log_softmax(-1)[len(prompt) - 1 : -1]
        tokens = [self.generator.codec.decode([i]) for i in got.ids or ()]
        logp = [float(row[i]) for row, i in zip(table, got.ids or (), strict=True)]
        best = [float(row.max()) for row in table]
        names = [self.generator.codec.decode([int(row.argmax())]) for row in table]
        if endpoint == "chat":
            return {
                "content": [
                    {"token": t, "logprob": x, "top_logprobs": [{"token": n, "logprob": b}]}
                    for t, x, n, b in zip(tokens, logp, names, best, strict=True)
                ]
            }
        return {
            "tokens": tokens,
            "token_logprobs": logp,
            "top_logprobs": [{n: b} for n, b in zip(names, best, strict=True)],
        }


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


@contextmanager
def running(server: Server) -> Iterator[str]:
    """Its base URL while it runs."""
    import uvicorn

    port = free_port()
    config = uvicorn.Config(server.app(), host="127.0.0.1", port=port, log_level="error")
    uv = uvicorn.Server(config)
    thread = threading.Thread(target=uv.run, daemon=True)
    thread.start()
    end = time.monotonic() + 20
    while not uv.started:
        assert time.monotonic() < end, "the server did not start"
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        uv.should_exit = True
        thread.join(10)
