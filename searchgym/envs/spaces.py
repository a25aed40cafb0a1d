"""Gymnasium spaces of free text and of chats, texts in memory that processes share, and what an
environment shows of an episode: its text, or a chat with tools.

``gymnasium.spaces.Text`` fixes a character set and therefore rejects ordinary Unicode ("é"), which
passages contain; a space without ``sample`` cannot be checked. These hold any
string, and any chat of JSON values.

``AsyncVectorEnv`` passes observations through shared memory. Each of its slots has room for the
longest text of the space. The room is reserved, not filled: the operating system gives a page of
memory when it is first written to, so eight million characters of room cost what the longest text
so far takes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from multiprocessing.heap import BufferWrapper
from typing import Any, NamedTuple, TypeVar, overload

import numpy as np
from gymnasium.spaces import Space
from gymnasium.spaces.utils import flatdim, flatten, flatten_space, unflatten
from gymnasium.vector.utils import (
    create_shared_memory,
    read_from_shared_memory,
    write_to_shared_memory,
)
from gymnasium.wrappers.utils import create_zero_array

from ..core.episode import Episode
from ..errors import CardError, unknown

_WORDS = (
    "search", "answer", "what", "who", "where", "river", "city", "1987", "the", "of", "<search>",
    "</search>", "<answer>", "</answer>", "é", "日本", "?", "{", "}",
)  # fmt: skip


Item = TypeVar("Item", covariant=True)


class _Bounded(Space[Item]):
    """Values of at most ``max_length`` characters, which are JSON as they are."""

    max_length: int

    @property
    def is_np_flattenable(self) -> bool:
        return False

    def to_jsonable(self, sample_n: Iterable[Any]) -> list[Any]:
        return list(sample_n)

    def from_jsonable(self, sample_n: list[Any]) -> list[Any]:
        return list(sample_n)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.max_length == self.max_length

    def __hash__(self) -> int:
        return hash((type(self).__name__, self.max_length))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(max_length={self.max_length})"


class FreeText(_Bounded[str]):
    """Any string of at most ``max_length`` characters; ``sample`` draws a few words."""

    def __init__(self, max_length: int = 1_000_000, seed: int | np.random.Generator | None = None):
        super().__init__(shape=None, dtype=str, seed=seed)
        self.max_length = int(max_length)

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        n = int(self.np_random.integers(0, 12))
        words = [_WORDS[int(i)] for i in self.np_random.integers(0, len(_WORDS), size=n)]
        return " ".join(words)[: self.max_length]

    def contains(self, x: Any) -> bool:
        return isinstance(x, str) and len(x) <= self.max_length


# --- texts in memory that processes share --------------------------------------------------------
_HEAD = 8
"""Bytes of a slot's length."""
_WIDEST = 4
"""Bytes of a character in UTF-8, at most."""


class SharedTexts:
    """``count`` texts of at most ``longest`` characters each, as UTF-8. It pickles to processes
    that are being started, as the arrays of ``multiprocessing`` do."""

    def __init__(self, count: int, longest: int) -> None:
        self.count, self.room = count, _HEAD + _WIDEST * longest
        self._buffer = BufferWrapper(count * self.room)
        for index in range(count):
            self.write(index, "")

    def __len__(self) -> int:
        return self.count

    def write(self, index: int, text: str) -> None:
        """Put a text into a slot; ``ValueError`` if it is longer than the room."""
        data = text.encode("utf-8", "surrogatepass")
        if _HEAD + len(data) > self.room:
            raise ValueError(f"a text of {len(data)} bytes does not fit into {self.room - _HEAD}")
        start, view = index * self.room, self._buffer.create_memoryview()
        view[start + _HEAD : start + _HEAD + len(data)] = data
        view[start : start + _HEAD] = len(data).to_bytes(_HEAD, "little")

    def read(self, index: int) -> str:
        """Return the text in a slot."""
        start, view = index * self.room, self._buffer.create_memoryview()
        size = int.from_bytes(view[start : start + _HEAD], "little")
        return str(view[start + _HEAD : start + _HEAD + size], "utf-8", "surrogatepass")


