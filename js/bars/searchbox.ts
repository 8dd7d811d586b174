import { button, element, KEEP_KEYS } from "../dom/element";
import { ICONS } from "../dom/icons";

interface SearchEvents {
  /** The text changed; returns what it finds. */
  find(query: string): number[];
  /** Moves to one of the finds, or to none. */
  go(id: number | null): void;
  /** Escape in an empty field. */
  left(): void;
}

export interface SearchBox {
  element: HTMLElement;
  focus(): void;
  /** Ends the search; false if there was none. */
  clear(): boolean;
  /** Searches again, for example in a new graph, whose field stands open where it has many nodes. */
  refresh(nodes: number): void;
}

/** In a graph of so many nodes the field is open before anybody asks for it. */
const MANY = 15;

/** A button that opens a field, which counts its finds ("2 of 17") and steps through them. */
export function createSearchBox(events: SearchEvents): SearchBox {
  let found: number[] = [];
  let at = -1;
  /** Whether the field stays open when nobody searches. */
  let stays = false;
  const field = element("input", {
    type: "text",
    class: "gw-search-field",
    placeholder: "Find name, op or shape",
    "aria-label": "Find nodes by name, operation or shape",
    title: "Find nodes by name, operation or shape (/)",
    autocomplete: "off",
    spellcheck: "false",
    ...KEEP_KEYS,
  });
  const count = element("span", {
    class: "gw-search-count",
    role: "status",
    "aria-live": "polite",
  });
  const previous = button(
    { label: "Previous match", title: "Previous match (Shift+Enter)", icon: ICONS.up },
    () => step(-1),
  );
  const next = button({ label: "Next match", title: "Next match (Enter)", icon: ICONS.down }, () =>
    step(1),
  );
  const clear = button(
    { label: "Clear the search", title: "Clear the search (Esc)", icon: ICONS.close },
    () => {
      set("");
      field.focus();
    },
  );
  const extra = element(
    "span",
    { class: "gw-search-extra", hidden: true },
    count,
    previous,
    next,
    clear,
  );
  const box = element(
    "div",
    "gw-search",
    button(
      { label: "Find", title: "Find nodes by name, operation or shape (/)", icon: ICONS.search },
      focus,
    ),
    field,
    element("kbd", {}, "/"),
    extra,
  );

  function focus(): void {
    box.classList.add("is-asked");
    setOpen(true);
    field.focus({ preventScroll: true });
    field.select();
  }

  /** The field is as it was before anybody asked for it. */
  function rest(): void {
    box.classList.remove("is-asked");
    setOpen(stays);
  }

  function setOpen(open: boolean): void {
    box.classList.toggle("is-open", open);
  }

  function update(): void {
    const searching = field.value.trim() !== "";
    extra.hidden = !searching;
    box.classList.toggle("is-searching", searching);
    box.classList.toggle("is-empty", searching && found.length === 0);
    const where = at < 0 ? `${found.length}` : `${at + 1} of ${found.length}`;
    count.textContent = !searching ? "" : found.length === 0 ? "no match" : where;
    previous.disabled = found.length === 0;
    next.disabled = found.length === 0;
  }

  function run(): void {
    found = events.find(field.value);
    at = found.length > 0 ? 0 : -1;
    update();
    events.go(found[at] ?? null);
  }

  function set(text: string): void {
    field.value = text;
    run();
  }

  function step(by: number): void {
    if (found.length === 0) return;
    at = (at + by + found.length) % found.length;
    update();
    events.go(found[at]);
  }

  field.addEventListener("input", run);
  field.addEventListener("keydown", (event) => {
    const by = event.key === "ArrowUp" || (event.key === "Enter" && event.shiftKey) ? -1 : 1;
    if (event.key === "Enter" || event.key === "ArrowDown" || event.key === "ArrowUp") step(by);
    else if (event.key === "Escape" && field.value !== "") set("");
    else if (event.key === "Escape") {
      rest();
      events.left();
    } else return;
    event.preventDefault();
  });
  box.addEventListener("focusout", ({ relatedTarget }) => {
    if (field.value === "" && !box.contains(relatedTarget as Node | null)) rest();
  });
  update();
  return {
    element: box,
    focus,
    clear() {
      if (field.value === "") return false;
      set("");
      rest();
      return true;
    },
    refresh(nodes) {
      stays = nodes >= MANY;
      setOpen(stays || field.value !== "");
      if (field.value !== "") run();
    },
  };
}
