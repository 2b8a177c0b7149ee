// On-chip memory: addresses across, lifetimes down; of the run at the cursor, or as the last pass planned it.
import type { Bench } from "../bench";
import { escaped, h, rect, text } from "../dom";
import { laneClass } from "../lanes";
import type { FunctionMemory, PlannedSpace } from "../payload";
import { countUpTo, type Recording } from "../recording";
import { Segments } from "../tabs";
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
      const storage = recording.tensor(value)?.[4] ?? -1;
      const made = !bench.memories.has(storage) || bench.stores.has(step) || i + 1 === history.steps.length;
      if (!made) return; // `alloc_tile` names the bytes, which another tile may still hold
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

/** A box of the drawing: bytes across, places down. */
interface Box extends Life {
  readonly state: "live" | "ahead" | "past" | "planned";
  readonly ring: boolean;
  readonly hint: string;
  readonly attribute: string;
}

interface Drawn {
  readonly title: string;
  readonly note: string;
  readonly label: string;
  readonly boxes: readonly Box[];
  readonly capacity: number | null;
  /** Where the cursor stands among the places, null where it has no place here. */
  readonly cursor: number | null;
  readonly usage: string;
}

export class MemoryView implements View {
  readonly element: HTMLElement;
  readonly #head = h("div", { class: "pw-ph" });
  readonly #facts = h("span", { class: "pw-memfacts" });
  readonly #body = h("div", { class: "pw-scroll pw-memory", tabindex: 0, role: "region", "aria-label": "Memory" });
  readonly #modes: Segments | null;
  readonly #functions: HTMLSelectElement;
  #mode: "run" | "plan";
  #function = "";
  #state = "";

