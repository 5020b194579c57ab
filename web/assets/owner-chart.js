/** The chart of spending: stacked bars by day and tool, and the same figures as a table. */

import { element, find } from './dom.js'

/** Tools with a colour of their own; the others share the last one. */
const MAX_TOOLS = 5
const DAY_SECONDS = 86_400
const HEIGHT = 220

/** @type {any} */
let chart = null
/** @type {Promise<any> | null} */
let library = null

/** Loads the library with the first chart. It is one script of this station. */
function loadLibrary() {
  library ??= new Promise((resolve, reject) => {
    const base = new URL('.', import.meta.url)
    document.head.append(
      element('link', { rel: 'stylesheet', href: new URL('uplot.css', base).pathname }),
    )
    const script = document.createElement('script')
    script.src = new URL('uplot.js', base).pathname
    script.onload = () => resolve(/** @type {any} */ (window)['uPlot'])
    script.onerror = () => reject(new Error('the chart did not load'))
    document.head.append(script)
  })
  return library
}

/**
 * @typedef {{ day: string, tool: string, calls: number, spent_usdc: number }} SpendingRow
 * @typedef {{ from: string, to: string, rows: SpendingRow[] }} Spending
 */

/** @param {Spending} spending */
export async function drawSpending(spending) {
  const figures = toFigures(spending)
  fillTable(figures)
  fillLegend(figures.tools)
  const place = find('#chart')
  if (place === null) return
  const uPlot = await loadLibrary().catch(() => null)
  if (uPlot === null) return
  chart?.destroy()
  chart = new uPlot(optionsOf(uPlot, place, figures), dataOf(figures), place)
}

/** Draws it again in the colours of the theme, and as wide as its place. */
export function followTheme() {
  const place = find('#chart')
  if (place === null) return
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => chart?.redraw())
  new ResizeObserver(() => chart?.setSize({ width: place.clientWidth, height: HEIGHT })).observe(
    place,
  )
}

/**
 * Amounts by day and tool: every day of the span, the dearest tools first.
 *
 * @param {Spending} spending
 */
function toFigures({ from, to, rows }) {
  /** @type {string[]} */
  const days = []
  for (let at = Date.parse(from); at <= Date.parse(to); at += DAY_SECONDS * 1000)
    days.push(new Date(at).toISOString().slice(0, 10))
  /** @type {Map<string, number>} */
  const sums = new Map()
  for (const { tool, spent_usdc: usdc } of rows) sums.set(tool, (sums.get(tool) ?? 0) + usdc)
  const ranked = [...sums].sort((a, b) => b[1] - a[1]).map(([tool]) => tool)
  const named = ranked.slice(0, MAX_TOOLS)
  const tools = ranked.length > MAX_TOOLS ? [...named, 'other tools'] : named
  const amounts = tools.map(() => days.map(() => 0))
  for (const { day, tool, spent_usdc: usdc } of rows) {
    const column = days.indexOf(day)
    const row = amounts[named.includes(tool) ? named.indexOf(tool) : MAX_TOOLS]
    if (row !== undefined && column >= 0) row[column] = round((row[column] ?? 0) + usdc)
  }
  return { days, tools, amounts }
}

/** @typedef {ReturnType<typeof toFigures>} Figures */

/** @param {number} usdc */
const round = (usdc) => Math.round(usdc * 1e6) / 1e6

/** Sums from the bottom up: the whole bar is drawn first, its lower parts over it. @param {Figures} figures */
function dataOf({ days, amounts }) {
  const times = days.map((day) => Date.parse(day) / 1000)
  const stacked = amounts.map((_row, at) =>
    days.map((_day, column) =>
      round(amounts.slice(0, at + 1).reduce((sum, row) => sum + (row[column] ?? 0), 0)),
    ),
  )
  return [times, ...stacked.reverse()]
}

/** @param {any} uPlot @param {HTMLElement} place @param {Figures} figures */
function optionsOf(uPlot, place, { tools }) {
  const colour = (/** @type {string} */ name) =>
    getComputedStyle(document.documentElement).getPropertyValue(name)
  const axis = {
    stroke: () => colour('--dim'),
    grid: { stroke: () => colour('--line'), width: 1 },
    ticks: { stroke: () => colour('--line'), width: 1 },
    font: '12px system-ui, sans-serif',
  }
  const dates = (/** @type {any} */ _chart, /** @type {number[]} */ splits) =>
    splits.map((at) => new Date(at * 1000).toISOString().slice(5, 10))
  const bars = uPlot.paths.bars({ size: [0.7, 28] })
  return {
    width: place.clientWidth,
    height: HEIGHT,
    tzDate: (/** @type {number} */ at) => uPlot.tzDate(new Date(at * 1000), 'UTC'),
    legend: { show: false },
    cursor: { show: false },
    scales: {
      x: {
        time: true,
        range: (/** @type {any} */ _c, /** @type {number} */ a, /** @type {number} */ b) => [
          a - DAY_SECONDS / 2,
          b + DAY_SECONDS / 2,
        ],
      },
      y: {
        range: (/** @type {any} */ _c, /** @type {number} */ _a, /** @type {number} */ max) => [
          0,
          max > 0 ? max * 1.1 : 1,
        ],
      },
    },
    axes: [
      { ...axis, values: dates, space: 60 },
      {
        ...axis,
        size: 56,
        values: (/** @type {any} */ _c, /** @type {number[]} */ at) =>
          at.map((usdc) => String(round(usdc))),
      },
    ],
    series: [
      {},
      ...tools
        .map((_tool, at) => ({
          fill: () => colour(`--chart-${at}`),
          width: 0,
          paths: bars,
          points: { show: false },
        }))
        .reverse(),
    ],
  }
}

/** @param {string[]} tools */
function fillLegend(tools) {
  find('#legend')?.replaceChildren(
    ...tools.map((tool, at) =>
      element('li', {}, element('span', { class: `swatch s${at}`, 'aria-hidden': 'true' }), tool),
    ),
  )
}

/** @param {Figures} figures */
function fillTable({ days, tools, amounts }) {
  const head = ['Day (UTC)', ...tools, 'Sum']
  const sumOf = (/** @type {number} */ column) =>
    round(amounts.reduce((sum, row) => sum + (row[column] ?? 0), 0))
  const rows = days
    .map((day, column) => [day, ...amounts.map((row) => row[column] ?? 0), sumOf(column)])
    .filter((row) => row.at(-1) !== 0)
    .reverse()
  find('#spending-table')?.replaceChildren(
    rows.length === 0
      ? element('p', { class: 'dim' }, 'Nothing was spent in these days.')
      : element(
          'table',
          {},
          element(
            'thead',
            {},
            element('tr', {}, ...head.map((text) => element('th', { scope: 'col' }, text))),
          ),
          element(
            'tbody',
            {},
            ...rows.map((row) =>
              element('tr', {}, ...row.map((value) => element('td', {}, String(value)))),
            ),
          ),
        ),
  )
}
