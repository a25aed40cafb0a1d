"""How values are shown in tables, and where lines to the person break."""

from __future__ import annotations

from typing import Any

import pytest

from searchgym.cli.output import (
    cell,
    console,
    print_facts,
    print_lines,
    print_markdown,
    print_table,
    say,
    working,
)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (True, "yes"),
        (12345, "12,345"),
        (0.25, "0.250"),
        (0.0, "0.000"),
        (1e-6, "1e-06"),  # a learning rate, not nothing
        (["ppo", {"use": "entropy", "weight": 1e-3}], "ppo, {use=entropy, weight=0.001}"),
        ({"use": "kl", "base": {"use": "ppo", "lam": 1.0}}, "use=kl, base={use=ppo, lam=1}"),
        ([], "–"),
        ((1, 2, 3), "1, 2, 3"),
    ],
)
def test_a_value_as_a_table_shows_it(value: Any, shown: str) -> None:
    assert cell(value) == shown


def test_a_line_breaks_between_words_where_the_terminal_ends(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = " ".join(f"word{i}" for i in range(40))
    path = "/" + "long/" * 20
    monkeypatch.setenv("COLUMNS", "60")
    say(f"{words}\n  {path}")
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1].strip() == path, "a path is not taken apart"
    assert all(50 < len(line) <= 60 for line in lines[:-2])
    assert " ".join(lines).split() == [*words.split(), path]
    monkeypatch.delenv("COLUMNS")
    say(words)  # a pipe has no end
    assert capsys.readouterr().err == words + "\n"


def test_a_word_between_colons_is_no_picture(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = ":fire: at :100:"
    print_table(said, [{said: said}])
    print_facts(said, {said: said})
    print_lines([(said, said)])
    print_markdown(said)
    console().print(said)
    out = capsys.readouterr().out
    assert out.count(":fire:") == out.count(":100:") == 10, out
    monkeypatch.setenv("FORCE_COLOR", "1")  # a terminal
    monkeypatch.setenv("TERM", "xterm")
    with working("reading [b] :fire: …"):
        pass
    assert "reading [b] :fire: …" in capsys.readouterr().err
