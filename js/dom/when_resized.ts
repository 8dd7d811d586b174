/**
 * Calls back after elements have changed their size, in the next frame: sizes that are set while sizes are observed
 * would be observed again at once. Returns what ends it.
 */
export function whenResized(elements: readonly Element[], changed: () => void): () => void {
  let frame = 0;
  const observer = new ResizeObserver(() => {
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(changed);
  });
  for (const element of elements) observer.observe(element);
  return () => {
    cancelAnimationFrame(frame);
    observer.disconnect();
  };
}
