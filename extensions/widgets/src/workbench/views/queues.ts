// The pipes: slots filled and free, what stands in each, who holds it, and who waits for what.
import type { Bench } from "../bench";
import { dims, escaped, h, times } from "../dom";
import { laneClass, laneTag, pipeEnds, pipeLabel } from "../lanes";
import type { QueueEntry, QueueState, Waiter } from "../queues";
import { blockOf, type Tile } from "../tiles";
import { whyText } from "./timeline";
import type { View } from "./view";

const MOST_SLOTS = 4;
const WAIT = '<svg width="11" height="11" viewBox="0 0 11 11" aria-hidden="true"><path d="M2.5 1v9M8.5 1v9" stroke="currentColor" stroke-width="2.2"/></svg>';

export class QueuesView implements View {
  readonly element: HTMLElement;
  readonly #pipes = h("div", { class: "pw-pipes", tabindex: 0, role: "region", "aria-label": "Queues" });
  readonly #depths = new Map<string, number>();
  #html = "";

  constructor(readonly bench: Bench) {
    for (const event of bench.payload.timeline.events) if (event[6] !== null) this.#depths.set(event[3], event[6]);
    const head = h("div", { class: "pw-ph" }, h("h3", {}, "Queues"), h("span", {}, "slots of each pipe"));
    this.element = h("section", { class: "pw-pane pw-queue", "aria-label": "Queues" }, head, this.#pipes);
    this.#pipes.addEventListener("click", (event) => {
      const slot = (event.target as HTMLElement).closest<HTMLElement>("[data-step]");
      if (slot) bench.goto(Number(slot.dataset["step"]));
    });
    this.#pipes.addEventListener("pointerover", (event) => this.#light(event.target));
    this.#pipes.addEventListener("pointerleave", () => this.#light(null));
  }

  /** The line that pushed the entry under the pointer lights up in the source. */
  #light(target: EventTarget | null): void {
    const step = Number((target as HTMLElement | null)?.closest<HTMLElement>("[data-step]")?.dataset["step"] ?? 0);
    const statement = step ? this.bench.recording.statementOf(step) : undefined;
    const hot = statement && statement[8] > 0 ? { file: statement[9], line: statement[8] } : null;
    if (hot?.line === this.bench.hot?.line) return;
    this.bench.hot = hot;
    this.bench.changed(false);
  }

  draw(): void {
    const queues = this.bench.queues.at(this.bench.cursor.position);
    const html = queues.length
      ? queues.map((queue) => this.#pipe(queue)).join("")
      : '<p class="pw-empty">No pipe has been used yet.</p>';
    if (html === this.#html) return;
    this.#html = html;
    this.#pipes.innerHTML = html;
  }

  #pipe(queue: QueueState): string {
    const depth = queue.depth ?? this.#depths.get(queue.pipe) ?? null;
    const block = queue.block === null ? "" : ` block ${queue.block}`;
    const slots = queue.entries.map((entry) => this.#entry(entry)).join("") + this.#free(queue, depth);
    const filled = `${queue.entries.length}${depth === null ? " filled" : ` of ${depth}`}`;
    return (
      `<div class="pw-pipe" data-pipe="${escaped(queue.pipe)}"><h4>${escaped(pipeLabel(queue.pipe))}${block}<span>${pipeEnds(queue.pipe)}</span>` +
      `<em>${filled}</em></h4><div class="pw-slots">${slots}</div>${this.#below(queue)}</div>`
    );
  }

  #entry(entry: QueueEntry): string {
    const { bench } = this;
    const state = entry.heldBy === null ? "ready" : "held";
    const by = bench.laneName(entry.pushedBy);
    const tile = entry.value === null ? undefined : bench.tiles.get(bench.recording.key(entry.value, entry.pushedAt));
    const line = bench.recording.lineOf(entry.pushedAt);
    const hint = `slot ${entry.slot}: ${entry.dtype} ${dims(entry.shape)}, ${state}; click: go to the push, step ${entry.pushedAt}`;
    return (
      `<button type="button" class="pw-slot pw-${state}" data-step="${entry.pushedAt}" data-slot="${entry.slot}" title="${escaped(hint)}">` +
      `<span>slot ${entry.slot}, ${state}</span><span><b>${dims(entry.shape)}</b> ${entry.dtype}</span>` +
      `<span>valid <b>${times(entry.valid)}</b></span><span class="${laneClass(by)}">by ${escaped(by)}, ${line}</span>${tile ? sparkline(tile) : ""}</button>`
    );
  }

  #free(queue: QueueState, depth: number | null): string {
    if (depth === null) return queue.entries.length ? "" : '<div class="pw-slot pw-free">empty</div>';
    const free = Math.max(0, depth - queue.entries.length);
    if (free === 0) return "";
    if (depth > MOST_SLOTS) return `<div class="pw-slot pw-free" data-free="${free}">${free} free</div>`;
    return Array.from({ length: free }, () => '<div class="pw-slot pw-free" data-free="1">free</div>').join("");
  }

  #below(queue: QueueState): string {
    const { bench } = this;
    const waits = queue.waiters.map(
      (w) => `<div class="pw-waiter pw-on" data-waits="${escaped(bench.laneName(w.lane))}" title="${escaped(whyText(bench, { lane: w.lane, waiting: w }))}">${WAIT}<span>${escaped(this.#why(w))}</span></div>`,
    );
    if (waits.length) return waits.join("");
    const held = queue.entries.find((entry) => entry.heldBy !== null);
    const counts = `pushed ${queue.pushed}, popped ${queue.popped}, freed ${queue.freed}`;
    const short = `${queue.pushed} in, ${queue.popped} out`;
    const state = held
      ? `slot ${held.slot} held by ${laneTag(bench.laneName(held.heldBy ?? 0))}`
      : queue.entries.length
        ? "ready to be popped"
        : queue.popped
          ? "drained"
          : "nothing pushed yet";
    return `<div class="pw-waiter" title="${counts}"><span>${state}</span><span class="pw-counts">${short}</span></div>`;
  }

  #why(w: Waiter): string {
    const line = this.bench.recording.lineOf(w.since);
    return `${this.bench.laneName(w.lane)} waits: ${w.operation}${w.reason ? ` (${w.reason})` : ""}${line ? `, ${line}` : ""}`;
  }
}

/** The size of a tile's rows as bars. */
export function sparkline(tile: Tile, bars = 14, height = 13): string {
  const [rows, columns] = tile.shown;
  if (rows === 0 || columns === 0) return "";
  const alongRows = rows > 1;
  const length = alongRows ? rows : columns;
  const count = Math.min(bars, length);
  const sums = new Array<number>(count).fill(0);
  const [blockRows, blockColumns] = blockOf(tile);
  for (let r = 0; r < rows; r++) {
    for (let c = 0; c < columns; c++) {
      const value = tile.data[r * columns + c] ?? 0;
      const inside = c * blockColumns < tile.validColumns && tile.validRows.some(([a, b]) => a <= r * blockRows && r * blockRows < b);
      const bar = Math.floor(((alongRows ? r : c) * count) / length);
      if (inside && Number.isFinite(value)) sums[bar] = (sums[bar] ?? 0) + value * value;
    }
  }
  const sizes = sums.map(Math.sqrt);
  const top = Math.max(...sizes);
  if (!(top > 0)) return "";
  const paths = sizes.map((s, i) => `M${i * 2.5} ${height}v${(-height * s) / top}`).join("");
  return `<svg width="${count * 2.5}" height="${height}" aria-hidden="true"><path d="${paths}" stroke="var(--pw-ink2)" stroke-width="1.6"/></svg>`;
}
