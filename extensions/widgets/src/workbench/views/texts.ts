// Passes, artifacts and checks: lists with text beside them.
import type { Bench } from "../bench";
import { escaped, h, shown } from "../dom";
import type { Stage } from "../payload";
import type { View } from "./view";

/** A list of buttons and the text of the chosen one. */
class Listed implements View {
  readonly element: HTMLElement;
  readonly #list: HTMLElement;
  readonly #body: HTMLElement;
  #chosen: number;
  #drawn = -1;

  constructor(
    label: string,
    items: readonly string[],
    readonly render: (index: number) => string,
    first = 0,
  ) {
    this.#chosen = first;
    this.#list = h("div", { class: "pw-list pw-scroll", role: "listbox", "aria-label": label, tabindex: 0 });
    this.#list.innerHTML = items.map((item, i) => `<div role="option" data-i="${i}" id="">${item}</div>`).join("");
    this.#body = h("div", { class: "pw-scroll pw-listed", tabindex: 0, role: "region", "aria-label": `${label}: text` });
    this.element = h("div", { class: "pw-listing" }, this.#list, this.#body);
    for (const option of this.#list.children) option.removeAttribute("id");
    this.#list.addEventListener("click", (event) => {
      const option = (event.target as HTMLElement).closest<HTMLElement>("[data-i]");
      if (option) this.#choose(Number(option.dataset["i"]));
    });
    this.#list.addEventListener("keydown", (event) => {
      const move = { ArrowDown: 1, ArrowUp: -1, Home: -items.length, End: items.length }[event.key];
      if (!move || event.altKey || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      event.stopPropagation();
      this.#choose(Math.max(0, Math.min(items.length - 1, this.#chosen + move)));
    });
  }

  #choose(index: number): void {
    this.#chosen = index;
    this.draw();
  }

  draw(): void {
    if (this.#drawn === this.#chosen) return;
    this.#drawn = this.#chosen;
    [...this.#list.children].forEach((option, i) => option.setAttribute("aria-selected", String(i === this.#chosen)));
    const option = this.#list.children[this.#chosen] as HTMLElement | undefined;
    if (option && this.#list.clientHeight) {
      const { offsetTop } = option;
      if (offsetTop < this.#list.scrollTop || offsetTop + 22 > this.#list.scrollTop + this.#list.clientHeight) {
        this.#list.scrollTop = offsetTop - this.#list.clientHeight / 2;
      }
    }
    this.#body.innerHTML = this.render(this.#chosen);
    this.#body.scrollTop = 0;
  }
}

export function passesView(bench: Bench): View {
  const { stages } = bench.payload;
  const item = (stage: Stage): string => {
    const bad = stage.status === "mismatch" || stage.status === "error";
    const mark = stage.changed ? '<b class="pw-changed">changed</b>' : '<span class="pw-dim">same</span>';
    const error = bad ? `<b class="pw-wrong">${stage.status}</b>` : stage.error !== null ? `<span class="pw-dim">err ${shown(stage.error)}</span>` : "";
    return `<span class="pw-no">${String(stage.number).padStart(2, "0")}</span><span class="pw-pass">${escaped(stage.name)}</span>${error}${mark}`;
  };
  const first = Math.max(0, stages.findIndex((stage, i) => i > 0 && stage.changed));
  return new Listed("Passes", stages.map(item), (i) => passText(stages[i]), first);
}

function passText(stage: Stage | undefined): string {
  if (!stage) return "";
  const what = stage.diff.length
    ? `${stage.added} lines in, ${stage.removed} out`
    : stage.changed
      ? "the first dump"
      : "the same text as the stage before";
  const message = stage.message ? `<p class="pw-note">${escaped(stage.message)}</p>` : "";
  const rows = stage.diff.map((row) => {
    const kind = row.startsWith("@@") ? "at" : row.startsWith("+") ? "in" : row.startsWith("-") ? "out" : "ctx";
    return `<span class="pw-d-${kind}">${escaped(row) || " "}</span>`;
  });
  return `<h3>${escaped(stage.file)} <span class="pw-dim">${what}</span></h3>${message}<pre class="pw-diff">${rows.join("\n")}</pre>`;
}

export function artifactsView(bench: Bench): View {
  const { artifacts } = bench.payload;
  const render = (i: number): string => {
    const found = artifacts[i];
    return found ? `<h3>${escaped(found.name)}</h3><pre>${escaped(found.text)}</pre>` : "";
  };
  return new Listed("Artifacts", artifacts.map((a) => `<span class="pw-pass">${escaped(a.name)}</span>`), render);
}

export function checksView(bench: Bench): View {
  const body = bench.payload.checks
    .map((c) => {
      const place = c.line ? `<button type="button" class="pw-link" data-line="${c.line}" data-file="${escaped(c.file)}">line ${c.line}</button>` : "";
      const hint = c.hint ? `<div class="pw-dim">${escaped(c.hint)}</div>` : "";
      return `<tr><th scope="row">${escaped(c.severity)}</th><td class="pw-mono">${escaped(c.rule)}</td><td>${place}</td><td class="pw-wrap">${escaped(c.message)}${hint}</td></tr>`;
    })
    .join("");
  const element = h("div", { class: "pw-scroll pw-checks", tabindex: 0, role: "region", "aria-label": "Checks" });
  element.innerHTML = `<table class="pw-tbl"><caption class="pw-sr">Findings</caption><thead><tr><th scope="col">severity</th><th scope="col">rule</th><th scope="col">place</th><th scope="col">finding</th></tr></thead><tbody>${body}</tbody></table>`;
  element.addEventListener("click", (event) => {
    const link = (event.target as HTMLElement).closest<HTMLElement>("[data-line]");
    if (link) bench.gotoLine({ file: link.dataset["file"] ?? null, line: Number(link.dataset["line"]) });
  });
  return { element, draw: () => undefined };
}
