"""Helpers of the HTTP clients: which servers are on this machine, and answers that are read up to a
limit, on the wire and unpacked."""

from __future__ import annotations

import zlib
from typing import Any
from urllib.parse import urlsplit

ACCEPTED = {"Accept-Encoding": "gzip"}
"""The header of requests whose answers :func:`read_body` reads."""


class TooLong(Exception):
    """An answer is larger than allowed."""


def on_this_machine(url: str) -> bool:
    """Return whether a server is reached without the proxies that the environment names."""
    return urlsplit(url).hostname in ("localhost", "127.0.0.1", "::1")


async def read_body(response: Any, most: int) -> bytes:
    """The body of an httpx response that is being streamed, unpacked: at most ``most`` bytes, also
    of what comes over the wire.

    Raises:
        TooLong: there are more.
        OSError: it is packed in another way, or broken.
    """
    parts: list[bytes] = []
    size = 0
    async for part in response.aiter_raw():
        size += len(part)
        if size > most:
            raise TooLong
        parts.append(part)
    encoding = response.headers.get("content-encoding", "").strip().lower()
    return _unpacked(b"".join(parts), encoding, most)


def _unpacked(body: bytes, encoding: str, most: int) -> bytes:
    """Decompressed by ourselves, so that a small body cannot become a large one first."""
    if encoding in ("", "identity") or not body:
        return body
    if encoding not in ("gzip", "deflate"):
        raise OSError(f"content encoding {encoding!r} was not asked for")
    try:
        plain = zlib.decompressobj(47).decompress(body, most + 1)  # 47: either format
    except zlib.error as error:
        raise OSError(f"broken {encoding} body: {error}") from None
    if len(plain) > most:
        raise TooLong
    return plain
