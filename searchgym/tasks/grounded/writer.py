"""A language model that words the questions, and the round trip that each must pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, cast

from ...batching import retried
from ...errors import TaskError
from ...llms.base import Generator, GenRequest, Message, Sampling
from ...text import covers, normalise_answer
from ...types import Failure, Service
from .questions import Item

ASK = """{pages}

Question: {question}
Answer: {answer}

Ask the same in other, natural words, in one line, without saying the answer.
Question:"""
READ = """{pages}

Answer the question in a few words.
Question: {question}
Answer:"""
GUESS = """Answer the question in a few words.
Question: {question}
Answer:"""
LONGEST = 1000
"""Most characters of a question or an answer: more is no question, and is not read."""
OPEN = frozenset({"yes", "no"})
"""Answers that a guess hits half of the time: what is known of them without pages says nothing."""


class Writer:
    """Words questions and reads them back, as back-translation is checked: whoever is given the
    gold pages answers the new question as before, and nobody does without them.

    Args:
        generator: Writes; of :func:`searchgym.llms.registry.build_generator`.
        reader: Answers; None: the same generator.
        retries: Further tries of a failed completion.
    """

    def __init__(
        self, generator: Generator, reader: Generator | None = None, *, retries: int = 2
    ) -> None:
        self.generator, self.reader, self.retries = generator, reader or generator, retries

    def worded(self, items: Sequence[Item]) -> list[Item]:
        """The items with questions of the writer, in order; one that says nothing keeps none."""
        prompts = [ASK.format(pages=_pages(i), question=i.question, answer=i.answers[0])
                   for i in items]  # fmt: skip
        texts = self._lines(self.generator, prompts, 96)
        return [item._replace(question=text) for item, text in zip(items, texts, strict=True)]

    def sound(self, items: Sequence[Item], refused: Counter[str]) -> list[bool]:
        """For each item whether the round trip succeeds; what fails is counted by its reason."""
        read = [READ.format(pages=_pages(i), question=i.question) for i in items]
        guessed = [GUESS.format(question=i.question) for i in items]
        replies = self._lines(self.reader, [*read, *guessed], 32)
        verdicts = []
        for item, told, guess in zip(items, replies, replies[len(items) :], strict=False):
            answers = [normalise_answer(answer) for answer in item.answers]
            fault = ""
            if not _holds(told, answers):
                fault = "a reader of its pages answers otherwise"
            elif not OPEN.intersection(answers) and _holds(guess, answers):
                fault = "answered without its pages"
            verdicts.append(not fault)
            refused[fault] += bool(fault)
        return verdicts

    def _lines(self, generator: Generator, prompts: Sequence[str], tokens: int) -> list[str]:
        """First line of each completion, or nothing of a longer one than :data:`LONGEST`;
        ``TaskError`` for one that failed."""
        sampling = Sampling(tokens, temperature=0.0, stop=("\n\n",))
        chat = "chat" in generator.capabilities
        requests = [
            GenRequest((Message("user", prompt),) if chat else prompt, sampling)
            for prompt in prompts
        ]
        lines = []
        for told in retried(cast("Service[Any, Any]", generator), requests, self.retries):
            if isinstance(told, Failure):
                raise TaskError(f"the writer could not be asked: {told.kind}: {told.message}")
            text = told.text.lstrip().partition("\n")[0].strip()
            text = text if len(text) <= LONGEST else ""
            lines.append(text.removeprefix("Question:").removeprefix("Answer:").strip(' "'))
        return lines


def _pages(item: Item) -> str:
    return "\n\n".join(f"{page.title}\n{page.text}" for page in item.pages)


def _holds(reply: str, answers: Sequence[str]) -> bool:
    """Return whether a reply states an answer."""
    return any(covers(normalise_answer(reply), answer) for answer in answers)
