"""`%%pypto`: runs the kernel of a notebook cell as PyTorch and shows its numbers, script and graph."""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, cell_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring

from pypto_lab.cell import UserMistake, Wishes, plan, run_cell
from pypto_lab.frontend.kernels import source_of
from pypto_lab.ir.diagnostics import LabError
from pypto_lab.numerics.diff import ARCHITECTURES, STAGES
from pypto_lab.pto.build import ENGINES
from pypto_lab.results import Options, run_plan
from pypto_lab.view.report import Result

HELP: Mapping[str, str] = {
    "kernel": "kernel to run (default: the last entry that the cell defines)",
    "--golden": "function with the right answer: FN(values) fills the outputs of a dict in place, or its parameters "
    "are named like the kernel's and it returns the outputs (default: golden_KERNEL, golden)",
    "--inputs": "a dict by parameter name, a list in parameter order, or a function that makes one (default: "
    "make_inputs(seed), build_specs(), variables named like the parameters, random tensors)",
    "--arch": "architecture, a2a3 or a5",
    "--stage": "how far to compile before running: frontend (the kernel as PyTorch), lowered (after the lab's passes), "
    "pto (its .pto files, executed from disk), all (default: frontend; pto with --out or --engine)",
    "--out": "keep the artifacts of the stage pto in this folder: passes_dump, .pto, kernels, orchestration, "
    "kernel_config.py (default: a folder that goes away with the notebook; _pypto.build)",
    "--engine": "what compiles: embedded, the lab's own passes (default), or pypto, the compiler installed here",
    "--check-shapes": "check every value's shape and valid shape while running",
    "--poison": "run again with undefined cells set to NaN: an output that changes reads padding",
    "--step": "record the run and show the workbench: step forwards and backwards, tiles, queues, who wrote what",
    "--seed": "seed of the inputs and of the order of lanes",
    "--tol": "relative and absolute tolerance (default: RTOL and ATOL of the cell, else what the dtype needs)",
}
"""What each argument does, for `%%pypto?`."""

FLAGS = tuple(name for name in HELP if name.startswith("--"))
_CHOICES = {"--arch": ARCHITECTURES, "--stage": STAGES, "--engine": ENGINES}


@magics_class
class PyptoMagics(Magics):
    """The magics of the lab."""

    @magic_arguments()
    @argument("kernel", nargs="?", default=None, metavar="KERNEL", help=HELP["kernel"])
    @argument("--golden", metavar="FN", help=HELP["--golden"])
    @argument("--inputs", metavar="EXPR", help=HELP["--inputs"])
    @argument("--arch", default="a2a3", metavar="ARCH", help=HELP["--arch"])
    @argument("--stage", metavar="STAGE", help=HELP["--stage"])
    @argument("--out", metavar="DIR", help=HELP["--out"])
    @argument("--engine", metavar="ENGINE", help=HELP["--engine"])
    @argument("--check-shapes", action="store_true", help=HELP["--check-shapes"])
    @argument("--poison", action="store_true", help=HELP["--poison"])
    @argument("--step", action="store_true", help=HELP["--step"])
    @argument("--seed", type=int, default=0, metavar="N", help=HELP["--seed"])
    @argument("--tol", metavar="R,A", help=HELP["--tol"])
    @cell_magic
    def pypto(self, line: str, cell: str) -> Result:
        """Run the kernel of this cell as PyTorch and compare it with its golden.

        The cell is executed in your namespace, with the lab's stand-ins for `pypto.language` and `golden` importable
        while it runs. Kernel, inputs, golden, `RTOL`, `ATOL` and `OUTPUTS` are looked for in the cell first. The result
        is the cell's value and `_pypto`: tabs Numbers, Script, Graph and Artifacts, with `--step` the workbench;
        `_pypto.outputs` are the tensors, `_pypto.build` the artifacts of the stage pto.
        """
        arguments = parse_argstring(self.pypto, line)
        wishes = Wishes(
            kernel=arguments.kernel,
            inputs=_unquoted(arguments.inputs),
            golden=_unquoted(arguments.golden),
            seed=arguments.seed,
            tolerance=_tolerance(arguments.tol),
        )
        options = Options(
            stage=arguments.stage,
            arch=arguments.arch,
            seed=arguments.seed,
            check_shapes=arguments.check_shapes,
            poison=arguments.poison,
            step=arguments.step,
            out=_folder(arguments.out),
            engine=arguments.engine,
        )
        shell = self.shell
        assert shell is not None, "a magic runs in a shell"
        text = f"# %%pypto {line}\n" + _transformed(shell, cell)
        try:
            options.check()
            ran = run_cell(text, shell.user_ns, f"In [{_prompt_number(shell)}]")
            with _progress() as progress, _passing() as display:
                result = run_plan(plan(ran, wishes), options, progress, display)
        except UserMistake as mistake:
            raise UsageError(str(mistake)) from None
        except LabError as found:
            raise _usage_error(found) from None
        shell.user_ns["_pypto"] = result
        return result


def _transformed(shell: InteractiveShell, cell: str) -> str:
    """The cell as Python (`%` and `!` lines rewritten), on the lines it stood on: IPython drops leading empty ones."""
    kept = cell.lstrip("\n")
    return "\n" * (len(cell) - len(kept)) + str(shell.transform_cell(kept))


