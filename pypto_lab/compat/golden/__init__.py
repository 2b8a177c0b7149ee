"""Stand-in for pypto-lib's `golden`: the same specs, runners and comparers, on the lab's engine."""

from pypto_lab.compat.golden.runner import RunResult, run, run_jit
from pypto_lab.compat.golden.spec import ScalarSpec, TensorSpec
from pypto_lab.compat.golden.validation import (
    error_distribution,
    mapped_pool_ratio_allclose,
    ratio_allclose,
    ratio_reldiff,
    topk_pair_compare,
    validate_golden,
)

__all__ = [
    "RunResult", "ScalarSpec", "TensorSpec", "error_distribution", "mapped_pool_ratio_allclose", "ratio_allclose",
    "ratio_reldiff", "run", "run_jit", "topk_pair_compare", "validate_golden",
]  # fmt: skip
