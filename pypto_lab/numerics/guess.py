"""Why two tensors may differ: patterns that kernels' usual faults leave in the numbers, best guess first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import torch

from pypto_lab.numerics.metrics import Metrics, ulp_distance, widen
from pypto_lab.numerics.where import Where, as_matrix


@dataclass(frozen=True, slots=True)
class Guess:
    """One suspicion. `kind` is a stable word (`tail`, `transposed`, `lane`, `ties`, ...), `text` says it to people."""

    kind: str
    text: str


@dataclass(frozen=True)
class Evidence:
    """What the guessers look at: the tensors as given, as FP64 matrices, and the bad cells."""

    actual: torch.Tensor
    expected: torch.Tensor
    bad: torch.Tensor
    where: Where
    metrics: Metrics
    rtol: float
    atol: float
    tiles: tuple[int, int] | None = None
    got: torch.Tensor = field(init=False)
    want: torch.Tensor = field(init=False)
    mask: torch.Tensor = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "got", as_matrix(widen(self.actual)))
        object.__setattr__(self, "want", as_matrix(widen(self.expected)))
        object.__setattr__(self, "mask", as_matrix(self.bad.cpu()))

    @property
    def rows(self) -> int:
        return self.want.shape[0]

    @property
    def columns(self) -> int:
        return self.want.shape[1]

    @property
    def share(self) -> float:
        return self.where.count / self.where.total

    def close(self, got: torch.Tensor, want: torch.Tensor) -> bool:
        """Equal within the comparison's tolerance, and not because everything is one value."""
        if got.shape != want.shape or got.numel() == 0:
            return False
        limit = self.atol + self.rtol * want.abs()
        return bool(((got - want).abs() <= limit).all())


Guesser = Callable[[Evidence], Iterator[Guess]]


def guesses(evidence: Evidence, limit: int = 3) -> tuple[Guess, ...]:
    """The likely causes of the difference, most specific first, one of a kind."""
    found: list[Guess] = []
    settled: set[str] = set()
    for guesser in GUESSERS:
        for guess in guesser(evidence):
            if guess.kind not in settled:
                found.append(guess)
                settled |= {guess.kind, *_SETTLES.get(guess.kind, ())}
    return tuple(found[:limit])


_SETTLES: dict[str, tuple[str, ...]] = {
    "lane": ("tail", "unwritten", "tiles", "shifted"),
    "lanes swapped": ("shifted", "tiles"),
    "tail": ("tiles",),
    "narrowed": ("accumulation",),
    "ties": ("accumulation",),
    "rounding": ("accumulation",),
    "transposed": ("accumulation",),
}
"""Guesses that a more specific one makes idle."""


def _not_a_number(e: Evidence) -> Iterator[Guess]:
    leaked = e.got.isnan() & ~e.want.isnan()
    if bool(leaked.any()):
        yield Guess("nan", f"{int(leaked.sum())} NaN cells: uninitialised or padded cells leak in, or 0/0, inf-inf")
    infinite = e.got.isinf() & e.want.isfinite()
    if bool(infinite.any()):
        narrow = e.actual.dtype in (torch.float16, torch.float8_e5m2)
        why = (
            "the value overflows the dtype" if narrow else "a padding value (-inf of a min pad) or an overflow leaks in"
        )
        yield Guess("infinity", f"{int(infinite.sum())} infinite cells: {why}")


def _transposed(e: Evidence) -> Iterator[Guess]:
    if min(e.rows, e.columns) < 2:
        return
    if e.rows == e.columns and e.close(e.got, e.want.T):
        yield Guess("transposed", "the result is the transpose of the golden")
    elif e.rows != e.columns and e.close(e.got.flatten(), e.want.T.flatten()):
        yield Guess("transposed", "the cells are those of the transposed golden, read in the wrong layout")


