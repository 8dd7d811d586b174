import { COMPARE_PARTS } from "../../compare/compare_part";
import { compiledSigns, createCompiledTable } from "./compared";

/** The compiler's treatment of each operation. */
COMPARE_PARTS.push((channel, choose) => {
  const { element, update } = createCompiledTable(choose);
  return {
    element,
    update: () => update(channel.get("compiled")),
    signs: () => compiledSigns(channel.get("compiled")),
  };
});
