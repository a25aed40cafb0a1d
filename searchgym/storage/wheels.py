"""Data that lies in a wheel of a package index: downloaded and checked, never installed or run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from ..errors import EngineError, SearchGymError
from .files import file_digest

PATIENCE_S = 900
"""Seconds that a download may take."""


class UnreachableError(SearchGymError):
    """A package index that does not answer, or has no such wheel."""


def download_wheel(package: str, version: str, sha256: str, folder: Path) -> Path:
    """Download a wheel into a folder with ``pip download`` and return its path.

    Args:
        package: Name of the distribution; nothing that it depends on is downloaded.
        version: Its version.
        sha256: Digest of the wheel, in hexadecimal digits.
        folder: An empty folder.

    Raises:
        UnreachableError: no wheel came.
        EngineError: the wheel's digest is another one.
    """
    command = [
        sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:",
        "--disable-pip-version-check", "--dest", str(folder), f"{package}=={version}",
    ]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnreachableError(f"pip download {package}=={version}: {error}") from None
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode or not wheels:
        said = [line for line in done.stderr.splitlines() if line.strip()] or ["no wheel came"]
        raise UnreachableError(f"pip download {package}=={version}: {said[-1].strip()}")
    if (digest := file_digest(wheels[0])) != sha256:
        raise EngineError(
            f"{wheels[0].name} has SHA-256 {digest}, expected {sha256}: not used. Ask the package "
            "index for the original file"
        )
    return wheels[0]
