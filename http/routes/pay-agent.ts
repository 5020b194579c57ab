import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Command } from '../../actors/command.ts'
import type { SpendingPermission } from '../../core/backpack-permissions.ts'
import { ServiceError } from '../../core/errors.ts'
import { fromUsdc, type Micros } from '../../core/money.ts'
import type { Paid, Payment } from '../../payments/commands/purse.ts'
import { answer, asked } from '../idempotency.ts'
import { demandSpending, noted, spenderOf } from '../spending.ts'
import { touchingBackpack } from '../touched-backpack.ts'

/** What every request to pay says. */
interface Order {
  readonly to_agent_id: string
  readonly amount_usdc: number
}

/** What makes one way of paying differ from another. */
interface Way {
  /** What a capped key is told it cannot do. */
  readonly deed: string
  /** What a Backpack has to name. */
  readonly permission: SpendingPermission
  readonly command: Command<Payment, Paid>
  readonly memo: string | null
  present(paid: Paid, toAgentId: string, amount: Micros): object
}

/** Pays another agent from the credits of the one that asks, and answers with what was paid. */
export async function payAgent(
  request: FastifyRequest & { body: Order },
  reply: FastifyReply,
  { deed, permission, command, memo, present }: Way,
): Promise<never> {
  const { actors, config, once, profiles } = request.server.services
  demandSpending(request, deed)
  const toAgentId = request.body.to_agent_id.toLowerCase()
  const amount = fromUsdc(request.body.amount_usdc, '/amount_usdc')
  if (!(await profiles.has(toAgentId))) throw new ServiceError('agent_not_found')
  const spender = spenderOf(request)
  const payment = { toAgentId, amount, memo, promoTransferable: config.promoTransferable, spender }
  const touch = touchingBackpack(spender.backpackId)
  return answer(
    reply,
    once.command(
      asked(request),
      (paid: Paid) => ({ status: 200, body: present(paid, toAgentId, amount) }),
      (options) =>
        noted(request, permission, () =>
          actors.ask(request.agentId, command, payment, { ...touch, ...options }),
        ),
    ),
  )
}
