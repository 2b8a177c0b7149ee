import "../src/viz";
import { expect, test } from "vitest";
import { finish } from "../src/finish";
import { makeFoldable } from "../src/graph";
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
  makeFoldable(svg, (cluster) => asked.push(cluster));
  const cluster = svg.querySelector<SVGGElement>('[data-node="c0"]');
  cluster?.dispatchEvent(new Event("click"));
  svg
    .querySelector<SVGGElement>('[data-node="n1"]')
    ?.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", cancelable: true }));
  expect(asked).toEqual(["c0", "n1"]);
  expect(cluster?.getAttribute("aria-expanded")).toBe("true");
});
