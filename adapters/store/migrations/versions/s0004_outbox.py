"""Keep the lines of threads until they are said, and the version that a message shows."""

from alembic import op
from sqlalchemy import JSON, BigInteger, Column, DateTime, Integer, Text
from sqlalchemy.dialects.postgresql import JSONB

revision = "0004"
down_revision = "0003"

_BODY = JSON().with_variant(JSONB(), "postgresql")
_COUNTER = BigInteger().with_variant(Integer(), "sqlite")


def upgrade() -> None:
    """Create the table and add the columns.

    An entry without a message is still to be sent, unless its incident is over.
    """
    op.create_table(
        "lines",
        Column("number", _COUNTER, primary_key=True, autoincrement=True),
        *(Column(word, Text, nullable=False) for word in ("id", "notification", "channel")),
        Column("at", DateTime(timezone=True), nullable=False),
        Column("sent", Text, nullable=False),
        Column("body", _BODY, nullable=False),
    )
    op.create_index("lines_id", "lines", ["id"], unique=True)
    op.create_index("lines_unsent", "lines", ["sent", "notification"])
    op.add_column("said", Column("pending", Integer, nullable=False, server_default="0"))
    op.add_column("said", Column("version", Integer, nullable=False, server_default="1"))
    op.execute("UPDATE said SET pending = 1 WHERE message = '' AND over = 0")
