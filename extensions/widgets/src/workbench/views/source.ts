// The kernel's text and the torch script, with the line of each lane, and breakpoints in the gutter.
import type { Bench } from "../bench";
import { lineKey, type Line } from "../cursor";
import { highlighted } from "../code";
import { h } from "../dom";
import { laneClass, laneLetter } from "../lanes";
import type { Listing } from "../payload";
import { laneState } from "../queues";
import { TabList } from "../tabs";
import type { View } from "./view";

interface Row {
  readonly element: HTMLElement;
  readonly arrows: HTMLElement;
  readonly number: number;
}

export class SourceView implements View {
  readonly element: HTMLElement;
  readonly #code = h("div", { class: "pw-code", tabindex: 0, role: "region" });
  readonly #off = h("span", { class: "pw-offs" });
  readonly #name = h("span", { class: "pw-srcname" });
  readonly #origin = h("span", { class: "pw-origin" });
  readonly #types: HTMLButtonElement;
  readonly #tabs: TabList;
  readonly #texts: readonly { readonly listing: Listing; readonly file: string | null; readonly label: string }[];
  #chosen = 0;
  readonly #folding = new Map<number, boolean>();
  #rows: Row[] = [];
  #byNumber = new Map<number, Row>();
  #marked: Row[] = [];
  #shown = "";
  #lastLine = "";

