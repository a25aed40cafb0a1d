"""``python -m tests.benchmarks.gpu.wheels REQUIREMENT… --out build/gpu-wheels.txt``: the files that
a GPU machine without a network must be given.

The list is a requirements file with hashes. Where there is a network, ``pip download --no-deps
--require-hashes -r build/gpu-wheels.txt -d wheels`` fetches it; ``make gpu WHEELS=wheels`` installs
from there alone. Both machines need the same Python and platform.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def resolved(requirements: Sequence[str], options: Sequence[str] = ()) -> dict[str, Any]:
    """Pip's report of what it would install into an empty environment; nothing is installed.

    Raises:
        RuntimeError: it found no solution, or no network; with its last lines.
    """
    command = [
        sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet",
        "--disable-pip-version-check", "--report", "-", *options, *requirements,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError("\n".join(done.stderr.strip().splitlines()[-6:]))
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def lines(report: Mapping[str, Any]) -> list[str]:
    """Lines of a requirements file, by name; the checkout itself is left out."""
    found = []
    for item in report["install"]:
        about, where = item["metadata"], item["download_info"]
        if "archive_info" not in where:
            continue
        sha256 = where["archive_info"]["hashes"]["sha256"]
        found.append(f"{about['name']}=={about['version']} --hash=sha256:{sha256}")
    return sorted(found, key=str.lower)


def main(given: Sequence[str] | None = None) -> int:
    """Write the list; return 1, with the reason, where pip found no solution."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("requirements", nargs="+")
    parser.add_argument("--out", type=Path, default=Path("build/gpu-wheels.txt"))
    parser.add_argument("--pip", action="append", default=[], help="an option for pip")
    options = parser.parse_args(given)
    try:
        listed = lines(resolved(options.requirements, options.pip))
    except RuntimeError as error:
        print(f"no list of wheels: {error}", file=sys.stderr)
        return 1
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text("\n".join(listed) + "\n", encoding="utf-8")
    print(f"{options.out}: {len(listed)} files")
    return 0


if __name__ == "__main__":
    sys.exit(main())
