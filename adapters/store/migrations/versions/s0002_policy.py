"""Keep the versions of the policy, and the attempts to change it."""

from alembic import op
from sqlalchemy import JSON, BigInteger, Column, DateTime, Integer, Text
from sqlalchemy.dialects.postgresql import JSONB

revision = "0002"
down_revision = "0001"

_AT = DateTime(timezone=True)
_BODY = JSON().with_variant(JSONB(), "postgresql")
_COUNTER = BigInteger().with_variant(Integer(), "sqlite")


def upgrade() -> None:
    """Create both tables."""
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
