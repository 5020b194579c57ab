import { h, refill, setText } from './dom.js'

/** The frame of the page: the header, the three columns, the title over the chart and its tabs. */

/** @typedef {'chart' | 'history' | 'sequence' | 'agent'} Tab */

/** @type {readonly [Tab, string][]} */
const TABS = [
  ['chart', 'Chart'],
  ['history', 'History'],
  ['sequence', 'Sequence'],
  ['agent', 'Agent'],
]

export class Frame {
  #dot = h('span', { class: 'dot' })
  #state = h('span', { class: 'link-state' }, 'connecting')
  #counts = h('span', { class: 'counts' })
  #kinds = h('nav', { class: 'kinds', 'aria-label': 'Machines' })
  #pause
  #name = h('h1', {})
  #facts = h('p', { class: 'facts' })
  #tabs
  #follow
  #notice = h('div', { class: 'notice', role: 'status', hidden: true })
  #contextTitle = h('h2', {}, 'Context')
  #context = h('div', { class: 'context-body' })
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #noticeTimer

  /**
   * @param {{left: Element, views: Element[], events: Element}} parts
   * @param {{onKind(kind: string): void, onTab(tab: Tab): void, onPause(paused: boolean): void, onFollow(): void, onSignOut(): void}} told
   */
  constructor({ left, views, events }, told) {
    this.told = told
    this.#pause = h(
      'button',
      {
        type: 'button',
        class: 'small',
        'aria-pressed': 'false',
        onclick: () => this.#togglePause(),
      },
      'pause',
    )
    this.#follow = h(
      'button',
      { type: 'button', class: 'small', hidden: true, onclick: () => told.onFollow() },
      'follow agent',
    )
    this.#tabs = new Map(
      TABS.map(([tab, text]) => [
        tab,
        h('button', { type: 'button', role: 'tab', onclick: () => told.onTab(tab) }, text),
      ]),
    )
    this.element = h(
      'div',
      { class: 'frame' },
      h(
        'header',
        {},
        h('b', {}, 'Inspector'),
        this.#dot,
        this.#state,
        this.#counts,
        this.#kinds,
        this.#pause,
        h(
          'button',
          { type: 'button', class: 'small', onclick: () => told.onSignOut() },
          'sign out',
        ),
      ),
      left,
      h(
        'main',
        {},
        ...views,
        h('div', { class: 'title' }, this.#name, this.#facts),
        h('div', { class: 'tabs', role: 'tablist' }, this.#follow, ...this.#tabs.values()),
        this.#notice,
      ),
      h(
        'aside',
        { class: 'right' },
        h('section', { class: 'context' }, this.#contextTitle, this.#context),
        events,
      ),
    )
  }

  #togglePause() {
    const paused = this.#pause.getAttribute('aria-pressed') !== 'true'
    this.#pause.setAttribute('aria-pressed', String(paused))
    setText(this.#pause, paused ? 'resume' : 'pause')
    this.told.onPause(paused)
  }

  /** @param {boolean} live */
  setLive(live) {
    this.#dot.classList.toggle('live', live)
    setText(this.#state, live ? 'live' : 'reconnecting')
  }

  /** @param {number} actors @param {number} machines */
  setCounts(actors, machines) {
    setText(this.#counts, `${actors.toLocaleString('en')} actors · ${machines} machines`)
  }

  /** @param {readonly string[]} kinds @param {string | null} pressed */
  setKinds(kinds, pressed) {
    refill(
      this.#kinds,
      ...kinds.map((kind) =>
        h(
          'button',
          {
            type: 'button',
            class: 'small',
            'aria-pressed': String(kind === pressed),
            onclick: () => this.told.onKind(kind),
          },
          kind,
        ),
      ),
    )
  }

  /** @param {string} name @param {string} facts @param {string | null} follow The words of the follow button. */
  setTitle(name, facts, follow) {
    setText(this.#name, name)
    setText(this.#facts, facts)
    this.#follow.hidden = follow === null
    setText(this.#follow, follow ?? '')
  }

  /** @param {Tab} tab */
  setTab(tab) {
    for (const [each, button] of this.#tabs)
      button.setAttribute('aria-selected', String(each === tab))
    this.element.dataset['tab'] = tab
  }

  /** @param {string} title @param {...import('./dom.js').Child} content */
  setContext(title, ...content) {
    setText(this.#contextTitle, title)
    refill(this.#context, ...content)
  }

  /** Tells something for a few seconds. @param {string} text */
  notify(text) {
    clearTimeout(this.#noticeTimer)
    setText(this.#notice, text)
    this.#notice.hidden = false
    this.#noticeTimer = setTimeout(() => (this.#notice.hidden = true), 4_000)
  }
}
