/** Modules that the bundle does not carry, and the files that replace them; each says why. */
export const STAND_INS = {
  "d3-transition": "./interact/d3_transition_stub.ts",
  "d3-interpolate": "./interact/d3_transition_stub.ts",
};
