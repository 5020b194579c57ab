import { changeTally } from '../../actors/commands/tally.ts'
import { newId } from '../../core/ids.ts'
import { callAdmit, callSettle } from '../../payments/commands/call.ts'
import { admission, settlement, type Node } from '../support/runtime.ts'

/** A free write, a pack of one entry, and memories that were put in order. */
export async function remembered({ ask }: Node, agentId: string): Promise<void> {
  const at = new Date().toISOString()
  const [writing, buying, ordering] = [admission(0), admission(0.1), admission(0.05)]
  const memory = (callId: string, namespace: string) => ({
    id: newId(Date.now()),
    agent_id: agentId,
    content: 'Gas is cheap on weekends',
    type: 'fact',
    tags: [],
    importance: 1,
    immortal: false,
    namespace,
    origin: { by: 'write' },
    vector: '\\x00',
    call_id: callId,
    at,
    expires_at: null,
  })
  const [written, entry] = [
    memory(writing.callId, 'vault'),
    memory(buying.callId, 'pack:focus-stack'),
  ]
  const install = {
    agent_id: agentId,
    pack: 'focus-stack',
    bought_as: 'focus-stack',
    entries: 1,
    call_id: buying.callId,
    at,
  }
  for (const one of [writing, buying, ordering]) await ask(agentId, callAdmit, one)
  const free = settlement(writing, agentId, writing.amount, {
    rows: [{ table: 'vault_memories', row: written }],
  })
  await ask(agentId, callSettle, {
    ...free,
    allowance: { name: 'vault_write', most: 500 },
    row: (money) => ({ ...free.row(money), tool: 'vault_write' }),
  })
  const bought = settlement(buying, agentId, buying.amount, {
    rows: [
      { table: 'vault_memories', row: entry },
      { table: 'pack_installs', row: install },
    ],
    ended: (turn) => changeTally(turn, { type: 'OWN', names: ['pack:focus-stack'] }),
  })
  await ask(agentId, callSettle, bought)
  const order = { agent_id: agentId, call_id: ordering.callId, at }
  const ordered = settlement(ordering, agentId, ordering.amount, {
    rows: [{ table: 'vault_orders', row: order }],
    ended: (turn) => changeTally(turn, { type: 'ORDER', seen: 0 }),
  })
  await ask(agentId, callSettle, ordered)
}
