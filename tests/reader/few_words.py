"""A word encoder of few words."""

from __future__ import annotations

from searchgym_agents.candidate.encoder import WordEncoder


class FewWords(WordEncoder):
    """The bundled encoder, but English has the words given only: all are encoded in a second."""

    english = (
        "penned authored written wrote directed filmed shot born birth birthplace album song "
        "stone river seven purple capital city publisher issued released"
    ).split()

    def vocabulary(self) -> dict[str, int]:
        return {word: i for i, word in enumerate(self.english)}
