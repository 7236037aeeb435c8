"""What settings make of each text that a person may write, and what a policy's file says: as it was last read.

`make goldens` writes them anew.
"""

from __future__ import annotations

from pathlib import Path

from bot.errors import WrongInput
from bot.model.labels import Labels
from bot.model.policy import Override, Policy
from bot.policy.file import (
    applied,
    canonical,
    edits,
    read_changes,
    read_policy,
    replaced,
    shown,
    stacked,
    write_policy,
)
from bot.policy.schema import SETTINGS, default_policy
from tests.cards.test_goldens import compare

GOLDENS = Path(__file__).with_name("goldens")
TEXTS = ("0", "1", "-1", "15%", "150%", "0.5", "2.5", "$2.50", "1,000", "30m", "2h", "40d", "1w", "on", "NO", "off", " default ", "", "soon", "1e3", "9999999", "22:00-07:00 Europe/Berlin", "25:00-07:00")  # fmt: skip
LLAMA, SEARCH, EVERYWHERE = Labels(cluster="llama"), Labels(team="search"), Labels()
FILES = {
    "empty": "",
    "settings": '[idle]\nbelow = "15%"\nfor = "45m"\non = false\n[alert]\nleast_usd_per_hour = 2.5\nusual_days = 7\n',
    "in a table": '[policy.idle]\nbelow = "15%"\n[[policy.override]]\ncluster = "llama"\n"idle.below" = "20%"\n',
    "overrides": '[[override]]\ncluster = "llama"\nteam = "search"\n"idle.below" = "20%"\n"idle.for" = "1h"\n[[override]]\nteam = "ads"\n"idle.on" = false\n',
    "mistakes": '[idle]\nbelow = "high"\nbelo = "15%"\nfor = ["45m"]\n[alert]\nusual_days = 2.5\n[[override]]\nclutser = "llama"\n"idle.below" = "20%"\n[[override]]\ncluster = "llama"\n[[override]]\n"idle.below" = "20%"\n[[override]]\nteam = "x"\n"alert.remind_after" = "1h"\n',
    "no list": 'override = "x"\n',
    "no toml": "[idle\nbelow = 1",
    "twice": "[idle]\non = true\non = false\n",
    "a number without end": f"[idle]\nfor = {'9' * 60}\n",
    "digits without end": f"[idle]\nfor = {'9' * 5000}\n",
    "deep": "x = " + "[" * 60 + "]" * 60,
    "very deep": "x = " + "[" * 5_000 + "]" * 5_000,
    "dots": "a" + ".a" * 5_000 + " = 1",
    "long": "# " + "x" * 300_000,
    "hundreds of mistakes": "\n".join(f"x{n} = 1" for n in range(200)),
}  # fmt: skip


def told(of: object) -> str:
    return str(of)[:300]


def test_each_text_is_read_as_it_was() -> None:
    written = []
    for key, setting in SETTINGS.items():
        facts = f"{setting.unit}, {' to '.join(setting.bounds())}, {'scoped' if setting.scoped else 'one for all'}"
        by_answer: dict[str, list[str]] = {}
        for text in TEXTS:
            try:
                answer = canonical(key, text)
            except WrongInput as error:
                answer = told(error).replace(repr(text), "IT")
            by_answer.setdefault(answer, []).append(repr(text))
        written.append(f"{key} = {setting.show(setting.default)} ({facts})")
        written += [f"  {', '.join(texts)}: {answer}" for answer, texts in by_answer.items()]
    compare("\n".join(written) + "\n", GOLDENS / "texts.txt")


def policy_words(policy: Policy) -> str:
    default = default_policy()
    changed = [
        f"{k}={SETTINGS[k].show(v)}" for k, v in policy.values.items() if v != default.values[k]
    ]
    scoped = [f"{scope}: {k}={SETTINGS[k].show(v)}" for scope, k, v in policy.overrides]
    return "; ".join([*changed, *scoped]) or "the defaults"


def test_each_file_is_read_and_written_as_it_was() -> None:
    written = []
    for name, text in FILES.items():
        for file in ("", "policy.toml"):
            try:
                policy = read_policy(text, file)
            except WrongInput as error:
                written.append(f"{name}, {file or 'no file'}: {str(error)[:1200]}")
                continue
            written.append(f"{name}, {file or 'no file'}: {policy_words(policy)}")
            if not file:
                brief = write_policy(policy, every=False)
                written.append(f"  {brief.strip()}".replace("\n", "\n  "))
                assert read_policy(brief) == policy == read_policy(write_policy(policy))
    compare("\n".join(written) + "\n", GOLDENS / "files.txt")


def test_changes_stack_as_they_did() -> None:
    base = read_policy(FILES["overrides"])
    first = read_changes([("idle.below", "12%"), ("alert.remind_after", "2h")], EVERYWHERE)
    steps: tuple[tuple[str, tuple[Override, ...]], ...] = (
        ("first", first),
        ("in a scope", read_changes([("idle.below", "30%")], LLAMA)),
        ("the same again", read_changes([("idle.below", "31%")], LLAMA)),
        ("another scope", read_changes([("idle.for", "2h"), ("idle.on", "no")], SEARCH)),
        ("one of the file's", read_changes([("idle.on", "on")], Labels(team="ads"))),
        ("taken back", read_changes([("idle.below", "default")], LLAMA)),
        ("of another version", ((EVERYWHERE, "gone.key", "1"),)),
    )
    written, stored = [], tuple[Override, ...]()
    for name, changes in steps:
        before, stored = applied(base, stored), stacked(stored, changes)
        after = applied(base, stored)
        written.append(f"{name}: {policy_words(after)}")
        written += [
            f"  {str(x.scope) or 'everywhere'} {x.key}: {x.before} -> {x.after}"
            for x in edits(before, after, changes)
        ]
        written += [f"  {str(scope) or 'everywhere'} {key} is {shown(after, scope, key)}" for scope, key, _ in changes if key in SETTINGS]  # fmt: skip
        again = applied(base, replaced(base, after))
        assert [again.at(x).values for x in (EVERYWHERE, LLAMA, SEARCH)] == [after.at(x).values for x in (EVERYWHERE, LLAMA, SEARCH)]  # fmt: skip
    for pairs, scope in (
        ([("idle.belo", "1%")], EVERYWHERE),
        ([("idle.below", "1%"), ("idle.below", "2%")], EVERYWHERE),
        ([("alert.remind_after", "1h"), ("idle.for", "soon"), ("idle.on", "maybe")], LLAMA),
    ):
        try:
            written.append(str(read_changes(pairs, scope)))
        except WrongInput as error:
            written.append(f"{pairs} in {str(scope) or 'everywhere'}: {error} [{error.argument}]")
    compare("\n".join(written) + "\n", GOLDENS / "changes.txt")
