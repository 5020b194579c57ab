import { briefState } from './states.js'

/** What the page knows: actors, the last events, and the commits they belong to. */

/**
 * @typedef {object} Actor
 * @property {string} key `<kind>:<id>`
 * @property {string} kind
 * @property {string} id
 * @property {string} name
 * @property {string | null} parent
 * @property {string | null} aggregate
 * @property {string} brief
 * @property {unknown} value
 * @property {Record<string, unknown> | null} context Null until it is read.
 * @property {string} status
 * @property {number} version
 * @property {boolean} ended Its state has the tag `ended`.
 * @property {boolean} archived At rest: ended, with nothing open.
 * @property {number} touched When an event last reached it, by `performance.now()`; 0 for never.
 */

/**
 * @typedef {object} Step
 * @property {number} number
 * @property {string} key
 * @property {string} kind
 * @property {string | null} source
 * @property {Record<string, unknown> & {type: string}} event
 * @property {string | null} refused
 * @property {string | null} why
 * @property {string[]} edges
 * @property {unknown} value
 * @property {boolean} ended
 * @property {string} command
 * @property {string} commandId
 * @property {string | null} callId
 * @property {string | null} cause
 * @property {string | null} aggregate
 * @property {number} version
 * @property {string} at
 */

/** @typedef {{kind: string, chart: boolean, actors: number | null}} Kind */

const KEPT_STEPS = 400
const KEPT_ACTORS = 2_000

export class Store {
  /** @type {Map<string, Actor>} */
  actors = new Map()
  /** Newest first. @type {Step[]} */
  steps = []
  /** @type {Map<string, Kind>} */
  kinds = new Map()
  /** Actors that the station stores and the filter matches. */
  matched = 0
  #numbers = 0
  /** @type {Map<string, string>} */
  #sources = new Map()
  /** @type {Set<(step: Step | null) => void>} */
  #listeners = new Set()

  /** Calls back after each change, with the step if there is one. @param {(step: Step | null) => void} listener */
  listen(listener) {
    this.#listeners.add(listener)
  }

  /** @param {Step | null} step */
  #tell(step = null) {
    for (const listener of this.#listeners) listener(step)
  }

  /** @param {Kind[]} kinds */
  setKinds(kinds) {
    this.kinds = new Map(kinds.map((kind) => [kind.kind, kind]))
    this.#tell()
  }

  /** Forgets the actors of the filter before. */
  forgetActors() {
    this.actors.clear()
    this.#tell()
  }

  /** Takes a frame of the feed. @param {any} frame */
  take(frame) {
    if (frame.type === '@xstate.actor') this.#addActor(frame)
    else if (frame.type === '@xstate.event') this.#noteSource(frame)
    else if (frame.type === '@xstate.snapshot') this.#addStep(frame)
    else if (frame.type === 'gas.joined') this.matched = frame.matched ?? 0
    else return
    if (frame.type !== '@xstate.snapshot') this.#tell()
  }

  /** @param {any} frame */
  #addActor({ sessionId, name, parentId, rootId, snapshot, gas }) {
    const known = this.actors.get(sessionId)
    if (known !== undefined && known.version > gas.version) {
      known.name = name ?? known.name
      return
    }
    this.#put({
      ...splitKey(sessionId),
      name: name ?? '',
      parent: parentId ?? null,
      aggregate: gas.aggregate_id ?? rootId ?? null,
      value: snapshot?.value,
      brief: briefState(snapshot?.value),
      context: snapshot?.context ?? null,
      status: snapshot?.status ?? 'active',
      version: gas.version ?? 0,
      ended: gas.ended === true,
      archived: gas.archived === true,
      touched: known?.touched ?? 0,
    })
  }

  /** Takes rows of the search over stored actors. @param {any[]} rows */
  addStored(rows) {
    for (const row of rows) {
      const key = `${row.kind}:${row.id}`
      if (this.actors.has(key)) continue
      this.#put({
        ...splitKey(key),
        name: row.name ?? '',
        parent: row.parent_id ?? null,
        aggregate: row.aggregate_id ?? null,
        value: row.value,
        brief: row.state ?? briefState(row.value),
        context: null,
        status: 'active',
        version: row.version ?? 0,
        ended: row.ended === true,
        archived: row.archived === true,
        touched: 0,
      })
    }
    this.#tell()
  }

  /** Takes the newest entry of an actor's history. @param {string} key @param {any} entry */
  setContext(key, entry) {
    const actor = this.actors.get(key)
    if (actor === undefined || actor.version > entry.version) return
    actor.context = entry.context
    actor.value = entry.value
    actor.brief = briefState(entry.value)
    this.#tell()
  }

  /** @param {Actor} actor */
  #put(actor) {
    this.actors.set(actor.key, actor)
    if (this.actors.size <= KEPT_ACTORS) return
    const [oldest] = this.actors.keys()
    if (oldest !== undefined) this.actors.delete(oldest)
  }

  /** @param {any} frame */
  #noteSource({ sessionId, sourceId }) {
    if (typeof sourceId === 'string') this.#sources.set(sessionId, sourceId)
    else this.#sources.delete(sessionId)
  }

  /** @param {string} sessionId */
  #takeSource(sessionId) {
    const source = this.#sources.get(sessionId) ?? null
    this.#sources.delete(sessionId)
    return source
  }

  /** @param {any} frame */
  #addStep({ sessionId, event, snapshot, gas }) {
    this.#numbers += 1
    /** @type {Step} */
    const step = {
      number: this.#numbers,
      key: sessionId,
      kind: splitKey(sessionId).kind,
      source: this.#takeSource(sessionId),
      event: event ?? { type: '?' },
      refused: gas.refused ?? null,
      why: gas.why_url ?? null,
      edges: gas.edges ?? [],
      value: snapshot?.value,
      ended: gas.ended === true,
      command: gas.command ?? '',
      commandId: gas.command_id ?? '',
      callId: gas.call_id ?? null,
      cause: gas.cause ?? null,
      aggregate: gas.aggregate_id ?? null,
      version: gas.version ?? 0,
      at: gas.at,
    }
    this.steps.unshift(step)
    if (this.steps.length > KEPT_STEPS) this.steps.length = KEPT_STEPS
    this.#applyStep(step, snapshot)
    this.#tell(step)
  }

  /** @param {Step} step @param {any} snapshot */
  #applyStep(step, snapshot) {
    const actor = this.actors.get(step.key)
    if (actor === undefined) return
    actor.touched = performance.now()
    if (snapshot === undefined) return
    actor.value = snapshot.value
    actor.context = snapshot.context ?? actor.context
    actor.status = snapshot.status ?? actor.status
    actor.brief = briefState(snapshot.value)
    actor.version = Math.max(actor.version, step.version)
    actor.ended = step.ended
    actor.archived &&= step.ended
  }

  /** Events a second over the last five. @param {number} now Milliseconds since 1970. */
  rate(now) {
    const recent = this.steps.findIndex(({ at }) => now - Date.parse(at) > 5_000)
    return (recent < 0 ? this.steps.length : recent) / 5
  }
}

/** @param {string} key */
export function splitKey(key) {
  const at = key.indexOf(':')
  return { key, kind: key.slice(0, at), id: key.slice(at + 1) }
}

/** A part of the address; one that is malformed names no actor. @param {string} text */
export function decoded(text) {
  try {
    return decodeURIComponent(text)
  } catch {
    return ''
  }
}
