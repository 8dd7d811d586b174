import { gradientsPlaced } from "../paint/gradients";

/** Every gradient of a run. */
export const placeGradients = (...run: Parameters<typeof gradientsPlaced>) =>
  [...gradientsPlaced(...run)].flat();
