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

/** After the next painted frame. */
export function nextFrame(): Promise<void> {
  return new Promise((done) => setTimeout(done, 5));
}
