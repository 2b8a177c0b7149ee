"""The stand-in for pypto-lib's golden: specs and comparers."""

import pytest
import torch

from pypto_lab.compat.golden import (
    ScalarSpec,
    TensorSpec,
    error_distribution,
    mapped_pool_ratio_allclose,
    ratio_allclose,
    ratio_reldiff,
    topk_pair_compare,
    validate_golden,
)
from pypto_lab.compat.golden.spec import create_values


def test_initial_values():
    given = torch.arange(6.0).reshape(2, 3)
    cases = [(None, torch.zeros(2, 3)), (2, torch.full((2, 3), 2.0)), (given, given), (lambda: given, given)]
    for initial, expected in cases:
        assert torch.equal(TensorSpec("x", [2, 3], torch.float32, init_value=initial).create_tensor(), expected)
    random = TensorSpec("x", [2, 3], torch.bfloat16, init_value=torch.randn).create_tensor()
    assert random.dtype is torch.bfloat16
    assert random.shape == (2, 3)
    assert bool((random != 0).any())


def test_an_initial_tensor_is_converted_and_copied():
    given = torch.ones(4)
    made = TensorSpec("x", [4], torch.float16, init_value=given).create_tensor()
    assert made.dtype is torch.float16
    same = TensorSpec("x", [4], torch.float32, init_value=given).create_tensor()
    same += 1
    assert torch.equal(given, torch.ones(4))


def test_an_initial_value_of_another_shape_is_refused():
    with pytest.raises(ValueError, match="shape"):
        TensorSpec("x", [4], torch.float32, init_value=torch.ones(3)).create_tensor()


def test_factories_work_for_integer_dtypes():
    assert TensorSpec("x", [4], torch.int32, init_value=torch.randn).create_tensor().dtype is torch.int32


def test_scalars_are_rounded_to_their_dtype():
    assert ScalarSpec("a", torch.float16, 0.1).to_python() == float(torch.tensor(0.1, dtype=torch.float16))
    assert ScalarSpec("n", torch.int32, 7).to_python() == 7
    assert ScalarSpec("a", torch.bfloat16, 1.0).to_ctypes().value == 0x3F80
    with pytest.raises(ValueError, match="one value"):
        ScalarSpec("a", torch.float32, torch.ones(2))


def test_values_come_in_order():
    specs = [TensorSpec("x", [2], torch.float32), ScalarSpec("a", torch.int32, 3), TensorSpec("y", [2], torch.float32)]
    values = create_values(specs)
    assert list(values) == ["x", "a", "y"]
    assert values["a"] == 3


def test_validate_golden_names_each_wrong_output():
    good, bad = torch.ones(4), torch.tensor([1.0, 2.0, 3.0, 4.0])
    validate_golden({"a": good}, {"a": good.clone()})
    with pytest.raises(AssertionError) as caught:
        validate_golden({"a": good, "b": bad, "c": bad}, {"a": good, "b": good, "c": bad + 1})
    assert "b [4]" in str(caught.value)
    assert "c [4]" in str(caught.value)
    assert "a [4]" not in str(caught.value)


def test_a_comparer_gets_everything_and_decides():
    seen = {}

    def custom(actual, expected, **context):
        seen.update(context)
        return False, "no"

    with pytest.raises(AssertionError, match="no"):
        validate_golden({"a": torch.ones(1)}, {"a": torch.ones(1)}, 0.1, 0.2, {"a": custom}, {"x": 1})
    assert sorted(seen) == ["actual_outputs", "atol", "expected_outputs", "inputs", "rtol"]
    assert (seen["rtol"], seen["atol"], seen["inputs"]) == (0.1, 0.2, {"x": 1})


def test_ratio_allclose_lets_a_share_miss():
    expected = torch.zeros(1000)
    actual = expected.clone()
    actual[:5] = 1
    assert ratio_allclose(atol=1e-3, rtol=0)(actual, expected)[0]
    actual[5] = 1
    passed, message = ratio_allclose(atol=1e-3, rtol=0)(actual, expected)
    assert not passed
    assert "6 of 1000" in message
    assert not ratio_allclose(max_error_ratio=0.0)(actual, expected, rtol=0, atol=0)[0]


