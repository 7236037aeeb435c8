"""Describe an alert as a work object of Slack.

An incident with its state, dates and assignee, beside what a link shows.

Source: docs.slack.dev, messaging/work-objects-implementation, and the SDK's own models of it; read
2026-11-22.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from slack_sdk.models.metadata import (
    EntityAttributes,
    EntityMetadata,
    EntityPayload,
    EntityStringField,
    EntityTimestampField,
    EntityTitle,
    EntityTypedField,
    EntityUserField,
    ExternalRef,
    IncidentEntityFields,
)

from adapters.slack.markup import Json, cut, one_line
from bot.cards.card import Card

_TITLE, _FIELD = 150, 100


def incident(card: Card, page: str, posted: str) -> Json | None:
    """Return the work object of an alert's card, None of any other.

    `page` is its address, `posted` the link as written.
    """
    data = card.data
    if not data.get("id"):
        return None
    title = EntityTitle(text=cut(one_line(card.title), _TITLE))
    shown = EntityAttributes(
        title=title, display_id=str(data["id"]), display_type="Alert", product_name="trnbot"
    )
    made = EntityMetadata(
        "slack#/entities/incident",
        EntityPayload(attributes=shown, fields=_fields(data)),
        ExternalRef(id=str(data["id"]), type="alert"),
        page,
        posted,
    )
    described: Json = made.to_dict()
    return described


def _fields(data: Mapping[str, Any]) -> IncidentEntityFields:
    opened, assignee = (
        data.get("opened_at"),
        cut(one_line(str(data.get("assigned_to") or "")), _FIELD),
    )
    return IncidentEntityFields(
        status=EntityStringField(value="Over" if data.get("closed_at") else "Firing"),
        priority=EntityStringField(value=str(data.get("severity") or "").capitalize() or "Warning"),
        description=EntityStringField(value=cut(one_line(str(data.get("cause") or "")), _FIELD)),
        date_created=EntityTimestampField(value=int(opened.timestamp()))
        if isinstance(opened, datetime)
        else None,
        assigned_to=EntityTypedField(type="slack#/types/user", user=EntityUserField(text=assignee))
        if assignee
        else None,
    )
