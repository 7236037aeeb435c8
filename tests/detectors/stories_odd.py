"""Stories of odd combinations of metrics, which no rule knows."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np
from builder import START, STEP, Fleet, World, hours
from stories import every, rarely_read, story

from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.reading import SPEND_METRIC

EVALUATION = {
    "neuroncore_memory": 0.55,
    "neuron_runtime_memory": 0.55,
    "neuron_execution_latency": 2.0,
}


def calm(days: float = 3.2, nodes: int = 6, cluster: str = "llama", seed: int = 1) -> Fleet:
    """Return a job with two short evaluations a day."""
    fleet = Fleet(nodes, days, cluster, seed=seed)
    for hour in range(4, round(24 * days) - 20, 12):
        fleet.scale(
            hours(hour), hours(hour) + 4 * STEP, neuroncore_utilization=0.45, efa=0.03, **EVALUATION
        )
    return fleet


@story("odd", *every(10, 66, 67), *every(15, 68, 69))
def memory_and_latency_of_an_evaluation_at_training_utilization():
    return World(calm().scale(hours(66), hours(68), slice(0, 3), **EVALUATION))


@story("odd", *every(10, 67, 68))
def after_a_hole_in_its_readings_a_node_may_run_another_job():
    fleet = calm().scale(hours(66), hours(69), slice(0, 3), **EVALUATION)
    return World(fleet.silence(hours(65.5), hours(66.5), slice(0, 3)))


@story("odd", *every(10, 67, 68))
def between_two_rare_readings_another_job_may_begin():
    return World(rarely_read(calm().scale(hours(66), hours(69), slice(0, 3), **EVALUATION)))


@story("odd", *every(10, 67, 68))
def where_a_reading_is_missing_another_job_may_begin():
    fleet = calm().scale(hours(66), hours(69), slice(0, 3), **EVALUATION)
    return World(fleet.silence(hours(66), hours(66) + STEP, slice(0, 3)))


@story("odd", *every(10, 66, 66.9), 68)
def no_traffic_at_full_utilization():
    return World(calm().scale(hours(66), hours(68), efa=0.05, network_out=9))


@story("odd", *every(20, 66.3, 67), 68.5, *every(20, 96.3, 97))
def what_an_odd_alert_was_about_is_as_odd_the_day_after():
    fleet = calm(4.2).scale(hours(66), hours(68), efa=0.05, network_out=9)
    return World(fleet.scale(hours(96), hours(98), efa=0.05, network_out=9))


@story("odd", *every(10, 66, 67))
def one_metric_alone_is_no_combination():
    return World(
        calm().scale(hours(66), hours(68), neuroncore_memory=1.15, neuron_runtime_memory=1.15)
    )


@story("odd", *every(10, 66.3, 67))
def what_the_job_showed_before_is_not_odd():
    return World(
        calm().scale(hours(58), hours(60), **EVALUATION).scale(hours(66), hours(68), **EVALUATION)
    )


@story("odd", *every(10, 66.3, 67))
def a_return_to_what_the_days_before_showed_is_not_odd():
    fleet = calm().scale(hours(0), hours(52), **EVALUATION)
    return World(fleet.scale(hours(66), hours(68), **EVALUATION))


@story("odd", *every(10, 62.4, 63), 64, *every(15, 64.5, 65.5), *every(10, 66.4, 67))
def an_odd_alert_goes_on_over_an_evaluation_and_the_next_is_of_other_nodes():
    fleet = calm().scale(hours(62), hours(65), slice(0, 3), efa=0.05, network_out=9)
    fleet.scale(hours(63.5), hours(64), neuroncore_utilization=0.4, **EVALUATION)
    return World(fleet.scale(hours(66), hours(68), slice(3, 6), **EVALUATION))


def servers(odd: slice) -> World:
    """Return servers of which some send little over EFA and much elsewhere, beside a job of another cluster."""
    fleet = Fleet(4, 3.2, "answers", instance_type="inf2.48xlarge", seed=4)
    fleet.scale(hours(66), hours(68), odd, efa=0.05, network_out=9)
    return World(fleet, calm(nodes=3))


@story("odd", *every(10, 66.4, 66.8))
def one_of_four_servers_is_odd():
    return servers(slice(0, 1))


@story("odd", *every(10, 66.4, 66.8))
def what_all_servers_show_is_their_load():
    return servers(slice(0, 4))


@story("odd", *every(30, 50.5, 53), *every(120, 54, 76))
def an_odd_alert_rests_after_a_day():
    return World(calm().scale(hours(50), hours(78), slice(0, 3), efa=0.05, network_out=9))


@story("odd", *every(10, 66.5, 68))
def what_is_odd_amid_a_drop_is_told_once_the_drop_is_over():
    fleet = calm().scale(hours(66), hours(70), slice(0, 3), efa=0.05, network_out=9)
    return World(fleet.starve(hours(66), hours(67), slice(0, 3)))


@story("odd", *every(10, 66.4, 67))
def nodes_beside_a_drop_whose_executions_are_as_quick_as_ever_may_be_odd():
    fleet = calm().scale(hours(66), hours(70), slice(3, 6), efa=0.05, network_out=9)
    return World(fleet.starve(hours(66), hours(70), slice(0, 3)))


@story("odd", *every(10, 66.3, 67))
def a_job_that_begins_anew_is_not_odd():
    fleet = calm().stop(hours(65), hours(65.2))
    return World(fleet.scale(hours(65.2), hours(76), neuron_execution_latency=0.5, host_cpu=3))


@story("odd", *every(10, 66.3, 67))
def fewer_cores_are_reserved_since_hours():
    fleet = calm().set(hours(0), hours(76), neuroncore_reserved=32)
    fleet.set(hours(64), hours(76), slice(0, 3), neuroncore_reserved=16)
    return World(fleet.scale(hours(66), hours(68), efa=0.05, network_out=9))


@story("odd", 66.6, 67)
def the_work_doubles_beside_it():
    fleet = calm().scale(
        hours(0), hours(66), neuroncore_utilization=0.5, neuroncore_memory=0.5, neuron_runtime=0.5
    )
    return World(fleet.scale(hours(66), hours(70), efa=0.3))


class Dear(World):
    """Read fleets and a bill by the hour that comes a day late."""

    def reading(self, now: datetime):
        found = super().reading(now)
        usd = np.full(24 * 9, 80.0) + np.arange(24 * 9) % 3
        usd[4 * 24 :] = 240
        labels = Labels(
            account="1",
            service="AmazonEC2",
            region="us-west-2",
            usage_type="BoxUsage:trn1.32xlarge",
        )
        things = (replace(labels, cluster="llama"), labels)
        values = np.stack([usd, usd * 3])[:, :, None].astype(np.float32)
        hourly = Frame("spend_hour", things, START, timedelta(hours=1), (SPEND_METRIC,), values)
        late = hourly.until(now - timedelta(days=1))
        return replace(found, frames={**found.frames, "spend_hour": late})


@story("odd", *every(10, 122.4, 123))
def costs_that_rose_are_named_beside_it():
    return Dear(calm(days=6).scale(hours(122), hours(125), **EVALUATION))


@story("odd", *every(10, 122.4, 123))
def a_dear_day_is_not_odd_by_itself():
    return Dear(calm(days=6))


@story("odd", *every(10, 66.4, 66.8))
def two_clusters_are_judged_apart_and_one_has_no_latency():
    other = calm(cluster="blind", seed=3, nodes=3).set(
        START, hours(76), neuron_execution_latency=np.nan
    )
    other.scale(hours(66), hours(68), efa=0.05, network_out=9)
    return World(calm(nodes=3).scale(hours(66), hours(68), **EVALUATION), other)
