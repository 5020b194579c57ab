import { setTimeout as sleep } from 'node:timers/promises'
import {
  apiKeyHeader,
  CHAOS_PAID_TOOL_REQUEST_BODY,
  type AgentIdAndApiKey,
  type StationReply,
  type StationHttpClient,
} from './station-http-client.ts'
import type { SeededRandom } from './seeded-random.ts'

/** Requests of agents under load, with idempotent retries. */

export type ChaosAgentOperationKind =
  | ('call' | 'ping' | 'stream' | 'send' | 'tip')
  // Requests under a limit, or requests that only one of many can win.
  | ('task' | 'pack' | 'poor' | 'publish' | 'claim')

/** One request of an agent with its own Idempotency-Key. */
export interface RetriedAgentRequest {
  readonly agent: AgentIdAndApiKey
  readonly key: string
  readonly kind: ChaosAgentOperationKind
  readonly path: string
  readonly body: object
  readonly headers: Readonly<Record<string, string>>
  /** Error codes that a limit may cause. */
  readonly allowed: readonly string[]
  readonly startedAt: number
  /** Number of attempts; a retry follows an unknown outcome. */
  tries: number
  /** The id of the call or transfer in the reply; null before the reply. */
  acknowledged: string | null
  /** The limit that rejected it; a retry may succeed after other calls release their holds. */
  limited: string | null
  /** The error code of a rejection that no limit explains. */
  refused: string | null
}

/** A request and the error codes it may return. */
export type AgentRequestWithAllowedErrors = Pick<RetriedAgentRequest, 'path' | 'body'> &
  Partial<Pick<RetriedAgentRequest, 'headers' | 'allowed'>>

/** Relative frequencies; streams keep holds in the ledger while they run. */
const OPERATION_MIX: readonly (keyof ReturnType<typeof createAgentRequestsByOperationKind>)[] = [
  ...Array<'call'>(11).fill('call'),
  ...Array<'ping'>(3).fill('ping'),
  ...Array<'send'>(3).fill('send'),
  ...Array<'tip'>(2).fill('tip'),
  'stream',
]
const RETRY_PAUSE_MS = 20
const RETRY_TIMEOUT_MS = 90_000

export function randomRetriedAgentRequest(
  agents: readonly AgentIdAndApiKey[],
  key: string,
  chance: SeededRandom,
): RetriedAgentRequest {
  const agent = chance.pick(agents)
  const other = agents[(agents.indexOf(agent) + 1) % agents.length] as AgentIdAndApiKey
  const kind = chance.pick(OPERATION_MIX)
  return createRetriedAgentRequest(
    agent,
    key,
    kind,
    createAgentRequestsByOperationKind(other)[kind],
  )
}

/** Requests that only a lack of credits may reject. */
export function createAgentRequestsByOperationKind(other: AgentIdAndApiKey) {
  const gift = { to_agent_id: other.id, amount_usdc: 0.01 }
  return {
    call: { path: '/api/refuel', body: CHAOS_PAID_TOOL_REQUEST_BODY },
    ping: {
      path: '/api/refuel',
      body: { tool: 'agent_ping', target_agent_id: other.id, message: 'hello' },
    },
    stream: { path: '/api/refuel/stream', body: CHAOS_PAID_TOOL_REQUEST_BODY },
    send: { path: '/api/agent/send', body: gift },
    tip: { path: '/api/tip', body: gift },
  }
}

export function createRetriedAgentRequest(
  agent: AgentIdAndApiKey,
  key: string,
  kind: ChaosAgentOperationKind,
  form: AgentRequestWithAllowedErrors,
): RetriedAgentRequest {
  const state = { tries: 0, acknowledged: null, limited: null, refused: null }
  const startedAt = performance.now()
  return { agent, key, kind, headers: {}, allowed: [], ...form, startedAt, ...state }
}

/** Sends it once; returns the reply, if any. */
export async function sendAgentRequestAttempt(
  client: StationHttpClient,
  operation: RetriedAgentRequest,
): Promise<StationReply | null> {
  const { agent, key, path, body, headers, allowed } = operation
  const sent = { ...apiKeyHeader(agent), ...headers, 'idempotency-key': key }
  operation.tries += 1
  try {
    const answer = await client.send('POST', path, sent, body)
    if (answer.status < 300) operation.acknowledged = acknowledgedOperationIdOf(answer)
    else if (allowed.includes(answer.code)) operation.limited = answer.code
    else if (!isTemporaryFailure(answer)) operation.refused = answer.code
    return answer
  } catch {
    return null
  }
}

/** Retries with the same Idempotency-Key until a reply arrives, as a careful client does. */
export async function retryWithSameIdempotencyKey(
  client: StationHttpClient,
  operation: RetriedAgentRequest,
  giveUp: () => boolean = () => false,
): Promise<void> {
  const until = performance.now() + RETRY_TIMEOUT_MS
  while (performance.now() < until && !giveUp()) {
    await sendAgentRequestAttempt(client, operation)
    const { acknowledged, limited, refused } = operation
    if ((acknowledged ?? limited ?? refused) !== null) return
    await sleep(RETRY_PAUSE_MS)
  }
}

/** An outage, or a first request still in flight: the outcome remains unknown. */
const isTemporaryFailure = ({ status, code }: StationReply): boolean =>
  status >= 500 || code === 'idempotency_in_flight'

export function acknowledgedOperationIdOf({ body }: StationReply): string {
  const meta = body['_meta'] as { call_id?: string } | undefined
  const { transfer_id: transfer, call_id: call, bounty_id: bounty } = body
  return String(meta?.call_id ?? transfer ?? call ?? bounty)
}
