"""Build the documentation site: ``python -m docsite.build [--out build/site] [--versions DIR]``.

The pages of ``pages/`` are templates; those of the catalogue and the notebooks are taken from where
they are. All are written into one folder in the repository's own layout, so that links between them
hold, and MkDocs turns that folder into the site. Nothing is fetched, then or when it is read.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from packaging.version import VERSION_PATTERN, Version

from searchgym import __version__
from searchgym.rl.recipe_files import recipe_files
from searchgym_agents.law import law
from searchgym_agents.speedrun import record as speedrun

from . import api, collapse, contents, laboratory, leaderboard, learning_curves, notebooks
from .links import broken
from .scores import WEIGHTS

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
PAGES = HERE.relative_to(ROOT) / "pages"
CATALOGUES = ("envs", "corpora", "agents")
CODE = {".py": "python", ".toml": "toml", ".json": "json", ".cff": "yaml"}
"""Language by which a linked file of the repository is highlighted."""
PICTURES = {".png", ".svg"}
UNSEARCHED = "---\nsearch:\n  exclude: true\n---\n"
"""Head of a page that search leaves out."""
RESEARCH = {
    "candidate": "The candidate agent", "smollm": "SmolLM2", "smollm-gpu": "SmolLM2 on a GPU",
    "qwen05": "Qwen2.5 of half a billion",    "reader": "The reader", "knower": "The knower",
}  # fmt: skip
"""Agents whose pages are studies."""
_LINK = re.compile(r"(\]\()([^][)#\s:]++)((?:#[^)\s]*+)?\))")


def pages_of_the_repository() -> Iterator[Path]:
    """Markdown pages that are shown as they are, relative to the repository."""
    for kind in CATALOGUES:
        yield from sorted(p.relative_to(ROOT) for p in (ROOT / kind).rglob("*.md"))
    names = ("CATALOGUE.md", "CHANGELOG.md", "CONTRIBUTING.md", "notebooks/README.md")
    yield from map(Path, names)


class DocsFolder:
    """The folder that MkDocs reads. Links of what is written into it are made to hold there."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.repository = folder, repository()
        self.linked: set[Path] = set()
        """Files of the repository that pages link to and that are no pages."""

    def write(self, page: Path, text: str, source: Path | None = None) -> None:
        """Write a page. ``source``: the file of the repository that one edits to change it."""
        target = self.folder / page
        target.parent.mkdir(parents=True, exist_ok=True)
        text = _LINK.sub(partial(self._moved, page.parent), text)
        if source is not None and self.repository:
            text += f"\n\n[Edit this page]({self.repository}/edit/main/{source.as_posix()})\n"
        target.write_text(text, encoding="utf-8")

    def _moved(self, here: Path, link: re.Match[str]) -> str:
        path = Path(os.path.normpath(here / link[2]))
        if (ROOT / path).is_dir() and (ROOT / path / "README.md").is_file():
            path = path / "README.md"
        if path == Path("README.md"):
            path = Path("index.md")
        elif path.suffix == ".ipynb":
            path = path.with_suffix(".md")
        elif path.is_relative_to(PAGES):
            path = path.relative_to(PAGES)
        elif path.suffix != ".md" and (ROOT / path).is_file():
            self.linked.add(path)
            path = path if path.suffix in PICTURES else Path(f"{path}.md")
        elif path == Path("searchgym/rl/METRICS.md"):
            path = Path("metrics.md")
        return f"{link[1]}{os.path.relpath(path, here)}{link[3]}"

    def add_linked(self) -> None:
        """Copy pictures, and make a page of each linked source file."""
        for path in sorted(self.linked):
            text_page = f"{path}.md"
            if path.suffix in PICTURES:
                (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / path, self.folder / path)
            else:
                text = (ROOT / path).read_text(encoding="utf-8")
                fence = f"````{CODE.get(path.suffix, 'text')}\n{text}````\n"
                self.write(Path(text_page), f"{UNSEARCHED}# {path.name}\n\n`{path}`\n\n{fence}")


def repository() -> str:
    """Address of the repository in the web, for links to sources; "" where git names none."""
    command = ["git", "-C", str(ROOT), "remote", "get-url", "origin"]
    address = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    address = re.sub(r"^git@([^:]+):", r"https://\1/", address).removesuffix(".git")
    return address if address.startswith("https://") else ""


