"""What `edge-transformer` and `python -m edge_transformer` run. It imports nothing before it can take a Ctrl-C."""

from __future__ import annotations

import gc
import sys

EXIT_USER_ERROR, EXIT_INTERRUPTED = 2, 130


def main() -> None:
    """Run the command line; what a user can act on ends with one line and exit code 2.

    Typer itself ends with exit code 130 after Ctrl-C, and with 1 where the reader of our output has gone.
    """
    if sys.argv[1:] == ["--version"]:  # a script that asks should not wait for the commands
        from . import __version__

        print(f"edge-transformer {__version__}")
        return
    try:
        from .cli.app import app

        # Importing PyTorch makes objects by the hundred thousand, all to stay. To look for garbage among them every
        # 700 of them takes a tenth of the start.
        gc.set_threshold(50_000)
        app()
    except KeyboardInterrupt:  # while modules were being imported: later on, the commands see to it
        sys.exit(EXIT_INTERRUPTED)
    except OSError as error:  # a full disk, a folder that may not be written to
        _end_with(f"{error.filename}: {error.strerror}" if error.filename else f"{error}")
    except ValueError as error:
        from .errors import UserError

        if not isinstance(error, UserError):
            raise
        _end_with(f"{error}")


def _end_with(message: str) -> None:
    """The message may quote names of a user's files and data, which must not move the cursor."""
    from .draw.arcs import visible

    print(f"error: {visible(message)}", file=sys.stderr)
    sys.exit(EXIT_USER_ERROR)


if __name__ == "__main__":
    main()
