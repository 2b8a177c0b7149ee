// The variables of the focused lane: shapes, valid shapes, places in memory, values, and the step that wrote each.
import type { Bench } from "../bench";
import { dims, escaped, h, times } from "../dom";
import { laneClass } from "../lanes";
import type { MemoryRow } from "../payload";
import type { Variable } from "../variables";
import type { View } from "./view";

export class VariablesView implements View {
  readonly element: HTMLElement;
  readonly #box: HTMLElement;
  readonly #hasMemory: boolean;
  #html = "";

  constructor(readonly bench: Bench) {
    this.#hasMemory = bench.hasPlaces;
    this.#box = h("div", { class: "pw-scroll", tabindex: 0, role: "region", "aria-label": "Variables of the focused lane" });
    this.element = h("section", { class: "pw-pane pw-vars", "aria-label": "Variables" }, this.#box);
    this.#box.addEventListener("click", (event) => this.#clicked(event));
    this.#box.addEventListener("pointerover", (event) => this.#light(event.target));
    this.#box.addEventListener("pointerleave", () => this.#light(null));
  }

  draw(): void {
    const { bench } = this;
    const variables = bench.variables();
    const places = new Map(variables.map((v) => [v.name, v.kind === "tensor" ? bench.memoryOf(v.binding) : undefined]));
    const lane = bench.laneName(bench.cursor.focus.lane);
    const columns = ["kind", "shape", "valid", "dtype", ...(this.#hasMemory ? ["space", "address"] : [])];
    const head =
      `<th scope="col">${escaped(lane)} variables <span>${variables.length}</span></th>` +
      columns.map((c) => `<th scope="col">${c}</th>`).join("") +
      '<th scope="col" class="pw-lo">values</th><th scope="col">last written</th>';
    const tile = bench.shownVariable()?.name;
    const rows = variables.map((v) => this.#row(v, places, variables, tile)).join("");
    const html = `<table class="pw-tbl ${laneClass(lane)}"><caption class="pw-sr">Variables of ${escaped(lane)}</caption><thead><tr>${head}</tr></thead><tbody>${rows}</tbody></table>`;
    if (html === this.#html) return;
    this.#html = html;
    this.#box.innerHTML = html;
    const fresh = this.#box.querySelector<HTMLElement>("tr.pw-new.pw-sel, tr.pw-new:not(:has(~ tr.pw-sel))");
    const top = fresh ? fresh.offsetTop : 0;
    if (fresh && (top + 19 > this.#box.scrollTop + this.#box.clientHeight || top - 20 < this.#box.scrollTop)) {
      this.#box.scrollTop = top + 19 - this.#box.clientHeight;
    }
  }

  #row(
    v: Variable,
    places: ReadonlyMap<string, MemoryRow | undefined>,
    all: readonly Variable[],
    tile: string | undefined,
  ): string {
    const { cursor } = this.bench;
    const place = places.get(v.name);
    const by = place ? this.#overwritten(v, place, places, all) : undefined;
    const fresh = !by && v.lastWritten === cursor.position && cursor.position > 0 && this.bench.recording.kindOf(cursor.position) !== 1;
    const classes = [fresh ? "pw-new" : "", by ? "pw-old" : "", v.name === tile ? "pw-sel" : ""].filter(Boolean).join(" ");
    const tensor = v.kind === "tensor";
    const name = tensor
      ? `<button type="button" class="pw-var" data-pin="${escaped(v.name)}" aria-pressed="${this.bench.pinned === v.name}" title="show ${escaped(v.name)} as a tile">${by ? `<s>${escaped(v.name)}</s>` : escaped(v.name)}</button>`
      : escaped(v.name);
    const kind = tensor ? (place ? "tile" : "tensor") : v.kind;
    const stats = tensor && v.key ? this.bench.tiles.statsOf(v.key)?.text : v.text;
    if (tensor && v.key && stats === undefined) this.bench.tiles.get(v.key);
    const values = by ? `<span class="pw-dim pw-sans">memory used by ${escaped(by)}</span>` : escaped(stats ?? "\u2026");
    const memory = this.#hasMemory
      ? `<td>${place?.[3] ?? ""}</td><td class="pw-mono">${place ? `0x${place[4].toString(16)}` : ""}</td>`
      : "";
    const line = this.bench.recording.lineOf(v.lastWritten);
    return (
      `<tr class="${classes}" data-v="${escaped(v.name)}" data-written="${v.lastWritten}"><th scope="row" class="pw-mono">${name}</th><td>${kind}</td>` +
      `<td class="pw-mono">${tensor ? dims(v.shape) : ""}</td><td class="pw-mono">${tensor ? times(v.valid) : ""}</td><td>${v.dtype}</td>${memory}` +
      `<td class="pw-mono pw-lo">${values}</td><td><button type="button" class="pw-link" data-go="${v.lastWritten}">step ${v.lastWritten}</button><span class="pw-dim">${line ? `, ${line}` : ""}</span></td></tr>`
    );
  }

  /** The variable that was written later into the same memory. */
  #overwritten(
    v: Variable,
    place: MemoryRow,
    places: ReadonlyMap<string, MemoryRow | undefined>,
    all: readonly Variable[],
  ): string | undefined {
    const found = all.filter((other) => {
      const there = places.get(other.name);
      if (!there || other === v || there[3] !== place[3] || !this.#later(other, v)) return false;
      return there[4] < place[4] + place[5] && place[4] < there[4] + there[5];
    });
    return found.reduce<Variable | undefined>((last, other) => (last && last.binding.step > other.binding.step ? last : other), undefined)?.name;
  }

  /** Whether a variable was written after another. All that lie in a recorded memory see a write; it is of the variable
   * that got its name with it. */
  #later(other: Variable, v: Variable): boolean {
    const storage = this.bench.recording.tensor(v.binding.value)?.[4] ?? -1;
    if (!this.bench.memories.has(storage)) return other.lastWritten > v.lastWritten;
    return other.binding.step > v.binding.step && this.bench.stores.has(other.binding.step);
  }

  #clicked(event: Event): void {
    const button = (event.target as HTMLElement).closest<HTMLElement>("button");
    if (!button) return;
    const { go, pin } = button.dataset;
    if (go !== undefined) return this.bench.goto(Number(go));
    if (pin === undefined) return;
    this.bench.pinned = this.bench.pinned === pin ? null : pin;
    this.bench.changed(false);
    this.#box.querySelector<HTMLElement>(`[data-pin="${CSS.escape(pin)}"]`)?.focus();
  }

  #light(target: EventTarget | null): void {
    const row = (target as HTMLElement | null)?.closest<HTMLElement>("tr[data-written]");
    const statement = row ? this.bench.recording.statementOf(Number(row.dataset["written"])) : undefined;
    const hot = statement && statement[8] > 0 ? { file: statement[9], line: statement[8] } : null;
    if (hot?.line === this.bench.hot?.line) return;
    this.bench.hot = hot;
    this.bench.changed(false);
  }
}
