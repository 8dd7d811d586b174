import { COLOUR_MODES, type ColourLegend } from "../colours/colouring";
import { STEPS } from "../colours/scale";
import { element, KEEP_KEYS } from "../dom/element";
import { Remembered } from "../dom/remembered";

interface ColourControls {
  element: HTMLElement;
  key: HTMLElement;
  update(by: string, isKnown: (by: string) => boolean, legend: ColourLegend | null): void;
}

/** The choice of colouring, and its scale. */
export function createColourControls(choose: (by: string) => void): ColourControls {
  const select = element("select", {
    class: "gw-select gw-colour-by",
    "aria-label": "Meaning of the node colours",
    title: "Meaning of the node colours",
    ...KEEP_KEYS,
  });
  select.addEventListener("change", () => choose(select.value));
  const key = element("span", { class: "gw-colour-key", hidden: true });
  const shown = new Remembered();
  return {
    element: element("label", "gw-colours", element("span", {}, "colour"), select),
    key,
    update(by, isKnown, legend) {
      const known = COLOUR_MODES.map(({ name }) => isKnown(name));
      if (!shown.isNew(JSON.stringify([known, legend])) && select.value === by) return;
      select.replaceChildren(
        ...COLOUR_MODES.map(({ name, text, missing }, i) => {
          const isHere = known[i];
          const attributes = { value: name, disabled: !isHere };
          return element("option", attributes, isHere ? text : `${text} (${missing})`);
        }),
      );
      select.value = by;
      key.hidden = legend === null;
      key.replaceChildren(...(legend ? colourKey(legend) : []));
    },
  };
}

/** The colours with their values. */
export function colourKey({ title, isNamed, ticks, entries }: ColourLegend): HTMLElement[] {
  const parts: HTMLElement[] = isNamed ? [element("span", {}, title)] : [];
  if (ticks && ticks.length > 0) {
    const swatches = Array.from({ length: STEPS }, (_, i) => element("span", `gw-swatch is-c${i}`));
    const marks = ticks.map(({ at, text }) => {
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
        element("span", "gw-swatches", ...swatches),
        element("span", "gw-ticks", ...marks),
      ),
    );
  }
  for (const { name, text } of entries) {
    parts.push(element("span", "gw-colour-entry", element("span", `gw-swatch ${name}`), text));
  }
  return parts;
}
