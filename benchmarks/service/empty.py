"""The baseline: an empty Starlette endpoint, which reads its body and answers `{}`, on the same server."""

from __future__ import annotations

import sys

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


async def empty(request: Request) -> Response:
    await request.body()
    return Response(b"{}", media_type="application/json")


if __name__ == "__main__":
    uvicorn.run(
        Starlette(routes=[Route("/", empty, methods=["POST"])]),
        port=int(sys.argv[1]), http="h11", loop="uvloop", log_level="error", access_log=False,
    )  # fmt: skip
