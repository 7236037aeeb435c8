"""List fleets that are well, and what can go wrong with them: nothing here is known to the rules."""

from __future__ import annotations

from crew import DAY, GIB, TYPES, Crew
from minutes import Fleet

SMALL = {"days": 2.0}


def steady(seed, **more):
    return Crew(**({"nodes": 8, "seed": seed, **SMALL} | more)).pauses().evaluations().restarts()


CALM = {
    "one node": lambda s: Fleet((steady(s, nodes=1, level=0.6, noise=0.08),)),
    "two small nodes": lambda s: Fleet(
        (steady(s, nodes=2, instance_type="trn1.2xlarge", level=0.35, noise=0.06),)
    ),
    "four busy nodes": lambda s: Fleet((steady(s, nodes=4, level=0.99, noise=0.01),), 1),
    "sixty-four nodes": lambda s: Fleet((steady(s, nodes=64, level=0.9, days=1.5),), 1),
    "trn2": lambda s: Fleet((steady(s, nodes=4, instance_type="trn2.48xlarge", level=0.7),)),
    "low": lambda s: Fleet((steady(s, nodes=6, level=0.3, noise=0.08),)),
    "no host CPU": lambda s: Fleet((steady(s).without("cpu"),)),
    "only utilization": lambda s: Fleet(
        (
            steady(s).without(
                "cpu",
                "mem",
                "runtime",
                "latency",
                "tx",
                "inward",
                "outward",
                "high",
                "errors",
                "ecc",
                "broken",
            ),
        ),
        runs=False,
    ),
    "no latency": lambda s: Fleet((steady(s).without("latency"),), runs=False),
    "utilization and CPU": lambda s: Fleet(
        (steady(s).without("mem", "runtime", "latency", "tx", "high"),), 1, runs=False
    ),
    "two jobs without a tag": lambda s: Fleet(
        (steady(s, nodes=5, level=0.85), renamed(steady(s + 50, nodes=4, level=0.5), "b"))
    ),
    "research": lambda s: Fleet(
        (Crew(6, seed=s, own=True, level=0.7, noise=0.08, **SMALL).pauses(60).bursts(),), runs=False
    ),
    "nights": lambda s: Fleet((Crew(6, seed=s, days=4, level=0.8).pauses().nights(),)),
    "compiles": lambda s: Fleet(
        (Crew(8, seed=s, **SMALL).pauses().restarts(700, compile_minutes=25),)
    ),
    "compiles, no memory": lambda s: Fleet(
        (
            Crew(8, seed=s, **SMALL)
            .pauses()
            .restarts(700, compile_minutes=25)
            .without("mem", "runtime"),
        )
    ),
    "drift": lambda s: Fleet((steady(s).drift(),)),
    "a slower node": lambda s: Fleet((steady(s).scale(0, 10**6, slice(2, 3), util=0.9, high=0.9),)),
    "missing points": lambda s: Fleet((steady(s).lose(0.05),), 1),
    "missing periods": lambda s: Fleet(
        (steady(s),), gaps=((DAY + 605, DAY + 615), (DAY + 900, DAY + 910))
    ),
    "many restarts": lambda s: Fleet((Crew(8, seed=s, **SMALL).pauses().restarts(180),)),
    "stalls": lambda s: Fleet(
        (Crew(8, seed=s, **SMALL).pauses(45, (1, 5), 0.0, stalls=0.2).evaluations(),), 1
    ),
    "deep evaluations": lambda s: Fleet(
        (Crew(8, seed=s, **SMALL).pauses().evaluations(300, (20, 40), (0.38, 0.6)),)
    ),
}


def renamed(crew, job):
    crew.job = job
    return crew


AT = int(1.6 * DAY)


def hang(c, level):
    c.put(
        AT,
        200,
        util=level * 0.99,
        high=level,
        latency=float("nan"),
        tx=0,
        inward=0,
        outward=1e5,
        cpu=0.03,
    )
    c.pace[AT : AT + 200] = 0
    return c


def fill(c):
    full = 0.98 * TYPES[c.instance_type].accelerator_memory_gib * GIB
    for name in ("mem", "runtime"):
        c.at[name][0:2, AT : AT + 240] = full
    return c


def flood(c):
    c.pace[AT : AT + 240] *= 0.5
    nic = TYPES[c.instance_type].network_gbps / 8 * 1e9
    return c.scale(AT, 240, util=0.5, high=0.6, latency=2).put(AT, 240, tx=0.93 * nic)


def unsaved(c):
    c.saves = [s for s in c.saves if not AT <= s < AT + 300]
    return c


INCIDENTS = {
    "idle": ("idle", lambda c: c.off(AT, 300, slice(0, 3)), 180),
    "idle, all": ("idle", lambda c: c.off(AT, 300), 180),
    "allocated_unused": (
        "allocated_unused",
        lambda c: c.off(AT, 420, slice(0, 2)).put(
            AT + 20, 400, slice(0, 2), mem=1e11, runtime=1e11, cpu=0.03
        ),
        180,
    ),
    "starved 20 %": ("starved", lambda c: c.starve(AT + 3, 240, 0.2), 25),
    "starved 45 %": ("starved", lambda c: c.starve(AT + 2, 240, 0.45 * c.level / 0.8), 70),
    "starved on S3": ("starved", lambda c: c.starve(AT + 1, 240, 0.25, cpu=0), 60),
    "starved, idle host": ("starved", lambda c: c.starve(AT + 1, 240, 0.3, cpu=0.05), 60),
    "hung": ("hung", lambda c: hang(c, 0), 60),
    "hung, spinning": ("hung", lambda c: hang(c, 1), 60),
    "no_data": ("no_data", lambda c: c.gone(AT, 200, slice(1, 3)), 40),
    "hardware_fault": (
        "hardware_fault",
        lambda c: c.put(AT, 180, slice(1, 2), ecc=3, broken=1, errors=1).scale(
            AT + 40, 140, util=0.3, tx=0.3
        ),
        40,
    ),
    "execution_errors": ("execution_errors", lambda c: c.put(AT, 180, slice(1, 2), errors=2), 60),
    "long_compile": ("long_compile", lambda c: c.compile(AT, 150, slice(0, 2)), 120),
    "cold_cache": ("cold_cache", lambda c: c.compile(AT - 600, 45).compile(AT, 50), 90),
    "long_compile, all": ("long_compile", lambda c: c.compile(AT, 150), 120),
    "memory_pressure": ("memory_pressure", fill, 60),
    "network_bound": ("network_bound", flood, 60),
    "checkpoint_at_risk": ("checkpoint_at_risk", unsaved, 200),
}
