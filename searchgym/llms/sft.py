"""Supervised training of a causal LM on (prompt, completion) pairs.

One process, one device. A run is a folder: the model as ``transformers`` loads it, ``sft.jsonl``
with a line per logged step, and ``trainer.safetensors`` from which the same call resumes after a
kill, to the same weights it would have had.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic, perf_counter
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors import SafetensorError
from torch import Tensor

from ..errors import DataError, EngineError
from ..objects import check_number, check_whole
from ..seeding import stream
from ..storage.checkpoint import (
    load_optimizer,
    optimizer_tensors,
    read_state,
    same_settings,
    write_state,
)
from ..storage.files import FolderLock, parse_json, read_json, write_whole, writing
from ..utils.hardware import give_back
from ..utils.processes import patient
from .batches import logits_at, micro_batches, padded
from .optimizers import optimizers_of, set_rate
from .sft_data import Example

STATE, LOG = "trainer.safetensors", "sft.jsonl"
_SAVE_SECONDS = 300.0
_BUCKET = 16
"""Most batches whose rows are sorted by length together: little padding, still mixed."""
_WINDOWS = 4
"""Fewest windows of such rows in an epoch: one would be cut into the same batches each time."""


@dataclass(frozen=True, slots=True)
class SftConfig:
    """Hyperparameters of a run; the defaults train a small model from scratch."""

    steps: int = 600
    batch: int = 32
    lr: float = 3e-3
    """AdamW learning rate (weight decay 0.01), for the parameters that Muon does not take."""
    muon_lr: float = 0.02
    """Muon learning rate for the matrices within layers; 0 trains them by AdamW, too."""
    warmup: int = 20
    """Steps of linear warm-up."""
    cooldown: float = 0.3
    """Last share of the steps, over which learning rates fall to 0 linearly."""
    prompt_weight: float = 0.1
    """Loss weight of a prompt token; a completion token's is 1."""
    clip: float = 1.0
    """Clipping threshold of AdamW's gradients (L2 norm)."""
    max_tokens: int = 768
    """Largest number of tokens of an example; longer ones are left out."""
    tokens: int = 0
    """Padded tokens of one forward and backward pass: a batch is then drawn at random, and its
    examples pass in parts of like length. 0: batches of like length, each passing whole."""
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("steps", 1), ("batch", 1), ("max_tokens", 1), ("warmup", 0),
                            ("tokens", 0), ("seed", 0)):  # fmt: skip
            check_whole(name, getattr(self, name), least)
        for name in ("lr", "clip"):
            check_number(name, getattr(self, name), 0, above=True)
        for name in ("muon_lr", "prompt_weight"):
            check_number(name, getattr(self, name), 0)
        check_number("cooldown", self.cooldown, 0, 1)


FINE_TUNING = SftConfig(steps=500, batch=16, lr=1e-5, muon_lr=0.0)
"""Settings for a pre-trained model: AdamW with a small rate."""


class Progress(NamedTuple):
    """Metrics of one step."""

    step: int
    steps: int
    """Steps of the whole run."""
    loss: float
    """Mean over the batch's completion tokens, in nats."""
    accuracy: float
    """Share of completion tokens that were the likeliest."""
    tokens: int
    """Tokens in the batch, without padding."""
    seconds: float
    grad_norm: float = math.nan
    """L2 norm of AdamW's gradients before clipping."""


