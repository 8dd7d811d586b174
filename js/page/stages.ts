import type { DetailsModel } from "../wire";

/** What of a node's details changes when the cursor gets to `from_step`, and stays so. */
export interface StageModel {
  from_step: number;
  fields: Partial<DetailsModel>;
}

/** The details of a node when the cursor stands after `cursor` steps. */
export function detailsAt(stages: readonly StageModel[], cursor: number): DetailsModel {
  const passed = stages.filter(({ from_step }) => from_step <= cursor);
  return Object.assign({}, ...passed.map(({ fields }) => fields));
}
