// The finish of a drawn graph, as `finish` in `pypto_lab/view/draw.py` gives it: hover texts, source lines, a label.
import type { GraphPayload } from "./types";

let instances = 0;

/** What belongs to one picture: ids get a prefix of their own, so that several pictures fit in one page. */
interface Finish {
  readonly payload: GraphPayload;
  readonly prefix: string;
  readonly flows: ReadonlyMap<string, string>;
}

function finishOf(payload: GraphPayload): Finish {
  const flows = new Map(payload.flows.map(([source, target, name]) => [`${source}->${target}`, name]));
  return { payload, prefix: `pl-graph-${instances++}-`, flows };
}

/** Finishes Graphviz's SVG in place. */
export function finish(svg: SVGSVGElement, payload: GraphPayload): SVGSVGElement {
  const own = finishOf(payload);
  finishRoot(svg, payload);
  for (const group of svg.querySelectorAll("g")) finishGroup(group, own);
  return svg;
}

function finishRoot(svg: SVGSVGElement, payload: GraphPayload): void {
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
}

function finishGroup(group: SVGGElement, own: Finish): void {
  const { payload } = own;
  const title = group.querySelector(":scope > title");
  const id = group.id;
  if (group.classList.contains("edge")) {
    finishEdge(group, title, own);
  } else if (id in payload.hover) {
    group.dataset["node"] = id;
    group.id = own.prefix + id;
    const line = payload.lines[id];
    if (line !== undefined) group.dataset["line"] = String(line);
    if (title) title.textContent = payload.hover[id] ?? "";
    if (group.classList.contains("cluster")) alignHeading(group);
  } else {
    group.removeAttribute("id");
    title?.remove();
  }
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

function finishEdge(group: SVGGElement, title: Element | null, { flows, payload }: Finish): void {
  group.removeAttribute("id");
  const ends = title?.textContent ?? "";
  const [source = "", target = ""] = ends.split("->");
  const name = flows.get(ends) || payload.titles[source] || "";
  if (title) title.textContent = `${name}: ${payload.titles[source] ?? ""} to ${payload.titles[target] ?? ""}`;
}

/** Milliseconds that building may hold up the page at a time. */
const SLICE = 8;
/** Groups read at a time, and groups put into the page at a time. */
const READ = 24;
const SHOWN = 8 * READ;
const GROUP = /^<g (?:id="[^"]*" )?class="(?:cluster|node|edge)[^]*?^<\/g>$/gm;

/** Builds Graphviz's SVG in `place`, finished, a slice at a time; `each` sees every element group before it is shown.
 * Ends early, with null, where `wanted` no longer holds. */
export async function build(
  text: string,
  payload: GraphPayload,
  place: Element,
  each: (group: SVGGElement) => void = () => undefined,
  wanted: () => boolean = () => true,
): Promise<SVGSVGElement | null> {
  const own = finishOf(payload);
  const finished = (group: SVGGElement): void => {
    finishGroup(group, own);
    each(group);
  };
  const start = (svg: SVGSVGElement, inside: SVGGElement): void => {
    finishRoot(svg, payload);
    finishGroup(inside, own);
  };
  return await inSlices(text, place, start, finished, wanted);
}

/** Puts a picture into `place` a slice at a time: `start` gets its empty frame and the group that will hold the rest,
 * `each` every node, edge and cluster before it is shown. Ends early, with null, where `wanted` no longer holds. */
export async function inSlices(
  text: string,
  place: Element,
  start: (svg: SVGSVGElement, inside: SVGGElement) => void,
  each: (group: SVGGElement) => void,
  wanted: () => boolean = () => true,
): Promise<SVGSVGElement | null> {
  const groups = text.match(GROUP) ?? [];
  const frame = new DOMParser().parseFromString(text.replace(GROUP, ""), "image/svg+xml").documentElement;
  const svg = document.importNode(frame, true) as unknown as SVGSVGElement;
  const inside = svg.querySelector("g");
  if (!inside) throw new Error("there is no picture");
  start(svg, inside);
  for (const group of inside.querySelectorAll<SVGGElement>("g.cluster, g.node, g.edge")) each(group); // not on lines of their own
  place.replaceChildren(svg);
  let since = performance.now();
  for (let from = 0; from < groups.length; from += SHOWN) {
    const part = document.createElementNS("http://www.w3.org/2000/svg", "g");
    for (let i = from; i < Math.min(from + SHOWN, groups.length); i += READ) {
      const made = part.children.length;
      part.insertAdjacentHTML("beforeend", groups.slice(i, Math.min(i + READ, from + SHOWN)).join(""));
      for (const group of [...part.children].slice(made) as SVGGElement[]) each(group);
      if (performance.now() - since < SLICE) continue;
      await pause();
      if (!wanted()) return null;
      since = performance.now();
    }
    inside.append(...part.children);
    svg.getBoundingClientRect(); // lays the new part out now, not all parts at once before the next frame
    await pause();
    if (!wanted()) return null;
    since = performance.now();
  }
  return svg;
}

/** Lets the page do what waits: draw, answer keys. */
function pause(): Promise<void> {
  return new Promise((done) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = (): void => {
      port1.close();
      done();
    };
    port2.postMessage(null);
  });
}
