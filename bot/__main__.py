"""Start trnbot: `trnbot serve`, `trnbot demo`, or any command line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext

from bot.errors import TrnbotError, WrongInput
from bot.settings.options import LINE_OPTIONS, Options, read_options


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one call and return its exit code.

    0 done, 2 the line or a setting is wrong, 1 something outside failed.
    """
    try:
        options = read_options(sys.argv[1:] if arguments is None else arguments)
        return run(options)
    except WrongInput as error:
        return _failed(error, 2)
    except TrnbotError as error:
        return _failed(error, 1)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except Exception as error:
        if "--verbose" in (sys.argv if arguments is None else arguments):
            raise
        fault = TrnbotError(
            f"a fault in trnbot itself ({type(error).__name__}); the same call with --verbose shows where."
        )
        return _failed(fault, 1)


def run(options: Options) -> int:
    """Run the words; what they write is for this user alone, unless it is made to be handed on."""
    from bot.wiring.environment import private_files
    from bot.wiring.logs import quiet_log

    quiet_log()
    verb = chosen(options)
    with (
        nullcontext()
        if verb in (score, simulate, manifest, completion, version)
        else private_files()
    ):
        return verb(options)


def chosen(options: Options) -> Callable[[Options], int]:
    """Return the function that runs the words: a verb (or its explanation), else any command line."""
    verb = VERBS.get(options.verb, line)
    asked = {"--help", "-h"} & set(options.words)
    return explain if asked and options.verb in OPTIONS else verb


def explain(options: Options) -> int:
    """Explain a verb and its options."""
    print(f"trnbot {options.verb}: {VERBS[options.verb].__doc__}\n\n{OPTIONS[options.verb]}")
    return 0


def serve(options: Options) -> int:
    """Run the product from the settings."""
    from bot.wiring.serve import ServePlan, run  # the servers load only when something is served

    _takes(options, "source", "port", "config", "verbose")
    return run(options, ServePlan())


def demo(options: Options) -> int:
    """Replay a simulated fleet (or a recording) faster than life, with the console in a browser."""
    from bot.wiring.serve import ServePlan, run

    _takes(options, "source", "port", "config", "verbose", "no-browser")
    return run(options, ServePlan(demo=True, browser="no-browser" not in options.switches))


def mcp(options: Options) -> int:
    """Serve every command as a tool of the Model Context Protocol, over standard input and output."""
    from bot.wiring.cli import serve_tools

    _takes(options, "source", "config", "verbose")
    return serve_tools(options)


def line(options: Options) -> int:
    """Answer any command line in the terminal."""
    from bot.wiring.terminal import answer_line

    options.only(*LINE_OPTIONS)
    return answer_line(options)


def score(options: Options) -> int:
    """Score CSVs of metrics."""
    from bot.wiring.cli import score_files

    _takes(options, "plot", "truth", "history")
    return score_files(options)


def simulate(options: Options) -> int:
    """Write a simulated recording."""
    from bot.wiring.cli import write_simulation

    return write_simulation(options)


def record(options: Options) -> int:
    """Write a recording of the live account."""
    from bot.wiring.cli import record_account

    _takes(options, "days", "keep-identities", "config", "verbose")
    return record_account(options)


def manifest(options: Options) -> int:
    """Write the manifests of Slack and Teams."""
    from bot.wiring.cli import write_manifests

    _takes(options, "config")
    return write_manifests(options)


def completion(options: Options) -> int:
    """Write the script by which a shell completes trnbot's lines."""
    from bot.wiring.completion import SHELLS, script

    _takes(options)
    if len(options.words) != 2:
        raise WrongInput(
            f"'completion' takes the name of a shell: {', '.join(SHELLS)}; for example: trnbot completion bash."
        )
    print(script(options.words[1].lower(), {verb: OPTIONS.get(verb, "") for verb in VERBS}), end="")
    return 0


def version(options: Options) -> int:
    """Say which version this is."""
    from bot.wiring.environment import product_version

    _takes(options)
    print(f"trnbot {product_version()}")
    return 0


def secrets(options: Options) -> int:
    """Make the key that seals stored secrets, or change it."""
    from bot.wiring.secrets import manage_secrets

    _takes(options, "kms", "config", "verbose")
    return manage_secrets(options)


VERBS: Mapping[str, Callable[[Options], int]] = {
    "serve": serve,
    "demo": demo,
    "mcp": mcp,
    "score": score,
    "simulate": simulate,
    "record": record,
    "manifest": manifest,
    "secrets": secrets,
    "completion": completion,
    "version": version,
}


OPTIONS: Mapping[str, str] = {
    "serve": "  --source SRC    aws, recording:DIR or simulator:SEED, over TRNBOT_SOURCE\n"
    "  --port N        the HTTP port, over TRNBOT_PORT\n"
    "  --config FILE   the settings file, over TRNBOT_CONFIG\n"
    "  --verbose       log more",
    "demo": "  --source SRC    what to replay (simulator:7/story when nothing says otherwise)\n"
    "  --port N        the HTTP port, over TRNBOT_PORT\n"
    "  --no-browser    only print the console's address",
    "mcp": "  --source SRC    aws, recording:DIR or simulator:SEED, over TRNBOT_SOURCE\n"
    "  --config FILE   the settings file, over TRNBOT_CONFIG",
    "score": "  trnbot score IN OUT    a CSV (timestamp,value,...) into a CSV, or a folder into a folder\n"
    "  --history PATH  rows before IN (a file, or a folder of the same shape): learnt, not written\n"
    "  --plot DIR      leave a picture of each series with its score\n"
    '  --truth FILE    shade its labels in the pictures: JSON {"folder/name.csv": [[start, end], ...]}',
    "record": "  trnbot record DIR    metrics, inventory and prices of the AWS account, into a new folder\n"
    "  --days N        how many days back (7; CloudWatch keeps minutes for 15)\n"
    "  --keep-identities   people by their names; without it, aliases stand for them",
    "manifest": "  trnbot manifest [DIR]    slack.yaml and teams.zip, into manifest/ when no folder is named",
    "secrets": "  trnbot secrets key       print a fresh key for TRNBOT_SECRETS_KEY\n"
    "  trnbot secrets rotate    seal every stored secret with the first key of the list\n"
    "  trnbot secrets forget    drop the stored secrets that no key of the list opens\n"
    "  --kms NAME      with key: one that this key of AWS KMS wraps (an id, ARN or alias)",
    "completion": "  trnbot completion bash    a script for bash; also zsh and fish (see docs/operate.md)",
    "version": "  trnbot version    the same as trnbot --version",
}


def _takes(options: Options, *names: str) -> None:
    """Refuse every option that a verb does not know, whether others know it or nobody does."""
    options.only(*names)
    options.refuse_unread(*names)


def _failed(error: TrnbotError, code: int) -> int:
    print(f"trnbot: {error}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
