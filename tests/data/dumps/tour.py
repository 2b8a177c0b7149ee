# pypto.program: Tour
import pypto.language as pl

M = pl.dynamic("M")
N = pl.dynamic("N")

@pl.program
class Tour:
    @pl.function(type=pl.FunctionType.InCore, level=pl.Level.CHIP_DIE, role=pl.Role.SubWorker)
    def kernel(x: pl.Tensor[[M, 64], pl.FP32, pl.TensorView(stride=[64, 1], layout=pl.TensorLayout.ND)], out: pl.Out[pl.Tensor[[M, N * pl.const(2, pl.INDEX)], pl.FP16]], n: pl.Scalar[pl.INDEX]) -> pl.Tensor[[M, N * pl.const(2, pl.INDEX)], pl.FP16]:
        """A docstring."""
        pl.func_attr({"split": pl.SplitMode.UP_DOWN, "mx_tensor_views_blocked": True, "slot_num": 3, "names": ["a", "b"], "spaces": [pl.Mem.Vec, pl.FP32]})
        mem_vec_0: pl.Ptr = pl.tile.alloc(pl.Mem.Vec, 4096, pinned=True)
        # 中文注释 stays above its statement
        a: pl.Tile[[16, 64], pl.FP32, pl.MemRef(mem_vec_0, pl.const(0, pl.INT64), 4096), pl.Mem.Vec, pl.TileView(valid_shape=[pl.max(pl.min(n - pl.const(8, pl.INDEX), pl.const(8, pl.INDEX)), pl.const(0, pl.INDEX)), 64], pad=pl.PadValue.min, compact=pl.CompactMode.normal)] = pl.tile.load(x, [0, 0], [16, 64], [n, 64], target_memory=pl.Mem.Vec)
        b: pl.Tile[[16, 64], pl.FP32, pl.Mem.Vec] = pl.tile.full([16, 64], dtype=pl.FP32, value=-0.00019531250000000001)
        c: pl.Tile[[16, 64], pl.INT32, pl.Mem.Vec] = pl.tile.and_(pl.tile.cast(a, target_type=pl.INT32, mode='round'), pl.tile.cast(b, target_type=pl.INT32, mode='trunc'))
        d: pl.Tile[[16, 64], pl.FP4, pl.Mem.Vec] = pl.tile.reinterpret_view(c, dtype=pl.FP4, shape=[16, 64])
        e: pl.Tile[[4, 16], pl.INT32, pl.Mem.Vec] = pl.tile.ci(pl.const(0, pl.INT32), [4, 16], tmp=c, dtype=pl.INT32, descending=False)
        p: pl.Scalar[pl.BOOL] = n < 3 xor not n == 4 and n > 2 or True
        q: pl.Scalar[pl.INDEX] = (n + 1) * -2 // (n % 3) - (n - 1) ** 2 + abs(n) + (n & 3 | n ^ n << 2) + ~n + -n
        r: pl.Scalar[pl.FP16] = pl.const(0.5, pl.FP16)
        s: pl.Scalar[pl.INT32] = pl.cast(pl.const(4, pl.INDEX) * pl.const(16, pl.INDEX), pl.INT32)
        pl.system.sync_src(set_pipe=pl.PipeType.MTE2, wait_pipe=pl.PipeType.V, event_id=0)
        pl.tile.new_op(a, 'text', pl.Future.Enum, mode=pl.Future.Enum, attrs={"pipeline_membership": "0:1;1:2"})
        for i in pl.parallel(2):
            for j in pl.range(1, 8, 2):
                t: pl.Tile[[16, 64], pl.FP32, pl.Mem.Vec] = pl.tile.adds(a, 1.0)
                if n == 1:
                    continue
                else:
                    break
        for k in pl.pipeline(4, stage=2, attrs={"pipeline_overlap_stores": True}):
            pass
        while n > 1:
            n: pl.Scalar[pl.INDEX] = n // 2
        for i, (u,) in pl.range(2, init_values=(a,)):
            v: pl.Tile[[16, 64], pl.FP32, pl.Mem.Vec] = pl.tile.adds(u, 9.9999999999999995e-07)
            w: pl.Tile[[16, 64], pl.FP32, pl.Mem.Vec] = pl.yield_(v)
        for (f, g) in pl.while_(init_values=(0, w)):
            pl.cond(f < 3)
            if p:
                h: pl.Scalar[pl.INDEX] = pl.yield_(f + 1)
            else:
                h: pl.Scalar[pl.INDEX] = pl.yield_(f + 2)
            f_out, g_out = pl.yield_(h, g)
        out_1: pl.Tensor[[M, N * pl.const(2, pl.INDEX)], pl.FP16] = pl.tile.store(g_out, [0, 0], out, atomic=pl.AtomicType.Add)
        return out_1
    @pl.function(type=pl.FunctionType.AIV, level=pl.Level.AIV, role=pl.Role.SubWorker, external_source="vec.cpp")
    def outside(x: pl.Tensor[[4, 64], pl.FP32]):
        ...
    @pl.function
    def nothing(self):
        pass
    @pl.function(level=pl.Level.HOST, role=pl.Role.SubWorker)
    def host(x: pl.Tensor[[4, 64], pl.FP32]):
        import torch
        with torch.no_grad():
            x += 1  # verbatim
    @pl.function(type=pl.FunctionType.Orchestration, level=pl.Level.CHIP, role=pl.Role.Orchestrator, auto_scope=False)
    def drive(self, x: pl.Tensor[[M, 64], pl.FP32], out: pl.InOut[pl.Tensor[[M, N * pl.const(2, pl.INDEX)], pl.FP16]], flags: pl.Tensor[[8], pl.INT32], n: pl.Scalar[pl.INDEX], w: pld.DistributedTensor[[8, 64], pl.FP32, "window_buffer=buf"]) -> tuple[pl.Tensor[[M, N * pl.const(2, pl.INDEX)], pl.FP16], pl.Scalar[pl.TASK_ID]]:
        ids: pl.Array[4, pl.TASK_ID] = pl.array.create(4, dtype=pl.TASK_ID)
        with pl.scope(mode=pl.ScopeMode.MANUAL):
            ret: pl.Tuple[pl.Tensor[[M, N * pl.const(2, pl.INDEX)], pl.FP16], pl.Scalar[pl.TASK_ID]] = pl.submit(self.kernel, x, out, n, deps=[ids], dumps=[x], allow_early_resolve=True, predicate=(flags[n] > 0), attrs={"arg_directions": [pl.adir.input, pl.adir.inout, pl.adir.scalar]})
            out_1: pl.Tensor[[M, N * pl.const(2, pl.INDEX)], pl.FP16] = ret[0]
            tid: pl.Scalar[pl.TASK_ID] = ret[1]
            many: pl.Tuple[pl.Tensor[[M, N * pl.const(2, pl.INDEX)], pl.FP16], pl.Scalar[pl.TASK_ID]] = pl.spmd_submit(self.kernel, x, out_1, n, deps=[tid], core_num=n + 1, sync_start=True)
            pl.system.task_dummy(deps=[tid])
        with pl.at(level=pl.Level.CORE_GROUP, optimizations=[pl.split(pl.SplitMode.UP_DOWN), pl.cross_core_slot(slot_num=3)], name_hint="body", deps=[tid], no_dep_args=[x], allow_early_resolve=True) as task:
            pl.tensor.write(flags, [0], pl.const(1, pl.INT32))
            for lane in pl.split_aiv(2, mode=pl.SplitMode.LEFT_RIGHT):
                pl.tensor.write(flags, [lane], pl.const(1, pl.INT32))
        with pl.at(level=pl.Level.CHIP, role=pl.Role.Orchestrator, name_hint="outer"):
            with pl.cluster(name_hint="pair"):
                with pl.spmd(4, sync_start=True, name_hint="h", deps=[task]) as tid2:
                    self.nothing()
        for b in pl.spmd(n):
            pl.pld_free(b)
        pld.system.notify(w, 1, [0, 0], pl.const(1, pl.INT32), op=1)
        return out_1, tid
