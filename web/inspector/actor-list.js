import { h, oncePerFrame, refill } from './dom.js'

/** The left column: the actors by machine, with a filter and a search over all stored ones. */

/** @typedef {import('./store.js').Actor} Actor */

const ROWS_PER_GROUP = 200
const SEARCH_WAIT_MS = 200
const TOUCHED_MS = 600

export class ActorList {
  #selected = ''
  /** @type {string | null} */
  #kind = null
  #query = ''
  #isAll = true
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #typing
  #list = h('div', { class: 'groups', role: 'listbox', 'aria-label': 'Actors' })
  #input = h('input', {
    type: 'search',
    placeholder: 'Filter by name or id',
    'aria-label': 'Filter actors',
    spellcheck: 'false',
    autocomplete: 'off',
    oninput: () => this.#type(),
  })
  #follow = h('div', { class: 'following', hidden: true })
  element = h(
    'aside',
    { class: 'actors' },
    h('div', { class: 'filter' }, this.#input),
    this.#follow,
    this.#list,
  )
  draw = oncePerFrame(() => this.#draw())

  /**
   * @param {import('./store.js').Store} store
   * @param {{onSelect(key: string): void, onSearch(query: string): void, onUnfollow(): void}} told
   */
  constructor(store, told) {
    this.store = store
    this.told = told
    this.#list.addEventListener('keydown', (event) => this.#move(event))
  }

  /** @param {string} key */
  select(key) {
    this.#selected = key
    this.draw()
  }

  /** Shows one machine only; null shows all. @param {string | null} kind */
  setKind(kind) {
    this.#kind = kind
    this.draw()
  }

  /** @param {string | null} agent The agent that is followed, in words. */
  setFollowed(agent) {
    this.#follow.hidden = agent === null
    this.#isAll = agent === null
    refill(
      this.#follow,
      h('span', {}, `Following ${agent ?? ''}`),
      h('button', { type: 'button', onclick: () => this.told.onUnfollow() }, 'all actors'),
    )
  }

  #type() {
    this.#query = this.#input.value.trim().toLowerCase()
    this.draw()
    clearTimeout(this.#typing)
    this.#typing = setTimeout(() => this.told.onSearch(this.#query), SEARCH_WAIT_MS)
  }

  /** @param {Actor} actor */
  #matches({ kind, id, name }) {
    if (this.#kind !== null && kind !== this.#kind) return false
    return `${id} ${name}`.toLowerCase().includes(this.#query)
  }

  #draw() {
    /** @type {Map<string, Actor[]>} */
    const groups = new Map([...this.store.kinds.keys()].map((kind) => [kind, []]))
    for (const actor of this.store.actors.values()) {
      if (!this.#matches(actor)) continue
      const group = groups.get(actor.kind) ?? []
      group.push(actor)
      groups.set(actor.kind, group)
    }
    const shown = [...groups].filter(([, actors]) => actors.length > 0)
    const focused =
      document.activeElement instanceof HTMLElement
        ? document.activeElement.dataset['key']
        : undefined
    refill(
      this.#list,
      ...shown.flatMap(([kind, actors]) => this.#group(kind, actors)),
      shown.length === 0 ? h('p', { class: 'empty' }, 'No actor matches.') : null,
    )
    if (focused !== undefined) this.#rowOf(focused)?.focus()
  }

  /** @param {string} kind @param {Actor[]} actors */
  #group(kind, actors) {
    const stored = this.store.kinds.get(kind)?.actors
    const all =
      this.#isAll && this.#query === '' ? Math.max(stored ?? 0, actors.length) : actors.length
    const rows = actors
      .toSorted((one, other) => (one.id < other.id ? 1 : -1))
      .slice(0, ROWS_PER_GROUP)
    return [
      h('h2', {}, kind, h('span', { class: 'count' }, all.toLocaleString('en'))),
      ...rows.map((actor) => this.#row(actor)),
    ]
  }

  /** @param {Actor} actor */
  #row({ key, id, name, brief, touched, ended }) {
    const fresh = touched > 0 && performance.now() - touched < TOUCHED_MS
    if (fresh) setTimeout(this.draw, TOUCHED_MS)
    const chosen = key === this.#selected
    return h(
      'button',
      {
        type: 'button',
        role: 'option',
        class: `actor${chosen ? ' selected' : ''}${ended ? ' ended' : ''}`,
        'aria-selected': String(chosen),
        'data-key': key,
        title: id,
        onclick: () => this.told.onSelect(key),
      },
      h('span', { class: 'actor-name' }, name === '' ? shortId(id) : name),
      h('span', { class: `brief${fresh ? ' fresh' : ''}` }, brief),
    )
  }

  /** @param {string} key */
  #rowOf(key) {
    return [...this.#list.querySelectorAll('button')].find((row) => row.dataset['key'] === key)
  }

  /** @param {KeyboardEvent} event */
  #move(event) {
    const step = event.key === 'ArrowDown' ? 1 : event.key === 'ArrowUp' ? -1 : 0
    if (step === 0) return
    event.preventDefault()
    const rows = [...this.#list.querySelectorAll('button')]
    const at = rows.findIndex((row) => row === document.activeElement)
    const next = rows[Math.max(0, Math.min(rows.length - 1, at + step))]
    next?.focus()
    next?.click()
  }
}

/** The end of a long id, which differs between neighbours. @param {string} id */
export const shortId = (id) => (id.length <= 18 ? id : `…${id.slice(-12)}`)
