import { h, oncePerFrame, refill } from './dom.js'
import { shortId } from './actor-list.js'

/** Everything that belongs to one agent, as cards: Backpacks, tasks, schedules, bounties, what it sells, payments. */

/** @typedef {import('./store.js').Actor} Actor */

/** Groups of the page by kind, in this order; other kinds follow. */
const TITLES = new Map([
  ['agent', 'Agent'],
  ['backpack', 'Backpacks'],
  ['taskSession', 'Tasks'],
  ['schedule', 'Schedules'],
  ['bounty', 'Bounties'],
  ['listing', 'Listings'],
  ['tool', 'Tools for sale'],
  ['taskPasses', 'Task passes'],
  ['settlement', 'Payments'],
])
const SHOWN_FIELDS = 6

export class AgentView {
  element = h('section', { class: 'agent-page', hidden: true })
  draw = oncePerFrame(() => this.#draw())

  /**
   * @param {import('./store.js').Store} store
   * @param {() => string | null} followedAgent
   * @param {(key: string) => void} onSelect
   */
  constructor(store, followedAgent, onSelect) {
    this.store = store
    this.followedAgent = followedAgent
    this.onSelect = onSelect
  }

  #draw() {
    if (this.element.hidden) return
    const agent = this.followedAgent()
    if (agent === null) {
      refill(
        this.element,
        h('p', { class: 'empty' }, 'Choose an agent, or an actor that belongs to one.'),
      )
      return
    }
    /** @type {Map<string, Actor[]>} */
    const groups = new Map([...TITLES.keys()].map((kind) => [kind, []]))
    for (const actor of this.store.actors.values())
      groups.set(actor.kind, [...(groups.get(actor.kind) ?? []), actor])
    refill(
      this.element,
      ...[...groups].flatMap(([kind, actors]) => [
        h('h2', {}, TITLES.get(kind) ?? kind, h('span', { class: 'count' }, actors.length)),
        actors.length === 0
          ? h('p', { class: 'empty' }, 'none')
          : h('div', { class: 'cards' }, ...actors.map((actor) => this.#card(actor))),
      ]),
    )
  }

  /** @param {Actor} actor */
  #card(actor) {
    return h(
      'button',
      {
        type: 'button',
        class: `card${actor.ended ? ' ended' : ''}`,
        onclick: () => this.onSelect(actor.key),
      },
      h('span', { class: 'card-name' }, actor.name === '' ? shortId(actor.id) : actor.name),
      h('span', { class: 'card-state' }, actor.brief),
      h(
        'span',
        { class: 'card-fields' },
        ...fieldsOf(actor.context).flatMap(([name, value]) => [h('b', {}, name), value]),
      ),
    )
  }
}

/** The plain fields of a context, in words. @param {Record<string, unknown> | null} context */
function fieldsOf(context) {
  return Object.entries(context ?? {})
    .filter(
      ([name, value]) =>
        ['number', 'string', 'boolean'].includes(typeof value) && !/Id$/.test(name),
    )
    .slice(0, SHOWN_FIELDS)
    .map(([name, value]) => {
      const text =
        typeof value === 'number' && /(At|Until)$/.test(name)
          ? new Date(value).toISOString().slice(0, 16).replace('T', ' ')
          : String(value)
      return /** @type {[string, string]} */ ([
        name,
        text.length > 28 ? `${text.slice(0, 27)}…` : text,
      ])
    })
}
