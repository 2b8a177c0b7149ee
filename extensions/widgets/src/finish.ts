// The finish of a drawn graph, as `finish` in `pypto_lab/view/draw.py` gives it: hover texts, source lines, a label.
import type { GraphPayload } from "./types";

let instances = 0;

/** Finishes Graphviz's SVG in place; ids get a prefix of their own so that several graphs fit in one page. */
export function finish(svg: SVGSVGElement, payload: GraphPayload): SVGSVGElement {
  const prefix = `pl-graph-${instances++}-`;
  const flows = new Map(payload.flows.map(([source, target, name]) => [`${source}->${target}`, name]));
  for (const group of svg.querySelectorAll("g")) {
    const title = group.querySelector(":scope > title");
    const id = group.id;
    if (group.classList.contains("edge")) {
      finishEdge(group, title, flows, payload);
    } else if (id in payload.hover) {
      group.dataset["node"] = id;
      group.id = prefix + id;
      const line = payload.lines[id];
      if (line !== undefined) group.dataset["line"] = String(line);
      if (title) title.textContent = payload.hover[id] ?? "";
      if (group.classList.contains("cluster")) alignHeading(group);
    } else {
      group.removeAttribute("id");
      title?.remove();
    }
  }
  const width = svg.viewBox.baseVal?.width || Number(svg.getAttribute("viewBox")?.split(" ")[2] ?? 100);
  svg.removeAttribute("width");
  svg.removeAttribute("height");
  svg.classList.add("pl-graph");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `IR graph of ${payload.name}: ${Object.keys(payload.titles).length} nodes`);
  svg.style.width = `${width}px`;
  svg.style.maxWidth = "100%";
  svg.style.minWidth = `${0.8 * width}px`;
  svg.style.height = "auto";
  return svg;
}

/** Puts a cluster's heading at its left edge: Graphviz centres it where it guesses the font's widths to end. */
function alignHeading(cluster: SVGGElement): void {
  const shape = cluster.querySelector(":scope > path, :scope > polygon");
  const numbers = (shape?.getAttribute("d") ?? shape?.getAttribute("points") ?? "").match(/-?\d+(\.\d+)?/g) ?? [];
  const text = cluster.querySelector(":scope > text");
  if (!text || numbers.length === 0) return;
  text.setAttribute("text-anchor", "start");
  text.setAttribute("x", String(Math.min(...numbers.filter((_, index) => index % 2 === 0).map(Number)) + 10));
}

function finishEdge(
  group: SVGGElement,
  title: Element | null,
  flows: ReadonlyMap<string, string>,
  payload: GraphPayload,
): void {
  group.removeAttribute("id");
  const ends = title?.textContent ?? "";
  const [source = "", target = ""] = ends.split("->");
  const name = flows.get(ends) || payload.titles[source] || "";
  if (title) title.textContent = `${name}: ${payload.titles[source] ?? ""} to ${payload.titles[target] ?? ""}`;
}

/** Draws the payload's DOT and returns the finished picture. The library must have been loaded. */
export async function draw(payload: GraphPayload): Promise<SVGSVGElement> {
  const library = globalThis.PyptoLabViz;
  if (!library) throw new Error("the Graphviz library is not loaded");
  const viz = await library.instance();
  return finish(viz.renderSVGElement(payload.dot), payload);
}
