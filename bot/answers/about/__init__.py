"""Answer about the bot itself, and sum up for a lead."""
