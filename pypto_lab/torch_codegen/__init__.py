"""IR -> torch script. The package is callable: `torch_codegen(program, check_shapes=False)` gives the script's text."""

from __future__ import annotations

import sys
from types import ModuleType

from pypto_lab.ir.nodes import Function, Program


def script_text(node: Program | Function, check_shapes: bool = False) -> str:
    """The torch script of a program or function as text, to be run with torch alone.

    `check_shapes` adds checks of dtypes, shapes and valid regions. Raises TypeError for anything else than a Program or
    Function, ValueError for an op without a torch form.
    """
    from pypto_lab.torch_codegen.generate import generate  # keeps the package light to import

    return generate(node, check_shapes=check_shapes).text


class _CallablePackage(ModuleType):
    def __call__(self, node: Program | Function, check_shapes: bool = False) -> str:
        return script_text(node, check_shapes)


sys.modules[__name__].__class__ = _CallablePackage
