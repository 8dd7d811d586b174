import { DIRECTIONS, type Direction } from "../wire";

// The layout always runs down; this turns its coordinates.
export { DIRECTIONS, type Direction };

export function asDirection(value: unknown, otherwise: () => Direction = () => "down"): Direction {
  return DIRECTIONS.includes(value as Direction) ? (value as Direction) : otherwise();
}

export function isHorizontal(direction: Direction): boolean {
  return direction === "right" || direction === "left";
}

/** Return a function from layout to drawing coordinates, for this height. */
export function turn(
  direction: Direction,
  height: number,
): (x: number, y: number) => [number, number] {
  if (direction === "down") return (x, y) => [x, y];
  if (direction === "up") return (x, y) => [x, height - y];
  if (direction === "right") return (x, y) => [y, x];
  return (x, y) => [height - y, x];
}

/** The unit vector of the gradients' direction. */
export function flow(direction: Direction): [number, number] {
  if (direction === "down") return [0, 1];
  if (direction === "up") return [0, -1];
  return direction === "right" ? [1, 0] : [-1, 0];
}