def _halves(e: Evidence) -> Iterator[Guess]:
    """One vector lane missing, doubled or swapped: a whole half is bad, up/down or left/right."""
    for name, axis, size in (("upper", 0, e.rows), ("left", 1, e.columns)):
        if size < 2 or size % 2:
            continue
        half = size // 2
        first, second = e.mask.narrow(axis, 0, half), e.mask.narrow(axis, half, half)
        got = [e.got.narrow(axis, i * half, half) for i in (0, 1)]
        want = [e.want.narrow(axis, i * half, half) for i in (0, 1)]
        other = "lower" if name == "upper" else "right"
        mode = "UP_DOWN" if axis == 0 else "LEFT_RIGHT"
        if e.close(got[0], want[1]) and e.close(got[1], want[0]):
            yield Guess("lanes swapped", f"the {name} and the {other} half are swapped ({mode} lanes)")
            return
        halves = (first, second)
        for lane in (0, 1):
            if _fills(halves[lane], axis) and not bool(halves[1 - lane].any()):
                place = (name, other)[lane]
                what = "never written" if not bool(got[lane].any()) else "wrong"
                if e.close(got[lane], want[1 - lane]):
                    what = "a copy of the other half"
                yield Guess("lane", f"only the {place} half is {what}: lane {lane} of a {mode} split")
                return


def _fills(half: torch.Tensor, axis: int) -> bool:
    """Whether a half is wrong as a whole: most of its cells, its first and its last row (column), hardly one left out.

    A bad third, or a bad last block, is no half.
    """
    lines = half.any(dim=1 - axis)
    count = int(lines.sum())
    whole = bool(lines[0]) and bool(lines[-1]) and count * 20 >= lines.numel() * 19
    return whole and int(half.sum()) * 2 > half.numel()


def _tail(e: Evidence) -> Iterator[Guess]:
    """All bad cells in the last rows or columns, where a tile is only partly used."""
    for name, axis, size, found in (("rows", 0, e.rows, e.where.rows), ("columns", 1, e.columns, e.where.columns)):
        if len(found) == 1 and found[0][0] > 0 and found[0][1] == size and (size - found[0][0]) * 2 < size:
            start = found[0][0]
            tile = None if e.tiles is None else e.tiles[axis]
            block = size - start
            why = "a tail: check valid_shape and the last block"
            if tile is not None and start % tile == 0 and size % tile != 0:
                why = f"the partial tile after {start}"
            elif block > 1 and size % block == 0 and size <= 8 * block:
                why = f"the last of {size // block} blocks of {block}: a loop bound one too small, or a tail"
            yield Guess("tail", f"only {name} {start} to {size - 1} are wrong, {why}")


def _unwritten(e: Evidence) -> Iterator[Guess]:
    cells = e.got[e.mask]
    if not bool(cells.any()) and bool(e.want[e.mask].any()) and cells.numel() > 1:
        yield Guess("unwritten", "every wrong cell is 0: not written, or written to another place")


def _shifted(e: Evidence) -> Iterator[Guess]:
    for name, axis, size in (("rows", 0, e.rows), ("columns", 1, e.columns)):
        for step in (1, -1, 2, -2, 4, -4, 8, -8, 16, -16, 32, -32):
            if abs(step) * 2 > size:
                continue
            kept = size - abs(step)
            got = e.got.narrow(axis, max(step, 0), kept)
            want = e.want.narrow(axis, max(-step, 0), kept)
            if bool((want != want.flatten()[0]).any()) and e.close(got, want):
                yield Guess("shifted", f"the result is the golden moved by {step} {name}: check offsets")
                return


def _scaled(e: Evidence) -> Iterator[Guess]:
    """A constant factor or offset between result and golden."""
    got, want = e.got.flatten(), e.want.flatten()
    usable = got.isfinite() & want.isfinite()
    got, want = got[usable], want[usable]
    if got.numel() < 4 or e.share < 0.5:
        return
    offset = got - want
    spread, middle = float(offset.max() - offset.min()), float(offset.mean())
    scale = max(float(want.abs().max()), 1e-30)
    if abs(middle) > 1e-3 * scale and spread <= 1e-3 * abs(middle):
        yield Guess("offset", f"every cell is off by {middle:.6g}: a bias added twice or left out")
        return
    strong = want.abs() > 1e-3 * scale
    if int(strong.sum()) < 4 or not bool(got.any()):
        return
    factor = got[strong] / want[strong]
    middle = float(factor.median())
    if abs(middle - 1) > 1e-2 and float((factor - middle).abs().max()) <= 1e-2 * abs(middle):
        yield Guess("factor", f"the result is {middle:.6g} times the golden: a scale left out or applied twice")


