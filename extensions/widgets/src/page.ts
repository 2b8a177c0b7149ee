// A page on its own: replaces the picture Python drew with Graphviz's, once the library has started.
import { build } from "./finish";
import { sharedLayout } from "./layout";
import type { GraphPayload } from "./types";

async function main(): Promise<void> {
  const data = document.getElementById("pl-graph-data")?.textContent;
  const library = document.getElementById("pl-graph-library")?.textContent;
  const place = document.querySelector(".pl-figure-picture");
  if (!data || !library || !place) return;
  const payload = JSON.parse(data) as GraphPayload;
  const text = await sharedLayout().svg(payload.dot, () => Promise.resolve(library));
  await build(text, payload, place);
}

void main();
