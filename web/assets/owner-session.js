/** Requests of the owner's page: its session is a cookie that scripts cannot read. */

import { randomName } from './dom.js'

/** A refused request, with its problem. */
export class RefusedError extends Error {
  /** @param {number} status @param {Record<string, any>} problem */
  constructor(status, problem) {
    super(inPlainWords(problem) ?? `HTTP ${status}`)
    this.status = status
    this.problem = problem
  }

  /** Whether something was changed. */
  get outcome() {
    return this.status === 0 || this.status >= 500 ? '' : 'Nothing was changed. '
  }
}

/**
 * What a problem says to a person: fields by their names, without the pointers of an API.
 *
 * @param {Record<string, any>} problem
 * @returns {string | null}
 */
function inPlainWords({ errors, detail, title }) {
  if (!Array.isArray(errors) || errors.length === 0) return detail ?? title ?? null
  return errors
    .map(({ pointer, detail: fault }) => {
      const name = String(pointer ?? '')
        .split('/')
        .at(-1)
        ?.replace(/_usdc$/, '')
        .replaceAll('_', ' ')
      return `${name === '' ? 'What was sent' : `“${name}”`} ${fault}.`
    })
    .join(' ')
}

/** An answer about an agent that is no longer shown. */
export class OutdatedError extends Error {}

/** @type {string | null} */
let csrfToken = null
/** @type {string | null} */
let agentId = null

/**
 * The idempotency keys of writes that were not answered, by what they ask for: whoever presses again repeats the
 * same one, which is done once.
 *
 * @type {Map<string, string>}
 */
const unanswered = new Map()

/** The agent that requests are about. @param {string} id */
export function chooseAgent(id) {
  agentId = id
}

/**
 * @param {string} method
 * @param {string} path
 * @param {unknown} [body]
 * @param {boolean} [isForAnyPage] the answer is wanted although the page shows another agent by then
 * @returns {Promise<any>}
 */
export async function ask(method, path, body, isForAnyPage = false) {
  /** @type {Record<string, string>} */
  const headers = { accept: 'application/json' }
  if (csrfToken !== null) headers['x-csrf-token'] = csrfToken
  if (agentId !== null && path.startsWith('/api/')) headers['x-owner-agent'] = agentId
  if (body !== undefined) headers['content-type'] = 'application/json'
  const about = agentId
  const isWrite = method !== 'GET' && path.startsWith('/api/')
  const deed = JSON.stringify([about, method, path, body])
  const name = unanswered.get(deed) ?? randomName(32)
  if (isWrite) {
    headers['idempotency-key'] = name
    unanswered.set(deed, name)
  }
  let reply
  try {
    reply = await fetch(path, {
      method,
      headers,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
  } catch {
    throw new RefusedError(0, {
      title: isWrite
        ? 'The station did not answer, so this may have been done or not. Press again: it is done once.'
        : 'The station did not answer. Try again.',
    })
  }
  const answer = await reply.json().catch(() => ({}))
  if (reply.status < 500) unanswered.delete(deed)
  // It came after another agent was chosen: nobody may take it for that agent's.
  if (path.startsWith('/api/') && agentId !== about && !isForAnyPage) throw new OutdatedError()
  if (!reply.ok) throw new RefusedError(reply.status, answer)
  return answer
}

/** The session of this browser. */
export async function readSession() {
  const session = await ask('GET', '/owner/session')
  csrfToken = session.csrf_token
  return session
}

/** @param {{ api_key: string } | { link: string }} proof */
export const signIn = (proof) => ask('POST', '/owner/session', proof)
export const signOut = () => ask('DELETE', '/owner/session')
/** @param {string} email */
export const requestLink = (email) => ask('POST', '/owner/links', { email })
