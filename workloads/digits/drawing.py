"""Draws digits: strokes with a shaking hand, as 28 x 28 images in MNIST's manner.

A digit is a few strokes, each a smooth curve through control points. For each image the control points shake, and the
whole is turned, slanted, scaled and moved; then the pen runs along the curves and leaves ink, which is spread to a
line of some thickness. All of it is array work over thousands of images at once.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]

SIDE = 28
# The unit square that glyphs are given in becomes this many pixels: MNIST's digits fill 20 of 28.
GLYPH_PIXELS = 19.0
PEN_STEPS = 20  # samples a curve segment: under half a pixel apart in the longest ones
CHUNK = 4096

# How much one image differs from the next: standard deviations or half ranges.
SHAKE = 0.035  # of a control point, in units of the glyph
TURN = 0.16  # radians
SLANT = 0.22
SCALE = 0.14
SHIFT = 1.6  # pixels
INK = (3.0, 9.0)  # how dark the pen is; a darker one is a thicker one
GRAIN = 24  # gray levels of noise in the ink
SPECKS = 10  # gray levels of noise everywhere

# Strokes of each digit in each of its forms, as points (x to the right, y down) that the pen passes.
Stroke = tuple[tuple[float, float], ...]
GLYPHS: tuple[tuple[tuple[Stroke, ...], ...], ...] = (
    (  # 0: one closed curve, round or narrow
        (((0.5, 0), (0.15, 0.2), (0.1, 0.55), (0.25, 0.9), (0.5, 1.0), (0.8, 0.9), (0.9, 0.5), (0.8, 0.1), (0.5, 0)),),
        (((0.55, 0.0), (0.3, 0.25), (0.26, 0.6), (0.4, 0.95), (0.55, 1.0), (0.72, 0.7), (0.74, 0.3), (0.55, 0.0)),),
    ),
    (  # 1: a bar; with a flag; with a flag and a foot
        (((0.5, 0.0), (0.5, 0.5), (0.5, 1.0)),),
        (((0.3, 0.22), (0.45, 0.1), (0.55, 0.0)), ((0.55, 0.0), (0.53, 0.5), (0.5, 1.0))),
        (((0.3, 0.2), (0.52, 0.0)), ((0.52, 0.0), (0.52, 1.0)), ((0.25, 1.0), (0.8, 1.0))),
    ),
    (  # 2: with a sharp heel; with a loop in it
        (
            ((0.18, 0.22), (0.4, 0.0), (0.75, 0.08), (0.78, 0.35), (0.5, 0.68), (0.15, 1.0)),
            ((0.15, 1.0), (0.5, 0.97), (0.88, 1.0)),
        ),
        (
            (
                *((0.2, 0.2), (0.5, 0.0), (0.8, 0.2), (0.6, 0.6), (0.25, 0.95)),
                *((0.15, 0.82), (0.35, 0.78), (0.6, 0.97), (0.88, 0.92)),
            ),
        ),
    ),
    (  # 3: two bows; with a flat top
        (
            ((0.2, 0.1), (0.5, 0.0), (0.78, 0.18), (0.65, 0.42), (0.42, 0.48)),
            ((0.42, 0.48), (0.75, 0.55), (0.84, 0.78), (0.55, 1.0), (0.18, 0.9)),
        ),
        (
            ((0.2, 0.02), (0.8, 0.02)),
            ((0.8, 0.02), (0.45, 0.42)),
            ((0.45, 0.42), (0.8, 0.55), (0.8, 0.85), (0.5, 1.0), (0.18, 0.9)),
        ),
    ),
    (  # 4: open; closed at the top
        (
            ((0.22, 0.0), (0.17, 0.3), (0.15, 0.58)),
            ((0.15, 0.58), (0.5, 0.56), (0.9, 0.54)),
            ((0.75, 0.05), (0.7, 0.5), (0.66, 1.0)),
        ),
        (((0.65, 0.0), (0.1, 0.65)), ((0.1, 0.65), (0.9, 0.65)), ((0.65, 0.0), (0.65, 1.0))),
    ),
    (  # 5: a roof, a neck and a bow
        (
            ((0.25, 0.02), (0.82, 0.0)),
            ((0.25, 0.02), (0.22, 0.25), (0.2, 0.44)),
            ((0.2, 0.44), (0.5, 0.36), (0.82, 0.58), (0.74, 0.88), (0.45, 1.0), (0.15, 0.9)),
        ),
    ),
    (  # 6: a bow down into a closed loop
        (
            (
                *((0.7, 0.0), (0.38, 0.22), (0.18, 0.6), (0.28, 0.95), (0.58, 1.0)),
                *((0.8, 0.78), (0.62, 0.54), (0.35, 0.6), (0.2, 0.76)),
            ),
        ),
    ),
    (  # 7: plain; with a bar
        (((0.12, 0.03), (0.5, 0.02), (0.86, 0.0)), ((0.86, 0.0), (0.6, 0.45), (0.4, 1.0))),
        (((0.15, 0.03), (0.86, 0.0)), ((0.86, 0.0), (0.58, 0.5), (0.42, 1.0)), ((0.3, 0.5), (0.78, 0.48))),
    ),
    (  # 8: one line that crosses itself; two rings
        (
            (
                *((0.75, 0.12), (0.45, 0.0), (0.22, 0.2), (0.45, 0.46), (0.76, 0.72), (0.55, 1.0)),
                *((0.22, 0.82), (0.42, 0.52), (0.75, 0.25), (0.75, 0.12)),
            ),
        ),
        (
            ((0.5, 0.0), (0.26, 0.1), (0.28, 0.38), (0.5, 0.46), (0.72, 0.36), (0.74, 0.1), (0.5, 0.0)),
            ((0.5, 0.46), (0.18, 0.6), (0.22, 0.92), (0.5, 1.0), (0.8, 0.9), (0.8, 0.6), (0.5, 0.46)),
        ),
    ),
    (  # 9: a ring with a straight tail; with a hook
        (
            ((0.78, 0.2), (0.5, 0.0), (0.2, 0.2), (0.32, 0.48), (0.62, 0.46), (0.78, 0.2)),
            ((0.78, 0.2), (0.74, 0.6), (0.66, 1.0)),
        ),
        (
            ((0.78, 0.22), (0.5, 0.0), (0.22, 0.2), (0.32, 0.48), (0.62, 0.46), (0.78, 0.22)),
            ((0.78, 0.22), (0.78, 0.65), (0.6, 0.98), (0.25, 0.95)),
        ),
    ),
)  # fmt: skip


class Pen(NamedTuple):
    """Where the pen goes for one glyph, as a linear function of its control points.

    Attributes:
        controls: float32 [points, 2], x and y in units of the glyph, from its middle.
        path: float32 [samples, points]; `path @ controls` are the places where the pen leaves ink.
        ink: float32 [samples]; how much it leaves there, in proportion to the way it goes.
    """

    controls: Floats
    path: Floats
    ink: Floats


def pen(strokes: tuple[Stroke, ...]) -> Pen:
    """Return the pen's way through the strokes of one glyph, smooth inside a stroke."""
    controls = np.array([point for stroke in strokes for point in stroke], dtype=np.float32) - np.float32(0.5)
    path = np.zeros((sum(len(stroke) - 1 for stroke in strokes) * PEN_STEPS, len(controls)), dtype=np.float32)
    ink = np.zeros(len(path), dtype=np.float32)
    row = first = 0
    for stroke in strokes:
        last = first + len(stroke) - 1
        for start in range(first, last):
            rows = slice(row, row + PEN_STEPS)
            path[rows] = _segment(start, first, last, len(controls))
            way = np.diff(path[rows] @ controls, axis=0, append=controls[start + 1 : start + 2])
            ink[rows] = np.hypot(*way.T)
            row += PEN_STEPS
        first = last + 1
    return Pen(controls, path, ink)


