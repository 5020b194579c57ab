import { credentialHash, type Hex, type Payment } from '../../chain/payment.ts'
import { newId } from '../../core/ids.ts'
import { fromUsdc, ZERO } from '../../core/money.ts'
import type { CallRow } from '../../core/rows.ts'
import {
  payerOf,
  paymentClaim,
  paymentExpire,
  settlementOf,
  touching,
  type Claim,
  type Outcome,
} from '../../payments/commands/payment.ts'
import { paymentSettled, paymentSubmitted } from '../../payments/commands/settlement.ts'
import type { Command } from '../../actors/command.ts'
import { holdExpire } from '../../payments/commands/call.ts'
import type { Node } from './runtime.ts'

const BASE = 'eip155:8453'
const USDC = '0x833589fcd6edb6e08f4c7c32d4f71b54bda02913'
const PAYER = '0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266'
export const TREASURY = '0x00000000000000000000000000000000000beef1'
export const TIMERS = [holdExpire, paymentExpire] as Command<never, void>[]

let made = 0

/** A payment as the codec would leave it; nobody looks at its signature here. */
export function paymentOf(usdc: number, more: Partial<Payment> = {}): Payment {
  const nonce: Hex = `0x${(made += 1).toString(16).padStart(64, '0')}`
  const now = BigInt(Math.floor(Date.now() / 1000))
  return {
    rail: 'x402',
    wire: 'v2',
    chain: BASE,
    asset: USDC,
    from: PAYER,
    to: TREASURY,
    amount: fromUsdc(usdc),
    price: fromUsdc(usdc),
    validAfter: 0n,
    validBefore: now + 300n,
    nonce,
    identifier: null,
    proof: { kind: 'eip3009', signature: `0x${nonce.slice(2)}${nonce.slice(2)}1b` },
    ...more,
  }
}

export function claimOf(payment: Payment, more: Partial<Claim> = {}): Claim {
  return {
    payment,
    chain: 'base',
    fingerprint: 'request',
    credential: credentialHash(payment),
    marks: { key: null, secrets: [], address: 'here' },
    callId: newId(Date.now()),
    agentId: null,
    purpose: { kind: 'call' },
    mode: 'optimistic',
    balance: 10n ** 9n,
    balanceBlock: 100n,
    globalRoom: true,
    expiresAt: Date.now() + 60_000,
    ...more,
  }
}

export { payerOf, settlementOf }

export const claim = (at: Node, claimed: Claim) =>
  at.ask(payerOf(claimed.payment), paymentClaim, claimed, touching(settlementOf(claimed.payment)))

/** The call of a claim, as its tool left it. */
export function outcomeOf(claimed: Claim, more: Partial<CallRow> = {}): Outcome {
  const { payment, callId } = claimed
  const row = ({ at }: { at: number }): CallRow => ({
    callId,
    agentId: null,
    keyId: null,
    operation: 'refuel',
    tool: 'web_search',
    rail: payment.rail,
    cost: payment.price,
    status: 'ok',
    errorCode: null,
    ms: 1,
    taskId: null,
    backpackId: null,
    ghost: false,
    idempotencyKey: null,
    requestHash: null,
    response: null,
    at,
    ...more,
  })
  return { settlement: settlementOf(payment), callId, calls: [row], rows: [], events: [] }
}

export function failedOutcome(claimed: Claim) {
  const failed = { cost: ZERO, status: 'failed', errorCode: 'upstream_error' } as const
  const { settlement, callId, calls } = outcomeOf(claimed, failed)
  return { settlement, callId, row: calls[0] ?? null }
}

/** Asks a command about the settlement of a payment. */
export const about = <I extends object, R>(
  at: Node,
  { payment }: Pick<Claim, 'payment'>,
  command: Command<I & { settlement: string }, R>,
  input: I,
): Promise<R> => {
  const settlement = settlementOf(payment)
  return at.ask(payerOf(payment), command, { settlement, ...input }, touching(settlement))
}

/** What the settler tells when all goes well. */
export async function settle(at: Node, claimed: Claim, tx = `0x${newId(Date.now())}`) {
  await about(at, claimed, paymentSubmitted, { txHash: tx })
  return about(at, claimed, paymentSettled, { tx, logIndex: 0, block: 101n })
}
