"""Open the two doors: `tick(now)` for the watch, `answer(Request)` for people."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial

from bot.cards.alert import notification_card, reach_of, thread_line
from bot.cards.alert_words import worth
from bot.cards.card import Card, Mention, Tone, text
from bot.cards.charts import alert_chart
from bot.cards.lines import LONGEST_SHARED, with_details, with_file, with_permalink, with_share
from bot.costs.reconcile import remember_estimate
from bot.costs.tally import as_of
from bot.errors import NotAllowed, OverBudget, Standby, TrnbotError
from bot.grammar.access import Access
from bot.grammar.line import Call, CommandLine, attempted, effect_of, read_line, typed
from bot.grammar.plain.ask import PlainWords, Unsure
from bot.grammar.registry import Command, Needs
from bot.grammar.turns import Turns, equal_of
from bot.model.alert import leading
from bot.model.notification import Notification
from bot.model.policy import Attempt
from bot.model.reading import Reading, Shares
from bot.model.request import Effect, Manner, Request
from bot.ports import Ports, State, StateUpdate
from bot.ports.work import Lane, audit, within
from bot.watch.deliver import PRESS_S, TICK_S, Aside, Decided, Delivery, decide, surface_of
from bot.watch.health import Health, watch_channels
from bot.watch.mute import mute
from bot.watch.tick import TickResult, Watch, drill_targets, learning, notify

log = logging.getLogger("trnbot.app")
_AUDITED = (Effect.CHANGES, Effect.SHARES, Effect.WORKS)


class App:
    """Hold the bot: one watch, one store, many surfaces."""

    def __init__(
        self,
        ports: Ports,
        channels: Sequence[str],
        access: Access,
        stopwatch: Callable[[], float],
        health: Health | None = None,
        turns: Turns | None = None,
    ) -> None:
        self.ports, self._access = ports, access
        self.health = health or Health(stopwatch=stopwatch)
        self._channels = tuple(channels)
        self._plain = PlainWords(ports)
        self._listed = tuple(address for address in access.admins if address not in channels)
        self._watch = Watch(ports, channels)
        self.health.shares = lambda: self._watch.shares
        self._turn, self._opening = asyncio.Lock(), False
        self._leaving = asyncio.Event()
        self._later: set[asyncio.Task[None]] = set()
        self._ticked_at: datetime | None = None
        self._turns, self._stopwatch = turns, stopwatch
        self._delivery = Delivery(
            ports.site.surfaces, ports.stores.alerts, ports.stores.outbox, self._arrived
        )
        self._aside = Aside()

    async def tick(self, now: datetime) -> TickResult | None:
        """Run one tick: read, write, notify, write the log.

        A tick that fails leaves the last one's state whole.

        Returns None where the bot left while it read, before anything was written.
        """
        with within(Lane.WATCH), self.health.noting():
            started = self._stopwatch()
            reading = await self._read(now)
            if reading is None:
                return None

            # Taken once all is read: a person's decision does not wait for AWS.
            async with self._turn:
                return await self._judge(reading, started)

    async def _judge(self, reading: Reading, started: float) -> TickResult:
        # It takes half of all answers, which a line of a terminal never asks.
        from bot.answers.about.digest import post_due
        from bot.answers.plan.act import advance_due

        now, result = reading.now, await asyncio.to_thread(self._watch.judge, reading)
        if not self._knows_all(result.state):
            raise Standby("The database holds less than before; the watch continues from there.")
        alerts, ports = result.outcome.alerts, as_of(self.ports, now)
        self._plain.saw(result.reading)
        decided = self._decide(result.outcome.notifications, result.state, result.reading)
        await self._send(decided, result.changes(), now, TICK_S)

        seen = result.coverage
        current = replace(result.state, alerts=alerts, ticked_at=now, seen=seen)
        periodicals = partial(post_due, ports, current, result.reading, now)
        advance = partial(advance_due, ports, now)
        for name, work in (("periodicals", periodicals), ("actions", advance)):
            failed = await self._aside.run(name, work)
            # Added to what is undelivered by now: a channel may have caught up meanwhile.
            self.health.undelivered += failed or ()

        ticked = StateUpdate(ticked_at=now, seen=seen)
        await asyncio.to_thread(self.ports.stores.alerts.save, ticked)
        self._ticked_at = now
        await asyncio.to_thread(self.ports.world.inbox.settle, now)
        await asyncio.to_thread(self.ports.world.drill, drill_targets(alerts), now)
        await asyncio.to_thread(remember_estimate, ports, now, result.reading)

        gaps = tuple(map(str, result.reading.gaps))
        self.health.ticked(now, self._stopwatch() - started, alerts, gaps, seen)
        self.health.learning = learning(result.reading, self.ports.policy)
        return result

    async def report(self, shares: Shares, process: str) -> None:
        """Look at the clusters that this process was given for a tick, and report to the lead."""
        with within(Lane.WATCH):
            await asyncio.to_thread(self._watch.report, shares, process)

    async def shortlist(self, now: datetime) -> None:
        """Weigh suggestions once a day, beside the ticks, for pages that may not wait for it."""
        from bot.answers.plan.suggestions import weigh_daily

        weighing = partial(asyncio.to_thread, weigh_daily, as_of(self.ports, now), now)
        try:
            await self._aside.run("suggestions", weighing)
        except Exception:  # a tick is whole without them
            log.exception("suggestions were not weighed")

    async def _read(self, now: datetime) -> Reading | None:
        """Read the world in a thread; None once the bot leaves, for nobody needs the end of it."""

        def receive_and_read() -> Reading:
            # The first tick would load them in its turn, which people's presses wait for.
            self.ports.world.load_detectors()
            self.ports.world.inbox.receive(now)
            return self._watch.read(now)

        self._opening = self._ticked_at is None
        reading = asyncio.create_task(asyncio.to_thread(receive_and_read))
        leaving = asyncio.create_task(self._leaving.wait())
        try:
            await asyncio.wait({reading, leaving}, return_when=asyncio.FIRST_COMPLETED)
            return reading.result() if reading.done() else None
        finally:
            self._opening = False
            reading.cancel()
            leaving.cancel()

    def leave(self) -> None:
        """Begin no tick, and abandon the reading of one under way.

        Its writes and messages are finished.
        """
        self._leaving.set()

    def step_back(self) -> None:
        """Send nothing more that was decided here: another process leads."""
        self._ticked_at = None
        self._delivery.forget()

    def _knows_all(self, state: State) -> bool:
        """Return whether the database knows every tick that this process does.

        A backup that was put back does not, nor a replica that lagged: what was said since is
        looked for in the channels.
        """
        knows = self._ticked_at is None or (
            state.ticked_at is not None and state.ticked_at >= self._ticked_at
        )
        if not knows:
            self.step_back()
        return knows

    async def settle(self) -> None:
        """Let the messages under way be finished.

        What was not begun stays written, for the next process.
        """
        if self._later:
            await asyncio.wait(self._later, timeout=PRESS_S)
        await self._delivery.settle()

    async def answer(self, request: Request) -> Card:
        """Answer one line; whatever is wrong with it comes back as a card of one sentence."""
        try:
            return (await self.ask(request))[1]
        except Unsure as unsure:
            return unsure.card
        except TrnbotError as error:
            return error_card(error)
        except Exception:
            log.exception("the line failed: %s", request.line.split(" ")[0][:40])
            return error_card(
                TrnbotError(
                    "Something went wrong here, not in your line; it was logged. "
                    "Try again, or type 'doctor'."
                )
            )

    async def ask(self, request: Request, *, plain: bool = True) -> tuple[Call, Card]:
        """Answer one line in its turn, where `plain` also in plain words.

        Raise `WrongInput`, `NotAllowed` or `Unavailable`.
        """
        asked = self._plain.answer(request, self._taken) if plain else self._taken(request)
        try:
            call, card = await asked
        except TrnbotError as error:
            refusal = isinstance(error, NotAllowed | OverBudget)
            _audit(request, attempted(request.line), str(error), always=refusal)
            raise
        _audit(request, call.command)
        return call, card

    async def weigh(self, request: Request) -> Call:
        """Understand a line, check that its asker may have it done and that all it names is there.

        Raise as `run` does.
        """
        async with self._noting_refusal(request):
            try:
                call = (await self._admitted(request))[1]
            except NotAllowed as error:
                _audit(request, attempted(request.line), str(error), always=True)
                raise
            for parameter in call.command.parameters:
                if finds := parameter.arg.finds:
                    value = call.arguments[parameter.name]
                    await finds(as_of(self.ports, request.at), request, value)
        return call

    async def _taken(self, request: Request) -> tuple[Call, Card]:
        """Run one line in its turn, where there are turns."""
        if self._turns is None:
            return await self.run(request)
        return await self._turns.take(request, partial(self.run, request), equal_of(request))

    async def run(self, request: Request) -> tuple[Call, Card]:
        """Understand one line and answer it; raise `WrongInput`, `NotAllowed` or `Unavailable`."""
        async with self._noting_refusal(request):
            line, call = await self._admitted(request)
            card: Card = await call.command.handler(
                as_of(self.ports, request.at), replace(request, line=line.text), **call.arguments
            )
        await self._note(request)
        command = call.command
        if line.detailed:
            card = with_details(card)
        if command.changes and Needs.STATE in command.needs:
            await self._notify_soon(request.at)

        if request.belonging.shared:  # people of other organizations read along
            return call, replace(card, public=False)
        if not command.changes:
            card = self._with_ways(card, request, call, line.text)
        if line.shared:
            return call, replace(card, public=True)

        # To share what was done would be to do it again.
        done = command.changes and card.tone is Tone.GOOD
        if request.channel and not done:
            card = with_share(card, line.text)
        return call, card

    def _with_ways(self, card: Card, request: Request, call: Call, line: str) -> Card:
        """Say where the answer is given again and as a file.

        Pages and terminals have ways of their own.
        """
        if request.surface == "web" or len(line) > LONGEST_SHARED:
            return card
        linked = with_permalink(card, self.ports.site.permalink(line))
        heavy = call.command.heavy or call.command.carries or request.surface == "terminal"
        return linked if heavy else with_file(linked, line)

    async def _admitted(self, request: Request) -> tuple[CommandLine, Call]:
        self._access.admit(request.belonging)
        line = read_line(request.line)
        await self._access.check(line, request, self.ports.site.people)
        return line, typed(line, request.at)

    @asynccontextmanager
    async def _noting_refusal(self, request: Request) -> AsyncIterator[None]:
        """Note that an audited line was tried, and why it was refused."""
        try:
            yield
        except TrnbotError as error:
            await self._note(request, str(error))
            raise

    async def _note(self, request: Request, refused: str = "") -> None:
        command, user = attempted(request.line), request.user
        # Nobody attempts what a link says.
        if command and command.audited and request.manner is Manner.ASKED:
            line = request.line[:LONGEST_SHARED]
            attempt = Attempt(request.at, user.id, user.name, line, refused)
            await asyncio.to_thread(self.ports.stores.versions.note, attempt)

    async def _notify_soon(self, now: datetime) -> None:
        """Notify of a person's decision.

        Where a tick writes and sends, or the first one reads what nobody has read yet, the answer
        does not wait for that.
        """
        task = asyncio.create_task(self.refresh(now))
        self._later.add(task)
        task.add_done_callback(self._done_later)
        if self._turn.locked() or self._opening:
            return
        await asyncio.wait({task})
        # What ends the process is raised: the decision is kept, and so is what is owed for it.
        if not isinstance(error := task.exception(), Exception | None):
            raise error

    def _done_later(self, task: asyncio.Task[None]) -> None:
        self._later.discard(task)
        if not task.cancelled() and (error := task.exception()):
            log.error("open notices were not drawn again after a decision", exc_info=error)

    async def refresh(self, now: datetime) -> None:
        """Notify of a person's decision at once, without a tick; once decided, nothing stops it."""
        with within(Lane.WATCH):
            async with self._turn:
                state = await asyncio.to_thread(self.ports.stores.alerts.load, now)
                rules = await asyncio.to_thread(self._watch.rules)
                firing = [alert for alert in state.alerts if alert.firing]
                ended = [alert for alert in state.alerts if not alert.firing]
                alerts = mute(firing, state.silences, rules.policy, now, ended)
                changed = [alert for alert in alerts if alert not in state.alerts]

                # Read as a line reads: what the tick under way asks for need not be here.
                with within(Lane.QUICK):
                    reading = await asyncio.to_thread(self._watch.read, now)
                decided = self._decide(notify(state, alerts, rules, now), state, reading)
                await self._send(decided, StateUpdate(alerts=changed), now, PRESS_S)

    def _decide(
        self, notifications: Sequence[Notification], state: State, reading: Reading
    ) -> Decided:
        """Put the notifications into words."""
        self._knows_all(state)
        self._ticked_at = state.ticked_at
        routes, acts = self.ports.site.current_routes(), self.ports.world.actions is not None

        def draw(notification: Notification) -> Card:
            dearest = max(leading(notification.alerts), key=worth)
            chart = alert_chart(dearest, reading.frames)
            reach = reach_of(routes, notification.channel)
            return notification_card(notification, chart, state.silences, reach, acts=acts)

        line = partial(
            thread_line, silences=(*state.silences, *state.slept), log=state.notification_log
        )
        return decide(notifications, state, draw, line)

    async def _send(
        self, decided: Decided, changes: StateUpdate, now: datetime, patience_s: float
    ) -> None:
        """Write alerts, and what is to be sent; then send it."""
        self._delivery.fresh(decided.keys())
        entries = [*changes.notification_log, *decided.entries]
        changes = replace(changes, notification_log=entries, lines=decided.lines)
        await asyncio.to_thread(self.ports.stores.alerts.save, changes)
        # A terminal reaches no channel: the process that serves sends what it wrote.
        parcels = decided.parcels if self.ports.site.surfaces else ()
        delivered = await self._delivery.send(parcels, patience_s)
        self.health.undelivered = delivered.failed
        watching = partial(
            watch_channels, delivered, self.ports.stores.documents, now, self.tell_admins
        )
        await self._aside.run("channels", watching)

    def _arrived(self, channel: str) -> None:
        """Note that a channel waits for nothing any more."""
        self.health.undelivered = tuple(
            failure for failure in self.health.undelivered if not failure.startswith(f"{channel}: ")
        )

    async def tell_admins(self, sentence: str, *, widely: bool = False) -> None:
        """Say something about the bot itself on the console, and to the first admin who is reached.

        What is said `widely` goes to a channel where no admin is reached. No database is asked, as
        the sentence may be about it.
        """
        card = Card(sentence, Tone.ERROR, public=True)
        elsewhere = [*self._listed, *(self._channels[1:] if widely else ())]
        for addresses in (self._channels[:1], elsewhere):
            for address in addresses:
                try:
                    surface, channel = surface_of(address, self.ports.site.surfaces)
                    # Under no key, as surfaces keep in the database what has one.
                    await surface.post(channel, card, "")
                    break
                except (TrnbotError, OSError, TimeoutError) as error:
                    log.info("admins were not notified at %s: %s", address, error)


def error_card(error: TrnbotError) -> Card:
    """Return the card of a failure in one sentence, and who may help where the error names them.

    Its data names the argument that is wrong.
    """
    admin, argument = getattr(error, "admin", ""), getattr(error, "argument", "")
    advice = (" Ask ", Mention(admin, "an admin"), ".") if admin else ()
    data = {"error": str(error), "status": error.status}
    data |= {"argument": argument} if argument else {}
    return Card("That did not work", Tone.ERROR, (text(str(error), *advice),), data)


def _audit(
    request: Request, command: Command | None, refused: str = "", *, always: bool = False
) -> None:
    """Audit a change, a share, a read that works for long, and what a person was refused."""
    long = command is not None and command.long
    if not (always or long or effect_of(request.line) in _AUDITED):
        return
    audit(
        "line",
        "refused" if refused else "done",
        request.user,
        origin=request.belonging.organization,
        surface=request.surface,
        channel=request.channel,
        line=request.line[:LONGEST_SHARED],
        because=refused,
    )
