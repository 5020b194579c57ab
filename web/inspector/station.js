/** Requests to the station. The session is a cookie: the page keeps no token. */

/** A refused request. */
export class RefusedError extends Error {
  /** @param {number} status @param {any} problem */
  constructor(status, problem) {
    super(problem?.detail ?? problem?.title ?? `HTTP ${status}`)
    this.status = status
    this.code = problem?.code ?? null
  }
}

/** @param {string} method @param {string} path @param {object} [body] @returns {Promise<any>} */
async function ask(method, path, body) {
  const response = await fetch(path, {
    method,
    headers: {
      accept: 'application/json',
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  const answer = await response.json().catch(() => null)
  if (!response.ok) throw new RefusedError(response.status, answer)
  return answer
}

/** @param {Readonly<Record<string, string | number | null | undefined>>} query */
function search(query) {
  const params = new URLSearchParams()
  for (const [name, value] of Object.entries(query))
    if (value !== null && value !== undefined && value !== '') params.set(name, String(value))
  const text = params.toString()
  return text === '' ? '' : `?${text}`
}

export const readSession = () => ask('GET', '/inspector/session')
/** @param {{code: string} | {token: string}} proof */
export const signIn = (proof) => ask('POST', '/inspector/session', proof)
export const signOut = () => ask('DELETE', '/inspector/session')

/** @param {{kind?: string | null, q?: string, agent?: string | null, limit?: number, cursor?: string | null}} query */
export const findActors = (query) => ask('GET', `/api/actors${search(query)}`)

/** @param {string} kind @param {string} id */
const historyPath = (kind, id) => `/api/actors/${kind}/${encodeURIComponent(id)}/history`

/** @param {string} kind @param {string} id @param {{limit?: number, cursor?: string | null, at?: string}} [query] */
export const readHistory = (kind, id, query = {}) =>
  ask('GET', `${historyPath(kind, id)}${search(query)}`)

/**
 * Up to this many entries of an actor's history, newest first; `next` continues them.
 * @param {string} kind @param {string} id @param {number} max @param {string | null} [from]
 * @returns {Promise<{entries: any[], next: string | null}>}
 */
export async function readEntries(kind, id, max, from = null) {
  /** @type {any[]} */
  const entries = []
  let cursor = from
  do {
    const page = await readHistory(kind, id, { limit: 100, cursor })
    entries.push(...page.entries)
    cursor = page.has_more ? page.next_cursor : null
  } while (cursor !== null && entries.length < max)
  return { entries, next: cursor }
}

/** @param {string} id */
export const readWhy = (id) => ask('GET', `/api/why/${encodeURIComponent(id)}`)

const WHY_WRITE_MS = 1_200

/**
 * The id of the explanation of an agent's last refusal by this actor with this code; null when there is none. Refusals
 * are written once a second, so a fresh one is looked for twice.
 * @param {string} agent @param {string} key @param {string} code @returns {Promise<string | null>}
 */
export async function findWhy(agent, key, code) {
  for (const wait of [0, WHY_WRITE_MS]) {
    await new Promise((resolve) => setTimeout(resolve, wait))
    const { refusals } = await ask('GET', `/api/why${search({ agent, limit: 100 })}`)
    const found = refusals.find(
      (/** @type {any} */ one) => one.code === code && `${one.actor.kind}:${one.actor.id}` === key,
    )
    if (found !== undefined) return found.id
  }
  return null
}

/** The chart of a machine; null for one without states. @param {string} kind @returns {Promise<any>} */
export const readChart = (kind) =>
  ask('GET', `/inspector/assets/charts/${kind}.json`).catch(() => null)
