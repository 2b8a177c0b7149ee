// The workbench as a notebook widget, and as a page of its own that steps offline. A notebook's widgets share this one
// module (`loader.ts`), so it travels and is saved once.
import { authorOf } from "./workbench/authors";
import { operationStops, queueStops, valueStops, variableStops } from "./workbench/breaks";
import { Cursor } from "./workbench/cursor";
import { LivePanel, type LiveState } from "./workbench/live";
import { fromBase64, gunzip, unpack, type StageDetail } from "./workbench/payload";
import { laneState, Queues } from "./workbench/queues";
import { Recording } from "./workbench/recording";
import { Workbench, type CursorState } from "./workbench/shell";
import type { Stop } from "./workbench/stops";
import { tileFrom, type Tile, type TileHead, type Window } from "./workbench/tiles";
import { variablesOf } from "./workbench/variables";

interface Model {
  get(name: string): unknown;
  set(name: string, value: unknown): void;
  save_changes(): void;
  on(event: string, handler: (...values: never[]) => void): void;
  off(event: string, handler: (...values: never[]) => void): void;
  send(content: unknown): void;
  widget_manager: { get_model(id: string): Promise<{ readonly comm_live?: boolean }> };
}

interface Answer {
  readonly tiles?: readonly TileHead[];
  readonly refused?: Readonly<Record<string, string>>;
  readonly window?: Window;
  readonly coarse?: { readonly key: string; readonly why: string };
  readonly stage?: StageDetail;
  readonly noStage?: { readonly index: number; readonly why: string };
  readonly nonFinite?: readonly number[];
}

const SYNC_AFTER = 60;
const NOT_SAVED = "not saved with the notebook; run the cell again to see it";

/** What a notebook shows: the run while it goes on, and the workbench once there is a recording. */
export async function render({ model, el }: { model: Model; el: HTMLElement }): Promise<() => void> {
  let close: () => void = () => undefined;
  const show = async (): Promise<void> => {
    close();
    const recorded = (model.get("timeline") as DataView).byteLength > 0;
    close = recorded ? await showBench(model, el) : showLive(model, el);
  };
  const changed = (): void => void show();
  model.on("change:timeline", changed);
  await show();
  return () => {
    model.off("change:timeline", changed);
    close();
  };
}

/** A run that goes on: its state comes from the kernel, its buttons go there. */
function showLive(model: Model, el: HTMLElement): () => void {
  const panel = new LivePanel(el, (ask) => model.send({ ask }));
  const update = (): void => panel.update(model.get("live") as LiveState);
  model.on("change:live", update);
  update();
  return () => model.off("change:live", update);
}

/** Whether a kernel answers: a notebook that was saved and opened again has none behind its widgets. */
async function kernelOf(model: Model): Promise<() => boolean> {
  const id = String(model.get("library")).replace(/^IPY_MODEL_/, "");
  const shared = await model.widget_manager.get_model(id);
  return () => shared.comm_live !== false;
}

/** The cursor moves here; the kernel is told where it came to rest, and asked for what is looked at. */
async function showBench(model: Model, el: HTMLElement): Promise<() => void> {
  const payload = await unpack(model.get("timeline") as DataView<ArrayBuffer>);
  const answers = await kernelOf(model);
  let timer: ReturnType<typeof setTimeout> | undefined;
  let told = "";
  let toldStops = "";
  const ask = (asked: Readonly<Record<string, unknown>>, refuse: () => void): void => {
    try {
      if (answers()) return model.send(asked);
    } catch {
      // the kernel has ended
    }
    refuse();
    shown.refresh();
  };
  const source = {
    ask: (keys: readonly string[]) => ask({ ask: "tiles", keys }, () => keys.forEach((key) => shown.bench.tiles.refuse(key, NOT_SAVED))),
    askWindow: (window: Window) => ask({ ask: "window", ...window }, () => shown.bench.tiles.refuseWindow(window.key, NOT_SAVED)),
    askStage: (index: number) => ask({ ask: "stage", index }, () => shown.bench.refuseStage(index, NOT_SAVED)),
    askNonFinite: () => ask({ ask: "nonfinite" }, () => shown.say(NOT_SAVED)),
  };
  const moved = (state: CursorState): void => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      told = JSON.stringify(state);
      model.set("cursor", state);
      model.save_changes();
    }, SYNC_AFTER);
  };
  const stopped = (stops: readonly Stop[]): void => {
    toldStops = JSON.stringify(stops);
    model.set("stops", stops);
    model.save_changes();
  };
  const shown: Workbench = new Workbench(el, payload, source, moved, stopped);
  const answered = (content: Answer, buffers: readonly DataView<ArrayBuffer>[]): void => take(shown, content, buffers);
  const outside = (): void => {
    const state = model.get("cursor") as CursorState;
    if (JSON.stringify(state) !== told) shown.apply(state);
  };
  const outsideStops = (): void => {
    const stops = model.get("stops") as readonly Stop[];
    if (JSON.stringify(stops) !== toldStops) shown.applyStops(stops);
  };
  model.on("msg:custom", answered);
  model.on("change:cursor", outside);
  model.on("change:stops", outsideStops);
  outsideStops();
  shown.apply(model.get("cursor") as CursorState);
  return () => {
    clearTimeout(timer);
    model.off("msg:custom", answered);
    model.off("change:cursor", outside);
    model.off("change:stops", outsideStops);
    shown.close();
  };
}

