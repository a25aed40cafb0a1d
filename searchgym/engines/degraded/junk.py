"""Search-engine spam: pages that repeat the query and say nothing."""

from __future__ import annotations

from ...seeding import derive
from .urls import Invented

_TITLES = (
    "{t}: everything you need to know", "{t} | full guide, updated", "Top 10 facts about {t}",
    "{t} - reviews, prices, answers", "Looking for {t}? Read this first",
)  # fmt: skip
_SENTENCES = (
    "Welcome to the number one page about {t}.",
    "Many people search for {t} every day, and for good reason.",
    "If you want to know more about {t}, you have come to the right place.",
    "Our experts have collected all there is to say about {t}.",
    "In this article we look at {t}, why {t} matters and what {t} means for you.",
    "Questions about {t} are among the most frequent ones our readers send us.",
    "Before we get to {t}, do not forget to subscribe to our newsletter.",
    "Related searches: {t} explained, {t} answer, best {t}, {t} near me.",
    "Stay tuned: the details on {t} follow in the next part of this series.",
    "{w}, {w} and again {w}: this page has it all.",
)
_LENGTH = 6


def junk(about: Invented) -> tuple[str, str]:
    """Title and text of a spam page, fixed by its address."""
    key, topic = about.key, about.topic
    title = _TITLES[derive(key, "title") % len(_TITLES)].format(t=topic.title())
    order = sorted(range(len(_SENTENCES)), key=lambda i: derive(key, "sentence", i))[:_LENGTH]
    word = max(about.words, key=len)
    return title, " ".join(_SENTENCES[i].format(t=topic, w=word) for i in order)
