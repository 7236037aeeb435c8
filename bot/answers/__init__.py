"""Answer people's questions: one file an answer, with its arithmetic, card and command.

A folder for each large family.
"""
