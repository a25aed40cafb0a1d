"""Token record of the episodes a policy plays: the ids it read and wrote in each turn."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ..errors import EpisodeError
from ..llms.base import Completion, Floats, Ids
from ..llms.tokens import cut
from ..types import TurnRequest


class Written(NamedTuple):
    """One turn, token by token."""

    turn: int
    context: int
    prompt: tuple[Ids, ...]
    """Prompt in pieces that turns of an episode share; joined, the ids the model was given."""
    prefill: Ids
    """The prompt's last piece, if the turn was begun for the policy."""
    completion: Completion
    """Completion as sampled, before the episode cut it."""


def turn_usage(turn: Written) -> dict[str, float]:
    """Usage of one turn: ``tokens_in`` and ``tokens_out``; ``overflowed`` is 1 if the prompt left
    no room in the model's context, so that nothing was written; ``length_cut`` is 1 if the text was
    ended by ``max_tokens`` (or the context's end) instead of a stop string or the model."""
    written = len(turn.completion.ids or ())
    at_limit = turn.completion.finish == "length"
    return {
        "tokens_in": float(sum(map(len, turn.prompt)) + len(turn.prefill)),
        "tokens_out": float(written),
        "overflowed": float(at_limit and not written),
        "length_cut": float(at_limit and written > 0),
    }


def episode_usage(turns: Mapping[int, Written]) -> dict[str, float]:
    """Sums of :func:`turn_usage` over an episode's turns; empty without turns."""
    total: dict[str, float] = {}
    for turn in turns.values():
        for name, value in turn_usage(turn).items():
            total[name] = total.get(name, 0.0) + value
    return total


class Kept(NamedTuple):
    """The N tokens of a completion that count."""

    ids: Ids
    logp: Floats
    ends: tuple[int, ...]


def kept(completion: Completion, text: str) -> Kept:
    """The tokens of the part ``text`` that an episode kept: those wholly past the cut are dropped,
    the one that straddles it stays. An uncut text keeps its end-of-sequence token, too.

    Raises:
        EpisodeError: ``text`` is not how the completion begins.
    """
    ids, logp, ends = completion.ids, completion.logp, completion.ends
    assert ids is not None  # all three are asked for when sampling
    assert logp is not None
    assert ends is not None
    if text == completion.text:
        return Kept(ids, logp, ends)
    if not completion.text.startswith(text):
        raise EpisodeError(
            f"the episode holds {text[:60]!r} where this policy wrote {completion.text[:60]!r}: "
            "somebody else acted, or two forks share one episode id (fork with branch=)"
        )
    n, clipped = cut(ends, len(text)) if text else (0, ())
    return Kept(ids[:n], logp[:n], clipped)


class History:
    """One episode's turns, and which segment each became."""

    def __init__(
        self,
        written: Mapping[int, Written] | None = None,
        segments: Mapping[str, int] | None = None,
    ) -> None:
        self.written: dict[int, Written] = dict(written or {})
        self.segments: dict[str, int] = dict(segments or {})
        """Segment id → turn."""
        self.asked: tuple[TurnRequest, tuple[Ids, ...], Ids] | None = None
        """The prompt of the turn that is being written, in pieces, and its prefill."""

    def before(self, turn: int) -> History:
        """A copy with the turns before ``turn``; the records themselves are shared."""
        return History(
            {n: w for n, w in self.written.items() if n < turn},
            {s: n for s, n in self.segments.items() if n < turn},
        )

    def ids(self, request: TurnRequest) -> dict[str, Ids]:
        """Segment id → ids, for the policy's segments in a request. Where wrappers rewrote them,
        they are text like any other."""
        if any(s.rewritten for s in request.segments):
            return {}
        own = [s for s in request.segments if s.author == "policy"]
        new = [s for s in own if s.id not in self.segments]
        known = set(self.segments.values())
        turns = [
            n
            for n, w in sorted(self.written.items())
            if n < request.turn and w.context == request.context and n not in known
        ]
        if len(new) != len(turns):
            raise EpisodeError(
                f"episode {request.episode_id!r}, turn {request.turn}, holds {len(new)} new texts "
                f"of the policy; this one remembers {len(turns)}. Somebody else acted, or it was "
                "told to forget the episode (forget(), or more than `memory` episodes since)"
            )
        self.segments.update((s.id, n) for s, n in zip(new, turns, strict=True))
        ids_of: dict[str, Ids] = {}
        for segment in own:
            record = self.written[self.segments[segment.id]]
            ids_of[segment.id] = record.prefill + kept(record.completion, segment.text).ids
        return ids_of


class Memory:
    """The histories of the latest ``size`` episodes; the one untouched for longest goes first."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._histories: OrderedDict[str, History] = OrderedDict()

    def __len__(self) -> int:
        return len(self._histories)

    def at(self, request: TurnRequest) -> History:
        """The history before a request's turn; a fork (``id~branch``) begins with its parent's."""
        name = request.episode_id
        history = self._histories.pop(name, None)
        if history is None and request.turn:
            parent = name
            while history is None and "~" in parent:
                parent = parent.rpartition("~")[0]
                if parent in self._histories:
                    history = self._histories[parent].before(request.turn)
        elif history is not None and any(n >= request.turn for n in history.written):
            history = history.before(request.turn)  # the episode starts again, or from a fork
        history = self._histories[name] = history or History()
        while len(self._histories) > self.size:
            self._histories.popitem(last=False)
        return history

    def written(self, episode_id: str) -> dict[int, Written]:
        """Turn → record; empty for an unknown episode."""
        history = self._histories.get(episode_id)
        return dict(history.written) if history is not None else {}

    def forget(self, episode_ids: Iterable[str]) -> None:
        for name in episode_ids:
            self._histories.pop(name, None)