@pytest.mark.parametrize("comparer", [ratio_allclose(max_error_ratio=1.0), ratio_reldiff(pct_thd=1.0)])
def test_nan_always_fails(comparer):
    actual = torch.tensor([float("nan"), 1.0])
    assert not comparer(actual, torch.ones(2), rtol=1e-5, atol=1e-5)[0]


@pytest.mark.parametrize("make", [ratio_allclose, ratio_reldiff])
def test_valid_rows_and_zero_tail(make):
    expected = torch.zeros(8, 4)
    actual = expected.clone()
    actual[6:] = 9
    assert make(valid_rows=6)(actual, expected, rtol=1e-5, atol=1e-5)[0]
    assert not make(valid_rows=6, zero_tail=True)(actual, expected, rtol=1e-5, atol=1e-5)[0]
    assert make(valid_rows=0)(actual, expected, rtol=1e-5, atol=1e-5)[0]
    assert not make()(actual, expected, rtol=1e-5, atol=1e-5)[0]
    assert make(valid_rows=6, valid_axis=1)(actual.T, expected.T, rtol=1e-5, atol=1e-5)[0]


def test_ratio_reldiff_is_relative_to_the_larger_value():
    expected = torch.full((100,), 100.0)
    actual = expected.clone()
    actual[:5] = 102
    assert ratio_reldiff(diff_thd=0.01, pct_thd=0.05)(actual, expected)[0]
    assert not ratio_reldiff(diff_thd=0.01, pct_thd=0.04)(actual, expected)[0]
    assert ratio_reldiff(diff_thd=0.03, pct_thd=0.0)(actual, expected)[0]
    actual[0] = 1000
    passed, message = ratio_reldiff(diff_thd=0.01, pct_thd=0.05, max_diff_hd=0.5)(actual, expected)
    assert not passed
    assert "cap" in message


def test_topk_accepts_swapped_ties_only():
    values = torch.tensor([[5.0, 3.0, 3.0, 1.0]])
    expected = torch.tensor([[9, 4, 7, 2]], dtype=torch.int32)
    swapped = torch.tensor([[9, 7, 4, 2]], dtype=torch.int32)
    comparer = topk_pair_compare("vals")
    context = {"actual_outputs": {"vals": values}, "rtol": 1e-5, "atol": 1e-5}
    assert comparer(swapped, expected, **context)[0]
    unordered = {"actual_outputs": {"vals": torch.tensor([[5.0, 2.0, 3.0, 1.0]])}, "rtol": 1e-5, "atol": 1e-5}
    passed, message = comparer(swapped, expected, **unordered)
    assert not passed
    assert "[0, 1]" in message
    ascending = {"actual_outputs": {"vals": values.flip(-1)}, "rtol": 1e-5, "atol": 1e-5}
    assert topk_pair_compare("vals", descending=False)(swapped, expected, **ascending)[0]


def test_mapped_pool_checks_named_rows_and_guards_the_others():
    pool = torch.zeros(2, 4, 3)
    expected = pool.clone()
    expected[1, 1] = 1
    comparer = mapped_pool_ratio_allclose("slots", mapping_shape=(2,), block_size=4, max_error_ratio=0.0)
    context = {"inputs": {"slots": torch.tensor([5, -1])}, "rtol": 1e-5, "atol": 1e-5}
    assert comparer(expected.clone(), expected, **context)[0]
    assert not comparer(pool, expected, **context)[0]
    stray = expected.clone()
    stray[0, 0, 0] = 1
    passed, message = comparer(stray, expected, **context)
    assert not passed
    assert "outside" in message
    twice = {"inputs": {"slots": torch.tensor([5, 5])}, "rtol": 1e-5, "atol": 1e-5}
    assert not comparer(expected.clone(), expected, **twice)[0]


def test_mapped_pool_with_ranks():
    expected = torch.zeros(2, 2, 4, 3)
    expected[1, 0, 2] = 1
    comparer = mapped_pool_ratio_allclose("slots", mapping_shape=(2, 1), block_size=4, leading_rank_axis=True)
    context = {"inputs": {"slots": torch.tensor([[0], [2]])}, "rtol": 1e-5, "atol": 1e-5}
    assert comparer(expected.clone(), expected, **context)[0]


def test_error_distribution_prints_and_passes(capsys):
    assert error_distribution()(torch.ones(8), torch.zeros(8))[0]
    assert "cosine" in capsys.readouterr().out
    assert not error_distribution(always_pass=False)(torch.tensor([float("inf")]), torch.zeros(1))[0]
