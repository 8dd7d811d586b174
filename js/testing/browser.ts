import { afterEach, beforeEach, vi } from "vitest";

/** Gives jsdom what it lacks: a size for every element and observers, which are counted. */
export function fakeBrowser(width = 1000, height = 500): { observers: () => number } {
  let observing = 0;
  class FakeResizeObserver {
    private active = false;
    observe(): void {
      if (!this.active) observing += 1;
      this.active = true;
    }
    unobserve(): void {}
    disconnect(): void {
      if (this.active) observing -= 1;
      this.active = false;
    }
  }
  vi.stubGlobal("ResizeObserver", FakeResizeObserver);
  vi.stubGlobal("requestAnimationFrame", (call: (now: number) => void) =>
    setTimeout(() => call(performance.now()), 0),
  );
  vi.stubGlobal("cancelAnimationFrame", (id: number) => clearTimeout(id));
  vi.stubGlobal("matchMedia", (query: string) => ({
    matches: query.includes("reduced-motion"),
    addEventListener: () => {
      observing += 1;
    },
    removeEventListener: () => {
      observing -= 1;
    },
  }));
  // jsdom has no canvas, and says so each time it is asked.
  Object.defineProperty(HTMLCanvasElement.prototype, "getContext", {
    configurable: true,
    value: () => null,
  });
  const size = (value: number) => ({ configurable: true, get: () => value });
  Object.defineProperty(HTMLElement.prototype, "clientWidth", size(width));
  Object.defineProperty(HTMLElement.prototype, "clientHeight", size(height));
  return { observers: () => observing };
}

/** The page that the tests of a file draw on. */
interface TestPage {
  /** Takes away what the test has put there; the test sets it. */
  remove: () => void;
  observers: () => number;
}

/** Has every test of a file, or of a `describe`, begin with an empty page in such a browser. */
export function testPage(): TestPage {
  const page: TestPage = { remove: () => {}, observers: () => 0 };
  beforeEach(() => {
    page.observers = fakeBrowser().observers;
  });
  afterEach(() => {
    page.remove();
    page.remove = () => {};
    document.body.replaceChildren();
    vi.unstubAllGlobals();
  });
  return page;
}

/** So many frames, each asked for in the one before, are painted at most before a test looks again. */
const FRAMES = 5;

/** After the next painted frames. Timers, as the frames are here: they come in order, however late the machine is. */
export async function nextFrame(): Promise<void> {
  for (let frame = 0; frame < FRAMES; frame++) await new Promise((done) => setTimeout(done, 0));
}

/** Waits until something holds. A time limit only ends a test that would never end. */
export function eventually(holds: () => void): Promise<void> {
  return vi.waitFor(holds, 120_000);
}
