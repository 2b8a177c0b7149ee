// What notebooks share: the library that is loaded once, lists, the panel of a run, windows of large tensors.
import { gzipSync } from "node:zlib";
import { afterEach, describe, expect, it, vi } from "vitest";
import loader from "../../src/loader";
import { operationStops, plainName, queueStops, valueStops, variableNames, variableStops } from "../../src/workbench/breaks";
import { Cursor, lineKey } from "../../src/workbench/cursor";
import { h } from "../../src/workbench/dom";
import { Listed } from "../../src/workbench/listed";
import { LivePanel, type LiveState } from "../../src/workbench/live";
import { Recording } from "../../src/workbench/recording";
import { stopsOf, takeStops } from "../../src/workbench/stops";
import { Tiles, type Window } from "../../src/workbench/tiles";
import { findingRows } from "../../src/workbench/views/checks";
import { peakOf } from "../../src/workbench/views/memory";
import { timeline } from "./recorded";

describe("the library", () => {
  const bytes = (text: string): DataView<ArrayBuffer> => {
    const packed = gzipSync(text);
    return new DataView(packed.buffer as ArrayBuffer, packed.byteOffset, packed.byteLength);
  };
  const model = (library: unknown, id: string): never => ({ get: () => `IPY_MODEL_${id}`, widget_manager: { get_model: () => Promise.resolve(library) } }) as never;
  const shared = (version: string, reads: { count: number }): unknown => ({
    get: (name: string) => {
      if (name === "source") reads.count++;
      return name === "version" ? version : bytes(name === "source" ? "export const render = async ({ el }) => { el.textContent = 'shown'; return () => {}; };" : ".pw-root {}");
    },
  });
  afterEach(() => {
    globalThis.PyptoLabWorkbench = undefined;
    document.head.replaceChildren();
    vi.unstubAllGlobals();
  });

  it("is unpacked once a version, its style put in once", async () => {
    // Node cannot import a blob; a data address stands for it
    vi.stubGlobal("URL", Object.assign(URL, { createObjectURL: () => "data:text/javascript,export const render = async ({ el }) => { el.textContent = 'shown'; return () => {}; };", revokeObjectURL: () => undefined }));
    const reads = { count: 0 };
    for (const version of ["a", "a", "b"]) {
      const el = h("div");
      document.body.append(el);
      await loader.render({ model: model(shared(version, reads), version), el });
      expect(el.textContent).toBe("shown");
    }
    expect(reads.count).toBe(2);
    expect([...document.head.querySelectorAll<HTMLElement>("style")].map((s) => s.dataset["pyptoLab"])).toEqual(["a", "b"]);
  });

  it("that fails is tried again", async () => {
    const broken = { get: (name: string) => (name === "version" ? "x" : bytes("export const = ;")) };
    vi.stubGlobal("URL", Object.assign(URL, { createObjectURL: () => "data:text/javascript,export const = ;", revokeObjectURL: () => undefined }));
    await expect(loader.render({ model: model(broken, "x"), el: h("div") })).rejects.toThrow();
    expect(globalThis.PyptoLabWorkbench?.size).toBe(0);
  });
});

describe("breakpoints", () => {
  const recording = new Recording(timeline());

  it("know the names people use", () => {
    expect(plainName("x__ssa_v3")).toBe("x");
    expect(variableNames(recording)).toEqual(["acc", "got", "late", "out", "pair"]);
  });

  it("stop at what happens", () => {
    expect([...variableStops(recording, "acc")]).toEqual([5]);
    expect([...variableStops(recording, "out")].sort((a, b) => a - b)).toEqual([1, 2, 3, 8, 9]);
    expect([...operationStops(recording, "tile.store")]).toEqual([...operationStops(recording, "store")]);
    expect([...queueStops(recording, "blocked", null)]).toEqual([4]);
    expect([...queueStops(recording, "push", "other")]).toEqual([]);
    expect(valueStops(recording, "acc", "above", 0, () => undefined)).toEqual({ steps: new Set(), unknown: 1 });
  });

  it("stop a run, alone and beside lines", () => {
    const cursor = new Cursor(recording, [[9]]);
    cursor.addBreak({ label: "acc", steps: variableStops(recording, "acc") });
    cursor.toggleBreakpoint({ file: "kernel.py", line: 9 });
    const stops: number[] = [];
    while (cursor.run()) stops.push(cursor.position);
    expect(stops).toEqual([4, 5, 7, 9]);
    cursor.removeBreak(1);
    cursor.removeBreak(0);
    expect(cursor.runBack()).toBe(true);
    expect(cursor.position).toBe(7);
  });

  it("of a memory stop where the variable's own bytes are written", () => {
    const data = timeline();
    const own = data.writes.filter(([step]) => step === 8);
    const apart = [{ ...data, writes: own.map((w) => [w[0], 1, ...w.slice(2)] as unknown as (typeof own)[number]) }];
    const placed = new Recording(apart[0]!); // bytes 16.. of storage 1; `acc` lies on 0..16
    expect([...variableStops(placed, "acc")]).toContain(8);
    expect([...variableStops(placed, "acc", new Set([1]))]).not.toContain(8);
  });

  it("go to the kernel and come back as they were", () => {
    const cursor = new Cursor(recording);
    const line = { file: "kernel.py", line: 10 };
    cursor.toggleBreakpoint(line);
    cursor.toggleBreakpoint({ file: null, line: 109 });
    cursor.addBreak({ label: "acc", steps: new Set([5]), stop: { kind: "variable", name: "acc", label: "acc", steps: [5] } });
    cursor.addBreak({ label: "acc above 3", steps: new Set([7]) });
    const stops = stopsOf(cursor);
    expect(stops).toEqual([
      { kind: "line", label: "kernel.py:10", line: 10, file: "kernel.py", steps: cursor.stepsOn(line) },
      { kind: "steps", label: "script line 109", steps: cursor.stepsOn({ file: null, line: 109 }) },
      { kind: "variable", name: "acc", label: "acc", steps: [5] },
      { kind: "steps", label: "acc above 3", steps: [7] },
    ]);
    const other = new Cursor(recording);
    takeStops(other, stops);
    expect([...other.breakpoints.keys()]).toEqual([lineKey(line)]);
    expect(stopsOf(other)).toEqual(stops);
    takeStops(other, [{ ...stops[0]!, lane: "AIV0" }]); // narrowed: more than the gutter can show
    expect(other.breakpoints.size).toBe(0);
    expect(other.breaks.map((b) => b.label)).toEqual(["kernel.py:10"]);
  });
});

