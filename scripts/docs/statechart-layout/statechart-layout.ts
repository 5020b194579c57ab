import { createRequire } from 'node:module'
import type { ELK, ElkExtendedEdge, ElkNode } from 'elkjs/lib/elk-api.js'
import type {
  StatechartTargetlessTransitionsRow,
  StatechartState,
  StatechartTransition,
  MachineGraph,
} from './machine-graph.ts'

/** Lays out the chart of a machine: absolute boxes of states and lines of transitions. */

/** CommonJS whose types declare an ES module. */
const Elk = createRequire(import.meta.url)('elkjs/lib/elk.bundled.js') as new () => ELK

type Point = readonly [x: number, y: number]

interface LaidOutState {
  readonly path: string
  readonly name: string
  readonly type: StatechartState['type']
  readonly ended: boolean
  readonly x: number
  readonly y: number
  readonly w: number
  readonly h: number
  /** Where the column of rejections starts; 0 when all rows are stacked. */
  readonly split: number
  readonly rows: readonly StatechartTargetlessTransitionsRow[]
}

interface LaidOutTransition {
  readonly id: string
  readonly label: string
  readonly guard: string
  readonly source: string
  readonly target: string
  readonly points: readonly Point[]
  readonly at: Point
  readonly w: number
  readonly h: number
}

interface LaidOutInitial {
  readonly path: string
  readonly points: readonly Point[]
}

export interface StatechartLayout {
  readonly width: number
  readonly height: number
  readonly states: readonly LaidOutState[]
  readonly transitions: readonly LaidOutTransition[]
  /** From the dot of each composite state to its initial state. */
  readonly initials: readonly LaidOutInitial[]
}

type Direction = 'RIGHT' | 'DOWN'

const ROW_HEIGHT = 15
const CHAR_WIDTH = 6.8
const TITLE_HEIGHT = 34
const PADDING = 18
const INITIAL_SIZE = 9
const MAX_ROW_CHARS = 52
const ASPECT = 1.35
const MAX_WIDTH = 1_100

const LAYERED = {
  algorithm: 'layered',
  'elk.hierarchyHandling': 'INCLUDE_CHILDREN',
  'elk.edgeRouting': 'ORTHOGONAL',
  'elk.json.edgeCoords': 'ROOT',
  'elk.json.shapeCoords': 'ROOT',
  'elk.edgeLabels.inline': 'false',
  'elk.randomSeed': '1',
}
const SPACING = {
  'elk.layered.spacing.nodeNodeBetweenLayers': '46',
  'elk.spacing.nodeNode': '26',
  'elk.spacing.edgeNode': '18',
  'elk.spacing.edgeLabel': '4',
}

/** Lays the chart out to the right and downward and returns the better proportioned one. */
export async function layOutStatechart(graph: MachineGraph): Promise<StatechartLayout> {
  const layouts = [await layOut(graph, 'RIGHT'), await layOut(graph, 'DOWN')]
  const [best] = layouts.toSorted((one, other) => distortion(one) - distortion(other))
  if (best === undefined) throw new Error('no layout')
  return best
}

const distortion = ({ width, height }: StatechartLayout): number =>
  Math.abs(Math.log(width / height / ASPECT)) + Math.max(0, width - MAX_WIDTH) / MAX_WIDTH

async function layOut(graph: MachineGraph, direction: Direction): Promise<StatechartLayout> {
  const elk = new Elk()
  const ranks = rankStates(graph.root)
  const backward = graph.transitions.map((one) => goesBack(one, ranks))
  const edges = graph.transitions.map((one, at) => toEdge(one, at, backward[at] === true))
  const laid = await elk.layout({
    id: 'chart',
    layoutOptions: {
      ...LAYERED,
      ...SPACING,
      'elk.direction': direction,
      'elk.padding': '[top=12,left=12,bottom=12,right=12]',
    },
    children: [toNode(graph.root, direction)],
    edges: [...edges, ...statesOf(graph.root).flatMap(initialEdge)],
  })
  return toLayout(graph, laid, backward)
}

const statesOf = (state: StatechartState): StatechartState[] => [
  state,
  ...state.children.flatMap(statesOf),
]

/** The place of each state among its siblings. */
function rankStates(root: StatechartState): Map<string, number> {
  const ranks = new Map<string, number>()
  for (const state of statesOf(root)) state.children.forEach(({ path }, at) => ranks.set(path, at))
  return ranks
}

/** Whether a transition leads to an earlier sibling; across levels the ancestors are compared. */
function goesBack(
  { source, target }: StatechartTransition,
  ranks: ReadonlyMap<string, number>,
): boolean {
  const [from, to] = [source.split('.'), target.split('.')]
  let common = 0
  while (common < from.length && common < to.length && from[common] === to[common]) common += 1
  if (common === from.length || common === to.length) return false
  const rank = (path: string[]) => ranks.get(path.slice(0, common + 1).join('.')) ?? 0
  return rank(from) > rank(to)
}

const nodeId = (path: string): string => `state:${path}`

function toEdge(transition: StatechartTransition, at: number, back: boolean): ElkExtendedEdge {
  const { label, guard, source, target } = transition
  const ends = [nodeId(source), nodeId(target)]
  if (back) ends.reverse()
  const chars = Math.max(label.length, guard === '' ? 0 : guard.length + 2)
  return {
    id: `edge:${at}`,
    sources: [ends[0] ?? ''],
    targets: [ends[1] ?? ''],
    labels: [
      { text: label, width: Math.ceil(chars * CHAR_WIDTH + 10), height: guard === '' ? 16 : 28 },
    ],
  }
}

