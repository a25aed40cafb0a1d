"""Renders turn requests as token ids; each turn's prompt begins with all of the last one's.

What the policy wrote is never decoded and encoded again: its ids stand in the prompt as they were
sampled. Every other piece of text is encoded by itself, so a longer list of segments has a longer
list of ids with the same beginning: prefix stability by construction. Special tokens spelled out in
a passage or a question are encoded as ordinary text: no page can end a turn or open one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import chain, groupby, repeat
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from ..core.messages import RESULTS, schemas
from ..dialects.base import get_dialect
from ..errors import EngineError
from ..llms.base import Completion, Ids
from ..llms.foreign import foreign, foreign_encoder
from ..llms.prompts import Codec, turn_end
from ..llms.tokens import Reader
from ..types import Segment, TurnRequest

_MARK = "\ue000{}\ue001"
"""Stands for a message's content while the template is read (private-use characters)."""


class Spelt(NamedTuple):
    """A text of N tokens."""

    ids: Ids
    ends: tuple[int, ...]
    """Character end of each, as in a ``Completion``."""


@runtime_checkable
class Renderer(Protocol):
    """Renderer of a policy; not to be confused with the dialect, which knows nothing of tokens.

    One that has options says in an attribute ``fingerprint`` what decides the ids of a prompt; of
    others the class counts.
    """

    def encode(self, text: str) -> Ids:
        """A text of the environment, special tokens in it as ordinary characters."""
        ...

    def render(self, request: TurnRequest, written: Mapping[str, Ids]) -> tuple[Ids, ...]:
        """The prompt in pieces, without ``request.prefill``. ``written``: segment id → ids, for
        every segment of the policy's that stands as it was written."""
        ...

    def spell(self, segments: Sequence[Segment], text: str) -> Spelt:
        """A text as the policy would write it after these segments."""
        ...

    def heard(self, segments: Sequence[Segment], completion: Completion) -> Completion:
        """Decode a completion after these segments, with the text that the episode is given."""
        ...


class _OwnTexts:
    """The policy's own texts, by a tokenizer."""

    tokenizer: Any
    encode: Callable[[str], Ids]

    def spell(self, segments: Sequence[Segment], text: str) -> Spelt:
        return spelt(self.tokenizer, self.encode(text))

    def heard(self, segments: Sequence[Segment], completion: Completion) -> Completion:
        return completion


class PlainRenderer(_OwnTexts):
    """Renderer for base models: the segments' texts, one after the other, after the tokenizer's own
    beginning-of-text token if it has one (``bos`` overrides that)."""

    def __init__(self, tokenizer: Any, *, bos: bool | None = None) -> None:
        self.tokenizer = tokenizer
        self.encode = foreign_encoder(tokenizer)
        self._open = foreign(tokenizer).opening
        first: int | None = tokenizer.bos_token_id
        wanted = first in tokenizer("a")["input_ids"][:1] if bos is None else bos
        if wanted and first is None:
            raise EngineError("bos=True, but the tokenizer has no beginning-of-text token")
        self._start: tuple[Ids, ...] = ((first,),) if wanted and first is not None else ()

    @cached_property
    def fingerprint(self) -> str:
        """Digest of class, tokenizer and beginning."""
        return _fingerprint(self, start=self._start)

    def render(self, request: TurnRequest, written: Mapping[str, Ids]) -> tuple[Ids, ...]:
        encoders = chain([self._open], repeat(self.encode))
        pieces = zip(request.segments, encoders, strict=False)
        return self._start + tuple(_content(s, written, encode) for s, encode in pieces)


class BareRenderer(PlainRenderer):
    """Renderer of all but the instructions, which never change: for small models that were trained
    without them."""

    def render(self, request: TurnRequest, written: Mapping[str, Ids]) -> tuple[Ids, ...]:
        kept = tuple(s for s in request.segments if s.kind != "instructions")
        return super().render(request._replace(segments=kept), written)


