import { randomBytes } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import type { CallerAddress } from '../../core/address-bounds.ts'
import { DAY, HOUR, SECOND, type Clock } from '../../core/clock.ts'
import { createNodeRateLimiter } from '../../core/concurrency/node-rate-limiter.ts'
import { ServiceError } from '../../core/errors.ts'
import {
  hmacSha256,
  sha256Hex,
  timingSafeTextEqual,
} from '../../core/key-derivation-and-encryption.ts'
import { LIMITS } from '../../core/limits.ts'
import { rateLimitError } from '../../core/rate-limit-error.ts'
import type { NotificationChannel } from '../../domain/notification-channel-types.ts'
import type { ApiKeyRecord, ApiKeyStore } from '../../persistence/agents/api-key-store.ts'
import type {
  OwnerSessionAgentAndKey,
  OwnerSessionRecord,
  OwnerSessionStore,
} from '../../persistence/agents/owner-session-store.ts'
import { canManageKeys } from './api-key-permissions.ts'
import { assertSameOrigin } from './same-origin-check.ts'

/**
 * Sessions of owners. The cookie is random and only its hash is stored; a request with it acts as the key that
 * opened the session, on the few routes that allow it (`ownerSession`), from pages of this station alone.
 */

export interface OwnerSessionAccessDeps {
  readonly keys: Pick<ApiKeyStore, 'findForSession'>
  readonly sessions: OwnerSessionStore
  /** Null on a station without mail. */
  readonly mail: Pick<NotificationChannel, 'send'> | null
  readonly publicUrl: string
  readonly clock: Pick<Clock, 'mono'>
}

type SessionRequest = Pick<FastifyRequest, 'headers' | 'method'>

const SESSION_SECONDS = (12 * HOUR) / SECOND
/** As long as the window of its limit: whoever uses up the links of an address has sent it links that work. */
const LINK_SECONDS = HOUR / SECOND
/** The first is a session's agent, the second its token: a page of another site can send neither. */
const AGENT_HEADER = 'x-owner-agent'
const TOKEN_HEADER = 'x-csrf-token'
const LINK_RATE = {
  name: 'owner_links',
  subject: 'links by e-mail',
  max: LIMITS.ownerLinksPerHour,
  per: 'address',
  windowSeconds: HOUR / SECOND,
} as const
const CONFIRMATION_RATE = {
  name: 'owner_confirmations',
  subject: 'links that confirm an address',
  max: LIMITS.confirmationLinksPerDay,
  per: 'agent',
  windowSeconds: DAY / SECOND,
} as const

