import { Builder } from "../demo/build_graph";
import type { GraphModel } from "../wire";

const SHAPE = [2, 8];

/**
 * An encoder and a decoder of so many blocks, as of T5: one table embeds for both and makes the output, the first block
 * of each has a small table more, and each calls its dropout before and after its blocks.
 */
export function translator(blocks: number): GraphModel {
  const g = new Builder();
  const shared = g.leaf("shared.weight", [50, 8]);
  const within = (path: string, make: () => number) => {
    g.namespace = path;
    const made = make();
    g.namespace = "";
    return made;
  };
  const linear = (path: string, input: number) =>
    within(path, () => {
      const weight = g.leaf(`${path}.weight`.replaceAll("/", "."), [8, 8]);
      return g.op("MmBackward0", SHAPE, { self: input, mat2: weight });
    });
  const add = (path: string, a: number, b: number) =>
    within(path, () => g.op("AddBackward0", SHAPE, { self: a, other: b }));
  const half = (name: string, memory: number | null) => {
    const embed = within(`${name}/embed`, () =>
      g.op("EmbeddingBackward0", SHAPE, { weight: shared }),
    );
    const drop = (input: number) =>
      within(`${name}/dropout`, () => g.op("MulBackward0", SHAPE, { self: input }));
    let x = drop(embed);
    for (let i = 0; i < blocks; i++) {
      const path = `${name}/block/${i}`;
      let attended = linear(`${path}/attention`, x);
      if (i === 0) attended = add(path, attended, g.leaf(`${name}.block.0.bias.weight`, [2, 8]));
      if (memory !== null) attended = add(path, attended, linear(`${path}/cross`, memory));
      x = add(path, x, linear(`${path}/out`, attended));
    }
    return drop(linear(`${name}/norm`, x));
  };
  g.namespace = "";
  const decoded = half("decoder", half("encoder", null));
  const head = within("head", () => g.op("MmBackward0", [2, 50], { self: decoded, mat2: shared }));
  const graph = g.graph([g.op("MeanBackward0", [], { self: head }, "loss"), "loss"]);
  const items = Array.from({ length: blocks }, (_, i) => i);
  return {
    ...graph,
    modules: {
      names: ["Block", "Dropout"],
      namespaces: ["encoder", "decoder"].flatMap((name) => [
        ...items.map((i) => `${name}/block/${i}`),
        `${name}/dropout`,
      ]),
      classes: ["encoder", "decoder"].flatMap(() => [...items.map(() => 0), 1]),
    },
  };
}
