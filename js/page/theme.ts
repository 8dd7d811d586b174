/** Follow the theme that the outer page of a frame sends: `{ gradwalk: { theme: "dark" } }`. */
export function followTheme(): void {
  window.addEventListener("message", ({ source, data }) => {
    const theme = data?.gradwalk?.theme;
    if (source === window.parent && (theme === "light" || theme === "dark"))
      document.documentElement.dataset.theme = theme;
  });
}
