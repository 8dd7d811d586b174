import { afterEach, beforeEach, vi } from "vitest";

/** Add what jsdom lacks: a size for every element and observers, which are counted. */
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
  // jsdom has no canvas, and prints an error at each request.
  Object.defineProperty(HTMLCanvasElement.prototype, "getContext", {
    configurable: true,
    value: () => null,
  });
  const size = (value: number) => ({ configurable: true, get: () => value });
  Object.defineProperty(HTMLElement.prototype, "clientWidth", size(width));
  Object.defineProperty(HTMLElement.prototype, "clientHeight", size(height));
  return { observers: () => observing };
}

/** The page of a file's tests. */
interface TestPage {
  /** Remove the test's views; setting it adds one. */
  remove: () => void;
  observers: () => number;
}

/** Start every test with an empty page in a fake browser. */
export function testPage(width = 1000, height = 500): TestPage {
  const removes: (() => void)[] = [];
  const page: TestPage = {
    get remove() {
      return () => {
        for (const remove of removes.splice(0)) remove();
      };
    },
    set remove(remove) {
      removes.push(remove);
    },
    observers: () => 0,
  };
  beforeEach(() => {
    page.observers = fakeBrowser(width, height).observers;
  });
  afterEach(() => {
    page.remove();
    document.body.replaceChildren();
    vi.useRealTimers();
    vi.unstubAllGlobals();
  });
  return page;
}

/** The most nested frames that are painted before a test continues. */
const FRAMES = 5;

/** Wait for the next painted frames. Frames are timers here, so they run in order on any machine. */
export async function nextFrame(): Promise<void> {
  for (let frame = 0; frame < FRAMES; frame++) await new Promise((done) => setTimeout(done, 0));
}

/** Wait until the assertion holds. The time limit only ends failing tests. */
export function eventually(holds: () => void): Promise<void> {
  return vi.waitFor(holds, 120_000);
}
