import { gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { addressOf, authorOf, cellAt, covers } from "../../src/workbench/authors";
import { shadeOf } from "../../src/workbench/colours";
import { Cursor } from "../../src/workbench/cursor";
import { shown } from "../../src/workbench/dom";
import { pipeEnds, pipeLabel } from "../../src/workbench/lanes";
import { fromBase64, gunzip, unpack, type Stats, type TensorRow } from "../../src/workbench/payload";
import { gaps, matrixPart } from "../../src/workbench/places";
import { Recording, type Binding } from "../../src/workbench/recording";
import { blockOf, isValid, tileFrom, Tiles, type TileHead } from "../../src/workbench/tiles";
import { variablesOf } from "../../src/workbench/variables";
import { highlighted } from "../../src/workbench/code";
import { timeline } from "./recorded";

const recording = new Recording(timeline());
const stats: Stats = { low: 1, high: 2, mean: 1.5, lowText: "1", highText: "2", meanText: "1.5", nan: 0, inf: 0, cells: 4, text: "1 … 2" };

describe("packing", () => {
  const payload = { title: "t", timeline: timeline() };
  const packed = (value: unknown): Uint8Array<ArrayBuffer> => new Uint8Array(gzipSync(JSON.stringify(value)));

  it("is undone", async () => {
    expect(await unpack(packed(payload))).toEqual(payload);
    const text = Buffer.from(packed([1, 2])).toString("base64");
    expect(new TextDecoder().decode(await gunzip(fromBase64(text)))).toBe("[1,2]");
  });

  it("of another version is refused", async () => {
    const other = { ...payload, timeline: { ...timeline(), version: 2 } };
    await expect(unpack(packed(other))).rejects.toThrow("version 1, not 2");
  });
});

describe("values", () => {
  it("are named by the last write into them, or the last change of their valid shape", () => {
    expect([1, 8, 9, 10].map((k) => recording.key(0, k))).toEqual(["0@0", "0@8", "0@9", "0@9"]);
    expect([5, 6, 9].map((k) => recording.key(1, k))).toEqual(["1@0", "1@6", "1@6"]);
    expect(recording.key(4, 9)).toBe("4@0");
  });

  it("have the valid shape of the position", () => {
    expect([5, 6].map((k) => recording.valid(1, k))).toEqual([[2, 1], [1, 2]]);
    expect(recording.valid(0, 5)).toBeNull();
  });

  it("are listed for a lane, in order of first binding", () => {
    const cursor = new Cursor(recording);
    cursor.goto(9);
    const found = variablesOf(cursor, 2, () => stats).map((v) => [v.name, v.kind, v.valid, v.lastWritten, v.text]);
    expect(found).toEqual([
      ["out", "tensor", [4, 2], 9, "float32 [4, 2]: 1 … 2"],
      ["got", "tensor", [1, 2], 7, "float32 [2, 2] valid [1, 2]: 1 … 2"],
      ["late", "tensor", [2, 2], 7, "float32 [2, 2]: 1 … 2"],
    ]);
    const cube = variablesOf(cursor, 1, () => undefined).map((v) => [v.name, v.kind, v.text]);
    expect(cube).toContainEqual(["pair", "other", "(float32 [2, 2] valid [1, 2]: …, 7)"]);
  });
});

describe("who wrote a cell", () => {
  const out: Binding = { step: 3, frame: 2, name: "out", value: 0 };

  it("is the latest write that covers it", () => {
    expect(authorOf(recording, out, [2, 1], 10)).toEqual({ step: 8, how: "written" });
    expect(authorOf(recording, out, [0, 1], 10)).toEqual({ step: 9, how: "written" });
    expect(authorOf(recording, out, [0, 1], 8)).toEqual({ step: 0, how: "argument" });
    expect(authorOf(recording, out, [1, 0], 10)).toEqual({ step: 0, how: "argument" });
  });

  it("is the statement that made it where nobody wrote", () => {
    expect(authorOf(recording, { step: 7, frame: 2, name: "got", value: 1 }, [0, 0], 9)).toEqual({ step: 5, how: "created" });
    expect(authorOf(recording, { step: 7, frame: 2, name: "late", value: 4 }, [1, 1], 9)).toEqual({ step: 7, how: "created" });
  });

  it("knows which elements a write with gaps touches", () => {
    const write = [1, 0, 8, [2, 2], [32, 4], 4] as const;
    expect([8, 12, 40, 44].map((a) => covers(write, a))).toEqual([true, true, true, true]);
    expect([0, 4, 10, 16, 36, 48, 72].map((a) => covers(write, a))).toEqual([false, false, false, false, false, false, false]);
  });

  it("finds a matrix cell's index in any rank", () => {
    expect(cellAt([], 0, 0)).toEqual([]);
    expect(cellAt([5], 0, 3)).toEqual([3]);
    expect(cellAt([2, 3, 4], 4, 1)).toEqual([1, 1, 1]);
    const tensor: TensorRow = ["t", "float32", [2, 3, 4], null, 0, [12, 4, 1], 2, 4];
    expect(addressOf(tensor, [1, 1, 1])).toBe((2 + 12 + 4 + 1) * 4);
  });
});

describe("tiles", () => {
  const head: TileHead = { key: "0@0", rows: 300, columns: 4, shown: [100, 4], validRows: [[0, 100], [150, 200]], validColumns: 3, stats, wide: false };

  it("are read from the middle of a buffer, narrow and wide", () => {
    const small = { ...head, shown: [1, 2] as const };
    const bytes = new ArrayBuffer(24);
    new DataView(bytes).setFloat32(8, 1.5, true);
    new DataView(bytes).setFloat32(12, -2, true);
    expect([...tileFrom(small, bytes, 8).data]).toEqual([1.5, -2]);
    new DataView(bytes).setFloat64(8, 1e300, true);
    expect([...tileFrom({ ...small, wide: true }, bytes, 8).data]).toEqual([1e300, 0]);
  });

  it("know their blocks and their valid cells", () => {
    expect(blockOf(head)).toEqual([3, 1]);
    expect([[0, 0], [99, 2], [100, 0], [150, 2], [200, 0], [0, 3]].map(([r, c]) => isValid(head, r as number, c as number))).toEqual([true, true, false, true, false, false]);
  });

  it("are asked for once, together, and the oldest is dropped", async () => {
    const asked: string[][] = [];
    const tiles = new Tiles({}, { ask: (keys) => asked.push([...keys]) }, () => undefined, 2);
    tiles.get("a");
    tiles.get("b");
    tiles.get("a");
    await Promise.resolve();
    expect(asked).toEqual([["a", "b"]]);
    for (const key of ["a", "b"]) tiles.add({ ...head, key, data: new Float32Array(1) });
    expect(tiles.get("a")?.key).toBe("a");
    tiles.add({ ...head, key: "c", data: new Float32Array(1) });
    expect(tiles.get("b")).toBeUndefined();
    expect(tiles.get("a")).toBeDefined();
    tiles.refuse("d", "too large");
    expect([tiles.get("d"), tiles.refusal("d")]).toEqual([undefined, "too large"]);
  });

  it("lie on the rows and columns of their tensor", () => {
    expect(matrixPart([64, 32], [32, 8], [16, 8])).toEqual({ row: 32, column: 8, rows: 16, columns: 8 });
    expect(matrixPart([2, 8, 4], [1, 2, 0], [1, 3, 4])).toEqual({ row: 10, column: 0, rows: 3, columns: 4 });
    expect(matrixPart([10], [4], [20])).toEqual({ row: 0, column: 4, rows: 1, columns: 6 });
    expect(matrixPart([4, 4], [0, 4], [4, 4])).toBeNull();
    expect(gaps([{ row: 2, column: 0, rows: 2, columns: 4 }], 6, 4)).toEqual([
      { row: 0, column: 0, rows: 2, columns: 4 },
      { row: 4, column: 0, rows: 2, columns: 4 },
    ]);
    expect(gaps([], 3, 1)).toEqual([{ row: 0, column: 0, rows: 3, columns: 1 }]);
  });
});

describe("what people read", () => {
  it("numbers are short and honest", () => {
    expect([0, 3, -12, 0.12345, 1e-7, NaN, -Infinity, 123456789, null].map(shown)).toEqual(["0", "3", "−12", "0.1235", "1.00e−7", "NaN", "−Inf", "1.23e+8", ""]);
  });

  it("shades are symmetric about zero", () => {
    expect(shadeOf(0, 5)).toBe(16);
    expect(shadeOf(5, 5)).toBe(32);
    expect(shadeOf(-50, 5)).toBe(0);
    expect(16 - shadeOf(-1, 5)).toBe(shadeOf(1, 5) - 16);
    expect(shadeOf(1, 0)).toBe(16);
  });

  it("pipes name their ends", () => {
    expect([pipeLabel("C2V[0]#0"), pipeLabel("V2C[1]#2"), pipeEnds("V2C[1]#2"), pipeEnds("other")]).toEqual(["C→V[0]", "V→C[1]#2", "AIV1 → AIC", ""]);
  });

  it("source is escaped where it is highlighted", () => {
    expect(highlighted("if a < 3:  # <b>")).toBe('<span class="pw-tok-k">if</span> a &lt; <span class="pw-tok-n">3</span>:  <span class="pw-tok-c"># &lt;b&gt;</span>');
    expect(highlighted("x = f('<')")).toContain('<span class="pw-tok-s">\'&lt;\'</span>');
  });
});
