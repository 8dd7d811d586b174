import { element, KEEP_KEYS, say, svgElement, write } from "../../dom/element";
import { formatBytes } from "../../text/number";
import type { PlanModel } from "../../wire";

const HEIGHT = 100;

/** The curve of live memory along a planned step: forward, then backward. Its marker is a slider. */
export class MemoryCurve {
  readonly element = element("div", { class: "gw-plan", hidden: true });
  private plan: PlanModel | null = null;
  private index = 0;
  private readonly area = svgElement("path", "gw-plan-area");
  private readonly split = svgElement("path", "gw-plan-split");
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

  /** `goTo` selects a node. */
  constructor(private readonly goTo: (node: number) => void) {
    const picture = svgElement(
      "svg",
      { preserveAspectRatio: "none", "aria-hidden": "true" },
      this.area,
      this.split,
    );
    this.chart.append(picture, this.peak, this.marker);
    this.element.append(this.chart, this.words);
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
    const { live, forward, peak } = plan;
    const most = live[peak];
    const height = (bytes: number) => HEIGHT - (HEIGHT * bytes) / most;
    const steps = live.map((bytes, i) => `V${height(bytes).toFixed(2)}H${i + 1}`);
    this.area.setAttribute("d", `M0 ${HEIGHT}${steps.join("")}V${HEIGHT}Z`);
    this.split.setAttribute("d", `M${forward} 0V${HEIGHT}`);
    this.area.ownerSVGElement?.setAttribute("viewBox", `0 0 ${live.length} ${HEIGHT}`);
    this.chart.title = plan.summary;
    this.chart.setAttribute("aria-valuemax", String(live.length - 1));
    this.peak.style.left = this.place(peak);
    this.move(peak);
  }

  /** Mark the point of the node that has just run in backward. */
  follow(node: number): void {
    const { plan } = this;
    const found = plan ? plan.nodes.indexOf(node, plan.forward) : -1;
    if (found >= 0) this.move(found);
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
    write(this.words, `${text} \u2022 holds ${held[this.index]}`);
  }

  private enter(): void {
    const node = this.plan?.nodes[this.index] ?? null;
    if (node !== null) this.goTo(node);
  }

  private take(key: string): boolean {
    const { plan } = this;
    if (!plan) return false;
    const target: Record<string, number> = {
      ArrowLeft: this.index - 1,
      ArrowDown: this.index - 1,
      ArrowRight: this.index + 1,
      ArrowUp: this.index + 1,
      PageDown: this.index - 10,
      PageUp: this.index + 10,
      Home: 0,
      End: plan.live.length - 1,
    };
    if (key === "Enter" || key === " ") this.enter();
    else if (key in target) this.move(target[key]);
    else return false;
    return true;
  }
}
