"""A causal LM: loading it, its forward passes over rows of unequal length (left padding, one
growing cache), and drawing tokens from its logits."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import EngineError, MissingExtraError, SearchGymError
from ..storage.files import read_json
from ..utils.hardware import keep_few_kernels
from ..utils.trust import refuse, registered_only, untrusted
from .adapters import CONFIG, base_of, is_adapter, merge_adapter, require_all, require_one
from .base import Floats, Ids, Sampling
from .caches import Past, extract, joined
from .models import resolve
from .prompts import check_template

if TYPE_CHECKING:
    from torch import Tensor

    from .decoding import Slots


def load(path: str, device: str = "auto", dtype: str = "auto", **options: Any) -> tuple[Any, Any]:
    """Load a model, in evaluation mode, and its tokenizer from a folder, a GGUF file, a name of
    :data:`~searchgym.llms.models.MODELS` or a hub name. Of a PEFT folder the adapter is merged into
    the model that it names.

    ``device`` "auto": a GPU if there is one, and "cuda": of several processes on one machine each
    takes its own (``LOCAL_RANK``). ``dtype`` "auto": the checkpoint's, else e.g. "float32".
    Further options go to ``from_pretrained``. Weights are safetensors, and no Python of the folder
    is run, unless you pass ``trust_remote_code=True``. A file of others (``utils.trust``), an
    adapter's among them, names a model of this machine. ``EngineError`` if nothing can be loaded,
    or the files lack a weight or have one that the model does not know.
    """
    try:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer
    except ImportError as error:
        raise MissingExtraError("a transformers language model", "llm") from error
    keep_few_kernels()
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and (local := os.environ.get("LOCAL_RANK", "")).isdecimal():
        device = f"cuda:{int(local) % max(torch.cuda.device_count(), 1)}"  # as accelerate counts
    for name in options:
        refuse(f"the option {name!r} of loading a model")
    adapter = path if is_adapter(path) else None
    with registered_only(Path(path) / CONFIG) if adapter is not None else nullcontext():
        base = resolve(path if adapter is None else base_of(adapter))
        offline = untrusted()
    require_one(base)
    _require_plain(Path(base))
    known = {"trust_remote_code": options.pop("trust_remote_code", False),
             "local_files_only": offline or options.pop("local_files_only", False)}  # fmt: skip
    try:
        # an adapter's folder need not hold a tokenizer
        own = adapter is not None and (Path(adapter) / "tokenizer_config.json").is_file()
        tokenizer = AutoTokenizer.from_pretrained(adapter if own else base, **known)
        check_template(tokenizer)
        model, info = AutoModelForCausalLM.from_pretrained(
            base, dtype=dtype, output_loading_info=True, use_safetensors=True, **known, **options
        )
        require_all(info["missing_keys"], info["unexpected_keys"])
        if adapter is not None:
            model = merge_adapter(model, adapter)
        return model.to(device).eval(), tokenizer
    except SearchGymError:
        raise
    except Exception as error:  # what transformers and torch raise for a value varies
        told = "".join(f", {name}={value!r}" for name, value in options.items())
        where = "" if Path(base).exists() else ": no such folder here, so the hub was asked"
        raise EngineError(
            f"cannot load a causal LM from {base!r}{where} (device={device!r}, dtype={dtype!r}"
            f"{told}): {error}. Expected a folder with config.json, weights and tokenizer, a name "
            "of 'searchgym models', or a hub name"
        ) from error


def _require_plain(folder: Path) -> None:
    """Check the settings in a model's folder before transformers reads them.

    Raises:
        DataError: one of the files is broken.
        EngineError: it names a kernel of the hub, which would be fetched and run.
    """
    for name in ("config.json", "tokenizer_config.json", "generation_config.json"):
        if not (folder / name).is_file():
            continue
        settings = read_json(folder / name, nan=True)
        for key, value in settings.items() if isinstance(settings, dict) else ():
            if key.endswith("_implementation") and ("/" in str(value) or ":" in str(value)):
                raise EngineError(f"{folder / name} names a kernel of the hub, {key}={value!r:.80}")


def loaded(
    model: Any, tokenizer: Any, device: str, dtype: str, options: Mapping[str, Any]
) -> tuple[Any, Any]:
    """``load`` for a folder or hub name; a model object is taken as it is, with its tokenizer."""
    if isinstance(model, str | os.PathLike):
        made, own = load(os.fspath(model), device, dtype, **options)
        return made, tokenizer or own
    if tokenizer is None or options:
        raise EngineError("a model object needs its tokenizer beside it, and no load options")
    return model, tokenizer


def continues(config: Any) -> bool:
    """True if keys kept from one turn are those that reading everything anew would give: not where
    attention counts the columns of the cache, padding among them, as its window (GPT-Neo), nor
    where positions may be rotated by how long the longest row is."""
    local = "local" in (getattr(config, "attention_layers", None) or ())
    return not local and follows_the_longest(config) is None


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """Disable dropout and gradients, then restore the model's training mode."""
    import torch

    training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        model.train(training)