describe("windows", () => {
  const wanted: Window = { key: "1@0", row: 4, column: 0, rows: 2, columns: 2 };
  it("are asked for once, held, and refused by tensor", async () => {
    const asked: Window[] = [];
    const tiles = new Tiles({}, { ask: () => undefined, askWindow: (w) => asked.push(w) }, () => undefined);
    expect(tiles.window(wanted)).toBeUndefined();
    expect(tiles.window(wanted)).toBeUndefined();
    await Promise.resolve();
    expect(asked).toEqual([wanted]);
    tiles.addWindow(wanted, new Float64Array([1, 2, 3, 4]));
    expect(tiles.window(wanted)?.[3]).toBe(4);
    tiles.refuseWindow("1@0", "too large");
    expect(tiles.window({ ...wanted, row: 8 })).toBeNull();
    expect(tiles.coarse("1@0")).toBe("too large");
  });

  it("are not to be had from a source without them", () => {
    expect(new Tiles({}, { ask: () => undefined }, () => undefined).window(wanted)).toBeNull();
  });
});

describe("a list", () => {
  it("groups, hides, and is moved through by keys", () => {
    const seen: number[] = [];
    const listed = new Listed("Files", [{ group: "a", html: "x" }, { group: "a", html: "y", hidden: true }, { group: "b", html: "z" }], h("div"), (i) => seen.push(i));
    document.body.append(listed.element);
    listed.draw();
    const key = (name: string): boolean => listed.list.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true }));
    key("ArrowDown");
    key("ArrowDown");
    key("Home");
    key("End");
    expect(key("x")).toBe(true);
    expect(seen).toEqual([0, 2, 2, 0, 2]);
    expect([...listed.list.querySelectorAll("[role=group]")].map((g) => g.getAttribute("aria-label"))).toEqual(["a", "b"]);
    expect(listed.list.querySelectorAll('[aria-selected="true"]')).toHaveLength(1);
  });
});

describe("a run that goes on", () => {
  const state: LiveState = {
    title: "slow", state: "running", steps: 1200, bytes: 3 << 20, seconds: 2, lane: "AIC", message: "", more: 0,
    lanes: [{ name: "AIV0", block: 1, status: "waits: pop", line: "k.py:3", text: "a < b" }],
    queues: [{ pipe: "C2V[0]#0", block: null, filled: 1, depth: 2, slots: ["slot 0: [2, 2]"], waiters: ["AIV0 waits"] }],
  };

  it("shows progress, lanes and queues, and sends what its buttons ask", () => {
    const root = h("div");
    const asked: string[] = [];
    const panel = new LivePanel(root, (ask) => asked.push(ask));
    panel.update(state);
    expect(root.textContent).toContain("1,200 steps, 3.0 MiB kept, 2.0 s, AIC runs");
    expect(root.querySelector("[data-lane=AIV0]")?.textContent).toContain("a < b");
    expect(root.querySelector("[data-pipe]")?.textContent).toContain("1 of 2");
    const [pause, end] = [...root.querySelectorAll<HTMLButtonElement>("[data-live]")];
    pause?.click();
    panel.update({ ...state, state: "paused" });
    expect(pause?.textContent).toBe("Resume");
    pause?.click();
    end?.click();
    expect(asked).toEqual(["pause", "resume", "interrupt"]);
    panel.update({ ...state, state: "failed", message: "<no>" });
    expect([pause?.disabled, end?.disabled]).toEqual([true, true]);
    expect(root.querySelector(".pw-livemessage")?.textContent).toBe("<no>");
    panel.update({} as LiveState);
    expect(root.textContent).toContain("slow");
  });
});

describe("small things", () => {
  it("memory in use counts each byte once", () => {
    const box = (address: number, bytes: number, from: number, to: number): Parameters<typeof peakOf>[0][number] => ({ name: "", space: "", address, bytes, from, to });
    expect(peakOf([box(0, 8, 1, 3), box(4, 8, 2, 2), box(100, 1, 4, 5)])).toBe(12);
    expect(peakOf([])).toBe(0);
  });

  it("findings are escaped, and say who found them only where that is known", () => {
    const one = { severity: "error", rule: "E1", message: "<b>", hint: "do", note: "", where: "", times: 2, file: "k.py", line: 3 };
    expect(findingRows([one])).toContain("&lt;b&gt; <span");
    expect(findingRows([one])).not.toContain("found by");
    expect(findingRows([{ ...one, where: "run" }])).toContain("found by");
  });
});