def _segment(start: int, first: int, last: int, count: int) -> Floats:
    """Return weights [PEN_STEPS, count] of the control points along the curve from point `start` to the next.

    Source: the uniform Catmull-Rom spline, whose basis functions these are; the end points of a stroke count twice.
    """
    t = np.arange(PEN_STEPS, dtype=np.float32) / PEN_STEPS
    basis = (-t + 2 * t**2 - t**3, 2 - 5 * t**2 + 3 * t**3, t + 4 * t**2 - 3 * t**3, t**3 - t**2)
    weights = np.zeros((PEN_STEPS, count), dtype=np.float32)
    for offset, values in zip((-1, 0, 1, 2), basis, strict=True):
        weights[:, min(max(start + offset, first), last)] += values / 2
    return weights


def draw(count: int, seed: int) -> tuple[Bytes, Bytes]:
    """Draw digits of all ten kinds in random order.

    Returns:
        Images uint8 [count, 28, 28] and their labels uint8 [count].
    """
    random = np.random.default_rng(seed)
    labels = random.integers(0, len(GLYPHS), count, dtype=np.uint8)
    forms = random.random(count, dtype=np.float32)
    images = np.zeros((count, SIDE, SIDE), dtype=np.uint8)
    for label, form, among in _kinds(labels, forms):
        strokes = pen(GLYPHS[label][form])
        for start in range(0, len(among), CHUNK):
            chosen = among[start : start + CHUNK]
            images[chosen] = _ink_to_gray(_trace(strokes, len(chosen), random), random)
    return images, labels


