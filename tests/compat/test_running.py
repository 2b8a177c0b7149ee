"""Kernels of a loaded file: called, lowered, compiled and run the ways upstream's own examples do it."""

import os
from pathlib import Path

import pytest
import torch

from pypto_lab.compat.loader import load_module, run_main, stand_ins
from pypto_lab.ir.diagnostics import LabError
from pypto_lab.ir.nodes import Function, Program

FILE = """
import pypto.language as pl
import torch

M = pl.dynamic("M")

@pl.jit.incore
def double(x: pl.Tensor, y: pl.Out[pl.Tensor]):
    t = pl.load(x, [0, 0], [16, 64])
    return pl.store(pl.mul(t, 2.0), [0, 0], y)

@pl.jit
def scale(x: pl.Tensor, factor: pl.Scalar[pl.FP32], y: pl.Out[pl.Tensor]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y[:] = pl.mul(x, factor)
    return y

@pl.jit
def annotated(x: pl.Tensor[[16, 64], pl.FP32], y: pl.Out[pl.Tensor[[16, 64], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y[:] = pl.add(x, 1.0)
    return y

@pl.jit
def twice(x: pl.Tensor, y: pl.Out[pl.Tensor]):
    y = double(x, y)
    return y

@pl.jit
def forgets(x: pl.Tensor[[16, 64], pl.FP32], y: pl.Out[pl.Tensor[[16, 64], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y = pl.add(x, 1.0)
    return y

@pl.program
class Two:
    @pl.function(type=pl.FunctionType.InCore)
    def body(self, x: pl.Tensor[[16, 64], pl.FP32], y: pl.Out[pl.Tensor[[16, 64], pl.FP32]]) -> pl.Tensor[[16, 64], pl.FP32]:
        t = pl.load(x, [0, 0], [16, 64])
        return pl.store(pl.mul(t, 3.0), [0, 0], y)

    @pl.function(type=pl.FunctionType.Orchestration)
    def main(self, x: pl.Tensor[[16, 64], pl.FP32], y: pl.Out[pl.Tensor[[16, 64], pl.FP32]]) -> pl.Tensor[[16, 64], pl.FP32]:
        y = self.body(x, y)
        return y
"""  # noqa: E501


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    path = tmp_path_factory.mktemp("running") / "k.py"
    path.write_text(FILE)
    return load_module(path)


@pytest.fixture
def x() -> torch.Tensor:
    return torch.randn(16, 64, generator=torch.Generator().manual_seed(0))


def test_a_call_writes_in_place_and_returns_the_output(module, x):
    y = torch.zeros(16, 64)
    returned = module.scale(x, 2.5, y)
    assert torch.equal(y, x * 2.5)
    assert torch.equal(returned, y)
    module.scale(x, 0.5, y)
    assert torch.equal(y, x * 0.5)


def test_other_shapes_and_scalars_are_other_specialisations(module):
    for rows in (16, 32):
        x, y = torch.ones(rows, 32), torch.zeros(rows, 32)
        module.scale(x, torch.tensor(3.0), y)
        assert torch.equal(y, x * 3)


def test_a_call_accepts_a_config_and_says_once_where_it_ran(module, x, capsys):
    with stand_ins():
        from pypto.runtime import RunConfig
    config = RunConfig(platform="a2a3sim_of_this_test", device_id=3, dump_passes=True)
    y = torch.zeros(16, 64)
    module.annotated(x, y, config=config)
    module.annotated(x, y, config=config)
    assert torch.equal(y, x + 1)
    assert capsys.readouterr().err.count("a2a3sim_of_this_test") == 1


def test_outputs_left_out_are_allocated_and_returned(module, x):
    assert torch.equal(module.annotated(x), x + 1)
    assert torch.equal(module.Two(x), x * 3)


def test_dependencies_run(module, x):
    y = torch.zeros(16, 64)
    module.twice(x, y)
    assert torch.equal(y, x * 2)


def test_lower_and_compile(module, x):
    y = torch.zeros(16, 64)
    program = module.scale.lower(x, 2.0, y)
    assert isinstance(program, Program)
    assert [f.name for f in program.functions.values()] == ["scale"]
    compiled = module.scale.compile(x, 2.0, y)
    assert torch.equal(y, torch.zeros(16, 64))
    compiled(x, 2.0, y)
    assert torch.equal(y, x * 2)
    assert (compiled.param_names, compiled.output_indices) == (["x", "factor", "y"], [2])


def test_compile_without_arguments_reads_the_annotations(module, x):
    y = torch.zeros(16, 64)
    module.annotated.compile()(x, y)
    assert torch.equal(y, x + 1)
    with pytest.raises(LabError):
        module.scale.compile()


def test_the_output_folder_holds_dump_and_script(module, tmp_path):
    with stand_ins():
        from pypto import ir
    folder = Path(os.fspath(ir.compile(module.Two, output_dir=tmp_path / "out", dump_passes=True)))
    assert folder == tmp_path / "out"
    assert "class Two" in (folder / "passes_dump" / "00_frontend.py").read_text()
    assert "import torch" in (folder / "torch_script.py").read_text()


