"""Note when a document was written, so that old ones can be dropped."""

from alembic import op
from sqlalchemy import Column, DateTime

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the column; a document that lies there already gets its time when it is next written."""
    op.add_column("shelf", Column("written", DateTime(timezone=True)))
