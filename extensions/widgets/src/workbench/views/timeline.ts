// The timeline: every step of every lane, pushes, pops, waits and stores, and the slider that moves the cursor.
import type { Bench } from "../bench";
import { escaped, h, text } from "../dom";
import { laneClass, laneMark, pipeLabel } from "../lanes";
import type { EventRow } from "../payload";
import { laneState, type LaneState } from "../queues";
import { Event, Kind } from "../recording";
import type { View } from "./view";

const ROW = 17;
const TOP = 21.5;
const EDGE = 14;

/** Marks by rank: where steps share a pixel, the highest is drawn. */
const MARKS = {
  push: '<path d="M0-4.5L4.5 3.5h-9z" fill="var(--pw-push)"/>',
  pop: '<path d="M0 4.5L4.5-3.5h-9z" fill="var(--pw-pop)"/>',
  wait: '<path d="M-3-4v8M3-4v8" stroke="var(--pw-blocked)" stroke-width="2.4"/>',
  store: '<path d="M-4-4h8v8h-8z" fill="var(--pw-store)"/>',
  failed: '<path d="M-4-4l8 8M4-4l-8 8" stroke="var(--pw-bad)" stroke-width="2.2"/>',
} as const;
type Mark = keyof typeof MARKS | "statement";
const RANK: readonly Mark[] = ["statement", "store", "pop", "push", "wait", "failed"];

export class TimelineView implements View {
  readonly element: HTMLElement;
  readonly #lanes = h("div", { class: "pw-lanes", role: "radiogroup", "aria-label": "Focused lane" });
  readonly #track: HTMLElement;
  readonly #marks = h("div");
  readonly #veil = h("div", { class: "pw-veil" });
  readonly #head = h("div", { class: "pw-head-line" }, h("span"));
  #width = 0;
  #buttons: HTMLButtonElement[] = [];

