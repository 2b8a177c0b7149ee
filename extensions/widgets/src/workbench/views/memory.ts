// On-chip memory of the focused lane's function: addresses across, steps down, one box a tile from its making to its last read.
import type { Bench } from "../bench";
import { escaped, h, rect, text } from "../dom";
import { laneClass } from "../lanes";
import { countUpTo, type Recording } from "../recording";
import type { View } from "./view";

export interface Life {
  readonly name: string;
  readonly space: string;
  readonly address: number;
  readonly bytes: number;
  readonly from: number;
  readonly to: number;
}

/** The tiles of a frame with their place and from which step to which they are needed. */
export function livesOf(bench: Bench, frame: number): Life[] {
  const { recording } = bench;
  const out: Life[] = [];
  for (const [name, history] of recording.names[frame] ?? []) {
    history.steps.forEach((step, i) => {
      const value = history.values[i] as number;
      const place = recording.tensor(value) ? bench.memoryOf({ step, frame, name, value }) : undefined;
      if (!place) return;
      const until = history.steps[i + 1] ?? Infinity;
      out.push({ name, space: place[3], address: place[4], bytes: place[5], from: step, to: lastRead(recording, frame, name, step, until) });
    });
  }
  return out;
}

function lastRead(recording: Recording, frame: number, name: string, from: number, until: number): number {
  const steps = recording.stepsOfFrame[frame] ?? [];
  let last = from;
  for (let i = countUpTo(steps, from); i < steps.length && (steps[i] as number) <= until; i++) {
    if (recording.statementOf(steps[i] as number)?.[6].includes(name)) last = steps[i] as number;
  }
  return last;
}

export class MemoryView implements View {
  readonly element: HTMLElement;
  readonly #head = h("div", { class: "pw-ph" });
  readonly #body = h("div", { class: "pw-scroll pw-memory", tabindex: 0, role: "region", "aria-label": "Memory" });

  constructor(readonly bench: Bench) {
    this.element = h("div", { class: "pw-memtab" }, this.#head, this.#body);
    this.#body.addEventListener("click", (event) => {
      const box = (event.target as Element).closest<SVGGElement>("[data-from]");
      if (box) bench.goto(Number(box.dataset["from"]), bench.cursor.focus.lane);
    });
  }

  draw(): void {
    const { bench } = this;
    const frame = bench.cursor.frame();
    const lane = bench.laneName(bench.cursor.focus.lane);
    const lives = frame === undefined ? [] : livesOf(bench, frame);
    const name = frame === undefined ? "" : (bench.payload.timeline.functions[bench.payload.timeline.frames[frame]?.[0] ?? 0]?.[0] ?? "");
    const spaces = [...new Set(lives.map((life) => life.space))];
    this.#head.innerHTML = `<h3>Memory of ${escaped(lane)}</h3><span class="pw-mono">${escaped(name)}</span><span>addresses across, steps down; a tile from its making to its last read</span>`;
    if (lives.length === 0) {
      this.#body.innerHTML = `<p class="pw-empty">No tile of ${escaped(lane)} has a place in on-chip memory here.</p>`;
      return;
    }
    this.#body.className = `pw-scroll pw-memory ${laneClass(lane)}`;
    this.#body.innerHTML = spaces.map((space) => this.#space(space, lives, this.#width(spaces.length))).join("");
  }

  #width(spaces: number): number {
    const room = (this.#body.clientWidth || 900) - 24;
    return Math.max(230, Math.min(520, Math.floor(room / Math.max(1, spaces)) - 18));
  }

  #space(space: string, all: readonly Life[], width: number): string {
    const lives = all.filter((life) => life.space === space);
    const steps = [...new Set(all.flatMap((life) => [life.from, life.to]))].sort((a, b) => a - b);
    const row = 20;
    const base = Math.min(...lives.map((life) => life.address));
    const top = Math.max(...lives.map((life) => life.address + life.bytes));
    const x = (address: number): number => 44 + ((width - 52) * (address - base)) / Math.max(1, top - base);
    const y = (step: number): number => 32 + row * countUpTo(steps, step - 1);
    const { position } = this.bench.cursor;
    let svg = text(44, 12, space, 'class="pw-t1"') + text(width - 8, 12, `${(top - base).toLocaleString("en")} B`, 'text-anchor="end"');
    svg += text(44, 25, `0x${base.toString(16)}`) + text(width - 8, 25, `0x${top.toString(16)}`, 'text-anchor="end"');
    for (const step of steps) svg += text(38, y(step) + 13, step, 'text-anchor="end"');
    for (const life of lives) {
      const live = life.from <= position && position <= life.to;
      const state = live ? "pw-live" : life.from > position ? "pw-ahead" : "pw-past";
      const [left, above] = [x(life.address), y(life.from)];
      const [wide, high] = [Math.max(3, x(life.address + life.bytes) - left), y(life.to) - above + row - 3];
      const hint = `${life.name}: ${space} 0x${life.address.toString(16)}, ${life.bytes} B, steps ${life.from} to ${life.to}${live ? ", live now" : ""}`;
      const most = Math.floor((wide - 6) / 6.2);
      const label = life.name.length > most ? `${life.name.slice(0, Math.max(0, most - 1))}\u2026` : life.name;
      svg += `<g class="pw-life ${state}" data-from="${life.from}" data-name="${escaped(life.name)}"><title>${escaped(hint)}</title>${rect(left, above, wide, high, 'rx="3"')}${most > 2 ? text(left + 4, above + 12, label) : ""}</g>`;
    }
    const at = countUpTo(steps, position);
    const line = 32 + row * at - 1.5;
    svg += `<path d="M40 ${line}H${width}" stroke="var(--pw-accent)" stroke-width="1.5"/>`;
    const live = lives.filter((life) => life.from <= position && position <= life.to).map((life) => life.name);
    const label = `${space}: ${live.length ? `${live.join(", ")} live at step ${position}` : `nothing live at step ${position}`}`;
    return `<svg width="${width}" height="${36 + row * steps.length}" role="img" aria-label="${escaped(label)}">${svg}</svg>`;
  }
}
