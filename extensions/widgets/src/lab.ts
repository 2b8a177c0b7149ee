// The elements that reports use. A page may hold many reports; each version of an element is defined once.
import { PlPair } from "./pair";
import { PlTabs } from "./tabs";

if (!customElements.get("pl-tabs")) customElements.define("pl-tabs", PlTabs);
if (!customElements.get("pl-pair")) customElements.define("pl-pair", PlPair);
