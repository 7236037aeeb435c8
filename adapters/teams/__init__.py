"""Speak Microsoft Teams: botbuilder in, Adaptive Cards out."""
