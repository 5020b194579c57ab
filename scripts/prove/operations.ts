import { setTimeout as sleep } from 'node:timers/promises'
import { as, PAID, type Agent, type Answer, type Client } from './agents.ts'
import type { Chance } from './chance.ts'

type Kind = 'call' | 'ping' | 'stream' | 'send' | 'tip'

/** One thing an agent asked for, under a key of its own. */
export interface Operation {
  readonly agent: Agent
  readonly key: string
  readonly kind: Kind
  readonly path: string
  readonly body: object
  readonly startedAt: number
  /** How often it was sent; the second time the first one's outcome was unknown. */
  tries: number
  /** The id of the call or transfer in the answer; null while there is none. */
  acknowledged: string | null
  /** Refused although nothing forbids it. */
  refused: string | null
}

/** One in `weight` parts of the load; streams hold money in the ledger while they run. */
const MIX: readonly Kind[] = [
  ...Array<Kind>(11).fill('call'),
  ...Array<Kind>(3).fill('ping'),
  ...Array<Kind>(3).fill('send'),
  ...Array<Kind>(2).fill('tip'),
  'stream',
]
const PAUSE_MS = 20
const PATIENCE_MS = 90_000

export function newOperation(agents: readonly Agent[], key: string, chance: Chance): Operation {
  const agent = chance.pick(agents)
  const other = agents[(agents.indexOf(agent) + 1) % agents.length] as Agent
  const kind = chance.pick(MIX)
  const gift = { to_agent_id: other.id, amount_usdc: 0.01 }
  const forms = {
    call: { path: '/api/refuel', body: PAID },
    ping: {
      path: '/api/refuel',
      body: { tool: 'agent_ping', target_agent_id: other.id, message: 'hello' },
    },
    stream: { path: '/api/refuel/stream', body: PAID },
    send: { path: '/api/agent/send', body: gift },
    tip: { path: '/api/tip', body: gift },
  }
  const state = { tries: 0, acknowledged: null, refused: null }
  return { agent, key, kind, ...forms[kind], startedAt: performance.now(), ...state }
}

/** Sends it once; the answer if there was one. */
export async function send(client: Client, operation: Operation): Promise<Answer | null> {
  const { agent, key, path, body } = operation
  operation.tries += 1
  try {
    const answer = await client.send('POST', path, { ...as(agent), 'idempotency-key': key }, body)
    if (answer.status === 200) operation.acknowledged = idOf(answer)
    else if (!passing(answer)) operation.refused = answer.code
    return answer
  } catch {
    return null
  }
}

/** Repeats it under its key until it is answered; what a careful agent does. */
export async function insist(
  client: Client,
  operation: Operation,
  giveUp: () => boolean = () => false,
): Promise<void> {
  const until = performance.now() + PATIENCE_MS
  while (performance.now() < until && !giveUp()) {
    await send(client, operation)
    if (operation.acknowledged !== null || operation.refused !== null) return
    await sleep(PAUSE_MS)
  }
}

/** An outage, or a first request that still runs: says nothing about the operation. */
const passing = ({ status, code }: Answer): boolean =>
  status >= 500 || code === 'idempotency_in_flight'

export function idOf({ body }: Answer): string {
  const meta = body['_meta'] as { call_id?: string } | undefined
  return String(meta?.call_id ?? body['transfer_id'])
}