  constructor(readonly bench: Bench) {
    const { sources, script } = bench.payload;
    const one = sources.length === 1;
    const own = sources.map((listing) => ({ listing, file: listing.file, label: one ? "DSL" : listing.name }));
    this.#texts = script.lines.length ? [...own, { listing: script, file: null, label: "torch" }] : own;
    this.#tabs = new TabList(
      "Source",
      this.#texts.map((t, i) => ({ key: String(i), label: t.label })),
      `${bench.prefix}-src`,
      (key) => this.show(Number(key)),
    );
    this.#types = h("button", { type: "button", class: "pw-link", "aria-pressed": "false" }, "types");
    this.#types.addEventListener("click", () => {
      this.#folding.set(this.#chosen, !this.#unfolded);
      this.draw();
    });
    const head = h("div", { class: "pw-ph" }, this.#tabs.element, h("span", { class: "pw-grow" }), this.#off, this.#types, this.#origin, this.#name);
    this.#code.id = `${bench.prefix}-src-panel`;
    this.element = h("section", { class: "pw-pane pw-src", "aria-label": "Source" }, head, this.#code);
    this.#code.addEventListener("click", (event) => this.#clicked(event));
    this.#code.addEventListener("scroll", () => this.#showOffScreen());
  }

  /** Shows text number `index` (the last one is the script). */
  show(index: number): void {
    this.#chosen = Math.max(0, Math.min(this.#texts.length - 1, index));
    this.bench.changed(false);
  }

  /** Whether types are written out: as the text says, until the user says otherwise. */
  get #unfolded(): boolean {
    return this.#folding.get(this.#chosen) ?? this.#texts[this.#chosen]?.listing.unfolded ?? false;
  }

  get file(): string | null {
    return this.#texts[this.#chosen]?.file ?? null;
  }

  draw(): void {
    const current = this.#texts[this.#chosen];
    if (!current) return;
    this.#tabs.select(String(this.#chosen));
    this.#name.textContent = current.file === null ? "torch script" : current.listing.name;
    this.#name.hidden = current.label === current.listing.name; // the tab says it
    this.#types.hidden = Object.keys(current.listing.full).length === 0;
    this.#types.setAttribute("aria-pressed", String(this.#unfolded));
    this.#code.setAttribute("aria-label", current.file === null ? "Torch script" : `Source ${current.listing.name}`);
    const key = `${this.#chosen}/${this.#unfolded}`;
    const fresh = this.#shown !== key;
    if (fresh) this.#build(current.listing, current.file);
    this.#shown = key;
    this.#drawBreakpoints(current.file);
    this.#drawLanes(current.file, fresh);
    this.#drawOrigin(current.file);
    this.#showOffScreen();
  }

  #build(listing: Listing, file: string | null): void {
    const stepped = new Set<number>();
    for (const s of this.bench.payload.timeline.statements) {
      if (file === null) stepped.add(s[2]);
      else if (s[9] === file && s[8] > 0) stepped.add(s[8]);
    }
    this.#byNumber = new Map();
    this.#marked = [];
    this.#rows = listing.lines.map((line, i) => {
      const number = listing.first + i;
      const shown = this.#unfolded ? (listing.full[number] ?? line) : line;
      const arrows = h("span", { class: "pw-arrows" });
      const code = h("code");
      code.innerHTML = highlighted(shown, listing.name.endsWith(".pto") ? "pto" : "python");
      const stops = stepped.has(number);
      const gutter = stops
        ? h("button", { type: "button", class: "pw-bp", "data-line": number, "aria-pressed": "false", "aria-label": `Breakpoint, line ${number}`, tabindex: -1 })
        : h("span");
      const element = h("div", { class: "pw-ln", "data-n": number }, gutter, h("span", { class: `pw-no${stops ? " pw-exec" : ""}` }, String(number)), arrows, code);
      const row = { element, arrows, number };
      this.#byNumber.set(number, row);
      return row;
    });
    this.#code.replaceChildren(h("div", { class: "pw-lines" }, ...this.#rows.map((row) => row.element)));
  }

  #drawBreakpoints(file: string | null): void {
    const { breakpoints } = this.bench.cursor;
    for (const button of this.#code.querySelectorAll<HTMLElement>(".pw-bp")) {
      const on = breakpoints.has(lineKey({ file, line: Number(button.dataset["line"]) }));
      if ((button.getAttribute("aria-pressed") === "true") !== on) button.setAttribute("aria-pressed", String(on));
    }
  }

  #drawLanes(file: string | null, fresh: boolean): void {
    const { cursor } = this.bench;
    for (const row of this.#marked) {
      row.arrows.replaceChildren();
      row.element.className = "pw-ln";
      row.element.removeAttribute("aria-current");
    }
    this.#marked = [];
    let here: Row | undefined;
    for (const lane of this.bench.lanes) {
      const row = this.#byNumber.get(this.bench.lineIn(cursor.lastStep(lane), file) ?? -1);
      if (!row) continue;
      this.#marked.push(row);
      const name = this.bench.laneName(lane);
      const focused = lane === cursor.focus.lane;
      const arrow = h("span", { class: `pw-arr ${laneClass(name)}${focused ? "" : " pw-off"}`, title: `${name}, ${laneState(cursor, lane).status}`, "data-lane": name }, laneLetter(name));
      row.arrows.append(arrow);
      if (!focused) continue;
      here = row;
      row.element.classList.add("pw-cur", laneClass(name));
      row.element.setAttribute("aria-current", "step");
    }
    const hot = this.bench.hot?.file === file ? this.#byNumber.get(this.bench.hot?.line ?? -1) : undefined;
    if (hot) {
      hot.element.classList.add("pw-hot");
      this.#marked.push(hot);
    }
    const line = `${this.#chosen}/${here?.number ?? ""}`;
    if (here && (fresh || line !== this.#lastLine)) {
      this.#scrollTo(here, fresh);
      this.#code.scrollLeft = 0; // whoever looked at the end of a long line sees the next one from its beginning
    }
    this.#lastLine = line;
  }

  /** Where the focused lane's statement comes from, when the text shown was made from a kernel. */
  #drawOrigin(file: string | null): void {
    const step = this.bench.cursor.lastStep();
    const statement = step ? this.bench.recording.statementOf(step) : undefined;
    const origin = statement && file !== null && statement[9] === file ? statement[12] : "";
    this.#origin.hidden = !origin;
    this.#origin.textContent = origin ? `from ${origin}` : "";
    this.#origin.title = origin ? `This instruction was made from ${origin}` : "";
  }

  #scrollTo(row: Row, always: boolean): void {
    const top = row.element.offsetTop;
    const { scrollTop, clientHeight } = this.#code;
    if (always || top < scrollTop + 34 || top > scrollTop + clientHeight - 51) {
      this.#code.scrollTop = Math.round((top - clientHeight * 0.5) / 17) * 17;
    }
  }

  /** Lanes whose line is out of view get a link in the header. */
  #showOffScreen(): void {
    const { cursor } = this.bench;
    const top = this.#code.scrollTop;
    const bottom = top + this.#code.clientHeight;
    const links: HTMLElement[] = [];
    for (const lane of this.bench.lanes) {
      const row = this.#byNumber.get(this.bench.lineIn(cursor.lastStep(lane), this.file) ?? -1);
      if (!row || (row.element.offsetTop >= top - 4 && row.element.offsetTop + 13 <= bottom)) continue;
      const name = this.bench.laneName(lane);
      const above = row.element.offsetTop < top;
      const arrow = h("span", { class: `pw-arr ${laneClass(name)}${lane === cursor.focus.lane ? "" : " pw-off"}` }, laneLetter(name));
      links.push(h("button", { type: "button", "data-seek": row.number, title: `${name} is at line ${row.number}, out of view` }, arrow, `${row.number}${above ? "\u2191" : "\u2193"}`));
    }
    const state = links.map((link) => link.title).join();
    if (this.#off.dataset["state"] === state) return;
    this.#off.dataset["state"] = state;
    this.#off.replaceChildren(...links);
    for (const link of links) {
      link.addEventListener("click", () => {
        const row = this.#byNumber.get(Number(link.dataset["seek"]));
        if (row) this.#scrollTo(row, true);
      });
    }
  }

  #clicked(event: Event): void {
    const target = event.target as HTMLElement;
    const row = target.closest<HTMLElement>(".pw-ln");
    if (!row || !row.querySelector(".pw-bp") || String(getSelection() ?? "") !== "") return;
    this.toggle({ file: this.file, line: Number(row.dataset["n"]) });
  }

  /** Scrolls to a line and lights it up; false where no text has it. */
  reveal(line: Line): boolean {
    const at = this.#texts.findIndex((t) => t.file === line.file);
    const listing = this.#texts[at]?.listing;
    if (!listing || line.line < listing.first || line.line >= listing.first + listing.lines.length) return false;
    this.#chosen = at;
    this.bench.hot = line;
    this.draw();
    const row = this.#byNumber.get(line.line);
    if (row) this.#scrollTo(row, true);
    return row !== undefined;
  }

  toggle(line: Line): void {
    const on = this.bench.cursor.toggleBreakpoint(line);
    this.bench.changed(false);
    this.bench.say(`breakpoint ${on ? "set" : "removed"}, line ${line.line}`);
  }

  /** The line where the focused lane stands in the text shown. */
  get currentLine(): Line | null {
    const line = this.bench.lineIn(this.bench.cursor.lastStep(), this.file);
    return line === null ? null : { file: this.file, line };
  }
}
