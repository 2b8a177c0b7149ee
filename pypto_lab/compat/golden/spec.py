"""Arguments of a kernel under test, as pypto-lib's files describe them (parameter order, names, initial values)."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


@dataclass
class TensorSpec:
    """One tensor argument.

    `init_value`: None gives zeros; a number fills; a tensor is converted to `dtype`; `torch.randn`, `rand`, `zeros`
    and `ones` are called with the shape; any other callable is called without arguments. `is_output` marks what the
    golden checks. `resident` (device residency) has no meaning here.
    """

    name: str
    shape: list[int]
    dtype: torch.dtype
    init_value: int | float | torch.Tensor | Callable[..., Any] | None = None
    is_output: bool = False
    resident: int | str | bool | None = None

    def create_tensor(self) -> torch.Tensor:
        """A new tensor with the initial values. Raises ValueError when an initial value has another shape."""
        import torch

        initial, shape = self.init_value, tuple(self.shape)
        if initial is None:
            return torch.zeros(shape, dtype=self.dtype)
        if isinstance(initial, (int, float)):
            return torch.full(shape, initial, dtype=self.dtype)
        if callable(initial) and not isinstance(initial, torch.Tensor):
            factory = initial in (torch.randn, torch.rand, torch.zeros, torch.ones)
            initial = _from_factory(initial, shape, self.dtype) if factory else initial()
        made = torch.as_tensor(initial)
        if tuple(made.shape) != shape:
            raise ValueError(
                f"{self.name}: the initial value has shape {list(made.shape)}, the spec says {list(shape)}"
            )
        return made.to(self.dtype).clone()

    @property
    def starts_defined(self) -> bool:
        """True when the kernel may read the initial values (inputs, and outputs that are also inputs)."""
        return not self.is_output or self.init_value is not None


@dataclass
class ScalarSpec:
    """One scalar argument; `value` is kept as a 0-dim tensor of `dtype`, so that it is rounded as on the device."""

    name: str
    dtype: torch.dtype
    value: Any

    def __post_init__(self) -> None:
        import torch

        if not isinstance(self.value, torch.Tensor):
            self.value = torch.tensor(self.value, dtype=self.dtype)
        if self.value.dim() != 0 or self.value.dtype != self.dtype:
            raise ValueError(f"{self.name}: a scalar is one value of {self.dtype}")

    def to_python(self) -> int | float | bool:
        """The value as a Python number, rounded to the dtype."""
        found: int | float | bool = self.value.item()
        return found

    def to_ctypes(self) -> Any:
        """The value as a ctypes scalar; half precision as its bit pattern."""
        import torch

        if self.dtype in (torch.float16, torch.bfloat16):
            return ctypes.c_uint16(self.value.view(torch.uint16).item())
        by_dtype = {
            torch.float32: ctypes.c_float, torch.int8: ctypes.c_int8, torch.int32: ctypes.c_int32,
            torch.int64: ctypes.c_int64, torch.uint8: ctypes.c_uint8, torch.bool: ctypes.c_bool,
        }  # fmt: skip
        return by_dtype[self.dtype](self.value.item())


Spec = TensorSpec | ScalarSpec


def _from_factory(factory: Callable[..., torch.Tensor], shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """`torch.randn(shape)` and the like; dtypes the factory does not know are made in FP32 and converted."""
    import torch

    try:
        return factory(shape, dtype=dtype)
    except (RuntimeError, NotImplementedError):
        return factory(shape, dtype=torch.float32).to(dtype)


def create_values(specs: list[Spec]) -> dict[str, Any]:
    """Initial values by name, in parameter order: tensors, and Python numbers for scalars."""
    return {s.name: s.create_tensor() if isinstance(s, TensorSpec) else s.to_python() for s in specs}
