"""The command line's entry: ``lakeevolve`` and ``python -m lakeevolve``."""

from __future__ import annotations

import gc
import io
import sys
from collections.abc import Sequence
from itertools import pairwise

from lakeevolve.errors import InvalidConfig, LakeEvolveError

INTERRUPTED = 130
COULD_NOT_RUN = 2


def main(args: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code (docs/index.md lists them)."""
    given = list(sys.argv[1:] if args is None else args)
    debug = "--debug" in given
    given = [arg for arg in given if arg != "--debug"]
    try:
        from lakeevolve.cli.app import app

        code = app(args=given, prog_name="lakeevolve", standalone_mode=False)
        sys.stdout.flush()
    except LakeEvolveError as error:
        _list_faults(error, given)
        return _fail(error, error.lines(), error.exit_code, given, debug)
    except KeyboardInterrupt:
        return _interrupted(given)
    except BrokenPipeError:
        # The reader of our output is gone; there is nobody left to tell.
        sys.stderr.close()
        return COULD_NOT_RUN
    except Exception as error:
        return _unplanned(error, given, debug)
    # typer turns Ctrl-C into this code, without a word.
    if code == INTERRUPTED:
        return _interrupted(given)
    return code if isinstance(code, int) else 0


def _list_faults(error: LakeEvolveError, given: Sequence[str]) -> None:
    """Faults of a file go to stdout where JSON was asked for: three lines do not hold them."""
    if isinstance(error, InvalidConfig) and ("--format=json" in given or ("--format", "json") in pairwise(given)):
        import json

        from lakeevolve.cli.secrets import known_secrets
        from lakeevolve.redaction import redact

        text = json.dumps(error.to_json(), indent=2, ensure_ascii=False)
        sys.stdout.write(redact(text, known_secrets(given)) + "\n")


def _unplanned(error: Exception, given: Sequence[str], debug: bool) -> int:
    kind = type(error).__name__
    if kind == "Abort":
        return _interrupted(given)
    message = getattr(error, "format_message", None)
    if message is None:
        # A library's text may hold row values, so only the type of what happened is shown.
        lines = (f"an unexpected {kind} stopped lakeevolve", "next: run again with --debug")
        return _fail(error, lines, COULD_NOT_RUN, given, debug)
    context = getattr(error, "ctx", None)
    if kind == "NoArgsIsHelpError" and context is not None:
        sys.stdout.write(context.get_help() + "\n")
        return COULD_NOT_RUN
    command = getattr(context, "command_path", "lakeevolve")
    return _fail(error, (" ".join(message().split()), f"next: {command} --help"), COULD_NOT_RUN, given, False)


def _interrupted(given: Sequence[str]) -> int:
    again = ("next: run the same command again; a plan that has landed is not applied twice",)
    return _say(("interrupted", *(again if "apply" in given[:1] else ())), INTERRUPTED)


def _fail(error: Exception, lines: Sequence[str], code: int, given: Sequence[str], debug: bool) -> int:
    """Say what went wrong, without any credential that is known to this process."""
    from lakeevolve.cli.secrets import known_secrets
    from lakeevolve.redaction import redact

    known = known_secrets(given)
    if debug:
        import traceback

        # Never with locals, which hold options.
        text = "".join(traceback.format_exception(error))
        sys.stderr.write(redact(text, known, library=True))
    return _say([redact(line, known) for line in lines], code)


def _say(lines: Sequence[str], code: int) -> int:
    first, *rest = lines
    sys.stderr.write("\n".join([f"lakeevolve: {first}", *(f"  {line}" for line in rest)]) + "\n")
    return code


def run() -> None:
    # Loading modules makes objects that stay; looking through them again and again is a tenth of a short run.
    gc.set_threshold(100_000, 50, 50)
    _encode()
    sys.exit(main())


def _encode() -> None:
    """What programs read is UTF-8 whatever the locale; what a terminal cannot show must not end a command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.encoding.lower().replace("-", "") != "utf8":
            if stream.isatty():
                stream.reconfigure(errors="replace")
            else:
                stream.reconfigure(encoding="utf-8")


if __name__ == "__main__":
    run()
