import type { DetailsModel, StageModel } from "../wire";

/** The details of a node when the cursor stands after `cursor` steps. */
export function detailsAt(stages: readonly StageModel[], cursor: number): DetailsModel {
  const passed = stages.filter(({ from_step }) => from_step <= cursor);
  return Object.assign({}, ...passed.map(({ fields }) => fields));
}
