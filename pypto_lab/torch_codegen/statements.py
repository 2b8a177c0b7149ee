"""IR statements as lines of Python: one statement an IR statement, with the IR statement noted for each line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from pypto_lab.ir import nodes as n
from pypto_lab.ir.enums import FunctionType
from pypto_lab.ir.types import ShapedType, TensorType, TileType, Type
from pypto_lab.ir.visitor import walk
from pypto_lab.torch_codegen.expressions import TORCH_DTYPES, Code, Expressions, NoTorchForm
from pypto_lab.torch_codegen.launches import ROLES, Group, meets
from pypto_lab.torch_codegen.liveness import IN_PLACE, Plan, Program, make_plan, written_by_name
from pypto_lab.torch_codegen.memories import MOVES_NOTHING, Memories
from pypto_lab.torch_codegen.names import Names
from pypto_lab.torch_codegen.symbols import sources_of, symbol_bindings

Row = tuple[str, n.Stmt | None]


class FunctionWriter:
    """Writes one function. `rows` of :meth:`write` are (text, IR statement); the head belongs to no statement."""

    def __init__(
        self,
        function: n.Function,
        program: Program,
        functions: Mapping[str, str],
        groups: Mapping[str, Group],
        reserved: Iterable[str],
        *,
        check_shapes: bool = False,
        both_lanes: bool = False,
        meeting: frozenset[str] = frozenset(),
        memories: Memories | None = None,
        arch: str = "a2a3",
    ) -> None:
        self.function = function
        self.plan: Plan = make_plan(function, program)
        self.memories = memories if memories else None
        if self.memories is not None:
            self.plan = self.memories.plan(self.plan, function, program)
        self.arch = arch
        self.names = Names(reserved)
        self.groups = groups
        self.program = program
        self.check_shapes = check_shapes
        self.both_lanes = both_lanes
        self.expressions = Expressions(
            self.names, program.functions, functions, groups, self.plan, both_lanes=both_lanes, meeting=meeting
        )
        self._core = self.names.fresh("core") if self.memories is not None else ""
        self._script_name = functions[function.name]
        self._rows: list[Row] = []
        self._indent = 1
        self._yields: list[tuple[n.Var, ...]] = []
        self._defined: set[n.Var] = set()

    # the function

    def write(self) -> list[Row]:
        """All rows of the function. Raises NoTorchForm for an op without a torch form."""
        parameters = [self.names.of(p.var) for p in self.function.params]
        self._defined = {p.var for p in self.function.params} | self._free_symbols()
        head: list[Row] = [("@_on_both_lanes", None)] if self.both_lanes else []
        head.append((f"def {self._script_name}({', '.join(parameters)}):", None))
        if self.function.body is None or any(isinstance(s, n.InlineText) for s in self.function.body):
            reason = f"{self.function.name} has no body in the program: it is an external kernel"
            return [*head, (f"    raise NotImplementedError({reason!r})", None)]
        if self.check_shapes:
            self._check_parameters()
        self._block(self.function.body)
        used = [v for v in self._free_symbols() if self.names.knows(v)]
        bindings = symbol_bindings(self.function, self.names, used)
        head += [(f"    {text}", None) for _, text in bindings]
        if self.memories is not None:
            head.append((f"    {self._core} = _Core({self.arch!r}, addressed={self.memories.addressed})", None))
        if not self._rows:
            self._emit("pass", None)
        return head + self._rows

    def _free_symbols(self) -> set[n.Var]:
        return {v for s in sources_of(self.function) for v in s.symbols()}

    def _emit(self, text: str, stmt: n.Stmt | None) -> None:
        self._rows.append(("    " * self._indent + text, stmt))

    @contextmanager
    def _indented(self, stmt: n.Stmt | None) -> Iterator[None]:
        """A deeper level; `pass` where nothing is written in it."""
        self._indent += 1
        before = len(self._rows)
        yield
        if not any(not text.lstrip().startswith("#") for text, _ in self._rows[before:]):
            self._emit("pass", stmt)
        self._indent -= 1

    # blocks and statements

    def _block(self, body: n.Body) -> None:
        if self.function.func_type is FunctionType.Group:
            self._group_block(body)
            return
        for stmt in body:
            self._stmt(stmt)

    def _stmt(self, stmt: n.Stmt) -> None:
        for comment in stmt.leading_comments:
            for line in comment.splitlines():
                self._emit(f"# {line.lstrip('# ')}".rstrip(), stmt)
        freed = self.plan.freed_reads.get(stmt)
        if freed is not None:
            self._emit(f"_cross_core_rt.read_after_free({self.names.of(freed)!r})", stmt)
        match stmt:
            case n.Assign():
                self._assign(stmt)
            case n.Eval():
                self._emit(self.expressions.text(stmt.expr), stmt)
            case n.If():
                self._if(stmt)
            case n.For():
                self._for(stmt)
            case n.While():
                self._while(stmt)
            case n.Yield():
                self._yield(stmt)
            case n.Return():
                values = ", ".join(self.expressions.text(v) for v in stmt.values)
                self._emit(f"return {values}".rstrip(), stmt)
            case n.Break():
                self._emit("break", stmt)
            case n.Continue():
                self._emit("continue", stmt)
            case n.SpmdScope():
                self._spmd(stmt)
            case n.SplitAivScope():
                self._split_region(stmt)
            case n.Scope():
                self._transparent(stmt)
            case _:
                raise NoTorchForm(type(stmt).__name__, stmt.span)

    def _assign(self, stmt: n.Assign) -> None:
        decision = self.plan.decisions.get(stmt.value, IN_PLACE)
        for var in decision.keep:
            name = self.names.of(var)
            self._emit(f"{name} = _copy_of({name})  # read again after the write below", stmt)
        value = self._value(stmt)
        name = self.names.of(stmt.var)
        if decision.keep_target:
            old = self._write_target(stmt.value)
            self._emit(f"{old}, {name} = _copy_of({old}), {value}", stmt)
        else:
            self._emit(f"{name} = {value}", stmt)
        self._define(stmt.var, stmt)

    def _value(self, stmt: n.Assign) -> str:
        """What a variable is assigned; by addresses a tile is put at its bytes."""
        type_, value = stmt.var.type, stmt.value
        if self.memories is not None:
            if isinstance(value, n.OpCall) and value.op == "tile.alloc":
                size = self.expressions.literal(value.kwargs["size"])
                return f"{self._core}.alloc({value.kwargs['memory_space'].name!r}, {size})"
            memref = self.memories.memref(type_)
            if memref is not None and isinstance(type_, TileType):
                return self._placed(value, type_, self.memories, self.memories.address(memref, self.expressions.text))
        return self._with_region(value, self.expressions.code(value, type_).text, type_)

    def _placed(self, value: n.Expr, type_: TileType, memories: Memories, address: str) -> str:
        """A tile at its address: written there, or another view of bytes that are there already."""
        text = self.expressions.code(value, type_).text
        shape = self.expressions.listed(type_.shape)
        if isinstance(value, n.OpCall) and value.op in MOVES_NOTHING:
            if memories.share(value.args[0].type, type_):
                return text.replace("_tile_slice(", "_slice_in_place(", 1) if value.op == "tile.slice" else text
            return f"{self._core}.seen_as({address}, {shape}, {text})"
        if isinstance(value, n.Var):
            same = memories.same(value.type, type_)
            return text if same else f"{self._core}.seen_as({address}, {shape}, {text})"
        if isinstance(value, n.OpCall) and value.op == "tile.create" and value.kwargs.get("init_value") is None:
            text = f"{self._core}.at({address}, {shape}, {TORCH_DTYPES[type_.dtype]})"
            return self._with_region(value, text, type_)
        return f"{self._core}.put({address}, {self._with_region(value, text, type_)})"

    def _stays(self, target: n.Var, value: n.Expr) -> str | None:
        """What a variable that stands for memory is after a yield of `value`: a yield moves nothing.

        None where the variable lives by name and takes the value itself.
        """
        memref = None if self.memories is None else self.memories.memref(target.type)
        if memref is None or self.memories is None or not isinstance(target.type, TileType):
            return None
        if self.memories.same(target.type, value.type):
            return self.expressions.text(value)
        address = self.memories.address(memref, self.expressions.text)
        shape = self.expressions.listed(target.type.shape)
        return f"{self._core}.seen_as({address}, {shape}, {self.expressions.text(value)})"

    def _with_region(self, value: n.Expr, text: str, type_: Type) -> str:
        """A new box of which the variable's type says that only a part is valid."""
        fresh = isinstance(value, n.OpCall) and value.op in ("tile.create", "tensor.create", "tile.full", "tensor.full")
        valid = type_.stated_valid if isinstance(type_, ShapedType) else None
        return text if not fresh or valid is None else f"_mark({text}, {self.expressions.listed(valid)})"

    def _write_target(self, call: n.Expr) -> str:
        assert isinstance(call, (n.OpCall, n.FunctionCall))
        return self.expressions.text(call.args[written_by_name(call, self.program)[0]])

    def _define(self, var: n.Var, stmt: n.Stmt) -> None:
        self._defined.add(var)
        if self.check_shapes:
            self._check_target(var, stmt)

    def _assign_together(self, targets: Iterable[n.Var], values: Iterable[str], stmt: n.Stmt) -> None:
        """One simultaneous assignment; names that keep their value are left out."""
        pairs = [(self.names.of(t), v) for t, v in zip(targets, values, strict=True)]
        pairs = [(name, value) for name, value in pairs if name != value]
        if pairs:
            self._emit(f"{', '.join(name for name, _ in pairs)} = {', '.join(value for _, value in pairs)}", stmt)

    def _yield(self, stmt: n.Yield) -> None:
        targets = self._yields[-1] if self._yields else ()
        values = [self._stays(t, v) or self.expressions.text(v) for t, v in zip(targets, stmt.values, strict=False)]
        self._assign_together(targets[: len(values)], values, stmt)

    def _if(self, stmt: n.If) -> None:
        self._emit(f"if {self.expressions.text(stmt.condition)}:", stmt)
        self._yields.append(stmt.return_vars)
        with self._indented(stmt):
            self._block(stmt.then_body)
        if stmt.else_body:
            self._emit("else:", stmt)
            with self._indented(stmt):
                self._block(stmt.else_body)
        self._yields.pop()
        for var in stmt.return_vars:
            self._define(var, stmt)

    def _for(self, stmt: n.For) -> None:
        self._carry_in(stmt.iter_args, stmt)
        bounds = [self.expressions.text(e) for e in (stmt.start, stmt.stop, stmt.step)]
        shown = bounds if bounds[2] != "1" else bounds[:2] if bounds[0] != "0" else bounds[1:2]
        self._defined.add(stmt.loop_var)
        self._emit(f"for {self.names.of(stmt.loop_var)} in range({', '.join(shown)}):", stmt)
        self._loop_body(stmt)

    def _while(self, stmt: n.While) -> None:
        self._carry_in(stmt.iter_args, stmt)
        self._emit(f"while {self.expressions.text(stmt.condition)}:", stmt)
        self._loop_body(stmt)

    def _carry_in(self, iter_args: tuple[n.IterArg, ...], stmt: n.Stmt) -> None:
        self._assign_together(iter_args, [self.expressions.text(a.init_value) for a in iter_args], stmt)
        self._defined.update(iter_args)

    def _loop_body(self, stmt: n.For | n.While) -> None:
        self._yields.append(stmt.iter_args)
        with self._indented(stmt):
            self._block(stmt.body)
        self._yields.pop()
        carried = [self.names.of(a) for a in stmt.iter_args]  # by addresses too: a loop leaves its carry's memory
        self._assign_together(stmt.return_vars, carried[: len(stmt.return_vars)], stmt)
        for var in stmt.return_vars:
            self._define(var, stmt)

    # scopes

    def _transparent(self, stmt: n.Scope) -> None:
        self._block(stmt.body)
        if stmt.task_id is not None:
            self._emit(f"{self.names.of(stmt.task_id)} = _new_task()", stmt)

    def _spmd(self, stmt: n.SpmdScope) -> None:
        predicate = stmt.attrs.get("predicate")
        if isinstance(predicate, n.Expr):
            self._emit(f"if {self.expressions.text(predicate)}:", stmt)
            with self._indented(stmt):
                self._spmd_blocks(stmt)
        else:
            self._spmd_blocks(stmt)
        if stmt.task_id is not None:
            self._emit(f"{self.names.of(stmt.task_id)} = _new_task()", stmt)

    def _spmd_blocks(self, stmt: n.SpmdScope) -> None:
        if meets(stmt, self.expressions.meeting):
            self._blocks_together(stmt)
            return
        block = "_" if stmt.loop_var is None else self.names.of(stmt.loop_var)
        if stmt.loop_var is not None:
            self._defined.add(stmt.loop_var)
        self._emit(f"for {block} in _blocks({self.expressions.text(stmt.core_num)}):", stmt)
        with self._indented(stmt):
            self._block(stmt.body)

    def _blocks_together(self, stmt: n.SpmdScope) -> None:
        """Blocks that wait for each other: a nested function that runs once a block, side by side."""
        head = [] if stmt.loop_var is None else [f"{self.names.of(stmt.loop_var)} = _get_block_idx()"]
        count = self.expressions.text(stmt.core_num)
        self._region(stmt, "spmd_region", head, f"_spmd_together({count}, ")

    def _split_region(self, stmt: n.SplitAivScope) -> None:
        """A nested function that both lanes run; what the region leaves behind is lane 0's."""
        before, self.expressions.both_lanes = self.expressions.both_lanes, True
        mode, self.expressions.split = self.expressions.split, int(stmt.split)
        self._region(
            stmt, "split_region", [f"{self.names.of(stmt.lane_var)} = _get_subblock_idx()"], "_run_both_lanes("
        )
        self.expressions.both_lanes, self.expressions.split = before, mode

    def _region(self, stmt: n.Scope, hint: str, head: list[str], launch: str) -> None:
        """The scope's body as a nested function and its launch.

        Variables that the body assigns and that exist before it are passed in; those that are read after it are
        returned.
        """
        inside = _assigned(stmt.body)
        outside = list(_statements(self.function.body or (), skip=stmt))
        read_later = {v for s in outside for v in _own_reads(s)}
        defined_before = {p.var for p in self.function.params} | {v for s in outside for v in _own_definitions(s)}
        passed = [v for v in inside if v in defined_before and self.names.knows(v)]
        returned = [v for v in inside if v in read_later]
        region = self.names.fresh(f"{hint}_{stmt.span.line}" if stmt.span is not None else hint)
        self._emit(f"def {region}({', '.join(self.names.of(v) for v in passed)}):", stmt)
        with self._indented(stmt):
            for line in head:
                self._emit(line, stmt)
            self._block(stmt.body)
            if returned:
                self._emit(f"return {', '.join(self.names.of(v) for v in returned)}", stmt)
        call = f"{launch}{', '.join([region, *(self.names.of(v) for v in passed)])})"
        results = ", ".join(self.names.of(v) for v in returned)
        self._emit(f"{results} = {call}" if returned else call, stmt)

    # groups

    def _group_block(self, body: n.Body) -> None:
        """A block of a Group: its AIC and AIV calls run side by side, where the last of them stands."""
        pending: dict[str, n.Stmt] = {}
        for stmt in body:
            role = self._member_role(stmt)
            if role is None:
                if pending and self._depends(stmt, pending.values()):
                    self._launch(pending)
                self._stmt(stmt)
                continue
            if role in pending:
                self._launch(pending)
            pending[role] = stmt
        self._launch(pending)

    def _member_role(self, stmt: n.Stmt) -> str | None:
        call = _called(stmt)
        callee = self.program.functions.get(call.callee) if isinstance(call, n.FunctionCall) else None
        return None if callee is None else ROLES.get(callee.func_type)

    @staticmethod
    def _depends(stmt: n.Stmt, pending: Iterable[n.Stmt]) -> bool:
        """Whether a statement must come after the members that are waiting to be launched."""
        if not isinstance(stmt, (n.Assign, n.Eval)):
            return True
        results = {p.var for p in pending if isinstance(p, n.Assign)}
        return any(v in results for v in walk(stmt) if isinstance(v, n.Var))

    def _launch(self, pending: dict[str, n.Stmt]) -> None:
        if not pending:
            return
        members = []
        for role in ("aic", "aiv"):
            call = _called(pending[role]) if role in pending else None
            if isinstance(call, n.FunctionCall):
                shown = [self.expressions.callee(call), *(self.expressions.text(a) for a in call.args)]
                members.append(f"{role}=({', '.join(shown)},)" if len(shown) == 1 else f"{role}=({', '.join(shown)})")
        last = list(pending.values())[-1]
        targets = {role: s.var for role, s in pending.items() if isinstance(s, n.Assign)}
        group = self._script_name
        options = ""
        left = ""
        if len(targets) == 2:
            options = ', results="both"'
            left = f"{self.names.of(targets['aic'])}, {self.names.of(targets['aiv'])} = "
        elif targets:
            role, var = next(iter(targets.items()))
            options = ', results="aic"' if role == "aic" else ""
            left = f"{self.names.of(var)} = "
        self._emit(f"{left}_run_members({group!r}, _GROUP_META[{group!r}], {', '.join(members)}{options})", last)
        for var in targets.values():
            self._defined.add(var)
        pending.clear()

    # checks

    def _where(self, stmt: n.Stmt | None) -> str:
        span = stmt.span if stmt is not None else self.function.span
        return repr(f"{span.file}:{span.line}" if span is not None else self.function.name)

    def _check_parameters(self) -> None:
        for param in self.function.params:
            if isinstance(param.type, TensorType) and param.type.dtype in TORCH_DTYPES:
                name = self.names.of(param.var)
                dtype = TORCH_DTYPES[param.type.dtype]
                where = repr(f"{param.span.file}:{param.span.line}") if param.span is not None else self._where(None)
                self._emit(f"_check_argument({name!r}, {name}, {dtype}, {where})", None)

    def _check_target(self, var: n.Var, stmt: n.Stmt) -> None:
        type_: Type = var.type
        if not isinstance(type_, ShapedType):
            return
        name = self.names.of(var)
        dtype = TORCH_DTYPES.get(type_.dtype, "None")
        arguments = [repr(name), name, self._dims(type_.shape), dtype, self._where(stmt)]
        if type_.stated_valid is not None:
            arguments.append(f"valid={self._dims(type_.stated_valid)}")
        self._emit(f"_check_value({', '.join(arguments)})", stmt)

    def _dims(self, dims: tuple[n.Expr, ...]) -> str:
        """Dims as text; None for those that cannot be computed here."""
        shown: list[Code] = []
        for dim in dims:
            ready = all(v in self._defined for v in walk(dim) if isinstance(v, n.Var))
            shown.append(self.expressions.code(dim) if ready else Code("None"))
        return "[" + ", ".join(code.text for code in shown) + "]"


