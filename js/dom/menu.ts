import { button, element, messageOf } from "./element";

/** An entry of a menu and its action, which returns a sentence about the result. */
type MenuItem = [text: string, run: () => Promise<string>];

/** Time to paint a note before work that blocks the page, ms. */
const PAINTED_MS = 40;

/** A button that opens a menu. A choice's result replaces the menu until the focus leaves. */
export function createMenu(label: string, icon: string, items: readonly MenuItem[]): HTMLElement {
  const choices = items.map(([text, run]) => {
    const choice = button({ label: text, text, class: "gw-menu-item" }, () => {
      open(null);
      opener.focus();
      say("Drawing the picture…");
      setTimeout(async () => {
        try {
          say(await run());
        } catch (error) {
          say(messageOf(error), true);
        }
      }, PAINTED_MS);
    });
    choice.setAttribute("role", "menuitem");
    choice.tabIndex = -1;
    return choice;
  });
  const list = element(
    "div",
    { class: "gw-menu-list", role: "menu", "aria-label": label },
    choices,
  );
  const note = element("p", { class: "gw-menu-note", role: "status" });
  const opener = button({ label, icon }, () => open(list.hidden === true ? 0 : null));
  opener.setAttribute("aria-haspopup", "menu");
  const menu = element("span", "gw-menu", [opener, list, note]);

  /** Open the menu with the focus on an item, counted from the end if negative; null closes it. */
  function open(at: number | null): void {
    say("");
    list.hidden = at === null;
    opener.setAttribute("aria-expanded", String(at !== null));
    if (at !== null) choices.at(at % choices.length)?.focus();
  }

  function say(text: string, isFault = false): void {
    note.hidden = text === "";
    note.textContent = text;
    note.classList.toggle("is-alarming", isFault);
  }

  menu.addEventListener("keydown", (event) => {
    const at = choices.indexOf(event.target as HTMLButtonElement);
    const to = { ArrowDown: at + 1, ArrowUp: Math.max(at, 0) - 1, Home: 0, End: -1 }[event.key];
    if (to !== undefined) open(to);
    else if (event.key === "Escape" && !(list.hidden && note.hidden)) {
      opener.focus();
      open(null);
    } else return;
    event.preventDefault();
  });
  menu.addEventListener("mousedown", (event) => event.preventDefault());
  menu.addEventListener("focusout", ({ relatedTarget }) => {
    if (!menu.contains(relatedTarget as Node | null)) open(null);
  });
  open(null);
  return menu;
}
