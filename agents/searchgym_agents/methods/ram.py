"""Reinforced Agent Merging: one model of several that were trained from the same one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from searchgym.cli.output import JsonFlag, print_facts, with_examples, working
from searchgym.errors import CardError, DataError, EngineError
from searchgym.plugins import register

if TYPE_CHECKING:
    from torch import Tensor

Weights = Mapping[str, "Tensor"]


def merge_weights(
    start: Weights, trained: Sequence[Weights], *, scale: float = 1.1, least: float = 1e-5
) -> dict[str, Tensor]:
    """Merge models by what training changed (RAM, arXiv 2601.13572).

    A weight that two or more models changed moves by the mean of their changes. One that a single
    model j changed moves by s_j times its change, with s_j = 1 + (scale − 1) · (the share of j's
    changed weights that others changed, too), since the mean takes most from models that overlap.

    Args:
        start: Weights of the model that all were trained from.
        trained: Weights of the trained models, with the same names and shapes.
        scale: The paper's r, from 1 (no scaling).
        least: Changes up to this count as none.

    Raises:
        CardError: fewer than one model, a scale below 1 or a negative ``least``.
        EngineError: names or shapes that differ from those of ``start``.
    """
    import torch

    if not trained or not scale >= 1 or not least >= 0:
        raise CardError(
            f"merging takes at least one model, scale >= 1 and least >= 0; got {len(trained)}, "
            f"{scale} and {least}"
        )
    for weights in trained:
        if {n: w.shape for n, w in weights.items()} != {n: w.shape for n, w in start.items()}:
            raise EngineError("only models that were trained from the same one can be merged: "
                              "their weights differ in names or shapes")  # fmt: skip

    def changes(name: str) -> tuple[Tensor, Tensor]:
        base = start[name].float()
        moved = torch.stack([weights[name].float() - base for weights in trained])
        return moved, moved.abs() > least

    changed, shared = torch.zeros(len(trained)), torch.zeros(len(trained))
    names = [name for name, weight in start.items() if weight.is_floating_point()]
    for name in names:
        active = changes(name)[1]
        both = active & (active.sum(0) > 1)
        changed += active.flatten(1).sum(1)
        shared += both.flatten(1).sum(1)
    scales = 1 + (scale - 1) * shared / changed.clamp(min=1)
    merged = dict(start)
    for name in names:
        moved, active = changes(name)
        count = active.sum(0)
        alone = scales.reshape(-1, *[1] * start[name].dim())
        factor = torch.where(count > 1, 1 / count.clamp(min=1), alone)
        step = (factor * moved * active).sum(0)
        merged[name] = (start[name].float() + step).to(start[name].dtype)
    return merged


@register("command:models merge")
@with_examples("searchgym models merge smollm2-135m runs/two-hop/model runs/refuses/model")
def models_merge(
    start: Annotated[str, typer.Argument(metavar="START", help="Model that all come from.")],
    trained: Annotated[list[str], typer.Argument(metavar="MODEL", help="Trained ones' folders.")],
    out: Annotated[Path, typer.Option(help="Folder of the merged model.")] = Path("runs/merged"),
    scale: Annotated[
        float, typer.Option(min=1, help="How far a model's own changes may be stretched.")
    ] = 1.1,
    as_json: JsonFlag = False,
) -> None:
    """Merge models that were trained from the same one, by their weights, without training.

    Each may have learnt something else. All of them are held in memory. The prompt format and
    sampling are those of the first.
    """
    from searchgym.cli.live import quiet_loading
    from searchgym.llms.models import resolve
    from searchgym.policies import TrainableLM, read_note, sampling_of

    if out.exists() and any(out.iterdir()):
        raise DataError(f"{out} is not empty; name another folder with --out")
    with working(f"merging {len(trained)} models …"), quiet_loading():
        first, *others = [TrainableLM(model, device="cpu") for model in (*trained, start)]
        before = others.pop().merged()
        weights = [lm.merged() for lm in (first, *others)]
        first.model.load_state_dict(merge_weights(before, weights, scale=scale))
        note = read_note(resolve(trained[0]))
        sampling = sampling_of(note.get("sampling", {}))
        first.save(out, policy=first.policy(reuse_tokens=0, sampling=sampling))
    facts = {"model": str(out), "merged": ", ".join(trained), "trained from": start}
    print_facts(out.name, facts, as_json)
