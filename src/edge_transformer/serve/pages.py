"""The files of the page, read once: no address reaches the disk."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from fastapi import Response

from .bodies import Refused

FOLDER = Path(__file__).parent / "page"
KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


class Page(NamedTuple):
    """A file as it is sent."""

    kind: str
    plain: bytes
    packed: bytes
    tag: str


class Pages:
    """All files of the folder, in memory, packed."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self.files: dict[str, Page] = {}
        for path in sorted(folder.iterdir()):
            if path.suffix in KINDS:
                text = path.read_bytes()
                tag = f'"{hashlib.blake2b(text, digest_size=12).hexdigest()}"'
                packed = gzip.compress(text, 9, mtime=0)
                self.files[path.name] = Page(f"{KINDS[path.suffix]}; charset=utf-8", text, packed, tag)

    def response(self, name: str, headers: Mapping[str, str]) -> Response:
        """A file; 304 where the browser has it already."""
        if name not in self.files:
            raise Refused(404, "nothing is here; GET / is the page, GET /docs the API")
        kind, plain, packed, tag = self.files[name]
        said = {"ETag": tag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
        if headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=said)
        if "gzip" in headers.get("accept-encoding", ""):
            return Response(packed, headers=said | {"Content-Encoding": "gzip", "Content-Type": kind})
        return Response(plain, headers=said | {"Content-Type": kind})