def _prompt_number(shell: InteractiveShell) -> int:
    """The number the running cell is shown with; IPython has already counted on when it runs a cell of the history."""
    running = getattr(shell.displayhook, "exec_result", None)
    number = getattr(running, "execution_count", None)
    return shell.execution_count if number is None else int(number)


def _usage_error(found: LabError) -> UsageError:
    """Diagnostics as IPython shows a user's mistake: the text, no traceback."""
    count = len(found.diagnostics)
    head = "" if count == 1 else f"{count} findings\n\n"
    return UsageError(f"{head}{found}")


def _unquoted(text: str | None) -> str | None:
    """An argument without the quotes that kept its spaces together."""
    if text is not None and len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    return text


def _folder(text: str | None) -> Path | None:
    """The folder an argument names; `~` is the user's own."""
    return None if text is None else Path(_unquoted(text) or "").expanduser()


def _tolerance(text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    try:
        relative, absolute = (float(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"--tol takes two numbers, relative and absolute: --tol 1e-3,1e-4 (not {text!r})") from None
    if not all(math.isfinite(t) and t >= 0 for t in (relative, absolute)):
        raise UsageError(f"--tol takes two numbers that are not negative, not {text!r}")
    return relative, absolute


PATIENCE = 2.0
"""Seconds after which a running cell says what it is doing."""


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Shows what is being done, in one line that goes away with the block, once the cell has run for a while."""
    from IPython.display import display

    doing, handle, lock = ["starting"], [], threading.Lock()

    def shown() -> dict[str, str]:
        return {"text/plain": f"{doing[0]} ..." if doing[0] else ""}

    def start() -> None:
        with lock:
            if doing[0]:
                handle.append(display(shown(), raw=True, display_id=True))

    def tell(words: str) -> None:
        with lock:
            doing[0] = words
            for place in handle:
                place.update(shown(), raw=True)

    timer = threading.Timer(PATIENCE, start)
    timer.daemon = True
    timer.start()
    try:
        yield tell
    finally:
        timer.cancel()
        tell("")


@contextlib.contextmanager
def _passing() -> Iterator[Callable[[Any], None]]:
    """Shows a run while it goes on; it goes away with the block, since the cell's result is shown then."""
    from IPython.display import HTML, display

    handles = []

    def show(run: Any) -> None:
        handles.append(display(run, display_id=True))

    try:
        yield show
    finally:
        for handle in handles:
            handle.update(HTML(""))


# --- completion ------------------------------------------------------------------------------------------------------


def completions(before: str, namespace: Mapping[str, Any]) -> list[str]:
    """What may stand at the end of `before`, the text of a `%%pypto` line up to the cursor."""
    *earlier, fragment = before.split(" ")
    previous = earlier[-1] if earlier else ""
    if previous in _CHOICES:
        candidates = list(_CHOICES[previous])
    elif previous in ("--golden", "--inputs"):
        candidates = [name for name, value in namespace.items() if not name.startswith("_") and callable(value)]
    elif previous in ("--seed", "--tol"):
        candidates = []
    elif previous == "--out":
        candidates = _folders(fragment)
    elif fragment.startswith("-"):
        candidates = [flag for flag in FLAGS if flag not in earlier]
    else:
        candidates = [name for name, value in namespace.items() if source_of(value) is not None]
    return sorted(c for c in candidates if c.startswith(fragment))


def _folders(fragment: str) -> list[str]:
    """Folders whose path starts with `fragment`, each with a `/` at its end."""
    head, _, _ = fragment.rpartition("/")
    place = Path(f"{head}/" if "/" in fragment else ".").expanduser()
    try:
        names = [path.name for path in place.iterdir() if path.is_dir() and not path.name.startswith(".")]
    except OSError:
        return []
    return [f"{head}/{name}/" if "/" in fragment else f"{name}/" for name in names]


def _matcher(shell: InteractiveShell) -> Any:
    @context_matcher()  # type: ignore[untyped-decorator, unused-ignore]
    def pypto_matcher(context: CompletionContext) -> SimpleMatcherResult:
        before = context.text_until_cursor
        if context.cursor_line != 0 or not before.startswith("%%pypto "):
            return {"completions": []}
        found = completions(before.removeprefix("%%pypto "), shell.user_ns)
        return {
            "completions": [SimpleCompletion(text=name, type="param") for name in found],
            "matched_fragment": before.split(" ")[-1],
            "suppress": bool(found),
        }

    return pypto_matcher


# --- loading ---------------------------------------------------------------------------------------------------------


def load_ipython_extension(ipython: InteractiveShell) -> None:
    """`%load_ext pypto_lab`: registers `%%pypto` and its completion. Loading twice changes nothing."""
    ipython.register_magics(PyptoMagics)
    unload_ipython_extension(ipython, keep_magic=True)
    if ipython.Completer is not None:
        ipython.Completer.custom_matchers.append(_matcher(ipython))


def unload_ipython_extension(ipython: InteractiveShell, *, keep_magic: bool = False) -> None:
    """Takes the completion back, and the magic unless told to keep it."""
    if ipython.Completer is not None:
        matchers = ipython.Completer.custom_matchers
        matchers[:] = [m for m in matchers if getattr(m, "__name__", "") != "pypto_matcher"]
    if not keep_magic:
        ipython.magics_manager.magics["cell"].pop("pypto", None)


load = load_ipython_extension
