"""Read what AWS says of its own accord: notices by EventBridge, and launches that it refused."""
