import { h, refill, toDayTime } from './dom.js'

/** Why an event was refused: the code, the guard and its figures, over the chart. */

export class WhyView {
  element = h('section', { class: 'why', hidden: true })

  /** @param {() => void} onClose */
  constructor(onClose) {
    this.onClose = onClose
  }

  hide() {
    this.element.hidden = true
  }

  /** @param {any} why */
  show(why) {
    const {
      code,
      title,
      detail,
      event,
      state,
      transition,
      passed_over: passed = [],
      figures = {},
      count,
      first_at: first,
      last_at: last,
    } = why
    this.element.hidden = false
    refill(
      this.element,
      h(
        'button',
        {
          type: 'button',
          class: 'small close',
          'aria-label': 'Close',
          onclick: () => this.onClose(),
        },
        '✕',
      ),
      h('h2', {}, h('span', { class: 'refused-code' }, code), ' ', title ?? ''),
      h('p', {}, detail ?? ''),
      h(
        'dl',
        {},
        ...pair('event', event?.type),
        ...pair('in state', state),
        ...pair(
          'because',
          transition?.guard === null || transition?.guard === undefined
            ? 'no guard before it held'
            : guardText(transition.guard),
        ),
        ...pair(
          'did not hold',
          passed
            .map((/** @type {any} */ one) => guardText(one.guard))
            .filter((/** @type {string} */ text) => text !== '')
            .join(', '),
        ),
        ...Object.entries(figures).flatMap(([name, value]) => pair(name, value)),
        ...pair(count > 1 ? 'first' : 'at', toDayTime(first ?? null)),
        ...(count > 1 ? [...pair('last', toDayTime(last ?? null)), ...pair('times', count)] : []),
      ),
    )
  }
}

/** @param {string} name @param {string | number | null | undefined} value */
const pair = (name, value) =>
  value === undefined || value === null || value === ''
    ? []
    : [h('div', {}, h('dt', {}, name), h('dd', {}, String(value)))]

/** @param {any} guard */
function guardText(guard) {
  if (guard === null || guard === undefined) return ''
  if (typeof guard === 'string') return guard
  const values = Object.values(guard.params ?? {})
  return [guard.type, ...values.map(String)].join(' ')
}
