// The same graph drawn twice: by the lab's widget, and laid out by elkjs with a plain drawing. Both lay out in a worker.
import widget from "/static/graph.js";

const pace = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));

/** Milliseconds until `draw` has put its picture into the page and a frame has shown it. */
async function appears(draw) {
  const place = document.createElement("div");
  document.querySelector("main").replaceChildren(place);
  await pace();
  const start = performance.now();
  await draw(place);
  await pace();
  const took = performance.now() - start;
  const nodes = place.querySelectorAll("g.node").length;
  return { took, nodes, start };
}

const library = fetch("/static/viz.js.gz").then((answer) => answer.arrayBuffer());

async function ours(place) {
  const shared = { get: () => new DataView(packed) };
  const model = {
    get: (name) => (name === "library" ? "IPY_MODEL_one" : window.payload),
    on: () => undefined,
    off: () => undefined,
    send: () => undefined,
    widget_manager: { get_model: async () => shared },
  };
  await widget.render({ model, el: place });
}

let elk;

/** elkjs's layered layout, flat (its quickest) or with the clusters. */
async function theirs(place, clusters) {
  elk ??= new ELK({ workerUrl: "/elk/elk-worker.min.js" });
  const { nodes, edges, homes } = window.shape;
  const leaves = nodes.map(({ id, width, height }) => ({ id, width, height }));
  const graph = {
    id: "root",
    layoutOptions: { "elk.algorithm": "layered", "elk.direction": "DOWN", "elk.hierarchyHandling": clusters ? "INCLUDE_CHILDREN" : "INHERIT" },
    children: clusters ? nested(leaves, homes) : leaves,
    edges: edges.map(([source, target], i) => ({ id: `e${i}`, sources: [source], targets: [target] })),
  };
  const found = await elk.layout(graph);
  const names = new Map(nodes.map((node) => [node.id, node]));
  const parts = [];
  const walk = (item, x, y) => {
    for (const child of item.children ?? []) {
      const [left, top] = [x + child.x, y + child.y];
      const node = names.get(child.id);
      const box = `<rect x="${left}" y="${top}" width="${child.width}" height="${child.height}" fill="${node ? "#fff" : "none"}" stroke="#999"/>`;
      const rows = (node?.rows ?? []).map((row, i) => `<text x="${left + child.width / 2}" y="${top + 12 + 12 * i}" font-size="10" text-anchor="middle">${row.replaceAll("&", "&amp;").replaceAll("<", "&lt;")}</text>`);
      parts.push(node ? `<g class="node">${box}${rows.join("")}</g>` : box);
      walk(child, left, top);
    }
    for (const { sections } of item.edges ?? []) {
      for (const { startPoint, bendPoints = [], endPoint } of sections ?? []) {
        parts.push(`<path fill="none" stroke="#777" d="M${[startPoint, ...bendPoints, endPoint].map((p) => `${x + p.x} ${y + p.y}`).join("L")}"/>`);
      }
    }
  };
  walk(found, 0, 0);
  place.innerHTML = `<svg viewBox="0 0 ${found.width} ${found.height}" width="${found.width}" height="${found.height}">${parts.join("")}</svg>`;
}

function nested(leaves, homes) {
  const root = [];
  const boxes = new Map(homes.clusters.map(([id]) => [id, { id, children: [] }]));
  const into = (parent) => (parent ? boxes.get(parent).children : root);
  for (const [id, parent] of homes.clusters) into(parent).push(boxes.get(id));
  for (const leaf of leaves) into(homes.of[leaf.id]).push(leaf);
  return root;
}

let packed;
window.run = async (what) => {
  packed ??= await library;
  const draw = { ours, flat: (place) => theirs(place, false), clustered: (place) => theirs(place, true) }[what];
  return appears(draw);
};
window.ready = true;
