// A tile as a heat map: the full box and its valid part, its place on its tensor, true statistics; or as a table.
import type { Bench, TileMode } from "../bench";
import { cellAt } from "../authors";
import { definitions, paint } from "../colours";
import { dims, escaped, h, rect, shown, text, times } from "../dom";
import { laneClass as laneClassOf, laneTag } from "../lanes";
import { Segments } from "../tabs";
import { blockOf, isValid, type Tile } from "../tiles";
import type { Variable } from "../variables";
import type { Stats } from "../payload";
import { laneState } from "../queues";
import { placeOn, writtenParts, type Place } from "../places";
import { whyText } from "./timeline";
import type { View } from "./view";

const TABLE_ROWS = 16;
const TABLE_COLUMNS = 12;
const MOST_GLYPHS = 24;

interface Box {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

export class TileView implements View {
  readonly element: HTMLElement;
  readonly #head = h("span", { class: "pw-tilehead" });
  readonly #unpin = h("button", { type: "button", class: "pw-link" }, "unpin");
  readonly #modes: Segments;
  readonly #forms: Segments;
  readonly #map = h("div", { class: "pw-tv", tabindex: 0, role: "group" });
  readonly #overview = h("canvas");
  readonly #canvas = h("canvas");
  readonly #drawing = h("div", { class: "pw-drawing" });
  readonly #table = h("div", { class: "pw-scroll pw-cells", tabindex: 0, role: "region", "aria-label": "Cells" });
  readonly #stats = h("div", { class: "pw-stats pw-num" });
  readonly #read = h("span", { class: "pw-read pw-mono" });
  #form: "map" | "table" = "map";
  #page: readonly [number, number] = [0, 0];
  #shown: { readonly variable: Variable; readonly tile: Tile; readonly box: Box } | null = null;
  #cell: readonly [number, number] | null = null;