def _ties(e: Evidence) -> Iterator[Guess]:
    """Off by one representable value: rounding mode, or truncation when all errors point one way."""
    integer = not e.actual.dtype.is_floating_point
    narrow = e.actual.dtype.itemsize <= 2 and e.actual.dtype.is_floating_point
    if not integer and not narrow:
        return
    step = (e.got - e.want).abs() if integer else ulp_distance(e.actual, e.expected)
    if step is None or not 0 < float(step.max()) <= 1:
        return
    signed = torch.sign(e.got.abs() - e.want.abs())[e.mask]
    direction = set(signed.tolist())
    unit = "1" if integer else "one step of the dtype"
    if len(direction) == 1 and e.share > 0.2:
        way = "towards zero" if direction == {-1.0} else "away from zero"
        yield Guess("rounding", f"every wrong cell is off by {unit}, {way}: rounding mode of a cast (truncation, ties)")
    else:
        yield Guess(
            "ties", f"every wrong cell is off by {unit}: ties rounded to even against away from zero (cast mode)"
        )


def _narrowed(e: Evidence) -> Iterator[Guess]:
    """FP32 results that hold only FP16 or BF16 values: something was rounded on the way."""
    if e.actual.dtype is not torch.float32 or not e.metrics.rel_l2 < 0.05 or not bool(e.got.isfinite().all()):
        return
    got, want = e.actual.detach().cpu(), e.expected.detach().cpu()
    for name, dtype in (("BF16", torch.bfloat16), ("FP16", torch.float16)):
        rounds = torch.equal(got.to(dtype).float(), got)
        if rounds and not torch.equal(want.float().to(dtype).float(), want.float()):
            yield Guess("narrowed", f"every cell of the result is a {name} value: it passed through {name}")
            return


def _accumulation(e: Evidence) -> Iterator[Guess]:
    """Small errors spread over the tensor: order or width of a sum."""
    if e.actual.dtype.is_floating_point and e.metrics.rel_l2 < 1e-2 and e.metrics.cosine > 0.999:
        wide = e.where.box == tuple((0, s) for s in e.where.shape) or e.share > 0.05
        if wide and e.metrics.max_rel != 0:
            level = f"relative L2 {e.metrics.rel_l2:.2g}"
            yield Guess(
                "accumulation",
                f"small errors all over ({level}): order or width of accumulation, or an approximate function",
            )


def _patterned(e: Evidence) -> Iterator[Guess]:
    """Whole tiles, or the cells along tile edges."""
    if e.tiles is None or not e.where.tiles:
        return
    if len(e.where.tiles) < e.where.tile_count and e.where.tile_count > 1:
        inside = len(e.where.tiles)
        full = e.where.count == _cells_in(e.where.tiles, e.tiles, e.rows, e.columns)
        what = "all of" if full else "parts of"
        yield Guess(
            "tiles", f"{what} {inside} of {e.where.tile_count} tiles: a loop bound, an offset or a block left out"
        )
    for name, axis, size, found in (("row", 0, e.rows, e.where.rows), ("column", 1, e.columns, e.where.columns)):
        tile = e.tiles[axis]
        indices = [i for a, b in found for i in range(a, b)]
        if tile < 2 or size <= tile or len(indices) * 2 > size:
            continue
        residues = {i % tile for i in indices}
        if residues in ({0}, {tile - 1}, {0, tile - 1}):
            edge = "first" if residues == {0} else "last" if residues == {tile - 1} else "edge"
            yield Guess("tile edge", f"only the {edge} {name}s of tiles are wrong: overlap, or one {name} too few")


def _cells_in(tiles: Sequence[tuple[int, int]], shape: tuple[int, int], rows: int, columns: int) -> int:
    height, width = shape
    return sum(
        (min(rows, (r + 1) * height) - r * height) * (min(columns, (c + 1) * width) - c * width) for r, c in tiles
    )


GUESSERS: tuple[Guesser, ...] = (
    _not_a_number, _transposed, _halves, _shifted, _scaled, _tail, _ties, _narrowed, _unwritten, _patterned,
    _accumulation,
)  # fmt: skip
