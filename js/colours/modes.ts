import type { Scene } from "../scene/scene";
import {
  COLOUR_MODES,
  type Colouring,
  type ColourMode,
  type ColourSources,
  PLAIN,
} from "./colouring";
import { overlayModes } from "./overlays";

/** All meanings that the choice offers: those of every graph, then the overlays of this one. */
export function colourModes({ get }: Pick<ColourSources, "get">): ColourMode[] {
  return [...COLOUR_MODES, ...overlayModes(get("_overlays") ?? [])];
}

/**
 * The mode that colours a picture before the reader chooses: an overlay, a plan's memory, or the weights' gradients; before
 * backward the view takes the classes.
 */
export function firstMode({ get, graph }: Pick<ColourSources, "get" | "graph">): string {
  const overlay = (get("_overlays") ?? []).find(({ is_shown }) => is_shown);
  if (overlay) return `overlay ${overlay.label}`;
  return graph?.plan ? "memory" : "parameters";
}

/** The data of a mode; null for an unknown mode, or without data. */
export function knownFor(by: string | null, sources: ColourSources): object | null {
  return modeOf(by, sources)?.known(sources) ?? null;
}

/** The colours of a mode; none if nothing is known for it. */
export function colouringOf(by: string, scene: Scene, sources: ColourSources): Colouring {
  const mode = modeOf(by, sources);
  const known = mode?.known(sources) ?? null;
  return mode && known ? mode.colour(scene, known, sources.tree) : PLAIN;
}

function modeOf(by: string | null, sources: ColourSources): ColourMode | undefined {
  return colourModes(sources).find(({ name }) => name === by);
}
