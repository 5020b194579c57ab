import { splitKey } from './store.js'
import { findActors, readEntries, readHistory } from './station.js'

/** Builds sequences: the commits of one call, one payment or one bounty, with their messages. */

/**
 * @typedef {object} Message
 * @property {string} from A lane: an actor's key, or a word such as `caller`.
 * @property {string} to
 * @property {string} text
 * @property {string | null} refused
 *
 * @typedef {object} Commit
 * @property {string} id
 * @property {string} command
 * @property {string} at
 * @property {number} version
 * @property {Message[]} messages
 *
 * @typedef {import('./store.js').Step} Step
 */

const MAX_ENTRIES = 200
/** The command of a delayed event. */
const TIMER_COMMAND = 'actor.event'

/** The commits of steps that were seen live, oldest first. @param {Step[]} steps @returns {Commit[]} */
export function commitsOfSteps(steps) {
  /** @type {Map<string, Commit>} */
  const commits = new Map()
  for (const step of steps.toReversed()) {
    /** @type {Commit} */
    const commit = commits.get(step.commandId) ?? {
      id: step.commandId,
      command: step.command,
      at: step.at,
      version: step.version,
      messages: [],
    }
    commit.messages.push({
      from: step.source ?? senderOf(step),
      to: step.key,
      text: step.event.type,
      refused: step.refused,
    })
    commits.set(step.commandId, commit)
  }
  return [...commits.values()]
}

/** @param {Step} step */
const senderOf = ({ cause, command }) =>
  command === TIMER_COMMAND ? 'timer' : cause === 'request' ? 'caller' : 'station'

/** The live steps that concern a call, a payment or a bounty. @param {Step[]} steps @param {string} id */
export function stepsAbout(steps, id) {
  const commands = new Set(
    steps.filter((step) => concerns(step, id)).map(({ commandId }) => commandId),
  )
  return steps.filter(({ commandId }) => commands.has(commandId))
}

/** @param {Step} step @param {string} id */
const concerns = ({ callId, key, event }, id) =>
  callId === id || splitKey(key).id === id || JSON.stringify(event).includes(id)

/** @param {unknown} value */
const toText = (value) => (typeof value === 'string' ? value : '')

/** Recent subjects among live steps: calls, payments and bounties, newest first. @param {Step[]} steps */
export function recentSubjects(steps) {
  /** @type {Map<string, string>} */
  const subjects = new Map()
  for (const { kind, key, callId, event } of steps) {
    const { id } = splitKey(key)
    if (kind === 'bounty') subjects.set(id, `bounty ${id}`)
    else if (kind === 'settlement') subjects.set(id, `payment ${id}`)
    else if (callId !== null) subjects.set(callId, `call ${callId} ${toText(event['tool'])}`.trim())
  }
  return [...subjects].map(([id, text]) => ({ id, text }))
}

/**
 * The commits about a payment or a bounty, or those of a call of this agent, from the journal. The journal
 * keeps commands, not machine events: each line is the actor that a commit changed.
 * @param {string} id @param {string | null} agent @returns {Promise<Commit[]>}
 */
export async function commitsOfJournal(id, agent) {
  const found = await findActors({ q: id, limit: 20 })
  /** @type {Set<string>} */
  const keys = new Set(found.actors.map((/** @type {any} */ row) => `${row.kind}:${row.id}`))
  const words = new Set([id])
  for (const key of [...keys]) for (const other of await relatedTo(key, words)) keys.add(other)
  if (agent !== null) for (const key of await actorsOf(agent)) keys.add(key)
  /** @type {Said[]} */
  const said = []
  for (const key of keys) {
    const { kind, id: actorId } = splitKey(key)
    const { entries } = await readEntries(kind, actorId, MAX_ENTRIES)
    for (const entry of entries) said.push({ key, entry, isSubject: words.has(actorId) })
  }
  return commitsOfEntries(said, words)
}

/** @typedef {{key: string, entry: any, isSubject: boolean}} Said An entry of the history of an actor. */

/**
 * What an agent creates, such as a bounty, begins in its commit: the journal has a row for each of both, at
 * the same time. @param {Said[]} said @param {Set<string>} words
 */
function commitsOfEntries(said, words) {
  const births = new Set(
    said
      .filter(({ entry, isSubject }) => isSubject && entry.version === 1)
      .map(({ entry }) => entry.at),
  )
  /** @param {Said} one */
  const isCreator = ({ entry, isSubject }) => !isSubject && births.has(entry.at)
  const creators = new Map(said.filter(isCreator).map(({ entry }) => [entry.at, entry.command_id]))
  /** @type {Map<string, Commit>} */
  const commits = new Map()
  for (const one of [...said.filter(isCreator), ...said.filter((each) => !isCreator(each))]) {
    const { key, entry, isSubject } = one
    const id = entry.version === 1 ? creators.get(entry.at) : undefined
    if (isSubject || isCreator(one) || mentions(entry, words))
      addEntry(commits, key, entry, id ?? entry.command_id)
  }
  return [...commits.values()].toSorted((one, other) => (one.at < other.at ? -1 : 1))
}

/** @param {string} agent */
async function actorsOf(agent) {
  const { actors } = await findActors({ agent, limit: 100 })
  return actors.map((/** @type {any} */ row) => `${row.kind}:${row.id}`)
}

/** The agents of a payment or a bounty; its call joins the words. @param {string} key @param {Set<string>} words */
async function relatedTo(key, words) {
  const { kind, id } = splitKey(key)
  const { entries } = await readHistory(kind, id, { limit: 1 })
  const context = entries[0]?.context ?? {}
  if (kind === 'settlement' && typeof context.callId === 'string') words.add(context.callId)
  return ['posterId', 'claimerId', 'sellerId', 'builderId', 'agentId']
    .map((name) => context[name])
    .filter((agent) => typeof agent === 'string')
    .map((agent) => `agent:${agent}`)
}

/** @param {any} entry @param {Set<string>} words */
function mentions({ input, diff }, words) {
  const text = JSON.stringify([input, diff])
  return [...words].some((word) => text.includes(word))
}

/** @param {Map<string, Commit>} commits @param {string} key @param {any} entry @param {string} id */
function addEntry(commits, key, entry, id) {
  /** @type {Commit} */
  const commit = commits.get(id) ?? {
    id,
    command: entry.command,
    at: entry.at,
    version: entry.version,
    messages: [],
  }
  const changed = (entry.diff ?? []).map((/** @type {any} */ one) => one.path.slice(1)).slice(0, 3)
  commit.messages.push({
    from: commit.messages.at(-1)?.to ?? (entry.command === TIMER_COMMAND ? 'timer' : 'station'),
    to: key,
    text: changed.length === 0 ? entry.state : changed.join(', '),
    refused: null,
  })
  commits.set(id, commit)
}

/** Live commits, and those that only the journal has, oldest first. @param {Commit[]} live @param {Commit[]} stored */
export function mergeCommits(live, stored) {
  const seen = new Set(live.map(({ id }) => id))
  return [...stored.filter(({ id }) => !seen.has(id)), ...live].toSorted((one, other) =>
    one.at < other.at ? -1 : 1,
  )
}
