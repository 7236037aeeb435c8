"""Give the stable data of `migrate --json`."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from bot.answers.migrate.comparison import Alike, Migration, Option, SpeedRange
from bot.answers.migrate.fit import fit_data


def migration_data(
    migration: Migration, doubts: Sequence[str], port_usd: Decimal | None
) -> dict[str, Any]:
    """Return where the cluster stands, every option and its scenarios, whose speed-ups they rest on, and the doubts."""
    standing = migration.standing
    return {
        "cluster": standing.cluster,
        "from": standing.type.name,
        "to": migration.to.name,
        "nodes": standing.nodes,
        "utilization_ratio": standing.utilization,
        "usd_per_hour": standing.usd_per_hour,
        "speedup": _speed_data(migration.speeds),
        "options": [_option_data(option) for option in migration.options],
        "alike": _alike_data(migration.alike()),
        "doubts": [*doubts, *migration.cautions],
        "refused": [],
        "port_usd": port_usd,
        "recompile_usd": migration.recompile.usd(migration.moves()[0].scenarios[1])
        if migration.recompile and migration.moves()
        else None,
        "compile_usd_per_hour": migration.compile_on.usd_per_hour if migration.compile_on else None,
        "fit": fit_data(migration.fit) if migration.fit else None,
        "conflicts": [
            {"vendor_says": x.vendor_says, "aws_says": x.aws_says, "source": x.source}
            for x in migration.conflicts
        ],
    }


def _alike_data(alike: Alike | None) -> dict[str, Any] | None:
    if alike is None:
        return None
    return {
        "market": alike.market.value,
        "region": alike.region,
        "best": round(alike.best, 4),
        "worst": round(alike.worst, 4),
    }


def _speed_data(speeds: SpeedRange) -> dict[str, Any]:
    voices = [
        {
            "factor": x.factor,
            "kind": x.kind.value,
            "says": x.says,
            "source": x.source,
            "asof": x.asof,
        }
        for x in speeds.voices
    ]
    return {"low": speeds.low, "mid": speeds.mid, "high": speeds.high, "voices": voices}


def _option_data(option: Option) -> dict[str, Any]:
    price = option.price
    scenarios = [
        {
            "speedup": x.speedup,
            "nodes": x.nodes,
            "usd_per_hour": x.usd_per_hour,
            "relative_cost": round(x.relative_cost, 4),
        }
        for x in option.scenarios
    ]
    named = {
        "instance_type": price.instance_type,
        "market": price.market.value,
        "region": price.region,
        "basis": price.basis.value,
    }
    return named | {
        "node_usd_per_hour": price.usd_per_hour,
        "asof": price.asof,
        "stays": option.stays,
        "scenarios": scenarios,
    }
