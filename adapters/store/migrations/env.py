"""Run the steps on the connection that `adapters.store.open` opened, within its transaction."""

from alembic import context

context.configure(
    connection=context.config.attributes["connection"], transaction_per_migration=False
)
context.run_migrations()