const initialEdge = ({ path, initial }: StatechartState): ElkExtendedEdge[] =>
  initial === null
    ? []
    : [{ id: `initial:${path}`, sources: [`dot:${path}`], targets: [nodeId(initial)] }]

/** Characters of a row as it is drawn: a mark, the note, the events. */
const rowLength = ({ label, note }: StatechartTargetlessTransitionsRow): number =>
  Math.min(MAX_ROW_CHARS, label.length + (note === '' ? 0 : note.length + 3) + 2)

const widthOfRows = (rows: readonly StatechartTargetlessTransitionsRow[]): number =>
  rows.length === 0 ? 0 : Math.ceil(Math.max(...rows.map(rowLength)) * CHAR_WIDTH + 28)

/** The rows of a state: stacked in a leaf, rejections beside the others in a wide composite state. */
function measureRows({ rows, children }: StatechartState): {
  width: number
  height: number
  split: number
} {
  const refused = rows.filter((row) => row.refused)
  const accepted = rows.filter((row) => !row.refused)
  const isBeside = children.length > 0 && refused.length > 0 && accepted.length > 1
  const lines = isBeside ? Math.max(refused.length, accepted.length) : rows.length
  const split = isBeside ? widthOfRows(accepted) : 0
  return {
    width: isBeside ? split + widthOfRows(refused) : widthOfRows(rows),
    height: lines === 0 ? 0 : lines * ROW_HEIGHT + 8,
    split,
  }
}

function toNode(state: StatechartState, direction: Direction): ElkNode {
  const { path, name, children, initial } = state
  const listed = measureRows(state)
  const width = Math.max(92, Math.ceil(name.length * 7.6 + 34), listed.width)
  const top = TITLE_HEIGHT + listed.height
  if (children.length === 0) return { id: nodeId(path), width, height: Math.max(40, top + 2) }
  const dot =
    initial === null ? [] : [{ id: `dot:${path}`, width: INITIAL_SIZE, height: INITIAL_SIZE }]
  return {
    id: nodeId(path),
    layoutOptions: {
      ...SPACING,
      'elk.direction': direction,
      'elk.padding': `[top=${top + 14},left=${PADDING},bottom=${PADDING},right=${PADDING}]`,
      'elk.nodeSize.constraints': 'MINIMUM_SIZE',
      'elk.nodeSize.minimum': `(${width},${top + 40})`,
    },
    children: [...dot, ...children.map((child) => toNode(child, direction))],
  }
}

const round = (value: number | undefined): number => Math.round((value ?? 0) * 10) / 10

function pointsOf(edge: ElkExtendedEdge): Point[] {
  const [section] = edge.sections ?? []
  if (section === undefined) return []
  return [section.startPoint, ...(section.bendPoints ?? []), section.endPoint].map(
    ({ x, y }) => [round(x), round(y)] as const,
  )
}

const isInside = ({ source, target }: StatechartTransition): boolean =>
  source === '' || target.startsWith(`${source}.`)

/** A line to an inner state leaves below the rows of its source, not through them. */
function startBelow(points: Point[], y: number): void {
  const [start, next] = points
  if (start !== undefined && next !== undefined && start[0] === next[0] && start[1] < y)
    points[0] = [start[0], Math.min(y, next[1])]
}

function toLayout(
  graph: MachineGraph,
  laid: ElkNode,
  backward: readonly boolean[],
): StatechartLayout {
  const nodes = new Map(nodesOf(laid).map((node) => [node.id, node]))
  const edges = new Map(edgesOf(laid).map((edge) => [edge.id, edge]))
  const find = <T>(map: ReadonlyMap<string, T>, id: string): T => {
    const found = map.get(id)
    if (found === undefined) throw new Error(`the layout lacks ${id}`)
    return found
  }
  const rowsEnd = (path: string): number => {
    const state = statesOf(graph.root).find((one) => one.path === path)
    const listed = state === undefined ? 0 : measureRows(state).height
    return round((find(nodes, nodeId(path)).y ?? 0) + TITLE_HEIGHT + listed)
  }
  return {
    width: Math.ceil(laid.width ?? 0),
    height: Math.ceil(laid.height ?? 0),
    states: statesOf(graph.root).map((state) => {
      const { path, name, type, ended, rows } = state
      const { x, y, width, height } = find(nodes, nodeId(path))
      const box = { x: round(x), y: round(y), w: round(width), h: round(height) }
      return { path, name, type, ended, ...box, split: measureRows(state).split, rows }
    }),
    transitions: graph.transitions.map((transition, at) => {
      const edge = find(edges, `edge:${at}`)
      const points = pointsOf(edge)
      if (backward[at] === true) points.reverse()
      if (isInside(transition)) startBelow(points, rowsEnd(transition.source))
      const [label] = edge.labels ?? []
      return {
        ...transition,
        points,
        at: [round(label?.x), round(label?.y)] as const,
        w: round(label?.width),
        h: round(label?.height),
      }
    }),
    initials: statesOf(graph.root)
      .filter(({ initial }) => initial !== null)
      .map(({ path }) => ({ path, points: pointsOf(find(edges, `initial:${path}`)) })),
  }
}

const nodesOf = (node: ElkNode): ElkNode[] => [node, ...(node.children ?? []).flatMap(nodesOf)]
const edgesOf = (node: ElkNode): ElkExtendedEdge[] =>
  nodesOf(node).flatMap(({ edges }) => edges ?? [])
