import type { Traits } from "../channel";
import type { GraphModel } from "../wire";

/** The traits of a new widget: no backward pass, no selection, no constants. */
export function freshTraits(graph: GraphModel, change: Partial<Traits> = {}): Traits {
  return {
    model: graph,
    details: null,
    state: { runs: 0, reached: [], flowed: [], freed: [], held: [], note: "" },
    _fault: null,
    selected: null,
    direction: "down",
    constants: false,
    cursor: 0,
    _steps: [],
    run: null,
    transport: { owned: false, note: null, blocked: null },
    ...change,
  };
}
