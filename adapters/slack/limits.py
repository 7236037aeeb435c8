"""Keep Slack's limits in one place.

Source: docs.slack.dev, reference/block-kit (read 2026-11-20). The total of a message's blocks is undocumented:
slackapi/bolt-js issue 2509 measured about 13,200 characters (`msg_blocks_too_long`).
"""

BLOCKS = 50
VIEW_BLOCKS = 100
TOTAL = 13_000
HEADER = 150
SECTION = 3_000
FIELDS = 10
FIELD = 2_000
CONTEXT_ELEMENTS = 10
BUTTONS = 25
BUTTON_TEXT = 75
BUTTON_VALUE = 2_000
ALT_TEXT = 2_000
FALLBACK = 3_000
VIEW_TITLE = 24
VIEW_BUTTON = 24
VIEW_METADATA = 3_000
LABEL = 2_000
PLACEHOLDER = 150
INPUT = 3_000
OPTIONS = 100
OPTION_TEXT = 75
OPTION_VALUE = 150
