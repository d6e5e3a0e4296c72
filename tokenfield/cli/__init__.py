"""The command line. Errors are one line on standard error and a non-zero exit code, never a traceback."""

import itertools
import os
import signal
import sys
import threading
from collections.abc import Sequence
from types import FrameType


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 for success, 2 for bad input, 1 for a run that failed, 130 for Ctrl-C."""
    from typer import TyperException

    from .._cache import keep_compiled_code
    from .app import app
    from .errors import Interrupted

    keep_compiled_code()
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    given = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    _refuse_empty(given)
    try:
        code = app(given, standalone_mode=False)
        if code == 130:  # Ctrl-C outside a run
            _fail("interrupted", 130)
        sys.exit(code if isinstance(code, int) else 0)
    except TyperException as error:
        message = error.format_message() if hasattr(error, "format_message") else str(error)
        _fail(f"{message} (see tokenfield --help)", 2)
    except Interrupted as interrupt:
        _fail(str(interrupt), 130)
    except BrokenPipeError:
        sys.exit(0)
    except (ValueError, OSError) as error:
        _fail(str(error), 2)
    except Exception as error:
        if os.environ.get("TOKENFIELD_TRACEBACK"):
            raise
        _fail(f"{error} ({type(error).__name__}; TOKENFIELD_TRACEBACK=1 shows where)", 1)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Ctrl-C. Python drops what is raised while it collects garbage, where JAX has work of its own: a moment later, then."""
    if frame is not None and frame.f_code.co_name in ("_xla_gc_callback", "__del__"):
        threading.Timer(0.01, os.kill, (os.getpid(), signal.SIGINT)).start()
        return
    raise KeyboardInterrupt


def _fail(message: str, code: int) -> None:
    print("tokenfield: " + " ".join(message.split()), file=sys.stderr)
    sys.exit(code)


def _refuse_empty(given: Sequence[str]) -> None:
    """An empty path would be the current folder."""
    for flag, value in itertools.pairwise(
        part for text in given for part in text.split("=", 1 if text[:1] == "-" else 0)
    ):
        if flag.startswith("--") and not value:
            _fail(f"{flag} must not be empty: give a value, or leave it out", 2)
