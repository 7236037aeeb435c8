"""Bound what hostile or broken content may cost: one place for the size of what people and files hand in.

Each is far above what an honest file holds; what goes over it ends in one sentence that names the limit and the remedy.
"""

from __future__ import annotations

POLICY_BYTES = 64 << 10
"""Of a policy as TOML; with every setting explained it takes a fifth of that."""
SETTINGS_BYTES = 256 << 10
"""Of the settings file."""
POLICY_MISTAKES = 20
"""Named in one answer: each is compared with every setting, to suggest the nearest."""
TEXT_BYTES = 1 << 20
"""Of another text file that a terminal names."""
TOML_DEPTH = 16
"""Tables and lists within one another."""
TOML_DOTS = 500
"""Dots on one line: reading a dotted key takes time and memory by the square of its parts."""
TOML_BITS = 63
"""Of a whole number."""
NUMBER_LENGTH = 30
"""Characters of a number that a person types."""
NUMBER_EXPONENT = 15
"""Powers of ten of a number that a person types: a quadrillion, and as small a part."""
