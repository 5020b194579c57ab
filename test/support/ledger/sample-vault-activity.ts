import { recordOwnershipOrMemoryReorganization } from '../../../actors/commands/lifetime-entitlement-commands.ts'
import { newUuidV7 } from '../../../core/ids-and-api-keys.ts'
import { admitCallCommand, settleCallCommand } from '../../../payments/commands/call-commands.ts'
import {
  sampleCallAdmissionRequest,
  settleCallInputOfAdmission,
  type TestActorNode,
} from '../actors/test-actor-node.ts'

/** A free write, a pack of one entry, and consolidated memories. */
export async function recordSampleVaultActivity(
  { ask }: TestActorNode,
  agentId: string,
): Promise<void> {
  const at = new Date().toISOString()
  const [writing, buying, ordering] = [
    sampleCallAdmissionRequest(0),
    sampleCallAdmissionRequest(0.1),
    sampleCallAdmissionRequest(0.05),
  ]
  const memory = (callId: string, namespace: string) => ({
    id: newUuidV7(Date.now()),
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
  for (const one of [writing, buying, ordering]) await ask(agentId, admitCallCommand, one)
  const free = settleCallInputOfAdmission(writing, agentId, writing.amount, {
    rows: [{ table: 'vault_memories', row: written }],
  })
  await ask(agentId, settleCallCommand, {
    ...free,
    allowance: { name: 'vault_write', most: 500 },
    row: (money) => ({ ...free.row(money), tool: 'vault_write' }),
  })
  const bought = settleCallInputOfAdmission(buying, agentId, buying.amount, {
    rows: [
      { table: 'vault_memories', row: entry },
      { table: 'pack_installs', row: install },
    ],
    ended: (turn) =>
      recordOwnershipOrMemoryReorganization(turn, { type: 'OWN', names: ['pack:focus-stack'] }),
  })
  await ask(agentId, settleCallCommand, bought)
  const order = { agent_id: agentId, call_id: ordering.callId, at }
  const ordered = settleCallInputOfAdmission(ordering, agentId, ordering.amount, {
    rows: [{ table: 'vault_consolidations', row: order }],
    ended: (turn) => recordOwnershipOrMemoryReorganization(turn, { type: 'ORDER', seen: 0 }),
  })
  await ask(agentId, settleCallCommand, ordered)
}
