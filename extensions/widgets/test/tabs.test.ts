import { beforeEach, expect, test } from "vitest";
import { PlTabs } from "../src/tabs";

customElements.define("pl-tabs", PlTabs);

function tabs(): HTMLButtonElement[] {
  return [...document.querySelectorAll<HTMLButtonElement>('[role="tab"]')];
}

function press(key: string): void {
  document.querySelector('[role="tablist"]')?.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
}

function shown(): string[] {
  return [...document.querySelectorAll<HTMLElement>("section")].filter((s) => !s.hidden).map((s) => s.textContent ?? "");
}

/** A report as a notebook puts it into the page: the element arrives with its panels. */
function report(): PlTabs {
  const element = new PlTabs();
  element.dataset["label"] = "Result";
  for (const name of ["Numbers", "Script", "Graph"]) {
    const panel = document.createElement("section");
    panel.dataset["title"] = name;
    panel.textContent = `${name} body`;
    element.append(panel);
  }
  return element;
}

beforeEach(() => {
  document.body.replaceChildren(report());
});

test("shows the first panel and names every tab", () => {
  expect(tabs().map((t) => t.textContent)).toEqual(["Numbers", "Script", "Graph"]);
  expect(shown()).toEqual(["Numbers body"]);
  expect(document.querySelector('[role="tablist"]')?.getAttribute("aria-label")).toBe("Result");
});

test("a tab controls the panel that it labels", () => {
  for (const tab of tabs()) {
    const panel = document.getElementById(tab.getAttribute("aria-controls") ?? "");
    expect(panel?.getAttribute("aria-labelledby")).toBe(tab.id);
    expect(panel?.getAttribute("role")).toBe("tabpanel");
  }
});

test("arrows go round, Home and End go to the ends", () => {
  press("ArrowLeft");
  expect(shown()).toEqual(["Graph body"]);
  press("ArrowRight");
  expect(shown()).toEqual(["Numbers body"]);
  press("End");
  expect(shown()).toEqual(["Graph body"]);
  press("Home");
  expect(shown()).toEqual(["Numbers body"]);
});

test("only the chosen tab is in the tab order", () => {
  press("ArrowRight");
  expect(tabs().map((t) => t.tabIndex)).toEqual([-1, 0, -1]);
  expect(tabs().map((t) => t.getAttribute("aria-selected"))).toEqual(["false", "true", "false"]);
});

test("a click chooses", () => {
  tabs()[2]?.click();
  expect(shown()).toEqual(["Graph body"]);
});

test("putting the element elsewhere does not make a second tab list", () => {
  const element = document.querySelector("pl-tabs");
  if (element) document.body.append(element);
  expect(document.querySelectorAll('[role="tablist"]')).toHaveLength(1);
});

test("two reports in a page have different ids", () => {
  document.body.append(report());
  const ids = tabs().map((t) => t.id);
  expect(new Set(ids).size).toBe(ids.length);
});