  constructor(readonly bench: Bench) {
    const legend = h("div", { class: "pw-legend" });
    const used = this.#usedMarks();
    legend.innerHTML = (["push", "pop", "wait", "store"] as const)
      .filter((mark) => used.has(mark))
      .map((mark) => `<span><svg viewBox="-5.5 -5.5 11 11" aria-hidden="true">${MARKS[mark]}</svg>${mark}</span>`)
      .join("");
    this.#track = h(
      "div",
      { class: "pw-track", role: "slider", tabindex: 0, "aria-label": "Step", "aria-valuemin": 0, "aria-valuemax": bench.recording.length, "aria-orientation": "horizontal" },
      this.#marks,
      this.#veil,
      this.#head,
    );
    this.element = h("div", { class: "pw-time" }, h("div", { class: "pw-lanebox" }, legend, this.#lanes), this.#track);
    this.#buildLanes();
    this.#track.addEventListener("pointerdown", (event) => {
      this.#track.setPointerCapture(event.pointerId);
      this.#track.focus();
      this.#scrub(event);
    });
    this.#track.addEventListener("pointermove", (event) => {
      if (this.#track.hasPointerCapture(event.pointerId)) this.#scrub(event);
      else this.#track.title = this.#hint(this.#stepAt(event));
    });
    this.#lanes.addEventListener("keydown", (event) => this.#laneKey(event));
  }

  #usedMarks(): Set<Mark> {
    const used = new Set<Mark>();
    for (const event of this.bench.payload.timeline.events) {
      if (event[1] === Event.Push) used.add("push");
      if (event[1] === Event.Pop) used.add("pop");
      if (event[1] === Event.Blocked) used.add("wait");
    }
    if (this.bench.stores.size > 0) used.add("store");
    return used;
  }

  #buildLanes(): void {
    this.#buttons = this.bench.lanes.map((lane) => {
      const name = this.bench.laneName(lane);
      const button = h("button", { type: "button", role: "radio", class: `pw-lane ${laneClass(name)}`, "data-lane": name });
      button.innerHTML = `${laneMark(name)}<b>${escaped(name)}</b><i></i>`;
      button.addEventListener("click", () => this.bench.move(() => this.bench.chooseLane(lane)));
      return button;
    });
    this.#lanes.replaceChildren(...this.#buttons);
  }

  #laneKey(event: KeyboardEvent): void {
    const move = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
    if (!move || event.altKey || event.ctrlKey || event.metaKey) return;
    const { lanes } = this.bench;
    const next = (lanes.indexOf(this.bench.cursor.focus.lane) + move + lanes.length) % lanes.length;
    event.preventDefault();
    event.stopPropagation();
    this.bench.move(() => this.bench.chooseLane(lanes[next] ?? 0));
    this.#buttons[next]?.focus();
  }

  #x(step: number): number {
    const { length } = this.bench.recording;
    return EDGE + ((this.#width - 2 * EDGE) * step) / Math.max(1, length);
  }

  #stepAt(event: PointerEvent): number {
    const { length } = this.bench.recording;
    const x = event.clientX - this.#track.getBoundingClientRect().left;
    return Math.max(0, Math.min(length, Math.round(((x - EDGE) / (this.#width - 2 * EDGE)) * length)));
  }

  #scrub(event: PointerEvent): void {
    const step = this.#stepAt(event);
    if (step !== this.bench.cursor.position) this.bench.goto(step);
  }

  #hint(step: number): string {
    return step ? `step ${step}, ${this.bench.describe(step)}` : "before the first step";
  }

  draw(): void {
    const width = this.#track.clientWidth || 800;
    if (width !== this.#width) {
      this.#width = width;
      this.#drawMarks();
    }
    const { cursor, recording } = this.bench;
    const x = this.#x(cursor.position);
    this.#head.style.left = `${x}px`;
    (this.#head.firstChild as HTMLElement).textContent = String(cursor.position);
    this.#veil.style.left = `${x + 1}px`;
    const step = cursor.position;
    const what = step ? `${recording.coordinate(step)}, ${recording.lineOf(step)}: ${recording.textOf(step)}` : "before the first step";
    this.#track.setAttribute("aria-valuenow", String(step));
    this.#track.setAttribute("aria-valuetext", `step ${step} of ${recording.length}, ${what}`);
    this.bench.lanes.forEach((lane, i) => this.#drawLane(lane, this.#buttons[i]));
  }

  #drawLane(lane: number, button: HTMLButtonElement | undefined): void {
    if (!button) return;
    const focused = lane === this.bench.cursor.focus.lane;
    const state = laneState(this.bench.cursor, lane);
    button.setAttribute("aria-checked", String(focused));
    button.tabIndex = focused ? 0 : -1;
    const label = button.querySelector("i:last-child") as HTMLElement;
    label.className = { waits: "pw-w", running: "pw-r", failed: "pw-w" }[state.status as "waits"] ?? "";
    label.textContent = statusText(state);
    button.title = state.waiting ? whyText(this.bench, state) : `${this.bench.laneName(lane)}: ${state.status}`;
  }

  /** Marks of all steps; drawn once a width. Steps that share a pixel share a mark. */
  #drawMarks(): void {
    const { recording } = this.bench;
    const height = TOP + ROW * this.bench.lanes.length - 5;
    const room = Math.max(1, Math.floor((this.#width - 2 * EDGE) / 4));
    const per = Math.max(1, Math.ceil(recording.length / room));
    const mark = Math.max(2, Math.min(10, ((this.#width - 2 * EDGE) / Math.max(1, recording.length)) * 0.72));
    const size = Math.max(0.6, Math.min(1, mark / 7)); // where steps lie close together, so do their marks
    let svg = this.#ticks();
    this.bench.lanes.forEach((lane, row) => {
      const y = TOP + ROW * row;
      const name = this.bench.laneName(lane);
      svg += `<path d="M0 ${y}H${this.#width}" stroke="var(--pw-line)"/><g class="${laneClass(name)}">`;
      for (const [from, to] of this.#waits(lane)) {
        svg += `<path d="M${this.#x(from) + 6} ${y}H${this.#x(to) - 3}" stroke="var(--pw-blocked)" stroke-width="2" stroke-dasharray="2 3"/>`;
      }
      const bins = new Map<number, readonly [Mark, number]>();
      for (const step of recording.stepsOfLane[lane] ?? []) {
        const bin = Math.floor((step - 1) / per);
        const kind = this.#markOf(step);
        const held = bins.get(bin);
        if (!held || RANK.indexOf(kind) > RANK.indexOf(held[0])) bins.set(bin, [kind, step]);
      }
      for (const [kind, step] of bins.values()) {
        const body =
          kind === "statement"
            ? `<rect x="${-mark / 2}" y="-2.5" width="${mark}" height="5" rx="1.5" fill="var(--pw-lane)"/>`
            : MARKS[kind];
        const scale = kind === "statement" || size === 1 ? "" : ` scale(${size.toFixed(2)})`;
        svg += `<g transform="translate(${this.#x(step).toFixed(1)} ${y})${scale}" data-mark="${kind}">${body}</g>`;
      }
      svg += "</g>";
    });
    this.#marks.innerHTML = `<svg aria-hidden="true" width="${this.#width}" height="${height}">${svg}</svg>`;
  }

  #ticks(): string {
    const { length } = this.bench.recording;
    const most = Math.max(2, Math.floor(this.#width / 56));
    const unit = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6];
    const every = unit.find((n) => length / n <= most) ?? length;
    let out = "";
    for (let step = every; step <= length; step += every) out += text(this.#x(step), 9, step, 'text-anchor="middle"');
    return out;
  }

  #markOf(step: number): Mark {
    const { recording } = this.bench;
    if (recording.kindOf(step) === Kind.Failed) return "failed";
    const [first, last] = recording.eventsAt(step);
    let found: Mark = this.bench.stores.has(step) ? "store" : "statement";
    for (let i = first; i < last; i++) {
      const kind = (recording.data.events[i] as EventRow)[1];
      const mark = ({ [Event.Push]: "push", [Event.Pop]: "pop", [Event.Blocked]: "wait" } as Record<number, Mark>)[kind];
      if (mark && RANK.indexOf(mark) > RANK.indexOf(found)) found = mark;
    }
    return found;
  }

  /** Spans in which a lane waits: from the step where it begins to the one that ends it. */
  #waits(lane: number): (readonly [number, number])[] {
    const out: (readonly [number, number])[] = [];
    let since = 0;
    for (const event of this.bench.payload.timeline.events) {
      if (event[2] !== lane) continue;
      if (event[1] === Event.Blocked) since = event[0];
      else if (event[1] === Event.Resumed && since) {
        out.push([since, event[0]]);
        since = 0;
      }
    }
    if (since) out.push([since, this.bench.recording.length]);
    return out;
  }
}

export function statusText(state: LaneState): string {
  return state.waiting ? `waits ${pipeLabel(state.waiting.pipe)}` : state.status;
}

/** Which lane waits for what, and where. */
export function whyText(bench: Bench, state: { readonly lane: number; readonly waiting: LaneState["waiting"] }): string {
  const w = state.waiting;
  if (!w) return "";
  const line = bench.recording.lineOf(w.since);
  const reason = w.reason ? ` (${w.reason})` : "";
  return `${bench.laneName(w.lane)} waits: ${w.operation} ${pipeLabel(w.pipe)}${reason}${line ? `, ${line}` : ""}`;
}