def test_validate_ir_checks_the_dump(module, x, tmp_path, capsys):
    with stand_ins():
        from pypto import ir
    compiled = ir.compile(module.Two, output_dir=tmp_path / "out")
    values = {"x": x, "y": torch.zeros(16, 64)}
    compiled.validate_ir(values, {"y": x * 3})
    with pytest.raises(AssertionError, match="00_frontend"):
        compiled.validate_ir(values, {"y": x * 4}, rtol=1e-3, atol=1e-3)


def test_programs_read_like_the_compilers(module):
    assert module.Two.name == "Two"
    assert list(module.Two.functions) == ["body", "main"]
    assert "class Two" in module.Two.as_python()
    assert module.Two.get_function("body").requires_runtime_binding is False
    assert module.Two.get_function("nothing") is None


def test_run_compiles_and_runs(module, x):
    with stand_ins():
        from pypto.runtime import RunConfig, run
    y = torch.zeros(16, 64)
    compiled = run(module.Two, x, y, config=RunConfig())
    assert torch.equal(y, x * 3)
    assert torch.equal(run(module.Two, config=RunConfig())(x), x * 3)
    assert compiled.name == "Two"


def test_a_worker_keeps_tensors_and_counts_programs(module, x):
    with stand_ins():
        from pypto.runtime import ChipWorker, DistributedWorker, RunConfig
    with ChipWorker(config=RunConfig()) as worker:
        compiled = module.annotated.compile()
        handle = worker.register(compiled)
        worker.register(compiled)
        resident = worker.alloc_tensor((16, 64), torch.float32, init=x)
        y = torch.zeros(16, 64)
        handle(resident, y)
        assert torch.equal(y, x + 1)
        assert worker.aicpu_dlopen_count == 1
        worker.free_tensor(resident)
    with DistributedWorker([compiled, module.scale.compile(x, 2.0, y)]) as worker:
        worker.run(compiled, x, y)
        with pytest.raises(ValueError, match="2 programs"):
            worker(x, y)


@pytest.mark.parametrize("arguments", [(), (1, 2, 3, 4, 5)])
def test_arguments_that_do_not_fit_are_a_diagnostic(module, arguments):
    with pytest.raises(LabError) as caught:
        module.Two(*arguments)
    assert caught.value.diagnostics[0].code == "E502"
    assert "x, y" in str(caught.value)


def test_too_few_arguments_name_the_parameters(module, x):
    with pytest.raises(LabError, match="x, factor, y") as caught:
        module.scale(x)
    assert caught.value.diagnostics[0].code == "E502"


def test_a_helper_cannot_be_called_from_python(module, x):
    with pytest.raises(LabError) as caught:
        module.double(x, x)
    assert caught.value.diagnostics[0].code == "E501"


def test_a_kernel_that_never_writes_its_output_is_refused(module, x):
    with stand_ins():
        from pypto.backend.pto_backend import PartialCodegenError
    with pytest.raises(PartialCodegenError) as caught:
        module.forgets(x, torch.zeros(16, 64))
    assert caught.value.diagnostics[0].code == "E511"


def test_several_ranks_are_refused_and_one_runs(module, x):
    with stand_ins():
        from pypto.ir.distributed_compiled_program import DistributedConfig
        from pypto.runtime import RunConfig
    y = torch.zeros(16, 64)
    one = module.annotated.compile(config=RunConfig(distributed_config=DistributedConfig(device_ids=[0])))
    one(x, y)
    assert torch.equal(y, x + 1)
    two = module.annotated.compile(config=RunConfig(distributed_config=DistributedConfig(device_ids=[0, 1])))
    with pytest.raises(LabError, match="2 ranks") as caught:
        two(x, y, config=RunConfig(platform="a2a3"))
    assert caught.value.diagnostics[0].code == "E505"


CALLBACK = """
import pypto.language as pl

@pl.program
class Watched:
    @pl.function(type=pl.FunctionType.InCore)
    def body(self, x: pl.Tensor[[16, 64], pl.FP32], y: pl.Out[pl.Tensor[[16, 64], pl.FP32]]) -> pl.Tensor[[16, 64], pl.FP32]:
        t = pl.load(x, [0, 0], [16, 64])
        return pl.store(pl.mul(t, 3.0), [0, 0], y)

    @pl.function(type=pl.FunctionType.Orchestration)
    def chip(self, x: pl.Tensor[[16, 64], pl.FP32], y: pl.Out[pl.Tensor[[16, 64], pl.FP32]]) -> pl.Tensor[[16, 64], pl.FP32]:
        return self.body(x, y)

    @pl.function(level=pl.Level.HOST, role=pl.Role.SubWorker)
    def watch(y: pl.Tensor[[16, 64], pl.FP32]):
        ...

    @pl.function(level=pl.Level.HOST, role=pl.Role.Orchestrator)
    def host(self, x: pl.Tensor[[16, 64], pl.FP32], y: pl.Out[pl.Tensor[[16, 64], pl.FP32]]) -> pl.Tensor[[16, 64], pl.FP32]:
        out: pl.Tensor[[16, 64], pl.FP32] = self.chip(x, y)
        self.watch(out)
        return out
"""  # noqa: E501


