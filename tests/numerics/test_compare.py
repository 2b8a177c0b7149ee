"""compare: verdicts, measures, places and guesses, against constructed faults and laws."""

import json
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pypto_lab.numerics.compare import compare, judged
from pypto_lab.numerics.metrics import default_tolerance, ulp_distance

FLOATS = [torch.float32, torch.float16, torch.bfloat16]


@pytest.fixture
def golden() -> torch.Tensor:
    return torch.randn(64, 64, generator=torch.Generator().manual_seed(3))


def kinds(result) -> list[str]:
    return [g.kind for g in result.guesses]


def test_equal_tensors_are_right_with_zero_error(golden):
    result = compare(golden.clone(), golden)
    assert result.ok
    assert (result.max_abs, result.max_rel, result.metrics.cosine) == (0.0, 0.0, 1.0)
    assert result.message == "equal"


def test_error_within_tolerance_is_right_and_measured(golden):
    result = compare(golden + 1e-6, golden, rtol=0, atol=1e-5)
    assert result.ok
    assert result.max_abs == pytest.approx(1e-6, rel=0.2)
    assert "within tolerance" in result.message


def test_one_bad_cell_is_counted_and_found(golden):
    actual = golden.clone()
    actual[5, 7] += 1
    result = compare(actual, golden)
    assert not result.ok
    assert (result.where.count, result.where.first) == (1, ((5, 7),))
    assert result.where.box == ((5, 6), (7, 8))
    assert "[5, 7]" in str(result)


@pytest.mark.parametrize("dtype", FLOATS)
def test_default_tolerance_accepts_one_rounding_of_the_dtype(dtype):
    values = torch.randn(1000, generator=torch.Generator().manual_seed(0)).to(dtype)
    nudged = (values.float() * (1 + torch.finfo(dtype).eps / 2)).to(dtype)
    assert compare(nudged, values).ok
    assert not compare((values.float() * 1.2).to(dtype), values).ok


@pytest.mark.parametrize("dtype", [torch.int8, torch.int32, torch.int64, torch.uint8, torch.bool])
def test_integers_must_be_equal(dtype):
    values = torch.tensor([0, 1, 1, 0]).to(dtype)
    assert compare(values.clone(), values).ok
    assert not compare(1 - values if dtype is not torch.bool else ~values, values).ok
    assert default_tolerance(dtype) == (0.0, 0.0)


def test_large_integers_are_compared_exactly():
    expected = torch.tensor([2**62, 2**62 + 1])
    assert not compare(expected + torch.tensor([0, 1]), expected).ok


def test_nan_is_right_only_where_nan_is_expected(golden):
    expected = golden.clone()
    expected[0, 0] = math.nan
    assert compare(expected.clone(), expected).ok
    missing = compare(golden, expected)
    assert not missing.ok
    assert missing.bad_nan == 1
    assert math.isinf(missing.max_abs)
    leaked = compare(expected, golden)
    assert kinds(leaked)[0] == "nan"


def test_infinities_must_have_one_sign():
    expected = torch.tensor([math.inf, -math.inf, 1.0])
    assert compare(expected.clone(), expected).ok
    flipped = compare(torch.tensor([math.inf, math.inf, 1.0]), expected)
    assert not flipped.ok
    assert flipped.bad_infinity == 1


def test_shape_is_never_broadcast():
    result = compare(torch.zeros(1, 4), torch.zeros(3, 4))
    assert not result.ok
    assert result.problem == "shape [1, 4], expected [3, 4]"


def test_dtype_is_never_converted():
    result = compare(torch.zeros(4, dtype=torch.float16), torch.zeros(4))
    assert not result.ok
    assert "float16" in result.problem


def test_empty_and_scalar_tensors():
    assert compare(torch.zeros(0, 4), torch.zeros(0, 4)).ok
    assert compare(torch.tensor(1.0), torch.tensor(1.0)).ok
    wrong = compare(torch.tensor(1.0), torch.tensor(2.0))
    assert wrong.where.count == 1
    assert str(wrong)


