"""A small causal LM learns to search from nothing: worked examples, a tokenizer, a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from searchgym.utils import attach

_WHERE = {
    "examples": ("Examples", "examples"),
    "scores": ("OWN_TOKENS", "ByHops", "by_hops", "play", "reader_policy", "renderer_of"),
    "mixture": ("Stage",),
    "encoding": ("encode_traces",),
    "run": ("EMBEDDINGS", "WarmStart", "stages", "warm_start"),
    "traces": ("DEFAULTS", "OPENING", "Piece", "Trace", "traces_of", "unseen_env"),
}
"""Module → the public names it defines."""

if TYPE_CHECKING:
    from .encoding import encode_traces as encode_traces
    from .examples import Examples as Examples
    from .examples import examples as examples
    from .mixture import Stage as Stage
    from .run import EMBEDDINGS as EMBEDDINGS
    from .run import WarmStart as WarmStart
    from .run import stages as stages
    from .run import warm_start as warm_start
    from .scores import OWN_TOKENS as OWN_TOKENS
    from .scores import ByHops as ByHops
    from .scores import by_hops as by_hops
    from .scores import play as play
    from .scores import reader_policy as reader_policy
    from .scores import renderer_of as renderer_of
    from .traces import DEFAULTS as DEFAULTS
    from .traces import OPENING as OPENING
    from .traces import Piece as Piece
    from .traces import Trace as Trace
    from .traces import traces_of as traces_of
    from .traces import unseen_env as unseen_env

__getattr__, __dir__, __all__ = attach(__name__, _WHERE)
