"""Names, objects, import paths and tables: what becomes of each, and what is never called."""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import pytest

from searchgym.curricula import make_curriculum
from searchgym.dialects import get_dialect
from searchgym.engines import build_engine
from searchgym.errors import CardError, DialectError, EngineError
from searchgym.llms import build_generator
from searchgym.objects import bare_hint, check_fits, from_spec, is_path, load_object
from searchgym.rl import REGISTRY, make
from searchgym.utils.trust import check_sources, named_sources, registered_only, source_digest

from .small import CORPUS

CALLED: list[str] = []


class Shouting:
    """Has what every place asks for but one method, and says when it is called."""

    def __init__(self, loud: int = 1) -> None:
        CALLED.append("Shouting")
        self.loud = loud


class Fitting(Shouting):
    def speak(self) -> int:
        return self.loud


READY = Fitting()


def brevity(outcome: object, weight: float = 1.0) -> float:
    return weight


@runtime_checkable
class Speaks(Protocol):
    name: str

    def speak(self) -> int: ...


HERE = f"{__name__}:"
KNOWN = {"fitting": HERE + "Fitting", "object": Fitting, "brevity": brevity}


def test_every_way_to_say_it_gives_the_object() -> None:
    ready = Fitting(3)
    assert from_spec("part", ready, KNOWN) is ready
    for spec in ("fitting", "object", HERE + "Fitting", {"use": "fitting"}, {"use": "object"},
                 {"use": Fitting}):  # fmt: skip
        assert from_spec("part", spec, KNOWN, accepts=Speaks).speak() == 1
    assert from_spec("part", {"use": "fitting", "loud": 4}, KNOWN).speak() == 4
    assert from_spec("part", HERE + "READY", KNOWN, accepts=Fitting) is READY


def test_a_function_is_the_object_itself_with_its_options_bound() -> None:
    assert from_spec("reward", "brevity", KNOWN, functions=True) is brevity
    assert from_spec("reward", HERE + "brevity", {}, accepts=Speaks, functions=True) is brevity
    bound = from_spec("reward", {"use": "brevity", "weight": 0.5}, KNOWN, functions=True)
    assert isinstance(bound, functools.partial)
    assert bound("anything") == 0.5
    itself = from_spec("reward", {"use": brevity, "weight": 0.25}, KNOWN, functions=True)
    assert itself("anything") == 0.25
    with pytest.raises(CardError, match=r"'wieght'. Did you mean 'weight'"):
        from_spec("reward", {"use": "brevity", "wieght": 0.5}, KNOWN)
    with pytest.raises(CardError, match=r"'words'\. Known: weight$"):  # the outcome is no option
        from_spec("reward", {"use": "brevity", "words": 3}, KNOWN)
    with pytest.raises(CardError, match="is a function, and a part is a class with speak"):
        from_spec("part", "brevity", KNOWN, accepts=["speak"])


@pytest.mark.parametrize("accepts", [Speaks, Fitting, ("speak",)])
def test_a_class_is_checked_before_it_is_called(accepts: type | tuple[str, ...]) -> None:
    CALLED.clear()
    with pytest.raises(CardError, match="cannot be a part"):
        from_spec("part", HERE + "Shouting", {}, accepts=accepts)
    assert CALLED == []
    from_spec("part", HERE + "Fitting", {}, accepts=accepts)
    assert CALLED == ["Shouting"]


def test_every_class_can_be_called_but_that_does_not_make_it_a_loss() -> None:
    with pytest.raises(CardError, match="it has no __call__"):
        check_fits("loss", "x", Shouting, ("__call__",))


@pytest.mark.parametrize("slot", REGISTRY)
def test_a_stranger_in_a_slot_is_never_called(slot: str, tmp_path: Path) -> None:
    proof = tmp_path / "pwned"
    for use, options in (
        ("subprocess:Popen", {"args": ["touch", str(proof)]}),
        ("subprocess:run", {"args": ["touch", str(proof)]}),
        ("os:system", {"command": f"touch {proof}"}),
    ):
        with pytest.raises(CardError):
            make(slot, {"use": use, **options})  # type: ignore[arg-type]
    assert not proof.exists()


def test_a_stranger_as_curriculum_dialect_engine_or_generator_is_never_called(
    tmp_path: Path,
) -> None:
    proof = tmp_path / "pwned"
    touch = {"args": ["touch", str(proof)]}
    with pytest.raises(CardError):
        make_curriculum({"use": "subprocess:Popen", **touch})
    with pytest.raises(EngineError, match="cannot be an engine"):
        build_engine({"name": "subprocess:Popen", **touch}, CORPUS)
    with pytest.raises(EngineError, match="cannot be a generator"):
        build_generator({"name": "subprocess:Popen", **touch})
    with pytest.raises(DialectError, match="is a function"):
        get_dialect("os:abort")  # would end this process
    with pytest.raises(DialectError, match="cannot be a dialect"):
        get_dialect("this:d")
    assert not proof.exists()


