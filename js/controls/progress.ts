import { button, element, focusIn } from "../dom/element";
import type { Work } from "../interact/fold_controller";
import { formatCount } from "../text/number";
import type { Doing } from "../worker/messages";

type Progress = ReturnType<typeof createProgress>;

/** Shorter work needs no message, ms. */
const SOON_MS = 500;

/** An overlay while a drawing is made, with a button to cancel. `left` takes the focus back. */
export function createProgress(left: () => void) {
  const words = element("span", { class: "gw-progress-text", role: "status" });
  const line = element("span", { class: "gw-progress-line", "aria-hidden": "true" });
  let act: (() => void) | null = null;
  const action = button(
    { class: "gw-button gw-progress-action", label: "Cancel", text: "Cancel" },
    () => act?.(),
  );
  const box = element("div", { class: "gw-progress", hidden: true }, [words, action, line]);
  let timer = 0;
  let wanted = "";

  function set(text: string, label: string, next: (() => void) | null): void {
    wanted = text;
    act = next;
    action.hidden = next === null;
    action.title = label === "Cancel" ? "Keep the picture as it is (Escape)" : label;
    action.setAttribute("aria-label", label);
    action.textContent = label;
    if (!box.hidden) words.textContent = text;
  }

  function appear(): void {
    window.clearTimeout(timer);
    timer = 0;
    box.hidden = false;
    // Screen readers read text that is added after its element.
    words.textContent = wanted;
  }

  return {
    element: box,
    get isVisible() {
      return !box.hidden;
    },
    /** Show what is being done, after half a second or `atOnce`. A second call changes only the words. */
    show(text: string, cancel: (() => void) | null, atOnce = false) {
      box.classList.remove("is-offer");
      set(text, "Cancel", cancel);
      if (atOnce) appear();
      else if (box.hidden && timer === 0) timer = window.setTimeout(appear, SOON_MS);
    },
    /** Show what was not done, with a button that does it. */
    offer(text: string, label: string, accept: () => void) {
      box.classList.add("is-offer");
      set(text, label, accept);
      appear();
      action.focus({ preventScroll: true });
    },
    hide() {
      window.clearTimeout(timer);
      timer = 0;
      const hadFocus = focusIn(box) !== null;
      box.hidden = true;
      words.textContent = "";
      if (hadFocus) left();
    },
  };
}

const WORDS: Record<Doing, (nodes: string) => string> = {
  layout: (nodes) => `Laying out ${nodes} nodes…`,
  drawing: (nodes) => `Drawing ${nodes} nodes…`,
};

/** Show what a pending picture waits for; null when none is pending. */
export function showWork(progress: Progress, work: Work | null, cancel: () => void): void {
  if (!work) progress.hide();
  else {
    const text = WORDS[work.doing](formatCount(work.nodes));
    progress.show(text, work.blocks ? null : cancel, work.blocks);
  }
}

/** Say that the first picture was cancelled, and offer to make it. */
export function offerWork(progress: Progress, draw: () => void): void {
  progress.offer("This graph is not drawn: its picture was cancelled.", "Draw it", draw);
}
