"""Every recipe resumes after a stop at three moments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from searchgym.rl.recipe_files import shipped
from searchgym.rl.trainer import Trainer
from tests.rl import test_as_shipped
from tests.rl.test_as_shipped import weights

pytestmark = pytest.mark.slow


class Killed(Exception):
    """Ends a training where a kill would."""


def stopped(run: Trainer, moment: str) -> None:
    """Train until the second step, and end at a moment of it."""

    def die(*_: Any, **__: Any) -> Any:
        raise Killed

    steps = run.train()
    next(steps)
    if moment == "playing":
        run._play = die  # type: ignore[method-assign]
    elif moment == "updating":
        run._publish = die  # type: ignore[method-assign]
    else:
        run.save_checkpoint = die  # type: ignore[method-assign]
    with pytest.raises(Killed):
        list(steps)


@pytest.mark.parametrize("name", shipped())
def test_every_recipe_resumes_to_the_same_weights(name: str, tmp_path: Path) -> None:
    """Stopped while it plays, after its weights have changed, and after the log's line."""
    whole = test_as_shipped.trainer(name, save_every=1)
    list(whole.train())
    for moment in ("playing", "updating", "logged"):
        out = tmp_path / moment
        stopped(test_as_shipped.trainer(name, save_every=1, out=out), moment)
        again = test_as_shipped.trainer(name, save_every=1, out=out)
        assert again.steps == 1
        list(again.train())
        assert torch.equal(weights(again), weights(whole)), moment
