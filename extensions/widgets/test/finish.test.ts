import "../src/viz";
import { expect, test } from "vitest";
import { build, finish, inSlices } from "../src/finish";
import { makeFoldable } from "../src/graph";
import { Layout } from "../src/layout";
import type { GraphPayload } from "../src/types";

const payload: GraphPayload = {
  name: "demo",
  dot: `digraph demo {
    subgraph cluster_c0 { id=c0 class="pl-c" label="for c in range(3)" n0 [id=n0 label="load"] }
    n1 [id=n1 class="pl-n pl-n-folded" label="inner"]
    n0 -> n1 [class="pl-e"]
  }`,
  text: "graph demo",
  hover: { n0: "line 5: a = pl.load(x)", n1: "inner: 3 nodes, folded", c0: "for c in range(3)" },
  lines: { n0: 5 },
  titles: { n0: "load", n1: "inner" },
  flows: [["n0", "n1", "a"]],
};

async function drawn(): Promise<SVGSVGElement> {
  const viz = await globalThis.PyptoLabViz!.instance();
  const holder = document.createElement("div");
  holder.innerHTML = viz.renderString(payload.dot, { format: "svg_inline" });
  return finish(holder.querySelector("svg") as unknown as SVGSVGElement, payload);
}

test("nodes show their source line, edges what flows", async () => {
  const svg = await drawn();
  const node = svg.querySelector<SVGGElement>('[data-node="n0"]');
  expect(node?.querySelector("title")?.textContent).toBe("line 5: a = pl.load(x)");
  expect(node?.getAttribute("data-line")).toBe("5");
  expect(svg.querySelector("g.edge title")?.textContent).toBe("a: load to inner");
});

test("ids are unique to each picture", async () => {
  const first = (await drawn()).querySelector('[data-node="n0"]')?.id;
  const second = (await drawn()).querySelector('[data-node="n0"]')?.id;
  expect(first).toBeTruthy();
  expect(first).not.toBe(second);
});

test("the picture scales and is named", async () => {
  const svg = await drawn();
  expect(svg.getAttribute("width")).toBeNull();
  expect(svg.getAttribute("aria-label")).toContain("demo");
});

test("clusters fold and folded nodes unfold, by click and by Enter", async () => {
  const svg = await drawn();
  const asked: string[] = [];
  for (const group of svg.querySelectorAll("g")) makeFoldable(group, (cluster) => asked.push(cluster));
  const cluster = svg.querySelector<SVGGElement>('[data-node="c0"]');
  cluster?.dispatchEvent(new Event("click"));
  svg
    .querySelector<SVGGElement>('[data-node="n1"]')
    ?.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", cancelable: true }));
  expect(asked).toEqual(["c0", "n1"]);
  expect(cluster?.getAttribute("aria-expanded")).toBe("true");
});

test("a picture built in slices is the picture", async () => {
  const viz = await globalThis.PyptoLabViz!.instance();
  const place = document.createElement("div");
  const seen: string[] = [];
  const svg = await build(viz.renderString(payload.dot, { format: "svg" }), payload, place, (group) => seen.push(group.dataset["node"] ?? "edge"));
  expect(place.firstElementChild).toBe(svg);
  expect(seen.sort()).toEqual(["c0", "edge", "n0", "n1"]);
  expect(svg?.querySelectorAll("g.node").length).toBe(2);
  expect(svg?.querySelector("g.edge title")?.textContent).toBe("a: load to inner");
  expect(svg?.getAttribute("role")).toBe("img");
});

test("a picture of Python's is put in by slices too, whatever its lines", async () => {
  const group = (id: string, more: string): string => `<g id="${id}" class="node"${more}><title>t</title><text>a</text>\n</g>`;
  const inside = ["n0", "n1", "n2"].map((id) => group(id, ' data-line="3"'));
  const edge = '<g class="edge"><path d="M0 0"/>\n</g>';
  for (const between of ["\n", ""]) {
    const text = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><g class="graph">${between}${[...inside, edge].join(between)}${between}</g></svg>`;
    const place = document.createElement("div");
    const seen: string[] = [];
    const svg = await inSlices(text, place, () => undefined, (g) => seen.push(g.id || "edge"));
    expect(seen.sort()).toEqual(["edge", "n0", "n1", "n2"]);
    expect(svg?.querySelectorAll("g.node").length).toBe(3);
    expect(place.firstElementChild).toBe(svg);
  }
  await expect(inSlices("<svg/>", document.createElement("div"), () => undefined, () => undefined)).rejects.toThrow("no picture");
});

/** A worker that answers with what `answer` makes of a request, or fails as a host does that forbids it. */
function fakeWorker(answer: ((id: number, dot: string) => unknown) | null): Worker {
  const worker = {
    postMessage: ([id, dot]: [number, string]): void =>
      queueMicrotask(() => {
        if (answer) worker.onmessage?.({ data: answer(id, dot) });
        else worker.onerror?.({ preventDefault: () => undefined });
      }),
    onmessage: undefined as ((event: unknown) => void) | undefined,
    onerror: undefined as ((event: unknown) => void) | undefined,
    terminate: (): void => undefined,
  };
  return worker as unknown as Worker;
}

test("a layout is asked of the worker, and its refusal is an error", async () => {
  const layout = new Layout(() => fakeWorker((id, dot) => (dot === "bad" ? [id, null, "no graph"] : [id, `<svg>${dot}</svg>`, null])));
  const library = (): Promise<string> => Promise.resolve("");
  expect(await Promise.all(["a", "b"].map((dot) => layout.svg(dot, library)))).toEqual(["<svg>a</svg>", "<svg>b</svg>"]);
  await expect(layout.svg("bad", library)).rejects.toThrow("no graph");
});

test.each([
  ["makes none", (): Worker => { throw new Error("forbidden"); }],
  ["lets none run", (): Worker => fakeWorker(null)],
])("where the host %s, the page lays out itself", async (_, make) => {
  expect(await new Layout(make).svg("digraph { a -> b }", () => Promise.resolve(""))).toContain('class="edge"');
});

test("a library that does not come is asked for again", async () => {
  const layout = new Layout(() => fakeWorker((id) => [id, "<svg/>", null]));
  await expect(layout.svg("a", () => Promise.reject(new Error("no kernel")))).rejects.toThrow("no kernel");
  expect(await layout.svg("a", () => Promise.resolve(""))).toBe("<svg/>");
});
