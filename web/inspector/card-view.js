import { h, refill, toClock } from './dom.js'

/** An aggregate with one state: a card with its context and its last events instead of a chart. */

const SHOWN_EVENTS = 20

export class CardView {
  element = h('section', { class: 'reducer', hidden: true })

  /** @param {import('./store.js').Store} store */
  constructor(store) {
    this.store = store
  }

  /** @param {string} kind @param {import('./store.js').Actor | undefined} actor @param {unknown} context */
  show(kind, actor, context) {
    if (actor === undefined) {
      refill(
        this.element,
        h(
          'p',
          { class: 'empty' },
          `${kind} has one state only. Choose an actor to see its context.`,
        ),
      )
      return
    }
    const steps = this.store.steps.filter(({ key }) => key === actor.key).slice(0, SHOWN_EVENTS)
    refill(
      this.element,
      h(
        'div',
        { class: 'reducer-card' },
        h('h2', {}, kind, h('span', { class: 'count' }, 'one state: a plain reducer')),
        h(
          'dl',
          {},
          ...Object.entries(/** @type {object} */ (context ?? {})).flatMap(([name, value]) => [
            h('dt', {}, name),
            h(
              'dd',
              {},
              typeof value === 'object' && value !== null ? summary(value) : String(value),
            ),
          ]),
        ),
      ),
      h(
        'div',
        { class: 'reducer-card' },
        h('h2', {}, 'Events'),
        ...steps.map(({ at, event, refused }) =>
          h(
            'div',
            { class: `reducer-event${refused === null ? '' : ' refused'}` },
            h('span', { class: 'time' }, toClock(at)),
            h('span', { class: 'what' }, event.type),
            refused === null ? null : h('span', { class: 'refused-code' }, refused),
          ),
        ),
        steps.length === 0 ? h('p', { class: 'empty' }, 'None since this page was opened.') : null,
      ),
    )
  }
}

/** @param {object} value */
function summary(value) {
  const count = Object.keys(value).length
  return count === 0 ? 'none' : `${count} ${count === 1 ? 'entry' : 'entries'}`
}
