/** Modules that the bundle does not carry, and the files that stand in for them; each says why. */
export const STAND_INS = {
  "d3-transition": "./drawing/no_transition.ts",
  "d3-interpolate": "./drawing/no_transition.ts",
};
