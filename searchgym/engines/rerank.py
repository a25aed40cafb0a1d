"""Cross-encoders: a question and a passage read together, as the second stage of a search."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import EngineError, MissingExtraError
from ..objects import bare_hint
from ..storage.files import value_digest
from ..types import Hit, Ranking
from .dense.encoder import clean, pick_device, weights_digest

_make_hit = partial(tuple.__new__, Hit)


class CrossEncoderReranker:
    """Scores (query, passage) pairs by a sentence-transformers ``CrossEncoder`` with one output.

    Equal batches of pairs have equal scores, bit for bit, and so have equal pairs of one batch.

    Args:
        model: A folder or a hub name.
        device: A torch device, or "auto".
        max_length: Tokens of a pair; default: the model's own.
        batch_size: Pairs per forward pass.

    Raises:
        MissingExtraError: sentence-transformers is not installed.
        EngineError: the model cannot be loaded or has several outputs.
    """

    def __init__(
        self,
        model: str | Path,
        *,
        device: str = "auto",
        max_length: int | None = None,
        batch_size: int = 32,
    ) -> None:
        self.device = pick_device(device)
        if isinstance(model, str) and (hint := bare_hint(model)):
            raise EngineError(f"{model!r} is a hub's name{hint}")
        local = Path(model).expanduser().exists()
        try:
            from sentence_transformers import CrossEncoder
        except ImportError as error:
            raise MissingExtraError("a cross-encoder", "dense") from error
        try:
            self._model = CrossEncoder(
                str(Path(model).expanduser() if local else model),
                device=str(self.device), local_files_only=local, max_length=max_length,
                trust_remote_code=False, model_kwargs={"use_safetensors": True},
            )  # fmt: skip
        except (OSError, ValueError, KeyError) as error:
            reason = str(error).splitlines()[0]
            raise EngineError(f"cannot load the cross-encoder {str(model)!r}: {reason}") from error
        outputs = self._model.model.config.num_labels
        if outputs != 1:
            raise EngineError(f"a cross-encoder gives one score, {model} gives {outputs} outputs")
        self._model.model.eval().requires_grad_(False)
        self.max_length = int(self._model.max_seq_length or 512)
        self.batch_size = batch_size
        self.digest = value_digest([weights_digest(self._model), self.max_length, self.device.type])

    def score(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        """Scores (N,) of (query, passage) pairs, higher is better: what the model's last
        layer gives (``CrossEncoder.predict`` puts it through a sigmoid)."""
        import torch

        cleaned = [(clean(query), clean(text)) for query, text in pairs]
        distinct = {pair: row for row, pair in enumerate(dict.fromkeys(cleaned))}
        if not distinct:
            return np.zeros(0, np.float32)
        scores = self._model.predict(
            [list(pair) for pair in distinct], prompt="", batch_size=self.batch_size,
            show_progress_bar=False, activation_fn=torch.nn.Identity(),
        )  # fmt: skip
        if not np.isfinite(scores).all():
            raise EngineError("the cross-encoder gave scores that are not finite")
        return scores.astype(np.float32)[[distinct[pair] for pair in cleaned]]

    def rerank(self, asked: Sequence[tuple[str, Ranking, int]]) -> list[Ranking]:
        """The k best of each (query, ranking, k) by the cross-encoder, ties by passage id."""
        pairs = [
            (query, f"{hit.passage.title}\n{hit.passage.text}".strip())
            for query, ranking, _ in asked
            for hit in ranking
        ]
        scores = iter(self.score(pairs).tolist())
        answers: list[Ranking] = []
        for _, ranking, k in asked:
            hits = [_make_hit((hit.passage, next(scores))) for hit in ranking]
            answers.append(tuple(sorted(hits, key=lambda h: (-h.score, h.passage.id))[:k]))
        return answers
