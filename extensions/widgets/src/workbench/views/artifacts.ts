// The files of a build by what they are for, each with what became of it, and its text; a line that is stepped is marked.
import type { Bench } from "../bench";
import { numbered, type Language } from "../code";
import { escaped, h } from "../dom";
import { laneClass, laneLetter } from "../lanes";
import { Listed } from "../listed";
import type { Artifact } from "../payload";
import type { View } from "./view";

const GLYPH: Readonly<Record<string, string>> = { executed: "\u25cf", simulated: "\u25d0", written: "\u25cb", missing: "\u2715" };

export class ArtifactsView implements View {
  readonly element: HTMLElement;
  readonly #listed: Listed;
  readonly #head = h("div", { class: "pw-ph" });
  readonly #body = h("div", { class: "pw-scroll pw-listed pw-textlines", tabindex: 0, role: "region", "aria-label": "Text of the file" });
  #drawn = -1;
  #at = "";

  constructor(readonly bench: Bench) {
    const { artifacts } = bench.payload;
    const items = artifacts.map((a) => ({ group: a.role, html: row(a) }));
    const stepped = artifacts.findIndex((a) => this.#fileOf(a) !== null);
    const pane = h("div", { class: "pw-listedpane" }, this.#head, this.#body);
    this.#listed = new Listed("Artifacts", items, pane, () => this.#show(), Math.max(0, stepped));
    this.element = this.#listed.element;
    this.#body.addEventListener("click", (event) => {
      const line = (event.target as HTMLElement).closest<HTMLElement>(".pw-steps");
      const file = this.#fileOf(artifacts[this.#listed.chosen]);
      if (line && file !== null && String(getSelection() ?? "") === "") bench.gotoLine({ file, line: Number(line.dataset["n"]) });
    });
  }

  /** The recorded text that an artifact is, null where the run did not step it. */
  #fileOf(artifact: Artifact | undefined): string | null {
    const name = artifact?.name ?? "";
    const { files } = this.bench.payload.timeline;
    const short = name.split("/").pop() ?? name;
    return files.find((f) => f === name || f.endsWith(`/${name}`)) ?? files.find((f) => f === short && short.endsWith(".pto")) ?? null;
  }

  /** Shows a line of a file by its name; false where there is no such file here. */
  reveal(file: string, line: number): boolean {
    const short = (name: string): string => name.split("/").pop() ?? name;
    const at = this.bench.payload.artifacts.findIndex((a) => a.text && (a.name === file || short(a.name) === short(file)));
    if (at < 0) return false;
    this.#listed.choose(at);
    const row = this.#body.querySelector<HTMLElement>(`[data-n="${line}"]`);
    row?.classList.add("pw-hot");
    if (row) this.#body.scrollTop = row.offsetTop - this.#body.clientHeight / 2;
    return row !== null;
  }

  draw(): void {
    this.#listed.draw();
  }

  #show(): void {
    const at = this.#listed.chosen;
    const found = this.bench.payload.artifacts[at];
    if (!found) return;
    if (this.#drawn !== at) {
      this.#drawn = at;
      this.#at = "";
      const file = this.#fileOf(found);
      const steps = new Set(this.bench.payload.timeline.statements.filter((s) => s[9] === file && file !== null).map((s) => s[8]));
      const note = found.note ? `<span>${escaped(found.note)}</span>` : "";
      this.#head.innerHTML = `<h3>${escaped(found.name)}</h3>${state(found)}${note}`;
      this.#body.innerHTML = found.text
        ? numbered(found.text, found.language as Language, (line) => (steps.has(line) ? "pw-steps" : ""), steps.size > 0)
        : `<p class="pw-empty">${found.state === "missing" ? "This build has no such file." : "There is no text to show."}</p>`;
      this.#body.scrollTop = 0;
    }
    this.#mark(this.#fileOf(found));
  }

  /** The line of each lane, as in the source. */
  #mark(file: string | null): void {
    if (file === null) return;
    const { bench } = this;
    const at = bench.lanes.map((lane) => [lane, bench.lineIn(bench.cursor.lastStep(lane), file)] as const);
    const state = `${at.join()}/${bench.cursor.focus.lane}`;
    if (state === this.#at) return;
    this.#at = state;
    for (const old of this.#body.querySelectorAll(".pw-cur, .pw-arr")) {
      if (old.classList.contains("pw-arr")) old.remove();
      else old.className = "pw-tl pw-steps";
    }
    for (const [lane, line] of at) {
      const row = line === null ? null : this.#body.querySelector<HTMLElement>(`[data-n="${line}"]`);
      if (!row) continue;
      const name = bench.laneName(lane);
      const focused = lane === bench.cursor.focus.lane;
      row.querySelector(".pw-arrows")?.append(h("span", { class: `pw-arr ${laneClass(name)}${focused ? "" : " pw-off"}`, title: name }, laneLetter(name)));
      if (!focused) continue;
      row.classList.add("pw-cur", laneClass(name));
      const top = row.offsetTop;
      if (top < this.#body.scrollTop + 34 || top > this.#body.scrollTop + this.#body.clientHeight - 51) this.#body.scrollTop = top - this.#body.clientHeight / 2;
    }
  }
}

function state(a: Artifact): string {
  return `<span class="pw-state pw-s-${a.state}"><i aria-hidden="true">${GLYPH[a.state] ?? ""}</i>${escaped(a.words)}</span>`;
}

function row(a: Artifact): string {
  const at = a.name.lastIndexOf("/") + 1;
  const folder = at ? `<span class="pw-dim">${escaped(a.name.slice(0, at))}</span>` : "";
  const short = a.state in GLYPH ? a.state : a.words; // the words in full stand above the text
  return `<span class="pw-pass" title="${escaped(a.name)}, ${escaped(a.words)}">${folder}${escaped(a.name.slice(at))}</span>${state({ ...a, words: short })}`;
}
