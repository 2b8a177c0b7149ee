"""Stand-in for `pypto.debug`: torch code generation and the check of every dump against expected outputs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pypto_lab.numerics.validate import Sweep


def torch_codegen(node: Any, check_shapes: bool = False) -> str:
    """The torch script of a program or function, with its entry function `run`."""
    from pypto_lab.compat.kernels import program_from
    from pypto_lab.torch_codegen.generate import generate

    return generate(program_from(node), check_shapes=check_shapes).text


def validate_pass_ir_codegen_results(
    path: str | Path, tensors: Mapping[str, Any], expected: Mapping[str, Any], rtol: float = 5e-2, atol: float = 5e-2
) -> Sweep:
    """Runs every dump of a folder (or one file) on clones of `tensors` and compares with `expected`.

    Prints a line a stage. Raises AssertionError naming the stages that are not right, after all have run.
    """
    from pypto_lab.numerics.validate import Expectation, validate_dumps

    sweep = validate_dumps(Path(path), Expectation(dict(tensors), dict(expected), rtol, atol))
    print(sweep)
    bad = [stage for stage in sweep.stages if stage.status not in ("ok", "skipped")]
    if bad:
        raise AssertionError("; ".join(f"{s.file}: {s.message}" for s in bad))
    return sweep


__all__ = ["torch_codegen", "validate_pass_ir_codegen_results"]