class TextBatch(Sequence[str]):
    """The texts as they stand when they are read; a deep copy is a tuple of the texts as they are
    now. ``AsyncVectorEnv`` returns deep copies, and with ``copy=False`` this object."""

    def __init__(self, texts: SharedTexts) -> None:
        self._texts = texts

    def __len__(self) -> int:
        return len(self._texts)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...
    def __getitem__(self, index: int | slice) -> str | tuple[str, ...]:
        places = range(len(self))[index]
        if isinstance(places, range):
            return tuple(self._texts.read(place) for place in places)
        return self._texts.read(places)

    def __iter__(self) -> Iterator[str]:
        return (self._texts.read(place) for place in range(len(self)))

    def __deepcopy__(self, memo: dict[int, Any]) -> tuple[str, ...]:
        return tuple(self)


# --- what Gymnasium's functions of spaces need to know ------------------------------------------
@create_shared_memory.register(FreeText)
def _create(space: FreeText, n: int = 1, ctx: Any = None) -> SharedTexts:
    return SharedTexts(n, space.max_length)


@read_from_shared_memory.register(FreeText)
def _read(space: FreeText, shared_memory: SharedTexts, n: int = 1) -> TextBatch:
    return TextBatch(shared_memory)


@write_to_shared_memory.register(FreeText)
def _write(space: FreeText, index: int, value: str, shared_memory: SharedTexts) -> None:
    shared_memory.write(index, value)


@create_zero_array.register(FreeText)
def _zero(space: FreeText) -> str:  # type: ignore[misc]
    return ""


@flatdim.register(FreeText)
def _flatdim(space: FreeText) -> int:
    raise ValueError(f"{space} cannot be flattened to an array: texts differ in length")


@flatten_space.register(FreeText)
def _flatten_space(space: FreeText) -> FreeText:
    return space


@flatten.register(FreeText)
def _flatten(space: FreeText, x: str) -> str:  # type: ignore[misc]
    return x


@unflatten.register(FreeText)
def _unflatten(space: FreeText, x: str) -> str:  # type: ignore[misc]
    return x


ROLES = ("system", "user", "assistant", "tool")


class ChatSpace(_Bounded[Any]):
    """Chats: ``{"messages": [{"role", "content", …}, …], "tools": [schema, …]}`` of JSON values,
    whose contents have at most ``max_length`` characters in all (``searchgym.core.messages.Chat``).

    ``sample`` draws a short chat. In Gymnasium's ``AsyncVectorEnv`` such observations travel by
    pipe: ``shared_memory=False``.
    """

    def __init__(self, max_length: int = 1_000_000, seed: int | np.random.Generator | None = None):
        super().__init__(shape=None, dtype=None, seed=seed)
        self.max_length = int(max_length)
        self._texts = FreeText(max_length // 8)

    def sample(self, mask: Any = None, probability: Any = None) -> dict[str, Any]:
        self._texts._np_random = self.np_random
        turns = int(self.np_random.integers(1, 4))
        roles = ["system", "user", *["assistant", "tool"] * turns][: 2 * turns]
        return {
            "messages": [{"role": role, "content": self._texts.sample()} for role in roles],
            "tools": [],
        }

    def contains(self, x: Any) -> bool:
        if not isinstance(x, Mapping) or set(x) != {"messages", "tools"}:
            return False
        messages, tools = x["messages"], x["tools"]
        if not isinstance(messages, list) or not isinstance(tools, list):
            return False
        for message in messages:
            if not isinstance(message, Mapping) or message.get("role") not in ROLES:
                return False
            if not isinstance(message.get("content"), str):
                return False
        try:
            json.dumps(x, allow_nan=False)
        except (TypeError, ValueError):
            return False
        return sum(len(message["content"]) for message in messages) <= self.max_length


@create_zero_array.register(ChatSpace)
def _zero_chat(space: ChatSpace) -> dict[str, Any]:
    return {"messages": [], "tools": []}


MAX_TEXT = 8_000_000
"""Characters of the spaces: above any ``max_chars`` plus one observation."""


class ObservationKind(NamedTuple):
    """A kind of observation."""

    space: Space[Any]
    of: Callable[[Episode], Any]
    """The observation of an episode as it stands."""


def _messages(episode: Episode) -> Any:
    from ..core.messages import messages_of

    return messages_of(episode)


KINDS: dict[str, tuple[Callable[[int], Space[Any]], Callable[[Episode], Any]]] = {
    "text": (FreeText, Episode.shown),
    "messages": (ChatSpace, _messages),
}


def view_of(kind: str) -> ObservationKind:
    """Return the space of a kind of observation and how one is made.

    Raises:
        CardError: ``kind`` is neither "text" nor "messages".
    """
    if kind not in KINDS:
        raise CardError(unknown("kind of observation", str(kind), KINDS))
    space, of = KINDS[kind]
    return ObservationKind(space(MAX_TEXT), of)
