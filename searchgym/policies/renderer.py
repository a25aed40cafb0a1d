"""From a turn request to token ids, so that one turn's prompt begins with all of the last one's.

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
from itertools import groupby
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from ..errors import EngineError
from ..llms.base import Completion, Ids
from ..llms.foreign import foreign_encoder
from ..llms.prompts import Codec
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
    """Owned by a policy; not to be confused with the dialect, which knows nothing of tokens.

    One that has options says in an attribute ``fingerprint`` what decides the ids of a prompt; of
    others the class counts.
    """

    def encode(self, text: str) -> Ids:
        """A text of the environment, special tokens in it as ordinary characters."""
        ...

    def render(self, request: TurnRequest, written: Mapping[str, Ids]) -> tuple[Ids, ...]:
        """The prompt in pieces, without ``request.prefill``. ``written``: segment id → ids, for
        every segment of the policy's."""
        ...

    def spell(self, segments: Sequence[Segment], text: str) -> Spelt:
        """A text as the policy would write it after these segments."""
        ...

    def heard(self, segments: Sequence[Segment], completion: Completion) -> Completion:
        """What the model wrote after these segments, with the text that the episode is given."""
        ...


class PlainRenderer:
    """For base models: the segments' texts, one after the other, after the tokenizer's own
    beginning-of-text token if it has one (``bos`` overrides that)."""

    def __init__(self, tokenizer: Any, *, bos: bool | None = None) -> None:
        self.tokenizer = tokenizer
        self.encode = foreign_encoder(tokenizer)
        first: int | None = tokenizer.bos_token_id
        wanted = first in tokenizer("a")["input_ids"][:1] if bos is None else bos
        if wanted and first is None:
            raise EngineError("bos=True, but the tokenizer has no beginning-of-text token")
        self._start: tuple[Ids, ...] = ((first,),) if wanted and first is not None else ()

    @cached_property
    def fingerprint(self) -> str:
        """Of class, tokenizer and beginning."""
        return _fingerprint(self, start=self._start)

    def render(self, request: TurnRequest, written: Mapping[str, Ids]) -> tuple[Ids, ...]:
        return self._start + tuple(_content(s, written, self.encode) for s in request.segments)

    def spell(self, segments: Sequence[Segment], text: str) -> Spelt:
        return spelt(self.tokenizer, self.encode(text))

    def heard(self, segments: Sequence[Segment], completion: Completion) -> Completion:
        return completion


class BareRenderer(PlainRenderer):
    """Everything but the instructions, which never change: for small models that were trained
    without them, whose time is short."""

    def render(self, request: TurnRequest, written: Mapping[str, Ids]) -> tuple[Ids, ...]:
        kept = tuple(s for s in request.segments if s.kind != "instructions")
        return super().render(request._replace(segments=kept), written)


