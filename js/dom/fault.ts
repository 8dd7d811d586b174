import { element } from "./element";

export function faultBox(text: string): HTMLElement {
  return element("div", { class: "gw-fault", role: "alert" }, text);
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
