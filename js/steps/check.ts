import type { GraphModel, RunModel, StepModel } from "../wire";

/** Returns the steps as they are, or throws one whole sentence that says what is wrong with them. */
export function checkSteps(value: unknown, { nodes }: GraphModel): StepModel[] {
  if (!Array.isArray(value)) {
    throw new Error("The steps of the backward pass that Python sent are not a list.");
  }
  const seen = new Set<number>();
  value.forEach((step, k) => {
    if (!isRecord(step) || step.step !== k + 1) {
      throw new Error(`Step ${k + 1} of the backward pass does not carry its number.`);
    }
    if (!isIndex(step.node, nodes.length) || seen.has(step.node as number)) {
      throw new Error(
        `Step ${k + 1} of the backward pass does not run one of the graph's ${nodes.length} nodes for the first time.`,
      );
    }
    seen.add(step.node as number);
    if (!isIndex(step.ready, k + 1)) {
      throw new Error(`Step ${k + 1} of the backward pass runs before its gradients are there.`);
    }
    if (typeof step.op !== "string" || !isText(step.name) || !isText(step.accumulated)) {
      throw new Error(`Step ${k + 1} of the backward pass lacks its operation or its name.`);
    }
  });
  return value;
}

/** Returns the run as it is, or throws one whole sentence that says what is wrong with it. */
export function checkRun(value: unknown, { nodes, edges }: GraphModel): RunModel | null {
  if (value === null || value === undefined) return null;
  if (!isRecord(value)) throw new Error("What flowed in the backward pass is not a record.");
  for (const list of ["seeds", "edges", "values", "norms", "grads", "marks"]) {
    if (!Array.isArray(value[list])) {
      throw new Error(`What flowed in the backward pass lacks its list of ${list}.`);
    }
  }
  const run = value as unknown as RunModel;
  if (run.values.length !== run.edges.length || run.norms.length !== run.edges.length) {
    throw new Error("The backward pass does not have one gradient for each edge that it used.");
  }
  for (const edge of run.edges) {
    if (!isIndex(edge, edges.length)) {
      throw new Error(
        `A gradient of the backward pass flows along edge ${String(edge)}, but the graph has ${edges.length} edges.`,
      );
    }
  }
  for (const part of [...run.seeds, ...run.grads, ...run.marks]) {
    if (!isRecord(part) || !isIndex(part.node, nodes.length)) {
      throw new Error(
        `The backward pass says something about a node that is not one of the graph's ${nodes.length}.`,
      );
    }
  }
  for (const { note } of run.marks) {
    if (typeof note !== "string") {
      throw new Error("A node of the backward pass is marked without a sentence that says why.");
    }
  }
  return run;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isIndex(value: unknown, n: number): boolean {
  return Number.isInteger(value) && (value as number) >= 0 && (value as number) < n;
}

function isText(value: unknown): boolean {
  return value === null || typeof value === "string";
}
