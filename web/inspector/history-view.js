import { h, refill, setText, toClock, toDayTime } from './dom.js'
import { briefState, diffOf } from './states.js'
import { readEntries, RefusedError } from './station.js'
import { splitKey } from './store.js'

/** The history of one actor: a slider over its journal, and the difference of two points. */

/**
 * @typedef {object} Entry
 * @property {number} version
 * @property {string} at
 * @property {string} command
 * @property {string} command_id
 * @property {unknown} value
 * @property {Record<string, unknown>} context
 * @property {string} state
 */

/** Entries that are read at a time. */
const MAX_ENTRIES = 500

export class HistoryView {
  /** Oldest first. @type {Entry[]} */
  #entries = []
  #at = 0
  /** The point to compare with; null compares with the one before. @type {number | null} */
  #pinned = null
  #key = ''
  /** Where earlier entries begin; null at the creation. @type {string | null} */
  #next = null
  #slider = h('input', {
    type: 'range',
    min: 0,
    max: 0,
    value: 0,
    'aria-label': 'Point in time',
    oninput: () => this.go(Number(this.#slider.value)),
  })
  #place = h('span', { class: 'place' })
  #back = this.#button('Previous', '◀', () => this.go(this.#at - 1))
  #on = this.#button('Next', '▶', () => this.go(this.#at + 1))
  #pin = h(
    'button',
    { type: 'button', class: 'small', onclick: () => this.#togglePin() },
    'compare from here',
  )
  #rows = h('div', { class: 'history-rows' })
  element = h(
    'section',
    { class: 'history', hidden: true },
    h('div', { class: 'history-bar' }, this.#back, this.#slider, this.#on, this.#place, this.#pin),
    this.#rows,
  )

  /**
   * @param {(entry: Entry, diff: {path: string, from?: unknown, to?: unknown}[], since: Entry | null) => void} onPoint
   */
  constructor(onPoint) {
    this.onPoint = onPoint
  }

  /** @param {string} label @param {string} sign @param {() => void} onclick */
  #button(label, sign, onclick) {
    return h('button', { type: 'button', class: 'small', 'aria-label': label, onclick }, sign)
  }

  /** Reads the history of an actor and shows its last point. @param {string} kind @param {string} id */
  async open(kind, id) {
    this.#key = `${kind}:${id}`
    const key = this.#key
    refill(this.#rows, h('p', { class: 'empty' }, 'Reading the journal…'))
    const { entries, next } = await readEntries(kind, id, MAX_ENTRIES)
    if (key !== this.#key) return
    this.#entries = entries.toReversed()
    this.#next = next
    this.#pinned = null
    this.#slider.max = String(Math.max(0, entries.length - 1))
    this.#drawRows()
    if (entries.length > 0) this.go(entries.length - 1)
  }

  /** Reads what came before; the point that is shown stays. */
  async #readEarlier() {
    const key = this.#key
    const { kind, id } = splitKey(key)
    const { entries, next } = await readEntries(kind, id, MAX_ENTRIES, this.#next)
    if (key !== this.#key) return
    this.#entries = [...entries.toReversed(), ...this.#entries]
    this.#next = next
    if (this.#pinned !== null) this.#pinned += entries.length
    this.#slider.max = String(Math.max(0, this.#entries.length - 1))
    this.#drawRows()
    this.go(this.#at + entries.length)
  }

  #earlierButton() {
    /** @type {HTMLButtonElement} */
    const button = h(
      'button',
      {
        type: 'button',
        class: 'small earlier',
        onclick: () => {
          button.disabled = true
          this.#readEarlier().catch((error) => {
            if (!(error instanceof RefusedError)) throw error
            button.disabled = false
          })
        },
      },
      'earlier points',
    )
    return button
  }

  /** Shows the point with this place in time. @param {number} at */
  go(at) {
    this.#at = Math.max(0, Math.min(this.#entries.length - 1, at))
    const entry = this.#entries[this.#at]
    if (entry === undefined) return
    this.#slider.value = String(this.#at)
    setText(
      this.#place,
      `${this.#at + 1} of ${this.#entries.length} · v${entry.version} · ${toDayTime(entry.at)}`,
    )
    this.#back.toggleAttribute('disabled', this.#at === 0)
    this.#on.toggleAttribute('disabled', this.#at === this.#entries.length - 1)
    const since = this.#entries[this.#pinned ?? this.#at - 1] ?? null
    this.#markRows()
    this.onPoint(entry, since === null ? [] : diffOf(since.context, entry.context), since)
  }

  #togglePin() {
    this.#pinned = this.#pinned === null ? this.#at : null
    setText(
      this.#pin,
      this.#pinned === null
        ? 'compare from here'
        : `compared from v${this.#entries[this.#at]?.version}`,
    )
    this.#pin.setAttribute('aria-pressed', String(this.#pinned !== null))
    this.go(this.#at)
  }

  #drawRows() {
    const rows = this.#entries.map((entry, at) => {
      const before = this.#entries[at - 1]
      const changes = before === undefined ? [] : diffOf(before.context, entry.context)
      const moved = before !== undefined && briefState(before.value) !== briefState(entry.value)
      return h(
        'button',
        { type: 'button', class: 'history-row', onclick: () => this.go(at) },
        h('span', { class: 'version' }, `v${entry.version}`),
        h('span', { class: 'time' }, toClock(entry.at)),
        h('span', { class: 'command' }, entry.command),
        h('span', { class: `state-name${moved ? ' moved' : ''}` }, briefState(entry.value)),
        h(
          'span',
          { class: 'changes' },
          before === undefined
            ? this.#next === null
              ? 'created'
              : ''
            : changes.map(({ path }) => path.slice(1)).join(', '),
        ),
      )
    })
    refill(
      this.#rows,
      ...rows.toReversed(),
      rows.length === 0
        ? h('p', { class: 'empty' }, 'The journal has no entry of this actor.')
        : null,
      this.#next === null ? null : this.#earlierButton(),
    )
  }

  #markRows() {
    const rows = [...this.#rows.querySelectorAll('.history-row')].toReversed()
    rows.forEach((row, at) => {
      row.classList.toggle('selected', at === this.#at)
      row.classList.toggle('pinned', at === this.#pinned)
    })
    const row = rows[this.#at]
    if (row instanceof HTMLElement) row.scrollIntoView({ block: 'nearest' })
  }
}