def _kinds(labels: Bytes, forms: Floats) -> Iterator[tuple[int, int, npt.NDArray[np.intp]]]:
    """Yield each form of each digit, and which images show it."""
    for label, choices in enumerate(GLYPHS):
        form_of = (forms * len(choices)).astype(np.intp)
        for form in range(len(choices)):
            yield label, form, np.flatnonzero((labels == label) & (form_of == form))


def _trace(strokes: Pen, count: int, random: np.random.Generator) -> Floats:
    """Run the pen over `count` sheets; return the ink on them, float32 [count, 28, 28]."""
    shaken = strokes.controls + SHAKE * random.standard_normal((count, *strokes.controls.shape), dtype=np.float32)
    places = strokes.path @ shaken @ _hands(count, random)
    places += (SIDE - 1) / 2 + random.uniform(-SHIFT, SHIFT, (count, 1, 2)).astype(np.float32)
    np.clip(places, 0, SIDE - 1.001, out=places)
    corner = np.floor(places)
    right, down = np.moveaxis(places - corner, -1, 0)
    cell = (corner @ np.array([1, SIDE], dtype=np.float32)).astype(np.intp) + np.arange(0, count * SIDE**2, SIDE**2)[
        :, None
    ]
    ink = strokes.ink * GLYPH_PIXELS
    sheets = np.zeros(count * SIDE**2, dtype=np.float64)
    for dx, dy in ((0, 0), (1, 0), (0, 1), (1, 1)):
        share = (right if dx else 1 - right) * (down if dy else 1 - down) * ink
        sheets += np.bincount((cell + dx + dy * SIDE).ravel(), share.ravel(), len(sheets))
    return sheets.astype(np.float32).reshape(count, SIDE, SIDE)


def _hands(count: int, random: np.random.Generator) -> Floats:
    """Return matrices [count, 2, 2] that turn, slant and scale a glyph around its middle to pixels."""
    turn, slant, wide, high = (
        random.normal(0, each, count).astype(np.float32) for each in (TURN, SLANT, SCALE, SCALE / 2)
    )
    cos, sin = np.cos(turn), np.sin(turn)
    rows = np.stack([np.stack([cos, sin], -1), np.stack([-sin - slant * cos, cos - slant * sin], -1)], -2)
    scale = np.stack([0.8 * np.exp(wide), np.exp(np.minimum(high, 0.12))], -1)
    hands: Floats = (rows * scale[:, :, None] * GLYPH_PIXELS).astype(np.float32)
    return hands


def _ink_to_gray(ink: Floats, random: np.random.Generator) -> Bytes:
    """Spread the ink to lines of some thickness and let it be a little uneven; return gray levels."""
    for axis in (1, 2):
        spread = 2 * ink
        lower, upper = [slice(None)] * 3, [slice(None)] * 3
        lower[axis], upper[axis] = slice(None, -1), slice(1, None)
        spread[tuple(lower)] += ink[tuple(upper)]
        spread[tuple(upper)] += ink[tuple(lower)]
        ink = spread / np.float32(4)
    darkness = random.uniform(*INK, (len(ink), 1, 1)).astype(np.float32)
    gray = 255 * (1 - np.exp(-darkness * ink**1.5))
    gray -= random.integers(0, GRAIN, ink.shape, dtype=np.uint8) * (gray > GRAIN)
    gray += random.integers(0, SPECKS, ink.shape, dtype=np.uint8)
    levels: Bytes = np.clip(gray, 0, 255).astype(np.uint8)
    return levels
