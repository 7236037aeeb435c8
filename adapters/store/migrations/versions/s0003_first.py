"""Create the tables of the first version; no database in use is at an earlier step."""

from alembic import op
from sqlalchemy import JSON, BigInteger, Column, DateTime, Integer, Numeric, Text
from sqlalchemy.dialects.postgresql import JSONB

revision = "0003"
down_revision = None

_AT = DateTime(timezone=True)
_BODY = JSON().with_variant(JSONB(), "postgresql")
_USD = Numeric(18, 6)
_COUNTER = BigInteger().with_variant(Integer(), "sqlite")


def upgrade() -> None:
    """Create every table and index."""
    words = ("key", "rule", "cause", "severity", "cluster", "team")
    op.create_table(
        "alerts",
        Column("id", Text, primary_key=True),
        *(Column(word, Text, nullable=False) for word in words),
        Column("opened", _AT, nullable=False),
        Column("seen", _AT, nullable=False),
        Column("closed", _AT),
        Column("muted_by", Text, nullable=False),
        Column("usd_per_hour", _USD),
        Column("usd_so_far", _USD),
        Column("body", _BODY, nullable=False),
    )
    for column in ("closed", "opened", "key"):
        op.create_index(f"alerts_{column}", "alerts", [column])

    op.create_table(
        "said",
        Column("id", Text, primary_key=True),
        Column("channel", Text, primary_key=True),
        Column("reason", Text, nullable=False),
        Column("at", _AT, nullable=False),
        Column("message", Text, nullable=False),
        Column("over", Integer, nullable=False),
        Column("body", _BODY, nullable=False),
    )
    op.create_index("said_over_at", "said", ["over", "at"])

    op.create_table(
        "silences",
        Column("id", Text, primary_key=True),
        Column("by", Text, nullable=False),
        Column("starts", _AT, nullable=False),
        Column("ends", _AT, nullable=False),
        Column("ended_at", _AT),
        Column("body", _BODY, nullable=False),
    )
    op.create_index("silences_ends", "silences", ["ends"])

    op.create_table(
        "decisions",
        Column("number", _COUNTER, primary_key=True, autoincrement=True),
        *(Column(word, Text, nullable=False) for word in ("id", "alert", "doing", "by", "by_name")),
        Column("at", _AT, nullable=False),
        Column("note", Text, nullable=False),
    )
    op.create_index("decisions_id", "decisions", ["id"], unique=True)
    op.create_index("decisions_alert", "decisions", ["alert"])

    op.create_table(
        "shelf",
        Column("shelf", Text, primary_key=True),
        Column("key", Text, primary_key=True),
        Column("number", BigInteger, nullable=False),
        Column("body", _BODY, nullable=False),
        Column("written", _AT),
    )
    op.create_index("shelf_newest", "shelf", ["shelf", "number"])

    op.create_table(
        "ticks",
        Column("number", _COUNTER, primary_key=True, autoincrement=True),
        Column("at", _AT, nullable=False),
    )

    op.create_table(
        "versions",
        Column("number", Integer, primary_key=True, autoincrement=False),
        Column("at", _AT, nullable=False),
        *(Column(word, Text, nullable=False) for word in ("by", "doing")),
        Column("body", _BODY, nullable=False),
    )
    op.create_table(
        "attempts",
        Column("number", _COUNTER, primary_key=True, autoincrement=True),
        Column("at", _AT, nullable=False),
        *(Column(word, Text, nullable=False) for word in ("by", "by_name", "line", "refused")),
    )