class Running:
    """Rows that are being continued together; ``logits`` (B, V) are those of the next token.

    Padding stands on the left, so that the newest token of every row is in the same column; the
    mask hides it and positions are counted without it, which makes a row's numbers those it has
    alone. Equal prompts are read once. Of a prompt in ``pasts`` only what follows is read. Memory
    is set aside for ``room`` tokens of each at a time.
    """

    def __init__(
        self, model: Any, prompts: Sequence[Ids], pad: int, pasts: Mapping[Ids, Past] | None = None,
        room: int = 64,
    ) -> None:  # fmt: skip
        import torch

        self.model = model
        self._takes = set(inspect.signature(model.forward).parameters)
        self._continues = continues(model.config)
        self._limited = follows_the_longest(model.config) is not None
        unique = list(dict.fromkeys(prompts))
        known = [(pasts or {}).get(prompt) for prompt in unique]
        new = [p[past.length :] if past else p for p, past in zip(unique, known, strict=True)]
        ids, self._mask = left_padded(new, pad, model.device)
        self._cache: Any = None
        self._slots: Slots | None = None
        self.room = room
        self._name = "cache" if "cache" in self._takes else "past_key_values"  # its older name
        if any(known):  # between past and new ids there may be padding, which the mask hides, too
            self._cache, seen = joined(known)
            self._mask = torch.cat([seen, self._mask], dim=1)
        self.logits: Tensor
        self._forward(ids, self._positions()[:, -ids.shape[1] :])
        if len(unique) < len(prompts):
            where = {prompt: i for i, prompt in enumerate(unique)}
            self.keep(torch.tensor([where[p] for p in prompts], device=model.device))

    def __len__(self) -> int:
        return int(self.logits.shape[0])

    def step(self, ids: Tensor) -> None:
        """Append one token (B,) to every row."""
        import torch

        if self._in_slots():
            assert self._slots is not None
            self.logits = self._slots.step(ids)
            return
        one = torch.ones_like(self._mask[:, :1])
        self._mask = torch.cat([self._mask, one], dim=1)
        self._forward(ids[:, None], self._positions()[:, -1:])

    def keep(self, rows: Tensor) -> None:
        """Go on with these rows only (in this order, repetitions allowed)."""
        if self._slots is not None and len(rows.unique()) < len(rows):
            self._grow()
        if self._slots is not None:
            self._slots.keep(rows)
        else:
            self._cache.reorder_cache(rows)
            self._mask = self._mask.index_select(0, rows)
        self.logits = self.logits.index_select(0, rows)

    def past(self, row: int) -> Past | None:
        """Return the keys and values of a row; ``None`` if that cannot be continued later."""
        if "position_ids" not in self._takes or not self._continues:
            return None
        if self._slots is not None:
            return self._slots.past(row)
        return extract(self._cache, self._mask, row)

    def _in_slots(self) -> bool:
        """Move the rows into slots with room, unless the model's cannot be; says whether they are
        there."""
        from .decoding import Slots, possible

        if self._slots is not None and self._slots.full:
            self._grow()
        alone = self._continues and not self._limited
        if self._slots is None and alone and possible(self.model, self._takes, self._cache):
            self._slots = Slots(self.model, self._cache, self._mask, self._name, self.room)
            self._cache = None
        return self._slots is not None

    def _grow(self) -> None:
        """Take the rows out of their slots."""
        if self._slots is not None:
            self._cache, self._mask = self._slots.grown()
            self._slots = None

    def _positions(self) -> Tensor:
        return (self._mask.cumsum(-1) - 1).clamp(min=0)

    def _forward(self, ids: Tensor, positions: Tensor) -> None:
        if self._limited:
            check_length(self.model, int(positions.max()) + 1)
        extra: dict[str, Any] = {}
        if "position_ids" in self._takes:
            extra["position_ids"] = positions
        if "logits_to_keep" in self._takes:
            extra["logits_to_keep"] = _last(ids, 1)
        extra[self._name] = self._cache
        out = self.model(input_ids=ids, attention_mask=self._mask, use_cache=True, **extra)
        self._cache = getattr(out, self._name, None)
        if self._cache is None:
            raise EngineError(
                f"{type(self.model).__name__} hands no {self._name} back: its turns cannot be "
                "written token by token here; use a model whose state transformers caches"
            )
        self.logits = out.logits[:, -1]


