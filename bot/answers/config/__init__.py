"""Answer which settings apply, and change them: a preview first, every attempt kept."""
