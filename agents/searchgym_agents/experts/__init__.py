"""Agents that know the answers of an environment's questions and show a model how to find them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from searchgym.utils import attach

_WHERE = {
    "base": ("Expert", "TagExpert"),
    "hops": ("Eyes", "Hop", "hop_of", "hops_of", "start_of", "walked"),
    "quoting_oracle": ("QuotingOracle",),
    "self_writing_oracle": ("SelfWritingOracle",),
    "supporting_oracle": ("SupportingOracle",),
    "thinking_oracle": ("ThinkingOracle",),
}
"""Module → the public names it defines."""

if TYPE_CHECKING:
    from .base import Expert as Expert
    from .base import TagExpert as TagExpert
    from .hops import Eyes as Eyes
    from .hops import Hop as Hop
    from .hops import hop_of as hop_of
    from .hops import hops_of as hops_of
    from .hops import start_of as start_of
    from .hops import walked as walked
    from .quoting_oracle import QuotingOracle as QuotingOracle
    from .self_writing_oracle import SelfWritingOracle as SelfWritingOracle
    from .supporting_oracle import SupportingOracle as SupportingOracle
    from .thinking_oracle import ThinkingOracle as ThinkingOracle

__getattr__, __dir__, __all__ = attach(__name__, _WHERE)
