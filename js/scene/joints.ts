import type { Bend } from "./bend";
import { cornered, straight } from "./curve";
import { across, along, type Dock, type Placement } from "./dock";
import type { NodeShape } from "./node_shape";
import type { Plan } from "./plan";

/** A sum or a concatenation at the end of a bypass, between the halves of a bent picture: halves are then shorter. */
export interface Joint {
  /** Beside the node whose result it takes besides the bypass. */
  dock: Dock;
  /** The edge of its only user. */
  use: number;
}

/** The joints of a bent picture: operations of the second half with two operands, one of them over a bypass. */
export function jointsIn({ nodes, edges }: Plan, { skips, isLast }: Bend): Joint[] {
  const operands: number[][] = nodes.map(() => []);
  const users: number[][] = nodes.map(() => []);
  edges.forEach(({ source, target }, e) => {
    operands[source].push(e);
    users[target].push(e);
  });
  const isSkip = new Set(skips);
  return nodes.flatMap(({ group, frame }, v): Joint[] => {
    const before = operands[v].filter((e) => !isSkip.has(e));
    if (group || !isLast[v] || operands[v].length !== 2 || before.length !== 1) return [];
    const [[edge], [use, ...others]] = [before, users[v]];
    if (use === undefined || others.length > 0) return [];
    const [user, next] = [edges[edge].target, edges[use].source];
    const isAlone = users[user].length === 1;
    const areBeside = [user, next].every((one) => isLast[one] && nodes[one].frame === frame);
    return isAlone && areBeside ? [{ dock: { leaf: v, user, edge, side: -1 }, use }] : [];
  });
}

/** The plan in which a joint's user takes the result of the node that the joint is beside. */
export function withoutJoints(plan: Plan, joints: readonly Joint[]): Plan {
  const past = new Map(joints.map(({ dock, use }) => [use, dock.user]));
  const edges = plan.edges.map((edge, e) => ({ ...edge, target: past.get(e) ?? edge.target }));
  return { ...plan, edges };
}

/** Draw the edges of the joints of a bent picture. */
export function withJoints(
  placed: Placement,
  { edges }: Plan,
  joints: readonly Joint[],
  shapes: readonly NodeShape[],
  horizontal: boolean,
): Placement {
  const { x, y } = placed;
  const lines = new Map(placed.lines);
  const edgeTarget = placed.edgeTarget.slice();
  const far = (v: number) => along(shapes[v], horizontal) / 2;
  for (const { dock, use } of joints) {
    const { leaf: joint, user, edge } = dock;
    const next = edges[use].source;
    const [half, border] = [joint, user].map((v) => across(shapes[v], horizontal) / 2);
    [edgeTarget[edge], edgeTarget[use]] = [user, joint];
    lines.set(
      edge,
      straight([
        [x[joint] + half, y[joint]],
        [x[user] - border, y[user]],
      ]),
    );
    const middle = (y[next] - far(next) + y[user] + Math.max(far(user), far(joint))) / 2;
    lines.set(
      use,
      cornered([
        [x[next], y[next] - far(next)],
        [x[next], middle],
        [x[joint], middle],
        [x[joint], y[joint] + far(joint)],
      ]),
    );
  }
  return { ...placed, edgeTarget, lines };
}
