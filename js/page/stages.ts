import type { DetailsModel, StageModel } from "../wire";

/** A node's details after `cursor` steps. */
export function detailsAt(stages: readonly StageModel[], cursor: number): DetailsModel {
  const passed = stages.filter(({ from_step }) => from_step <= cursor);
  return Object.assign({}, ...passed.map(({ fields }) => fields));
}