def test_json_is_strict_even_with_nan(golden):
    actual = golden.clone()
    actual[0] = math.nan
    text = json.dumps(compare(actual, golden).to_json(), allow_nan=False)
    assert json.loads(text)["max_abs"] is None
    assert json.loads(text)["where"]["count"] == 64


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (lambda e: e.T.contiguous(), "transposed"),
        (lambda e: torch.cat([e[:32], torch.zeros(32, 64)]), "lane"),
        (lambda e: torch.cat([e[:, :32], torch.zeros(64, 32)], 1), "lane"),
        (lambda e: torch.cat([e[32:], e[:32]]), "lanes swapped"),
        (lambda e: torch.cat([e[:32], e[:32]]), "lane"),
        (lambda e: torch.cat([e[:57], torch.zeros(7, 64)]), "tail"),
        (lambda e: torch.cat([e[:, :60], e[:, 60:] + 1], 1), "tail"),
        (lambda e: torch.roll(e, 8, 0), "shifted"),
        (lambda e: torch.roll(e, -1, 1), "shifted"),
        (lambda e: e * 0.125, "factor"),
        (lambda e: e + 3, "offset"),
        (lambda e: e.bfloat16().float(), "narrowed"),
        (lambda e: e.half().float(), "narrowed"),
        (lambda e: e * (1 + 1e-4 * torch.rand(64, 64, generator=torch.Generator().manual_seed(1))), "accumulation"),
    ],
)
def test_typical_faults_are_recognised_first(golden, fault, kind):
    result = compare(fault(golden), golden)
    assert not result.ok
    assert kinds(result)[0] == kind


def test_transposed_cells_in_a_rectangle_are_recognised():
    expected = torch.arange(24.0).reshape(4, 6)
    assert kinds(compare(expected.T.reshape(4, 6).contiguous(), expected))[0] == "transposed"


def test_lane_guess_names_lane_and_split(golden):
    actual = golden.clone()
    actual[:, :32] = 0
    text = compare(actual, golden).guesses[0].text
    assert "lane 0" in text
    assert "LEFT_RIGHT" in text


@pytest.mark.parametrize(("start", "stop"), [(32, 48), (33, 48), (30, 46), (26, 46)])
def test_a_part_of_a_half_is_no_lane(start, stop):
    expected = torch.randn(48, 32, generator=torch.Generator().manual_seed(1))
    actual = expected.clone()
    actual[start:stop] = 0
    guesses = compare(actual, expected).guesses
    assert "lane" not in [g.kind for g in guesses]
    assert (guesses[0].kind == "tail") == (stop == 48)


def test_a_missing_last_block_is_named():
    expected = torch.randn(48, 32, generator=torch.Generator().manual_seed(1))
    actual = expected.clone()
    actual[32:] = 0
    assert "the last of 3 blocks of 16" in compare(actual, expected).guesses[0].text
    actual = expected.clone()
    actual[24:] = 0
    assert "lane 1 of a UP_DOWN split" in compare(actual, expected).guesses[0].text


def test_ties_are_recognised_in_integers():
    expected = torch.tensor([[1, 3, 3, -1, 7, 9, 2, 4]] * 2, dtype=torch.int32)
    actual = expected.clone()
    actual[:, 0] -= 1
    actual[0, 5] += 1
    assert kinds(compare(actual, expected))[0] == "ties"


def test_rounding_one_way_is_recognised_in_bf16(golden):
    wide = golden.abs() + 0.5
    truncated = (wide.view(torch.int32) & -65536).view(torch.float32).bfloat16()
    result = compare(truncated, wide.bfloat16(), rtol=0, atol=0)
    assert "rounding" in kinds(result)


def test_bad_tiles_are_named(golden):
    actual = golden.clone()
    actual[16:32, 32:48] += 1
    result = compare(actual, golden, tiles=(16, 16))
    assert result.where.tiles == ((1, 2),)
    assert result.where.tile_count == 16
    assert "tiles" in kinds(result)


