// @vitest-environment jsdom
import fc from "fast-check";
import { afterEach, describe, expect, it, vi } from "vitest";
import { createSaveMenu, fileName, pngScale } from "./save_menu";

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
  document.body.replaceChildren();
});

describe("fileName", () => {
  it.each([
    [["loss"], "loss"],
    [["a", "b"], "a_b"],
    [[null], "graph"],
    [[], "graph"],
    [["out[0]"], "out_0"],
    [["../../etc/passwd"], "etc_passwd"],
    [["потери"], "потери"],
    [["損失"], "損失"],
    [["a".repeat(200)], "a".repeat(60)],
    [["\u202egnp.exe"], "gnp_exe"],
  ])("%j is %s", (names, expected) => expect(fileName(names)).toBe(expected));

  it("is a name that any file system takes", () => {
    fc.assert(
      fc.property(fc.array(fc.option(fc.string({ unit: "binary" }))), (names) => {
        expect(fileName(names)).toMatch(/^[\p{L}\p{M}\p{N}_-]{1,60}$/u);
      }),
    );
  });
});

describe("pngScale", () => {
  it("is 2, but for pictures larger than canvases can be", () => {
    expect(pngScale({ width: 800, height: 600 })).toBe(2);
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 1e6 }), fc.integer({ min: 1, max: 1e6 }), (w, h) => {
        const scale = pngScale({ width: w, height: h });
        expect(Math.max(w, h) * scale).toBeLessThanOrEqual(16_384.001);
        expect(w * h * scale * scale).toBeLessThanOrEqual(2 ** 26 * 1.001);
      }),
    );
  });
});

describe("the menu", () => {
  const picture = (size: number) => ({ text: "<svg/>", width: size, height: size });
  async function chosen(item: number, size = 10) {
    vi.useFakeTimers();
    const menu = createSaveMenu(
      () => picture(size),
      () => ["loss"],
    );
    document.body.append(menu);
    const files: string[] = [];
    menu.addEventListener("click", (event) => {
      const link = (event.target as Element).closest("a");
      if (link) files.push(`${link.download} ${link.isConnected}`);
      if (link) event.preventDefault();
    });
    menu.querySelectorAll<HTMLElement>("[role=menuitem]")[item].click();
    await vi.advanceTimersByTimeAsync(100);
    return { note: menu.querySelector("[role=status]") as HTMLElement, files, menu };
  }
  /** Mock canvases and images, which jsdom lacks. */
  function drawable(works = true) {
    vi.stubGlobal("URL", { createObjectURL: () => "blob:x", revokeObjectURL: () => {} });
    class FakeImage {
      onload = () => {};
      onerror = () => {};
      set src(_: string) {
        Promise.resolve().then(() => (works ? this.onload() : this.onerror()));
      }
    }
    vi.stubGlobal("Image", FakeImage);
    vi.spyOn(HTMLCanvasElement.prototype, "getContext").mockReturnValue(null);
    vi.spyOn(HTMLCanvasElement.prototype, "toBlob").mockImplementation((done) =>
      done(new Blob(["png"])),
    );
  }

  it("hands over a file that is called after the output", async () => {
    drawable();
    const { note, files, menu } = await chosen(0);
    expect(files).toEqual(["loss.svg true"]);
    expect(note.textContent).toBe("Saved loss.svg, 6 bytes.");
    expect(menu.querySelector("a")).toBeNull();
    expect((await chosen(1)).files).toEqual(["loss.png true"]);
  });

  it("says when a picture comes out smaller than others", async () => {
    drawable();
    expect((await chosen(1, 100)).note.textContent).toBe("Saved loss.png, 3 bytes.");
    expect((await chosen(1, 20_000)).note.textContent).toMatch(/scale is 0\.41 instead of 2/);
  });

  it("says what to do where nothing can be copied or drawn", async () => {
    drawable();
    vi.stubGlobal("ClipboardItem", undefined);
    expect((await chosen(2)).note.textContent).toMatch(/copy images.*Save it as PNG instead\.$/);
    vi.stubGlobal("ClipboardItem", class {});
    const write = () => Promise.reject(new DOMException("no", "NotAllowedError"));
    vi.stubGlobal("navigator", { clipboard: { write } });
    expect((await chosen(2)).note.textContent).toMatch(/copy images.*Save it as PNG instead\.$/);
    drawable(false);
    expect((await chosen(2)).note.textContent).toMatch(/cannot draw.*Save it as SVG instead\.$/);
    expect((await chosen(1)).note.textContent).toMatch(/cannot draw.*Save it as SVG instead\.$/);
  });

  it("copies a PNG that is still to come", async () => {
    drawable();
    const given: Record<string, Promise<Blob>>[] = [];
    vi.stubGlobal(
      "ClipboardItem",
      class {
        constructor(items: Record<string, Promise<Blob>>) {
          given.push(items);
        }
      },
    );
    vi.stubGlobal("navigator", { clipboard: { write: async () => {} } });
    const { note } = await chosen(2);
    expect(note.textContent).toBe("Copied.");
    expect(Object.keys(given[0])).toEqual(["image/png"]);
    expect((await given[0]["image/png"]).size).toBe(3);
  });
});
