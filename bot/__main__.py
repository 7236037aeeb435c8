"""Start trnbot: `trnbot serve`, `trnbot demo`, or any command line."""

from __future__ import annotations

import pkgutil
import sys
from collections.abc import Sequence
from contextlib import nullcontext

from bot.errors import TrnbotError, WrongInput
from bot.wiring.verbs import LINE, VERBS, Options, read_options


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one call and return its exit code.

    0 done, 2 the line or a setting is wrong, 1 something outside failed.
    """
    if arguments is None:
        arguments = sys.argv[1:]
    try:
        return run(read_options(arguments))
    except TrnbotError as error:
        failure = error
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Whoever read the output has gone, as `head` does; Python would complain as it ends.
        sys.stderr.close()
        return 0
    except Exception as error:
        if "--verbose" in arguments:
            raise
        failure = TrnbotError(
            f"a bug in trnbot ({type(error).__name__}); run it again with --verbose to see where."
        )

    print(f"trnbot: {failure}", file=sys.stderr)
    return 2 if isinstance(failure, WrongInput) else 1


def run(options: Options) -> int:
    """Carry out a verb, or explain it; or else any command line."""
    from bot.wiring.environment import private_files
    from bot.wiring.logs import quiet_log

    quiet_log()
    if options.verb == "help" and options.words[1:] and options.words[1].lower() in VERBS:
        options.words = [options.words[1], "--help"]
    verb = VERBS.get(options.verb, LINE)
    if verb.explanation and {"--help", "-h"} & set(options.words):
        print(f"trnbot {options.verb}: {verb.summary}\n\n{verb.explanation}")
        return 0

    with private_files() if verb.private else nullcontext():
        carry_out = pkgutil.resolve_name(verb.carried_out_by)
        if verb.takes is not None:
            options.only(*verb.takes)
            options.refuse_unread(*verb.takes, alone=verb.alone)
        # Only what may end in several ways says how it did.
        return carry_out(options) or 0


if __name__ == "__main__":
    sys.exit(main())