def test_tile_edges_are_recognised(golden):
    actual = golden.clone()
    actual[15::16] += 1
    result = compare(actual, golden, tiles=(16, 64))
    assert "tile edge" in kinds(result)
    assert "every 16th from 15" in str(result)


def test_partial_tile_is_named_as_the_tail():
    expected = torch.randn(40, 8, generator=torch.Generator().manual_seed(0))
    actual = expected.clone()
    actual[32:] = 7
    result = compare(actual, expected, tiles=(16, 8))
    assert result.guesses[0].kind == "tail"
    assert "partial tile" in result.guesses[0].text


def test_batched_tensors_report_rows_of_the_last_axes():
    expected = torch.randn(2, 4, 8, generator=torch.Generator().manual_seed(0))
    actual = expected.clone()
    actual[1, 2, 3] += 1
    result = compare(actual, expected)
    assert result.where.first == ((1, 2, 3),)
    assert result.where.rows == ((6, 7),)


def test_case_rule_overrides_the_tolerance(golden):
    actual = golden.clone()
    actual[0, 0] += 1
    result = judged(compare(actual, golden), True, "")
    assert result.ok
    assert "own rule" in result.message
    refused = judged(compare(golden, golden), False, "order is wrong")
    assert not refused.ok
    assert refused.message == "order is wrong"
    assert str(refused)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.float64, torch.float8_e4m3fn, torch.float8_e5m2])
def test_neighbouring_values_are_one_ulp_apart(dtype):
    bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[torch.empty(0, dtype=dtype).element_size()]
    start = torch.tensor([0.5, 1.0, 1.75]).to(dtype)
    following = (start.view(bits) + 1).view(dtype)
    assert ulp_distance(following, start).tolist() == [1.0, 1.0, 1.0]
    zeros = torch.tensor([0.0, -0.0]).to(dtype)
    assert ulp_distance(zeros[:1], zeros[1:]).tolist() == [0.0]


def test_eight_bit_floats_are_compared():
    ones = torch.ones(4).to(torch.float8_e4m3fn)
    assert compare(ones.clone(), ones).ok
    assert not compare((ones.float() * 2).to(torch.float8_e4m3fn), ones).ok


values = st.floats(-1e6, 1e6, width=32)


@settings(max_examples=60, deadline=None)
@given(st.lists(values, min_size=1, max_size=12), st.floats(0, 1e-2), st.floats(0, 1e-2))
def test_verdict_is_allclose(numbers, rtol, atol):
    expected = torch.tensor(numbers)
    actual = expected * (1 + rtol / 2) + atol / 4
    want = torch.allclose(actual.double(), expected.double(), rtol=rtol, atol=atol)
    assert compare(actual, expected, rtol=rtol, atol=atol).ok == want


@settings(max_examples=60, deadline=None)
@given(st.lists(values, min_size=2, max_size=12), st.data())
def test_count_of_bad_cells_is_the_number_of_changed_cells(numbers, data):
    expected = torch.tensor(numbers)
    changed = data.draw(st.sets(st.integers(0, len(numbers) - 1), min_size=1))
    actual = expected.clone()
    for index in changed:
        actual[index] = actual[index] + 1 + actual[index].abs()
    result = compare(actual, expected, rtol=1e-6, atol=1e-6)
    assert result.where.count == len(changed)
    assert result.where.box == ((min(changed), max(changed) + 1),)


@settings(max_examples=40, deadline=None)
@given(st.lists(values, min_size=1, max_size=20), st.permutations(range(20)))
def test_measures_do_not_depend_on_the_order_of_cells(numbers, order):
    expected = torch.tensor(numbers)
    actual = expected + 1
    index = torch.tensor([i for i in order if i < len(numbers)])
    first, second = compare(actual, expected), compare(actual[index], expected[index])
    assert first.max_abs == second.max_abs
    assert first.metrics.rel_l2 == pytest.approx(second.metrics.rel_l2, rel=1e-9)
