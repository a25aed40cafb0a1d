"""The pages as a browser gets them, and what is refused."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from searchgym.cli.main import run
from searchgym.errors import DataError
from searchgym.world_browser.app import browser_app
from searchgym.world_browser.atlas import Atlas
from searchgym.world_browser.export import export


@pytest.fixture(scope="module")
def client(atlas: Atlas) -> TestClient:
    return TestClient(browser_app(atlas), base_url="http://127.0.0.1")


def test_an_entity_is_found_by_name_and_kind(client: TestClient, atlas: Atlas):
    title = atlas.graph.titles[3]
    found = client.get("/", params={"q": title, "kind": atlas.kind(3)})
    assert found.status_code == 200
    assert 'href="/entity/3"' in found.text
    other = next(i for i, n in enumerate(atlas.members()) if n and i != atlas.kind(3))
    assert 'href="/entity/3"' not in client.get("/", params={"q": title, "kind": other}).text


@pytest.mark.parametrize("query", ["kind=99", "kind=x", "page=0", "page=99999999999", "q=%00%ff"])
def test_odd_questions_get_a_page(client: TestClient, query: str):
    assert client.get(f"/?{query}").status_code == 200
    assert client.get(f"/tasks?{query}").status_code == 200


@pytest.mark.parametrize("address", ["/entity/400", "/entity/99999999999", "/task/none", "/etc"])
def test_what_is_not_there_is_said_so(client: TestClient, address: str):
    answer = client.get(address)
    assert answer.status_code == 404
    assert "Not here" in answer.text


def test_links_within_all_pages_lead_somewhere(client: TestClient, atlas: Atlas):
    """From a task to its pages' marks and back."""
    for task in atlas.tasks[::11]:
        page = client.get(f"/task/{quote(task.id, safe='')}").text
        for address in set(re.findall(r'href="(/entity/\d+(?:#said-\d+)?)"', page)):
            there, _, mark = address.partition("#")
            target = client.get(there).text
            assert not mark or f'id="{mark}"' in target
            anchors = set(re.findall(r'href="#([\w-]+)"', target))
            assert anchors <= set(re.findall(r'id="([\w-]+)"', target))


def test_an_export_is_whole_capped_and_loads_nothing(atlas: Atlas, tmp_path: Path):
    pages = []
    wrote = export(atlas, tmp_path / "out", most=60, advance=pages.append)
    files = {p.name: p.read_text("utf-8") for p in (tmp_path / "out").iterdir()}
    assert len(files) == sum(pages) == wrote.entities + wrote.tasks + 2
    assert (wrote.entities, wrote.of_entities) == (60, 400)
    assert 0 < wrote.tasks < wrote.of_tasks == len(atlas.tasks)
    assert "60 of 400 entities" in files["index.html"]
    for text in files.values():
        links = re.findall(r'(?:href|src)="([^"#][^"]*)"', text)
        local = {link.partition("#")[0] for link in links if not link.startswith("data:")}
        assert local <= set(files)
        assert "default-src &#39;none&#39;" in text
    again = tmp_path / "again"
    export(atlas, again, most=60)
    assert {p.name: p.read_text("utf-8") for p in again.iterdir()} == files
    export(atlas, again, most=60)  # over its own pages
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.txt").write_text("mine")
    with pytest.raises(DataError, match="not empty"):
        export(atlas, other)


def test_the_command_writes_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    triples = tmp_path / "triples.tsv"
    triples.write_text("Lunn\tlies on\tOdda\nVelle\tborn in\tLunn\nVelle\tbuilt\tLamp\n")
    command = ["world", "browse", f"kg:{triples}", "--out", str(tmp_path / "pages")]
    with pytest.raises(SystemExit) as ended:
        run([*command, "-s", 'tasks={"simple": 2}'])
    assert ended.value.code == 0
    assert "4 of 4 entities" in capsys.readouterr().err
    assert "Velle" in (tmp_path / "pages" / "index.html").read_text("utf-8")


def test_a_small_world_is_asked_fewer_tasks_unless_told_how_many(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    command = ["world", "browse", "research", "-s", "world.entities=60"]
    with pytest.raises(SystemExit) as ended:
        run([*command, "--out", str(tmp_path / "pages")])
    assert ended.value.code == 0
    lines = capsys.readouterr().err.splitlines()
    assert any(
        line.startswith("warning: asked for") for line in lines
    )  # of families that lack some
    told = "\n".join(line for line in lines if not line.startswith("warning:"))
    assert "60 of 60 entities" in told
    entities, tasks = map(int, re.findall(r"of (\d+)", told))
    assert entities == 60
    assert len(list((tmp_path / "pages").glob("task-*"))) == tasks > 20
    with pytest.raises(SystemExit) as ended:
        run([*command, "-s", "tasks.intersection=500", "--out", str(tmp_path / "never")])
    assert ended.value.code == 2
    assert "asked for 500 tasks of family 'intersection'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["encyclopaedia"], "encyclopedia"),
        (["SearchQA-v7"], "SearchQA-v0"),
        (["kg:nowhere.tsv"], "nowhere.tsv"),
        (["SearchQA-v0", "--split", "tset"], "train, dev, test"),
        (["SearchQA-v0", "-s", "wrld=3"], "world"),
    ],
)
def test_mistakes_are_one_line(arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        run(["world", "browse", *arguments, "--out", "never"])
    error = capsys.readouterr().err.strip()
    assert ended.value.code == 2
    assert told in error
    assert "\n" not in error
    assert not Path("never").exists()


def test_hostile_names_reach_no_page_as_markup(hostile: Atlas):
    client = TestClient(browser_app(hostile), base_url="http://127.0.0.1")
    addresses = ["/", "/tasks", *(f"/entity/{e}" for e in range(5))]
    addresses.append(f"/task/{quote(hostile.tasks[0].id, safe='')}")
    for address in addresses:
        answer = client.get(address)
        assert answer.status_code == 200, address
        for wrong in ("<script>document", "<img", 'href="javascript', "\u202e", "\u2066", " 49 "):
            assert wrong not in answer.text, (address, wrong)
        assert "script-src 'self'" in answer.headers["content-security-policy"]


def test_importing_the_package_loads_no_server():
    import subprocess

    code = "import searchgym.world_browser.pages, sys, json; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"starlette", "uvicorn", "jinja2", "torch"} & set(json.loads(done.stdout))