def _last(ids: Tensor, count: int) -> Tensor:
    """Places of the last columns of (B, T) ids, for which a model is to compute logits.

    Given a number, transformers slices the hidden states, and PyTorch multiplies a slice by weights
    that need no gradient one row at a time: in bfloat16 on a CPU, a second for each row of a model
    with 150,000 tokens. Places are copied.
    """
    import torch

    length = ids.shape[1]
    return torch.arange(length - min(count, length), length, device=ids.device)


def left_padded(rows: Sequence[Ids], pad: int, device: Any) -> tuple[Tensor, Tensor]:
    """Ids and mask, (B, T) each."""
    import torch

    width = max(map(len, rows))
    ids = torch.tensor([[pad] * (width - len(r)) + list(r) for r in rows], device=device)
    mask = torch.tensor([[0] * (width - len(r)) + [1] * len(r) for r in rows], device=device)
    return ids, mask


def score_rows(model: Any, pairs: Sequence[tuple[Ids, Ids]], pad: int) -> list[Floats]:
    """Log-probabilities (N,) of each non-empty continuation after its non-empty context."""
    takes = inspect.signature(model.forward).parameters
    check_length(model, max(len(a) + len(b) for a, b in pairs))
    ids, mask = left_padded([(*a, *b) for a, b in pairs], pad, model.device)
    extra: dict[str, Any] = {}
    if "position_ids" in takes:
        extra["position_ids"] = (mask.cumsum(-1) - 1).clamp(min=0)
    longest = max(len(b) for _, b in pairs)
    if "logits_to_keep" in takes:  # continuations end in the last column: these see them all
        extra["logits_to_keep"] = _last(ids, longest + 1)
    out = model(input_ids=ids, attention_mask=mask, use_cache=False, **extra)
    logits = out.logits[:, -longest - 1 : -1]
    scores: list[Floats] = []
    for row, (_, continuation) in enumerate(pairs):  # row by row: (B, N, V) in float32 is large
        logp = logits[row, -len(continuation) :].float().log_softmax(-1)
        picked = logp.gather(-1, ids[row, -len(continuation) :, None])[:, 0]
        scores.append(picked.cpu().numpy())
    return scores


_FOLLOW = {"dynamic", "longrope"}