  constructor(readonly bench: Bench) {
    const { plan } = bench.payload;
    this.#mode = bench.hasPlaces ? "run" : "plan";
    const modes = [{ key: "run", label: "this run" }, { key: "plan", label: "the program" }];
    this.#modes = bench.hasPlaces && plan.length ? new Segments("What is shown", modes, (key) => this.#pick(key as "run" | "plan")) : null;
    this.#functions = h("select", { class: "pw-select", "aria-label": "Function" }, ...plan.map((f) => h("option", { value: f.function }, `${f.function} (${f.kind})`)));
    this.#functions.addEventListener("change", () => {
      this.#function = this.#functions.value;
      this.draw();
    });
    this.#head.append(h("h3", {}, "Memory"), ...(this.#modes ? [this.#modes.element] : []), this.#functions, this.#facts);
    this.element = h("div", { class: "pw-memtab" }, this.#head, this.#body);
    this.#body.addEventListener("click", (event) => this.#go(event.target));
    this.#body.addEventListener("keydown", (event) => {
      if ((event.key !== "Enter" && event.key !== " ") || !(event.target as Element).closest(".pw-life")) return;
      event.preventDefault();
      event.stopPropagation();
      this.#go(event.target);
    });
  }

  #pick(mode: "run" | "plan"): void {
    this.#mode = mode;
    this.#function = "";
    this.draw();
  }

  #go(target: EventTarget | null): void {
    const box = (target as Element).closest<SVGGElement>(".pw-life");
    const { from, line, file } = box?.dataset ?? {};
    if (from) this.bench.goto(Number(from), this.bench.cursor.focus.lane);
    else if (line && Number(line)) this.bench.reveal({ file: file || this.bench.mainFile, line: Number(line) });
  }

  draw(): void {
    this.#modes?.select(this.#mode);
    this.#functions.hidden = this.#mode !== "plan" || this.bench.payload.plan.length < 2;
    const { bench } = this;
    const state = `${this.#mode}/${this.#function}/${bench.cursor.position}/${bench.cursor.focus.lane}/${this.#body.clientWidth}`;
    if (state === this.#state) return;
    this.#state = state;
    const lane = bench.laneName(bench.cursor.focus.lane);
    this.#body.className = `pw-scroll pw-memory ${laneClass(lane)}`;
    const drawn = this.#mode === "run" ? this.#run(lane) : this.#plan(lane);
    const width = this.#width(drawn.length);
    this.#body.innerHTML = drawn.length ? drawn.map((d) => draw(d, width)).join("") : `<p class="pw-empty">No tile of ${escaped(lane)} has a place in on-chip memory here.</p>`;
  }

  #width(spaces: number): number {
    const room = (this.#body.clientWidth || 900) - 24;
    return Math.max(230, Math.min(960, Math.floor(room / Math.max(1, spaces)) - 18));
  }

  // --- the run

  #run(lane: string): Drawn[] {
    const { bench } = this;
    const frame = bench.cursor.frame();
    const lives = frame === undefined ? [] : livesOf(bench, frame);
    const { functions, frames } = bench.payload.timeline;
    const name = frame === undefined ? "" : (functions[frames[frame]?.[0] ?? 0]?.[0] ?? "");
    this.#facts.innerHTML = `of ${escaped(lane)}, <span class="pw-mono">${escaped(name)}</span>: addresses across, steps down; a tile from its making to its last read`;
    const { position } = bench.cursor;
    return [...new Set(lives.map((life) => life.space))].map((space) => {
      const boxes = lives.filter((life) => life.space === space).map((life): Box => {
        const live = life.from <= position && position <= life.to;
        const state = live ? "live" : life.from > position ? "ahead" : "past";
        const hint = `${life.name}: ${space} 0x${life.address.toString(16)}, ${life.bytes} B, steps ${life.from} to ${life.to}${live ? ", live now" : ""}`;
        return { ...life, state, ring: false, hint, attribute: `data-from="${life.from}"` };
      });
      const now = boxes.filter((box) => box.state === "live");
      const used = covered(now);
      const capacity = this.#capacity(space);
      const label = `${space}: ${now.length ? `${now.map((box) => box.name).join(", ")} live at step ${position}` : `nothing live at step ${position}`}`;
      return { title: space, note: "step", label, boxes, capacity, cursor: position, usage: used ? `${bytes(used)} live now` : "nothing live now" };
    });
  }

  #capacity(space: string): number | null {
    for (const f of this.bench.payload.plan) for (const s of f.spaces) if (s.space === space) return s.capacity;
    return null;
  }

  // --- the plan

  /** The function to show: the chosen one, else the one in which the focused lane is. */
  #planned(): FunctionMemory | undefined {
    const { plan, timeline } = this.bench.payload;
    const frame = this.bench.cursor.frame();
    const name = frame === undefined ? "" : timeline.functions[timeline.frames[frame]?.[0] ?? 0]?.[0];
    return plan.find((f) => f.function === this.#function) ?? plan.find((f) => f.function === name) ?? plan[0];
  }

  #plan(lane: string): Drawn[] {
    const { bench } = this;
    const found = this.#planned();
    if (!found) return [];
    this.#functions.value = found.function;
    const at = bench.recording.statementOf(bench.cursor.lastStep());
    const line = at && at[9] === found.file ? at[8] : 0;
    this.#facts.innerHTML = `<span class="pw-mono">${escaped(found.function)}</span>: addresses across, statements down; the tiles of ${escaped(lane)}\u2019s line are marked`;
    return found.spaces.map((space) => this.#plannedSpace(space, found.file, line));
  }

  #plannedSpace(space: PlannedSpace, file: string, line: number): Drawn {
    const boxes = space.tiles.map(([name, address, size, begin, end, at, ring]): Box => {
      const life = ring ? "throughout" : `statements ${begin} to ${end}`;
      const hint = `${name}: ${space.space} 0x${address.toString(16)}, ${size} B, ${life}${at ? `, line ${at}` : ""}`;
      const state = at > 0 && at === line ? "live" : "planned";
      return { name, space: space.space, address, bytes: size, from: begin, to: end, state, ring, hint, attribute: `data-line="${at}" data-file="${escaped(file)}"` };
    });
    const share = space.capacity ? `, ${percent(space.peak / space.capacity)} of ${bytes(space.capacity)}` : "";
    const usage = `peak ${bytes(space.peak)}${share}`;
    const label = `${space.space}: ${boxes.length} tiles, ${usage}, at statement ${space.peakAt}`;
    return { title: space.space, note: "stmt", label, boxes, capacity: space.capacity, cursor: null, usage };
  }
}

// --- drawing

const LEFT = 44;
const HEAD = 50;

