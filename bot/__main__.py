"""Start trnbot: `trnbot serve`, `trnbot demo`, or any command line."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from bot.errors import TrnbotError, WrongInput
from bot.options import read_options


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one call and return its exit code: 0 done, 2 the line or a setting is wrong, 1 something outside failed."""
    try:
        options = read_options(sys.argv[1:] if arguments is None else arguments)
        from bot import build  # heavy libraries load only once the words are understood

        return build.call(options)
    except WrongInput as error:
        print(f"trnbot: {error}", file=sys.stderr)
        return 2
    except TrnbotError as error:
        print(f"trnbot: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 0


if __name__ == "__main__":
    sys.exit(main())