def follows_the_longest(config: Any) -> int | None:
    """Return the number of tokens up to which positions do not depend on other rows; ``None``: they
    never do."""
    rope = getattr(config, "rope_parameters", None) or {}
    ropes = [rope, *(r for r in rope.values() if isinstance(r, Mapping))]
    name = "original_max_position_embeddings"
    limits = [
        r.get(name) or getattr(config, name, None) or config.max_position_embeddings
        for r in ropes
        if r.get("rope_type") in _FOLLOW
    ]
    return min(map(int, limits), default=None)


def check_length(model: Any, tokens: int) -> None:
    """``EngineError`` for a row of so many tokens that would change those beside it."""
    limit = follows_the_longest(model.config)
    if limit is not None and tokens > limit:
        raise EngineError(
            f"{type(model).__name__} turns positions by the longest row of a batch beyond {limit} "
            f"tokens (rope_type dynamic or longrope), and a row has {tokens}: rows would not get "
            "the numbers they have alone. Keep contexts shorter, or load the model with another "
            'rope_type, for instance {"rope_type": "yarn", …}'
        )


class Drawn(NamedTuple):
    """One token per row: (B,) each. ``logp`` and ``entropy`` are of the untempered distribution."""

    ids: Tensor
    logp: Tensor
    entropy: Tensor


def draw(logits: Tensor, sampling: Sequence[Sampling], uniform: Sequence[float]) -> Drawn:
    """Tokens from ``logits`` (B, V) by inverting each row's distribution function at ``uniform``.

    Order as in transformers and vLLM: temperature, then the ``top_k`` likeliest, then the smallest
    set of those whose mass reaches ``top_p``. Temperature 0 takes the likeliest (first of ties).
    """
    import torch

    logits = logits.float()
    logp = logits.log_softmax(-1)
    entropy = torch.special.entr(logp.exp()).sum(-1)
    if entropy.isnan().any():  # so it is for one NaN or +inf among a row's logits, or -inf alone
        raise EngineError(
            "the model gives NaN or infinite logits, which are no distribution: check its weights "
            'and load it in a wider dtype, e.g. "float32"'
        )
    ids = logits.argmax(-1)
    if any(s.temperature > 0 for s in sampling):
        heat = torch.tensor([s.temperature or 1.0 for s in sampling], device=logits.device)
        scaled = logits / heat[:, None]
        if any(s.top_k or s.top_p < 1 for s in sampling):
            scaled = _limit(scaled, sampling)
        wide = torch.float32 if logits.device.type == "mps" else torch.float64
        mass = scaled.to(wide).softmax(-1).cumsum(-1)
        total = mass[:, -1:].contiguous()
        at = torch.tensor(uniform, dtype=wide, device=logits.device)[:, None] * total
        at = torch.minimum(at, torch.nextafter(total, torch.zeros_like(total)))
        sampled = torch.searchsorted(mass, at, right=True)[:, 0]  # first token with mass above at
        hot = torch.tensor([s.temperature > 0 for s in sampling], device=logits.device)
        ids = torch.where(hot, sampled, ids)
    return Drawn(ids, logp.gather(-1, ids[:, None])[:, 0], entropy)


def _limit(scaled: Tensor, sampling: Sequence[Sampling]) -> Tensor:
    """``scaled`` with -inf outside each row's top-k and nucleus (ties: lower ids first)."""
    import torch

    size = scaled.shape[-1]
    k = torch.tensor([s.top_k or size for s in sampling], device=scaled.device)
    p = torch.tensor([s.top_p for s in sampling], device=scaled.device)
    ordered, order = scaled.sort(stable=True, dim=-1, descending=True)
    rank = torch.arange(size, device=scaled.device)
    ordered = ordered.masked_fill(rank >= k[:, None], -torch.inf)
    mass = ordered.softmax(-1)
    before = mass.cumsum(-1) - mass
    outside = (before >= p[:, None]) & (p[:, None] < 1) & (rank > 0)
    ordered = ordered.masked_fill(outside, -torch.inf)
    return torch.empty_like(scaled).scatter_(-1, order, ordered)
