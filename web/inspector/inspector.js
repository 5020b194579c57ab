import { ActorList } from './actor-list.js'
import { AgentView } from './agent-view.js'
import { CardView } from './card-view.js'
import { ChartView } from './chart-view.js'
import { diffLines, jsonLines } from './context-view.js'
import { h, oncePerFrame, toDayTime } from './dom.js'
import { EventList } from './event-list.js'
import { Feed } from './feed.js'
import { Frame } from './frame.js'
import { HistoryView } from './history-view.js'
import { SequenceView } from './sequence-view.js'
import { lifeOf, stateText } from './states.js'
import { findActors, findWhy, readChart, readHistory, readWhy, RefusedError } from './station.js'
import { decoded, splitKey, Store } from './store.js'
import { WhyView } from './why-view.js'

/** The inspector of a signed-in reader: what is selected, and which view shows it. */

/** @typedef {{words: string, value: unknown, context: Record<string, unknown>}} Point */

const ACTORS_A_SEARCH = 50
const ACTORS_A_KIND = 200
/** Frames that were left out are read again this late, and once for all of that time. */
const REREAD_MS = 1_000
/** Where payments, bounties, listings and tools name their agent. */
const OWNER_FIELDS = ['agentId', 'posterId', 'sellerId', 'builderId']

