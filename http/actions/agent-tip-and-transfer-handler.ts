import type { FastifyReply, FastifyRequest } from 'fastify'
import type { AggregateCommand } from '../../actors/aggregate-command-types.ts'
import type { BackpackSpendingPermissionName } from '../../domain/backpack-spending-permissions.ts'
import { ServiceError } from '../../core/errors.ts'
import { fromUsdc, type Micros } from '../../core/money.ts'
import type {
  CreditTransferResult,
  CreditTransferInput,
} from '../../payments/commands/agent-account-commands.ts'
import { sendIdempotentReply, toIdempotentRequest } from '../http-idempotency-keys.ts'
import {
  withBackpackRefusalLogging,
  toRequestSpendingLimits,
} from '../auth/request-api-key-and-backpack.ts'
import { toSpenderPreload } from './spender-preload.ts'

/** Payments from one agent's credits to another: tips and transfers share this code. */

/** Fields that every payment request has. */
interface PayAgentBody {
  readonly to_agent_id: string
  readonly amount_usdc: number
}

/** What differs between the kinds of payment. */
interface PayAgentOptions {
  /** The permission that the Backpack must grant. */
  readonly permission: BackpackSpendingPermissionName
  readonly command: AggregateCommand<CreditTransferInput, CreditTransferResult>
  readonly memo: string | null
  present(paid: CreditTransferResult, toAgentId: string, amount: Micros): object
}

/** Pays another agent from the sender's credits and returns the payment. */
export async function payAgent(
  request: FastifyRequest & { body: PayAgentBody },
  reply: FastifyReply,
  { permission, command, memo, present }: PayAgentOptions,
): Promise<never> {
  const { actors, config, once, profiles } = request.server.services
  const toAgentId = request.body.to_agent_id.toLowerCase()
  const amount = fromUsdc(request.body.amount_usdc, '/amount_usdc')
  if (!(await profiles.has(toAgentId))) throw new ServiceError('agent_not_found')
  const spender = toRequestSpendingLimits(request)
  const payment = { toAgentId, amount, memo, promoTransferable: config.promoTransferable, spender }
  const touch = toSpenderPreload(spender)
  return sendIdempotentReply(
    reply,
    once.runCommand(
      toIdempotentRequest(request),
      (paid: CreditTransferResult) => ({ status: 200, body: present(paid, toAgentId, amount) }),
      (options) =>
        withBackpackRefusalLogging(request, permission, () =>
          actors.ask(request.agentId, command, payment, { ...touch, ...options }),
        ),
    ),
  )
}
