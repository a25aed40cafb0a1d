"""Runs other projects' search tools as they are installed; ``test_peers`` starts it in their venv.

``peer_clients.py gem|skyrl|mcp URL QUERY`` prints what the tool gives an agent, as JSON.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import json
import sys
import types
from typing import Any


def package_without_its_init(name: str) -> None:
    """Enter a package beside its ``__init__``, which would import far more than its search tool.
    The modules below it are the installed ones, unchanged."""
    spec = importlib.util.find_spec(name)
    assert spec is not None, f"{name} is not installed"
    assert spec.submodule_search_locations, f"{name} is not a package"
    module = types.ModuleType(name)
    module.__path__ = list(spec.submodule_search_locations)  # type: ignore[attr-defined]
    sys.modules[name] = module


def gem(url: str, query: str) -> Any:
    package_without_its_init("gem")
    tool = importlib.import_module("gem.tools.search_tool").SearchTool(
        search_url=f"{url}/retrieve", topk=2
    )
    valid, failed, observation, _ = tool.execute_action(f"I look it up. <search>{query}</search>")
    return {"valid": valid, "failed": failed, "observation": observation}


def skyrl(url: str, query: str) -> Any:
    package_without_its_init("skyrl_gym")
    package_without_its_init("skyrl_gym.tools")
    tools = importlib.import_module("skyrl_gym.tools.search").SearchToolGroup(
        search_url=f"{url}/retrieve", topk=2, log_requests=False
    )
    return {"observation": json.loads(tools.search(query))["result"]}


def mcp(url: str, query: str) -> Any:
    async def talk() -> Any:
        from mcp import ClientSession
        from mcp.client.streamable_http import streamable_http_client

        async with (
            streamable_http_client(f"{url}/mcp") as (read, write, *_),
            ClientSession(read, write) as session,
        ):
            hello = await session.initialize()
            tools = await session.list_tools()
            found = await session.call_tool("search", {"query": query})
            items = json.loads(found.content[0].text)
            page = await session.call_tool("get_document", {"docid": items[0]["docid"]})
        return {
            "server": hello.model_dump(by_alias=True)["serverInfo"]["name"],
            "tools": [tool.name for tool in tools.tools],
            "items": items,
            "page": json.loads(page.content[0].text),
        }

    return asyncio.run(talk())


if __name__ == "__main__":
    peer, server, question = sys.argv[1:]
    print(json.dumps({"gem": gem, "skyrl": skyrl, "mcp": mcp}[peer](server, question)))