def _called(stmt: n.Stmt) -> n.Expr | None:
    return stmt.value if isinstance(stmt, n.Assign) else stmt.expr if isinstance(stmt, n.Eval) else None


def _statements(body: n.Body, skip: n.Stmt) -> Iterator[n.Stmt]:
    """Every statement of a block and below, except `skip` and what it holds."""
    for stmt in body:
        if stmt is skip:
            continue
        yield stmt
        match stmt:
            case n.If():
                yield from _statements(stmt.then_body, skip)
                yield from _statements(stmt.else_body, skip)
            case n.For() | n.While() | n.Scope():
                yield from _statements(stmt.body, skip)


def _own_definitions(stmt: n.Stmt) -> Iterator[n.Var]:
    match stmt:
        case n.Assign():
            yield stmt.var
        case n.If():
            yield from stmt.return_vars
        case n.For():
            yield from (stmt.loop_var, *stmt.iter_args, *stmt.return_vars)
        case n.While():
            yield from (*stmt.iter_args, *stmt.return_vars)


def _own_reads(stmt: n.Stmt) -> Iterator[n.Var]:
    """Variables the statement itself reads, blocks below it aside."""
    exprs: tuple[n.Expr, ...] = ()
    match stmt:
        case n.Assign():
            exprs = (stmt.value,)
        case n.Eval():
            exprs = (stmt.expr,)
        case n.If():
            exprs = (stmt.condition,)
        case n.For():
            exprs = (stmt.start, stmt.stop, stmt.step, *(a.init_value for a in stmt.iter_args))
        case n.While():
            exprs = (stmt.condition, *(a.init_value for a in stmt.iter_args))
        case n.Yield() | n.Return():
            exprs = stmt.values
        case n.SpmdScope():
            exprs = (stmt.core_num,)
    for expr in exprs:
        yield from (v for v in walk(expr) if isinstance(v, n.Var))


def _assigned(body: n.Body) -> list[n.Var]:
    """Variables that a block defines, in order."""
    nothing = n.Stmt()
    return list(dict.fromkeys(v for s in _statements(body, skip=nothing) for v in _own_definitions(s)))