  constructor(readonly bench: Bench) {
    const choices = (keys: readonly string[]): { key: string; label: string }[] => keys.map((key) => ({ key, label: key }));
    this.#modes = new Segments("Shown numbers", choices(["values", "expected", "difference"]), (key) => {
      bench.mode = key as TileMode;
      bench.changed(false);
    });
    this.#forms = new Segments("Form", choices(["map", "table"]), (key) => {
      if (key === "table" && this.#cell) this.#page = [this.#cell[0] - (this.#cell[0] % TABLE_ROWS), this.#cell[1] - (this.#cell[1] % TABLE_COLUMNS)];
      this.#form = key as "map" | "table";
      bench.changed(false);
    });
    this.#unpin.addEventListener("click", () => {
      bench.pinned = null;
      bench.changed(false);
      this.#map.focus();
    });
    this.#map.append(this.#overview, this.#canvas, this.#drawing);
    const head = h("div", { class: "pw-ph" }, h("h3", {}, "Tile"), this.#head, this.#unpin, h("span", { class: "pw-grow" }), this.#modes.element, this.#forms.element);
    this.element = h("section", { class: "pw-pane pw-tile", "aria-label": "Tile" }, head, this.#map, this.#table, this.#stats);
    this.#map.addEventListener("pointermove", (event) => this.#point(event));
    this.#map.addEventListener("pointerleave", () => this.#choose(null));
    this.#map.addEventListener("click", () => this.#toWriter());
    this.#map.addEventListener("keydown", (event) => this.#key(event));
    this.#table.addEventListener("click", (event) => this.#tableClicked(event));
  }

  draw(): void {
    const variable = this.bench.shownVariable();
    const golden = variable !== null && this.bench.golden.has(variable.binding.value);
    this.#modes.element.hidden = !golden;
    this.#modes.select(this.bench.mode);
    this.#forms.select(this.#form);
    this.#unpin.hidden = this.bench.pinned === null;
    this.#forms.element.hidden = variable?.kind !== "tensor";
    this.#map.hidden = this.#form !== "map" || variable?.kind !== "tensor";
    this.#table.hidden = this.#form !== "table" || variable?.kind !== "tensor";
    this.#head.innerHTML = variable ? this.#title(variable) : "";
    const key = variable?.key ? variable.key + (golden && this.bench.mode !== "values" ? `!${this.bench.mode}` : "") : null;
    const tile = key ? this.bench.tiles.get(key) : undefined;
    this.#shown = null;
    if (!variable || !tile) return this.#nothing(variable, key);
    this.#drawStats(variable, tile.stats, blockOf(tile)); // before the map: it takes the room that is left
    if (this.#form === "map") this.#drawMap(variable, tile);
    else this.#drawTable(variable, tile);
  }

  #title(v: Variable): string {
    const lane = this.bench.laneName(this.bench.cursor.focus.lane);
    const place = this.#place(v);
    const where = place
      ? ` <span>${place.how}&nbsp;<span class="pw-mono">${escaped(place.name)} ${dims(place.shape)}</span>&nbsp;at&nbsp;<span class="pw-mono">${dims(place.offsets)}</span></span>`
      : "";
    return `${laneTag(lane)} <b class="pw-mono pw-strong" data-tile="${escaped(v.name)}">${escaped(v.name)}</b>${where}`;
  }

  #place(v: Variable): Place | null {
    return placeOn(this.bench, v.binding);
  }

  #nothing(variable: Variable | null, key: string | null): void {
    this.#canvas.hidden = this.#overview.hidden = true;
    if (variable?.kind === "tensor") this.#drawStats(variable, key ? this.bench.tiles.statsOf(key) : undefined);
    else this.#stats.replaceChildren();
    const lane = this.bench.laneName(this.bench.cursor.focus.lane);
    const why = key ? this.bench.tiles.refusal(key) : "";
    const message = variable ? why || "\u2026" : `${lane} has no tensor here`;
    this.#drawing.innerHTML = `<p class="pw-empty">${escaped(message)}</p>`;
    this.#map.hidden = false;
    this.#map.setAttribute("aria-label", message);
    this.#table.hidden = true;
  }

  // --- map

  #drawMap(v: Variable, tile: Tile): void {
    const place = this.#place(v);
    const width = this.#map.clientWidth || 400;
    const height = this.#map.clientHeight || 200;
    const over = place ? this.#overviewBox(place, width, height) : null;
    const left = over ? over.x + over.width + 36 : 42;
    const room = { width: Math.max(40, width - left - 54), height: Math.max(24, height - 22) };
    const size = fitted(tile.rows, tile.columns, room.width, room.height);
    const box = { x: left, y: 15, ...size };
    const reach = Math.max(Math.abs(tile.stats.low ?? 0), Math.abs(tile.stats.high ?? 0));
    const [blockRows, blockColumns] = blockOf(tile);
    this.#canvas.hidden = false;
    paint(this.#canvas, this.bench.palette, tile.shown[0], tile.shown[1], tile.data, reach, (r, c) => !isValid(tile, r * blockRows, c * blockColumns));
    placed(this.#canvas, box);
    let svg = definitions(this.bench.prefix);
    svg += this.#hatch(tile, box, v);
    svg += over && place ? this.#drawOverview(place, over, box, v) : "";
    if (!over) this.#overview.hidden = true;
    const lane = "var(--pw-lane)";
    svg += rect(box.x - 1, box.y - 1, box.width + 2, box.height + 2, `fill="none" stroke="${lane}" stroke-width="2"`);
    svg += place ? "" : this.#parts(v, tile, box);
    svg += this.#labels(tile, box, reach, place);
    svg += this.#glyphs(tile, box);
    const cls = this.bench.laneName(this.bench.cursor.focus.lane);
    this.#drawing.innerHTML = `<svg width="${width}" height="${height}" aria-hidden="true" class="${laneClassOf(cls)}">${svg}<g class="pw-cross"></g></svg>`;
    this.#shown = { variable: v, tile, box };
    if (this.#cell && (this.#cell[0] >= tile.rows || this.#cell[1] >= tile.columns)) this.#cell = null;
    this.#map.setAttribute("aria-label", `${v.name}, ${times(v.shape)}, valid ${times(v.valid)}; arrow keys choose a cell, Enter goes to the step that wrote it`);
    this.#cross();
  }

  #overviewBox(place: Place, width: number, height: number): Box {
    const [rows, columns] = matrixOf(place.shape);
    const size = fitted(rows, columns, Math.min(64, width * 0.16), height - 22, 4, 1);
    return { x: 42, y: 15, width: Math.max(10, size.width), height: Math.max(10, size.height) };
  }

  /** The whole tensor with the tile's place on it; what nobody has written yet is hatched. */
  #drawOverview(place: Place, over: Box, box: Box, v: Variable): string {
    const key = this.bench.recording.key(place.tensor, this.bench.cursor.position);
    const whole = this.bench.tiles.get(key);
    this.#overview.hidden = !whole;
    const [rows, columns] = matrixOf(place.shape);
    if (whole) {
      const reach = Math.max(Math.abs(whole.stats.low ?? 0), Math.abs(whole.stats.high ?? 0));
      paint(this.#overview, this.bench.palette, whole.shown[0], whole.shown[1], whole.data, reach, () => false);
      placed(this.#overview, over);
    }
    const sx = over.width / Math.max(1, columns);
    const sy = over.height / Math.max(1, rows);
    const part = { x: over.x + place.column * sx, y: over.y + place.row * sy, width: place.columns * sx, height: place.rows * sy };
    let svg = rect(over.x - 0.5, over.y - 0.5, over.width + 1, over.height + 1, 'fill="none" stroke="var(--pw-edge)"');
    for (const other of place.written) {
      const cls = laneClassOf(this.bench.laneName(other.lane));
      const inset = 1.5;
      svg += `<g class="${cls}">${rect(over.x + other.column * sx + inset, over.y + other.row * sy + inset, other.columns * sx - 2 * inset, other.rows * sy - 2 * inset, 'fill="none" stroke="var(--pw-lane)" stroke-dasharray="2 2"')}</g>`;
    }
    svg += place.unwritten.map((u) => rect(over.x + u.column * sx, over.y + u.row * sy, u.columns * sx, u.rows * sy, `fill="url(#${this.bench.prefix}-hatch)"`)).join("");
    const right = over.x + over.width + 1;
    svg += `<path d="M${right} ${part.y}L${box.x - 1} ${box.y}M${right} ${part.y + part.height}L${box.x - 1} ${box.y + box.height}" stroke="var(--pw-lane)" opacity=".35"/>`;
    svg += rect(part.x - 1, part.y - 1, part.width + 2, part.height + 2, 'fill="none" stroke="var(--pw-lane)" stroke-width="2"');
    const middle = part.y + part.height / 2;
    const range = place.rows > 1 ? `${place.row}\u2013${place.row + place.rows - 1}` : String(place.row);
    svg += text(over.x - 5, middle - 2, "rows", 'text-anchor="end"') + text(over.x - 5, middle + 9, range, 'text-anchor="end" class="pw-t1"');
    return `<g data-place="${escaped(v.name)}">${svg}</g>`;
  }

  /** On a tensor that steps store into: what each lane has written so far. */
  #parts(v: Variable, tile: Tile, box: Box): string {
    const tensor = this.bench.recording.tensor(v.binding.value);
    const parts = tensor && tensor[4] >= 0 ? writtenParts(this.bench, tensor) : [];
    const [sx, sy] = [box.width / Math.max(1, tile.columns), box.height / Math.max(1, tile.rows)];
    return parts
      .filter((p) => p.rows < tile.rows || p.columns < tile.columns)
      .map((p) => {
        const [x, y] = [box.x + p.column * sx + 1, box.y + p.row * sy + 1];
        const style = 'fill="none" stroke="var(--pw-lane)" stroke-width="1.4" stroke-dasharray="3 2"';
        const name = this.bench.laneName(p.lane);
        const label = p.rows * sy >= 11 ? text(box.x + box.width + 58, y + (p.rows * sy) / 2 + 2, name) : "";
        return `<g class="${laneClassOf(name)}" data-part="${escaped(name)}">${rect(x, y, p.columns * sx - 2, p.rows * sy - 2, style)}${label}</g>`;
      })
      .join("");
  }

  #hatch(tile: Tile, box: Box, v: Variable): string {
    const rowHeight = box.height / Math.max(1, tile.rows);
    const fill = `fill="url(#${this.bench.prefix}-hatch)" data-hatch=""`;
    const validWidth = (box.width * tile.validColumns) / Math.max(1, tile.columns);
    let svg = "";
    let from = 0;
    for (const [a, b] of [...tile.validRows, [tile.rows, tile.rows] as const]) {
      if (a > from) svg += rect(box.x, box.y + from * rowHeight, box.width, (a - from) * rowHeight, fill);
      if (b > a && validWidth < box.width) svg += rect(box.x + validWidth, box.y + a * rowHeight, box.width - validWidth, (b - a) * rowHeight, fill);
      from = b;
    }
    if (!svg) return "";
    const last = tile.validRows.at(-1)?.[1] ?? 0;
    const dash = 'stroke="var(--pw-ink)" stroke-width="1.2" stroke-dasharray="4 2"';
    if (last > 0 && last < tile.rows) svg += `<path d="M${box.x} ${box.y + last * rowHeight}h${validWidth}" ${dash}/>`;
    if (last > 0 && validWidth < box.width) svg += `<path d="M${box.x + validWidth} ${box.y}v${last * rowHeight}" ${dash}/>`;
    return svg + this.#hatchLabel(tile, box, v, last * rowHeight);
  }

  #hatchLabel(tile: Tile, box: Box, v: Variable, top: number): string {
    const state = laneState(this.bench.cursor, this.bench.cursor.focus.lane);
    const empty = tile.validRows.length === 0;
    const label = empty ? (state.waiting && v.lastWritten === 0 ? whyText(this.bench, state) : "no valid cell") : "outside the valid shape";
    const height = box.height - top;
    if (height < 20 || box.width < 130) return "";
    const [x, y] = [box.x + box.width / 2, box.y + top + height / 2];
    return rect(x - 62, y - 9, 124, 18, 'rx="4" fill="var(--pw-bg)" stroke="var(--pw-line)"') + text(x, y + 3.5, label, 'text-anchor="middle"');
  }

  #labels(tile: Tile, box: Box, reach: number, place: Place | null): string {
    const [row, column] = place ? [place.row, place.column] : [0, 0];
    const right = box.x + box.width;
    const scale = right + 12;
    let svg = text(box.x, 9, `c ${column}`);
    if (box.width > 60) svg += text(right, 9, `c ${column + tile.columns - 1}`, 'text-anchor="end"');
    svg += text(box.x - 5, box.y + 8, `r ${row}`, 'text-anchor="end"');
    if (box.height > 24) svg += text(box.x - 5, box.y + box.height - 1, `r ${row + tile.rows - 1}`, 'text-anchor="end"');
    svg += rect(scale, box.y, 8, box.height, `fill="url(#${this.bench.prefix}-scale)" rx="1"`);
    if (reach === 0) return svg + text(scale + 12, box.y + box.height / 2 + 3, "0");
    svg += text(scale + 12, box.y + 8, shown(Number(reach.toPrecision(3))));
    if (box.height > 40) svg += text(scale + 12, box.y + box.height / 2 + 3, "0");
    if (box.height > 24) svg += text(scale + 12, box.y + box.height, shown(-Number(reach.toPrecision(3))));
    return svg;
  }

  /** Cells that are not finite get a ring, the first of each kind a tag. */
  #glyphs(tile: Tile, box: Box): string {
    const [rows, columns] = tile.shown;
    const [blockRows, blockColumns] = blockOf(tile);
    const tagged = new Set<string>();
    let svg = "";
    let count = 0;
    for (let i = 0; i < tile.data.length && count < MOST_GLYPHS; i++) {
      const value = tile.data[i] as number;
      const [r, c] = [Math.floor(i / columns), i % columns];
      if (Number.isFinite(value) || !isValid(tile, r * blockRows, c * blockColumns)) continue;
      count++;
      const label = shown(value);
      const x = box.x + ((c + 0.5) * box.width) / columns;
      const y = box.y + ((r + 0.5) * box.height) / rows;
      const side = x > box.x + box.width - 48 ? -24 : 24;
      const tag = tagged.has(label)
        ? ""
        : `<g transform="translate(${side} 0)"><rect x="-14" y="-7" width="28" height="14" rx="3" fill="var(--pw-ink0)"/><text y="3.5" text-anchor="middle" style="fill:var(--pw-bg);font-weight:600">${label}</text></g>`;
      tagged.add(label);
      svg += `<g transform="translate(${x} ${y})" data-glyph="${label}"><circle r="6.5" fill="none" stroke="var(--pw-bg)" stroke-width="3.5"/><circle r="6.5" fill="none" stroke="var(--pw-ink0)" stroke-width="1.4"/>${tag}</g>`;
    }
    return svg;
  }

  // --- statistics and the cell pointed at

  /** Shapes are known from the timeline, so they stand there while the cells are still on their way. */
  #drawStats(v: Variable, stats?: Stats, block: readonly [number, number] = [1, 1]): void {
    const item = (label: string, value: string): HTMLElement => h("span", {}, label, h("b", {}, value));
    const parts: HTMLElement[] = [];
    if (stats && stats.low !== null) {
      parts.push(item("min", stats.lowText), item("max", stats.highText), item("mean", stats.meanText));
    }
    if (stats?.nan) parts.push(item("NaN", String(stats.nan)));
    if (stats?.inf) parts.push(item("Inf", String(stats.inf)));
    parts.push(h("span", { "data-valid": times(v.valid) }, "valid", h("b", {}, times(v.valid)), " of", h("b", {}, times(v.shape))));
    const [rows, columns] = block;
    if (rows * columns > 1) parts.push(h("span", { title: "each cell drawn shows the extreme of a block" }, `blocks of ${rows}\u00d7${columns}`));
    this.#stats.replaceChildren(...parts, this.#read);
  }

  #point(event: PointerEvent): void {
    const { box, tile } = this.#shown ?? {};
    if (!box || !tile) return;
    const area = this.#map.getBoundingClientRect();
    const column = Math.floor(((event.clientX - area.left - box.x) / box.width) * tile.columns);
    const row = Math.floor(((event.clientY - area.top - box.y) / box.height) * tile.rows);
    const inside = row >= 0 && column >= 0 && row < tile.rows && column < tile.columns;
    this.#choose(inside ? [row, column] : null);
  }

  #choose(cell: readonly [number, number] | null): void {
    this.#cell = cell;
    this.#cross();
  }

  #cross(): void {
    const { box, tile, variable } = this.#shown ?? {};
    const place = this.#drawing.querySelector(".pw-cross");
    this.#read.textContent = "";
    this.#map.style.cursor = this.#cell ? "pointer" : "";
    if (!place || !box || !tile || !variable) return;
    place.innerHTML = "";
    if (!this.#cell) return;
    const [row, column] = this.#cell;
    const [cw, ch] = [box.width / tile.columns, box.height / tile.rows];
    place.innerHTML = rect(box.x + column * cw - 1, box.y + row * ch - 1, cw + 2, ch + 2, 'fill="none" stroke="var(--pw-ink0)" stroke-width="1.5"');
    this.#read.textContent = `[${cellAt(variable.shape, row, column).join(", ")}] ${this.#valueAt(tile, row, column)}`;
  }

  #valueAt(tile: Tile, row: number, column: number): string {
    if (!isValid(tile, row, column)) return "not valid";
    const [rows, columns] = blockOf(tile);
    const value = tile.data[Math.floor(row / rows) * tile.shown[1] + Math.floor(column / columns)];
    return `${rows * columns > 1 ? "block " : "= "}${shown(value)}`;
  }

  #toWriter(): void {
    if (this.#shown && this.#cell) this.bench.gotoWriter(this.#shown.variable.binding, ...this.#cell);
  }

  #key(event: KeyboardEvent): void {
    if (!this.#shown || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const { tile } = this.#shown;
    if (event.key === "Enter" && this.#cell) {
      event.preventDefault();
      event.stopPropagation();
      return this.#toWriter();
    }
    const move = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!move) return;
    event.preventDefault();
    event.stopPropagation();
    const [row, column] = this.#cell ?? [0, -(move[1] ?? 0)];
    const at = (now: number, step: number, count: number): number => Math.max(0, Math.min(count - 1, now + step));
    this.#choose([at(row, this.#cell ? (move[0] ?? 0) : 0, tile.rows), at(column, move[1] ?? 0, tile.columns)]);
    this.bench.say(this.#read.textContent ?? "");
  }

  // --- table

  /** True cells, a page of them at a time; where only what is drawn can be had, that, and a line which says so. */
  #drawTable(v: Variable, tile: Tile): void {
    const [blockRows, blockColumns] = blockOf(tile);
    const coarse = blockRows * blockColumns > 1;
    const top = Math.max(0, Math.min(this.#page[0], tile.rows - 1));
    const left = Math.max(0, Math.min(this.#page[1], tile.columns - 1));
    const wanted = { key: tile.key, row: top, column: left, rows: Math.min(TABLE_ROWS, tile.rows - top), columns: Math.min(TABLE_COLUMNS, tile.columns - left) };
    const cells = coarse ? this.bench.tiles.window(wanted) : null;
    const blocks = coarse && cells === null;
    const [rows, columns] = blocks ? tile.shown : [tile.rows, tile.columns];
    const [tall, wide] = blocks ? [blockRows, blockColumns] : [1, 1];
    const first = blocks ? [Math.min(top, rows - 1), Math.min(left, columns - 1)] as const : [top, left] as const;
    const value = (r: number, c: number): string => {
      if (!isValid(tile, r * tall, c * wide)) return "\u00b7";
      if (blocks || !coarse) return shown(tile.data[r * tile.shown[1] + c]);
      return cells ? shown(cells[(r - top) * wanted.columns + (c - left)]) : "\u2026";
    };
    const [bottom, right] = [Math.min(rows, first[0] + TABLE_ROWS), Math.min(columns, first[1] + TABLE_COLUMNS)];
    let head = '<th scope="col"><span class="pw-sr">row</span></th>';
    for (let c = first[1]; c < right; c++) head += `<th scope="col">${c * wide}</th>`;
    let body = "";
    for (let r = first[0]; r < bottom; r++) {
      body += `<tr><th scope="row">${r * tall}</th>`;
      for (let c = first[1]; c < right; c++) {
        const valid = isValid(tile, r * tall, c * wide);
        body += `<td class="${valid ? "" : "pw-invalid"}" data-cell="${r * tall},${c * wide}">${value(r, c)}</td>`;
      }
      body += "</tr>";
    }
    const scroll = this.#table.scrollTop;
    const busy = this.#table.contains(document.activeElement) ? (document.activeElement as HTMLElement).dataset["page"] : undefined;
    this.#table.innerHTML = `<table class="pw-grid"><caption class="pw-sr">${escaped(v.name)}</caption><thead><tr>${head}</tr></thead><tbody>${body}</tbody></table>`;
    if (rows > TABLE_ROWS || columns > TABLE_COLUMNS) this.#table.append(this.#pager(first[0], first[1], rows, columns));
    if (blocks) this.#table.append(h("p", { class: "pw-coarse" }, `Each cell is the extreme of a block of ${blockRows}\u00d7${blockColumns}; the cells themselves are ${this.bench.tiles.coarse(tile.key) || "not here"}.`));
    this.#table.scrollTop = scroll;
    if (busy) this.#table.querySelector<HTMLElement>(`[data-page="${busy}"]`)?.focus();
    this.#canvas.hidden = this.#overview.hidden = true;
    this.#drawing.replaceChildren();
    this.#read.textContent = "";
  }

  #pager(top: number, left: number, rows: number, columns: number): HTMLElement {
    const go = (to: readonly [number, number]): void => {
      this.#page = to;
      this.draw();
    };
    const button = (label: string, name: string, to: readonly [number, number], on: boolean): HTMLElement => {
      const made = h("button", { type: "button", class: "pw-pg", "aria-label": name, disabled: !on, "data-page": name }, label);
      made.addEventListener("click", () => go(to));
      return made;
    };
    const field = (name: string, now: number, count: number, to: (n: number) => readonly [number, number]): HTMLElement => {
      const made = h("input", { type: "number", class: "pw-pgn", "aria-label": `first ${name}`, "data-page": `first ${name}`, min: 0, max: count - 1, value: now });
      made.addEventListener("change", () => go(to(Math.max(0, Math.min(count - 1, Math.floor(Number(made.value) || 0))))));
      return h("label", { class: "pw-pgl" }, name, made, ` of ${count}`);
    };
    return h(
      "div",
      { class: "pw-pager" },
      button("\u2191", "rows before", [Math.max(0, top - TABLE_ROWS), left], top > 0),
      button("\u2193", "rows after", [top + TABLE_ROWS, left], top + TABLE_ROWS < rows),
      button("\u2190", "columns before", [top, Math.max(0, left - TABLE_COLUMNS)], left > 0),
      button("\u2192", "columns after", [top, left + TABLE_COLUMNS], left + TABLE_COLUMNS < columns),
      field("row", top, rows, (n) => [n, left]),
      field("column", left, columns, (n) => [top, n]),
    );
  }

  #tableClicked(event: Event): void {
    const cell = (event.target as HTMLElement).closest<HTMLElement>("[data-cell]");
    const variable = this.bench.shownVariable();
    if (!cell || !variable) return;
    const [row = 0, column = 0] = (cell.dataset["cell"] ?? "").split(",").map(Number);
    this.bench.gotoWriter(variable.binding, row, column);
  }
}

/** A size for so many rows and columns: cells at most `largest` pixels, up to `stretch` times as wide as high. */
function fitted(rows: number, columns: number, width: number, height: number, largest = 10, stretch = 2.2): { width: number; height: number } {
  const tall = Math.min(largest, height / Math.max(1, rows), (stretch * width) / Math.max(1, columns));
  const wide = Math.min(largest, width / Math.max(1, columns), tall * stretch);
  const least = Math.min(14, width, height);
  return { width: Math.max(least, wide * columns), height: Math.max(least, Math.min(tall, wide * stretch) * rows) };
}

function matrixOf(shape: readonly number[]): readonly [number, number] {
  if (shape.length < 2) return [1, shape[0] ?? 1];
  return [shape.slice(0, -1).reduce((a, b) => a * b, 1), shape.at(-1) ?? 1];
}

function placed(canvas: HTMLElement, box: Box): void {
  Object.assign(canvas.style, { left: `${box.x}px`, top: `${box.y}px`, width: `${box.width}px`, height: `${box.height}px` });
}

