/** What a selector looks at: an element, and those around it. */
export interface Styled {
  tag: string;
  classes: ReadonlySet<string>;
  attributes: Readonly<Record<string, string | number>>;
  parent: Styled | null;
}

/** One selector without commas: how specific it is, and whether an element matches. */
export interface Selector {
  /** Classes, attributes and the like count 1,000 each, tags 1. */
  specificity: number;
  matches(element: Styled): boolean;
}

const NAME = /^[-\w]+/;
const CLASS = 1000;

/** The selectors of a rule; one that needs a pointer, a keyboard or more of CSS than our style sheets use is left out. */
export function readSelectors(text: string): Selector[] {
  return splitAtCommas(text)
    .map(readSelector)
    .filter((selector) => selector !== null);
}

function readSelector(text: string): Selector | null {
  const compounds: Selector[] = [];
  /** Per compound but the first, whether it has to be a child of the one before. */
  const direct: boolean[] = [];
  let rest = text.trim();
  while (rest !== "") {
    const read = readCompound(rest);
    if (read === null) return null;
    compounds.push(read.selector);
    const gap = /^\s*(>?)\s*/.exec(read.rest) as RegExpExecArray;
    rest = read.rest.slice(gap[0].length);
    if (rest !== "" && gap[0] === "") return null;
    direct.push(gap[1] === ">");
  }
  const matchesFrom = (at: number, element: Styled | null): boolean => {
    if (element === null || !compounds[at].matches(element)) return false;
    if (at === 0) return true;
    let above = element.parent;
    if (direct[at - 1]) return matchesFrom(at - 1, above);
    for (; above !== null; above = above.parent) if (matchesFrom(at - 1, above)) return true;
    return false;
  };
  if (compounds.length === 0) return null;
  return {
    specificity: compounds.reduce((sum, compound) => sum + compound.specificity, 0),
    matches: (element) => matchesFrom(compounds.length - 1, element),
  };
}

type Test = Selector["matches"];

function readCompound(text: string): { selector: Selector; rest: string } | null {
  const tests: Test[] = [];
  let specificity = 0;
  let rest = text;
  while (rest !== "" && !/^[\s>]/.test(rest)) {
    const read = readSimple(rest);
    if (read === null) return null;
    tests.push(read.test);
    specificity += read.specificity;
    rest = rest.slice(read.length);
  }
  if (tests.length === 0) return null;
  const matches: Test = (element) => tests.every((test) => test(element));
  return { selector: { specificity, matches }, rest };
}

/** The first simple selector of a text, and how many characters it takes. */
function readSimple(text: string): { test: Test; specificity: number; length: number } | null {
  const mark = text[0];
  if (mark === "*") return { test: () => true, specificity: 0, length: 1 };
  if (mark === ".") {
    const name = NAME.exec(text.slice(1))?.[0];
    if (name === undefined) return null;
    return { test: (e) => e.classes.has(name), specificity: CLASS, length: 1 + name.length };
  }
  if (mark === "[") {
    const found = /^\[([-\w]+)=["']?([-\w]+)["']?\]/.exec(text);
    if (found === null) return null;
    const [whole, name, value] = found;
    return {
      test: (e) => String(e.attributes[name]) === value,
      specificity: CLASS,
      length: whole.length,
    };
  }
  if (mark === ":") return readChoice(text);
  const tag = NAME.exec(text)?.[0];
  if (tag === undefined) return null;
  return { test: (e) => e.tag === tag, specificity: 1, length: tag.length };
}

/** `:is(...)`, `:where(...)` or `:not(...)`; no other pseudo-class can be true of a still picture. */
function readChoice(text: string): { test: Test; specificity: number; length: number } | null {
  const kind = /^:(is|where|not)\(/.exec(text);
  if (kind === null) return null;
  const end = closing(text, kind[0].length - 1);
  const choices = readSelectors(text.slice(kind[0].length, end));
  const any: Test = (element) => choices.some((choice) => choice.matches(element));
  return {
    test: kind[1] === "not" ? (element) => !any(element) : any,
    specificity: kind[1] === "where" ? 0 : Math.max(0, ...choices.map((one) => one.specificity)),
    length: end + 1,
  };
}

function closing(text: string, open: number): number {
  let depth = 0;
  for (let i = open; i < text.length; i++) {
    if (text[i] === "(") depth++;
    else if (text[i] === ")" && --depth === 0) return i;
  }
  return text.length;
}

function splitAtCommas(text: string): string[] {
  const parts: string[] = [];
  let depth = 0;
  let start = 0;
  for (let i = 0; i < text.length; i++) {
    if (text[i] === "(") depth++;
    else if (text[i] === ")") depth--;
    else if (text[i] === "," && depth === 0) {
      parts.push(text.slice(start, i));
      start = i + 1;
    }
  }
  return [...parts, text.slice(start)];
}
