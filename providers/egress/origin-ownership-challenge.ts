import { hmacSha256 } from '../../core/key-derivation-and-encryption.ts'
import { ServiceError } from '../../core/errors.ts'
import { LIMITS } from '../../core/limits.ts'
import type { EgressClient } from './egress-client-port.ts'

/** Proof that an agent controls an origin: it shows the agent's token in a file at a fixed path. */

const CHALLENGE_PATH = '/.well-known/gas-station.txt'
const CHALLENGE_TIMEOUT_MS = 5_000

/** What the owner of an origin publishes, and where. */
export interface OriginOwnershipChallengeToken {
  readonly url: string
  /** A line of the file. Useless to others: it names the agent and the origin. */
  readonly token: string
}

export interface OriginOwnershipChallenge {
  /** Returns the token of an agent for the origin of a URL; always the same one. */
  tokenFor(agentId: string, url: string): OriginOwnershipChallengeToken
  /**
   * Reads the file; throws `origin_unproven` unless one of its lines is the token. Redirects are not followed,
   * and nothing of the request contains the token, so an origin that echoes requests proves nothing.
   */
  verify(agentId: string, url: string, signal: AbortSignal): Promise<void>
}

export interface OriginOwnershipChallengeDeps {
  readonly egress: Pick<EgressClient, 'fetch'>
  /** Makes the tokens; the same on all nodes. */
  readonly key: Buffer
}

/** Creates the challenge. It stores nothing: tokens are computed. */
export function createOriginOwnershipChallenge({
  egress,
  key,
}: OriginOwnershipChallengeDeps): OriginOwnershipChallenge {
  function tokenFor(agentId: string, url: string): OriginOwnershipChallengeToken {
    const { origin } = new URL(url)
    const mac = hmacSha256(key, JSON.stringify([agentId, origin])).toString('base64url')
    return { url: `${origin}${CHALLENGE_PATH}`, token: `gas-station-token=${mac}` }
  }

  return {
    tokenFor,
    async verify(agentId, url, signal) {
      const wanted = tokenFor(agentId, url)
      const found = await readChallengeFile(egress, wanted.url, signal)
      const lines = 'text' in found ? found.text.split(/\r?\n/).map((line) => line.trim()) : []
      if (lines.includes(wanted.token)) return
      throw new ServiceError('origin_unproven', {
        detail: `${wanted.url} must answer 200 with the line ${wanted.token}: ${'text' in found ? 'no line is it' : found.reason}.`,
        challenge: { ...wanted },
      })
    },
  }
}

async function readChallengeFile(
  egress: Pick<EgressClient, 'fetch'>,
  url: string,
  signal: AbortSignal,
): Promise<{ readonly text: string } | { readonly reason: string }> {
  try {
    const { status, body } = await egress.fetch({
      url,
      headers: { accept: 'text/plain' },
      maxBytes: LIMITS.originChallengeBytes,
      timeoutMs: CHALLENGE_TIMEOUT_MS,
      maxRedirects: 0,
      signal,
    })
    return status === 200 ? { text: body.toString('utf8') } : { reason: `it answers ${status}` }
  } catch (error) {
    const expected = error instanceof ServiceError && error.code !== 'blocked_url'
    if (!expected || signal.aborted) throw error
    return { reason: error.message.replace(/\.$/, '') }
  }
}
