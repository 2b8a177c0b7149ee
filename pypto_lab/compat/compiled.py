"""What `ir.compile` and `kernel.compile` return on the lab: a callable program with a folder of what was written."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pypto_lab.compat.running import bind_program, execute, refuse_ranks
from pypto_lab.ir import nodes as n
from pypto_lab.ir.enums import Direction

if TYPE_CHECKING:
    from pypto_lab.numerics.validate import Sweep


class CompiledProgram:
    """A program ready to run. The lab executes its torch script; `output_dir` holds the front-end dump and that
    script, written when first asked for."""

    def __init__(self, program: n.Program, config: Any = None, output_dir: str | Path | None = None) -> None:
        self.program = program
        self.config = config
        self._wanted_dir = output_dir if output_dir is not None else getattr(config, "output_dir", None)

    @property
    def platform(self) -> str | None:
        return getattr(self.config, "platform", None)

    @property
    def name(self) -> str:
        return self.program.name

    @property
    def param_names(self) -> list[str]:
        return [p.name for p in self.program.entry.params]

    @property
    def output_indices(self) -> list[int]:
        return [i for i, p in enumerate(self.program.entry.params) if p.direction is not Direction.In]

    @property
    def has_return(self) -> bool:
        return bool(self.program.entry.return_types)

    def __call__(self, *arguments: Any, config: Any = None, **keywords: Any) -> Any:
        """Runs in place on all parameters and returns what the program returns; given only the inputs, allocates the
        outputs and returns them."""
        return self.call_with({}, arguments, keywords, config)

    def call_with(
        self,
        callbacks: Mapping[str, Callable[..., Any]],
        arguments: Sequence[Any],
        keywords: Mapping[str, Any],
        config: Any = None,
    ) -> Any:
        """A call in which runtime-bound workers are the given functions; each gets the list of its arguments."""
        refuse_ranks(getattr(self.config, "distributed_config", None))
        call = bind_program(self.program, arguments, keywords)
        returned = execute(self.program, call.values, config if config is not None else self.config, callbacks)
        if not call.allocated:
            return returned
        made = [call.values[name] for name in call.allocated]
        return made[0] if len(made) == 1 else tuple(made)

    @cached_property
    def output_dir(self) -> Path:
        """The folder with `passes_dump/00_frontend.py` and `torch_script.py`."""
        from pypto_lab.torch_codegen.generate import generate

        folder = Path(self._wanted_dir or tempfile.mkdtemp(prefix=f"pypto_lab_{self.program.name}_"))
        dumps = folder / "passes_dump"
        dumps.mkdir(parents=True, exist_ok=True)
        (dumps / "00_frontend.py").write_text(self.program.as_python(), encoding="utf-8")
        (folder / "torch_script.py").write_text(generate(self.program).text, encoding="utf-8")
        return folder

    def __fspath__(self) -> str:
        return str(self.output_dir)

    def __str__(self) -> str:
        return str(self.output_dir)

    def validate_ir(
        self, tensors: Mapping[str, Any], expected: Mapping[str, Any], *, rtol: float = 5e-2, atol: float = 5e-2
    ) -> Sweep:
        """Runs every dump in the output folder against `expected`. Raises AssertionError naming the stages that are
        not right; the tolerances are upstream's defaults."""
        from pypto_lab.compat.pypto.debug import validate_pass_ir_codegen_results

        return validate_pass_ir_codegen_results(self.output_dir / "passes_dump", tensors, expected, rtol, atol)

    def prepare(self, callbacks: Mapping[str, Any] | None = None, extra_compiled: Any = ()) -> PreparedProgram:
        """A session on this program. Raises ValueError when a runtime-bound worker has no callback."""
        bound = dict(callbacks or {})
        for program in (self, *extra_compiled):
            unbound = [
                f.name for f in program.program.functions.values() if f.requires_runtime_binding and f.name not in bound
            ]
            if unbound:
                raise ValueError(f"no callback for the runtime-bound worker(s) {', '.join(unbound)}")
        return PreparedProgram(self, bound)


class PreparedProgram:
    """`compiled.prepare(...)`: a context manager that dispatches one program."""

    def __init__(self, compiled: CompiledProgram, callbacks: Mapping[str, Any]) -> None:
        self.compiled, self.callbacks = compiled, callbacks

    def __enter__(self) -> PreparedProgram:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __call__(self, *arguments: Any, config: Any = None) -> Any:
        return self.run(self.compiled, *arguments, config=config)

    def run(self, compiled: CompiledProgram, *arguments: Any, config: Any = None) -> Any:
        return compiled.call_with(self.callbacks, arguments, {}, config)

    def close(self) -> None:
        """Nothing is held: tensors are ordinary torch tensors."""
