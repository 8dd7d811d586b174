import { bestDirection, firstScene } from "../arrange/first_view";
import type { Traits } from "../channel";
import type { Colouring, ColourSources } from "../colours/colouring";
import { colouringOf, firstMode, knownFor } from "../colours/modes";
import { passNorms } from "../colours/norms";
import { type TileGrads, tileGrads } from "../colours/tile_grads";
import { groupedGraph } from "../fold/grouped_graph";
import { asDirection } from "../layout/direction";
import { GradientLayer } from "../paint/gradients";
import { type Marks, NO_MARKS, seenMarks } from "../paint/marks";
import { part } from "../paint/parts";
import type { Scene } from "../scene/scene";
import { graphName, shownGraph } from "../scene/shown_graph";
import { roomOfWidth } from "../scene/views";
import { type Recording, recordingOf, shownCursor } from "../steps/recording";
import { STILL_FONTS, tableMeasure } from "../text/metrics";
import { counted } from "../text/number";
import type { Fonts } from "../theme/styles";
import type {
  DirectionChoice,
  GraphModel,
  MemoryModel,
  OverlayModel,
  RunModel,
  StateModel,
  StepModel,
} from "../wire";
import { MarkupWriter, type StillTheme } from "./markup";
import { footerParts, groundOf, keyParts, pictureParts } from "./picture";

/** What to draw besides the graph, and how. */
export interface SvgOptions {
  theme?: StillTheme;
  direction?: DirectionChoice;
  /** Whether operands without grad, and cuts, are drawn. */
  constants?: boolean;
  /** Whether all nodes are drawn, rather than the first view of a large graph. */
  whole?: boolean;
  /** The page's width, px. */
  width?: number | null;
  /** Whether local derivatives are written on a board's arrows. */
  derivatives?: boolean;
  /** For screen readers; by default the graph's size. */
  title?: string | null;
  /** Font families instead of ours, for readers that try only the first one. */
  fonts?: Fonts;
  /** The selected node's id. */
  selected?: number | null;
  state?: StateModel | null;
  steps?: StepModel[];
  run?: RunModel | null;
  /** The number of completed steps. */
  cursor?: number;
  /** The number of completed calls inside the last step's node; 0 for all. */
  inner?: number;
  /** Numbers that colour the nodes. */
  overlays?: OverlayModel[];
  /** The planned memory, which colours the nodes of a plan. */
  memory?: MemoryModel | null;
}

/** What features draw on a picture in a file. */
export const STILL_MARKS: ((
  graph: GraphModel,
  scene: Scene,
  recording: Recording | null,
) => Partial<Marks>)[] = [];

/** The default page, and its margins and frame as around the widget in a page of `to_html`, px. */
const PAGE = 1200;
const AROUND = 34;

/** Return the text of an SVG file with the widget's drawing, without a browser. */
export function svg(given: GraphModel, options: SvgOptions): string {
  const autograd = shownGraph(given, false);
  const graph = shownGraph(given, options.constants ?? true);
  const { theme = "light", whole = false } = options;
  const derivatives = options.derivatives ?? false;
  const width = Math.max(1, (options.width ?? PAGE) - AROUND);
  const page = { ...roomOfWidth(width, graph), derivatives };
  const scene = firstScene(
    graph,
    asDirection(options.direction, () => bestDirection(graph, page, tableMeasure)),
    tableMeasure,
    whole,
    page,
  );
  const seen = marksOf(autograd, options);
  const recording = seen.progress?.recording;
  const known = recording ? (recording.run ? recording : null) : seen.held;
  const grads = known
    ? tileGrads(graph, scene, known, tableMeasure, passNorms(groupedGraph(graph), known, true))
    : null;
  const added = STILL_MARKS.map((marks) => marks(graph, scene, recording ?? null));
  const { tint, bars, legend } = colours(graph, scene, grads, options);
  const tiles = bars ?? grads?.tiles ?? null;
  const marks: Marks = Object.assign({ ...seen, tiles, tint }, ...added);
  const gradients = new GradientLayer(tableMeasure).at(scene, marks);
  const drawn = groundOf(scene, gradients);
  const key = keyParts(legend, drawn, tableMeasure);
  const ground = { ...drawn, height: drawn.height + key.height };
  const footer = footerParts(graph, ground, tableMeasure);
  ground.height += footer.height;
  const writer = new MarkupWriter(theme, options.fonts ?? STILL_FONTS);
  const parts = [
    part("rect", { class: "gw-ground", ...ground }),
    ...pictureParts(graph, scene, marks, gradients),
    ...key.parts,
    ...footer.parts,
  ];
  const { nodes, edges } = autograd;
  const size = `${counted(nodes.length, "node")}, ${counted(edges.length, "edge")}`;
  const title = options.title ?? `${graphName(given)} of ${size}`;
  return writer.file(parts, ground, title, options.state?.note);
}

/** The colours that a widget begins with. */
function colours(
  graph: GraphModel,
  scene: Scene,
  tiles: TileGrads | null,
  { overlays, memory }: SvgOptions,
): Colouring {
  const traits: Partial<Traits> = { _overlays: overlays ?? null, _memory: memory ?? null };
  const get: ColourSources["get"] = (trait) => traits[trait] as never;
  const { tree } = groupedGraph(graph);
  const sources = { get, graph, tiles, norms: null, tree };
  const first = firstMode(sources);
  return colouringOf(knownFor(first, sources) ? first : "parameters", scene, sources);
}

function marksOf(graph: GraphModel, options: SvgOptions): Marks {
  const { state, selected = null, cursor = 0, inner = 0, steps = [], run = null } = options;
  const recording = steps.length > 0 || run !== null ? recordingOf(graph, steps, run) : null;
  return {
    ...NO_MARKS,
    selected,
    derivatives: options.derivatives ?? false,
    ...seenMarks(state, graph.nodes),
    progress: recording && { recording, cursor: shownCursor(recording, cursor, inner) },
  };
}
