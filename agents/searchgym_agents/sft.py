"""The one path of supervised training: a folder that goes on where it was interrupted, and from
whose first checkpoint on the model can be played with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from searchgym.evaluation.machine import note_machine
from searchgym.llms.base import Sampling
from searchgym.llms.sft import SftTrainer, train
from searchgym.policies.model_folder import save_note


def train_to_play(
    trainer: SftTrainer, tokenizer: Any, out: Path, about: Mapping[str, Any], *, renderer: Any,
    turn_tokens: int, freeze: Sequence[str] = (), **options: Any,
) -> None:  # fmt: skip
    """Train to the last step in folder ``out``, and note how its model is played with.

    Args:
        about: Settings that must be those of the run in ``out``.
        renderer: Prompt format in which it reads episodes.
        turn_tokens: Most tokens that it may write in a turn.
        freeze: Patterns of parameters that stay as they are when it is trained on.
        options: Of :func:`searchgym.llms.sft.train`: ``save_every``, ``report``, ``lock``.

    Raises:
        DataError: ``out`` holds another run, or another training is writing it.
    """

    def started() -> None:
        note_machine(out)
        save_note(out, renderer, Sampling(max_tokens=turn_tokens), freeze)

    train(trainer, tokenizer, out, about=dict(about), started=started, **options)
