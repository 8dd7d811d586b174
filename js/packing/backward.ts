import type {
  JsonNumber,
  PackedRun,
  PackedState,
  PackedSteps,
  RunModel,
  StateModel,
  StepModel,
  Values,
} from "../wire";
import { damaged, entriesAt, isText, summed, unpackColumn, unpackRanges } from "./column";

/** The state that `gradwalk.packing.backward` packed, or throws one whole sentence; and so the next two. */
export function unpackState(packed: PackedState): StateModel {
  return {
    ...packed,
    reached: unpackRanges(packed.reached, "reached"),
    flowed: unpackRanges(packed.flowed, "flowed"),
    freed: unpackRanges(packed.freed, "freed"),
  };
}

/** The steps. Those of a comparison travel as a list, and stay one. */
export function unpackSteps(packed: PackedSteps | StepModel[]): StepModel[] {
  if (Array.isArray(packed)) return packed;
  const text = <T = string | null>(column: "op" | "name" | "accumulated") =>
    entriesAt<T>(packed.texts, unpackColumn(packed[column], column), "texts", isText);
  const [ops, names, accumulated] = [text<string>("op"), text("name"), text("accumulated")];
  const waited = unpackColumn(packed.waited, "waited");
  return summed(unpackColumn(packed.node, "node")).map((node, before) => ({
    step: before + 1,
    node,
    op: ops[before],
    name: names[before],
    accumulated: accumulated[before],
    ready: before - waited[before],
  }));
}

/** What flowed. */
export function unpackRun({ valued, ...packed }: PackedRun): RunModel {
  const edges = unpackRanges(packed.edges, "edges");
  const values = new Array<Values | null>(edges.length).fill(null);
  unpackRanges(valued, "valued").forEach((place, i) => {
    if (!(place in values)) damaged("valued");
    values[place] = packed.values[i];
  });
  return {
    ...packed,
    edges,
    values,
    norms: unpackColumn<JsonNumber | null>(packed.norms, "norms", () => true),
  };
}
