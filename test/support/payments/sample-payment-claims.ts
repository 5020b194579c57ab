import {
  hashPaymentCredential,
  type HexString,
  type NormalizedPayment,
} from '../../../chain/onchain-payment-types.ts'
import { newUuidV7 } from '../../../core/ids-and-api-keys.ts'
import { fromUsdc, ZERO_MICROS } from '../../../core/money.ts'
import type { CallRow } from '../../../core/aggregate-commit-row-types.ts'
import {
  toPayerAggregateId,
  claimPaymentCommand,
  expirePaymentClaimCommand,
  toSettlementId,
  settlementLoadOptions,
  type PaymentClaimInput,
  type DeliverPaidCallsInput,
} from '../../../payments/commands/payment-claim-commands.ts'
import {
  recordPaymentSettledCommand,
  recordPaymentSubmittedCommand,
} from '../../../payments/commands/settlement-commands.ts'
import type { AggregateCommand } from '../../../actors/aggregate-command-types.ts'
import { expireCallHoldCommand } from '../../../payments/commands/call-commands.ts'
import type { TestActorNode } from '../actors/test-actor-node.ts'

/** Sample payments, claims and outcomes for payment commands. */

const BASE = 'eip155:8453'
const USDC = '0x833589fcd6edb6e08f4c7c32d4f71b54bda02913'
const PAYER = '0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266'
export const TEST_TREASURY = '0x00000000000000000000000000000000000beef1'
export const PAYMENT_TIMER_COMMANDS = [
  expireCallHoldCommand,
  expirePaymentClaimCommand,
] as AggregateCommand<never, void>[]

let made = 0

/** A parsed payment; commands do not verify its signature. */
export function samplePayment(
  usdc: number,
  more: Partial<NormalizedPayment> = {},
): NormalizedPayment {
  const nonce: HexString = `0x${(made += 1).toString(16).padStart(64, '0')}`
  const now = BigInt(Math.floor(Date.now() / 1000))
  return {
    rail: 'x402',
    wire: 'v2',
    chain: BASE,
    asset: USDC,
    from: PAYER,
    to: TEST_TREASURY,
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

export function samplePaymentClaimInput(
  payment: NormalizedPayment,
  more: Partial<PaymentClaimInput> = {},
): PaymentClaimInput {
  return {
    payment,
    chain: 'base',
    fingerprint: 'request',
    credential: hashPaymentCredential(payment),
    marks: { key: null, secrets: [], address: 'here' },
    callId: newUuidV7(Date.now()),
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

export const claimPaymentOnTestNode = (at: TestActorNode, claimed: PaymentClaimInput) =>
  at.ask(
    toPayerAggregateId(claimed.payment),
    claimPaymentCommand,
    claimed,
    settlementLoadOptions(toSettlementId(claimed.payment)),
  )

/** The outcome of a claim's call. */
export function samplePaidCallOutcome(
  claimed: PaymentClaimInput,
  more: Partial<CallRow> = {},
): DeliverPaidCallsInput {
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
  return { settlement: toSettlementId(payment), callId, calls: [row], rows: [], events: [] }
}

export function sampleFailedPaidCallOutcome(claimed: PaymentClaimInput) {
  const failed = { cost: ZERO_MICROS, status: 'failed', errorCode: 'upstream_error' } as const
  const { settlement, callId, calls } = samplePaidCallOutcome(claimed, failed)
  return { settlement, callId, row: calls[0] ?? null }
}

/** Runs a command on the settlement of a payment. */
export const runSettlementCommand = <I extends object, R>(
  at: TestActorNode,
  { payment }: Pick<PaymentClaimInput, 'payment'>,
  command: AggregateCommand<I & { settlement: string }, R>,
  input: I,
): Promise<R> => {
  const settlement = toSettlementId(payment)
  return at.ask(
    toPayerAggregateId(payment),
    command,
    { settlement, ...input },
    settlementLoadOptions(settlement),
  )
}

/** Applies the settler's reports of a successful settlement. */
export async function reportClaimedPaymentSettled(
  at: TestActorNode,
  claimed: PaymentClaimInput,
  tx = `0x${newUuidV7(Date.now())}`,
) {
  await runSettlementCommand(at, claimed, recordPaymentSubmittedCommand, { txHash: tx })
  return runSettlementCommand(at, claimed, recordPaymentSettledCommand, {
    tx,
    logIndex: 0,
    block: 101n,
  })
}