class SftTrainer:
    """Trains ``model`` in place. Steps are numbered from 1; ``step`` of them are done.

    Args:
        model: A causal LM; parameters that take no gradient stay as they are.
        examples: Rows to learn from.
        config: Hyperparameters.
        dtype: Of matrix products: ``torch.bfloat16`` takes half the time where the processor can;
            weights stay float32.
    """

    def __init__(
        self,
        model: Any,
        examples: Sequence[Example],
        config: SftConfig,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.model, self.examples, self.config = model, examples, config
        self.dtype = dtype
        self.step = 0
        self.seconds = 0.0
        """Seconds spent in steps, over all sessions of the run."""
        self.optimizers = optimizers_of(model, config.lr, config.muon_lr, weight_decay=0.01)
        self._order: tuple[int, list[list[int]]] = (-1, [])

    def weights(self) -> dict[str, Tensor]:
        """Weights of a checkpoint by name, both trained and frozen ones."""
        return dict(self.model.named_parameters())

    def settle(self) -> None:
        """Compute the weights that are made of others; called before the model is saved."""

    def save(self, path: Path, settings: Mapping[str, Any]) -> None:
        """Write a checkpoint; the old file stays until the new one is whole and on disk."""
        tensors = {f"model/{name}": p.detach().clone() for name, p in self.weights().items()}
        for i, optimizer in enumerate(self.optimizers):
            tensors |= optimizer_tensors(optimizer, f"optimizer/{i}")
        header = {"settings": settings, "step": self.step, "seconds": self.seconds}
        write_state(path, tensors, header)

    def load(self, path: Path, settings: Mapping[str, Any]) -> None:
        """Go on from a checkpoint.

        Raises:
            DataError: not a checkpoint of this trainer, or one of a run with other settings.
        """
        tensors, header = read_state(path, "this trainer")
        if not isinstance(was := header.get("settings"), dict):
            raise DataError(f"{path}: not a checkpoint of this trainer (it has {sorted(header)})")
        same_settings(path, (k for k in {*was, *settings} if was.get(k) != settings.get(k)))
        with torch.no_grad():
            for name, p in self.weights().items():
                p.copy_(tensors[f"model/{name}"])
        for i, optimizer in enumerate(self.optimizers):
            load_optimizer(optimizer, tensors, f"optimizer/{i}")
        self.step, self.seconds = header["step"], header["seconds"]

    def advance(self) -> Progress:
        """Make one optimizer step on the next batch."""
        start = perf_counter()
        rows = [self.examples[i] for i in self._batch(self.step)]
        self.model.train()
        shown, right = self._backward(rows)
        # Muon's steps have one size whatever the gradient's: only AdamW's gradients are clipped
        groups = self.optimizers[0].param_groups
        parameters = [p for g in groups for p in g["params"]]
        norm = float(torch.nn.utils.clip_grad_norm_(parameters, self.config.clip))
        set_rate(self.optimizers, self._share(self.step))
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        self.step += 1
        spent = perf_counter() - start
        self.seconds += spent
        if not math.isfinite(shown):
            raise EngineError(f"the loss is {shown} at step {self.step}: lower the learning rates")
        tokens = self.tokens_of(self.step - 1)
        return Progress(self.step, self.config.steps, shown, right, tokens, spent, norm)

    def _backward(self, rows: Sequence[Example]) -> tuple[float, float]:
        """Gradients of a batch's loss, pass by pass; mean loss and accuracy of completion tokens.

        Rows pass in parts of like length and at most ``config.tokens`` padded tokens, whose losses
        add up to the batch's.
        """
        parts = _parts(rows, self.config.tokens)
        several = len(parts) > 1
        weights = [self._weight(part) if several else 1.0 for part in parts]
        written = [sum(int(row.own[1:].sum()) for row in part) if several else 1 for part in parts]
        shown = right = 0.0
        for part, weight, count in zip(parts, weights, written, strict=True):
            with self._precision():
                loss, nats, hits = self._loss(part)
            (loss * (weight / sum(weights))).backward()
            share = count / sum(written)
            shown, right = shown + nats * share, right + hits * share
        return shown, right

    def _weight(self, rows: Sequence[Example]) -> float:
        """Sum of the loss weights of all tokens but each row's first, which nothing predicts."""
        own = sum(int(row.own[1:].sum()) for row in rows)
        read = sum(len(row.ids) - 1 for row in rows) - own
        return own + self.config.prompt_weight * read

    def _loss(self, rows: Sequence[Example]) -> tuple[Tensor, float, float]:
        """Weighted mean loss; plain mean and accuracy over completion tokens. Logits are computed
        where there is a loss."""
        ids, own, real = padded(rows)
        asked = own[:, 1:] if not self.config.prompt_weight else real[:, 1:]
        line, column = asked.nonzero(as_tuple=True)
        goal, written = ids[line, column + 1], own[line, column + 1]
        device = self.model.device
        # padding stands on the right of a causal model: nothing before it sees it, no mask needed
        logits = logits_at(self.model, ids.to(device), line.to(device), column.to(device)).float()
        goal, written = goal.to(device), written.to(device)
        nats = torch.nn.functional.cross_entropy(logits, goal, reduction="none")
        right = (logits.detach().argmax(-1) == goal)[written].float().mean()
        plain = nats.detach()[written].mean()
        weight = torch.where(written, 1.0, self.config.prompt_weight)
        return (nats * weight).sum() / weight.sum(), float(plain), float(right)

    def _precision(self) -> AbstractContextManager[Any]:
        if self.dtype == torch.float32:
            return nullcontext()
        return torch.autocast(self.model.device.type, self.dtype)

    def _share(self, step: int) -> float:
        """Fraction of the full learning rates: warm-up, constant, decay."""
        config = self.config
        up = (step + 1) / max(config.warmup, 1)
        down = (config.steps - step) / max(config.cooldown * config.steps, 1)
        return min(1.0, up, max(down, 0.0))

    def _batch(self, step: int) -> list[int]:
        """Places of a step's examples: a pure function of the seed and the step."""
        per_epoch = math.ceil(len(self.examples) / self.config.batch)
        epoch, at = divmod(step, per_epoch)
        if self._order[0] != epoch:
            self._order = (epoch, list(self._epoch(epoch)))
        return self._order[1][at]

    def tokens_of(self, step: int) -> int:
        """Count the tokens of a step's batch, without padding; the first step is 0."""
        return sum(len(self.examples[i].ids) for i in self._batch(step))

    def _epoch(self, epoch: int) -> Iterator[list[int]]:
        draw = stream(self.config.seed, "epoch", epoch)
        order = draw.permutation(len(self.examples))
        size = self.config.batch
        batches: list[list[int]] = []
        windows = min(_BUCKET, max(1, len(order) // (size * _WINDOWS)))
        together = size * (1 if self.config.tokens else windows)
        for lo in range(0, len(order), together):
            part = sorted(order[lo : lo + together], key=lambda i: len(self.examples[i].ids))
            batches += [[int(i) for i in part[j : j + size]] for j in range(0, len(part), size)]
        yield from (batches[i] for i in draw.permutation(len(batches)))


def _parts(rows: Sequence[Example], tokens: int) -> list[Sequence[Example]]:
    """Rows that pass together: all, or those of like length within ``tokens`` padded tokens."""
    if not tokens:
        return [rows]
    lengths = [len(row.ids) for row in rows]
    return [[rows[i] for i in part] for part in micro_batches(lengths, tokens)]


def train(
    trainer: SftTrainer,
    tokenizer: Any,
    out: str | os.PathLike[str],
    *,
    about: dict[str, Any] | None = None,
    started: Callable[[], object] | None = None,
    save_every: int = 100,
    log_every: int = 10,
    report: Callable[[Progress], None] | None = None,
    lock: FolderLock | None = None,
) -> SftTrainer:
    """Train to the last step in folder ``out``, resuming from what is there.

    Args:
        about: Settings, as JSON values, that must be those of the run in ``out``.
        started: Called before the first step of this call, if there is one to make.
        save_every: Most steps between checkpoints, which are five minutes apart at most, too: what
            a kill loses.
        log_every: Steps per row of the log.
        report: Called after each step.
        lock: A lock on ``out`` that the caller holds already.

    Raises:
        KeyboardInterrupt: Ctrl-C or SIGTERM, after the step that was under way was saved.
        DataError: ``out`` holds another run, another training is writing it, or it cannot be
            written (disk full).
    """
    out = Path(out)
    with lock or FolderLock(out):
        settings = {
            "config": asdict(trainer.config),
            "examples": len(trainer.examples),
            **(about or {}),
        }
        settings = json.loads(json.dumps(settings))
        if (out / STATE).exists():
            trainer.load(out / STATE, settings)
        lines = _logged(out / LOG, trainer.step)
        _keep_tokenizer(tokenizer, out)
        if started is not None and trainer.step < trainer.config.steps:
            started()
        seen: list[Progress] = []
        saved = monotonic()
        write_whole(out / LOG, "".join(lines))
        with patient() as asked:
            while trainer.step < trainer.config.steps:
                seen.append(trainer.advance())
                last = asked() or trainer.step == trainer.config.steps
                if report is not None:
                    report(seen[-1])
                give_back()
                if last or trainer.step % log_every == 0:
                    with writing(out / LOG), (out / LOG).open("a", encoding="utf-8") as log:
                        log.write(json.dumps(_row(seen)) + "\n")
                    seen.clear()
                if last or not trainer.step % save_every or monotonic() - saved > _SAVE_SECONDS:
                    trainer.settle()
                    _save_model(trainer.model, out)
                    trainer.save(out / STATE, settings)
                    saved = monotonic()
                if last and trainer.step < trainer.config.steps:
                    raise KeyboardInterrupt
    return trainer


def _save_model(model: Any, out: Path) -> None:
    try:
        with writing(out):
            model.save_pretrained(out)
    except SafetensorError as error:
        raise DataError(f"{out} cannot be written: {error}") from error


def _keep_tokenizer(tokenizer: Any, out: Path) -> None:
    """Save it beside the weights; ``DataError`` if they were trained with another one."""
    saved = out / "tokenizer.json"
    if not saved.exists() or not (out / STATE).exists():  # it binds only with weights
        tokenizer.save_pretrained(out)
        return
    inner = getattr(tokenizer, "backend_tokenizer", None)  # tokenizers in Python have none
    if inner is None:
        return
    before, now = read_json(saved), json.loads(inner.to_str())
    if any(before[part] != now[part] for part in ("model", "added_tokens")):
        raise DataError(
            f"{saved} was made of other texts than today's, which an update of the package can "
            "change: train in another folder"
        )


def _row(seen: Sequence[Progress]) -> dict[str, float]:
    spent = sum(p.seconds for p in seen)
    return {
        "step": seen[-1].step,
        "loss": round(float(np.mean([p.loss for p in seen])), 5),
        "mean_token_accuracy": round(float(np.mean([p.accuracy for p in seen])), 5),
        "grad_norm": round(float(np.mean([p.grad_norm for p in seen])), 5),
        "tokens_per_s": round(sum(p.tokens for p in seen) / max(spent, 1e-9), 1),
        "update_s": round(spent, 3),
    }


def _logged(path: Path, step: int) -> list[str]:
    """The log's lines up to a step: a killed run has logged more than it saved."""
    if not path.exists():
        return []
    kept = []
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
        try:
            if line.endswith("\n") and parse_json(line, path)["step"] <= step:
                kept.append(line)
        except (ValueError, KeyError):
            continue  # the line the kill cut short
    return kept
