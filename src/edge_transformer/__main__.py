"""What `edge-transformer` and `python -m edge_transformer` run. It imports nothing before it can take a Ctrl-C."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line."""
    try:
        from .cli import app as cli

        cli.main()
    except KeyboardInterrupt:  # while the modules were being imported: later on, the commands see to it
        sys.exit(130)


if __name__ == "__main__":
    main()
