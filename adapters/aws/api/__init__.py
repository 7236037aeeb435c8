"""Call AWS's APIs, count and price the calls, and keep their responses."""
