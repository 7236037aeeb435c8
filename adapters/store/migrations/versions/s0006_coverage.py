"""Keep with each tick how much of the fleet it knew."""

from alembic import op
from sqlalchemy import Column, Text

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Add the columns; of the ticks that lie there nobody kept it."""
    for name in ("known", "because"):
        op.add_column("ticks", Column(name, Text))