def test_an_unknown_option_names_those_there_are() -> None:
    with pytest.raises(CardError, match=r"loss 'ppo' 'clip_hi'. Did you mean 'clip_high'"):
        make("loss", {"use": "ppo", "clip_hi": 0.3})
    with pytest.raises(CardError, match=r"part 'needs' needs 'tokens'"):
        from_spec("part", "needs", {"needs": _Needs})


class _Needs:
    def __init__(
        self, tokens: int, share: float = 0.5, most: int | None = None, on: bool = False,
        name: str = "", either: int | str = 0,
    ) -> None: ...  # fmt: skip


@pytest.mark.parametrize(
    ("option", "kind", "wrong", "right"),
    [
        ("tokens", "a whole number", ("many", [1], {"a": 1}, 2.5, 1e9, True, None), (1,)),
        ("share", "a number", ("x", [1], float("nan"), True, None), (1, 0.5, float("inf"))),
        ("most", "a whole number or none", ("x", 2.5, False), (None, 3)),
        ("on", "true or false", ("yes", 1, None), (True,)),
        ("name", "a text", (1, ["x"], None), ("x",)),
        ("either", "", (), (1, "x", None)),
    ],
)
def test_a_value_of_another_kind_is_refused_by_name(
    option: str, kind: str, wrong: tuple[Any, ...], right: tuple[Any, ...]
) -> None:
    def made(value: Any) -> Any:
        table = {"use": "needs", "tokens": 1, option: value}
        return from_spec("part", table, {"needs": _Needs})

    for value in wrong:
        with pytest.raises(CardError, match=f"option '{option}' of part 'needs' is {kind}, got"):
            made(value)
    for value in right:
        assert isinstance(made(value), _Needs)


@pytest.mark.parametrize("name", ["random", "SearchQA-v0", "notes", "x.toml", "~"])
def test_a_bare_name_is_no_path(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not is_path(name)
    assert is_path(f"./{name}")
    assert is_path(f"{name}/")
    monkeypatch.chdir(tmp_path)
    assert bare_hint(name) == ""
    (tmp_path / name).mkdir()
    assert f"./{name}" in bare_hint(name)


# --- files ----------------------------------------------------------------------------------------
def module(folder: Path, name: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(folder))
    (folder / f"{name}.py").write_text(text, encoding="utf-8")
    monkeypatch.delitem(sys.modules, name, raising=False)


def test_a_file_may_name_registered_items_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module(tmp_path, "stranger_a", f"open({str(tmp_path / 'ran')!r}, 'w')\nclass C: pass\n",
           monkeypatch)  # fmt: skip
    known = {"c": "stranger_a:C"}
    with (
        registered_only("runs/x/run.json"),
        pytest.raises(CardError, match=r"runs/x/run\.json names code, 'stranger_a:C'.*--trust"),
    ):
        from_spec("part", "stranger_a:C", {})
    assert not (tmp_path / "ran").exists()
    with registered_only():
        assert type(from_spec("part", "c", known)).__name__ == "C"  # registered


def test_what_the_caller_named_himself_a_file_may_name_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module(tmp_path, "mine_b", "class C: pass\n", monkeypatch)
    with registered_only(), pytest.raises(CardError, match="names code"):
        load_object("mine_b:C")
    load_object("mine_b:C")
    with registered_only():
        load_object("mine_b:C")


def test_a_trusted_file_is_refused_where_the_code_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module(tmp_path, "mine_c", "class C:\n    weight = 1\n", monkeypatch)
    sources = {"mine_c:C": source_digest(load_object("mine_c:C"))}
    assert named_sources({"reward": [{"use": "mine_c:C"}, "em"], "k": 3}) == sources
    assert named_sources({"reward": {"em": 1.0, "mine_c:C": 0.5}}) == sources
    with registered_only(trust=True, sources=sources):  # type: ignore[arg-type]
        load_object("mine_c:C")
    module(tmp_path, "mine_c", "class C:\n    weight = 100\n", monkeypatch)
    with (
        registered_only("run.json", trust=True, sources=sources),  # type: ignore[arg-type]
        pytest.raises(CardError, match=r"not what it was when run\.json was written"),
    ):
        load_object("mine_c:C")
    load_object("mine_c:C")
    with pytest.raises(CardError, match="not what it was"):
        check_sources(sources, "run.json")  # type: ignore[arg-type]


def test_the_outermost_reading_decides() -> None:
    with registered_only("outer", trust=True), registered_only("inner"):
        load_object("string:Template")
    with (
        registered_only("outer"),
        registered_only("inner", trust=True),
        pytest.raises(CardError, match="outer names code"),
    ):
        load_object("string:Formatter")


def test_digests_and_paths_of_parts() -> None:
    assert source_digest(READY) == source_digest(Fitting)
    assert source_digest(functools.partial(brevity, weight=2)) == source_digest(brevity)
    assert source_digest(brevity) != source_digest(Fitting)
    assert source_digest(len) is None
