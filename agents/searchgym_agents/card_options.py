"""Options of a training: those of the card's table ``train``, changed on the command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args, get_type_hints

from searchgym.cards import Card
from searchgym.cli.options import overrides
from searchgym.errors import CardError
from searchgym.objects import check_number, check_options


def options_of(
    card: Card, seeds: Sequence[int], settings: Sequence[str] | None, seconds: float | None
) -> tuple[dict[str, Any], int]:
    """Return the options, and the seed.

    Raises:
        CardError: several seeds, or a limit of seconds.
    """
    if seconds is not None:
        raise CardError("--seconds is not for this card: Ctrl-C, and the same command goes on")
    if len(seeds) > 1:
        raise CardError("one seed per folder: run again with another --seed and --out")
    table = merged(card.body["train"], overrides(settings))
    table.pop("use", None)
    return table, seeds[0] if seeds else 0


def train_by_command(
    command: Callable[..., None], card: Card, out: Path, seeds: Sequence[int],
    settings: Sequence[str] | None, *, seconds: float | None = None, as_json: bool = False,
) -> None:  # fmt: skip
    """Train an agent by a command of its own, whose options the card's table holds.

    Raises:
        CardError: an option that the command does not have.
    """
    options, seed = options_of(card, seeds, settings, seconds)
    what, given = f"the table [train] of {card.id!r}", {"out": out, "seed": seed}
    for name in given.keys() & options.keys():
        raise CardError(f"{what} has no {name}: it is given by --{name}")
    check_options(what, command, options)
    hints = get_type_hints(command, include_extras=True)
    for name, value in options.items():
        for option in get_args(hints[name])[1:]:
            if (least := getattr(option, "min", None)) is not None and value is not None:
                check_number(f"the option {name!r} of {what}", value, least)
    command(**given, **{"as_json": as_json, **options})


def merged(table: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table with changes, within its tables, too; those of tasks are replaced."""
    both = dict(table)
    for key, value in changes.items():
        old = both.get(key)
        nested = isinstance(old, Mapping) and isinstance(value, Mapping) and key != "tasks"
        both[key] = merged(old, value) if nested else value  # type: ignore[arg-type]
    return both
