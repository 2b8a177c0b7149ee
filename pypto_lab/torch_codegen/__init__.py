"""IR -> torch script. The package is callable: `torch_codegen(program, check_shapes=False)` gives the script's text."""

from __future__ import annotations

import sys
from types import ModuleType

from pypto_lab.ir.nodes import Function, Program


def torch_codegen(node: Program | Function, check_shapes: bool = False) -> str:
    """The torch script of a program or function as text, to be run with torch alone.

    `check_shapes` adds checks of dtypes, shapes and valid regions. Raises TypeError for anything else than a Program or
    Function, NoTorchForm (a ValueError) for an op that no script can say.
    """
    from pypto_lab.torch_codegen.generate import generate  # keeps the package light to import

    return generate(node, check_shapes=check_shapes).text


class _CallablePackage(ModuleType):
    def __call__(self, node: Program | Function, check_shapes: bool = False) -> str:
        return torch_codegen(node, check_shapes)


sys.modules[__name__].__class__ = _CallablePackage
