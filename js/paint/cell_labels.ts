import { edgesOf } from "../scene/members";
import type { CardParts } from "../scene/node_shape";
import type { Scene, SceneNode } from "../scene/scene";
import { addedTo, type Recording, storedNow } from "../steps/recording";
import { boardNumber } from "../text/gradient";
import type { Measure } from "../text/measure";
import type { FewModel } from "../wire";
import { asAdded, fewOf, type GradientLabel, isAlarming, totalWord } from "./gradient_label";

/** A node's gradient in the cell of its card; null for none. */
export function cellLabel(
  { id, index, x, y, leaf, shape: { card } }: SceneNode,
  recording: Recording,
  measure: Measure,
): GradientLabel | null {
  const { gradients, stored, ready, step } = recording;
  const held = storedNow({ stored }, id);
  const gradient = held ?? gradients.get(id);
  if (!card?.grad || !gradient) return null;
  const changed = held !== null && stored.get(id)?.changed === true;
  // A leaf's incoming gradient is not its `.grad`, unless that is known.
  const found = inCell(
    { id, index, x, y, card },
    gradient,
    { stored: held !== null, changed },
    measure,
  );
  return {
    ...found,
    from: leaf ? step[id] : ready[id],
    // Nor does the addition hold if `.grad` changed since.
    ...addition(card, found.text, stored.get(id)?.changed ? null : addedTo(recording, id), measure),
  };
}

/** A leaf's `.grad` before the pass adds to it; null if unknown. */
export function beforeLabel(
  { id, index, leaf, x, y, shape: { card } }: SceneNode,
  { stored, step }: Recording,
  measure: Measure,
): GradientLabel | null {
  const held = stored.get(id);
  if (!leaf || !card?.grad || !held || held.changed) return null;
  if (held.before === null && card.rows.length === 0 && card.size !== "full") return null;
  const found = inCell(
    { id, index, x, y, card },
    held.before,
    { stored: held.before !== null },
    measure,
  );
  return { ...found, key: `before ${index}`, from: 0, until: step[id] };
}

/** The leaves' `.grad` while no pass is shown. */
export function heldLabels(
  { nodes }: Scene,
  held: ReadonlyMap<number, FewModel>,
  measure: Measure,
): GradientLabel[] {
  return nodes.flatMap(({ id, index, x, y, shape: { card } }) => {
    const gradient = held.get(id);
    if (!card?.grad || !gradient) return [];
    return [{ ...inCell({ id, index, x, y, card }, gradient, { stored: true }, measure), from: 0 }];
  });
}

/** A gradient in the cell of a card; null for None. */
function inCell(
  { id, index, x, y, card }: Pick<SceneNode, "id" | "index" | "x" | "y"> & { card: CardParts },
  gradient: FewModel | null,
  { stored, changed = false }: { stored: boolean; changed?: boolean },
  measure: Measure,
): Omit<GradientLabel, "from"> {
  const { size, rows } = card;
  const grad = card.grad ?? { x: 0, y: 0, width: 0, height: 0 };
  const { values, norm } = gradient ?? { values: null, norm: null };
  const texts = gradient ? fewOf(values, norm) : ["None"];
  const isTotal = rows.length > 0;
  // A total has a word beside it.
  const word = isTotal
    ? measure(`${totalWord({ stored, changed, none: !gradient })} = `, "cell")
    : 0;
  const ends = (size === "full" && !isTotal ? 8 : 10) + (isTotal ? word + 8 : 0);
  const text =
    texts.find((one) => measure(one, "digits") < grad.width - ends) ?? texts.at(-1) ?? "";
  const small = size === "full" && (!gradient || measure(text, "number") >= grad.width - 8);
  return {
    ...{ x: x + grad.x, y: y + grad.y, width: grad.width, height: grad.height },
    ...{ key: `cell ${index}`, text, alarming: isAlarming(values, norm), edge: null, nodes: [id] },
    cell: isTotal ? "total" : size,
    ...{ small, stored, changed, none: gradient === null },
  };
}

/** "4 + 12" beside the "16" of a `.grad`, if the pass added to an earlier value and there is room. */
function addition(
  { size, grad, rows }: CardParts,
  sum: string,
  parts: [number, number] | null,
  measure: Measure,
): Pick<GradientLabel, "added"> {
  if (!parts || !grad) return {};
  const [before, came] = parts;
  const added = `${boardNumber(before)} ${asAdded(boardNumber(came))}`;
  if (rows.length === 0 && size === "full")
    return measure(added, "cell") < grad.width - 8 ? { added } : {};
  const words = rows.length > 0 ? `.grad ${added}` : added;
  const width = measure(words, "cell") + measure(`= ${sum}`, "digits");
  return width < grad.width - 20 ? { added } : {};
}

/** The sum of a node's shares, "−6.9 − 6.9", in its card; null if it does not fit. */
export function sumLabel(
  scene: Scene,
  { id, index, x, y, shape: { card } }: SceneNode,
  { run, ready }: Recording,
  measure: Measure,
): GradientLabel | null {
  if (!card?.sum || !run) return null;
  const shares: number[] = [];
  run.edges.forEach((edge, i) => {
    const drawn = scene.edges[scene.edgeOf ? scene.edgeOf[edge] : edge];
    const value = run.values[i];
    if (drawn?.target === index && edgesOf(drawn).at(-1) === edge && typeof value === "number")
      shares.push(value);
  });
  const text = shares
    .map((share, i) => (i === 0 ? boardNumber(share) : asAdded(boardNumber(share))))
    .join(" ");
  if (shares.length < 2 || measure(text, "cell") > card.sum.width - 6) return null;
  const { sum } = card;
  return {
    ...{ x: x + sum.x, y: y + sum.y, width: sum.width, height: sum.height },
    ...{ key: `sum ${index}`, text, alarming: false, edge: null, nodes: [id] },
    from: ready[id],
    cell: "sum",
  };
}
