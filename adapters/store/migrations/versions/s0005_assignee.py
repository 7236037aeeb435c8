"""Keep to whom a decision assigned its alert."""

from alembic import op
from sqlalchemy import Column, Text

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add the columns; no decision that lies there already assigned anything."""
    for word in ("assignee", "assignee_name"):
        op.add_column("decisions", Column(word, Text, nullable=False, server_default=""))
