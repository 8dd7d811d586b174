import { PAGE_PARTS } from "../../view/page_part";
import { VIEW_PARTS } from "../../view/view_part";
import { LivePage } from "./live_page";
import { LiveProgram } from "./live_program";
import type { ProgramModel } from "./run";

function read<T>(id: string): T | null {
  const text = document.getElementById(id)?.textContent;
  return text ? (JSON.parse(text) as T) : null;
}

let current: LivePage | null = null;

PAGE_PARTS.push((page) => {
  const model = read<ProgramModel>("gradwalk-program");
  if (!model) return {};
  const program = new LiveProgram(model, page.saved);
  const live = new LivePage(program, page, read<"grad" | "value">("gradwalk-quiz"));
  current = live;
  Object.assign(window, { gradwalk: live.shared });
  return {
    received: (message) => {
      if (message.kind !== "turn") return live.answered(message);
      live.turned(message.node, message.at, message.value);
      return true;
    },
    details: (details) => live.details(program.details(details)),
  };
});

VIEW_PARTS.push(() => (current ? { question: current.element } : {}));