export function createOwnerSessionAccess({
  keys,
  sessions,
  mail,
  publicUrl,
  clock,
}: OwnerSessionAccessDeps) {
  // Agents are free, so those of one network together use up no more than its part of an address (decision 491).
  const naming = createNodeRateLimiter(clock, { ...LINK_RATE, per: 'network' })
  const isSecure = publicUrl.startsWith('https:')
  // The prefix makes browsers refuse one that another host of the domain has set.
  const cookieName = isSecure ? '__Host-gas_owner' : 'gas_owner'

  function tokenOf({ headers }: Pick<FastifyRequest, 'headers'>): string | null {
    for (const pair of (headers.cookie ?? '').split(';')) {
      const [name = '', value = ''] = pair.trim().split('=', 2)
      if (name === cookieName && value !== '') return value
    }
    return null
  }

  const toCookie = (value: string, seconds: number): string =>
    `${cookieName}=${value}; HttpOnly; SameSite=Strict; Path=/; Max-Age=${seconds}${isSecure ? '; Secure' : ''}`

  /** Derived from the cookie, which scripts cannot read. */
  const csrfTokenOf = (token: string): string =>
    hmacSha256(Buffer.from(token), 'csrf').toString('base64url')

  /** Throws unless a page of this station sends the request. */
  function assertOwnPage(request: SessionRequest, token: string): void {
    assertSameOrigin(request, publicUrl, { required: request.method !== 'GET' })
    const { 'sec-fetch-site': site, [TOKEN_HEADER]: sent } = request.headers
    if (site !== undefined && site !== 'same-origin') throw new ServiceError('origin_not_allowed')
    if (!timingSafeTextEqual(String(sent ?? ''), csrfTokenOf(token)))
      throw new ServiceError('csrf_token_invalid')
  }

  async function assertOpen(token: string | null): Promise<OwnerSessionRecord | null> {
    return token === null ? null : sessions.find(sha256Hex(token))
  }

  /** The session of a request, and its token for the headers of others. */
  async function read(request: SessionRequest) {
    const token = tokenOf(request)
    const session = await assertOpen(token)
    return token === null || session === null ? null : { ...session, csrfToken: csrfTokenOf(token) }
  }

  /**
   * Opens a session with what was proved. Every sign-in makes a new cookie and ends the old one, which somebody
   * else may have set: its agents stay only where the page that shows them adds another (decision 301).
   */
  async function open(
    request: SessionRequest,
    members: readonly OwnerSessionAgentAndKey[],
    keepsAgents: boolean,
  ) {
    const known = tokenOf(request)
    const token = randomBytes(32).toString('base64url')
    const former = known === null ? null : sha256Hex(known)
    const opened = { hash: sha256Hex(token), former, keepsAgents, members }
    await sessions.open({ ...opened, seconds: SESSION_SECONDS })
    return toCookie(token, SESSION_SECONDS)
  }

  /** Whether the page of the browser's session adds an agent to it: only that page knows its token. */
  function addsAgent(request: SessionRequest): boolean {
    const known = tokenOf(request)
    if (known === null || request.headers[TOKEN_HEADER] === undefined) return false
    assertOwnPage(request, known)
    return true
  }

  /** Sends a link; `beforeMail` runs when the limit of the address allows it. */
  async function sendLink(
    email: string,
    confirms: OwnerSessionAgentAndKey | null,
    beforeMail: () => Promise<void> = async () => undefined,
  ): Promise<void> {
    if (mail === null) throw new ServiceError('mail_unavailable')
    const code = randomBytes(24).toString('base64url')
    const link = { hash: sha256Hex(code), email, confirms, seconds: LINK_SECONDS }
    const most = {
      mostPerHour: LINK_RATE.max,
      mostConfirmingPerHour: LIMITS.confirmationLinksPerHour,
      mostPerAgentAndDay: CONFIRMATION_RATE.max,
    }
    const added = await sessions.addLink({ ...link, ...most })
    if (added === 'address_limit') throw rateLimitError(LINK_RATE, LINK_RATE.windowSeconds)
    if (added === 'agent_limit')
      throw rateLimitError(CONFIRMATION_RATE, CONFIRMATION_RATE.windowSeconds)
    await beforeMail()
    const deed = confirms === null ? 'signs you in' : 'confirms this address and signs you in'
    // The fragment reaches neither a server nor its logs.
    const text = [
      `This link ${deed}. It opens once, within ${LINK_SECONDS / 60} minutes:`,
      `${publicUrl}/owner#link=${code}`,
      'If you did not ask for it, do nothing: nothing happens.',
      ...(confirms === null
        ? []
        : ['A confirmed address gets a digest of the agent each week, with a link that ends it.']),
    ].join('\n\n')
    const subject = confirms === null ? 'Sign in to your agents' : 'Confirm your address'
    const { outcome } = await mail.send({ id: sha256Hex(link.hash), to: email, subject, text })
    if (outcome !== 'sent') throw new ServiceError('owner_unreachable', { reason: outcome })
  }

  return {
    canMail: mail !== null,
    read,

    /** Whether the request speaks for an agent of a session. */
    isSession: (request: SessionRequest): boolean =>
      request.headers[AGENT_HEADER] !== undefined && tokenOf(request) !== null,

    /** The key that the request acts as; null when the session has ended. Throws for pages of others. */
    async keyOf(request: SessionRequest): Promise<ApiKeyRecord | null> {
      const token = tokenOf(request)
      if (token === null) return null
      assertOwnPage(request, token)
      return keys.findForSession(sha256Hex(token), String(request.headers[AGENT_HEADER]))
    },

    /**
     * Signs in with a key, or adds its agent to the session whose token the request has; returns `Set-Cookie`.
     * Only a key that manages keys is an owner's.
     */
    async signInWithKey(request: SessionRequest, key: ApiKeyRecord | null): Promise<string> {
      assertSameOrigin(request, publicUrl, { required: true })
      if (key === null)
        throw new ServiceError('unauthenticated', { detail: 'This is no working API key.' })
      if (!canManageKeys(key))
        throw new ServiceError('insufficient_scope', {
          detail:
            'This page takes the key of the owner: one with scope `keys` or `*`, without a Backpack and without a cap.',
        })
      return open(request, [{ agentId: key.agentId, keyId: key.id }], addsAgent(request))
    },

    /** Signs in with a link, which may confirm its address first. */
    async signInWithLink(request: SessionRequest, code: string): Promise<string> {
      assertSameOrigin(request, publicUrl, { required: true })
      const link = await sessions.useLink(sha256Hex(code))
      const confirms = link?.confirms ?? null
      if (link !== null && confirms !== null) await sessions.confirmContact(confirms, link.email)
      const agentId = confirms?.agentId ?? null
      const members = link === null ? [] : await sessions.membersOf(link.email, agentId)
      if (members.length === 0)
        throw new ServiceError('unauthenticated', {
          detail: 'This link was used, or is too old. Ask for a new one.',
        })
      return open(request, members, false)
    },

    /** Ends the session; returns `Set-Cookie`. */
    async signOut(request: SessionRequest): Promise<string> {
      const token = tokenOf(request)
      if (token !== null) {
        assertOwnPage(request, token)
        await sessions.end(sha256Hex(token))
      }
      return toCookie('', 0)
    },

    /** Sends a link that signs in, if the address is confirmed for an agent. The answer is the same if not. */
    async requestLink(request: SessionRequest, email: string): Promise<void> {
      assertSameOrigin(request, publicUrl, { required: true })
      if (mail === null) throw new ServiceError('mail_unavailable')
      const address = email.toLowerCase()
      if (!(await sessions.isConfirmed(address))) return
      // Its time and its failure would tell strangers that the address is known.
      void sendLink(address, null).catch(() => undefined)
    },

    /**
     * Sets the address of an agent and sends it a link that confirms it, unless it is confirmed; an address
     * without a link left changes nothing. Returns whether it is confirmed.
     */
    async setAddress(
      member: OwnerSessionAgentAndKey,
      caller: CallerAddress,
      email: string,
      change: () => Promise<void>,
    ): Promise<boolean> {
      const address = email.toLowerCase()
      const isConfirmed = await sessions.hasConfirmed(member.agentId, address)
      if (isConfirmed) {
        await change()
        return true
      }
      const asker = `${caller.siteId ?? caller.visitorId} ${address}`
      naming.assertWithinLimit(asker)
      naming.recordHit(asker)
      await sendLink(address, member, change)
      return false
    },
  }
}
export type OwnerSessionAccess = ReturnType<typeof createOwnerSessionAccess>
