"""The command `serve`."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from ..errors import UserError
from ..io.process import prepare_process
from ..serve.limits import Limits
from .options import ThreadsOption, TrustOption

DEFAULT = Limits()


def serve(
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[MODEL]...",
            help="Folders of trained models, or names of bundled ones.",
            show_default="all bundled ones",
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen at; 0.0.0.0 lets other machines ask.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8000,
    token_file: Annotated[
        Path | None, typer.Option(help="Ask only who knows the token in this file.", show_default="anybody may ask")
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A name that requests may call the server by; may be repeated.",
            show_default="on loopback its names, else any",
        ),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(metavar="URL", help="A site whose pages may ask; may be repeated.", show_default="no other site"),
    ] = None,
    max_kilobytes: Annotated[int, typer.Option(min=1, help="Size of a request.")] = DEFAULT.kilobytes,
    max_items: Annotated[int, typer.Option(min=1, help="Questions of a request.")] = DEFAULT.items,
    max_nodes: Annotated[int, typer.Option(min=1, max=512, help="Nodes of a graph in a question.")] = DEFAULT.nodes,
    max_tokens: Annotated[int, typer.Option(min=1, max=512, help="Tokens of a sentence or text.")] = DEFAULT.tokens,
    max_seconds: Annotated[float, typer.Option(help="Time from a request to its answer.")] = DEFAULT.seconds,
    max_queue: Annotated[int, typer.Option(min=1, help="Questions that wait, for each model.")] = DEFAULT.queue,
    gather_ms: Annotated[
        float, typer.Option(help="Milliseconds that a question waits for others to be answered with; 0: one by one.")
    ] = DEFAULT.gather_ms,
    threads: ThreadsOption = None,
    trust: TrustOption = None,
) -> None:
    """Answer questions over HTTP, with a page to play with the models; needs the extra `[serve]`.

    Ctrl-C or SIGTERM ends it, after what has begun.

    Examples:

    - `edge-transformer serve`

    - `edge-transformer serve runs/families cogs-small --port 9000`

    - `edge-transformer serve --host 0.0.0.0 --token-file token.txt`
    """
    limits = Limits(max_kilobytes, max_items, max_nodes, max_tokens, max_seconds, max_queue, gather_ms)
    lacking = [name for name in ("fastapi", "uvicorn") if find_spec(name) is None]
    if lacking:
        raise UserError(f"serve: found no {' and no '.join(lacking)}; install the extra: pip install '.[serve]'")
    from ..serve import run

    safety = run.safety_of(host, token_file, allow_host or (), allow_origin or ())
    opened = run.open_socket(host, port)
    prepare_process(threads)
    app = run.build(models or (), limits, safety, trust or ())
    shown = f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{opened.getsockname()[1]}"
    said = f"{address} is the playground, {address}/docs the API; Ctrl-C ends"
    run.serve(app, opened, limits.seconds, lambda: print(said, flush=True))
