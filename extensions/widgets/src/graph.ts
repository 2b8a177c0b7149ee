// The graph as a notebook widget (anywidget): draws in the browser, folds and unfolds clusters on a click or on Enter.
import { build } from "./finish";
import { sharedLayout } from "./layout";
import type { GraphPayload } from "./types";

interface Model {
  get(name: string): unknown;
  on(event: string, handler: () => void): void;
  off(event: string, handler: () => void): void;
  send(content: unknown): void;
  widget_manager: { get_model(id: string): Promise<Model> };
}

/** The text of Graphviz's script, from the model that all graph widgets share. */
async function libraryText(model: Model): Promise<string> {
  const id = String(model.get("library")).replace(/^IPY_MODEL_/, "");
  const shared = await model.widget_manager.get_model(id);
  const packed = shared.get("source") as DataView<ArrayBuffer>;
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

/** Makes a cluster or a folded node a button; `toggle` gets the cluster's id. */
export function makeFoldable(group: SVGGElement, toggle: (cluster: string) => void): void {
  const id = group.dataset["node"];
  if (!id || !group.matches(".pl-c, .pl-n-folded")) return;
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

async function render({ model, el }: { model: Model; el: HTMLElement }): Promise<() => void> {
  el.classList.add("pl-root", "pl-graph-widget");
  const picture = document.createElement("div");
  picture.className = "pl-scroll";
  picture.tabIndex = 0;
  picture.setAttribute("role", "group");
  picture.setAttribute("aria-label", "IR graph; press a cluster to fold it");
  el.append(picture);
  let asked: string | undefined;
  let newest = 0;
  const toggle = (cluster: string): void => {
    asked = cluster;
    model.send({ toggle: cluster });
  };
  const update = async (): Promise<void> => {
    const mine = ++newest;
    const payload = model.get("payload") as GraphPayload;
    try {
      const text = await sharedLayout().svg(payload.dot, () => libraryText(model));
      if (mine !== newest) return;
      const svg = await build(text, payload, picture, (group) => makeFoldable(group, toggle), () => mine === newest);
      svg?.removeAttribute("role"); // its clusters are buttons
      if (svg && asked) picture.querySelector<SVGGElement>(`[data-node="${CSS.escape(asked)}"]`)?.focus();
    } catch (error) {
      if (mine !== newest) return;
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
