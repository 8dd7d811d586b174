import type { JsonNumber } from "./values";

/** Something about the graph or its gradients that may be wrong. */
export interface FindingModel {
  kind: "vanishing" | "exploding" | "dead" | "nan" | "no grad" | "cut" | "memory" | "no backward";
  severity: "error" | "warning" | "info";
  nodes: number[];
  /** Whole sentences, with the numbers they rest on. */
  message: string;
  numbers: NumberModel[];
}

/** A number that a finding rests on, and what it is. */
export interface NumberModel {
  name: string;
  value: JsonNumber;
}

/** The bytes held for backward; nodes and namespaces that hold none are left out. */
export interface MemoryModel {
  nodes: number[];
  /** One per entry of `nodes`. */
  bytes: number[];
  namespaces: string[];
  /** One per entry of `namespaces`: of the nodes directly in it. */
  namespace_bytes: number[];
  total: number;
  /** How many tensors have an unknown size. */
  unknown: number;
}