/** Takes what the kernel answered. */
function take(shown: Workbench, content: Answer, buffers: readonly DataView<ArrayBuffer>[]): void {
  const { bench } = shown;
  const bytes = (i: number): ArrayBuffer | undefined => {
    const part = buffers[i];
    return part?.buffer.slice(part.byteOffset, part.byteOffset + part.byteLength);
  };
  content.tiles?.forEach((head, i) => {
    const part = bytes(i);
    if (part) bench.tiles.add(tileFrom(head, part));
  });
  for (const [key, why] of Object.entries(content.refused ?? {})) bench.tiles.refuse(key, why);
  const cells = content.window ? bytes(0) : undefined;
  if (content.window && cells) bench.tiles.addWindow(content.window, new Float64Array(cells));
  if (content.coarse) bench.tiles.refuseWindow(content.coarse.key, content.coarse.why);
  if (content.stage) bench.addStage(content.stage);
  if (content.noStage) bench.refuseStage(content.noStage.index, content.noStage.why);
  if (content.nonFinite) bench.nonFinite = content.nonFinite;
  shown.refresh();
}

interface PageHeads {
  readonly tiles: readonly (TileHead & { readonly at: number; readonly whole?: number })[];
  readonly stages: readonly StageDetail[];
  readonly cursor: CursorState;
  readonly left: string;
}

/** A page: everything is in its elements `pw-timeline`, `pw-heads` and `pw-cells`. */
async function openPage(place: HTMLElement): Promise<Workbench> {
  const packed = (id: string): Uint8Array<ArrayBuffer> => fromBase64(document.getElementById(id)?.textContent?.trim() ?? "");
  const payload = await unpack(packed("pw-timeline"));
  const heads = JSON.parse(new TextDecoder().decode(await gunzip(packed("pw-heads")))) as PageHeads;
  const cells = await gunzip(packed("pw-cells"));
  const byKey = new Map(heads.tiles.map((head) => [head.key, head]));
  const shown: Workbench = new Workbench(place, payload, {
    ask: (keys) => {
      for (const key of keys) {
        const head = byKey.get(key);
        if (head) shown.bench.tiles.add(tileFrom(head, cells, head.at));
        else shown.bench.tiles.refuse(key, heads.left);
      }
      shown.refresh();
    },
    askWindow: (window) => {
      const head = byKey.get(window.key);
      if (head?.whole === undefined) shown.bench.tiles.refuseWindow(window.key, heads.left);
      else shown.bench.tiles.addWindow(window, part(wholeOf(head, cells, head.whole), window));
      shown.refresh();
    },
    askStage: (index) => {
      const stage = heads.stages.find((s) => s.index === index);
      if (stage) shown.bench.addStage(stage);
      else shown.bench.refuseStage(index, heads.left);
      shown.refresh();
    },
  });
  shown.apply(heads.cursor);
  return shown;
}

/** A tile with all its cells, of a page that carries them. */
function wholeOf(head: TileHead, cells: ArrayBuffer, at: number): Tile {
  return tileFrom({ ...head, shown: [head.rows, head.columns] }, cells, at);
}

function part(tile: Tile, { row, column, rows, columns }: Window): Float64Array {
  const out = new Float64Array(rows * columns);
  for (let r = 0; r < rows; r++) {
    for (let c = 0; c < columns; c++) out[r * columns + c] = tile.data[(row + r) * tile.columns + column + c] ?? NaN;
  }
  return out;
}

const place = globalThis.document?.querySelector<HTMLElement>("[data-pw-page]");
if (place) void openPage(place);

export { authorOf, Cursor, laneState, operationStops, Queues, queueStops, Recording, unpack, valueStops, variablesOf, variableStops };
