"""Prompts to ids, ids to text, and refusals: shared by the two local generators."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ..errors import EngineError
from ..types import Failure
from .base import GenRequest, Ids, Message, form
from .foreign import foreign

if TYPE_CHECKING:
    from torch import Tensor


REMEMBERED = 1 << 16
"""Most texts of a few tokens that a codec keeps."""
FEW = 8


class Codec:
    """A transformers tokenizer, as generators use it."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self._texts: dict[tuple[int, ...], str] = {}
        self.has_chat = bool(getattr(tokenizer, "chat_template", None))

    def encode(self, request: GenRequest) -> Ids:
        """The prompt's ids; a chat through the model's own template, ready for the reply (or, if
        the last message is the assistant's, ready to continue it).

        Texts and messages are foreign text (:mod:`.foreign`): a special token that one of them
        spells out is ordinary characters. Who wants special tokens gives ids.
        """
        kind = form(request.prompt)
        if kind == "ids":
            ids = cast(Ids, request.prompt)
            return ids if set(map(type, ids)) == {int} else tuple(map(int, ids))
        if kind == "text":
            return self.text(cast(str, request.prompt))
        return self._chat(cast("tuple[Message, ...]", request.prompt))

    def text(self, text: str) -> Ids:
        """Ids of a foreign text with the special tokens that the tokenizer puts around it."""
        reading = foreign(self.tokenizer)
        if not reading.suspicious(text):
            return tuple(self.tokenizer(text)["input_ids"])
        around = tuple(self.tokenizer("")["input_ids"])
        before = around[:1] if around[:1] == (self.tokenizer.bos_token_id,) else ()
        return (*before, *reading.opening(text), *around[len(before) :])

    def _chat(self, messages: tuple[Message, ...]) -> Ids:
        """The template's own special tokens, and none of the messages': a content that spells one
        is kept out of the template, which a mark stands in for."""
        reading = foreign(self.tokenizer)
        mark = _unused("".join(m.content for m in messages))
        kept = [m.content for m in messages if reading.suspicious(m.content)]
        if not kept:
            text = self.chat_text(messages)
            return tuple(self.tokenizer(text, add_special_tokens=False)["input_ids"])
        marked, numbers = [], count()
        for m in messages:
            hold = reading.suspicious(m.content)
            content = f"{mark}{next(numbers)}{mark}" if hold else m.content
            marked.append(Message(m.role, content))
        ids: list[int] = []
        pieces = re.split(f"{mark}(\\d+){mark}", self.chat_text(marked))
        for at, piece in enumerate(pieces):
            if at % 2:
                ids += reading.encode(kept[int(piece)])
            elif piece:
                ids += reading.frame(piece, opening=not at)
        return tuple(ids)

    def chat_text(self, messages: Sequence[Message]) -> str:
        """A chat written out by the model's template."""
        going_on = messages[-1].role == "assistant"
        text: str = self.tokenizer.apply_chat_template(
            [m._asdict() for m in messages],
            tokenize=False,
            add_generation_prompt=not going_on,
            continue_final_message=going_on,
        )
        return text

    def decode(self, ids: list[int]) -> str:
        """Decode ids. Texts of a few tokens are kept: whoever writes token by token asks for the
        same ones again and again, and transformers takes 20 µs for one."""
        few = tuple(ids) if len(ids) <= FEW else ()
        text: str | None = self._texts.get(few) if few else None
        if text is None:
            text = self.tokenizer.decode(
                ids, skip_special_tokens=False, clean_up_tokenization_spaces=False
            )
            if few:
                if len(self._texts) >= REMEMBERED:
                    self._texts.clear()
                self._texts[few] = text
        return text

    def describe(self) -> str:
        """Describe all that decides which ids a text becomes, for digests."""
        backend = getattr(self.tokenizer, "backend_tokenizer", None)
        words = backend.to_str() if backend is not None else json.dumps(self.tokenizer.get_vocab())
        return json.dumps([words, getattr(self.tokenizer, "chat_template", None)], default=str)


def turn_end(tokenizer: Any) -> int | None:
    """The special token that the chat template writes after an assistant's message; None where
    there is no template, or it ends messages in other ways."""
    template = getattr(tokenizer, "chat_template", None)
    return _turn_end(tokenizer, json.dumps(template)) if template else None


@lru_cache(maxsize=64)
def _turn_end(tokenizer: Any, _template: str) -> int | None:
    said = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "\ue000"}]
    try:
        text: str = tokenizer.apply_chat_template(said, tokenize=False)
    except Exception:  # templates raise what they like; what is asked for later says it
        return None
    after = tokenizer(text.rpartition("\ue000")[2], add_special_tokens=False)["input_ids"]
    special = foreign(tokenizer).special
    return next((int(i) for i in after if i in special), None)


def text_ends(tokenizer: Any, *configs: Any) -> frozenset[int]:
    """Every token that ends a text: the template's after a message, the tokenizer's, and those of
    configurations; of a tokenizer from a folder that folder's generation configuration, too."""
    found: list[Any] = [turn_end(tokenizer)]
    folder = str(getattr(tokenizer, "name_or_path", ""))
    if folder and (Path(folder) / "generation_config.json").is_file():
        from transformers import GenerationConfig

        configs = (*configs, GenerationConfig.from_pretrained(folder))
    for holder in (tokenizer, *configs):
        ids = getattr(holder, "eos_token_id", None)
        found += ids if isinstance(ids, list | tuple) else [ids]
    return frozenset(int(i) for i in found if isinstance(i, int))  # a folder may hold anything