export class Inspector {
  store = new Store()
  /** @type {import('./frame.js').Tab} */
  #tab = 'chart'
  #key = ''
  /** @type {string | null} */
  #kind = null
  /** The agent that is followed. @type {string | null} */
  #agent = null
  #paused = false
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #reread
  /** The point in history, or the refusal, that is shown. @type {Point | null} */
  #point = null
  /** @type {Map<string, Promise<any>>} */
  #charts = new Map()
  #chart = new ChartView()
  #card = new CardView(this.store)
  #why = new WhyView(() => this.select(this.#key))
  #list = new ActorList(this.store, {
    onSelect: (key) => this.select(key),
    onSearch: (query) => this.#search(query),
    onUnfollow: () => this.follow(null),
  })
  #events = new EventList(this.store, (step) => this.#choose(step))
  #history = new HistoryView((entry, diff, since) => this.#showPoint(entry, diff, since))
  #sequence = new SequenceView(
    this.store,
    () => this.#agent ?? this.#agentOf(this.#key),
    (key) => this.select(key),
  )
  #agentPage = new AgentView(
    this.store,
    () => this.#agent,
    (key) => this.select(key),
  )
  #frame
  #feed
  #drawSelected = oncePerFrame(() => this.#showSelected())

  /** @param {{onSignedOut(): void, onSignOut(): void}} told */
  constructor(told) {
    this.#frame = new Frame(
      {
        left: this.#list.element,
        views: [
          h('div', { class: 'ground' }, this.#chart.element, this.#card.element),
          this.#why.element,
          this.#history.element,
          this.#sequence.element,
          this.#agentPage.element,
        ],
        events: this.#events.element,
      },
      {
        onKind: (kind) => this.#chooseKind(kind),
        onTab: (tab) => this.setTab(tab),
        onPause: (paused) => this.#pause(paused),
        onFollow: () => this.follow(this.#agent === null ? this.#agentOf(this.#key) : null),
        onSignOut: () => told.onSignOut(),
      },
    )
    this.#feed = new Feed({
      onFrame: (frame) => this.#take(frame),
      onState: (live) => this.#frame.setLive(live),
      onRefused: () => told.onSignedOut(),
    })
    this.element = this.#frame.element
    this.#chart.element.dataset['top'] = '64'
    this.store.listen((step) => this.#changed(step))
    addEventListener('hashchange', () => this.#readAddress())
  }

  /** @param {import('./store.js').Kind[]} kinds */
  start(kinds) {
    this.store.setKinds(kinds)
    this.setTab('chart')
    this.#feed.open({})
    this.#readAddress()
  }

  stop() {
    clearTimeout(this.#reread)
    this.#feed.close()
  }

  /** @param {any} frame */
  #take(frame) {
    if (frame.type === 'gas.missed') {
      this.#frame.notify(`${frame.frames} frames were left out: what is shown is read again.`)
      this.#reread ??= setTimeout(() => {
        this.#reread = undefined
        this.#feed.refresh()
      }, REREAD_MS)
    } else if (frame.type === 'gas.error') this.#frame.notify(frame.detail ?? frame.code)
    else this.store.take(frame)
  }

  /** @param {import('./store.js').Step | null} step */
  #changed(step) {
    if (this.#paused) return
    this.#list.draw()
    this.#drawCounts()
    if (this.#tab === 'agent') this.#agentPage.draw()
    if (step === null) {
      if (this.store.actors.has(this.#key)) this.#drawSelected()
      return
    }
    this.#events.draw()
    this.#sequence.draw()
    if (step.key !== this.#key || this.#point !== null) return
    this.#drawSelected()
    this.#chart.flash(step.edges, step.refused)
  }

  #drawCounts() {
    const kinds = [...this.store.kinds.values()]
    const stored = kinds.reduce((sum, { actors }) => sum + (actors ?? 0), 0)
    const actors =
      this.#agent === null ? Math.max(stored, this.store.matched) : this.store.actors.size
    this.#frame.setCounts(Math.max(actors, this.store.actors.size), kinds.length)
    this.#frame.setKinds(
      kinds.map(({ kind }) => kind),
      this.#kind,
    )
  }

  /** @param {boolean} paused */
  #pause(paused) {
    this.#paused = paused
    if (paused) return
    this.#changed(null)
    this.#events.draw()
    this.#sequence.draw()
  }

  /** @param {string} kind */
  #chooseKind(kind) {
    this.#kind = this.#kind === kind ? null : kind
    this.#list.setKind(this.#kind)
    this.#drawCounts()
    if (this.#kind === null) return
    void this.#find({ kind, limit: ACTORS_A_KIND, agent: this.#agent })
    if (splitKey(this.#key).kind !== kind) this.select(`${kind}:`)
  }

  /** @param {string} query */
  #search(query) {
    if (query !== '')
      void this.#find({ q: query, kind: this.#kind, agent: this.#agent, limit: ACTORS_A_SEARCH })
  }

  /** @param {Parameters<typeof findActors>[0]} query */
  async #find(query) {
    await this.#guarded(async () => this.store.addStored((await findActors(query)).actors))
  }

  /** Opens the actor of an event, and the reason of a refusal. @param {import('./store.js').Step} step */
  #choose(step) {
    if (!this.store.actors.has(step.key)) this.follow(null) // of an agent that is not followed
    this.select(step.key)
    if (step.refused !== null) void this.#guarded(() => this.#chooseRefusal(step))
  }

  /** @param {import('./store.js').Step} step */
  async #chooseRefusal({ key, refused, why }) {
    const agent = this.#agentOf(key)
    const found =
      why?.split('/').at(-1) ?? (agent === null ? null : await findWhy(agent, key, refused ?? ''))
    if (key !== this.#key) return
    if (found === null) this.#frame.notify('This refusal is not explained.')
    else location.hash = `#why/${found}`
  }

  /** Selects an actor; a kind alone, as in `agent:`, shows its chart. @param {string} key */
  select(key) {
    const { kind, id } = splitKey(key)
    const address = `#${kind}/${encodeURIComponent(id)}`
    if (location.hash === address) this.#open(key)
    else location.hash = address
  }

  #readAddress() {
    const [kind = '', rest = ''] = location.hash.slice(1).split('/')
    if (kind === 'why') void this.#guarded(() => this.#openWhy(rest))
    else if (kind !== '') this.#open(`${kind}:${decoded(rest)}`)
    else this.#showSelected()
  }

  /** @param {string} key */
  #open(key) {
    this.#why.hide()
    this.#chart.clear()
    if (key !== this.#key || this.#tab !== 'history') this.#point = null
    this.#key = key
    this.#list.select(key)
    if (this.#tab === 'agent' || this.#tab === 'sequence') this.setTab('chart')
    this.#showSelected()
    void this.#guarded(() => this.#readSelected(key))
  }

  /** Reads what the feed has not told: the actor itself, its context, its history. @param {string} key */
  async #readSelected(key) {
    const { kind, id } = splitKey(key)
    if (id === '') return
    if (!this.store.actors.has(key))
      this.store.addStored((await findActors({ kind, q: id, limit: 5 })).actors)
    if (this.store.actors.get(key)?.context === null) {
      const [entry] = (await readHistory(kind, id, { limit: 1 })).entries
      if (entry !== undefined) this.store.setContext(key, entry)
    }
    if (this.#tab === 'history' && this.#key === key) await this.#history.open(kind, id)
  }

  /** @param {import('./frame.js').Tab} tab */
  setTab(tab) {
    this.#tab = tab
    this.#frame.setTab(tab)
    this.#history.element.hidden = tab !== 'history'
    this.#sequence.element.hidden = tab !== 'sequence'
    this.#agentPage.element.hidden = tab !== 'agent'
    if (tab !== 'history') this.#point = null
    else void this.#guarded(() => this.#readSelected(this.#key))
    if (tab === 'agent' && this.#agent === null) this.follow(this.#agentOf(this.#key))
    this.#sequence.draw()
    this.#agentPage.draw()
    this.#showSelected()
  }

  /** Shows one agent and all that belongs to it; null shows all actors. @param {string | null} agent */
  follow(agent) {
    if (agent === this.#agent) return
    this.#agent = agent
    const name = this.store.actors.get(`agent:${agent}`)?.name
    this.#list.setFollowed(agent === null ? null : (name ?? agent))
    this.store.forgetActors()
    this.#feed.setFilter(agent === null ? {} : { agent })
    void this.#find(agent === null ? { limit: ACTORS_A_KIND } : { agent, limit: ACTORS_A_KIND })
    this.#agentPage.draw()
    this.#showSelected()
  }

  /** The agent that an actor belongs to. @param {string} key */
  #agentOf(key) {
    const { kind, id } = splitKey(key)
    if (kind === 'agent') return id === '' ? null : id
    const actor = this.store.actors.get(key)
    if (actor?.parent?.startsWith('agent:')) return splitKey(actor.parent).id
    const agent = OWNER_FIELDS.map((name) => actor?.context?.[name]).find(
      (id) => typeof id === 'string',
    )
    return typeof agent === 'string' ? agent : null
  }

  #showSelected() {
    const { kind, id } = splitKey(this.#key)
    const actor = this.store.actors.get(this.#key)
    const value = this.#point === null ? actor?.value : this.#point.value
    this.#drawTitle(kind, id, actor, value)
    if (this.#point === null) this.#drawContext(actor)
    const known = this.store.kinds.get(kind)
    const card = known !== undefined && !known.chart
    this.#card.element.hidden = !card
    this.#chart.element.toggleAttribute('hidden', card)
    if (card) this.#card.show(kind, actor, this.#point?.context ?? actor?.context)
    else void this.#drawChart(kind, value)
  }

  /** @param {string} kind @param {unknown} value */
  async #drawChart(kind, value) {
    const key = this.#key
    const chart = kind === '' ? null : await this.#chartOf(kind)
    if (key !== this.#key) return
    this.#chart.show(chart)
    this.#chart.setState(value)
  }

  /** @param {string} kind */
  #chartOf(kind) {
    const known = this.#charts.get(kind)
    if (known !== undefined) return known
    const found = readChart(kind)
    this.#charts.set(kind, found)
    // The station may not have answered: the next look asks again.
    void found.then((chart) => chart === null && this.#charts.delete(kind))
    return found
  }

  /** @param {string} kind @param {string} id @param {import('./store.js').Actor | undefined} actor @param {unknown} value */
  #drawTitle(kind, id, actor, value) {
    const agent = this.#agentOf(this.#key)
    const follow = this.#agent !== null ? 'all actors' : agent === null ? null : 'follow agent'
    if (kind === '')
      return this.#frame.setTitle('Choose an actor', 'or a machine above, to see its chart', follow)
    const name = id === '' ? kind : actor === undefined || actor.name === '' ? id : actor.name
    const facts = [
      kind,
      id === '' ? null : id,
      this.#point === null ? lifeOf(actor) : this.#point.words,
      stateText(value),
    ]
    this.#frame.setTitle(
      name,
      facts.filter((fact) => fact !== null && fact !== undefined && fact !== '').join(' · '),
      follow,
    )
  }

  /** @param {import('./store.js').Actor | undefined} actor */
  #drawContext(actor) {
    this.#frame.setContext(
      'Context',
      actor === undefined || actor.context === null
        ? h('p', { class: 'empty' }, 'No actor is selected.')
        : jsonLines(actor.context),
    )
  }

  /**
   * @param {import('./history-view.js').Entry} entry
   * @param {{path: string, from?: unknown, to?: unknown}[]} diff
   * @param {import('./history-view.js').Entry | null} since
   */
  #showPoint(entry, diff, since) {
    if (this.#tab !== 'history') return
    this.#chart.clear()
    this.#point = { words: `at v${entry.version}`, value: entry.value, context: entry.context }
    this.#showSelected()
    this.#frame.setContext(
      `Context at v${entry.version}`,
      since === null ? null : h('h3', {}, `since v${since.version}`),
      since === null ? null : diffLines(diff),
      h('h3', {}, toDayTime(entry.at)),
      jsonLines(entry.context, new Set(diff.map(({ path }) => path))),
    )
  }

  /** Shows a refusal on the chart of its actor, as it was then. @param {string} id */
  async #openWhy(id) {
    const why = await readWhy(id)
    const { kind, id: actorId } = why.actor
    this.#key = `${kind}:${actorId}`
    this.#list.select(this.#key)
    this.setTab('chart')
    this.#point = { words: 'refused', value: why.value, context: why.context ?? {} }
    this.#showSelected()
    await this.#drawChart(kind, why.value)
    this.#chart.clear()
    const passed = /** @type {{id: string}[]} */ (why.passed_over ?? [])
    this.#chart.keep([why.transition?.id ?? ''], 'refused')
    this.#chart.keep(
      passed.map((transition) => transition.id),
      'passed',
    )
    this.#why.show(why)
    this.#frame.setContext(
      'Context when it was refused',
      jsonLines(why.context),
      h('h3', {}, 'Event'),
      jsonLines(why.event),
    )
  }

  /** Runs a task; a refused request is told in words. @param {() => Promise<void>} task */
  async #guarded(task) {
    try {
      await task()
    } catch (error) {
      if (!(error instanceof RefusedError)) throw error
      this.#frame.notify(error.status === 404 ? 'There is no such record.' : error.message)
    }
  }
}
