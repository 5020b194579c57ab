import { h, oncePerFrame, refill, setText, toClock } from './dom.js'
import { shortId } from './actor-list.js'
import { splitKey } from './store.js'

/** The lower right: the last events of all shown actors, refusals in red with their code. */

const DRAWN = 60

export class EventList {
  #rate = h('span', { class: 'rate' })
  #rows = h('div', { class: 'event-rows', role: 'log', 'aria-label': 'Events' })
  #onlyRefused = false
  #toggle = h(
    'button',
    { type: 'button', class: 'small', 'aria-pressed': 'false', onclick: () => this.#switch() },
    'refusals',
  )
  element = h(
    'section',
    { class: 'events' },
    h('h2', {}, 'Events', this.#rate, this.#toggle),
    this.#rows,
  )
  draw = oncePerFrame(() => this.#draw())

  /**
   * @param {import('./store.js').Store} store
   * @param {(step: import('./store.js').Step) => void} onChoose
   */
  constructor(store, onChoose) {
    this.store = store
    this.onChoose = onChoose
    setInterval(() => this.#drawRate(), 1_000)
  }

  #switch() {
    this.#onlyRefused = !this.#onlyRefused
    this.#toggle.setAttribute('aria-pressed', String(this.#onlyRefused))
    this.draw()
  }

  #drawRate() {
    setText(this.#rate, `${this.store.rate(Date.now()).toFixed(1)}/s`)
  }

  #draw() {
    const steps = this.#onlyRefused
      ? this.store.steps.filter(({ refused }) => refused !== null)
      : this.store.steps
    refill(
      this.#rows,
      ...steps.slice(0, DRAWN).map((step) => this.#row(step)),
      steps.length === 0
        ? h('p', { class: 'empty' }, 'Nothing yet. Events show as they are committed.')
        : null,
    )
    this.#drawRate()
  }

  /** @param {import('./store.js').Step} step */
  #row(step) {
    const { at, key, event, refused } = step
    const { kind, id } = splitKey(key)
    const name = this.store.actors.get(key)?.name
    return h(
      'button',
      {
        type: 'button',
        class: `event${refused === null ? '' : ' refused'}`,
        title: key,
        onclick: () => this.onChoose(step),
      },
      h('span', { class: 'time' }, toClock(at)),
      h(
        'span',
        { class: 'who' },
        name === undefined || name === '' ? `${kind} ${shortId(id)}` : name,
      ),
      h(
        'span',
        { class: 'what' },
        event.type,
        refused === null ? null : h('span', { class: 'refused-code' }, refused),
      ),
    )
  }
}
