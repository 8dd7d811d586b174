import { button, element, icon, KEEP_KEYS, say, write } from "../dom/element";
import { ICONS } from "../dom/icons";
import { Remembered } from "../dom/remembered";
import { isOver } from "../steps/recording";
import type { Stepper, Stepping } from "../steps/stepping";
import { position, positionText } from "../steps/words";
import { oneLine } from "../text/shorten";
import type { GraphModel, TransportModel } from "../wire";

type Stepped = Pick<Stepper, "toStart" | "toEnd" | "by" | "go" | "togglePlay" | "speed">;

interface TransportBar {
  element: HTMLElement;
  /** What is to be noted, to stand over the picture: nothing moves when there is something. */
  notes: HTMLElement;
  /**
   * `seen` is what there is to say of passes in a sentence; null before any. `live` is what the last update changed,
   * which is said until somebody steps, and `of` what that update was: "live", or "rank 1".
   */
  update(
    stepping: Stepping,
    transport: TransportModel | null,
    graph: GraphModel | null,
    seen?: string | null,
    live?: readonly [name: string, words: string][] | null,
    of?: string,
  ): void;
}

/** More marked nodes than this are counted. */
const MOST_MARKS = 3;

const SPEEDS: [value: number, text: string][] = [
  [0.5, "½×"],
  [1, "1×"],
  [2, "2×"],
  [4, "4×"],
];

/**
 * The row of buttons and the slider that step through a backward pass, and what there is to say about it. `show` brings a
 * node into view and selects it.
 */
