import type { Traits } from "../channel";
import type { GraphModel } from "../wire";

/** What a widget has that was just made: no backward pass, nothing selected, no constants drawn. */
export function freshTraits(graph: GraphModel, change: Partial<Traits> = {}): Traits {
  return {
    graph,
    details: null,
    state: { runs: 0, reached: [], flowed: [], freed: [], held: [], note: "" },
    _fault: null,
    selected: null,
    direction: "down",
    constants: false,
    cursor: 0,
    steps: [],
    run: null,
    transport: { owned: false, note: null, blocked: null },
    ...change,
  };
}
