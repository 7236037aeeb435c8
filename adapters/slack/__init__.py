"""Speak Slack: slack-bolt in, Block Kit out."""
