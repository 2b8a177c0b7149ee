"""What a call in an orchestration function starts: the kernels on their cores, and their arguments in kernel order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pypto_lab.ir import nodes as n
from pypto_lab.ir.diagnostics import did_you_mean
from pypto_lab.ir.enums import CUBE_SPACES, ArgDirection, Direction, FunctionType
from pypto_lab.ir.types import ShapedType, TileType
from pypto_lab.ir.visitor import walk
from pypto_lab.pto.orchestration.homes import is_kernel
from pypto_lab.pto.orchestration.refusing import BAD_DIRECTIONS, NO_KERNEL, UNLIKE_MEMBERS, refuse

Call = n.FunctionCall | n.Submit


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a task. `value` is None for an output that the runtime allocates when the task is submitted."""

    param: n.Param
    value: n.Expr | None
    direction: ArgDirection

    @property
    def is_tensor(self) -> bool:
        return isinstance(self.param.type, ShapedType)


@dataclass(frozen=True, slots=True)
class Launch:
    """A task: which kernels run it, on how many blocks, with which arguments (as the kernels' parameters order them).

    `wrapper` is the Group or Spmd function that was called, None for a kernel that was called itself.
    """

    call: Call
    wrapper: n.Function | None
    kernels: tuple[n.Function, ...]
    arguments: tuple[Argument, ...]

    @property
    def tensors(self) -> tuple[Argument, ...]:
        return tuple(a for a in self.arguments if a.is_tensor)

    @property
    def scalars(self) -> tuple[Argument, ...]:
        return tuple(a for a in self.arguments if not a.is_tensor)

    @property
    def cube(self) -> n.Function | None:
        return next((k for k in self.kernels if core_of(k) == "aic"), None)

    @property
    def vector(self) -> n.Function | None:
        return next((k for k in self.kernels if core_of(k) == "aiv"), None)

    @property
    def both_lanes(self) -> bool:
        """Whether the vector kernel runs on both lanes of its cluster."""
        return self.vector is not None and bool(self.vector.attrs.get("dual_aiv_dispatch"))

    @property
    def block_num(self) -> n.Expr | int | None:
        """The number of blocks of an SPMD launch, None for a single one."""
        stated = self.call.core_num if isinstance(self.call, n.Submit) else None
        found: n.Expr | int | None = self.call.attrs.get("core_num") if stated is None else stated
        return found

    @property
    def together(self) -> bool:
        """Whether all blocks must start at once."""
        stated = self.call.sync_start if isinstance(self.call, n.Submit) else False
        return bool(stated or self.call.attrs.get("sync_start"))


def launch_of(call: Call, program: n.Program) -> Launch:
    """The task of a call.

    Raises:
        LabError: E681 the callee is no kernel, E686 the kernels of a group take their arguments in different orders,
            E688 the call's directions do not fit its arguments.
    """
    callee = program.functions.get(call.callee)
    if callee is None:
        hint = did_you_mean(call.callee, program.functions)
        refuse(program, NO_KERNEL, f"the program has no function `{call.callee}` to launch", call.span, hint)
    stated = [_direction(d) for d in call.attrs.get("arg_directions") or ()]
    if stated and not _fit(stated, callee.params, len(call.args)):
        shown = ", ".join(d.value for d in stated)
        message = f"the call of `{callee.name}` states the directions {shown}; they do not fit its arguments"
        refuse(
            program, BAD_DIRECTIONS, message, call.span, "one direction for each argument, `scalar` for scalars only"
        )
    given = [
        Argument(p, call.args[i] if i < len(call.args) else None, stated[i] if i < len(stated) else _own(p))
        for i, p in enumerate(callee.params)
    ]
    kernels, arguments = _resolved(program, call, callee, given)
    return Launch(call, None if is_kernel(callee) else callee, tuple(kernels), tuple(arguments))


def _fit(stated: list[ArgDirection], params: tuple[n.Param, ...], count: int) -> bool:
    """Whether there is a direction for each argument, and `scalar` just for those that are no tensors."""
    pairs = zip(stated, params, strict=False)
    return len(stated) >= count and all((d is ArgDirection.Scalar) != isinstance(p.type, ShapedType) for d, p in pairs)


def _resolved(
    program: n.Program, call: Call, callee: n.Function, given: list[Argument]
) -> tuple[list[n.Function], list[Argument]]:
    if is_kernel(callee):
        return [callee], given
    if callee.func_type not in (FunctionType.Group, FunctionType.Spmd):
        kind = callee.func_type.name
        message = f"`{callee.name}` is {'an' if kind[0] in 'IO' else 'a'} {kind} function; no core runs it"
        refuse(
            program, NO_KERNEL, message, call.span, "lower the program first: kernels are outlined by passes 8 to 10"
        )
    by_var = {a.param.var: a for a in given}
    members = [c for c in walk(callee) if isinstance(c, (n.FunctionCall, n.Submit)) and c.callee in program.functions]
    if not members:
        refuse(program, NO_KERNEL, f"`{callee.name}` launches no kernel", call.span)
    kernels: list[n.Function] = []
    orders: list[list[Argument]] = []
    for member in members:
        function = program.functions[member.callee]
        inner, arguments = _resolved(program, call, function, _handed(member, function, by_var))
        kernels += inner
        orders.append(arguments)
    if any(_shape(order) != _shape(orders[0]) for order in orders):
        names = ", ".join(f"`{k.name}`" for k in kernels)
        message = f"the kernels of `{callee.name}` ({names}) do not take the same arguments in the same order"
        refuse(program, UNLIKE_MEMBERS, message, call.span, "one task has one list of arguments for all its cores")
    return kernels, orders[0]


def _handed(call: Call, function: n.Function, by_var: Mapping[n.Var, Argument]) -> list[Argument]:
    """A member's arguments: what the wrapper was given, in the member's order."""
    found = []
    for param, value in zip(function.params, call.args, strict=False):
        outer = by_var.get(value) if isinstance(value, n.Var) else None
        found.append(Argument(param, value, _own(param)) if outer is None else _renamed(outer, param))
    return found


def _renamed(outer: Argument, param: n.Param) -> Argument:
    return Argument(param, outer.value, outer.direction)


def _shape(order: list[Argument]) -> list[tuple[object, bool]]:
    return [(a.value if isinstance(a.value, n.Var) else None, a.is_tensor) for a in order]


def _direction(stated: object) -> ArgDirection:
    return stated if isinstance(stated, ArgDirection) else ArgDirection(str(stated).rpartition(".")[2])


def _own(param: n.Param) -> ArgDirection:
    """The direction a parameter states itself, for a call that states none."""
    if not isinstance(param.type, ShapedType):
        return ArgDirection.Scalar
    return {
        Direction.In: ArgDirection.Input,
        Direction.Out: ArgDirection.OutputExisting,
        Direction.InOut: ArgDirection.InOut,
    }[param.direction]


def core_of(kernel: n.Function) -> str:
    """`aic` or `aiv`: what a kernel states, else the cube core where it has a tile of the cube's memories."""
    if kernel.func_type is not FunctionType.InCore:
        return "aic" if kernel.func_type is FunctionType.AIC else "aiv"
    tiles = (node.type for node in walk(kernel) if isinstance(node, n.Var))
    return "aic" if any(isinstance(t, TileType) and t.memory_space in CUBE_SPACES for t in tiles) else "aiv"
