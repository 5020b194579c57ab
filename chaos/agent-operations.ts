import { setTimeout as sleep } from 'node:timers/promises'
import {
  apiKeyHeader,
  PAID_TOOL_BODY,
  type ApiAgent,
  type StationReply,
  type StationClient,
} from './station-client.ts'
import type { SeededRandom } from './seeded-random.ts'

export type OperationKind =
  | ('call' | 'ping' | 'stream' | 'send' | 'tip')
  // What stands under a limit, or is for one of many.
  | ('task' | 'pack' | 'poor' | 'publish' | 'claim')

/** One thing an agent asked for, under a key of its own. */
export interface AgentOperation {
  readonly agent: ApiAgent
  readonly key: string
  readonly kind: OperationKind
  readonly path: string
  readonly body: object
  readonly headers: Readonly<Record<string, string>>
  /** The refusals that a limit may bring. */
  readonly allowed: readonly string[]
  readonly startedAt: number
  /** How often it was sent; the second time the first one's outcome was unknown. */
  tries: number
  /** The id of the call or transfer in the answer; null while there is none. */
  acknowledged: string | null
  /** The limit that refused it; a second try may be served when others gave back what they held. */
  limited: string | null
  /** Refused although nothing forbids it. */
  refused: string | null
}

/** What is asked, and of what it may be refused. */
export type OperationRequest = Pick<AgentOperation, 'path' | 'body'> &
  Partial<Pick<AgentOperation, 'headers' | 'allowed'>>

/** One in `weight` parts of the load; streams hold money in the ledger while they run. */
const OPERATION_MIX: readonly (keyof ReturnType<typeof operationRequestsTo>)[] = [
  ...Array<'call'>(11).fill('call'),
  ...Array<'ping'>(3).fill('ping'),
  ...Array<'send'>(3).fill('send'),
  ...Array<'tip'>(2).fill('tip'),
  'stream',
]
const RETRY_PAUSE_MS = 20
const RETRY_TIMEOUT_MS = 90_000

export function randomOperation(
  agents: readonly ApiAgent[],
  key: string,
  chance: SeededRandom,
): AgentOperation {
  const agent = chance.pick(agents)
  const other = agents[(agents.indexOf(agent) + 1) % agents.length] as ApiAgent
  const kind = chance.pick(OPERATION_MIX)
  return createOperation(agent, key, kind, operationRequestsTo(other)[kind])
}

/** What nothing but a lack of credits may refuse. */
export function operationRequestsTo(other: ApiAgent) {
  const gift = { to_agent_id: other.id, amount_usdc: 0.01 }
  return {
    call: { path: '/api/refuel', body: PAID_TOOL_BODY },
    ping: {
      path: '/api/refuel',
      body: { tool: 'agent_ping', target_agent_id: other.id, message: 'hello' },
    },
    stream: { path: '/api/refuel/stream', body: PAID_TOOL_BODY },
    send: { path: '/api/agent/send', body: gift },
    tip: { path: '/api/tip', body: gift },
  }
}

export function createOperation(
  agent: ApiAgent,
  key: string,
  kind: OperationKind,
  form: OperationRequest,
): AgentOperation {
  const state = { tries: 0, acknowledged: null, limited: null, refused: null }
  const startedAt = performance.now()
  return { agent, key, kind, headers: {}, allowed: [], ...form, startedAt, ...state }
}

/** Sends it once; the answer if there was one. */
export async function sendOperation(
  client: StationClient,
  operation: AgentOperation,
): Promise<StationReply | null> {
  const { agent, key, path, body, headers, allowed } = operation
  const sent = { ...apiKeyHeader(agent), ...headers, 'idempotency-key': key }
  operation.tries += 1
  try {
    const answer = await client.send('POST', path, sent, body)
    if (answer.status < 300) operation.acknowledged = acknowledgedIdOf(answer)
    else if (allowed.includes(answer.code)) operation.limited = answer.code
    else if (!isTemporaryFailure(answer)) operation.refused = answer.code
    return answer
  } catch {
    return null
  }
}

/** Repeats it under its key until it is answered; what a careful agent does. */
export async function retryOperation(
  client: StationClient,
  operation: AgentOperation,
  giveUp: () => boolean = () => false,
): Promise<void> {
  const until = performance.now() + RETRY_TIMEOUT_MS
  while (performance.now() < until && !giveUp()) {
    await sendOperation(client, operation)
    const { acknowledged, limited, refused } = operation
    if ((acknowledged ?? limited ?? refused) !== null) return
    await sleep(RETRY_PAUSE_MS)
  }
}

/** An outage, or a first request that still runs: says nothing about the operation. */
const isTemporaryFailure = ({ status, code }: StationReply): boolean =>
  status >= 500 || code === 'idempotency_in_flight'

export function acknowledgedIdOf({ body }: StationReply): string {
  const meta = body['_meta'] as { call_id?: string } | undefined
  const { transfer_id: transfer, call_id: call, bounty_id: bounty } = body
  return String(meta?.call_id ?? transfer ?? call ?? bounty)
}
