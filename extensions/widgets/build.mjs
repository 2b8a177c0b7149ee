// Builds the browser side into the Python package. `node build.mjs [OUT]` writes elsewhere, for the test that compares.
import { build } from "esbuild";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { dirname, join, resolve } from "node:path";
import { gzipSync } from "node:zlib";

const here = dirname(fileURLToPath(import.meta.url));
const outdir = resolve(process.argv[2] ?? join(here, "../../pypto_lab/view/static"));
const common = {
  bundle: true,
  minify: true,
  outdir,
  target: ["es2022"],
  legalComments: "none",
  logLevel: "warning",
  absWorkingDir: here,
};

await build({ ...common, format: "iife", entryPoints: ["src/viz.ts", "src/page.ts", "src/lab.ts"] });
await build({ ...common, format: "esm", entryPoints: ["src/graph.ts", "src/loader.ts", "src/workbench.ts"] });
await build({ ...common, entryPoints: ["src/lab.css", "src/graph.css", "src/workbench.css"] });
await build({
  ...common,
  bundle: true,
  minify: false,
  format: "esm",
  platform: "node",
  outExtension: { ".js": ".mjs" },
  entryPoints: ["src/draw.ts"],
});
await build({ ...common, bundle: false, minify: false, loader: { ".md": "copy" }, entryPoints: ["src/THIRD_PARTY.md"] });

// Most of what ships is Graphviz: it is kept compressed, and unpacked by who uses it.
const library = join(outdir, "viz.js");
writeFileSync(`${library}.gz`, gzipSync(readFileSync(library), { level: 9 }));
rmSync(library);
