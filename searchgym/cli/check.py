"""``searchgym check``: checks an environment against its contract."""

from __future__ import annotations

import re
import time
from contextlib import redirect_stdout
from io import StringIO
from typing import Annotated, Any

import gymnasium as gym
import typer

from ..errors import CardError, CheckError, DataError
from ..plugins import register
from .options import Overrides
from .output import JsonFlag, print_json, print_table, progress, say, with_examples
from .targets import env_id, make

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")  # Gymnasium colours its warnings


@register("check")
@with_examples(
    "searchgym check SearchQA-v0",
    "searchgym check --all --json",
    "searchgym check my_package:my/Env-v0",
    "searchgym check ./my-envs/MyQA-v0",
)
def check(
    env: Annotated[
        str | None, typer.Argument(metavar="[ENV]", help="An environment's id or card folder.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Check every environment of the catalogue.")
    ] = False,
    seeds: Annotated[int, typer.Option(min=1, help="Episodes to walk per environment.")] = 5,
    settings: Overrides = None,
    as_json: JsonFlag = False,
) -> None:
    """Check environments, yours or ours: Gymnasium's contract, no leaks, oracle, exact replays.

    Every card is built. An environment whose data is not on this machine is reported as such, with
    how to get it; only a broken promise makes the exit code 1.
    """
    from ..envs.registration import env_ids

    if (env is None) == (not everything):
        raise CardError("name one environment or pass --all: searchgym check SearchQA-v0")
    names = env_ids() if everything else [env_id(env or "")]
    rows = []
    with progress("checking", len(names), "environments") as advance:
        for name in names:
            rows.append(_check(name, seeds, settings, only=not everything))
            if not as_json:
                say(f"{rows[-1]['result']:>7}  {name}  ({rows[-1]['seconds']:.1f} s)")
            advance(1)
    if as_json:
        print_json(rows)
    elif problems := [r for r in rows if r["note"]]:
        print_table("Notes", problems, ["env", "result", "note"])
    if any(row["result"] == "broken" for row in rows):
        raise typer.Exit(1)


def _check(name: str, seeds: int, settings: list[str] | None, *, only: bool) -> dict[str, Any]:
    from ..envs.checker import check_env, check_vector_env
    from ..envs.registration import CARD_FILES
    from ..envs.search import SearchEnv
    from .options import overrides

    start = time.perf_counter()
    result, note = "ok", ""
    try:
        env = make(name, settings)
        with redirect_stdout(StringIO()):  # Gymnasium's checker draws in every render mode
            check_env(env, seeds=seeds)
            if isinstance(env.unwrapped, SearchEnv):
                check_vector_env(name, **overrides(settings))
        env.close()
    except CheckError as error:
        where = CARD_FILES.get(name) or gym.spec(name).entry_point
        result, note = "broken", f"{where}: {_COLOURS.sub('', str(error))}"
    except DataError as error:
        if only:
            raise
        result, note = "no data", str(error)
    seconds = time.perf_counter() - start
    return {"env": name, "result": result, "seconds": round(seconds, 2), "note": note}
