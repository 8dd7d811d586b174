/**
 * Follow what the page around a frame sends: `{ gradwalk: { theme: "dark", bare: true } }`. A bare page has no heading
 * and no margin.
 */
export function followTheme(): void {
  window.addEventListener("message", ({ source, data }) => {
    if (source !== window.parent && source !== window.top) return;
    const { theme, bare } = data?.gradwalk ?? {};
    const { dataset } = document.documentElement;
    if (theme === "light" || theme === "dark") dataset.theme = theme;
    if (bare === true) dataset.bare = "";
  });
}
