import {
  button,
  choice,
  element,
  focusIn,
  icon,
  KEEP_KEYS,
  linkButton,
  say,
  write,
} from "../dom/element";
import { ICONS } from "../dom/icons";
import { Remembered } from "../dom/remembered";
import { isOver } from "../steps/recording";
import type { Stepper, Stepping } from "../steps/stepping";
import { position, positionText } from "../steps/words";
import { oneLine } from "../text/shorten";
import type { GraphModel, TransportModel } from "../wire";

type Stepped = Pick<Stepper, "toStart" | "toEnd" | "by" | "go" | "togglePlay" | "speed">;

const IDLE = "No backward yet: press One step (›) to run it and stop after the first step.";

/** The most marked nodes that are named; more are counted. */
const MOST_MARKS = 3;

const SPEEDS: [value: string, text: string][] = [
  ["0.5", "½×"],
  ["1", "1×"],
  ["2", "2×"],
  ["4", "4×"],
];

/** The state of the bar besides the steps. */
interface BarState {
  transport: TransportModel | null;
  graph: GraphModel | null;
  /** A note on the passes; null before any. */
  seen?: string | null;
  /** The changes of the last update, shown until the reader steps. */
  live?: readonly [name: string, words: string][] | null;
  /** The name of that update: "live", or "rank 1". */
  of?: string;
}

/** The buttons and the slider that step through a pass, with words. `show` selects a node and moves to it. */
export class TransportBar {
  readonly element: HTMLElement;
  /** Notes over the picture, so that nothing moves when one appears. */
  readonly notes = element("div", { class: "gw-bar-notes", hidden: true });
  private readonly buttons: Buttons;
  private readonly slider: HTMLInputElement;
  private readonly speeds: HTMLSelectElement;
  private readonly before = element("b", {});
  private readonly running = element("button", { type: "button", class: "gw-link", ...KEEP_KEYS });
  private readonly after = element("span", "gw-bar-changes");
  private readonly done = element("span", "gw-bar-done", icon(ICONS.done));
  private readonly text: HTMLElement;
  private readonly owner = element("span", "gw-bar-owner", "recorded");
  private runningNode: number | null = null;
  /** The note that the reader dismissed. */
  private dismissed: string | null = null;
  private wasOwned = false;
  private readonly written = new Remembered();

  constructor(
    private readonly stepper: Stepped,
    private readonly show: (node: number) => void,
  ) {
    const { before, running, after } = this;
    this.buttons = stepButtons(stepper);
    this.slider = stepSlider(stepper);
    this.speeds = speedChoice(stepper);
    this.text = element("span", "gw-bar-text", [before, " ", running, after]);
    const { start, back, play, step, end } = this.buttons;
    this.element = element(
      "div",
      { class: "gw-bar", role: "group", "aria-label": "Step through backward" },
      element("div", "gw-bar-row", [
        play,
        this.slider,
        this.text,
        element("span", "gw-group gw-at-work gw-bar-steps", [start, back, step, end]),
        element("span", "gw-group gw-at-work", [this.done, this.owner, this.speeds]),
      ]),
    );
    running.addEventListener("click", () => {
      if (this.runningNode !== null) show(this.runningNode);
    });
    this.element.addEventListener("keydown", (event) => this.press(event));
  }

  update(stepping: Stepping, state: BarState): void {
    const { transport, graph } = state;
    const { progress } = stepping;
    const total = progress?.recording.steps.length ?? 0;
    this.showPosition(stepping, transport?.blocked ?? null);
    this.showWords(stepping, state);
    this.element.hidden = graph?.static ?? false;
    this.element.classList.toggle("is-idle", total === 0);
    this.speeds.hidden = total === 0;
    this.owner.hidden = total === 0 || (transport?.owned ?? false);
    this.owner.title =
      transport?.note ??
      "Moving through the steps changes the picture and leaves every .grad alone.";
    this.showNotes(stepping, transport, graph);
  }

