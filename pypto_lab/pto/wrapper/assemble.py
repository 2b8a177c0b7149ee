"""The whole wrapper file of one kernel: headers, the assembler's text made private, and the entry."""

from __future__ import annotations

from pypto_lab.ir import nodes as n
from pypto_lab.pto.wrapper.endpoints import with_lane
from pypto_lab.pto.wrapper.entry import kernel_entry
from pypto_lab.pto.wrapper.identity import Identity, identity_of
from pypto_lab.pto.wrapper.preprocess import preprocess

_MARKS = """\
#ifndef __gm__
#define __gm__
#endif

#ifndef __aicore__
#if defined(__CPU_SIM)
#define __aicore__
#else
#define __aicore__ [aicore]
#endif
#endif
"""


def kernel_wrapper(function: n.Function, assembled: str, program: n.Program | None = None) -> str:
    """The C++ file of one kernel, from the text `ptoas` wrote for it (or for its group).

    `program` is the program `function` belongs to, as the last pass leaves it; without it a kernel counts as alone.

    Raises:
        LabError: what :func:`kernel_entry` and the lane rewrite raise (E650 to E654).
    """
    entry = kernel_entry(function, program)
    identity = identity_of(function, program)
    inner = preprocess(assembled)
    inner = with_lane(inner, function, identity)
    head = f"// Kernel {function.name} ({function.func_type.name}), wrapped by PyPTO Lab\n\n#include <cstdint>\n"
    sections = [
        head,
        _MARKS,
        _headers(identity),
        f"// --- written by ptoas ---\n{inner}",
        f"// --- entry ---\n{entry}",
    ]
    return "\n".join(sections)


def _headers(identity: Identity) -> str:
    lines = ["#include <pto/pto-inst.hpp>", '#include "tensor.h"']
    if identity.group_block or identity.needs_lane:
        lines.append('#include "intrinsic.h"')
    return "\n".join([*lines, "", "using namespace pto;", ""])
