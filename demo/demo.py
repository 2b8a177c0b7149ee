"""What `make demo` does: a softmax kernel through the lab, its numbers against torch, and a report to look at."""

from __future__ import annotations

from pathlib import Path

import torch

import pypto_lab as lab
from pypto_lab.examples import __file__ as examples
from pypto_lab.results import Options, run_case

KERNEL = Path(examples).parent / "softmax_rows.py"
REPORT = Path(__file__).parent / "out" / "softmax_rows.html"


def main() -> int:
    case = lab.case(KERNEL)
    print(f"{KERNEL.name}: a PyPTO kernel, read as it is written, run as PyTorch {torch.__version__} on this machine\n")
    result = run_case(case, Options(seed=3, poison=True))
    print(result)

    ours, torchs = result.outputs["out"], torch.softmax(case.make_inputs(3)["x"], dim=-1)
    print("\nthe first cells   kernel       torch")
    for column in range(4):
        print(f"  out[0, {column}]     {ours[0, column]:.8f}   {torchs[0, column]:.8f}")

    path = result.save(REPORT)
    shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    print(f"\nreport: {shown} (open it in a browser)")
    print("next:   make lab (JupyterLab with the tutorials; start with 01_first_kernel.ipynb)")
    return 0 if result.ok else 1


if __name__ == "__main__":
    raise SystemExit(main())
