"""The pass manager: runs the passes in order, and records after each what the program is, what changed, what holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import Diagnostic
from pypto_lab.ir.equal import structurally_equal
from pypto_lab.ir.printer import print_program
from pypto_lab.ir.verifier import Verified, stage_of, verify
from pypto_lab.lowering.context import Context, Pass
from pypto_lab.lowering.passes import (
    allocate_memory_addr,
    auto_tile_matmul_l0,
    canonicalize_io_order,
    canonicalize_tile_slice,
    classify_iter_arg_carry,
    convert_tensor_to_tile_ops,
    convert_to_ssa,
    ctrl_flow_transform,
    derive_call_directions,
    expand_mixed_kernel,
    flatten_call_expr,
    flatten_tile_nd_to_2d,
    infer_tile_memory_space,
    init_mem_ref,
    inject_gm_pipe_buffer,
    inline_functions,
    legalize_tile_cast,
    lower_auto_vector_split,
    lower_pipeline_loops,
    materialize_runtime_scopes,
    materialize_semantic_aliases,
    materialize_tensor_strides,
    materialize_valid_shape_symbols,
    memory_reuse,
    normalize_return_order,
    normalize_stmt_structure,
    outline_cluster_scopes,
    outline_hierarchy_scopes,
    outline_incore_scopes,
    resolve_backend_op_layouts,
    simplify,
    split_vector_kernel,
    stamp_tfree_split,
    unroll_loops,
)
from pypto_lab.lowering.target import target_of

PASSES: tuple[tuple[int, str, Pass], ...] = (
    (1, "InlineFunctions", inline_functions.run),
    (2, "UnrollLoops", unroll_loops.run),
    (3, "CtrlFlowTransform", ctrl_flow_transform.run),
    (4, "ConvertToSSA", convert_to_ssa.run),
    (5, "Simplify", simplify.run),
    (6, "NormalizeStmtStructure", normalize_stmt_structure.run),
    (7, "FlattenCallExpr", flatten_call_expr.run),
    (8, "OutlineHierarchyScopes", outline_hierarchy_scopes.run),
    (9, "OutlineIncoreScopes", outline_incore_scopes.run),
    (10, "OutlineClusterScopes", outline_cluster_scopes.run),
    (11, "ConvertTensorToTileOps", convert_tensor_to_tile_ops.run),
    (14, "FlattenTileNdTo2D", flatten_tile_nd_to_2d.run),
    (15, "LegalizeTileCast", legalize_tile_cast.run),
    (16, "AutoTileMatmulL0", auto_tile_matmul_l0.run),
    (17, "CanonicalizeTileSlice", canonicalize_tile_slice.run),
    (18, "InferTileMemorySpace", infer_tile_memory_space.run),
    (20, "ResolveBackendOpLayouts", resolve_backend_op_layouts.run),
    (21, "LowerAutoVectorSplit", lower_auto_vector_split.run),
    (22, "ExpandMixedKernel", expand_mixed_kernel.run),
    (23, "InjectGMPipeBuffer", inject_gm_pipe_buffer.run),
    (24, "SplitVectorKernel", split_vector_kernel.run),
    (25, "StampTfreeSplit", stamp_tfree_split.run),
    (26, "NormalizeReturnOrder", normalize_return_order.run),
    (29, "LowerPipelineLoops", lower_pipeline_loops.run),
    (30, "CanonicalizeIOOrder", canonicalize_io_order.run),
    (31, "MaterializeTensorStrides", materialize_tensor_strides.run),
    (32, "InitMemRef", init_mem_ref.run),
    (33, "MaterializeSemanticAliases", materialize_semantic_aliases.run),
    (34, "MemoryReuse", memory_reuse.run),
    (35, "AllocateMemoryAddr", allocate_memory_addr.run),
    (38, "DeriveCallDirections", derive_call_directions.run),
    (45, "Simplify", simplify.run),
    (46, "MaterializeRuntimeScopes", materialize_runtime_scopes.run),
    (47, "ClassifyIterArgCarry", classify_iter_arg_carry.run),
    (49, "MaterializeValidShapeSymbols", materialize_valid_shape_symbols.run),
)
"""Number (the compiler's own), name and function of each pass, in the order they run."""


@dataclass(frozen=True)
class Stage:
    """The program after one pass. `changed` names the functions the pass changed, made or removed; `findings` are
    the invariants that do not hold (none in a sound lowering)."""

    name: str
    number: int
    program: n.Program
    changed: tuple[str, ...]
    findings: tuple[Diagnostic, ...]
    same_as: Stage | None = field(default=None, repr=False, compare=False)
    """The stage before, where the pass gave its program back as it was."""

    @property
    def file_name(self) -> str:
        """The dump's name as the compiler writes it, e.g. `04_after_ConvertToSSA.py`."""
        return "00_frontend.py" if self.number == 0 else f"{self.number:02d}_after_{self.name}.py"

    @cached_property
    def text(self) -> str:
        """The program in the compiler's text, printed when it is first asked for."""
        return print_program(self.program) if self.same_as is None else self.same_as.text


@dataclass(frozen=True, slots=True)
class Lowered:
    """A lowering: every stage from the front end on, and the program after the last one."""

    stages: tuple[Stage, ...]
    program: n.Program
    arch: str

    def stage(self, number: int) -> Stage:
        """The stage after pass `number`. Raises KeyError for a pass that did not run."""
        for stage in self.stages:
            if stage.number == number:
                return stage
        raise KeyError(f"no pass {number} ran; the stages are {[s.number for s in self.stages]}")

    def write(self, directory: str | Path) -> list[Path]:
        """Writes `passes_dump/NN_after_<Pass>.py` below a directory, in the compiler's text; returns the files."""
        folder = Path(directory) / "passes_dump"
        folder.mkdir(parents=True, exist_ok=True)
        files = []
        for stage in self.stages:
            path = folder / stage.file_name
            path.write_text(stage.text, encoding="utf-8")
            files.append(path)
        return files


def lower(
    program: n.Program,
    arch: str = "a2a3",
    *,
    until: int | None = None,
    passes: Sequence[tuple[int, str, Pass]] = PASSES,
) -> Lowered:
    """Lowers a program for `arch` ("a2a3" or "a5"), up to and including pass number `until` (None: all).

    Raises LabError, at the user's line, for what the compiler refuses; ValueError for an unknown arch.
    """
    context = Context(target_of(arch), program.sources)
    verified: Verified = {}
    stages = [_stage("frontend", 0, program, None, verified)]
    for number, name, run in passes:
        if until is not None and number > until:
            break
        after = run(program, context)
        stages.append(_stage(name, number, after, stages[-1], verified))
        program = after
    return Lowered(tuple(stages), program, arch)


def _stage(name: str, number: int, program: n.Program, before: Stage | None, verified: Verified) -> Stage:
    """The stage after a pass: what changed since the one before, and what does not hold."""
    reached = stage_of(f"{number:02d}_")
    if before is not None and program is before.program and reached == stage_of(before.file_name):
        return Stage(name, number, program, (), before.findings, before)
    findings = tuple(verify(program, stage=reached, known=verified))
    if before is None or program is before.program:
        return Stage(name, number, program, (), findings, before)
    return Stage(name, number, program, changed_functions(before.program, program), findings)


def changed_functions(before: n.Program, after: n.Program) -> tuple[str, ...]:
    """Names of functions that are new, gone or different, in the new order, those gone last."""
    old, new = before.functions, after.functions
    changed = [k for k, f in new.items() if k not in old or not _same(old[k], f)]
    return (*changed, *(k for k in old if k not in new))


def _same(before: n.Function, after: n.Function) -> bool:
    return before is after or structurally_equal(before, after, memrefs=True)
