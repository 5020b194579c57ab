import { DAY } from '../../../core/clock.ts'
import { newUuidV7 } from '../../../core/ids-and-api-keys.ts'
import { fromUsdc } from '../../../core/money.ts'
import { createAgentCommand } from '../../../payments/commands/agent-account-commands.ts'
import {
  admitCallCommand,
  settleCallCommand,
  type CommittedCallInfo,
} from '../../../payments/commands/call-commands.ts'
import { buyTaskPassCommand } from '../../../payments/commands/task-pass-commands.ts'
import { UNLIMITED_SPENDER } from '../actors/test-actor-node-pairs.ts'
import {
  callRowOfAdmission,
  sampleCallAdmissionRequest,
  settleCallInputOfAdmission,
  type TestActorNode,
} from '../actors/test-actor-node.ts'

/** An agent of a bundle, whose creator gets half of its fees, in both kinds of credits. */
export async function recordSampleBundleAgentSharingFees(
  { ask }: TestActorNode,
  parent: string,
): Promise<void> {
  const agentId = newUuidV7(Date.now())
  await ask(agentId, createAgentCommand, { agentId, starter: fromUsdc(1), parent, rows: [] })
  for (const promoTransferable of [true, false]) {
    const call = sampleCallAdmissionRequest(0.07)
    await ask(agentId, admitCallCommand, call)
    const sharing = { promoTransferable }
    const settled = settleCallInputOfAdmission(call, agentId, call.amount, sharing)
    await ask(agentId, settleCallCommand, settled)
  }
}

/** Buys a pass for an agent, pays a call with it, and leaves another call that holds a slot. */
export async function recordSampleTaskPass({ ask }: TestActorNode, agentId: string): Promise<void> {
  const { view } = await ask(agentId, buyTaskPassCommand, {
    pass: 'micro',
    spender: UNLIMITED_SPENDER,
  })
  const used = sampleCallAdmissionRequest(0.05, { passable: true })
  const open = sampleCallAdmissionRequest(0.05, { passable: true, expiresAt: Date.now() + DAY })
  for (const one of [used, open]) await ask(agentId, admitCallCommand, one)
  const row = ({ at, pass = null }: CommittedCallInfo) => {
    if (pass?.passId !== view.passId) throw new Error('the pass has not paid')
    return callRowOfAdmission(used, agentId, { at, rail: 'pass' })
  }
  const settled = settleCallInputOfAdmission(used, agentId, used.amount, { row })
  await ask(agentId, settleCallCommand, settled)
}
