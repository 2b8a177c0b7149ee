import { describe, expect, it } from "vitest";
import { highlighted, numbered, type Language } from "../../src/workbench/code";

const plain = (html: string): string => {
  const made = document.createElement("div");
  made.innerHTML = html;
  return made.textContent ?? "";
};

describe("colouring", () => {
  const lines: Readonly<Record<Language, readonly string[]>> = {
    python: ["x = f('<a>', 3)  # <b>", "@pl.jit", "if a < b and c > d: pass"],
    cpp: ['#include "a.h" // why', "template <typename T> __global__ void f(int64_t a) { return 0x1F; }", "a = b < c && d; /* e */"],
    pto: ['%0 = pto.tload ins(%a : !pto.tile_buf<loc=vec>) loc("k.py":3:1)', "func.func @k(%arg0: !pto.ptr<f32>) {", "// <x>"],
    json: ['{"a": [1, -2.5e3, true], "b<c>": null}'],
    text: ["a < b & c"],
  };
  it.each(Object.keys(lines) as Language[])("of %s keeps the text and escapes it", (language) => {
    for (const line of lines[language]) {
      expect(plain(highlighted(line, language))).toBe(line);
      expect(highlighted(line, language)).not.toMatch(/<(?!\/?span)/);
    }
  });

  it("marks what a reader looks for", () => {
    expect(highlighted("pto.tload ins(%a)", "pto")).toContain('<span class="pw-tok-f">pto.tload</span>');
    expect(highlighted("void f() {", "cpp")).toContain('<span class="pw-tok-k">void</span>');
    expect(highlighted('"k": 1', "json")).toBe('<span class="pw-tok-f">&quot;k&quot;</span>: <span class="pw-tok-n">1</span>');
  });

  it("numbers lines and marks some", () => {
    const html = numbered("a\nb\n", "text", (line) => (line === 2 ? "pw-steps" : ""));
    expect(html.match(/data-n="\d"/g)).toEqual(['data-n="1"', 'data-n="2"']);
    expect(html).toContain('class="pw-tl pw-steps" data-n="2"');
  });
});
