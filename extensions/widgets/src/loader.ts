// What each workbench of a notebook carries itself: it loads the module and the style that all of them share, from one
// hidden model, once a page.
interface Model {
  get(name: string): unknown;
  widget_manager: { get_model(id: string): Promise<Model> };
}

interface Module {
  render(context: { model: Model; el: HTMLElement }): Promise<() => void>;
}

interface Loaded {
  readonly module: Module;
  readonly style: string;
}

declare global {
  // eslint-disable-next-line no-var
  var PyptoLabWorkbench: Map<string, Promise<Loaded>> | undefined;
}

async function unpacked(packed: DataView<ArrayBuffer>): Promise<string> {
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return await new Response(stream).text();
}

async function load(shared: Model): Promise<Loaded> {
  const source = await unpacked(shared.get("source") as DataView<ArrayBuffer>);
  const style = await unpacked(shared.get("styles") as DataView<ArrayBuffer>);
  const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  try {
    return { module: (await import(/* @vite-ignore */ url)) as Module, style };
  } finally {
    URL.revokeObjectURL(url);
  }
}

/** The shared module of a version; kernels of other versions have their own. */
async function library(model: Model): Promise<readonly [string, Loaded]> {
  const id = String(model.get("library")).replace(/^IPY_MODEL_/, "");
  const shared = await model.widget_manager.get_model(id);
  const version = String(shared.get("version"));
  const known = (globalThis.PyptoLabWorkbench ??= new Map());
  const loading = known.get(version) ?? load(shared);
  known.set(version, loading);
  loading.catch(() => known.delete(version));
  return [version, await loading];
}

/** Puts the style where the element is: the page, or the shadow tree of a host that uses one. */
function dress(el: HTMLElement, version: string, style: string): void {
  const root = el.getRootNode();
  const home = root instanceof ShadowRoot ? root : document.head;
  if (home.querySelector(`style[data-pypto-lab="${version}"]`)) return;
  const made = document.createElement("style");
  made.dataset["pyptoLab"] = version;
  made.textContent = style;
  home.append(made);
}

async function render({ model, el }: { model: Model; el: HTMLElement }): Promise<() => void> {
  const [version, { module, style }] = await library(model);
  dress(el, version, style);
  return await module.render({ model, el });
}

export default { render };
