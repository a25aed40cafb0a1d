"""A causal LM in training: full weights or LoRA, log-probabilities, a frozen reference, saving."""

from __future__ import annotations

import copy
import os
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import DataError, EngineError
from ..llms.acceleration import compile_layers
from ..llms.adapters import plain_name, with_adapters
from ..llms.caches import tokens_that_fit
from ..llms.causal import check_length, loaded
from ..llms.models import name_of
from ..llms.transformers_generator import TransformersGenerator
from ..storage.checkpoint import full_tensor, placed
from ..storage.files import writing
from .causal_lm import CausalLMPolicy
from .lora import Lora as Lora
from .lora import add_adapters, tied_names
from .model_folder import AUTO, default_renderer, read_note, renderer_name, save_note
from .rows import TrainingRow
from .scoring import TokenScores, score

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Parameter


REFERENCE = "reference."
"""Beginning of the names of the reference's weights (:meth:`TrainableLM.untrained`)."""
REUSED = 0.2
"""Share of a GPU's memory for keys and values that a policy in training keeps between turns."""


class TrainableLM:
    """One set of weights that both samples (:meth:`policy`) and is trained (:meth:`logp`).

    Dropout is switched off everywhere: with it, sampling and training would see different
    distributions.

    Args:
        model: A folder (also a PEFT adapter's, which is merged), a name of ``searchgym models``, a
            hub name, or a model with its ``tokenizer``.
        lora: Train adapters only; needs the extra ``lora``.
        reference: Keep a frozen copy for :meth:`reference_logp`. Not needed with ``lora``, where
            the reference is the model with its adapters off.
        device: ``"auto"`` takes a GPU if there is one.
        dtype: ``"float32"``, ``"bfloat16"``, …, ``"auto"``: the checkpoint's. Adapters are float32.
        gradient_checkpointing: Compute activations twice instead of keeping them.
        tokens: Padded tokens of one forward pass of :meth:`logp`.
        freeze: Patterns of names of parameters that are not trained, e.g. ``"*embed_tokens*"``.
            Optimizers that scale each number's gradient move a large vocabulary's rarest rows as
            fast as its commonest, which in a few dozen noisy updates is mostly harm.
        temperature: Divides logits wherever the model is asked, when it samples and when it is
            trained: the policy that is trained is the sharper one, as in TRL and verl, while
            ``Sampling.temperature`` only changes what is drawn. Of a small model at 1, most samples
            are wrong by accident. Greedy text is the same with any, and weights are saved without.
        compile: Compile the layers for training (:mod:`searchgym.llms.acceleration`): worth its
            half minute on a GPU, where small operations take most of the time.
        autocast: ``"bfloat16"`` computes the matrix products of training in it, of weights that
            stay as they are (half the time where the machine has such products); sampling does not
            change, see ``play_dtype``. ``"auto"``: on accelerators, and on CPUs that gain by it
            (:func:`~searchgym.llms.acceleration.fast_dtype`). float16 would need scaled gradients.
        play_dtype: Let policies play a copy of the weights in this dtype, renewed after each step:
            a token that is written reads every weight, and of ``"bfloat16"`` that is half the
            bytes. Without, they play the weights that are trained. Old log-probabilities are then
            those of the trained weights (the recipe ``grpo_tis`` weighs by the difference).
        seed: Fixes the adapters' first weights.
        options: Passed to ``from_pretrained``.

    Raises:
        EngineError: nothing can be loaded, adapters fit nowhere, a pattern fits no name, a
            temperature is not positive, ``autocast`` is something else, or the layers cannot be
            compiled.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | Any,
        tokenizer: Any = None,
        *,
        lora: Lora | None = None,
        reference: bool = False,
        device: str = "auto",
        dtype: str = "auto",
        gradient_checkpointing: bool = False,
        tokens: int = 16_384,
        freeze: str | Sequence[str] = (),
        temperature: float = 1.0,
        autocast: str | None = None,
        play_dtype: str | None = None,
        compile: bool = False,
        seed: int = 0,
        **options: Any,
    ) -> None:
        self.model, tokenizer = loaded(model, tokenizer, device, dtype, options)
        self.tokenizer, self.tokens = tokenizer, tokens
        self.checkpointing = gradient_checkpointing
        self.autocast = _checked(autocast, self.model.device.type)
        self.play_dtype = play_dtype
        if play_dtype is not None:
            import torch

            if not isinstance(getattr(torch, play_dtype, None), torch.dtype):
                raise EngineError(f"play_dtype is bfloat16 or another of torch, got {play_dtype!r}")
            if lora is not None:
                raise EngineError("play_dtype copies whole weights: with lora give dtype instead")
        _without_dropout(self.model)
        self.freeze = (freeze,) if isinstance(freeze, str) else tuple(freeze)
        _freeze(self.model, self.freeze)
        if temperature != 1.0:
            _scale_logits(self.model, temperature)
        self._frozen: Any = None
        if reference and lora is None:
            self._frozen = copy.deepcopy(self.model).eval().requires_grad_(False)
        self._adapted = add_adapters(self.model, lora, seed) if lora is not None else None
        """PEFT's wrapper around ``self.model``, whose layers now hold adapters."""
        if self._adapted is not None:
            _save_merged(self)
        self.latest_policy: CausalLMPolicy | None = None
        """The policy that :meth:`policy` made last; :meth:`save` notes its prompt format."""
        self.latest_renderer: Any = None
        """The renderer as it was asked for, by name or as a table."""
        if gradient_checkpointing:
            enable = getattr(self.model, "activation_checkpointing_enable", None)  # the newer name
            enable = enable or self.model.gradient_checkpointing_enable
            enable({"use_reentrant": False})
        if compile:
            compile_layers(self.model)
        self.wrapped: Any = self.model
        """The module that computes with gradient: the model, or its wrapper of processes."""
        self.passes: Callable[[int], int] | None = None
        """Number of forward passes to make, see :func:`~searchgym.policies.scoring.score`."""
        pad = tokenizer.pad_token_id
        self.pad = int(pad if pad is not None else tokenizer.eos_token_id or 0)

    @property
    def dtype(self) -> Any:
        """Dtype of matrix products in training."""
        import torch

        return torch.bfloat16 if self.autocast else self.model.dtype

    # --- sampling -----------------------------------------------------------------------------
    def generator(self, **options: Any) -> TransformersGenerator:
        """A generator over the same weights, or over a copy in ``play_dtype``; ``options`` as of
        ``TransformersGenerator``."""
        model = self.model
        if self.play_dtype is not None:
            import torch

            model = copy.deepcopy(model).requires_grad_(False).to(getattr(torch, self.play_dtype))
        return TransformersGenerator(model, self.tokenizer, **options)

    def policy(
        self, renderer: Any = AUTO, *, reuse_tokens: int | None = None, **options: Any
    ) -> CausalLMPolicy:
        """Make a policy over the same weights; call its ``weights_changed`` after each step.

        Args:
            renderer: See :class:`CausalLMPolicy`, or ``"auto"``: the prompt format that the
                model's folder notes, else chat where the tokenizer has a template, else plain.
            reuse_tokens: Tokens whose keys and values are kept from turn to turn, until the weights
                change; without, each turn reads everything again and rollouts take twice as long.
                0 saves the memory (12 KB a token for half a billion parameters in half precision).
                Default: 65,536, or as many as fill a fifth of the GPU's memory.
            options: Passed to :class:`CausalLMPolicy`.
        """
        if renderer == AUTO:
            source = getattr(self.model, "merged_adapter", None) or self.model.name_or_path
            note = read_note(source) if source else {}
            renderer = note.get("renderer") or default_renderer(self.tokenizer)
        if reuse_tokens is None:
            reuse_tokens = tokens_that_fit(self.model, REUSED)
        generator = self.generator(reuse_tokens=reuse_tokens)
        self.latest_renderer = renderer
        self.latest_policy = CausalLMPolicy(generator, renderer, **options)
        return self.latest_policy

    @property
    def has_reference(self) -> bool:
        """True if :meth:`reference_logp` can be asked: adapters, or a frozen copy."""
        return self._adapted is not None or self._frozen is not None

    @property
    def has_copy(self) -> bool:
        """True if the reference is a copy of the weights: :meth:`blend_reference` can move it."""
        return self._frozen is not None

    # --- training -----------------------------------------------------------------------------
    def parameters(self) -> list[Parameter]:
        """The parameters that are trained."""
        return [p for p in self.model.parameters() if p.requires_grad]

    def logp(self, rows: Sequence[TrainingRow]) -> Tensor:
        """(B, T) log-probabilities of the rows' sampled tokens, 0 elsewhere; with gradient."""
        return self.score(rows).logp

    def score(
        self, rows: Sequence[TrainingRow], *, entropy: bool = False, measures: Collection[str] = (),
        among: Sequence[int] | None = None,
    ) -> TokenScores:  # fmt: skip
        """Compute :meth:`logp`, with entropies if wanted, and measures of
        :data:`searchgym.policies.scoring.TOKEN_MEASURES`, which are without gradient; ``among``
        as in :func:`searchgym.policies.scoring.score`."""
        import torch

        check_length(self.model, max(map(len, rows), default=0))
        # transformers checkpoints in training mode only
        graded = torch.is_grad_enabled()
        self.model.train(self.checkpointing and graded)
        model = self.wrapped if graded else self.model
        with self._precision():
            return score(
                model, rows, pad=self.pad, tokens=self.tokens, entropy=entropy, measures=measures,
                among=among, passes=self.passes,
            )  # fmt: skip

    def reference_logp(self, rows: Sequence[TrainingRow]) -> Tensor:
        """Log-probabilities (B, T) under the weights before training; without gradient.

        Raises:
            EngineError: full weights without ``reference=True``.
        """
        import torch

        check_length(self.model, max(map(len, rows), default=0))
        if self._adapted is None and self._frozen is None:
            raise EngineError(
                "no reference was kept: TrainableLM(…, reference=True) or lora=Lora()"
            )
        with torch.no_grad(), self._precision(), self._as_reference() as model:
            return score(model, rows, pad=self.pad, tokens=self.tokens).logp

    def _precision(self) -> AbstractContextManager[Any]:
        import torch

        device = self.model.device.type
        return torch.autocast(device, torch.bfloat16) if self.autocast else nullcontext()

    @contextmanager
    def _as_reference(self) -> Iterator[Any]:
        if self._adapted is None:
            yield self._frozen
            return
        self.model.eval()
        with self._adapted.disable_adapter():
            yield self.model

    # --- weights ------------------------------------------------------------------------------
    def place_reference(self, device: Any) -> None:
        """Move the frozen copy, if there is one, to where the model goes."""
        if self._frozen is not None:
            self._frozen.to(device)

    def blend_reference(self, share: float) -> None:
        """Move the frozen copy's weights by ``share`` of their way to the model's: 1 replaces them.
        All processes with shards of a model must call it together.

        Raises:
            EngineError: no copy is kept: adapters' reference is the model without them.
        """
        import torch

        copied = self._copied()
        with torch.no_grad():
            for name, p in self.model.named_parameters():
                if p.requires_grad:
                    copied[name].lerp_(full_tensor(p.detach()).to(copied[name]), share)

    def reference_state(self) -> dict[str, Tensor]:
        """The frozen copy's weights of what is trained, by name, on the CPU. Errors as
        :meth:`blend_reference`."""
        copied = self._copied()
        trained = [n for n, p in self.model.named_parameters() if p.requires_grad]
        return {name: copied[name].detach().to("cpu", copy=True) for name in trained}

    def load_reference_state(self, weights: Mapping[str, Tensor]) -> None:
        """Take back what :meth:`reference_state` gave."""
        import torch

        copied = self._copied()
        with torch.no_grad():
            for name, value in weights.items():
                copied[name].copy_(value)

    def _copied(self) -> dict[str, Parameter]:
        if self._frozen is None:
            raise EngineError(
                "no copy of the weights is kept that could move: TrainableLM(…, reference=True), "
                "without adapters, whose reference is the model with them off"
            )
        return dict(self._frozen.named_parameters())

    def state_dict(self) -> dict[str, Tensor]:
        """The trained weights by name, on the CPU: of adapters, or all that are not frozen."""
        return {
            name: full_tensor(p.detach()).to("cpu", copy=True)
            for name, p in self.model.named_parameters()
            if p.requires_grad
        }

    def load_state_dict(self, weights: Mapping[str, Tensor]) -> None:
        """Take back what :meth:`state_dict` gave. ``EngineError`` if names or shapes differ."""
        import torch

        own = {n: p for n, p in self.model.named_parameters() if p.requires_grad}
        wrong = set(own) ^ set(weights) or {n for n in own if own[n].shape != weights[n].shape}
        if wrong:
            raise EngineError(
                f"these weights do not fit what is trained here: {', '.join(sorted(wrong)[:5])}"
            )
        with torch.no_grad():
            for name, p in own.items():
                p.copy_(placed(weights[name], p))

    def untrained(self) -> Iterator[tuple[str, Tensor]]:
        """Weights by name that :meth:`state_dict` lacks: frozen ones and the reference's."""
        models = (("", self.model), (REFERENCE, self._frozen))
        for prefix, model in models:
            for name, p in model.named_parameters() if model is not None else ():
                if not p.requires_grad:
                    yield prefix + name, p.detach()

    def save(
        self,
        folder: str | os.PathLike[str],
        *,
        adapter: bool = False,
        policy: CausalLMPolicy | None = None,
        write: bool = True,
    ) -> Path:
        """Save trained weights, tokenizer and prompt format as ``transformers`` loads them.

        Args:
            folder: Target folder; created if it does not exist.
            adapter: Save LoRA adapters alone, as a PEFT folder. By default they are merged into the
                weights, and the folder stands by itself.
            policy: The policy whose renderer and sampling are noted in ``searchgym.json``.
            write: True if this process writes. Of several processes with sharded weights all must
                call, and one writes.

        Raises:
            EngineError: ``adapter`` without adapters, or of a model that is in no folder.
            DataError: the folder cannot be written (disk full).
        """
        from safetensors import SafetensorError

        folder = Path(folder)
        weights = None if adapter else self.merged()
        if adapter:
            self.require_adapter()
        if not write:
            return folder
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            try:
                if weights is None:
                    self.save_adapter(folder)
                else:
                    self.save_weights(folder, weights)
            except SafetensorError as error:  # disk full
                raise DataError(f"{folder} cannot be written: {error}") from error
            self.tokenizer.save_pretrained(folder)
        latest = self.latest_policy
        policy = policy or latest
        if policy is not None:
            same = latest is not None and policy.renderer is latest.renderer
            renderer = self.latest_renderer if same else None
            if not isinstance(renderer, str | Mapping):
                renderer = renderer_name(policy.renderer)
            save_note(folder, renderer, policy.sampling, self.freeze)
        return folder

    def save_weights(self, folder: str | os.PathLike[str], weights: Mapping[str, Tensor]) -> None:
        """Save a whole state dict (:meth:`merged`) with the model's configuration. Tied weights are
        written once."""
        whole = dict(weights)
        for tied in tied_names(self.model):
            for name in tied[1:]:
                if whole[name].equal(whole[tied[0]]):
                    whole[name] = whole[tied[0]]  # one tensor: transformers writes it once
                else:  # adapters on one of the two
                    raise EngineError(
                        f"{name} is tied to {tied[0]}, but adapters changed one of them: leave "
                        "the output layer and the embeddings out of lora targets"
                    )
        save = type(self.model).save_pretrained
        save(self.model, os.fspath(folder), state_dict=whole)

    def require_adapter(self) -> None:
        """Raise ``EngineError`` if no adapter of this model can be saved by itself."""
        if self._adapted is None:
            raise EngineError(
                "there are no adapters: all weights are trained; save without adapter=True, or "
                "train with TrainableLM(…, lora=Lora())"
            )
        if getattr(self.model, "merged_adapter", None):
            raise EngineError(
                f"these adapters belong to a model with {self.model.merged_adapter} merged in, "
                "which is in no folder: save without adapter=True"
            )
        if not self.model.name_or_path:
            raise EngineError(
                "an adapter names its model's folder, and this model was not loaded from one: "
                "save without adapter=True"
            )

    def save_adapter(self, folder: str | os.PathLike[str]) -> None:
        """Save the adapters as a PEFT folder. ``EngineError`` as :meth:`require_adapter`."""
        self.require_adapter()
        adapted: Any = self._adapted
        name = self.model.name_or_path
        base = name_of(name) or (str(Path(name).resolve()) if Path(name).is_dir() else name)
        config = adapted.peft_config["default"]
        config.base_model_name_or_path = base
        adapted.save_pretrained(os.fspath(folder), save_embedding_layers=False)

    def merged(self) -> dict[str, Tensor]:
        """A whole state dict on the CPU, named as the plain model's, with adapters added in: for
        generators with a copy of the weights (``VllmGenerator.update_weights``)."""
        import torch

        made: dict[str, Tensor] = {}
        with torch.no_grad():
            for name, value in self.model.state_dict().items():
                if ".lora_" in name:
                    continue
                value = full_tensor(
                    value
                )  # one at a time: all of them might not fit beside the shards
                value = with_adapters(self.model, name, value)
                made[plain_name(name)] = value.detach().to("cpu", copy=True)
        return made


