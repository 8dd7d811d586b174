/** Whether the reader asked for less motion. */
export function prefersLessMotion(): boolean {
  return typeof matchMedia === "function" && matchMedia("(prefers-reduced-motion: reduce)").matches;
}
