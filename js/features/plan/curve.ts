import { element, KEEP_KEYS, say, slidTo, svgElement, write } from "../../dom/element";
import { formatBytes } from "../../text/number";
import type { PlanModel } from "../../wire";

const HEIGHT = 100;

/** The phases of a step, with their points. */
export function phasesOf({ live, forward, backward }: PlanModel) {
  const end = forward + backward;
  return [
    { name: "forward", start: 0, count: forward },
    { name: "backward", start: forward, count: backward },
    { name: "step", start: end, count: live.length - end },
  ];
}

/** The area under the curve, in a box of this size. */
export function areaOf({ live, peak }: PlanModel, width: number, height: number): string {
  const top = (bytes: number) => (height - (height * bytes) / live[peak]).toFixed(2);
  const right = (i: number) => Number(((width * (i + 1)) / live.length).toFixed(2));
  return `M0 ${height}${live.map((bytes, i) => `V${top(bytes)}H${right(i)}`).join("")}V${height}Z`;
}

/** The peak, in large letters, and where it is; then the rest of the summary. */
export function headlineOf({ summary }: PlanModel): HTMLElement[] {
  const [, how, least = "", peak, place, rest] =
    /^(.*?): peak (at least )?(.*?), (.*?)\.(?: (.*)|$)/.exec(summary) ?? [];
  if (peak === undefined) return [element("span", {}, summary)];
  return [
    element("b", {}, `${least}${peak} peak`),
    element("span", {}, place),
    element("span", "gw-dim", [how, rest].filter(Boolean).join(". ")),
  ];
}

/** The curve of live memory along a planned step: forward, then backward. Its marker is a slider. */
export class MemoryCurve {
  readonly element = element("div", { class: "gw-plan", hidden: true });
  private plan: PlanModel | null = null;
  private index = 0;
  private readonly area = svgElement("path", "gw-plan-area");
  private readonly split = svgElement("path", "gw-plan-split");
  private readonly headline = element("p", "gw-plan-headline");
  private readonly phases = element("div", { class: "gw-plan-phases", "aria-hidden": "true" });
  private readonly marker = element("span", "gw-plan-marker");
  private readonly peak = element("span", "gw-plan-peak");
  private readonly words = element("p", { class: "gw-plan-words" });
  private readonly chart = element("div", {
    class: "gw-plan-chart",
    role: "slider",
    tabindex: 0,
    ...KEEP_KEYS,
    "aria-label": "Live memory along the step",
    "aria-valuemin": 0,
  });

  /** `goTo` selects a node, of a point in backward or before it. */
  constructor(private readonly goTo: (node: number, isBackward: boolean) => void) {
    const picture = svgElement("svg", { preserveAspectRatio: "none", "aria-hidden": "true" }, [
      this.area,
      this.split,
    ]);
    this.chart.append(picture, this.peak, this.marker);
    this.element.append(this.headline, this.phases, this.chart, this.words);
    this.chart.addEventListener("pointermove", (event) => this.move(this.under(event)));
    this.chart.addEventListener("click", (event) => {
      this.move(this.under(event));
      this.enter();
    });
    this.chart.addEventListener("keydown", (event) => {
      if (this.take(event.key)) {
        event.preventDefault();
        event.stopPropagation();
      }
    });
  }

  /** Show the curve of a plan with its peak; null hides it. */
  show(plan: PlanModel | null): void {
    if (plan === this.plan) return;
    this.plan = plan;
    this.element.hidden = plan === null;
    if (!plan) return;
    const { live, peak } = plan;
    this.area.setAttribute("d", areaOf(plan, live.length, HEIGHT));
    const phases = phasesOf(plan).filter(({ count }) => count > 0);
    this.split.setAttribute(
      "d",
      phases
        .slice(1)
        .map(({ start }) => `M${start} 0V${HEIGHT}`)
        .join(""),
    );
    this.phases.replaceChildren(
      ...phases.map(({ name, count }) => {
        const label = element("span", {}, name);
        label.style.flexGrow = String(count);
        return label;
      }),
    );
    this.area.ownerSVGElement?.setAttribute("viewBox", `0 0 ${live.length} ${HEIGHT}`);
    this.chart.title = plan.summary;
    this.headline.replaceChildren(...headlineOf(plan));
    this.chart.setAttribute("aria-valuemax", String(live.length - 1));
    this.peak.style.left = this.place(peak);
    this.move(peak);
  }

  /** Mark the last point at or before a step of backward; `stepOf` has the step of each node. */
  follow(cursor: number, stepOf: ReadonlyMap<number, number>): void {
    const { plan } = this;
    if (!plan) return;
    const ran = (node: number | null) => (stepOf.get(node ?? -1) ?? Infinity) <= cursor;
    let at = plan.forward + plan.backward - 1;
    while (at >= plan.forward && !ran(plan.nodes[at])) at--;
    this.move(at);
  }

  private place(index: number): string {
    return `${(100 * (index + 0.5)) / (this.plan?.live.length ?? 1)}%`;
  }

  private under({ clientX }: MouseEvent): number {
    const { left, width } = this.chart.getBoundingClientRect();
    const share = width > 0 ? (clientX - left) / width : 0;
    return Math.floor(share * (this.plan?.live.length ?? 0));
  }

  private move(to: number): void {
    const { plan } = this;
    if (!plan) return;
    this.index = Math.max(0, Math.min(plan.live.length - 1, to));
    this.marker.style.left = this.place(this.index);
    const { live, words, held, peak } = plan;
    const size = `${formatBytes(live[this.index])}${this.index === peak ? ", the peak" : ""}`;
    const text = `${size}: ${words[this.index]}`;
    say(this.chart, "aria-valuenow", String(this.index));
    say(this.chart, "aria-valuetext", `${text}. Held: ${held[this.index]}`);
    write(this.words, `${text}\nHolds ${held[this.index]}`);
  }

  private enter(): void {
    const { plan, index } = this;
    const node = plan?.nodes[index] ?? null;
    if (plan && node !== null) this.goTo(node, index >= plan.forward);
  }

  private take(key: string): boolean {
    const { plan } = this;
    if (!plan) return false;
    const to = slidTo(key, this.index, { min: 0, max: plan.live.length - 1, step: 1 });
    if (key === "Enter" || key === " ") this.enter();
    else if (to !== null) this.move(to);
    else return false;
    return true;
  }
}