export function createTransportBar(stepper: Stepped, show: (node: number) => void): TransportBar {
  const start = button(
    {
      label: "To the start",
      title: "To the start, before the first step (Home)",
      icon: ICONS.first,
    },
    () => stepper.toStart(),
  );
  const back = button(
    { label: "One step back", title: "One step back (←)", icon: ICONS.back },
    () => stepper.by(-1),
  );
  const play = button({ label: "Play", icon: ICONS.play }, () => stepper.togglePlay());
  const step = button({ label: "One step", title: "One step (→)", icon: ICONS.forward }, () =>
    stepper.by(1),
  );
  const end = button(
    { label: "To the end", title: "To the end, after the last step (End)", icon: ICONS.last },
    () => stepper.toEnd(),
  );
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
  const before = element("b", {});
  const running = element("button", { type: "button", class: "gw-link", ...KEEP_KEYS });
  const after = element("span", "gw-bar-changes");
  const done = element("span", "gw-bar-done", icon(ICONS.done));
  const text = element("span", "gw-bar-text", before, " ", running, after);
  const owner = element("span", "gw-bar-owner", "view only");
  const speeds = element(
    "select",
    {
      class: "gw-select gw-speed",
      "aria-label": "Speed of play",
      title: "Speed of play",
      ...KEEP_KEYS,
    },
    ...SPEEDS.map(([value, name]) => element("option", { value, selected: value === 1 }, name)),
  );
  speeds.addEventListener("change", () => {
    stepper.speed = Number(speeds.value);
  });
  const notes = element("div", { class: "gw-bar-notes", hidden: true });
  const bar = element(
    "div",
    { class: "gw-bar", role: "group", "aria-label": "Step through backward" },
    element(
      "div",
      "gw-bar-row",
      element("span", "gw-group", start, back, play, step, end),
      slider,
      done,
      text,
      owner,
      speeds,
    ),
  );
  let runningNode: number | null = null;
  /** The note that the reader has put away. */
  let read: string | null = null;
  let wasOwned = false;
  const written = new Remembered();
  running.addEventListener("click", () => {
    if (runningNode !== null) show(runningNode);
  });
  bar.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    if (event.target === speeds) return;
    if (event.key === "ArrowRight") stepper.by(1);
    else if (event.key === "ArrowLeft") stepper.by(-1);
    else if (event.key === "Home") stepper.toStart();
    else if (event.key === "End") stepper.toEnd();
    else return;
    event.preventDefault();
  });

  /** A disabled button drops the keyboard to the page: it goes to a neighbour first. */
  function enable(wanted: [HTMLButtonElement, boolean][]): void {
    const active = (bar.getRootNode() as Document | ShadowRoot).activeElement;
    const lost = wanted.some(([control, on]) => control === active && !on);
    for (const [control, on] of wanted) if (on) control.disabled = false;
    if (lost) (wanted.find(([, on]) => on)?.[0] ?? slider).focus({ preventScroll: true });
    for (const [control, on] of wanted) if (!on) control.disabled = true;
  }

  return {
    element: bar,
    notes,
    update(stepping, transport, graph, seen = null, live = null, of = "live") {
      const { progress, playing, starting } = stepping;
      const total = progress?.recording.steps.length ?? 0;
      const cursor = progress?.cursor ?? 0;
      const blocked = transport?.blocked ?? null;
      // Also while one starts: a second press does nothing, and the keyboard stays on the button.
      const canStart = total === 0 && blocked === null;
      slider.hidden = total === 0;
      text.classList.toggle("is-working", starting);
      say(slider, "max", String(total));
      if (slider.value !== String(cursor)) slider.value = String(cursor);
      const share = `${total === 0 ? 0 : (100 * cursor) / total}%`;
      if (slider.style.getPropertyValue("--gw-done") !== share)
        slider.style.setProperty("--gw-done", share);
      enable([
        [step, canStart || cursor < total],
        [back, cursor > 0],
        [end, canStart || cursor < total],
        [start, cursor > 0],
        [play, total > 0],
      ]);
      showPlaying(play, playing, total > 0 && cursor >= total);
      say(text, "aria-live", playing ? "off" : "polite");
      const isResting = progress === null || total === 0 || isOver(progress);
      const at =
        live && isResting
          ? { before: of, running: null, changes: [...live], isOver: total > 0 }
          : progress && total > 0
            ? position(progress, graph)
            : null;
      write(before, at?.before ?? (starting ? "Running backward…" : ""));
      done.hidden = !at?.isOver;
      runningNode = at?.running?.node ?? null;
      running.hidden = runningNode === null;
      write(running, at?.running?.text ?? "");
      // In threes, the middle one bold.
      const words = at
        ? at.changes.flatMap(([name, said], i) => [
            i === 0 ? " " : ", ",
            name,
            name === "" ? said : ` ${said}`,
          ])
        : [starting ? " Interrupt the kernel to stop it." : idleText(blocked ?? seen)];
      if (written.isNew(words.join("\n")))
        after.replaceChildren(
          ...words.map((word, i) => (i % 3 === 1 && word !== "" ? element("b", {}, word) : word)),
        );
      const said = progress && total > 0 ? positionText(progress, graph) : "";
      say(
        text,
        "title",
        [said || after.textContent, at?.isOver && seen].filter(Boolean).join(". "),
      );
      say(slider, "aria-valuetext", said);
      bar.hidden = graph?.static ?? false;
      speeds.hidden = total === 0;
      owner.hidden = total === 0 || (transport?.owned ?? false);
      owner.title =
        transport?.note ??
        "Moving through the steps changes the picture and leaves every .grad alone.";
      showNotes(stepping, transport, graph);
    },
  };

  /** A button that puts a note away. */
  function dismiss(sentence: string): HTMLElement {
    return button({ label: "Put this note away", icon: ICONS.close }, () => {
      read = sentence;
      notes.hidden = true;
      slider.focus({ preventScroll: true });
    });
  }

  function showNotes(
    { progress }: Stepping,
    transport: TransportModel | null,
    graph: GraphModel | null,
  ): void {
    const marks = progress?.recording.run?.marks ?? [];
    // Of a pass that never moved a .grad here, "view only" says all.
    wasOwned ||= transport?.owned ?? false;
    const { owned, note: said, blocked } = transport ?? { owned: false, note: null, blocked: null };
    const sentence = wasOwned ? (said ?? (owned ? null : blocked)) : null;
    const rest = marks.length - MOST_MARKS;
    const parts = [
      ...marks.slice(0, MOST_MARKS).map((mark) => {
        const label = graph?.nodes[mark.node]?.label ?? "";
        const link = button(
          { label: `Show ${oneLine(label)}`, text: "show", class: "gw-link" },
          () => show(mark.node),
        );
        return note(mark.note, true, link);
      }),
      ...(rest > 0 ? [note(`And ${rest} more marked nodes.`, true)] : []),
      ...(sentence && sentence !== read && marks.length === 0
        ? [note(sentence, false, dismiss(sentence))]
        : []),
    ];
    const written = parts.map((part) => part.textContent).join("\n");
    // Kept as long as they say the same: a button that is made anew would lose the keyboard.
    if (notes.dataset.written === written) return;
    notes.dataset.written = written;
    notes.replaceChildren(...parts);
    notes.hidden = parts.length === 0;
  }
}

function showPlaying(play: HTMLButtonElement, playing: boolean, atEnd: boolean): void {
  const label = playing ? "Pause" : "Play";
  play.title = playing ? "Pause" : atEnd ? "Play again from the start" : "Play the steps";
  if (play.getAttribute("aria-label") === label) return;
  play.setAttribute("aria-label", label);
  play.replaceChildren(icon(playing ? ICONS.pause : ICONS.play));
}

function idleText(said: string | null): string {
  return said ?? "No backward yet: press > to run it and stop after the first step.";
}

function note(text: string, alarming: boolean, ...children: Node[]): HTMLElement {
  return element(
    "p",
    { class: alarming ? "gw-bar-note is-alarming" : "gw-bar-note" },
    element("span", {}, text),
    ...children,
  );
}
