import { button, element, KEEP_KEYS } from "../dom/element";
import { ICONS } from "../dom/icons";

interface SearchEvents {
  /** The text changed; returns the matches. */
  find(query: string): number[];
  /** Move to a match, or to none. */
  go(id: number | null): void;
  /** Escape in an empty field. */
  left(): void;
}

/** From this many nodes on, the field is always open. */
const MANY = 15;

/** A button that opens a search field with a count of matches ("2 of 17") and steps through them. */
export class SearchBox {
  readonly element: HTMLElement;
  private found: number[] = [];
  private at = -1;
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
    this.element = element("div", "gw-search", open, field, element("kbd", {}, "/"), this.extra);
    field.addEventListener("input", () => this.run());
    field.addEventListener("keydown", (event) => this.press(event));
    this.element.addEventListener("focusout", ({ relatedTarget }) => {
      if (field.value === "" && !this.element.contains(relatedTarget as Node | null)) this.rest();
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
    if (this.field.value !== "") this.run();
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
  }

  private run(): void {
    this.found = this.events.find(this.field.value);
    this.at = this.found.length > 0 ? 0 : -1;
    this.update();
    this.events.go(this.found[this.at] ?? null);
  }

  private set(text: string): void {
    this.field.value = text;
    this.run();
  }

  private step(by: number): void {
    const { found } = this;
    if (found.length === 0) return;
    this.at = (this.at + by + found.length) % found.length;
    this.update();
    this.events.go(found[this.at]);
  }
}
