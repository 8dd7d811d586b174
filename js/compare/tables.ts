import { element } from "../dom/element";
import { createCompiledTable } from "./compiled";
import { createErrorTable } from "./error_table";
import { createLeafTable } from "./leaf_table";
import { createNodeTable } from "./node_table";
import type { CompareChannel } from "./traits";
import type { United } from "./united";

export class CompareTables {
  readonly element: HTMLElement;
  private readonly node = createNodeTable();
  private readonly leaves: ReturnType<typeof createLeafTable>;
  private readonly errors: ReturnType<typeof createErrorTable>;
  private readonly compiled: ReturnType<typeof createCompiledTable>;

  constructor(
    private readonly channel: CompareChannel,
    choose: (place: number) => void,
  ) {
    this.leaves = createLeafTable(choose);
    this.errors = createErrorTable(choose);
    this.compiled = createCompiledTable(choose);
    const { errors, compiled, leaves, node } = this;
    const tables = [errors, compiled, leaves, node].map((table) => table.element);
    this.element = element("div", "gw-tables", ...tables);
  }

  /** Show or hide the tables; returns whether they are visible. */
  toggle(): boolean {
    this.element.hidden = !this.element.hidden;
    return !this.element.hidden;
  }

  show({ panes }: United): void {
    this.leaves.element.hidden = panes.every(({ graph }) => graph.static);
    this.compiled.update(this.channel.get("compiled"));
    this.errors.update(this.channel.get("errors"));
  }

  showNode(united: United, progress: Parameters<typeof this.node.update>[3]): void {
    const { channel } = this;
    this.node.update(united, channel.get("selected"), channel.get("details"), progress);
  }

  /** Show the leaves' gradients after `cursor` steps. */
  showLeaves({ panes }: United, cursor: number): void {
    const { channel } = this;
    const total = channel.get("steps").length;
    const when = channel.get("passes").map(({ run }) => {
      if (run === null || total === 0) return "now";
      return cursor === total ? "after" : `at step ${cursor}`;
    });
    const labels = panes.map(({ label }) => label);
    this.leaves.update(channel.get("table"), labels, when);
  }

  select(place: number | null): void {
    this.leaves.select(place);
    this.errors.select(place);
  }
}
