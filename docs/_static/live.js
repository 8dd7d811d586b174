// Live pictures: frames, and pictures of the gallery, follow the theme of the site.
const theme = () => document.documentElement.dataset.theme || "light";
function tell({ contentWindow: page }) {
  if (!page) return;
  page.postMessage({ gradwalk: { theme: theme(), bare: true } }, "*");
  // A comparison has a page for each graph.
  for (let i = 0; i < page.length; i++) page[i].postMessage({ gradwalk: { theme: theme() } }, "*");
}
const address = (name) => `${document.documentElement.dataset.content_root ?? "./"}_live/${name}.html`;

/** Lets a picture follow the theme of the site rather than that of the system. */
function paint(source) {
  source.dataset.media ??= source.media;
  const stated = theme() === "dark" ? "(min-width: 0)" : "(max-width: 0)";
  source.media = source.dataset.media.replace("(prefers-color-scheme: dark)", stated);
}

function follow() {
  document.querySelectorAll("iframe.live").forEach(tell);
  document.querySelectorAll("source[media*='prefers-color-scheme'], source[data-media]").forEach(paint);
}

function liveFrame(name, title) {
  const frame = document.createElement("iframe");
  frame.className = "live";
  frame.height = "480";
  frame.title = title;
  frame.src = address(name);
  frame.addEventListener("load", () => tell(frame));
  return frame;
}

function suit(frame, height) {
  if (height > 0) frame.height = Math.max(240, Math.min(1200, height));
}

// A picture says how tall it is, also when its panel opens below it.
window.addEventListener("message", ({ source, data }) => {
  for (const frame of document.querySelectorAll("iframe.live"))
    if (frame.contentWindow === source) suit(frame, data?.gradwalk?.height);
});

/** Makes a comparison as tall as the tallest of its pages. Files opened without a server show no document. */
function suitPages(frame) {
  const inner = [...(frame.contentDocument?.querySelectorAll("iframe") ?? [])];
  const bodies = inner.flatMap((page) => page.contentDocument?.body ?? []);
  const observer = new ResizeObserver(() => suit(frame, Math.max(...bodies.map((body) => body.offsetHeight))));
  for (const body of bodies) observer.observe(body);
}

document.addEventListener("DOMContentLoaded", () => {
  for (const frame of document.querySelectorAll("iframe.live")) {
    frame.addEventListener("load", () => {
      tell(frame);
      suitPages(frame);
    });
    frame.src = address(frame.dataset.live);
  }
  // A picture of the gallery is still until it is asked for.
  for (const image of document.querySelectorAll("picture > img[src*='_light_1400']")) {
    const name = image.getAttribute("src").match(/gallery\/(\w+)_light_1400/)?.[1];
    const button = document.createElement("button");
    button.className = "live-start";
    button.textContent = "Make it interactive";
    button.addEventListener("click", () => {
      const heading = image.closest("section")?.querySelector("h2")?.firstChild?.textContent ?? name;
      const frame = liveFrame(`gallery-${name}`, `Interactive graph: ${heading}`);
      button.parentElement.replaceWith(frame);
      frame.focus();
    });
    const still = document.createElement("div");
    still.className = "live-still";
    image.parentElement.replaceWith(still);
    still.append(image.parentElement, button);
  }
  follow();
  new MutationObserver(follow).observe(document.documentElement, { attributeFilter: ["data-theme"] });
});