def _save_merged(lm: TrainableLM) -> None:
    """Make ``lm.model.save_pretrained`` write merged weights. As it is, it would write the names of
    adapted layers, which no checkpoint has, and loading would start from random weights."""
    owner = weakref.ref(lm)

    def save_pretrained(folder: str | os.PathLike[str], *args: Any, **options: Any) -> None:
        trained = owner()
        if trained is None or args or options:
            raise EngineError(
                "the weights of a model with adapters are saved by TrainableLM.save(folder)"
            )
        trained.save_weights(folder, trained.merged())

    lm.model.save_pretrained = save_pretrained


def _freeze(model: Any, patterns: Sequence[str]) -> None:
    for pattern in patterns:
        frozen = [p for name, p in model.named_parameters() if fnmatchcase(name, pattern)]
        if not frozen:
            names = ", ".join(name for name, _ in model.named_parameters())
            raise EngineError(f"freeze={pattern!r} fits no parameter; there are {names[:1000]}")
        for parameter in frozen:
            parameter.requires_grad_(False)
    if not any(p.requires_grad for p in model.parameters()):
        raise EngineError(f"freeze={list(patterns)} leaves nothing to train")


def _scale_logits(model: Any, temperature: float) -> None:
    if temperature <= 0:
        raise EngineError(f"temperature must be above 0, got {temperature}")

    def divide(module: Any, given: Any, output: Any) -> Any:
        output.logits = output.logits / temperature
        return output

    model.register_forward_hook(divide)  # the last thing: some cap what their output layer gives
    model.heat = getattr(model, "heat", 1.0) * temperature  # for a generator's fingerprint


def _checked(autocast: str | None, device: str) -> str | None:
    if autocast == "auto":
        import torch

        from ..llms.acceleration import training_dtype

        return "bfloat16" if training_dtype(device) == torch.bfloat16 else None
    if autocast not in (None, "bfloat16"):
        raise EngineError(f"autocast is 'auto', 'bfloat16' or nothing, got {autocast!r}")
    return autocast


def _without_dropout(model: Any) -> None:
    import torch

    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        for name, value in vars(module).items():  # read where the model calls functions instead
            if isinstance(value, float) and ("dropout" in name or "layerdrop" in name):
                setattr(module, name, 0.0)
