"""Encodes untrusted text without special tokens, whatever a page, a query or a question holds, so
that no text can end a turn, open one, or call a tool.

One encoder serves policies, chats and simulated engines. Code that passes *strings* to a foreign
chat template uses :func:`neutralise`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import lru_cache
from itertools import chain, pairwise
from typing import Any

from ..errors import EngineError
from .base import Ids

_ROLE = re.compile(
    r"<｜[^<>\s]*｜>|<\|(?:user|human|assistant|bot|system|tool|observation)\|>", re.IGNORECASE
)
"""Marks of speakers, which some tokenizers hold as ordinary added tokens (``<｜User｜>``)."""


class Foreign:
    """A tokenizer's reading of foreign text.

    Args:
        tokenizer: Tokenizer of transformers.
        size: Texts seen lately whose ids are kept.
    """

    def __init__(self, tokenizer: Any, size: int = 4096) -> None:
        self.tokenizer = tokenizer
        special = {t.content: i for i, t in tokenizer.added_tokens_decoder.items() if t.special}
        special |= dict(zip(tokenizer.all_special_tokens, tokenizer.all_special_ids, strict=True))
        added = {t.content: i for i, t in tokenizer.added_tokens_decoder.items()}
        roles = {text: i for text, i in added.items() if _ROLE.fullmatch(text)}
        self.special = frozenset(special.values())
        """Ids that foreign text never has."""
        self.strings = frozenset(filter(None, {**special, **roles}))
        """Spellings of the tokens that control a model."""
        self._controls = _any_of(self.strings)
        self._roles = _any_of(frozenset(roles) - frozenset(special))
        backend = getattr(tokenizer, "backend_tokenizer", None)
        self._normaliser = getattr(backend, "normalizer", None)
        self._bare = _without_prefix(backend)
        self.encode: Callable[[str], Ids] = lru_cache(maxsize=size)(self._encode)
        """Ids of a piece of text, special tokens in it as ordinary characters, and without the
        space that some tokenizers (Llama 2's) put before all that they are given; ``EngineError``
        from tokenizers that cannot leave either alone."""

    def suspicious(self, text: str) -> bool:
        """True if a text spells a controlling token, as it stands or as the tokenizer reads it."""
        if self._controls is None:
            return False
        if self._controls.search(text):
            return True
        if self._normaliser is None or text.isascii():
            return False
        return bool(self._controls.search(self._normaliser.normalize_str(text)))

    def neutralise(self, text: str) -> str:
        """See :func:`neutralise`."""
        controls = self._controls
        if controls is None or not self.suspicious(text):
            return text
        if not controls.search(text) and self._normaliser is not None:
            text = str(self._normaliser.normalize_str(text))  # so that what is hidden can be seen
        while controls.search(text):
            text = controls.sub(lambda m: f"&#{ord(m[0][0])};{m[0][1:]}", text)
        return text

    def opening(self, text: str) -> Ids:
        """Ids of a text that nothing stands before, special tokens as in :attr:`encode`."""
        return self._whole(text) if self._bare is not None else self.encode(text)

    def frame(self, text: str, opening: bool = False) -> Ids:
        """Ids of a piece of the template's text, whose special tokens are meant; ``opening``:
        nothing stands before it."""
        if self._bare is None or opening:
            return tuple(self.tokenizer(text, add_special_tokens=False)["input_ids"])
        first = self._controls.search(text) if self._controls is not None else None
        at = first.start() if first is not None else len(text)
        rest = tuple(self.tokenizer(text[at:], add_special_tokens=False)["input_ids"])
        return (*(self._encode(text[:at]) if at else ()), *(rest if at < len(text) else ()))

    def _whole(self, text: str) -> Ids:
        return tuple(
            self.tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
        )

    def _encode(self, text: str) -> Ids:
        if self._roles is not None and self._roles.search(text):
            # such a token is left alone only where it is cut
            at = [0, *(m.start() + 1 for m in self._roles.finditer(text)), len(text)]
            pieces = [self._encode(text[i:j]) for i, j in pairwise(at)]
            return tuple(chain.from_iterable(pieces))
        bare = self._bare
        ids = (
            self._whole(text) if bare is None else tuple(bare.encode(text, None, False, False).ids)
        )
        if not self.special.isdisjoint(ids):
            special_id = next(i for i in ids if i in self.special)
            token = self.tokenizer.convert_ids_to_tokens(special_id)
            raise EngineError(
                f"this tokenizer reads {token!r} in a text as its special token whatever it is "
                "told, so that a passage could end a turn: use its fast version"
            )
        return ids


def _without_prefix(backend: Any) -> Any:
    """A copy of a fast tokenizer that puts nothing before a text; None where it puts nothing."""
    if backend is None:
        return None
    steps = {
        name: json.loads(step.__getstate__())
        for name in ("normalizer", "pre_tokenizer")
        if (step := getattr(backend, name)) is not None
    }
    plain = {name: _stripped(step) for name, step in steps.items()}
    if plain == steps:
        return None
    words = {**json.loads(backend.to_str()), **plain}
    made = type(backend).from_str(json.dumps(words))
    made.encode_special_tokens = True
    return made


def _stripped(step: Any) -> Any:
    """A tokenizer's step, as JSON, without what it puts before a text."""
    if not isinstance(step, dict):
        return step
    made = dict(step)
    if made["type"] == "Prepend":
        return None
    for key in ("normalizers", "pretokenizers"):
        if key in made:
            made[key] = [s for s in map(_stripped, made[key]) if s is not None]
    if made["type"] == "Metaspace":
        made["prepend_scheme"] = "never"
    if made["type"] == "ByteLevel":
        made["add_prefix_space"] = False
    return made


@lru_cache(maxsize=16)
def _foreign(tokenizer: Any, size: int) -> Foreign:
    return Foreign(tokenizer)


def foreign(tokenizer: Any) -> Foreign:
    """Return the one :class:`Foreign` of a tokenizer (a new one once it has got further tokens)."""
    return _foreign(tokenizer, len(tokenizer))


def foreign_encoder(tokenizer: Any) -> Callable[[str], Ids]:
    """Return a function from foreign text to ids.

    Raises:
        EngineError: The tokenizer reads one of its special tokens in any text; said at once.
    """
    encode = foreign(tokenizer).encode
    for token in tokenizer.all_special_tokens:
        encode(token)
    if any(t.startswith("▁") for t in tokenizer.convert_ids_to_tokens(encode("a"))):
        raise EngineError(
            "this tokenizer puts a space before each piece of a text: use its fast version"
        )
    return encode


def neutralise(text: str, tokenizer: Any) -> str:
    """Return a text in which no string of the tokenizer's special tokens is left: the first
    character of each becomes an HTML reference (``&#60;/s>``), which people and models still read.

    For code that must pass strings to a chat template (adapters to other trainers); texts that hold
    none are returned as they are.
    """
    return foreign(tokenizer).neutralise(text)


def _any_of(strings: frozenset[str]) -> re.Pattern[str] | None:
    if not strings:
        return None
    return re.compile("|".join(map(re.escape, sorted(strings, key=len, reverse=True))))
