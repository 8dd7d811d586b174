import { element, svgElement, write } from "../../dom/element";

/** The most points of the curve. */
const MOST = 200;

/** A curve of the loss over the updates of the reader. */
export class LossCurve {
  readonly element = element("span", { class: "gw-live-loss", hidden: true });
  private readonly path = svgElement("polyline");
  private readonly words = element("span", "gw-live-loss-now");
  private losses: number[] = [];

  constructor() {
    const svg = svgElement(
      "svg",
      { viewBox: "0 0 100 24", preserveAspectRatio: "none", "aria-hidden": "true" },
      this.path,
    );
    this.element.append(svg, this.words);
  }

  get isEmpty(): boolean {
    return this.losses.length === 0;
  }

  clear(): void {
    this.losses = [];
    this.element.hidden = true;
  }

  add(name: string, loss: number): void {
    this.losses.push(loss);
    const { losses } = this;
    this.element.hidden = losses.length < 2;
    const last = losses.length - 1;
    const count = Math.min(losses.length, MOST);
    const chosen = Array.from({ length: count }, (_, i) =>
      Math.round((i * last) / Math.max(1, count - 1)),
    );
    const finite = chosen.map((at) => losses[at]).filter(Number.isFinite);
    const [low, high] = [Math.min(...finite), Math.max(...finite)];
    const scale = (value: number) => 22 - 20 * (high > low ? (value - low) / (high - low) : 0);
    const points = chosen.flatMap((at) =>
      Number.isFinite(losses[at])
        ? `${((100 * at) / Math.max(1, last)).toFixed(1)},${scale(losses[at]).toFixed(1)}`
        : [],
    );
    this.path.setAttribute("points", points.join(" "));
    const [first, now] = [losses[0], losses[last]].map((one) => one.toPrecision(4));
    const updates = last === 1 ? "update" : "updates";
    write(this.words, `${name} ${first} → ${now} after ${last} ${updates}`);
  }
}