class ChatRenderer:
    """For chat models: segments as messages of the tokenizer's chat template.

    The policy's segments are the assistant's messages; runs of all others are the user's, except
    that instructions go into a system message (``system=False``: into the user's). The template
    only writes the *frame* around the contents; contents never pass through it. So a template that
    trims messages or drops earlier thoughts changes nothing: the model reads what it has read and
    written before.

    Args:
        unstable: What to do with a template whose frame depends on what follows (it writes another
            text where an answer is asked for than before the same answer later): ``"refuse"``
            raises; ``"split"`` renders as the template says, and then each turn becomes a row of
            its own.
        options: For ``apply_chat_template``, e.g. ``enable_thinking=False``.

    Raises:
        EngineError: no template, one that refuses these roles, loses or doubles a message, or is
            unstable.
    """

    def __init__(
        self,
        tokenizer: Any,
        *,
        system: bool = True,
        unstable: Literal["refuse", "split"] = "refuse",
        **options: Any,
    ) -> None:
        if not getattr(tokenizer, "chat_template", None):
            raise EngineError(
                "this tokenizer has no chat template: use PlainRenderer, or set "
                "tokenizer.chat_template"
            )
        if unstable not in ("refuse", "split"):
            raise EngineError(f"unstable is 'refuse' or 'split', got {unstable!r}")
        self.tokenizer, self.system, self.unstable = tokenizer, system, unstable
        self.options = options
        self.encode = foreign_encoder(tokenizer)
        self._special = {i for i, t in tokenizer.added_tokens_decoder.items() if t.special}
        self._frames = lru_cache(maxsize=1024)(self._read_frames)

    @cached_property
    def fingerprint(self) -> str:
        """Of class, tokenizer with its template, and options."""
        return _fingerprint(self, system=self.system, unstable=self.unstable, **self.options)

    def render(self, request: TurnRequest, written: Mapping[str, Ids]) -> tuple[Ids, ...]:
        roles: list[str] = []
        contents: list[Ids] = []
        for role, run in groupby(request.segments, self._role):
            if role == "assistant":  # one message each, even without an observation between them
                for segment in run:
                    roles.append(role)
                    contents.append(_content(segment, written, self.encode))
            else:
                roles.append(role)
                contents.append(self.encode("".join(s.text for s in run).strip()))
        frames = self._frames(tuple(roles))
        pieces: list[Ids] = [frames[0]]
        for role, content, after in zip(roles, contents, frames[1:], strict=True):
            if role == "assistant" and content and after and content[-1] == after[0]:
                # the policy ended its message itself, with the template's own token
                after = after[1:] if after[0] in self._special else after
            pieces += [content, after]
        return tuple(pieces)

    def spell(self, segments: Sequence[Segment], text: str) -> Spelt:
        return spelt(self.tokenizer, self.encode(text))

    def heard(self, segments: Sequence[Segment], completion: Completion) -> Completion:
        return completion

    def _role(self, segment: Segment) -> str:
        if segment.author == "policy":
            return "assistant"
        return "system" if self.system and segment.kind == "instructions" else "user"

    def _read_frames(self, roles: tuple[str, ...]) -> tuple[Ids, ...]:
        """What the template writes before, between and after the contents: one more than roles."""
        texts = self._frame_texts(roles)
        for at, role in enumerate(roles):
            if role == "assistant" and self.unstable == "refuse":
                asked = self._frame_texts(roles[:at])
                if asked != texts[: at + 1]:
                    was, now = next(p for p in zip(asked, texts, strict=False) if p[0] != p[1])
                    raise EngineError(
                        f"this chat template is not prefix-stable: it writes {was!r} when message "
                        f"{at + 1} ({', '.join(roles)}) is asked for and {now!r} once it is there. "
                        "Give ChatRenderer other template options, another template, or "
                        "unstable='split'"
                    )
        return tuple(
            tuple(self.tokenizer(text, add_special_tokens=False)["input_ids"]) for text in texts
        )

    def _frame_texts(self, roles: Sequence[str]) -> list[str]:
        messages = [{"role": r, "content": _MARK.format(i)} for i, r in enumerate(roles)]
        try:
            text: str = self.tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=True, **self.options
            )
        except Exception as error:  # templates raise what they like
            raise EngineError(f"the chat template refuses {', '.join(roles)}: {error}") from error
        parts: list[str] = []
        for i in range(len(roles)):
            before, found, text = text.partition(_MARK.format(i))
            if not found or _MARK.format(i) in text:
                raise EngineError(
                    f"the chat template {'doubles' if found else 'loses'} or reorders message "
                    f"{i + 1} of {', '.join(roles)}: use another template"
                    + (", or system=False" if roles[i] == "system" else "")
                )
            parts.append(before)
        return [*parts, text]


def _fingerprint(renderer: Any, **options: Any) -> str:
    """A renderer's class, and a digest of its tokenizer and options."""
    told = [Codec(renderer.tokenizer).describe(), options]
    said = json.dumps(told, sort_keys=True, default=lambda o: getattr(o, "__qualname__", str(o)))
    return f"{type(renderer).__name__}:{hashlib.blake2b(said.encode(), digest_size=8).hexdigest()}"


def spelt(tokenizer: Any, ids: Ids) -> Spelt:
    """Ids with their ends in what the tokenizer makes of them."""
    reader = Reader(Codec(tokenizer).decode)
    for token in ids:
        reader.add(token)
    reader.finish()
    return Spelt(ids, tuple(reader.ends))


def _content(segment: Segment, written: Mapping[str, Ids], encode: Callable[[str], Ids]) -> Ids:
    return written[segment.id] if segment.author == "policy" else encode(segment.text)
