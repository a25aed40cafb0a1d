"""``render_mode="html"`` and ``"rgb_array"``, and what a notebook shows of an environment."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from searchgym.envs.search import SearchEnv

from ..browser import accessible, browser, page
from .own import env

__all__ = ["browser", "page"]  # fixtures

SMALL: dict[str, Any] = {"world": {"entities": 60}, "tasks": {"simple": 8}}
ACTIONS = ("<search>Aldor founder</search>", "<search>Mira Venn</search>", "<answer>Quell</answer>")


def played(mode: str | None, actions: tuple[str, ...] = ACTIONS, **options: Any) -> SearchEnv:
    made: SearchEnv = env(render_mode=mode, **options)
    made.reset(seed=0, options={"task_id": "t1"})
    for action in actions:
        made.step(action)
    return made


def test_frames_are_pictures_of_one_size_that_repeat() -> None:
    frames = [played("rgb_array", ACTIONS[:n]).render() for n in range(4)]
    for frame in frames:
        assert frame.shape == (720, 960, 3)
        assert frame.dtype == np.uint8
    assert len({frame.tobytes() for frame in frames}) == 4, "each turn changes the picture"
    assert np.array_equal(frames[3], played("rgb_array").render())
    ink = [(frame < 128).any(axis=2).sum() for frame in frames]
    assert ink == sorted(ink), "turns add to it"


def test_a_long_episode_shows_its_newest_turns() -> None:
    """Words longer than a line, and more lines than there is room for."""
    long = played("rgb_array", ("x" * 5000, *ACTIONS[:2] * 3), max_turns=20)
    frame = long.render()
    other = played("rgb_array", ("y" * 5000, *ACTIONS[:2] * 3), max_turns=20).render()
    assert frame.shape == (720, 960, 3)
    assert np.array_equal(frame, other), "what came first is out of sight"
    assert not (frame[-20:] < 200).any(), "nothing is cut at the lower edge"


def test_gymnasium_records_a_video(tmp_path: Path) -> None:
    made = gym.wrappers.RecordVideo(
        gym.make("SearchQA-v0", render_mode="rgb_array", **SMALL),
        video_folder=str(tmp_path), disable_logger=True,
    )  # fmt: skip
    made.reset(seed=1)
    for action in made.unwrapped.oracle():  # type: ignore[attr-defined]
        made.step(action)
    made.close()
    (video,) = tmp_path.glob("*.mp4")
    assert b"ftyp" in video.read_bytes()[:16]
    assert video.stat().st_size > 5000


def test_a_page_shows_the_episode_and_stands_alone(page: Any, tmp_path: Path) -> None:
    hostile = "<search><img src=x onerror='window.ran=1'><script>window.ran=2</script></search>"
    made = played("html", (hostile, *ACTIONS))
    (tmp_path / "episode.html").write_text(made.render(), encoding="utf-8")
    page.goto((tmp_path / "episode.html").as_uri())
    assert page.evaluate("window.ran") is None
    assert page.locator(".sg-action").count() == 4
    assert "onerror" in page.locator(".sg-action").first.inner_text()
    evidence = set(made.episode.config.task.evidence)
    shown = [h.passage.id for s in made.episode.contexts.segments for h in s.hits]
    assert page.locator(".sg-gold").count() == sum(i in evidence for i in shown) > 0
    assert "reward 1.00" in page.locator(".sg-action").last.inner_text()
    assert "RIGHT" in page.locator(".sg-ending").inner_text()
    accessible(page)


def test_a_notebook_shows_an_environment() -> None:
    before = env()
    assert "call <code>reset()</code>" in before._repr_html_()
    text = played(None)._repr_html_()
    assert text is not None
    for piece in ("questions", "bm25", "founder of Aldor", "RIGHT", "3 searches"[:1]):
        assert piece in text
    assert "<script" not in text
    assert not re.search(r"https?://", text), "nothing is fetched"
