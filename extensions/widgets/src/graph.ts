// The graph as a notebook widget (anywidget): draws in the browser, folds and unfolds clusters on a click or on Enter.
import { draw } from "./finish";
import type { GraphPayload } from "./types";

interface Model {
  get(name: string): unknown;
  on(event: string, handler: () => void): void;
  off(event: string, handler: () => void): void;
  send(content: unknown): void;
  widget_manager: { get_model(id: string): Promise<Model> };
}

let library: Promise<void> | undefined;

/** Loads the Graphviz library from the model that all graph widgets share, once a page. */
function loadLibrary(model: Model): Promise<void> {
  if (globalThis.PyptoLabViz) return Promise.resolve();
  library ??= (async () => {
    const id = String(model.get("library")).replace(/^IPY_MODEL_/, "");
    const shared = await model.widget_manager.get_model(id);
    const packed = shared.get("source") as DataView<ArrayBuffer>;
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    const url = URL.createObjectURL(new Blob([await new Response(stream).text()], { type: "text/javascript" }));
    try {
      await import(/* @vite-ignore */ url);
    } finally {
      URL.revokeObjectURL(url);
    }
  })();
  return library;
}

/** Makes clusters and folded nodes buttons; `toggle` gets the cluster's id. */
export function makeFoldable(svg: SVGSVGElement, toggle: (cluster: string) => void): void {
  svg.removeAttribute("role");
  for (const group of svg.querySelectorAll<SVGGElement>("g.pl-c, g.pl-n-folded")) {
    const id = group.dataset["node"];
    if (!id) continue;
    const folded = group.classList.contains("pl-n-folded");
    const name = group.querySelector(":scope > title")?.textContent ?? id;
    group.setAttribute("role", "button");
    group.setAttribute("tabindex", "0");
    group.setAttribute("aria-expanded", String(!folded));
    group.setAttribute("aria-label", `${folded ? "unfold" : "fold"} ${name}`);
    group.addEventListener("click", () => toggle(id));
    group.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      event.stopPropagation();
      toggle(id);
    });
  }
}

async function render({ model, el }: { model: Model; el: HTMLElement }): Promise<() => void> {
  el.classList.add("pl-root", "pl-graph-widget");
  const picture = document.createElement("div");
  picture.className = "pl-scroll";
  picture.tabIndex = 0;
  picture.setAttribute("role", "group");
  picture.setAttribute("aria-label", "IR graph; press a cluster to fold it");
  el.append(picture);
  let asked: string | undefined;
  const update = async (): Promise<void> => {
    const payload = model.get("payload") as GraphPayload;
    try {
      await loadLibrary(model);
      const svg = await draw(payload);
      makeFoldable(svg, (cluster) => {
        asked = cluster;
        model.send({ toggle: cluster });
      });
      picture.replaceChildren(svg);
      if (asked) picture.querySelector<SVGGElement>(`[data-node="${CSS.escape(asked)}"]`)?.focus();
    } catch (error) {
      const text = document.createElement("pre");
      text.textContent = `${payload.text}\n\n(not drawn: ${String(error)})`;
      picture.replaceChildren(text);
    }
  };
  const changed = (): void => void update();
  model.on("change:payload", changed);
  await update();
  return () => model.off("change:payload", changed);
}

export default { render };