def test_runtime_bound_workers_call_back(tmp_path, x):
    path = tmp_path / "watched.py"
    path.write_text(CALLBACK)
    watched = load_module(path).Watched
    with stand_ins():
        from pypto import ir
    assert watched.get_function("watch").requires_runtime_binding is True
    compiled = ir.compile(watched)
    seen = []
    y = torch.zeros(16, 64)
    with compiled.prepare(callbacks={"watch": lambda arguments: seen.append(arguments[0].clone())}) as session:
        session(x, y)
    assert torch.equal(y, x * 3)
    assert torch.equal(seen[0], x * 3)
    with pytest.raises(ValueError, match="watch"):
        compiled.prepare()


def test_torch_codegen_of_the_debug_module(module, x):
    with stand_ins():
        from pypto.debug import torch_codegen
    assert "import torch" in torch_codegen(module.Two)


PARSED = """
@pl.function
def vector_add(x: pl.Tensor[[128], pl.FP32], y: pl.Tensor[[128], pl.FP32]) -> pl.Tensor[[128], pl.FP32]:
    result: pl.Tensor[[128], pl.FP32] = pl.add(x, y)
    return result
"""


def test_parse_and_loads(tmp_path):
    with stand_ins():
        import pypto
        import pypto.language as pl
    function = pl.parse(PARSED)
    assert isinstance(function, Function)
    assert (function.name, len(function.params)) == ("vector_add", 2)
    path = tmp_path / "f.py"
    path.write_text("import pypto.language as pl\n" + PARSED)
    assert pl.loads(path).name == "vector_add"
    assert pypto.ir.deserialize(pypto.ir.serialize(function)).name == "vector_add"
    with pytest.raises(ValueError, match="none"):
        pl.parse("x = 1\n")
    with pytest.raises(ValueError, match="vector_add, other"):
        pl.parse(PARSED + PARSED.replace("vector_add", "other"))
    with pytest.raises(SyntaxError):
        pl.parse("x = (")
    with pytest.raises(ValueError, match=r"not a @pl\.program"):
        pl.parse_program(PARSED)


GOLDEN = """
import sys
import pypto.language as pl

@pl.jit
def scale(x: pl.Tensor[[16, 64], pl.FP32], a: pl.Scalar[pl.FP32], y: pl.Out[pl.Tensor[[16, 64], pl.FP32]]):
    with pl.at(level=pl.Level.CORE_GROUP):
        y[:] = pl.mul(x, a)
    return y

def build_specs():
    import torch
    from golden import ScalarSpec, TensorSpec
    return [
        TensorSpec("x", [16, 64], torch.float32, init_value=torch.randn),
        ScalarSpec("a", torch.float32, 2.0),
        TensorSpec("y", [16, 64], torch.float32, is_output=True),
    ]

def golden_scale(values):
    values["y"][:] = values["x"] * FACTOR

if __name__ == "__main__":
    from golden import run_jit
    result = run_jit(fn=scale, specs=build_specs(), golden_fn=golden_scale,
                     runtime_cfg=dict(platform="a2a3", device_id=1),
                     save_data="--save" in sys.argv, golden_data=sys.argv[2] if "--data" in sys.argv else None,
                     compile_only="--compile-only" in sys.argv)
    if not result.passed:
        print(result.error)
        raise SystemExit(1)
"""


@pytest.mark.parametrize(("factor", "status"), [("2.0", 0), ("2.5", 1)])
def test_a_pypto_lib_file_runs_as_it_stands(tmp_path, capsys, factor, status):
    path = tmp_path / "k.py"
    path.write_text(GOLDEN.replace("FACTOR", factor))
    assert run_main(path) == status
    assert ("0.8 times the golden" in capsys.readouterr().out) == bool(status)
    assert run_main(path, ["--compile-only"]) == 0


def test_saved_golden_data_are_used_again(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "k.py"
    path.write_text(GOLDEN.replace("FACTOR", "2.0"))
    assert run_main(path, ["--save"]) == 0
    (data,) = tmp_path.glob("build_output/*/data")
    assert sorted(p.name for p in data.rglob("*.pt")) == ["a.pt", "x.pt", "y.pt"]
    path.write_text(GOLDEN.replace("FACTOR", "9.0"))
    assert run_main(path, ["--data", str(data)]) == 0
    (data / "out" / "y.pt").unlink()
    assert run_main(path, ["--data", str(data)]) == 1
    assert "lacks" in capsys.readouterr().out
