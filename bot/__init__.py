"""Hold the bot: nouns, alert pipeline, costs, advice, policy, cards, commands.

No SDK, no adapter, no detector.
"""
