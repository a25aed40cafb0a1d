"""Extension of vLLM's workers that loads new weights while they run.

vLLM mixes this class into its own worker class (``worker_extension_cls``), in this process or in
others; only a path crosses between them, never code.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


class WeightWorker:
    """Methods for ``LLM.collective_rpc``."""

    reload_weights: Callable[..., None]
    """vLLM's own: loads into fresh layers, then packs them for the kernels as at the start (a
    plain copy into parameters misses kernels that keep packed copies, as the CPU's do)."""

    def searchgym_reloads(self) -> bool:
        """True if :attr:`reload_weights` can be given weights; vLLM's first versions of it only
        read the checkpoint again."""
        runner = getattr(self, "model_runner", None)  # to which a worker hands its arguments on
        ask = getattr(runner, "reload_weights", None) or getattr(self, "reload_weights", None)
        takes = inspect.signature(ask).parameters if ask is not None else {}
        return "weights_iterator" in takes or any(p.kind is p.VAR_KEYWORD for p in takes.values())

    def searchgym_load(self, path: str) -> None:
        """Replace all weights by those of a safetensors file with checkpoint names."""
        from safetensors import safe_open

        def tensors() -> Iterator[tuple[str, Tensor]]:
            with safe_open(path, framework="pt") as file:
                for name in file.keys():  # noqa: SIM118  (no mapping)
                    yield name, file.get_tensor(name)

        self.reload_weights(weights_iterator=tensors())