def environment_of_templates() -> Any:
    """Jinja over ``pages/`` and ``templates/``, with the contents that they may ask for."""
    import jinja2

    loader = jinja2.FileSystemLoader([HERE / "pages", HERE / "templates", ROOT])
    jinja = jinja2.Environment(
        loader=loader, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        keep_trailing_newline=True,
    )  # fmt: skip
    jinja.filters["shell"] = lambda words: contents.wrapped(
        "searchgym eval " + shlex.join(w.removeprefix("searchgym/") for w in words)
    )
    jinja.tests["weights"] = lambda argument: argument == WEIGHTS
    names = (
        "recipes", "engines", "rewards", "tools", "dialects", "curricula", "costs", "peers",
        "sections", "systems",
    )  # fmt: skip
    jinja.globals |= {name: getattr(contents, name) for name in names}
    jinja.globals |= {
        "environments": contents.environments(),
        "leaderboard": leaderboard.markdown,
        "collapse": collapse.page,
        "laboratory": laboratory.tables,
        "learning": learning_curves.page,
        "learning_title": learning_curves.title(),
        "lab_heads": laboratory.heads(),
        "law": law.stored_results,
        "speedrun": speedrun,
        "board": contents.board(),
        "api": api.modules(),
        "research": RESEARCH,
        "repository": repository(),
        "version": __version__,
        "root": ROOT,
        "notebooks": notebooks.titles(ROOT),
        "ten_lines": contents.sections(ROOT / "README.md")["Ten lines of Python"],
    }
    return jinja


def write_source(folder: Path, *, run_notebooks: bool, versioned: bool = False) -> None:
    """Write everything that MkDocs reads into ``folder``; ``versioned``: with a selector of
    versions."""
    shutil.rmtree(folder, ignore_errors=True)
    source, jinja = DocsFolder(folder / "docs"), environment_of_templates()
    for page in pages_of_the_repository():
        head = UNSEARCHED if page.name in ("CHANGELOG.md", "trials.md") else ""
        source.write(page, head + (ROOT / page).read_text(encoding="utf-8"), page)
    for recipe in contents.recipes():
        page = Path("recipes", f"{recipe['name']}.md")
        text = jinja.get_template("recipe.md").render(recipe=recipe)
        source.write(page, text, recipe_files()[recipe["name"]].relative_to(ROOT))
    for package in api.modules():
        source.write(Path("api", f"{package}.md"), api.page(package))
    for template in sorted(p.relative_to(HERE / "pages") for p in (HERE / "pages").rglob("*.md")):
        source.write(template, jinja.get_template(str(template)).render(), PAGES / template)
    for env in jinja.globals["environments"]:
        page = Path("envs", env["name"], "README.md")
        source.write(page, jinja.get_template("environment.md").render(env=env), page)
    for path, text in notebooks.pages(
        ROOT, source.folder, run=run_notebooks, repository=repository()
    ):
        source.write(path, text, path.with_suffix(".ipynb"))
    source.add_linked()
    shutil.copytree(HERE / "static", source.folder / "static")
    shutil.copytree(HERE / "theme", folder / "theme")
    laboratory.draw(source.folder / "static")
    (source.folder / "static" / "episode.svg").write_text(contents.episode_svg(), encoding="utf-8")
    config = jinja.get_template("mkdocs.yml").render(versioned=versioned)
    (folder / "mkdocs.yml").write_text(config, encoding="utf-8")


def publish(site: Path, versions: Path, version: str = __version__) -> None:
    """Copy a site into a folder that holds one of each version, list them, newest first, where the
    selector looks (``versions.json``), and let the folder's own page lead to the newest. Folders
    whose name is no version are left alone; raises ``ValueError`` if ``version`` is none."""
    Version(version)
    shutil.rmtree(versions / version, ignore_errors=True)
    shutil.copytree(site, versions / version)
    names = sorted(
        (page.parent.name for page in versions.glob("*/index.html") if _is_version(page.parent)),
        key=Version, reverse=True,
    )  # fmt: skip
    listed = [{"version": name, "title": name, "aliases": []} for name in names]
    (versions / "versions.json").write_text(json.dumps(listed, indent=1) + "\n", encoding="utf-8")
    leads = f'<meta charset="utf-8"><meta http-equiv="refresh" content="0; url={names[0]}/">'
    page = f'<!doctype html>{leads}<a href="{names[0]}/">SearchGym {names[0]}</a>\n'
    (versions / "index.html").write_text(page, encoding="utf-8")


def _is_version(folder: Path) -> bool:
    return re.fullmatch(VERSION_PATTERN, folder.name, re.VERBOSE | re.IGNORECASE) is not None


def main() -> None:
    """Write the sources, build the site, and check every link of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "site")
    parser.add_argument(
        "--no-run", action="store_true", help="show notebooks without running those that changed"
    )
    parser.add_argument(
        "--versions", type=Path, metavar="DIR",
        help="also copy it to DIR/VERSION, beside the sites of other versions, with a selector",
    )  # fmt: skip
    args = parser.parse_args()
    out = args.out.resolve()
    folder = out.with_name(out.name + "-source")
    write_source(folder, run_notebooks=not args.no_run, versioned=args.versions is not None)
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--config-file",
         folder / "mkdocs.yml", "--site-dir", out],
        check=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    if lines := broken(out):
        sys.exit("links that lead nowhere:\n" + "\n".join(lines))
    print(out / "index.html")
    if args.versions is not None:
        publish(out, args.versions)
        print(args.versions / "index.html")


if __name__ == "__main__":
    main()
