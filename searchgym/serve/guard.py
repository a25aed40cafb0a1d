"""What stands before every application: checks of names, longest body, errors as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..errors import SearchGymError
from .hosts import HostCheck
from .limits import HttpError, Limits, Scope, read_before, read_body, refuse

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request


class BodyLimit:
    """ASGI: refuses requests with a body of more than ``most`` bytes (413)."""

    def __init__(self, app: Any, most: int) -> None:
        self.app, self.most = app, most

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            try:
                receive = read_before(await read_body(scope, receive, self.most), receive)
            except HttpError as error:
                await refuse(send, error)
                return
        await self.app(scope, receive, send)


def guard(
    app: Starlette, hosts: Sequence[str] | None, *, most: int = Limits().body_bytes
) -> Starlette:
    """The application behind :class:`HostCheck` and :class:`BodyLimit`, its errors as JSON.

    Args:
        app: Application of others, before it answers.
        hosts: Names by which it may be called; None: any.
        most: Bytes of the largest body.
    """
    app.add_middleware(BodyLimit, most=most)
    app.add_middleware(HostCheck, hosts=hosts)
    add_errors(app)
    return app


def add_errors(app: Starlette) -> None:
    """Answer errors in JSON: what is wrong with a request 422, what is wrong here 500 by the names
    of the exceptions alone, whose messages may hold paths of this machine."""
    from starlette.responses import Response

    def told(error: HttpError) -> Response:
        headers = {name.decode(): value.decode() for name, value in error.headers}
        return Response(error.body, error.status, headers, "application/json")

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, HttpError)
        return told(error)

    async def wrong(request: Request, error: Exception) -> Response:
        return told(HttpError(422, "wrong", " ".join(str(error).split())))

    async def broken(request: Request, error: Exception) -> Response:
        return told(defect(error))

    app.add_exception_handler(HttpError, refused)
    app.add_exception_handler(SearchGymError, wrong)
    app.add_exception_handler(Exception, broken)


def defect(error: Exception) -> HttpError:
    """The answer to a request that an error of ours ended."""
    cause = error.__cause__
    name = type(error).__name__ + (f" ({type(cause).__name__})" if cause else "")
    return HttpError(500, "internal", f"{name}; the server's log says more")
