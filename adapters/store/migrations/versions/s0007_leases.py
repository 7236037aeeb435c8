"""Keep who leads, and who sends a message, until when by the database's own clock."""

from alembic import op
from sqlalchemy import BigInteger, Column, DateTime, Text

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add the table; nobody leads yet."""
    op.create_table(
        "leases",
        Column("name", Text, primary_key=True),
        Column("holder", Text, nullable=False),
        Column("epoch", BigInteger, nullable=False),
        Column("expires", DateTime(timezone=True), nullable=False),
    )
