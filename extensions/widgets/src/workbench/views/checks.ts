// Findings: how bad, which rule, where, what to do about it; a place shows its line in the source.
import type { Bench } from "../bench";
import { escaped, h } from "../dom";
import type { Finding } from "../payload";
import type { View } from "./view";

const GLYPH: Readonly<Record<string, string>> = { error: "\u2715", warning: "!", note: "i" };

export class ChecksView implements View {
  readonly element: HTMLElement;

  constructor(bench: Bench) {
    const { checks } = bench.payload;
    const counts = ["error", "warning", "note"]
      .map((severity) => [severity, checks.filter((c) => c.severity === severity).length] as const)
      .filter(([, count]) => count > 0)
      .map(([severity, count]) => `${count} ${severity}${count === 1 ? "" : "s"}`);
    const head = h("div", { class: "pw-ph" }, h("h3", {}, "Findings"), h("span", {}, counts.join(", ")));
    const body = h("div", { class: "pw-scroll pw-checks", tabindex: 0, role: "region", "aria-label": "Checks" });
    body.innerHTML = findingRows(checks);
    body.addEventListener("click", (event) => {
      const link = (event.target as HTMLElement).closest<HTMLElement>("[data-line]");
      if (link) bench.reveal({ file: link.dataset["file"] ?? null, line: Number(link.dataset["line"]) });
    });
    this.element = h("div", { class: "pw-checktab" }, head, body);
  }

  draw(): void {
    // nothing here follows the cursor
  }
}

/** Findings as a table; its buttons carry file and line. */
export function findingRows(found: readonly Finding[]): string {
  const sourced = found.some((c) => c.where);
  const body = found
    .map((c) => {
      const place = c.line
        ? `<button type="button" class="pw-link" data-line="${c.line}" data-file="${escaped(c.file)}" title="show this line">${escaped(c.file ? `${c.file}:${c.line}` : `line ${c.line}`)}</button>`
        : "";
      const more = [c.hint && `help: ${c.hint}`, c.note].filter(Boolean).map((line) => `<div class="pw-dim">${escaped(String(line))}</div>`);
      const times = c.times > 1 ? ` <span class="pw-dim">${c.times} times</span>` : "";
      return `<tr><th scope="row"><span class="pw-sev pw-sev-${c.severity}"><i aria-hidden="true">${GLYPH[c.severity] ?? ""}</i>${escaped(c.severity)}</span></th><td class="pw-mono">${escaped(c.rule)}</td><td>${place}</td>${sourced ? `<td>${escaped(c.where)}</td>` : ""}<td class="pw-wrap">${escaped(c.message)}${times}${more.join("")}</td></tr>`;
    })
    .join("");
  return `<table class="pw-tbl pw-findings"><caption class="pw-sr">Findings</caption><thead><tr><th scope="col">severity</th><th scope="col">rule</th><th scope="col">place</th>${sourced ? '<th scope="col">found by</th>' : ""}<th scope="col">finding</th></tr></thead><tbody>${body}</tbody></table>`;
}
