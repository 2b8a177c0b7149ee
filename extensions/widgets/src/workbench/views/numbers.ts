// Outputs against their golden: verdict, error map, spread of the errors, likely causes.
import type { Bench } from "../bench";
import { definitions, paint } from "../colours";
import { dims, escaped, h, rect, shown, text } from "../dom";
import type { OutputNumbers } from "../payload";
import { Segments } from "../tabs";
import { blockOf } from "../tiles";
import type { View } from "./view";

/** Errors in tolerances beyond which all share the outermost bars (`numbers.py`). */
const WIDEST = 100;

export class NumbersView implements View {
  readonly element = h("div", { class: "pw-numbers" });
  readonly #choice: Segments | null;
  readonly #head = h("div", { class: "pw-ph" });
  readonly #map = h("div", { class: "pw-map" });
  readonly #canvas = h("canvas");
  readonly #drawing = h("div", { class: "pw-drawing" });
  readonly #bars = h("div", { class: "pw-hist" });
  readonly #report = h("div", { class: "pw-scroll pw-report", tabindex: 0, role: "region", "aria-label": "Report" });
  #output = 0;

  constructor(readonly bench: Bench) {
    const { numbers } = bench.payload;
    this.#choice =
      numbers.length > 1
        ? new Segments("Output", numbers.map((n, i) => ({ key: String(i), label: n.name })), (key) => {
            this.#output = Number(key);
            bench.changed(false);
          })
        : null;
    this.#map.append(this.#canvas, this.#drawing);
    const pane = (title: string, note: string, body: HTMLElement): HTMLElement =>
      h("section", { class: "pw-pane", "aria-label": title }, h("div", { class: "pw-ph" }, h("h3", {}, title), h("span", {}, note)), body);
    this.element.append(
      this.#head,
      pane("Error map", "error / tolerance", this.#map),
      pane("Errors", "error / tolerance, cells per bar, log", this.#bars),
      pane("Report", "", this.#report),
    );
  }

  draw(): void {
    const found = this.bench.payload.numbers[this.#output];
    if (!found) return;
    this.#choice?.select(String(this.#output));
    const mark = found.ok ? '<b class="pw-good">match</b>' : '<b class="pw-wrong">mismatch</b>';
    const facts = h("span", { class: "pw-num" });
    facts.innerHTML = `${mark} <span class="pw-mono">${escaped(found.name)} ${dims(found.shape)}</span> ${found.dtype}, rtol ${found.rtol}, atol ${found.atol}`;
    const count = h("span", { class: "pw-num" }, h("b", { class: "pw-strong" }, String(found.wrong)), ` of ${found.total} cells outside tolerance`);
    this.#head.replaceChildren(...(this.#choice ? [this.#choice.element] : []), facts, h("span", { class: "pw-grow" }), count);
    this.#report.replaceChildren(h("pre", {}, found.lines.join("\n")));
    this.#drawMap(found);
    this.#drawBars(found);
  }

  #drawMap(found: OutputNumbers): void {
    const tile = found.key ? this.bench.tiles.get(found.key) : undefined;
    this.#canvas.hidden = !tile;
    if (!tile) {
      this.#drawing.innerHTML = `<p class="pw-empty">${found.key ? "\u2026" : escaped(found.message)}</p>`;
      return;
    }
    const room = { width: (this.#map.clientWidth || 250) - 96, height: (this.#map.clientHeight || 380) - 34 };
    const cell = Math.min(8, room.width / tile.columns, room.height / tile.rows);
    const box = { x: 44, y: 15, width: Math.max(24, cell * tile.columns), height: Math.max(24, cell * tile.rows) };
    const reach = Math.max(1, Math.min(100, Math.max(Math.abs(tile.stats.low ?? 0), Math.abs(tile.stats.high ?? 0))));
    paint(this.#canvas, this.bench.palette, tile.shown[0], tile.shown[1], tile.data, reach, () => false);
    Object.assign(this.#canvas.style, { left: `${box.x}px`, top: `${box.y}px`, width: `${box.width}px`, height: `${box.height}px` });
    const scale = box.x + box.width + 12;
    let svg = definitions(`${this.bench.prefix}n`);
    svg += rect(box.x - 0.5, box.y - 0.5, box.width + 1, box.height + 1, 'fill="none" stroke="var(--pw-edge)"');
    svg += text(box.x, 9, "c 0") + text(box.x - 5, box.y + 8, "r 0", 'text-anchor="end"');
    if (box.width > 50) svg += text(box.x + box.width, 9, `c ${tile.columns - 1}`, 'text-anchor="end"');
    svg += text(box.x - 5, box.y + box.height - 1, `r ${tile.rows - 1}`, 'text-anchor="end"');
    svg += rect(scale, box.y, 8, box.height, `fill="url(#${this.bench.prefix}n-scale)" rx="1"`);
    svg += text(scale + 12, box.y + 8, `+${shown(Number(reach.toPrecision(3)))}`) + text(scale + 12, box.y + box.height, `\u2212${shown(Number(reach.toPrecision(3)))}`);
    const [rows, columns] = blockOf(tile);
    if (rows * columns > 1) svg += text(box.x, box.y + box.height + 14, `worst of blocks of ${rows}\u00d7${columns}`);
    const label = `Error map of ${found.name}: ${found.wrong} of ${found.total} cells outside tolerance`;
    this.#drawing.innerHTML = `<svg width="100%" height="100%" role="img" aria-label="${escaped(label)}">${svg}</svg>`;
  }

  #drawBars(found: OutputNumbers): void {
    const width = Math.max(180, (this.#bars.clientWidth || 250) - 16);
    const height = Math.max(140, (this.#bars.clientHeight || 320) - 40);
    const { bars, reach } = found;
    if (bars.length === 0) {
      this.#bars.innerHTML = `<p class="pw-empty">${escaped(found.message)}</p>`;
      return;
    }
    const plot = width - 34;
    const top = Math.max(...bars, 1);
    const level = (n: number): number => (n ? (height - 14) * (0.06 + (0.94 * Math.log10(n)) / Math.max(1, Math.log10(top))) : 0);
    let svg = "";
    for (let tick = 1; tick <= top; tick *= 10) {
      svg += `<path d="M0 ${height - level(tick)}h${plot}" stroke="var(--pw-line2)"/>` + text(width - 2, height - level(tick) + 3.5, tick, 'text-anchor="end"');
    }
    const bar = plot / bars.length;
    bars.forEach((n, i) => {
      const middle = Math.abs(i + 0.5 - bars.length / 2) * ((2 * reach) / bars.length);
      const colour = middle > 1 ? "var(--pw-bad)" : "var(--pw-accent)";
      svg += rect(i * bar + 0.5, height - level(n), bar - 1, level(n), `fill="${colour}"`);
    });
    svg += `<path d="M0 ${height}h${plot}" stroke="var(--pw-edge)"/>` + text(plot / 2, height + 14, "0", 'text-anchor="middle"');
    const end = shown(Number(reach.toPrecision(3)));
    const open = reach >= WIDEST; // the outermost bars hold all that is farther off
    svg += text(0, height + 14, `${open ? "\u2264 " : ""}\u2212${end}`) + text(plot, height + 14, `${open ? "\u2265 " : ""}+${end}`, 'text-anchor="end"');
    const left = found.leftOut ? `, ${found.leftOut} cells are not finite` : "";
    this.#bars.innerHTML = `<svg width="${width}" height="${height + 20}" role="img" aria-label="Errors of ${escaped(found.name)} from ${-reach} to ${reach} tolerances${left}">${svg}</svg>`;
  }
}
