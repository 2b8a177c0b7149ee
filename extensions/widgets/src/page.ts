// A page on its own: replaces the picture Python drew with Graphviz's, once the library has started.
import { draw } from "./finish";
import type { GraphPayload } from "./types";

async function main(): Promise<void> {
  const data = document.getElementById("pl-graph-data")?.textContent;
  const place = document.querySelector(".pl-figure-picture");
  if (!data || !place) return;
  place.replaceChildren(await draw(JSON.parse(data) as GraphPayload));
}

void main();
