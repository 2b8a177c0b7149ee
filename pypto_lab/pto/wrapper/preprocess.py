"""What `ptoas` wrote, made fit to stand inside a wrapper file: private functions, no headers of its own."""

from __future__ import annotations

import re

_INCLUDE = re.compile(r'\s*#\s*include\s*[<"](?:pto/pto-inst\.hpp|cstdint|tensor\.h)[>"]\s*(?://.*)?$')
_USING = re.compile(r"\s*using\s+namespace\s+pto\s*;\s*(?://.*)?$")
_FFTS = re.compile(r"\bset_ffts_base_addr\s*\(")
_KERNEL = re.compile(r'(?:\bextern\s+"C"\s+)?(?:\bstatic\s+)?(?:\b__global__\s+)?\bAICORE\s+void\b')
_DEVICE = re.compile(r"\bAICORE\b")
_TENSOR = re.compile(r"\bTensor\b")


def preprocess(text: str) -> str:
    """The assembler's C++ as the wrapper includes it.

    Lines that repeat the wrapper's own headers and `using namespace pto;` go, and so does every line that sets the
    FFTS base (the runtime has set it). The word `Tensor` becomes `ChipTensor`, the runtime's name of today.
    `__global__ AICORE void`, `AICORE void` and `extern "C"` forms of both become `static __aicore__ void`: only
    `kernel_entry` may be visible.
    """
    kept = [line for line in text.splitlines() if not _is_dropped(line)]
    text = "\n".join(kept).strip("\n") + "\n"
    text = _KERNEL.sub("static __aicore__ void", text)
    text = _DEVICE.sub("__aicore__", text)
    return _TENSOR.sub("ChipTensor", text)


def _is_dropped(line: str) -> bool:
    return bool(_INCLUDE.match(line) or _USING.match(line) or _FFTS.search(line))
