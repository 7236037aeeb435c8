"""Draw the app's icons: three bars, the last one low; written as PNG with the standard library alone."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import numpy.typing as npt

Pixels = npt.NDArray[np.uint8]

_INK = (27, 58, 87, 255)
_BUSY = (255, 255, 255, 255)
_WASTED = (255, 153, 0, 255)
_BARS = ((0.20, 0.22), (0.42, 0.36), (0.64, 0.68))
"""Left edge and top of each bar, as shares of the icon."""
_WIDTH = 0.16
_FLOOR = 0.80


def color_icon(size: int = 192) -> bytes:
    """Return the colour icon: a full square, as Teams rounds it itself."""
    pixels = np.empty((size, size, 4), dtype=np.uint8)
    pixels[:] = _INK
    return _png(_with_bars(pixels, (_BUSY, _BUSY, _WASTED)))


def outline_icon(size: int = 32) -> bytes:
    """Return the outline icon: white on nothing, as the schema asks."""
    return _png(_with_bars(np.zeros((size, size, 4), dtype=np.uint8), (_BUSY, _BUSY, _BUSY)))


def _with_bars(pixels: Pixels, colors: tuple[tuple[int, ...], ...]) -> Pixels:
    size = pixels.shape[0]
    for (left, top), color in zip(_BARS, colors, strict=True):
        rows = slice(round(top * size), round(_FLOOR * size))
        pixels[rows, round(left * size) : round((left + _WIDTH) * size)] = color
    return pixels


def _png(pixels: Pixels) -> bytes:
    """Write 8-bit RGBA rows, each with filter 0 (PNG specification, third edition)."""
    height, width, _ = pixels.shape
    rows = np.insert(pixels.reshape(height, width * 4), 0, 0, axis=1).tobytes()
    head = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", head) + _chunk(b"IDAT", zlib.compress(rows, 9)) + _chunk(b"IEND", b"")


def _chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
