// The compiler's stages: which functions each changed, its findings and error, the difference as text and as a graph.
import type { Bench } from "../bench";
import { highlighted, numbered } from "../code";
import { escaped, h, shown } from "../dom";
import { Listed, type Item } from "../listed";
import type { Stage } from "../payload";
import { Segments } from "../tabs";
import { findingRows } from "./checks";
import type { View } from "./view";

type Form = "diff" | "graph" | "program";

const SIGNS: Readonly<Record<string, string>> = { added: "+", removed: "\u2212", moved: "\u2192", changed: "~" };

export class PassesView implements View {
  readonly element: HTMLElement;
  readonly #listed: Listed;
  readonly #forms: Segments;
  readonly #only = h("button", { type: "button", class: "pw-link", "aria-pressed": "false" }, "changed only");
  readonly #head = h("div", { class: "pw-passhead" });
  readonly #body = h("div", { class: "pw-scroll pw-listed", tabindex: 0, role: "region", "aria-label": "What the pass did" });
  #form: Form = "diff";
  #drawn = "";

  constructor(readonly bench: Bench) {
    const { stages } = bench.payload;
    this.#forms = new Segments("Form", ["diff", "graph", "program"].map((key) => ({ key, label: key === "diff" ? "text diff" : key })), (key) => {
      this.#form = key as Form;
      this.draw();
    });
    const effective = stages.filter((stage, i) => i > 0 && stage.changed).length;
    const count = h("span", { class: "pw-dim" }, `${effective} of ${Math.max(0, stages.length - 1)} changed something`);
    this.#only.addEventListener("click", () => {
      const on = this.#only.getAttribute("aria-pressed") !== "true";
      this.#only.setAttribute("aria-pressed", String(on));
      this.#listed.fill(this.#items(on));
      this.#listed.draw();
    });
    const bar = h("div", { class: "pw-ph" }, this.#head, h("span", { class: "pw-grow" }), this.#forms.element);
    const pane = h("div", { class: "pw-listedpane" }, bar, this.#body);
    const first = Math.max(0, stages.findIndex((stage, i) => i > 0 && stage.changed));
    this.#listed = new Listed("Passes", this.#items(false), pane, () => this.#show(), first, h("div", { class: "pw-ph" }, count, h("span", { class: "pw-grow" }), this.#only));
    this.element = this.#listed.element;
    this.#body.addEventListener("click", (event) => this.#clicked(event.target));
    this.#body.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      if (this.#clicked(event.target)) {
        event.preventDefault();
        event.stopPropagation();
      }
    });
  }

  #items(only: boolean): Item[] {
    return this.bench.payload.stages.map((stage, i) => ({ html: row(stage, i), hidden: only && i > 0 && !stage.changed }));
  }

  draw(): void {
    this.#listed.draw();
  }

  #show(): void {
    const at = this.#listed.chosen;
    const stage = this.bench.payload.stages[at];
    if (!stage) return;
    this.#forms.select(this.#form);
    this.#head.innerHTML = `<h3>${escaped(stage.file)}</h3><span>${escaped(summary(stage, at))}</span>`;
    const detail = this.#form === "diff" ? "" : this.bench.stage(at);
    const key = `${at}/${this.#form}/${typeof detail === "string" ? detail : "detail"}`;
    if (key === this.#drawn) return;
    const before = this.#drawn;
    this.#drawn = key;
    this.#body.classList.toggle("pw-graph", this.#form === "graph");
    this.#body.innerHTML = notes(stage) + (this.#form === "diff" ? diff(stage) : this.#detail(at));
    if (!before.startsWith(`${at}/${this.#form}/`)) this.#body.scrollTop = this.#body.scrollLeft = 0;
    if (this.#form === "graph") this.#finishGraph(at);
  }

  /** The graph or the program, once it is here. */
  #detail(at: number): string {
    const detail = this.bench.stage(at);
    if (typeof detail === "string") return `<p class="pw-empty">${escaped(detail)}</p>`;
    if (this.#form === "program") return `<div class="pw-textlines">${numbered(detail.text, "python")}</div>`;
    if (!detail.svg) return `<p class="pw-empty">${at === 0 ? "Nothing stands before the first stage." : "The graph is the same as before."}</p>`;
    const used = new Set(Object.values(detail.marks));
    const legend = Object.entries(SIGNS)
      .filter(([mark]) => used.has(mark))
      .map(([mark, sign]) => `<span class="pw-g-key"><svg class="pl-graph" width="26" height="18" aria-hidden="true"><g class="pl-n pw-g-${mark}"><rect x="1.500" y="1.500" width="23" height="15" rx="3"/></g><text x="13" y="13" text-anchor="middle">${sign}</text></svg>${mark}</span>`)
      .join("");
    return `<div class="pw-g-legend">${legend}<span class="pw-dim">${escaped(detail.summary)}</span></div>${detail.svg.replaceAll("PREFIX-", this.#prefix)}`;
  }

  get #prefix(): string {
    return `${this.bench.prefix}p-`;
  }

  #finishGraph(at: number): void {
    const detail = this.bench.stage(at);
    if (typeof detail === "string") return;
    this.#body.querySelector(":scope > svg")?.setAttribute("role", "group");
    let first: Element | undefined;
    for (const [id, mark] of Object.entries(detail.marks)) {
      const node = this.#body.querySelector(`[id="${CSS.escape(this.#prefix + id)}"]`);
      node?.classList.add(`pw-g-${mark}`);
      first ??= node ?? undefined;
    }
    for (const node of this.#body.querySelectorAll<SVGGElement>("g.node[data-line]")) {
      const words = [...node.querySelectorAll("text")].map((t) => t.textContent?.trim()).join(" ");
      node.setAttribute("role", "button");
      node.setAttribute("tabindex", "0");
      const title = node.querySelector(":scope > title");
      if (title) title.textContent = `${words}: show line ${node.dataset["line"]}\n${title.textContent ?? ""}`; // names it, too
    }
    if (first && this.#body.clientHeight) {
      const [box, area] = [first.getBoundingClientRect(), this.#body.getBoundingClientRect()];
      if (box.bottom > area.bottom) this.#body.scrollTop += box.top - area.top - area.height / 3;
      if (box.right > area.right) this.#body.scrollLeft += box.left - area.left - 24;
    }
  }

  #clicked(target: EventTarget | null): boolean {
    const element = target as Element | null;
    const node = element?.closest<SVGGElement>("g.node[data-line]");
    const link = element?.closest<HTMLElement>("button[data-line]");
    if (node) this.bench.reveal({ file: this.bench.mainFile, line: Number(node.dataset["line"]) });
    else if (link) this.bench.reveal({ file: link.dataset["file"] ?? null, line: Number(link.dataset["line"]) });
    return Boolean(node ?? link);
  }
}

