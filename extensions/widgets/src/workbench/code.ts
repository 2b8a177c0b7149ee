// Light colouring of texts by language, and a listing with line numbers that can mark lines.
import { escaped } from "./dom";

export type Language = "python" | "pto" | "cpp" | "json" | "text";

const PYTHON =
  /(?<c>#.*$)|(?<s>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|(?<m>@[\w.]+)|\b(?<k>def|with|return|yield|for|in|if|elif|else|while|class|import|from|as|and|or|not|pass|None|True|False|lambda)\b|\b(?<n>\d[\w.]*)\b|(?<f>[A-Za-z_]\w*)(?=\()/g;
const CPP =
  /(?<c>\/\/.*$|\/\*.*?\*\/)|(?<s>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?<m>^\s*#\s*\w+|\[\[[^\]]*\]\]|\b__\w+__\b)|\b(?<k>alignas|auto|bool|break|case|char|class|const|constexpr|continue|default|do|double|else|enum|extern|false|float|for|half|if|inline|int|int8_t|int16_t|int32_t|int64_t|long|namespace|new|nullptr|operator|private|public|return|short|signed|sizeof|size_t|static|static_cast|reinterpret_cast|struct|switch|template|this|true|typedef|typename|uint8_t|uint16_t|uint32_t|uint64_t|unsigned|using|void|while)\b|\b(?<n>\d[\w.]*)\b|(?<f>[A-Za-z_]\w*)(?=\()/g;
const PTO =
  /(?<c>\/\/.*$)|(?<s>"(?:[^"\\]|\\.)*")|(?<m>![\w.]+|#[\w.]+|\bloc\()|\b(?<k>module|func\.func|func\.return|scf\.\w+|arith\.\w+|index|attributes|private|return|to|step|iter_args|else)\b|(?<n>%[\w#]+)|\b(?<f>pto\.[\w.]+)|(?<d>\b\d[\w.]*\b)/g;
const JSON_TOKENS = /(?<f>"(?:[^"\\]|\\.)*")(?=\s*:)|(?<s>"(?:[^"\\]|\\.)*")|\b(?<k>true|false|null)\b|(?<n>-?\b\d[\w.+-]*)/g;
const TOKENS: Readonly<Record<Language, RegExp | null>> = { python: PYTHON, cpp: CPP, pto: PTO, json: JSON_TOKENS, text: null };

/** A line with its tokens marked. */
export function highlighted(line: string, language: Language = "python"): string {
  const tokens = TOKENS[language];
  if (!tokens) return escaped(line);
  let out = "";
  let end = 0;
  for (const found of line.matchAll(tokens)) {
    const kind = Object.entries(found.groups ?? {}).find(([, text]) => text !== undefined)?.[0].charAt(0) ?? "f";
    out += `${escaped(line.slice(end, found.index))}<span class="pw-tok-${kind}">${escaped(found[0])}</span>`;
    end = found.index + found[0].length;
  }
  return out + escaped(line.slice(end));
}

/** Lines with their numbers, as HTML; `mark` gives the class of a line that stands out, `arrows` leaves room for lanes. */
export function numbered(text: string, language: Language, mark: (line: number) => string = () => "", arrows = false): string {
  const room = arrows ? '<span class="pw-arrows"></span>' : "";
  const lines = text.replace(/\n$/, "").split("\n");
  return lines
    .map((line, i) => {
      const more = mark(i + 1);
      return `<div class="pw-tl${more ? ` ${more}` : ""}" data-n="${i + 1}"><span class="pw-no">${i + 1}</span>${room}<code>${highlighted(line, language) || " "}</code></div>`;
    })
    .join("");
}
