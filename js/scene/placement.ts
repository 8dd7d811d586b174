import type { Layout } from "../layout/types";
import type { PortalSign } from "./scene";

/** The place of everything in a picture, in the layout's coordinates. */
export interface Placement extends Omit<Layout, "points" | "pointStart" | "detour"> {
  /** Per edge, 1 if it does not leave and arrive along the flow: up, or to a docked node. */
  apart: Uint8Array;
  /** Per edge, whether it is in a half that runs against the flow. */
  isMirrored?: Uint8Array;
  /** Flat curves of edges that the layout did not see. */
  lines?: ReadonlyMap<number, readonly number[]>;
  /** The signs of edges that are portals. */
  portals?: ReadonlyMap<number, PortalSign>;
}
