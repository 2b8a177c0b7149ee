// The workbench as a notebook widget (anywidget), and as a page of its own that steps offline.
import { authorOf } from "./workbench/authors";
import { Cursor } from "./workbench/cursor";
import { fromBase64, gunzip, unpack } from "./workbench/payload";
import { laneState, Queues } from "./workbench/queues";
import { Recording } from "./workbench/recording";
import { Workbench, type CursorState } from "./workbench/shell";
import { tileFrom, type TileHead } from "./workbench/tiles";
import { variablesOf } from "./workbench/variables";

interface Model {
  get(name: string): unknown;
  set(name: string, value: unknown): void;
  save_changes(): void;
  on(event: string, handler: (...values: never[]) => void): void;
  off(event: string, handler: (...values: never[]) => void): void;
  send(content: unknown): void;
}

interface Answer {
  readonly tiles?: readonly TileHead[];
  readonly refused?: Readonly<Record<string, string>>;
}

const SYNC_AFTER = 60;

/** The cursor moves here; the kernel is told where it came to rest, and asked for cells. */
async function render({ model, el }: { model: Model; el: HTMLElement }): Promise<() => void> {
  const payload = await unpack(model.get("timeline") as DataView<ArrayBuffer>);
  let timer: ReturnType<typeof setTimeout> | undefined;
  let told = "";
  const shown = new Workbench(el, payload, { ask: (keys) => model.send({ ask: "tiles", keys }) }, (state) => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      told = JSON.stringify(state);
      model.set("cursor", state);
      model.save_changes();
    }, SYNC_AFTER);
  });
  const answered = (content: Answer, buffers: readonly DataView<ArrayBuffer>[]): void => {
    content.tiles?.forEach((head, i) => {
      const part = buffers[i];
      if (!part) return;
      const bytes = part.buffer.slice(part.byteOffset, part.byteOffset + part.byteLength);
      shown.bench.tiles.add(tileFrom(head, bytes));
    });
    for (const [key, why] of Object.entries(content.refused ?? {})) shown.bench.tiles.refuse(key, why);
    shown.refresh();
  };
  const outside = (): void => {
    const state = model.get("cursor") as CursorState;
    if (JSON.stringify(state) !== told) shown.apply(state);
  };
  model.on("msg:custom", answered);
  model.on("change:cursor", outside);
  shown.apply(model.get("cursor") as CursorState);
  return () => {
    clearTimeout(timer);
    model.off("msg:custom", answered);
    model.off("change:cursor", outside);
    shown.close();
  };
}

/** A page: everything is in its elements `pw-timeline`, `pw-heads` and `pw-cells`. */
async function openPage(place: HTMLElement): Promise<Workbench> {
  const packed = (id: string): Uint8Array<ArrayBuffer> => fromBase64(document.getElementById(id)?.textContent?.trim() ?? "");
  const payload = await unpack(packed("pw-timeline"));
  const heads = JSON.parse(new TextDecoder().decode(await gunzip(packed("pw-heads")))) as {
    readonly tiles: readonly (TileHead & { readonly at: number })[];
    readonly cursor: CursorState;
    readonly left: string;
  };
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
  });
  shown.apply(heads.cursor);
  return shown;
}

const place = globalThis.document?.querySelector<HTMLElement>("[data-pw-page]");
if (place) void openPage(place);

export { authorOf, Cursor, laneState, Queues, Recording, unpack, variablesOf };
export default { render };
