"""Hold the bot: nouns, alert pipeline, costs, advice, policy, cards, commands; no SDK, no adapter, no detector."""
