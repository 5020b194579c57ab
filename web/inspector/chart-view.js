import { drawChart } from './chart-drawing.js'
import { refill, s } from './dom.js'
import { activePaths } from './states.js'

/** The chart of one machine: its active states, what just happened, and zooming. */

/** @typedef {import('./chart-drawing.js').Chart} Chart */

const MARGIN = 24
const MAX_SCALE = 1.25
const MIN_TEXT_SCALE = 0.35
const FLASH_MS = 1_200

export class ChartView {
  element = s('svg', { class: 'chart', role: 'img', 'aria-label': 'Chart of the machine' })
  /** @type {Chart | null} */
  #chart = null
  /** @type {import('./chart-drawing.js').Drawing | null} */
  #drawing = null
  /** @type {{x: number, y: number, w: number, h: number} | null} */
  #view = null
  #moved = false
  /** @type {Map<string, ReturnType<typeof setTimeout>>} */
  #flashes = new Map()

  constructor() {
    this.element.addEventListener('wheel', (event) => this.#zoom(event), { passive: false })
    this.element.addEventListener('pointerdown', (event) => this.#drag(event))
    this.element.addEventListener('dblclick', () => this.fit())
    new ResizeObserver(() => (this.#moved ? this.#keepAspect() : this.fit())).observe(this.element)
  }

  /** @param {Chart | null} chart */
  show(chart) {
    if (chart === this.#chart) return
    this.#chart = chart
    this.#clearFlashes()
    this.#drawing = chart === null ? null : drawChart(chart)
    refill(this.element, this.#drawing?.root)
    this.fit()
  }

  /** Marks the states of a value as active; undefined marks none. @param {unknown} value */
  setState(value) {
    if (this.#drawing === null) return
    const active = value === undefined || value === null ? new Set() : activePaths(value)
    for (const [path, group] of this.#drawing.states)
      group.classList.toggle('active', active.has(path))
  }

  /**
   * Shows for a moment which transitions were taken; a code marks a rejection.
   * @param {string[]} ids @param {string | null} refused
   */
  flash(ids, refused) {
    for (const id of ids) this.#mark(id, refused === null ? 'fired' : 'refused', FLASH_MS)
  }

  /** Marks transitions until the chart is cleared. @param {string[]} ids @param {string} mark */
  keep(ids, mark) {
    for (const id of ids) this.#drawing?.transitions.get(id)?.classList.add(mark)
  }

  /** Takes all marks of transitions away. */
  clear() {
    this.#clearFlashes()
    for (const group of this.#drawing?.transitions.values() ?? [])
      group.classList.remove('fired', 'refused', 'passed')
  }

  /** @param {string} id @param {string} mark @param {number} duration */
  #mark(id, mark, duration) {
    const group = this.#drawing?.transitions.get(id)
    if (group === undefined) return
    clearTimeout(this.#flashes.get(id))
    group.classList.remove('fired', 'refused')
    group.classList.add(mark)
    // The last one is drawn above the others.
    if (group.classList.contains('transition')) group.parentElement?.append(group)
    this.#flashes.set(
      id,
      setTimeout(() => group.classList.remove(mark), duration),
    )
  }

  #clearFlashes() {
    for (const timer of this.#flashes.values()) clearTimeout(timer)
    this.#flashes.clear()
  }

  /** Centres the whole chart. */
  fit() {
    this.#moved = false
    const { clientWidth: width, clientHeight: height } = this.element
    if (this.#chart === null || width === 0 || height === 0) return
    const room = Number(this.element.dataset['top'] ?? 0)
    const scale = Math.max(
      MIN_TEXT_SCALE,
      Math.min(
        MAX_SCALE,
        (width - 2 * MARGIN) / this.#chart.width,
        (height - room - 2 * MARGIN) / this.#chart.height,
      ),
    )
    const [w, h] = [width / scale, height / scale]
    this.#setView({
      x: (this.#chart.width - w) / 2,
      y: (this.#chart.height - h - room / scale) / 2,
      w,
      h,
    })
  }

  #keepAspect() {
    const { clientWidth: width, clientHeight: height } = this.element
    if (this.#view === null || width === 0) return
    this.#setView({ ...this.#view, h: (this.#view.w * height) / width })
  }

  /** @param {{x: number, y: number, w: number, h: number}} view */
  #setView(view) {
    this.#view = view
    this.element.setAttribute('viewBox', `${view.x} ${view.y} ${view.w} ${view.h}`)
  }

  /** @param {WheelEvent} event */
  #zoom(event) {
    if (this.#view === null) return
    event.preventDefault()
    this.#moved = true
    const box = this.element.getBoundingClientRect()
    const [px, py] = [(event.clientX - box.x) / box.width, (event.clientY - box.y) / box.height]
    const { x, y, w, h } = this.#view
    const factor = Math.exp(event.deltaY * 0.0012)
    this.#setView({
      x: x + px * w * (1 - factor),
      y: y + py * h * (1 - factor),
      w: w * factor,
      h: h * factor,
    })
  }

  /** @param {PointerEvent} start */
  #drag(start) {
    if (this.#view === null || start.button !== 0) return
    const from = this.#view
    const scale = from.w / this.element.clientWidth
    this.element.setPointerCapture(start.pointerId)
    /** @param {PointerEvent} event */
    const move = (event) => {
      this.#moved = true
      const [dx, dy] = [event.clientX - start.clientX, event.clientY - start.clientY]
      this.#setView({ ...from, x: from.x - dx * scale, y: from.y - dy * scale })
    }
    this.element.addEventListener('pointermove', move)
    this.element.addEventListener(
      'pointerup',
      () => this.element.removeEventListener('pointermove', move),
      {
        once: true,
      },
    )
  }
}
