"""The description of every route in OpenAPI 3.1, served at ``/openapi.json``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._version import __version__
from .dialects import DIALECTS, ONE_QUERY
from .settings import Settings

_ERRORS = {
    "400": "The request cannot be read.",
    "401": "The token is missing or wrong.",
    "403": "The request comes from a page of another site.",
    "408": "The request came too slowly.",
    "413": "The request, or its answer, would be too large.",
    "421": "The request's Host is not a name of this server.",
    "422": "A field is missing, or has a wrong kind of value.",
    "503": "The server is full, or ends; try again later.",
}


def describe(settings: Settings) -> dict[str, Any]:
    """The document for a server with these settings."""
    paths: dict[str, Any] = {}
    for name in DIALECTS:
        prefix, spoken = ("", settings.dialect) if name == "auto" else (f"/{name}", name)
        paths[f"{prefix}/retrieve"] = {"post": _retrieve(spoken, settings)}
        paths[f"{prefix}/access"] = {"post": _access(spoken, settings)}
    paths["/mcp"] = {
        "post": _operation(
            "The Model Context Protocol over streamable HTTP: tools search and get_document.",
            _schema(
                {"jsonrpc": {"const": "2.0"}, "method": {"type": "string"},
                 "id": {"type": ["string", "integer"]}},
                ["jsonrpc", "method"],
            ),
            {"type": "object"},
        ),
        "get": _operation("There is no event stream: this is refused (405).", None, None),
        "delete": _operation("There are no sessions: this is refused (405).", None, None),
    }  # fmt: skip
    for path in ("/healthz", "/health"):
        paths[path] = {
            "get": {
                **_operation("Whether the server answers.", None, {"type": "object"}),
                "security": [],
            }
        }
    paths["/stats"] = {"get": _operation("Counters and latencies.", None, {"type": "object"})}
    paths["/metrics"] = {"get": _operation("The same for Prometheus.", None, None)}
    paths["/openapi.json"] = {"get": _operation("This document.", None, {"type": "object"})}
    paths["/"] = {
        "get": {**_operation("A page to search from a browser.", None, None), "security": []}
    }
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "SearchGym search server",
            "version": __version__,
            "description": "Searches a corpus. Every dialect has a /retrieve and an /access of its "
            "own; without a dialect in the path, the server's --dialect is spoken.",
        },
        "paths": paths,
    }
    if settings.token:
        document["components"] = {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}
        }
        document["security"] = [{"token": []}]
    return document


def _retrieve(dialect: str, settings: Settings) -> dict[str, Any]:
    limits = settings.limits
    text = _text(settings)
    k = {"type": "integer", "minimum": 1, "maximum": limits.k, "default": settings.default_k}
    many = {
        "type": "array",
        "items": text,
        "maxItems": 1 if dialect in ONE_QUERY else limits.queries,
    }
    asked = {
        **_schema(
            {
                "queries": {**many, "description": "What to look for."},
                "query": {**text, "description": "One query, in place of queries."},
                "topk": {**k, "description": "Passages per query; also top_k or k. At most "
                         f"{limits.results} for all queries together."},
                "return_scores": {"type": "boolean"},
            },
            [],
        ),
        "anyOf": [{"required": ["queries"]}, {"required": ["query"]}],
    }  # fmt: skip
    answered: Mapping[str, Any] = (
        {"type": "array"} if dialect == "zerosearch" else {"type": "object"}
    )  # fmt: skip
    operation = _operation(f"Search, in dialect {dialect}.", asked, answered)
    packed = {"schema": {"description": "The same as a msgpack map."}}
    operation["requestBody"]["content"]["application/msgpack"] = packed
    return operation


def _access(dialect: str, settings: Settings) -> dict[str, Any]:
    urls = {"type": "array", "items": _text(settings), "maxItems": settings.limits.queries}
    return _operation(
        "The whole documents behind URLs (or titles) that a search returned; null for unknown "
        f"ones. Dialect {dialect}.",
        _schema({"urls": urls}, ["urls"]),
        _schema({"result": {"type": "array"}}, ["result"]),
    )


def _text(settings: Settings) -> dict[str, Any]:
    return {"type": "string", "maxLength": settings.limits.query_characters}


def _schema(properties: Mapping[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": dict(properties), "required": required}


def _operation(summary: str, asked: Any, answered: Any) -> dict[str, Any]:
    good: dict[str, Any] = {"description": "Success."}
    if answered is not None:
        good["content"] = {"application/json": {"schema": answered}}
    told: dict[str, Any] = {"summary": summary, "responses": {"200": good}}
    if asked is not None:
        told["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": asked}},
        }
        told["responses"] |= {code: {"description": text} for code, text in _ERRORS.items()}
    return told
