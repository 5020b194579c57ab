import { registerCommunityToolCommand } from '../../../actors/commands/community-tool-commands.ts'
import { newUuidV7 } from '../../../core/ids-and-api-keys.ts'
import { fromUsdc } from '../../../core/money.ts'
import { builderShareOf, communityToolAggregateId } from '../../../domain/community-tool-record.ts'
import { admitCallCommand, settleCallCommand } from '../../../payments/commands/call-commands.ts'
import { toCommunityToolCallRow } from '../../../persistence/tools/community-tool-call-store.ts'
import {
  sampleCallAdmissionRequest,
  settleCallInputOfAdmission,
  type TestActorNode,
} from '../actors/test-actor-node.ts'

/** A call of a community tool in the reference ledger. */

/** A tool that an agent sells, with one charged call of another agent. */
export async function recordSampleCommunityToolCall(
  { ask }: TestActorNode,
  agentId: string,
  builderId: string,
): Promise<void> {
  const [slug, toolId, price] = ['weather-now', newUuidV7(Date.now()), fromUsdc(0.01)]
  const definition = {
    name: 'Weather',
    description: 'The temperature.',
    category: 'web',
    inputSchema: { type: 'object' },
    outputSchema: { type: 'object' },
    example: null,
    forward: { kind: 'http-json', url: 'https://builder.example/' },
  } as const
  const builder = { builderId, builderName: 'ann', builderVisitor: 'v' }
  await ask(communityToolAggregateId(slug), registerCommunityToolCommand, {
    ...builder,
    ...{ slug, toolId, definition, price, acceptsPromo: true, proven: true, place: 1 },
  })
  const call = sampleCallAdmissionRequest(0.01)
  const share = builderShareOf(price)
  const row = toCommunityToolCallRow({
    ...{ callId: call.callId, slug, builderId, payer: agentId, errorCode: null, errorDetail: null },
    ...{ ms: 5, price, share, counted: true, refused: false, at: Date.now() },
  })
  const rows = [{ table: 'community_tool_calls', row }]
  await ask(agentId, admitCallCommand, call)
  const shares = [{ to: builderId, amount: share, stagedWrites: () => ({ rows, events: [] }) }]
  const told = settleCallInputOfAdmission(call, agentId, call.amount, { shares })
  await ask(agentId, settleCallCommand, told)
}