function row(stage: Stage, index: number): string {
  const bad = stage.status === "mismatch" || stage.status === "error";
  const mark = stage.changed ? `<b class="pw-changed">${index ? "changed" : "first"}</b>` : '<span class="pw-dim">same</span>';
  const error = bad ? `<b class="pw-wrong">\u2717 ${stage.status}</b>` : stage.error !== null ? `<span class="pw-dim">err ${shown(stage.error)}</span>` : "";
  const found = stage.findings.length ? `<b class="pw-wrong" title="findings">! ${stage.findings.length}</b>` : "";
  return `<span class="pw-no">${String(stage.number).padStart(2, "0")}</span><span class="pw-pass">${escaped(stage.name)}</span>${found}${error}${mark}`;
}

function summary(stage: Stage, index: number): string {
  if (index === 0) return "what the reader gave the passes";
  if (!stage.changed) return "the same as the stage before";
  const lines = stage.diff.length ? `${stage.added} lines in, ${stage.removed} out` : "the text is the same";
  return stage.functions.length ? `${lines}, in ${stage.functions.join(", ")}` : lines;
}

function notes(stage: Stage): string {
  const message = stage.message ? `<p class="pw-note">${escaped(stage.message)}</p>` : "";
  return message + (stage.findings.length ? `<div class="pw-found">${findingRows(stage.findings)}</div>` : "");
}

function diff(stage: Stage): string {
  const rows = stage.diff.map((line) => {
    const kind = line.startsWith("@@") ? "at" : line.startsWith("+") ? "in" : line.startsWith("-") ? "out" : "ctx";
    const body = kind === "at" ? escaped(line) : escaped(line.slice(0, 1)) + highlighted(line.slice(1));
    return `<span class="pw-d-${kind}">${body || " "}</span>`;
  });
  return rows.length ? `<pre class="pw-diff">${rows.join("\n")}</pre>` : "";
}
