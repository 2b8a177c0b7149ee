"""Comparers of pypto-lib's `golden`: per-output rules for when a result counts as right.

A comparer is called as `cmp(actual, expected, *, actual_outputs, expected_outputs, inputs, rtol, atol)` and returns
(passed, message).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

CompareFn = Callable[..., tuple[bool, str]]


def validate_golden(
    outputs: Mapping[str, torch.Tensor],
    golden: Mapping[str, torch.Tensor],
    rtol: float = 1e-5,
    atol: float = 1e-5,
    compare_fn: Mapping[str, CompareFn] | None = None,
    inputs: Mapping[str, Any] | None = None,
) -> None:
    """Checks every output against the golden. Raises AssertionError with what is wrong in each one that is not right.

    Outputs named in `compare_fn` use that comparer, the others `|actual - expected| <= atol + rtol * |expected|`.
    """
    problems = []
    for name, actual in outputs.items():
        passed, message = compare_one(name, outputs, golden, rtol, atol, compare_fn or {}, inputs or {})
        if not passed:
            problems.append(f"{name} {list(actual.shape)}: {message}")
    if problems:
        raise AssertionError("\n".join(problems))


def compare_one(
    name: str,
    outputs: Mapping[str, torch.Tensor],
    golden: Mapping[str, torch.Tensor],
    rtol: float,
    atol: float,
    compare_fn: Mapping[str, CompareFn],
    inputs: Mapping[str, Any],
) -> tuple[bool, str]:
    """One output by its comparer, or by the default rule."""
    from pypto_lab.numerics.compare import compare

    custom = compare_fn.get(name)
    if custom is None:
        result = compare(outputs[name], golden[name], rtol=rtol, atol=atol)
        return result.ok, str(result)
    return custom(
        outputs[name],
        golden[name],
        actual_outputs=outputs,
        expected_outputs=golden,
        inputs=inputs,
        rtol=rtol,
        atol=atol,
    )


def ratio_allclose(
    atol: float | None = None,
    rtol: float | None = None,
    max_error_ratio: float = 0.005,
    max_show: int = 10,
    valid_rows: int | None = None,
    valid_axis: int = 0,
    zero_tail: bool = False,
) -> CompareFn:
    """`allclose` that lets a share `max_error_ratio` of the cells miss. NaN and infinity always fail.

    `valid_rows` compares only the first rows along `valid_axis`; with `zero_tail` the others must be zero.
    """

    def compare(actual: torch.Tensor, expected: torch.Tensor, **context: Any) -> tuple[bool, str]:
        early, actual, expected = _prepare(actual, expected, valid_rows, valid_axis, zero_tail)
        if early is not None:
            return early
        absolute = context.get("atol", 1e-5) if atol is None else atol
        relative = context.get("rtol", 1e-5) if rtol is None else rtol
        error = (actual - expected).abs()
        bad = error > absolute + relative * expected.abs()
        return _judge(bad, error, actual, expected, max_error_ratio, max_show)

    compare.__name__ = f"ratio_allclose(atol={atol}, rtol={rtol}, max_error_ratio={max_error_ratio})"
    return compare


def ratio_reldiff(
    diff_thd: float = 0.01,
    pct_thd: float = 0.05,
    max_diff_hd: float = float("inf"),
    max_show: int = 10,
    valid_rows: int | None = None,
    valid_axis: int = 0,
    zero_tail: bool = False,
) -> CompareFn:
    """Lets a share `pct_thd` of the cells differ by more than `diff_thd` relatively, none by `max_diff_hd` or more.

    Differences below `diff_thd` count as they are, others relative to the larger magnitude (floored near zero). NaN
    and infinity always fail. `valid_rows`, `valid_axis`, `zero_tail` as in :func:`ratio_allclose`.
    """

    def compare(actual: torch.Tensor, expected: torch.Tensor, **context: Any) -> tuple[bool, str]:
        early, actual, expected = _prepare(actual, expected, valid_rows, valid_axis, zero_tail)
        if early is not None:
            return early
        relative = relative_difference(actual, expected, diff_thd)
        bad = relative > diff_thd
        passed, message = _judge(bad, relative, actual, expected, pct_thd, max_show)
        worst = float(relative[bad].max()) if bool(bad.any()) else 0.0
        if passed and worst >= max_diff_hd:
            return False, f"the worst relative difference {worst:.4g} reaches the cap {max_diff_hd:g}"
        return passed, message

    compare.__name__ = f"ratio_reldiff(diff_thd={diff_thd}, pct_thd={pct_thd})"
    return compare


def topk_pair_compare(vals_name: str, *, dim: int = -1, descending: bool = True, max_show: int = 10) -> CompareFn:
    """For top-k indices: another index is right when the values picked (output `vals_name`) are still in order there,
    that is when only ties were swapped."""

    def compare(
        actual: torch.Tensor,
        expected: torch.Tensor,
        *,
        actual_outputs: Mapping[str, torch.Tensor],
        rtol: float = 1e-5,
        atol: float = 1e-5,
        **context: Any,
    ) -> tuple[bool, str]:
        if actual.shape != expected.shape:
            return False, f"shape {list(actual.shape)}, expected {list(expected.shape)}"
        picked = actual_outputs[vals_name].movedim(dim, -1).double()
        moved, wanted = actual.movedim(dim, -1), expected.movedim(dim, -1)
        bad = (moved != wanted) & ~_in_order(picked, descending, rtol, atol)
        if not bool(bad.any()):
            return True, ""
        lines = [f"{int(bad.sum())} indices are not ties:"]
        for cell in bad.nonzero()[:max_show].tolist():
            at = tuple(cell)
            lines.append(f"  {cell}: index {int(moved[at])}, expected {int(wanted[at])}, value {float(picked[at]):.6g}")
        return False, "\n".join(lines)

    compare.__name__ = f"topk_pair_compare({vals_name!r})"
    return compare


def mapped_pool_ratio_allclose(
    mapping_name: str,
    *,
    mapping_shape: tuple[int, ...],
    block_size: int,
    leading_rank_axis: bool = False,
    pool_name: str = "pool",
    atol: float | None = None,
    rtol: float | None = None,
    max_error_ratio: float = 0.005,
) -> CompareFn:
    """For a pool `[blocks, block_size, ...]` (`[ranks, blocks, ...]` with `leading_rank_axis`): rows that the input
    `mapping_name` names are compared with :func:`ratio_allclose`, all other rows must be untouched.

    The mapping holds row numbers (block * block_size + row), negative ones name nothing.
    """
    tolerant = ratio_allclose(atol, rtol, max_error_ratio)

    def compare(
        actual: torch.Tensor, expected: torch.Tensor, *, inputs: Mapping[str, Any], **context: Any
    ) -> tuple[bool, str]:
        import torch

        if actual.shape != expected.shape:
            return False, f"{pool_name}: shape {list(actual.shape)}, expected {list(expected.shape)}"
        mapping = inputs[mapping_name].reshape(mapping_shape)
        ranks = actual.shape[0] if leading_rank_axis else 1
        block_axis = 1 if leading_rank_axis else 0
        if actual.shape[block_axis + 1] != block_size:
            return False, f"{pool_name}: blocks hold {actual.shape[block_axis + 1]} rows, expected {block_size}"
        rows = actual.shape[block_axis] * block_size
        got = actual.reshape(ranks, rows, -1)
        want = expected.reshape(ranks, rows, -1)
        named = torch.zeros(ranks, rows, dtype=torch.bool)
        for rank, slots in enumerate(mapping.reshape(ranks, -1).tolist()):
            slots = [s for s in slots if s >= 0]
            repeated = sorted({s for s in slots if slots.count(s) > 1})
            if repeated or any(s >= rows for s in slots):
                return False, f"{pool_name}: {mapping_name} names rows twice or outside the pool: {repeated or slots}"
            named[rank, slots] = True
        touched = (got != want).any(dim=-1) & ~named
        if bool(touched.any()):
            return False, f"{pool_name}: {int(touched.sum())} rows outside {mapping_name} were written"
        return tolerant(got[named], want[named], **context)

    return compare


def error_distribution(
    diff_thds: tuple[float, ...] = (0.001, 0.003, 0.005, 0.01, 0.03, 0.05),
    quantiles: tuple[float, ...] = (0.5, 0.9, 0.99, 0.999, 0.9999, 1.0),
    always_pass: bool = True,
) -> CompareFn:
    """Prints how the error is distributed instead of judging it; with `always_pass=False` NaN and infinity fail."""

    def compare(actual: torch.Tensor, expected: torch.Tensor, **context: Any) -> tuple[bool, str]:
        from pypto_lab.numerics.metrics import cosine_similarity, quantiles_of, relative_l2

        got, want = actual.double(), expected.double()
        print(f"relative L2 {relative_l2(got, want):.4g}, cosine {cosine_similarity(got, want):.8g}")
        for threshold in diff_thds:
            share = float((relative_difference(got, want, threshold) > threshold).double().mean())
            print(f"  above {threshold:g}: {share:.4%}")
        for label, data in (
            ("absolute", (got - want).abs()),
            ("relative", (got - want).abs() / want.abs().clamp_min(1e-9)),
            ("expected", want.abs()),
        ):
            cells = ", ".join(
                f"p{100 * q:g} {v:.4g}" for q, v in zip(quantiles, quantiles_of(data, quantiles), strict=True)
            )
            print(f"  {label}: {cells}")
        finite = bool(got.isfinite().all() and want.isfinite().all())
        return always_pass or finite, "" if finite else "NaN or infinity in the output"

    return compare


def relative_difference(actual: torch.Tensor, expected: torch.Tensor, threshold: float) -> torch.Tensor:
    """Cell by cell: the difference itself below `threshold`, else relative to the larger magnitude (floored)."""
    import torch

    error = (actual - expected).abs()
    floor = torch.full_like(error, 2.0**-14 / threshold)
    scale = torch.maximum(torch.maximum(actual.abs(), expected.abs()), floor) + 1e-9
    return torch.where(error < threshold, error, error / scale)


def _prepare(
    actual: torch.Tensor, expected: torch.Tensor, valid_rows: int | None, valid_axis: int, zero_tail: bool
) -> tuple[tuple[bool, str] | None, torch.Tensor, torch.Tensor]:
    """The cells to compare as FP64, or a verdict when there is nothing left to compare."""
    if actual.shape != expected.shape:
        return (False, f"shape {list(actual.shape)}, expected {list(expected.shape)}"), actual, expected
    if valid_rows is not None:
        tail = actual.narrow(valid_axis, valid_rows, actual.shape[valid_axis] - valid_rows)
        if zero_tail and bool((tail != 0).any()):
            return (False, f"cells past row {valid_rows} of axis {valid_axis} are not zero"), actual, expected
        actual, expected = actual.narrow(valid_axis, 0, valid_rows), expected.narrow(valid_axis, 0, valid_rows)
    if actual.numel() == 0:
        return (True, ""), actual, expected
    got, want = actual.double(), expected.double()
    broken = int((~got.isfinite()).sum()), int((~want.isfinite()).sum())
    if any(broken):
        return (False, f"{broken[0]} NaN or infinite cells in the output, {broken[1]} in the golden"), got, want
    return None, got, want


def _judge(
    bad: torch.Tensor,
    error: torch.Tensor,
    actual: torch.Tensor,
    expected: torch.Tensor,
    allowed: float,
    max_show: int,
) -> tuple[bool, str]:
    count = int(bad.sum())
    if count <= allowed * bad.numel():
        return True, ""
    lines = [
        f"{count} of {bad.numel()} cells off ({count / bad.numel():.3%}, allowed {allowed:.3%}), "
        f"worst {float(error.max()):.6g}"
    ]
    for cell in bad.nonzero()[:max_show].tolist():
        at = tuple(cell)
        lines.append(f"  {cell}: {float(actual[at]):.6g}, expected {float(expected[at]):.6g}")
    return False, "\n".join(lines)


def _in_order(values: torch.Tensor, descending: bool, rtol: float, atol: float) -> torch.Tensor:
    """Where a value fits between its neighbours along the last axis, within tolerance."""
    import torch

    fits = torch.ones_like(values, dtype=torch.bool)
    if values.shape[-1] < 2:
        return fits
    step = values[..., :-1] - values[..., 1:]
    if not descending:
        step = -step
    slack = atol + rtol * values.abs().amax(dim=-1, keepdim=True)
    ordered = step >= -slack
    fits[..., :-1] &= ordered
    fits[..., 1:] &= ordered
    return fits
