"""The server of OpenEnv's container; ``SEARCHGYM_ENV`` names the environment."""

from __future__ import annotations

import os

import uvicorn

from searchgym.integrations.openenv import app as make_app

app = make_app(os.environ.get("SEARCHGYM_ENV", "SearchQA-v0"))


def main() -> None:
    """Serve on loopback; the container's command names another address."""
    uvicorn.run(app, host=os.environ.get("HOST", "127.0.0.1"), port=8000)


if __name__ == "__main__":
    main()
