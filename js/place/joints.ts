import { cornered, straight } from "../scene/curve";
import type { NodeShape } from "../scene/node_shape";
import type { Placement } from "../scene/placement";
import type { Plan } from "../scene/plan";
import type { Bend } from "./bend";
import type { Dock } from "./dock";
import { across, along } from "./extents";

/** A node beside another one of its half in a bent picture, so that the half is shorter. */
export interface Joint {
  dock: Dock;
  /** The other edge of the docked node, on the way of the data. */
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
  const beside = new Set<number>();
  const around = new Set<number>();
  return nodes.flatMap(({ group, frame }, v): Joint[] => {
    const before = operands[v].filter((e) => !isSkip.has(e));
    if (group || !isLast[v] || operands[v].length !== 2 || before.length !== 1) return [];
    const [[edge], [use, ...others]] = [before, users[v]];
    if (use === undefined || others.length > 0) return [];
    const [user, next] = [edges[edge].target, edges[use].source];
    const isAlone = users[user].length === 1;
    const areBeside = [user, next].every(
      (one) => isLast[one] && nodes[one].frame === frame && !beside.has(one),
    );
    // In a chain of sums, no joint is beside another joint.
    if (!isAlone || !areBeside || around.has(v)) return [];
    beside.add(v);
    around.add(user).add(next);
    return [{ dock: { leaf: v, user, edge, side: -1 }, use }];
  });
}

/**
 * The layers of a bent picture that can be beside the next one in the first half, or the one before in the second half,
 * outside both halves: of each two, the one at the channel has the bypass or the joint.
 */
export function pairsIn(
  { nodes, edges }: Plan,
  { skips, others, isLast }: Bend,
  joints: readonly Joint[],
): Joint[] {
  const operands: number[][] = nodes.map(() => []);
  const users: number[][] = nodes.map(() => []);
  edges.forEach(({ source, target }, e) => {
    operands[source].push(e);
    users[target].push(e);
  });
  const crossing = [...skips, ...others].flatMap((e) => [edges[e].source, edges[e].target]);
  const fixed = new Set([...crossing, ...joints.flatMap(({ dock }) => [dock.leaf, dock.user])]);
  const beside = new Set(joints.map(({ dock }) => dock.leaf));
  const canMove = (v: number) => !fixed.has(v) && operands[v].length === 1 && users[v].length === 1;
  // From the turn outwards.
  const halves = [0, 1].map((half) => [...nodes.keys()].filter((v) => isLast[v] === half));
  return [...halves[0], ...halves[1].reverse()].flatMap((v): Joint[] => {
    const { group, frame } = nodes[v];
    if (!group || !canMove(v)) return [];
    const [before, after] = [operands[v][0], users[v][0]];
    const [edge, use] = isLast[v] ? [before, after] : [after, before];
    const user = isLast[v] ? edges[edge].target : edges[edge].source;
    const next = isLast[v] ? edges[use].source : edges[use].target;
    const areBeside = [user, next].every(
      (one) => isLast[one] === isLast[v] && nodes[one].frame === frame,
    );
    if (!areBeside || !nodes[user].group || beside.has(user)) return [];
    fixed.add(user);
    beside.add(v);
    return [{ dock: { leaf: v, user, edge, side: isLast[v] ? 1 : -1 }, use }];
  });
}

/** The plan in which the nodes that joints are beside have their lines. */
export function withoutJoints(plan: Plan, joints: readonly Joint[]): Plan {
  const edges = [...plan.edges];
  for (const { dock, use } of joints) {
    const { source, target } = edges[use];
    const own = (end: number) => (end === dock.leaf ? dock.user : end);
    edges[use] = { ...edges[use], source: own(source), target: own(target) };
  }
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
  /** A line between a joint and another node, from the edge's source on. */
  const draw = (e: number, joint: number, other: number, points: [number, number][]) => {
    const isSource = edges[e].source === joint;
    edgeTarget[e] = isSource ? other : joint;
    lines.set(e, (points.length > 2 ? cornered : straight)(isSource ? points : points.reverse()));
  };
  for (const { dock, use } of joints) {
    const { leaf: joint, user, edge, side } = dock;
    const next = edges[use].source === joint ? edges[use].target : edges[use].source;
    const [half, border] = [joint, user].map((v) => (side * across(shapes[v], horizontal)) / 2);
    draw(edge, joint, user, [
      [x[joint] - half, y[joint]],
      [x[user] + border, y[user]],
    ]);
    const middle = (y[next] - far(next) + y[user] + Math.max(far(user), far(joint))) / 2;
    draw(use, joint, next, [
      [x[joint], y[joint] + far(joint)],
      [x[joint], middle],
      [x[next], middle],
      [x[next], y[next] - far(next)],
    ]);
  }
  return { ...placed, edgeTarget, lines };
}