function draw(drawn: Drawn, width: number): string {
  const { boxes } = drawn;
  const places = [...new Set(boxes.flatMap((box) => (box.ring ? [] : [box.from, box.to])))].sort((a, b) => a - b);
  if (places.length === 0) places.push(0);
  const row = places.length > 40 ? 16 : 22;
  const base = Math.min(...boxes.map((box) => box.address));
  const top = Math.max(...boxes.map((box) => box.address + box.bytes));
  const right = width - 8;
  const x = (address: number): number => LEFT + ((right - LEFT) * (address - base)) / Math.max(1, top - base);
  const y = (place: number): number => HEAD + row * countUpTo(places, place - 1);
  const bottom = HEAD + row * places.length;
  let svg = text(LEFT, 12, drawn.title, 'class="pw-t1"') + text(right, 12, drawn.usage, 'text-anchor="end"');
  svg += usageBar(drawn, right, top);
  svg += text(LEFT, HEAD - 6, `0x${base.toString(16)}`) + text(right, HEAD - 6, `0x${top.toString(16)}`, 'text-anchor="end"');
  svg += text(LEFT - 6, HEAD - 6, drawn.note, 'text-anchor="end"');
  for (const place of places) svg += text(LEFT - 6, y(place) + row / 2 + 3, place, 'text-anchor="end"');
  for (const box of boxes) {
    // A statement reads in the upper half of its row and writes in the lower: what it makes may take what it read last.
    const above = box.ring ? HEAD : y(box.from) + row / 2;
    const high = (box.ring ? bottom : y(box.to) + (box.to > box.from ? row / 2 : row)) - above - 1.5;
    const [left, wide] = [x(box.address), Math.max(3, x(box.address + box.bytes) - x(box.address))];
    const most = Math.floor((wide - 6) / 6.2);
    const label = box.name.length > most ? `${box.name.slice(0, Math.max(0, most - 1))}\u2026` : box.name;
    const words = most > 2 && high > 9 ? text(left + 4, high < 14 ? above + high / 2 + 3.5 : above + 12, label, 'aria-hidden="true"') : "";
    svg += `<g class="pw-life pw-${box.state}${box.ring ? " pw-ring" : ""}" ${box.attribute} data-name="${escaped(box.name)}" role="button" tabindex="0"><title>${escaped(box.hint)}</title>${rect(left, above, wide, high, 'rx="3"')}${words}</g>`;
  }
  if (drawn.capacity !== null && drawn.capacity < top) svg += limit(x(drawn.capacity), bottom, drawn.capacity);
  if (drawn.cursor !== null) {
    const line = HEAD + row * countUpTo(places, drawn.cursor) - row / 2;
    svg += `<path d="M${LEFT - 4} ${line}H${width}" stroke="var(--pw-accent)" stroke-width="1.5"/>`;
  }
  return `<svg width="${width}" height="${bottom + 4}" role="group" aria-label="${escaped(drawn.label)}">${svg}</svg>`;
}

/** How much of the whole memory is used at its fullest: a bar as wide as the memory, its end the capacity. */
function usageBar(drawn: Drawn, right: number, top: number): string {
  if (!drawn.capacity) return "";
  const share = (bytesUsed: number): number => (right - LEFT) * Math.min(1, bytesUsed / (drawn.capacity ?? 1));
  const peak = peakOf(drawn.boxes);
  const over = top > drawn.capacity ? ' class="pw-over"' : "";
  return (
    rect(LEFT, 18, right - LEFT, 7, 'fill="var(--pw-fill)" stroke="var(--pw-edge)" stroke-width=".8" rx="2"') +
    rect(LEFT, 18, share(peak), 7, `fill="var(--pw-lane)" rx="2"${over}`) +
    `<path d="M${LEFT + share(top)} 16v11" stroke="var(--pw-ink)" stroke-width="1.4"/><title>${bytes(peak)} of ${bytes(drawn.capacity)} at the fullest; the stroke is the highest address in use</title>`
  );
}

function limit(at: number, bottom: number, capacity: number): string {
  return `<path d="M${at} ${HEAD - 2}V${bottom}" stroke="var(--pw-bad)" stroke-width="2" stroke-dasharray="5 3"/>` + text(at + 4, bottom - 4, `capacity ${bytes(capacity)}`, 'class="pw-t1"');
}

/** Bytes that boxes cover, each once. */
function covered(boxes: readonly Life[]): number {
  let [total, reached] = [0, -1];
  for (const box of [...boxes].sort((a, b) => a.address - b.address)) {
    total += Math.max(0, box.address + box.bytes - Math.max(box.address, reached));
    reached = Math.max(reached, box.address + box.bytes);
  }
  return total;
}

/** The most bytes in use at one place. */
export function peakOf(boxes: readonly Life[]): number {
  const places = new Set(boxes.map((box) => box.from));
  return Math.max(0, ...[...places].map((at) => covered(boxes.filter((box) => box.from <= at && at <= box.to))));
}

const bytes = (n: number): string => (n >= 1 << 10 && n % (1 << 10) === 0 ? `${n >> 10} KiB` : `${n.toLocaleString("en")} B`);
const percent = (share: number): string => `${Math.round(100 * share)} %`;
