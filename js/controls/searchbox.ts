import { button, element, KEEP_KEYS, say } from "../dom/element";
import { ICONS } from "../dom/icons";

interface SearchEvents {
  /** The text changed; returns the matches. */
  find(query: string): number[];
  /** The words for a match in the list: its name, and its place. User text. */
  describe(id: number): [name: string, place: string];
  /** Move to a match, or to none. */
  go(id: number | null): void;
  /** Escape in an empty field. */
  left(): void;
}

/** From this many nodes on, the field is always open. */
const MANY = 15;

/** The most matches in the list. */
const MOST_LISTED = 100;

let boxes = 0;

/**
 * A button that opens a search field with a list of matches. The picture moves to a match once it is chosen; then the
 * count ("2 of 17") has buttons that step through them.
 */
export class SearchBox {
  readonly element: HTMLElement;
  private found: number[] = [];
  /** The shown match; -1 before one is chosen. */
  private at = -1;
  private readonly list = element("ul", {
    class: "gw-search-list",
    role: "listbox",
    "aria-label": "Matches",
    hidden: true,
  });
  /** Whether the field stays open without a search. */
  private stays = false;
  private readonly field = element("input", {
    type: "text",
    class: "gw-search-field",
    placeholder: "Find name, op or shape",
    "aria-label": "Find nodes by name, operation or shape",
    title: "Find nodes by name, operation or shape (/)",
    autocomplete: "off",
    spellcheck: "false",
    role: "combobox",
    "aria-expanded": "false",
    ...KEEP_KEYS,
  });
  private readonly count = element("span", {
    class: "gw-search-count",
    role: "status",
    "aria-live": "polite",
  });
  private readonly previous = button(
    { label: "Previous match", title: "Previous match (Shift+Enter)", icon: ICONS.up },
    () => this.step(-1),
  );
  private readonly next = button(
    { label: "Next match", title: "Next match (Enter)", icon: ICONS.down },
    () => this.step(1),
  );
  private readonly extra: HTMLElement;

  constructor(private readonly events: SearchEvents) {
    const { field, count, previous, next } = this;
    const clear = button(
      { label: "Clear the search", title: "Clear the search (Esc)", icon: ICONS.close },
      () => {
        this.set("");
        field.focus();
      },
    );
    this.extra = element("span", { class: "gw-search-extra", hidden: true });
    this.extra.append(count, previous, next, clear);
    const open = button(
      { label: "Find", title: "Find nodes by name, operation or shape (/)", icon: ICONS.search },
      () => this.focus(),
    );
    const key = element("kbd", {}, "/");
    this.element = element("div", "gw-search", [open, field, key, this.extra, this.list]);
    field.addEventListener("input", () => this.run());
    field.addEventListener("keydown", (event) => this.press(event));
    // A press on the list leaves the focus in the field.
    this.list.addEventListener("pointerdown", (event) => event.preventDefault());
    this.list.addEventListener("click", ({ target }) => {
      const row = (target as Element).closest("[role=option]");
      if (row) this.choose([...this.list.children].indexOf(row));
    });
    this.element.addEventListener("focusout", ({ relatedTarget }) => {
      if (this.element.contains(relatedTarget as Node | null)) return;
      if (field.value === "") this.rest();
      else this.setListed(false);
    });
    this.update();
  }

  focus(): void {
    const { field } = this;
    this.element.classList.add("is-asked");
    this.setOpen(true);
    field.focus({ preventScroll: true });
    field.select();
  }

  /** End the search; false if there was none. */
  clear(): boolean {
    if (this.field.value === "") return false;
    this.set("");
    this.rest();
    return true;
  }

  /** Search again, for example in a new graph. */
  refresh(nodes: number): void {
    this.stays = nodes >= MANY;
    this.setOpen(this.stays || this.field.value !== "");
    if (this.field.value === "") return;
    const before = this.found.join();
    this.found = this.events.find(this.field.value);
    if (this.found.join() !== before) this.at = -1;
    this.update();
  }

  private press(event: KeyboardEvent): void {
    const { key } = event;
    const by = key === "ArrowUp" || (key === "Enter" && event.shiftKey) ? -1 : 1;
    if (key === "Enter" || key === "ArrowDown" || key === "ArrowUp") this.step(by);
    else if (key === "Escape" && this.field.value !== "") this.set("");
    else if (key === "Escape") {
      this.rest();
      this.events.left();
    } else return;
    event.preventDefault();
  }

  private rest(): void {
    this.element.classList.remove("is-asked");
    this.setOpen(this.stays);
  }

  private setOpen(open: boolean): void {
    this.element.classList.toggle("is-open", open);
  }

  private setListed(listed: boolean): void {
    this.list.hidden = !listed;
    this.field.ariaExpanded = String(listed);
  }

  /** List the matches. */
  private fill(): void {
    const { found, events, list, field } = this;
    if (list.id === "") {
      list.id = `gw-search-list-${++boxes}`;
      field.setAttribute("aria-controls", list.id);
    }
    const rows = found.slice(0, MOST_LISTED).map((id, i) => {
      const [name, place] = events.describe(id);
      return element("li", { role: "option", id: `${list.id}-${i}`, title: name }, [
        element("b", {}, name),
        element("span", {}, place),
      ]);
    });
    const more = found.length - rows.length;
    list.replaceChildren(
      ...rows,
      ...(more > 0 ? [element("li", "gw-search-more", `and ${more} more`)] : []),
    );
    list.scrollTop = 0;
    this.setListed(rows.length > 0);
  }

  private update(): void {
    const { found, at, previous, next } = this;
    const { classList } = this.element;
    const searching = this.field.value.trim() !== "";
    this.extra.hidden = !searching;
    classList.toggle("is-searching", searching);
    classList.toggle("is-empty", searching && found.length === 0);
    const where = at < 0 ? `${found.length}` : `${at + 1} of ${found.length}`;
    this.count.textContent = !searching ? "" : found.length === 0 ? "no match" : where;
    previous.disabled = next.disabled = found.length === 0;
    const rows = [...this.list.querySelectorAll<HTMLElement>("[role=option]")];
    for (const [i, row] of rows.entries()) row.ariaSelected = String(i === at);
    if (rows[at]) {
      say(this.field, "aria-activedescendant", rows[at].id);
      rows[at].scrollIntoView?.({ block: "nearest" });
    } else this.field.removeAttribute("aria-activedescendant");
  }

  /** Find and list. The picture goes back to what it showed before, and moves once a match is chosen. */
  private run(): void {
    this.found = this.events.find(this.field.value);
    this.at = -1;
    this.fill();
    this.update();
    this.events.go(null);
  }

  private choose(at: number): void {
    this.at = at;
    this.update();
    this.events.go(this.found[at]);
  }

  private set(text: string): void {
    this.field.value = text;
    this.run();
  }

  private step(by: number): void {
    const { found, at } = this;
    if (found.length === 0) return;
    this.choose(at < 0 ? (by > 0 ? 0 : found.length - 1) : (at + by + found.length) % found.length);
  }
}
