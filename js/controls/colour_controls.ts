import {
  ALL_ZEROS,
  type ColourLegend,
  type ColourMode,
  withoutScaleOfOne,
} from "../colours/colouring";
import { STEPS } from "../colours/scale";
import { button, choice, element } from "../dom/element";
import { Remembered } from "../dom/remembered";

const WHY = {
  text: "why?",
  label: "Why are gradients zero?",
  title: "Diagnose, and say what makes these gradients zero if it is known",
  class: "gw-link",
};

/** A meaning in the choice, and whether its data is known. */
type KnownMode = Pick<ColourMode, "name" | "text" | "missing"> & { isKnown: boolean };

/** The choice of colouring, and its scale. Gradients that are all zero can be asked about. */
export function createColourControls(choose: (by: string) => void, diagnose: () => void) {
  const label = "Meaning of the node colours";
  const select = choice({ class: "gw-colour-by", "aria-label": label, title: label }, choose);
  const key = element("span", { class: "gw-colour-key", hidden: true });
  const shown = new Remembered();
  return {
    element: element("label", "gw-colours", [element("span", {}, "colour"), select]),
    key,
    update(by: string, modes: readonly KnownMode[], legend: ColourLegend | null) {
      if (!shown.isNew(JSON.stringify([modes, legend])) && select.value === by) return;
      select.replaceChildren(
        ...modes.map(({ name, text, missing, isKnown }) => {
          const attributes = { value: name, disabled: !isKnown };
          return element("option", attributes, isKnown ? text : `${text} (${missing})`);
        }),
      );
      select.value = by;
      key.hidden = legend === null;
      key.replaceChildren(...(legend ? colourKey(legend) : []));
      if (legend?.entries.some(({ text }) => text === ALL_ZEROS)) key.append(button(WHY, diagnose));
    },
  };
}

/** The colours with their values. */
export function colourKey(legend: ColourLegend): HTMLElement[] {
  const { title, isNamed, ticks, entries } = withoutScaleOfOne(legend);
  const parts: HTMLElement[] = isNamed ? [element("span", {}, title)] : [];
  if (ticks && ticks.length > 0) {
    const swatches = Array.from({ length: STEPS }, (_, i) => element("span", `gw-swatch is-c${i}`));
    const marks = apart(ticks).map(({ at, text }) => {
      const mark = element("span", "gw-tick", text);
      mark.style.left = `${(100 * at).toFixed(1)}%`;
      return mark;
    });
    parts.push(
      element(
        "span",
        {
          class: "gw-scale-key",
          role: "img",
          title,
          "aria-label": `Colours for ${title}, dark to bright: ${ticks.map((tick) => tick.text).join(", ")}`,
        },
        [element("span", "gw-swatches", swatches), element("span", "gw-ticks", marks)],
      ),
    );
  }
  for (const { name, text } of entries) {
    parts.push(element("span", "gw-colour-entry", [element("span", `gw-swatch ${name}`), text]));
  }
  return parts;
}

/** The width of the scale, and of a letter below it, px. */
const SCALE = 190;
const LETTER = 6;

/** The last value of a scale, and the others whose texts touch none after them. */
function apart(ticks: NonNullable<ColourLegend["ticks"]>) {
  let free = Number.POSITIVE_INFINITY;
  return [...ticks]
    .reverse()
    .filter(({ at, text }) => {
      const half = (text.length * LETTER) / 2;
      if (at * SCALE + half > free) return false;
      free = at * SCALE - half - LETTER;
      return true;
    })
    .reverse();
}
