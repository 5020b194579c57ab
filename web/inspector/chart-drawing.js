import { s } from './dom.js'

/** Draws a laid out chart as SVG and keeps its parts by state and by transition. */

/**
 * @typedef {[number, number]} Point
 * @typedef {{label: string, note: string, refused: boolean, ids: string[]}} Row
 * @typedef {{path: string, name: string, type: string, ended: boolean, x: number, y: number, w: number, h: number, split: number, rows: Row[]}} StateBox
 * @typedef {{id: string, label: string, guard: string, source: string, target: string, points: Point[], at: Point, w: number, h: number}} Line
 * @typedef {{kind: string, machine: string, width: number, height: number, states: StateBox[], initials: {path: string, points: Point[]}[], transitions: Line[]}} Chart
 * @typedef {{root: SVGGElement, states: Map<string, SVGGElement>, transitions: Map<string, SVGGElement>, parents: Map<string, string>}} Drawing
 */

const CORNER = 8
const ARROW = 7
const TITLE_HEIGHT = 34
const ROW_HEIGHT = 15
const CHAR_WIDTH = 6.75

/** @param {Chart} chart @returns {Drawing} */
export function drawChart({ states, initials, transitions }) {
  /** @type {Drawing} */
  const drawing = {
    root: s('g'),
    states: new Map(),
    transitions: new Map(),
    parents: new Map(),
  }
  const inner = new Set(states.map(({ path }) => path.split('.').slice(0, -1).join('.')))
  for (const state of states) drawing.root.append(drawState(drawing, state, inner.has(state.path)))
  for (const initial of initials) drawing.root.append(drawInitial(initial.points))
  const labels = s('g')
  for (const line of transitions) {
    const group = s('g', { class: 'transition' }, drawLine(line.points), drawLabel(line))
    drawing.transitions.set(line.id, group)
    labels.append(group)
  }
  drawing.root.append(labels)
  return drawing
}

/** @param {Drawing} drawing @param {StateBox} state @param {boolean} compound */
function drawState(drawing, { path, name, type, ended, x, y, w, h, split, rows }, compound) {
  const radius = compound ? 12 : 8
  const group = s(
    'g',
    {
      class: ['state', compound ? 'compound' : 'leaf', type, ended ? 'ended' : ''].join(' '),
      transform: `translate(${x} ${y})`,
    },
    s('rect', { class: 'box', width: w, height: h, rx: radius }),
    type === 'final' || ended
      ? s('rect', { class: 'inner-box', x: 3, y: 3, width: w - 6, height: h - 6, rx: radius - 3 })
      : null,
    s('text', { class: 'name', x: 14, y: 23 }, name),
    rows.length > 0
      ? s('line', { class: 'rule', x1: 0, x2: w, y1: TITLE_HEIGHT, y2: TITLE_HEIGHT })
      : null,
  )
  const [accepted, refused] = [
    rows.filter((row) => !row.refused),
    rows.filter((row) => row.refused),
  ]
  const columns =
    split === 0
      ? [{ listed: rows, left: 0, right: w }]
      : [
          { listed: accepted, left: 0, right: split },
          { listed: refused, left: split, right: w },
        ]
  for (const { listed, left, right } of columns)
    listed.forEach((row, at) =>
      group.append(drawRow(drawing, row, { left, right, y: TITLE_HEIGHT + 4 + at * ROW_HEIGHT })),
    )
  drawing.states.set(path, group)
  return group
}

/** @param {Drawing} drawing @param {Row} row @param {{left: number, right: number, y: number}} place */
function drawRow(drawing, { label, note, refused, ids }, { left, right, y }) {
  const text = s('text', { class: 'row-text', x: left + 14, y: y + 11 })
  const first = refused ? `✕ ${note}` : label
  const second = refused ? label : note === '' ? '' : `[${note}]`
  const room = Math.floor((right - left - 24) / CHAR_WIDTH) - first.length - 1
  text.append(s('tspan', { class: refused ? 'code' : 'event' }, first))
  if (second !== '')
    text.append(s('tspan', { class: 'row-note', dx: CHAR_WIDTH }, shorten(second, room)))
  const group = s(
    'g',
    { class: `row${refused ? ' refusing' : ''}` },
    s('rect', {
      class: 'row-plate',
      x: left + 4,
      y,
      width: right - left - 8,
      height: ROW_HEIGHT,
      rx: 3,
    }),
    text,
    s('title', {}, refused ? `${label}: refused with ${note}` : `${label} ${second}`),
  )
  for (const id of ids) drawing.transitions.set(id, group)
  return group
}

/** @param {string} text @param {number} room */
const shorten = (text, room) =>
  text.length <= room ? text : `${text.slice(0, Math.max(1, room - 1))}…`

/** @param {Point[]} points */
function drawInitial(points) {
  const [first] = points
  return s(
    'g',
    { class: 'initial' },
    s('circle', { cx: first?.[0] ?? 0, cy: first?.[1] ?? 0, r: 4.5 }),
    drawLine(points),
  )
}

/** @param {Point[]} points */
function drawLine(points) {
  return s(
    'g',
    { class: 'line' },
    s('path', { class: 'stroke', d: roundedPath(points) }),
    s('path', { class: 'head', d: arrowHead(points) }),
  )
}

/** @param {Line} line */
function drawLabel({ label, guard, at: [x, y], w, h }) {
  return s(
    'g',
    { class: 'label', transform: `translate(${x} ${y})` },
    s('rect', { class: 'plate', width: w, height: h, rx: 4 }),
    s('text', { class: 'event', x: w / 2, y: 12 }, label),
    guard === '' ? null : s('text', { class: 'guard', x: w / 2, y: 24 }, `[${guard}]`),
  )
}

/** A path through the points with rounded corners. @param {Point[]} points */
function roundedPath(points) {
  const [first, ...rest] = points
  if (first === undefined) return ''
  let path = `M${first[0]} ${first[1]}`
  rest.forEach((point, at) => {
    const before = points[at] ?? point
    const after = rest[at + 1]
    if (after === undefined) {
      path += `L${point[0]} ${point[1]}`
      return
    }
    const radius = Math.min(CORNER, distance(before, point) / 2, distance(point, after) / 2)
    const [a, b] = [toward(point, before, radius), toward(point, after, radius)]
    path += `L${a[0]} ${a[1]}Q${point[0]} ${point[1]} ${b[0]} ${b[1]}`
  })
  return path
}

/** @param {Point} a @param {Point} b */
const distance = (a, b) => Math.hypot(a[0] - b[0], a[1] - b[1])

/** @param {Point} from @param {Point} to @param {number} length @returns {Point} */
function toward(from, to, length) {
  const whole = distance(from, to) || 1
  return [
    from[0] + ((to[0] - from[0]) * length) / whole,
    from[1] + ((to[1] - from[1]) * length) / whole,
  ]
}

/** @param {Point[]} points */
function arrowHead(points) {
  const [end, before] = [points.at(-1), points.at(-2)]
  if (end === undefined || before === undefined) return ''
  const [bx, by] = toward(end, before, ARROW)
  const [nx, ny] = [((end[1] - by) / ARROW) * 3.5, ((bx - end[0]) / ARROW) * 3.5]
  return `M${end[0]} ${end[1]}L${bx + nx} ${by + ny}L${bx - nx} ${by - ny}Z`
}
