"""What a person who asks in plain words is answered, line after line, as it was last read.

Each conversation begins with a bot that knows nobody. `make goldens` writes the golden anew.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from adapters.store.memory import MemoryStore
from bot.cards.card import Card, Text, plain
from bot.grammar.plain.ask import LEARNT
from bot.knowledge import load_knowledge
from bot.model.request import Manner
from tests.builders import NOON, anomaly, with_parts
from tests.cards.test_goldens import compare
from tests.house.fakes import Chat, Script, app, ask

GOLDEN = Path(__file__).with_name("goldens") / "asked.txt"
CONVERSATIONS: Mapping[str, Sequence[str]] = {
    "a question and what follows": ("fleet llama", "vision", "and llama?", "@11m vision"),
    "the same over another time": ("alerts", "yesterday", "and this week?", "@11m today"),
    "at the last minute, and as long as may be": ("alerts", f"@10m {'yesterday':>300}", f"@10m {'today':>301}", "what is idle".rjust(300), "what is idle".rjust(301)),
    "a choice that is pressed in time is learnt": ("llama cost or idle", "@10m idle llama"),
    "what was only viewed is not followed": ("@viewed alerts", "yesterday"),
    "elsewhere is another conversation": ("alerts", "@thread=9 yesterday", "@by=chat:U2 yesterday"),
    "what changed something is not followed": ("ack ALERT", "yesterday"),
    "a choice that is pressed is learnt": ("llama cost or idle", "idle llama", "llama cost or idle"),
    "a choice that is pressed too late is not": ("llama cost or idle", "@11m idle llama"),
    "a choice that another person presses is not": ("llama cost or idle", "@by=chat:U2 idle llama"),
    "what would change something waits": ("please acknowledge ALERT", "ack ALERT", "snooze it for 2 hours"),
    "a slip of a command": ("cots 7d", "flete", "ack lama", "snoze ALERT 1h"),
    "what carries a line is no slip": ("csv cots", "receipt cots", "csv what did llama cost"),
    "what is shared is read as it stands": ("share what is idle", "share alerts"),
    "what nobody understands": ("xyzzy plugh", "the of and", "please", "!!!", "a=b", "cost --what", "x" * 301),
    "prose that begins with a filler": ("and then the rest of it", "please do the thing"),
    "a precise line with a mistake": ("cost 2026-13-01", "fleet a,b", "alerts soon=1"),
    "with the bot's name": ("/trn what is idle", "trnbot fleet of llama", "/trn cots"),
    "two questions": ("what is idle? and what does it cost",),
    "in other languages": ("was kostet llama", "quels noeuds sont inactifs", "llamaのコストは？"),
    "a definition": ("what is ETTR", "what is a fleet"),
    "what the bill alone knows": ("what did llama cost last week", "spend by team"),
}  # fmt: skip


def shown(card: Card) -> str:
    words = [plain(x.spans)[:140] for x in card.each(Text)][:2]
    lines = [button.line for button in card.buttons][:5]
    kept = {x: card.data[x] for x in ("read_as", "choices") if x in card.data}
    return f"{card.title[:100]} | {' / '.join(words)} | {', '.join(lines)} {json.dumps(kept) if kept else ''}"


async def answered(lines: Sequence[str]) -> list[str]:
    store = MemoryStore()
    bot = app(Script(anomaly()), Chat(), store)
    bot.ports = with_parts(bot.ports, knowledge=load_knowledge())
    result = await bot.tick(NOON)
    assert result
    alert = result.outcome.alerts[0].id
    written = []
    for typed in lines:
        manner, _, line = typed.partition(" ") if typed.startswith("@") else ("", "", typed)
        request = ask(line.replace("ALERT", alert))
        name, _, value = manner.removeprefix("@").partition("=")
        if name == "viewed":
            request = replace(request, manner=Manner.VIEWED)
        elif name == "by":
            request = replace(request, user=replace(request.user, id=value))
        elif name == "thread":
            request = replace(request, thread=value)
        elif name:
            request = replace(request, at=NOON + timedelta(minutes=int(name.removesuffix("m"))))
        answer = shown(await bot.answer(request)).replace(alert, "ALERT")
        written.append(f"{' '.join(typed.split())[:80]}\n  {answer}")
    learnt = [f"{x.text} -> {x.command}" for _, x in LEARNT.newest(store, 9)]
    return [*written, *([f"learnt: {'; '.join(learnt)}"] if learnt else [])]


async def test_each_conversation_goes_as_it_was_last_read() -> None:
    written = []
    for name, lines in CONVERSATIONS.items():
        written += [f"## {name}", *await answered(lines)]
    compare("\n".join(written) + "\n", GOLDEN)
