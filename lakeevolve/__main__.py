"""The command line's entry: ``lakeevolve`` and ``python -m lakeevolve``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from lakeevolve.errors import LakeEvolveError

INTERRUPTED = 130
COULD_NOT_RUN = 2


def main(args: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code (docs/index.md lists them)."""
    given = list(sys.argv[1:] if args is None else args)
    debug = "--debug" in given
    given = [arg for arg in given if arg != "--debug"]
    from lakeevolve.cli.app import app

    try:
        code = app(args=given, standalone_mode=False)
        sys.stdout.flush()
    except LakeEvolveError as error:
        if debug:
            raise
        return _say(error.lines(), error.exit_code)
    except KeyboardInterrupt:
        return _say(("interrupted",), INTERRUPTED)
    except BrokenPipeError:
        # The reader of our output is gone; there is nobody left to tell.
        sys.stderr.close()
        return COULD_NOT_RUN
    except Exception as error:
        if debug:
            raise
        message = getattr(error, "format_message", None)
        if message is not None:
            return _say((" ".join(message().split()), "next: lakeevolve --help"), COULD_NOT_RUN)
        if type(error).__name__ == "Abort":
            return _say(("interrupted",), INTERRUPTED)
        # A library's text may hold row values, so only the type of what happened is shown.
        return _say(
            (f"an unexpected {type(error).__name__} stopped lakeevolve", "next: run again with --debug"), COULD_NOT_RUN
        )
    return code if isinstance(code, int) else 0


def _say(lines: Sequence[str], code: int) -> int:
    first, *rest = lines
    sys.stderr.write("\n".join([f"lakeevolve: {first}", *(f"  {line}" for line in rest)]) + "\n")
    return code


def run() -> None:
    sys.exit(main())


if __name__ == "__main__":
    run()