TEMPLATE_S, TEMPLATE_BYTES = 3, 2 << 30
"""Processor time and memory that a chat template may take for a few short messages."""
_RENDER = """
import contextlib, json, sys
asked = json.load(sys.stdin)
sys.path[:] = asked["path"]
with contextlib.suppress(ImportError):  # Windows has no limits
    import resource
    resource.setrlimit(resource.RLIMIT_CPU, (asked["seconds"],) * 2)
    resource.setrlimit(resource.RLIMIT_AS, (asked["bytes"],) * 2)
from datetime import datetime
from jinja2 import TemplateError
from jinja2.ext import Extension
from jinja2.sandbox import ImmutableSandboxedEnvironment

class Generation(Extension):  # transformers' own tag
    tags = {"generation"}
    def parse(self, parser):
        next(parser.stream)
        return parser.parse_statements(["name:endgeneration"], drop_needle=True)

def refuse(message):
    raise TemplateError(message)

env = ImmutableSandboxedEnvironment(
    trim_blocks=True, lstrip_blocks=True, extensions=[Generation, "jinja2.ext.loopcontrols"])
env.filters["tojson"] = lambda value, **how: json.dumps(value, ensure_ascii=False)
env.globals |= {"raise_exception": refuse, "strftime_now": lambda how: datetime.now().strftime(how)}
for chat in asked["chats"]:
    try:
        env.from_string(asked["template"]).render(**chat, **asked["tokens"])
    except MemoryError:
        sys.exit(1)
    except Exception:  # what a template refuses is said when it is asked for
        pass
"""


def check_template(tokenizer: Any) -> None:
    """Render a tokenizer's chat template once, in a process of its own with limits, since a folder
    of others may hold one that does not come to an end.

    Raises:
        EngineError: it takes more than :data:`TEMPLATE_S` seconds or :data:`TEMPLATE_BYTES`.
    """
    found = getattr(tokenizer, "chat_template", None) or ()
    tokens = {k: v for k, v in tokenizer.special_tokens_map.items() if isinstance(v, str)}
    for template in found.values() if isinstance(found, Mapping) else [found] if found else ():
        if not _ends(str(template), tuple(sorted(tokens.items()))):
            raise EngineError(
                f"the chat template of {getattr(tokenizer, 'name_or_path', '')!r} does not come to "
                f"an end: a few short messages took more than {TEMPLATE_S} s or "
                f"{TEMPLATE_BYTES >> 30} GiB. Use another model, or put another template in its "
                "place (chat_template.jinja, or chat_template in tokenizer_config.json)"
            )


@lru_cache(maxsize=64)
def _ends(template: str, tokens: tuple[tuple[str, str], ...]) -> bool:
    said = [{"role": role, "content": f"text {i}"}
            for i, role in enumerate(("system", "user", "assistant", "user"))]  # fmt: skip
    parameters = {"type": "object", "properties": {"query": {"type": "string"}}}
    tool = {"name": "search", "description": "Searches.", "parameters": parameters}
    tools = [{"type": "function", "function": tool}]
    chats = [
        {"messages": messages, "tools": tools if with_tools else None,
         "add_generation_prompt": True}
        for messages in (said[1:2], said, said[1:]) for with_tools in (False, True)
    ]  # fmt: skip
    asked = {
        "path": [p for p in sys.path if p],  # "" is the working directory, which may be anybody's
        "seconds": TEMPLATE_S, "bytes": TEMPLATE_BYTES,
        "template": template, "tokens": dict(tokens), "chats": chats,
    }  # fmt: skip
    command = [sys.executable, "-I", "-c", _RENDER]
    try:
        done = subprocess.run(
            command, input=json.dumps(asked).encode(), capture_output=True, timeout=10 * TEMPLATE_S
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0 or b"ModuleNotFoundError" in done.stderr  # as transformers will say


def _unused(text: str) -> str:
    return next(c for c in map(chr, range(0xE000, 0xF900)) if c not in text)


def refusal(prompt: Ids, room: int, context: int | None) -> Failure | None:
    """Explain why a prompt cannot be continued by ``room`` tokens: nothing is cut silently."""
    if not len(prompt):
        return Failure("rejected", "the prompt has no tokens: give at least one", False)
    if context is not None and len(prompt) + room > context:
        return Failure(
            "rejected",
            f"{len(prompt)} prompt tokens + {room} new ones exceed the model's {context}: shorten "
            "the prompt or lower max_tokens",
            False,
        )
    return None


def _sum_of_bits(flat: Tensor) -> int:
    """Sum a tensor (N,), eight bytes at a time as whole numbers that wrap around, and the bytes
    left over: nothing is copied, and any order of adding up, on any device, gives the same."""
    import torch

    raw = flat.contiguous().view(torch.uint8)
    words = len(raw) // 8 * 8
    if raw.storage_offset() % 8:  # a piece of another tensor, which no word begins with
        raw = raw.clone()
    total = int(raw[:words].view(torch.int64).sum()) + int(raw[words:].sum())
    return total % (1 << 64)


def weights_digest(tensors: Iterable[tuple[str, Any]], *more: str) -> str:
    """Digest of named tensors and further strings. Tensors of more than 65,536 elements count by
    4,096 of them and a sum of all: hashing a large model would take longer than using it."""
    parts: dict[str, bytes] = {}
    for name, tensor in tensors:  # one at a time: they may come from a file larger than memory
        flat = tensor.detach().flatten()
        part = flat if flat.numel() <= 65_536 else flat[:: flat.numel() // 4096]
        about = f"{name} {tuple(tensor.shape)} {tensor.dtype} {_sum_of_bits(flat)}"
        h = hashlib.blake2b(about.encode())
        h.update(part.float().cpu().numpy().tobytes())
        parts[name] = h.digest()
    whole = hashlib.blake2b(repr(more).encode(), digest_size=16)
    for name in sorted(parts):
        whole.update(parts[name])
    return whole.hexdigest()
