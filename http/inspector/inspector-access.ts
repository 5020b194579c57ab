import { randomBytes } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import { addressBounds, type CallerAddress } from '../../core/address-bounds.ts'
import { HOUR, MINUTE, SECOND, type Clock } from '../../core/clock.ts'
import { ServiceError } from '../../core/errors.ts'
import { hmacSha256, timingSafeTextEqual } from '../../core/key-derivation-and-encryption.ts'
import { rateLimitError } from '../../core/rate-limit-error.ts'
import type { InspectorCodeStore } from '../../persistence/inspector/inspector-one-time-code-store.ts'
import { parseBearerToken } from '../auth/request-api-key-extraction.ts'

/**
 * Who may use the inspector: the operator, by the token or by a one-time code. Unlike other routes of the
 * operator, a connection from this machine is not enough. Browsers get a session as a cookie.
 */

export interface InspectorSession {
  readonly expiresAt: number
  /** The value of `Set-Cookie`. */
  readonly cookie: string
}

export interface InspectorAccessDeps {
  readonly clock: Clock
  readonly codes: Pick<InspectorCodeStore, 'redeem'>
  readonly operatorToken: { reveal(): string } | null
  /** Signs sessions; the same on all nodes. */
  readonly key: Buffer
  readonly publicUrl: string
}

const COOKIE = 'gas_inspector'
const SESSION_MS = 12 * HOUR
/** Wrong codes and tokens of an address: those of a stranger must not keep the operator out. */
const WRONG_ATTEMPTS = {
  name: 'inspector',
  subject: 'wrong codes and tokens of the inspector',
  max: 10,
  per: 'address',
  windowSeconds: MINUTE / SECOND,
} as const

export function createInspectorAccess(parts: InspectorAccessDeps) {
  const { clock, codes, operatorToken } = parts
  const secure = parts.publicUrl.startsWith('https:') ? '; Secure' : ''
  const wrong = createAttempts(clock)

  /** Another token ends all sessions. */
  const signature = (expiresAt: string, nonce: string): string =>
    hmacSha256(
      parts.key,
      `inspector ${expiresAt} ${nonce} ${operatorToken?.reveal() ?? ''}`,
    ).toString('base64url')

  async function assertRight(
    caller: CallerAddress,
    isRight: () => Promise<boolean> | boolean,
  ): Promise<void> {
    const forgive = wrong.begin(caller)
    if (await isRight()) return forgive()
    throw new ServiceError('unauthenticated', {
      detail: 'The operator token or a new one-time code is required: `gas inspect` prints one.',
    })
  }

  const isToken = (text: string | null): boolean =>
    text !== null && operatorToken !== null && timingSafeTextEqual(text, operatorToken.reveal())

  /** When the session of a request ends; null without one. */
  function sessionEnd({ headers }: Pick<FastifyRequest, 'headers'>): number | null {
    const [expiresAt = '', nonce = '', sent = ''] = cookieOf(headers.cookie).split('.')
    if (sent === '' || !/^\d{1,15}$/.test(expiresAt)) return null
    if (!timingSafeTextEqual(sent, signature(expiresAt, nonce))) return null
    return Number(expiresAt) > clock.now() ? Number(expiresAt) : null
  }

  return {
    sessionEnd,
    /** Whether the operator sends the request: with the token, or in a session. */
    isOperator: (request: Pick<FastifyRequest, 'headers'>): boolean =>
      isToken(parseBearerToken(request.headers.authorization)) || sessionEnd(request) !== null,
    /** Begins a session. Throws 401 for a wrong code or token, 429 after many of the address. */
    async signIn(
      caller: CallerAddress,
      { code, token }: { code?: string; token?: string },
    ): Promise<InspectorSession> {
      await assertRight(caller, () =>
        token === undefined ? codes.redeem(code ?? '') : isToken(token),
      )
      const expiresAt = Math.floor(clock.now()) + SESSION_MS
      const nonce = randomBytes(12).toString('base64url')
      const value = `${expiresAt}.${nonce}.${signature(String(expiresAt), nonce)}`
      return { expiresAt, cookie: toCookie(value, SESSION_MS / SECOND) }
    },
    /** For tools that can send neither a header nor a cookie. Throws as `signIn` does. */
    async redeem(caller: CallerAddress, code: string): Promise<void> {
      await assertRight(caller, () => codes.redeem(code))
    },
    /** The value of `Set-Cookie` that ends a session. */
    noCookie: () => toCookie('', 0),
  }

  function toCookie(value: string, seconds: number): string {
    return `${COOKIE}=${value}; HttpOnly; SameSite=Strict; Path=/; Max-Age=${seconds}${secure}`
  }
}
export type InspectorAccess = ReturnType<typeof createInspectorAccess>

/** Addresses that are remembered; above this the one whose last attempt is oldest is forgotten. */
const MAX_ADDRESSES = 10_000

/** Counts attempts as wrong until they prove right: many may be under way at once. */
function createAttempts(clock: Pick<Clock, 'mono'>) {
  const byAddress = new Map<string, readonly { readonly at: number }[]>()
  const recent = (address: string) =>
    (byAddress.get(address) ?? []).filter(({ at }) => at > clock.mono() - MINUTE)
  return {
    /** Throws 429 after too many; returns a function for an attempt that was right. */
    begin(caller: CallerAddress): () => void {
      const counted = addressBounds(caller).filter((one) => one !== undefined)
      for (const { id, factor, per } of counted) {
        const max = WRONG_ATTEMPTS.max * factor
        const oldest = recent(id).at(-max)
        if (oldest === undefined) continue
        const seconds = Math.ceil((oldest.at + MINUTE - clock.mono()) / SECOND)
        throw rateLimitError({ ...WRONG_ATTEMPTS, per, max }, seconds)
      }
      const attempt = { at: clock.mono() }
      for (const { id } of counted) {
        const own = recent(id)
        byAddress.delete(id)
        byAddress.set(id, [...own, attempt])
        if (byAddress.size > MAX_ADDRESSES) byAddress.delete(byAddress.keys().next().value ?? '')
      }
      return () => {
        for (const { id } of counted)
          byAddress.set(
            id,
            recent(id).filter((one) => one !== attempt),
          )
      }
    },
  }
}

function cookieOf(header: string | undefined): string {
  for (const pair of (header ?? '').split(';')) {
    const [name = '', value = ''] = pair.trim().split('=', 2)
    if (name === COOKIE) return value
  }
  return ''
}