  private press(event: KeyboardEvent): void {
    const { stepper } = this;
    if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    if (event.target === this.speeds) return;
    if (event.key === "ArrowRight") stepper.by(1);
    else if (event.key === "ArrowLeft") stepper.by(-1);
    else if (event.key === "Home") stepper.toStart();
    else if (event.key === "End") stepper.toEnd();
    else return;
    event.preventDefault();
  }

  /** Update the slider and the buttons. */
  private showPosition({ progress, playing, starting }: Stepping, blocked: string | null): void {
    const { slider, text } = this;
    const { start, back, play, step, end } = this.buttons;
    const total = progress?.recording.steps.length ?? 0;
    const cursor = progress?.cursor ?? 0;
    // Enabled also while a pass starts: the button ignores a second press and keeps the focus.
    const canStart = total === 0 && blocked === null;
    slider.hidden = total === 0;
    text.classList.toggle("is-working", starting);
    say(slider, "max", String(total));
    if (slider.value !== String(cursor)) slider.value = String(cursor);
    const share = `${total === 0 ? 0 : (100 * cursor) / total}%`;
    if (slider.style.getPropertyValue("--gw-done") !== share)
      slider.style.setProperty("--gw-done", share);
    this.enable([
      [step, canStart || cursor < total],
      [back, cursor > 0],
      [end, canStart || cursor < total],
      [start, cursor > 0],
      [play, total > 0],
    ]);
    showPlaying(play, playing, total > 0 && cursor >= total);
    say(text, "aria-live", playing ? "off" : "polite");
  }

  /** Show the running step and its changes, or why there is none. */
  private showWords(
    { progress, starting }: Stepping,
    { transport, graph, seen = null, live = null, of = "live" }: BarState,
  ): void {
    const total = progress?.recording.steps.length ?? 0;
    const isResting = progress === null || total === 0 || isOver(progress);
    const at =
      live && isResting
        ? { before: of, running: null, changes: [...live], isOver: total > 0 }
        : progress && total > 0
          ? position(progress, graph)
          : null;
    write(this.before, at?.before ?? (starting ? "Running backward…" : ""));
    const isMarked = (progress?.recording.run?.marks ?? []).length > 0;
    this.done.hidden = !at?.isOver || isMarked || at.isZero === true;
    this.runningNode = at?.running?.node ?? null;
    this.running.hidden = this.runningNode === null;
    write(this.running, at?.running?.text ?? "");
    const words = at
      ? changeWords(at.changes)
      : [starting ? " Interrupt the kernel to stop it." : (transport?.blocked ?? seen ?? IDLE)];
    // Groups of three, the middle one bold.
    if (this.written.isNew(words.join("\n")))
      this.after.replaceChildren(
        ...words.map((word, i) => (i % 3 === 1 && word !== "" ? element("b", {}, word) : word)),
      );
    const spoken = progress && total > 0 ? positionText(progress, graph) : "";
    const title = [spoken || this.after.textContent, at?.isOver && seen];
    say(this.text, "title", title.filter(Boolean).join(". "));
    say(this.slider, "aria-valuetext", spoken);
  }

  /** Before a button is disabled, move its focus to a neighbour. */
  private enable(wanted: [HTMLButtonElement, boolean][]): void {
    const active = focusIn(this.element);
    const lost = wanted.some(([control, on]) => control === active && !on);
    for (const [control, on] of wanted) if (on) control.disabled = false;
    if (lost) (wanted.find(([, on]) => on)?.[0] ?? this.slider).focus({ preventScroll: true });
    for (const [control, on] of wanted) if (!on) control.disabled = true;
  }

