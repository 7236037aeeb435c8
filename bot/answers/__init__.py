"""Answer people's questions: one file an answer, with its arithmetic, card and command; a folder for each large family."""
