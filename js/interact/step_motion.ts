import { svgElement } from "../dom/element";
import { prefersLessMotion } from "../dom/theme";
import { pathData } from "../scene/curve";
import { edgeFor } from "../scene/members";
import type { Scene, SceneEdge } from "../scene/scene";
import type { Progress } from "../steps/recording";

/** The time of a dot on its arrow, and of all of a step, ms. */
const RUN_MS = 120;
const STEP_MS = 200;
/** The most dots of a step; from more lines nothing can be followed by eye. */
const MOST_DOTS = 40;
const DOT_RADIUS = 5;

/** The numbers in a picture before a step. */
export type Numbers = ReadonlyMap<Element, string | null>;

/** Whether elements can move here, and the reader wants them to. */
export function canMove(stage: Element): boolean {
  return typeof stage.animate === "function" && !prefersLessMotion();
}

export function numbersIn(stage: Element): Numbers {
  const drawn = [...stage.querySelectorAll(".gw-gradient")];
  return new Map(drawn.map((group) => [group, group.textContent]));
}

/**
 * Play the steps from `from` on in a picture that shows them already: dots run along the arrows, numbers pop
 * and cells fill.
 */
export function playStep(
  { canvas, overlay }: { canvas: Element; overlay: SVGGElement },
  scene: Scene,
  { recording, cursor }: Progress,
  from: number,
  before: Numbers,
): void {
  const { steps, passed, run } = recording;
  if (!run) return;
  const ran = new Set(steps.slice(from, cursor).map(({ node }) => node));
  const flowed = [...ran].flatMap((node) => passed.get(node) ?? []).map((i) => run.edges[i]);
  const lines = [...new Set(flowed.map((edge) => edgeFor(scene, edge)))].filter(isBetween);
  if (lines.length > MOST_DOTS) return;
  for (const line of lines) runDot(overlay, line);
  for (const group of canvas.querySelectorAll<SVGGElement>(".gw-gradient"))
    if (before.get(group) !== group.textContent) pop(group);
}

function isBetween(edge: SceneEdge | undefined): edge is SceneEdge {
  return edge !== undefined && edge.source !== edge.target;
}

/** A dot that runs once along a line, in the direction of its gradient. */
function runDot(layer: SVGGElement, { curve }: SceneEdge): void {
  const dot = svgElement("circle", { class: "gw-dot", r: DOT_RADIUS });
  dot.style.setProperty("offset-path", `path("${pathData(curve)}")`);
  layer.append(dot);
  const running = dot.animate([{ offsetDistance: "0%" }, { offsetDistance: "100%" }], {
    duration: RUN_MS,
    easing: "ease-in-out",
  });
  running.onfinish = running.oncancel = () => dot.remove();
}

/** A number appears as its dot arrives, and its cell fills. */
function pop(group: SVGGElement): void {
  const timing = {
    delay: RUN_MS - 20,
    duration: STEP_MS - RUN_MS + 20,
    fill: "backwards",
  } as const;
  const [ground, ...words] = group.querySelectorAll<SVGElement>(".gw-cell-ground, text");
  for (const part of [ground, ...words]) {
    if (!part) continue;
    part.classList.add("gw-popping");
    const isGround = part.classList.contains("gw-cell-ground");
    part.animate(
      isGround
        ? [{ transform: "scaleX(0)" }, { transform: "none" }]
        : [
            { opacity: 0, transform: "scale(0.5)" },
            { opacity: 1, transform: "scale(1.2)", offset: 0.6 },
            { opacity: 1, transform: "none" },
          ],
      { ...timing, easing: "ease-out" },
    );
  }
}