class ChatRenderer(_OwnTexts):
    """Renderer for chat models: segments as messages of the tokenizer's chat template.

    The policy's segments are the assistant's messages; runs of all others are the user's, except
    that instructions go into a system message (``system=False``: into the user's). The template
    only writes the *frame* around the contents; contents never pass through it. So a template that
    trims messages or drops earlier thoughts changes nothing: the model reads what it has read and
    written before.

    Args:
        system: True if instructions are a system message of their own.
        instructions: False leaves them out, for models that were trained without: they never
            change, and reading them is a fifth of a short episode's cost.
        tools: True if the template is given the environment's tools (its argument ``tools``) and
            results are messages of the role "tool", as in the model's own form of calling tools.
            The environment's dialect must then leave both to the template: ``"json_tools+native"``
            for models that call tools as Qwen's and Hermes do.
        unstable: Handling of a template that writes another text where an answer is asked for
            than before the same answer later. ``"keep"``: where it has only added something (it
            opens a thought, ``<think>``), that stays, so that the model goes on reading what it has
            read and written; otherwise ``EngineError``. ``"refuse"`` raises always. ``"split"``
            renders as the template says, and then each turn becomes a row of its own.
        options: For ``apply_chat_template``, e.g. ``enable_thinking=False``.

    Raises:
        EngineError: no template, one that refuses these roles or tools, loses or doubles a message,
            or is unstable.
    """

    def __init__(
        self,
        tokenizer: Any,
        *,
        system: bool = True,
        instructions: bool = True,
        tools: bool = False,
        unstable: Literal["keep", "refuse", "split"] = "keep",
        **options: Any,
    ) -> None:
        if not getattr(tokenizer, "chat_template", None):
            raise EngineError(
                "this tokenizer has no chat template: use PlainRenderer, or set "
                "tokenizer.chat_template"
            )
        if unstable not in ("keep", "refuse", "split"):
            raise EngineError(f"unstable is 'keep', 'refuse' or 'split', got {unstable!r}")
        self.tokenizer, self.system, self.tools, self.unstable = tokenizer, system, tools, unstable
        self.instructions = instructions
        self.options = options
        self.encode = foreign_encoder(tokenizer)
        self.end = turn_end(tokenizer)
        """The token that ends the policy's turns, where the template has one."""
        self._special = {i for i, t in tokenizer.added_tokens_decoder.items() if t.special}
        self._frames = lru_cache(maxsize=1024)(self._read_frames)

    @cached_property
    def fingerprint(self) -> str:
        """Digest of class, tokenizer with its template, and options."""
        named = {"system": self.system, "tools": self.tools, "unstable": self.unstable}
        if not self.instructions:
            named["instructions"] = False
        return _fingerprint(self, **named, **self.options)

    def render(self, request: TurnRequest, written: Mapping[str, Ids]) -> tuple[Ids, ...]:
        roles: list[str] = []
        contents: list[Ids] = []
        for role, run in groupby(self._shown(request.segments), self._role):
            if role == "assistant":  # one message each, even without an observation between them
                for segment in run:
                    roles.append(role)
                    contents.append(_content(segment, written, self.encode))
            else:
                said = list(run)
                text = "".join(s.text for s in said)
                roles.append(role)
                # a whole prompt is its author's to the last byte
                contents.append(self.encode(text if any(s.asked for s in said) else text.strip()))
        tools = self._offered(request) if self.tools else []
        frames = self._frames(tuple(roles), json.dumps(tools))
        pieces: list[Ids] = [frames[0]]
        for role, content, after in zip(roles, contents, frames[1:], strict=True):
            if role == "assistant" and content and after and content[-1] == after[0]:
                # the policy ended its message itself, with the template's own token
                after = after[1:] if after[0] in self._special else after
            pieces += [content, after]
        return tuple(pieces)

    def _offered(self, request: TurnRequest) -> list[dict[str, Any]]:
        dialect = get_dialect(request.dialect)
        if not getattr(dialect, "native", False):
            raise EngineError(
                f"the dialect {dialect.name!r} describes tools and wraps results itself, so that a "
                "template would do so again: use dialect='json_tools+native', or tools=False"
            )
        return schemas(request.tools)

    def _shown(self, segments: Sequence[Segment]) -> Sequence[Segment]:
        if self.instructions:
            return segments
        return [s for s in segments if s.kind != "instructions"]

    def _role(self, segment: Segment) -> str:
        if segment.author == "policy":
            return "assistant"
        if self.tools and segment.kind in RESULTS:
            return "tool"
        return "system" if self.system and segment.kind == "instructions" else "user"

    def _read_frames(self, roles: tuple[str, ...], tools: str) -> tuple[Ids, ...]:
        """Return the template's text around the contents: one piece more than roles."""
        offered = json.loads(tools)
        texts = self._frame_texts(roles, offered)
        kept = list(texts)
        for at, role in enumerate(roles):
            if role != "assistant" or self.unstable == "split":
                continue
            asked = self._frame_texts(roles[:at], offered)
            if asked == texts[: at + 1]:
                continue
            opened = asked[:at] == texts[:at] and asked[at].startswith(texts[at])
            if self.unstable == "refuse" or not opened:
                was, now = next(p for p in zip(asked, texts, strict=False) if p[0] != p[1])
                raise EngineError(
                    f"this chat template is not prefix-stable: it writes {was!r} when message "
                    f"{at + 1} ({', '.join(roles)}) is asked for and {now!r} once it is there. "
                    "Give the renderer other template options, another template, or "
                    'unstable=\'split\' (renderer={"use": "chat", "unstable": "split"})'
                )
            kept[at] = asked[at]
        frame = foreign(self.tokenizer).frame
        return tuple(frame(text, opening=not at) for at, text in enumerate(kept))

    def _frame_texts(self, roles: Sequence[str], tools: list[dict[str, Any]]) -> list[str]:
        messages = [{"role": r, "content": _MARK.format(i)} for i, r in enumerate(roles)]
        given = {"tools": tools} if tools else {}
        try:
            text: str = self.tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=True, **given, **self.options
            )
        except Exception as error:  # templates raise what they like
            raise EngineError(f"the chat template refuses {', '.join(roles)}: {error}") from error
        if tools and not all(tool["function"]["name"] in text for tool in tools):
            raise EngineError(
                "this chat template says nothing of the tools it is given: use one that does, or "
                "tools=False with a dialect that describes them itself"
            )
        parts: list[str] = []
        for i in range(len(roles)):
            before, mark, text = text.partition(_MARK.format(i))
            if not mark or _MARK.format(i) in text:
                raise EngineError(
                    f"the chat template {'doubles' if mark else 'loses'} or reorders message "
                    f"{i + 1} of {', '.join(roles)}: use another template"
                    + (", or system=False" if roles[i] == "system" else "")
                )
            parts.append(before)
        return [*parts, text]


def _fingerprint(renderer: Any, **options: Any) -> str:
    told = [Codec(renderer.tokenizer).describe(), options]
    said = json.dumps(told, sort_keys=True, default=lambda o: getattr(o, "__qualname__", str(o)))
    return f"{type(renderer).__name__}:{hashlib.blake2b(said.encode(), digest_size=8).hexdigest()}"


def spelt(tokenizer: Any, ids: Ids) -> Spelt:
    """Ids with their ends in what the tokenizer makes of them, after some other text."""
    reader = Reader(Codec(tokenizer).decode, foreign(tokenizer).encode("a"))
    for token in ids:
        reader.add(token)
    reader.finish()
    return Spelt(ids, tuple(reader.ends))


def _content(segment: Segment, written: Mapping[str, Ids], encode: Callable[[str], Ids]) -> Ids:
    own = segment.author == "policy" and not segment.rewritten
    return written[segment.id] if own else encode(segment.text)
