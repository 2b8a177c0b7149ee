// The IR graph with the node of each lane's line marked; a node goes to the next step on its line.
import type { Bench } from "../bench";
import { inSlices } from "../../finish";
import { h } from "../dom";
import { laneClass } from "../lanes";
import type { View } from "./view";

export class GraphView implements View {
  readonly element: HTMLElement;
  #building: Promise<unknown> | null = null;
  #nodes: { readonly element: SVGGElement; readonly line: number; readonly file: string | null }[] = [];

  constructor(readonly bench: Bench) {
    this.element = h("div", { class: "pw-graph", tabindex: 0, role: "region", "aria-label": "IR graph" });
    this.element.addEventListener("click", (event) => this.#go(event.target));
    this.element.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      if ((event.target as Element).closest("g[data-line]")) {
        event.preventDefault();
        event.stopPropagation();
        this.#go(event.target);
      }
    });
  }

  #build(): void {
    const { graph } = this.bench.payload;
    if (!graph || this.#building) return;
    const prefix = `${this.bench.prefix}g-`;
    const start = (svg: SVGSVGElement): void => svg.setAttribute("role", "group"); // its nodes are buttons
    this.#building = inSlices(graph.svg.replaceAll("PREFIX-", prefix), this.element, start, (group) => {
      const id = group.id.slice(prefix.length);
      if (group.matches("g.node[data-line]")) this.#makeButton(group, this.#fileOf(graph.files[id] ?? null));
    }).then(
      () => this.draw(),
      (problem: unknown) => this.element.replaceChildren(h("pre", {}, `${graph.text}\n\n(not drawn: ${String(problem)})`)),
    );
  }

  /** Makes a node go to its step, where it has one. */
  #makeButton(element: SVGGElement, file: string | null): void {
    const line = Number(element.dataset["line"]);
    if (this.bench.cursor.statementsAt({ file, line }).size === 0) return;
    const words = [...element.querySelectorAll("text")].map((t) => t.textContent?.trim()).join(" ");
    element.setAttribute("role", "button");
    element.setAttribute("tabindex", "0");
    element.setAttribute("aria-label", `${words}, line ${line}: go to its step`);
    this.#nodes.push({ element, line, file });
  }

  /** The text a node's file is: programs name files in full, recordings as the program does, or not at all. */
  #fileOf(file: string | null): string | null {
    const { files } = this.bench.payload.timeline;
    if (file !== null && files.includes(file)) return file;
    return files.find((f) => file !== null && (f.endsWith(file) || file.endsWith(f))) ?? files[0] ?? null;
  }

  draw(): void {
    this.#build();
    const { bench } = this;
    const at = new Map<string, string>();
    for (const lane of bench.lanes) {
      const statement = bench.recording.statementOf(bench.cursor.lastStep(lane) || 1);
      if (statement && bench.cursor.lastStep(lane)) at.set(`${statement[9]}\n${statement[8]}`, laneClass(bench.laneName(lane)));
    }
    const focused = bench.recording.statementOf(bench.cursor.lastStep());
    let first: SVGGElement | undefined;
    for (const { element, line, file } of this.#nodes) {
      const lane = at.get(`${file}\n${line}`);
      const here = focused !== undefined && focused[8] === line && focused[9] === file;
      element.classList.remove("pw-at", "pw-now", "pw-aic", "pw-aiv0", "pw-aiv1", "pw-host", "pw-other");
      if (lane) element.classList.add("pw-at", lane);
      if (!here) continue;
      element.classList.add("pw-now");
      first ??= element;
    }
    if (first) this.#reveal(first);
  }

  #reveal(node: SVGGElement): void {
    const box = node.getBoundingClientRect();
    const area = this.element.getBoundingClientRect();
    const edge = 40;
    if (box.top < area.top + edge || box.bottom > area.bottom - edge) this.element.scrollTop += box.top - area.top - area.height / 2;
    if (box.left < area.left + edge || box.right > area.right - edge) this.element.scrollLeft += box.left - area.left - area.width / 2;
  }

  #go(target: EventTarget | null): void {
    const group = (target as Element | null)?.closest("g[data-line]");
    const node = this.#nodes.find((n) => n.element === group);
    if (node) this.bench.gotoLine({ file: node.file, line: node.line });
  }
}
