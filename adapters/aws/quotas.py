"""Translate ListServiceQuotas into the vCPU quotas of accelerated instances."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from adapters.aws.responses import Answer, Pages, members
from bot.model.fleet import Market, Quota
from bot.model.labels import Labels

_RUNNING = re.compile(r"Running On-Demand (.+) instances", re.IGNORECASE)
_SPOT = re.compile(r"All (.+) Spot Instance Requests", re.IGNORECASE)
_ACCELERATED = frozenset({"trn", "inf", "p", "g", "p2", "p3", "p4", "p5", "p6"})


def quotas(pages: Pages, answer: Answer) -> tuple[Quota, ...]:
    """Return the quotas whose names speak of accelerated families (`Running On-Demand Trn instances`)."""
    found = (_quota(member, answer) for member in members(pages, "Quotas"))
    return tuple(sorted((x for x in found if x), key=lambda x: x.name))


def _quota(member: Mapping[str, Any], answer: Answer) -> Quota | None:
    name = str(member.get("QuotaName", ""))
    running, spot = _RUNNING.fullmatch(name), _SPOT.fullmatch(name)
    said = running or spot
    families = tuple(w for w in re.findall(r"[a-z]+\d*", said[1].lower()) if w in _ACCELERATED) if said else ()
    if not families:
        return None
    account = str(member.get("QuotaArn", "")).split(":")[4:5]
    return Quota(
        name=name,
        code=str(member.get("QuotaCode", "")),
        labels=Labels(region=answer.region, account=account[0] if account and account[0] else answer.account),
        families=families,
        market=Market.ON_DEMAND if running else Market.SPOT,
        vcpus=float(member["Value"]),
        asof=answer.at,
    )
