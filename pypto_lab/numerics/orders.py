"""Runs a program under several orders of its lanes: results that depend on the order are a race."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from pypto_lab.ir import nodes as n
from pypto_lab.torch_codegen.execute import RunResult, run
from pypto_lab.torch_codegen.generate import generate

RANDOM_ORDERS = 20


@dataclass(frozen=True, slots=True)
class OrderDifference:
    """An output that two orders of the lanes do not give alike."""

    output: str
    first: str
    second: str
    cell: tuple[int, ...]
    count: int

    def __str__(self) -> str:
        more = f" and {self.count - 1} more" if self.count > 1 else ""
        return f"`{self.output}` depends on the order of lanes: {self.first} and {self.second} differ in cell " + (
            f"{list(self.cell)}{more}"
        )


@dataclass(frozen=True, slots=True)
class OrderReport:
    """What an order check found: the orders it ran and the outputs that depend on them."""

    orders: tuple[str, ...]
    differences: tuple[OrderDifference, ...]

    @property
    def ok(self) -> bool:
        return not self.differences

    def __str__(self) -> str:
        if self.ok:
            return f"{len(self.orders)} orders of lanes give the same outputs"
        return "\n".join(str(difference) for difference in self.differences)


def order_check(
    program: n.Program | n.Function, values: Mapping[str, Any], *, orders: int = RANDOM_ORDERS
) -> OrderReport:
    """Runs lane-first, round-robin and `orders` random orders (seeds 0, 1, ...) and compares every output bit by bit.

    Raises LabError like `run`, also for an order in which the program stops.
    """
    ways = [("lane-first", 0), ("round-robin", 0), *(("random", seed) for seed in range(orders))]
    names = [policy if policy != "random" else f"random order {seed}" for policy, seed in ways]
    script = generate(program)
    differences: dict[str, OrderDifference] = {}
    reference: Mapping[str, torch.Tensor] = {}
    for name, (policy, seed) in zip(names, ways, strict=True):
        outputs = _outputs(run(program, values, policy=policy, order_seed=seed, script=script))
        reference = reference or outputs
        for output, value in outputs.items():
            different = _different(value, reference[output])
            if output not in differences and bool(different.any()):
                places = different.nonzero()
                cell = tuple(int(i) for i in places[0])
                differences[output] = OrderDifference(output, names[0], name, cell, len(places))
    return OrderReport(tuple(names), tuple(differences.values()))


def _outputs(result: RunResult) -> Mapping[str, torch.Tensor]:
    returned = result.returned if isinstance(result.returned, tuple) else (result.returned,)
    values = {f"result {i}": v for i, v in enumerate(returned) if isinstance(v, torch.Tensor)}
    return {**result.outputs, **(values if not result.outputs else {})}


def _different(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    if a.dtype.is_floating_point and a.element_size() == 1:
        a, b = a.float(), b.float()
    return (a != b) & ~((a != a) & (b != b)) if a.dtype.is_floating_point else a != b