  private showNotes(
    { progress }: Stepping,
    transport: TransportModel | null,
    graph: GraphModel | null,
  ): void {
    const { notes } = this;
    const marks = progress?.recording.run?.marks ?? [];
    // A pass that never moved a .grad here only needs "recorded".
    this.wasOwned ||= transport?.owned ?? false;
    const {
      owned,
      note: spoken,
      blocked,
    } = transport ?? { owned: false, note: null, blocked: null };
    const sentence = this.wasOwned ? (spoken ?? (owned ? null : blocked)) : null;
    const rest = marks.length - MOST_MARKS;
    const parts = [
      ...marks.slice(0, MOST_MARKS).map((mark) => {
        const label = `Show ${oneLine(graph?.nodes[mark.node]?.label ?? "")}`;
        return note(mark.note, true, [linkButton("show", () => this.show(mark.node), { label })]);
      }),
      ...(rest > 0 ? [note(`And ${rest} more marked nodes.`, true)] : []),
      ...(sentence && sentence !== this.dismissed && marks.length === 0
        ? [note(sentence, false, [this.dismissButton(sentence)])]
        : []),
    ];
    const written = parts.map((part) => part.textContent).join("\n");
    // Keep unchanged notes, so that their buttons keep the focus.
    if (notes.dataset.written === written) return;
    notes.dataset.written = written;
    notes.replaceChildren(...parts);
    notes.hidden = parts.length === 0;
  }

  private dismissButton(sentence: string): HTMLElement {
    return button({ label: "Dismiss this note", icon: ICONS.close }, () => {
      this.dismissed = sentence;
      this.notes.hidden = true;
      this.slider.focus({ preventScroll: true });
    });
  }
}

type Buttons = Record<"start" | "back" | "play" | "step" | "end", HTMLButtonElement>;

function stepButtons(stepper: Stepped): Buttons {
  const make = (label: string, title: string, icon: string, clicked: () => void) =>
    button({ label, title, icon }, clicked);
  const { first, back, play, forward, last } = ICONS;
  const [begin, end] = ["before the first step (Home)", "after the last step (End)"];
  const made = {
    start: make("To the start", `To the start, ${begin}`, first, () => stepper.toStart()),
    back: make("One step back", "One step back (←)", back, () => stepper.by(-1)),
    play: make("Play", "Play", play, () => stepper.togglePlay()),
    step: make("One step", "One step (→)", forward, () => stepper.by(1)),
    end: make("To the end", `To the end, ${end}`, last, () => stepper.toEnd()),
  };
  made.play.classList.add("gw-play");
  // In the bar the arrow keys, Home and End do the same.
  for (const one of [made.start, made.back, made.step, made.end]) one.tabIndex = -1;
  return made;
}

function stepSlider(stepper: Stepped): HTMLInputElement {
  const slider = element("input", {
    type: "range",
    class: "gw-slider",
    min: 0,
    max: 0,
    step: 1,
    "aria-label": "Step",
    title: "Drag through the steps of backward",
    ...KEEP_KEYS,
  });
  slider.addEventListener("input", () => stepper.go(Number(slider.value)));
  return slider;
}

function speedChoice(stepper: Stepped): HTMLSelectElement {
  const label = "Speed of play";
  const choose = (value: string) => {
    stepper.speed = Number(value);
  };
  const speeds = choice({ class: "gw-speed", "aria-label": label, title: label }, choose, SPEEDS);
  speeds.value = "1";
  return speeds;
}

/** Groups of three: a separator, the name, its change. */
function changeWords(changes: readonly (readonly [name: string, spoken: string])[]): string[] {
  return changes.flatMap(([name, spoken], i) => [
    i === 0 ? " " : ", ",
    name,
    name === "" ? spoken : ` ${spoken}`,
  ]);
}

function showPlaying(play: HTMLButtonElement, playing: boolean, atEnd: boolean): void {
  const label = playing ? "Pause" : "Play";
  play.title = playing ? "Pause" : atEnd ? "Play again from the start" : "Play the steps";
  if (play.getAttribute("aria-label") === label) return;
  play.setAttribute("aria-label", label);
  play.replaceChildren(icon(playing ? ICONS.pause : ICONS.play));
}

function note(text: string, alarming: boolean, children: readonly Node[] = []): HTMLElement {
  return element("p", { class: alarming ? "gw-bar-note is-alarming" : "gw-bar-note" }, [
    element("span", {}, text),
    ...children,
  ]);
}
