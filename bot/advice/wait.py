"""Compare training on Trainium2 now with waiting for Trainium3, whose price nobody states yet."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from bot.model.claims import Chip

_CENT = Decimal("0.01")


@dataclass(frozen=True)
class Waiting:
    """State both ways for the same work: USD and months, and what Trainium3 may cost an hour of a chip, Trainium2 = 1."""

    speedup: float
    now_usd: Decimal
    now_months: Decimal
    later_months: Decimal
    """Waiting included."""
    later_usd: Decimal
    """At the same price an hour of a chip, and with what the delay costs."""
    delay_usd: Decimal
    most_price_ratio: Decimal
    """The price of an hour of a chip, as a multiple of today's, up to which waiting costs no more."""

    @property
    def waits(self) -> bool:
        """Tell whether waiting is cheaper at the same price."""
        return self.later_usd < self.now_usd


def waiting(
    now: Chip, later: Chip, fp8: bool, months: Decimal, bill_usd: Decimal, wait_months: Decimal, delay_usd: Decimal
) -> Waiting:
    """Return both ways: `months` of work at `bill_usd` a month on the chip of today; `delay_usd` is a later month's price."""
    factor = later.fp8_tflops / now.fp8_tflops if fp8 else later.bf16_tflops / now.bf16_tflops
    speed = Decimal(str(round(factor, 2)))
    today, work = (months * bill_usd).quantize(_CENT), months * bill_usd / speed
    end = wait_months + months / speed
    delay = (max(Decimal(0), end - months) * delay_usd).quantize(_CENT)
    ratio = max(Decimal(0), (today - delay) / work) if work else Decimal(0)
    return Waiting(
        float(speed), today, months, end.quantize(Decimal("0.1")), (work + delay).quantize(_CENT), delay, ratio.quantize(_CENT)
    )
