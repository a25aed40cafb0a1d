"""An OpenAI-compatible server on loopback whose model searches the question and then answers as a
table says."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ANSWERS: dict[str, str] = {}


def written(messages: list[dict[str, Any]]) -> str:
    """The turn that follows the messages."""
    users = [str(m["content"]) for m in messages if m["role"] == "user"]
    question = next(q for q in ANSWERS if q in users[0])
    if len(users) == 1:
        return f"<search>{question}</search>"
    return f"<answer>{ANSWERS[question]}</answer>"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        text = written(body["messages"])
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        head = {"id": "x", "created": 0, "model": body.get("model", "m")}
        if body.get("stream"):
            delta = {"index": 0, "delta": {"role": "assistant", "content": text}}
            chunks = [
                {**head, "object": "chat.completion.chunk",
                 "choices": [{**delta, "finish_reason": None}]},
                {**head, "object": "chat.completion.chunk", "usage": usage,
                 "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
            ]  # fmt: skip
            data = "".join(f"data: {json.dumps(c)}\n\n" for c in chunks) + "data: [DONE]\n\n"
            self.answer(data, "text/event-stream")
            return
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        whole = {**head, "object": "chat.completion", "choices": [choice], "usage": usage}
        self.answer(json.dumps(whole), "application/json")

    def answer(self, text: str, kind: str) -> None:
        data = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        pass


class Patient(ThreadingHTTPServer):
    request_queue_size = 256  # many rollouts begin at once


def server(answers: dict[str, str], port: int = 0) -> ThreadingHTTPServer:
    """A server that answers so."""
    ANSWERS.clear()
    ANSWERS.update(answers)
    return Patient(("127.0.0.1", port), Handler)
