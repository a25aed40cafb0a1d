"""``python -m searchgym`` and the ``searchgym`` command."""

from __future__ import annotations

import signal
import sys

INTERRUPTED = 130


def main() -> None:
    """Run the command line.

    Ctrl-C and SIGTERM mean the same to every command. Servers (``serve``, ``view``, ``watch``)
    finish what they answer and exit with 0; all other work is cut short, keeps what it has
    written, and exits with 130.
    """
    try:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        from .cli.main import run  # heavy: an interrupt meanwhile is no error, either

        run()
    except KeyboardInterrupt:
        print("searchgym: interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)
    finally:
        # CPython kills itself by SIGINT at the end, whatever the exit code, if an interrupt came
        # out of an exec(), which named tuples are made by; the next exec() makes it forget.
        exec("")


if __name__ == "__main__":
    main()
