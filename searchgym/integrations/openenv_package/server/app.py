"""The server of OpenEnv's container; ``SEARCHGYM_ENV`` names the environment."""

from __future__ import annotations

import os

from searchgym.integrations.openenv import app as make_app
from searchgym.serve import Settings, bind, make_server

app = make_app(os.environ.get("SEARCHGYM_ENV", "SearchQA-v0"))


def main() -> None:
    """Serve on loopback; the container's command names another address."""
    told = Settings(host=os.environ.get("HOST", "127.0.0.1"))
    with bind(told) as bound:
        make_server(app, told, bound, lambda port: None, websockets=True).run([bound])


if __name__ == "__main__":
    main()
