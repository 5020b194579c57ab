import t, { type Test } from 'tap'
import type { NormalizedPayment } from '../../../chain/onchain-payment-types.ts'
import { PAYMENT_NETWORKS } from '../../../chain/payment-networks.ts'
import { createSolanaPaymentFinder } from '../../../chain/solana/find-solana-payment-on-chain.ts'
import { createSolanaRpc } from '../../../chain/solana/solana-rpc.ts'
import { createFacilitatorClient } from '../../../chain/x402/facilitator-client.ts'
import { parseSolanaTransfer } from '../../../chain/solana/solana-transaction.ts'
import { MINUTE, SECOND } from '../../../core/clock.ts'
import { createSettler } from '../../../payments/settlement/settler.ts'
import { createSettlementQueries } from '../../../persistence/payments/settlement-queries.ts'
import { createSettlerTransactionStore } from '../../../persistence/payments/settler-transaction-store.ts'
import { samplePaymentOffer } from '../../support/payments/sample-payment-offer.ts'
import { createTestDatabase } from '../../support/postgres/test-database.ts'
import {
  createSignedSolanaTransfer,
  startTestFacilitator,
  type FacilitatorBehaviour,
} from '../../support/chain/test-solana-facilitator.ts'
import { assertNoInvariantViolations } from '../../support/actors/test-actor-node-pairs.ts'
import {
  claimPaymentOnTestNode,
  samplePaymentClaimInput,
  samplePayment,
  PAYMENT_TIMER_COMMANDS,
} from '../../support/payments/sample-payment-claims.ts'
import { toSettlementId } from '../../../payments/commands/payment-claim-commands.ts'
import { createTestActorNode } from '../../support/actors/test-actor-node.ts'
import {
  startTestSolanaRpc,
  type LandedTransfer,
} from '../../support/chain/test-solana-rpc-server.ts'
import { createOffsetClock } from '../../support/payments/settler-scenario.ts'

const [, , requirement] = samplePaymentOffer().requirements
if (requirement === undefined) throw new Error('Solana is not offered')
const PAY_TO = requirement.payTo
const ALL: LandedTransfer = { to: PAY_TO, amount: 30_000n }
/** Every answer that leaves it open. */
const NO: FacilitatorBehaviour = { refuses: 'duplicate_settlement' }

const chain = await startTestSolanaRpc(t)
/** The time of the chain follows it, unless a test sets it. */
const clock = createOffsetClock()
/** How the facilitator's next transactions stand in their blocks. */
let landing: LandedTransfer = ALL
const facilitator = await startTestFacilitator(t, (transaction) => chain.land(transaction, landing))

/** A settler over a facilitator, with a node of the chain or without; the others' blocks are there. */
async function settling(t: Test, { withNode = true } = {}) {
  const { sql } = await createTestDatabase(t)
  const actors = createTestActorNode(t, sql, { clock, timerCommands: PAYMENT_TIMER_COMMANDS })
  const store = createSettlementQueries(sql)
  const log: string[] = []
  const rpc = createSolanaRpc({ rpcUrl: chain.url, send: fetch, timeoutMs: 8 * SECOND })
  const made = createSettler({
    actors,
    store,
    clock,
    transactions: createSettlerTransactionStore(sql),
    base: null,
    bsc: null,
    tempo: null,
    facilitator: createFacilitatorClient({ url: facilitator.url, clock, send: fetch }),
    solanaLook: withNode ? createSolanaPaymentFinder(rpc) : null,
    log: (message, error) => void log.push(`${message} ${String(error)}`),
    sweepMs: null,
  })
  t.teardown(() => made.close())
  const stateOf = async (id: string) => (await store.find(id))?.money
  return {
    sql,
    store,
    log,
    settler: made,
    stateOf,
    /** Advances time here and on the chain until pending work is due. */
    async elapse(ms: number, theirs = ms): Promise<void> {
      clock.pass(ms)
      chain.pass(theirs / SECOND)
      await made.sweep()
    },
    /** A claimed payment, with the first reply of the facilitator. */
    async claimed(
      fates: readonly FacilitatorBehaviour[],
      how: LandedTransfer = ALL,
      payment = signed(clock.now()),
    ) {
      facilitator.decide(fates, NO)
      landing = how
      const mode = { chain: 'solana', mode: 'first', balance: null, balanceBlock: 0n } as const
      const claimed = samplePaymentClaimInput(payment, mode)
      await claimPaymentOnTestNode(actors, claimed)
      await made.sweep()
      return { id: toSettlementId(payment), payment }
    },
  }
}

function signed(now: number, transaction = createSignedSolanaTransfer()): NormalizedPayment {
  const read = parseSolanaTransfer(Buffer.from(transaction, 'base64'))
  if (read === null || requirement === undefined) throw new Error('it cannot be read')
  return samplePayment(0.03, {
    chain: PAYMENT_NETWORKS.solana.caip2,
    asset: PAYMENT_NETWORKS.solana.asset,
    to: PAY_TO,
    from: read.payer,
    nonce: read.messageHash,
    validBefore: BigInt(Math.floor(now / 1000) + requirement.maxTimeoutSeconds),
    proof: { kind: 'solana', transaction, requirement },
  })
}
const transactionOf = ({ proof }: NormalizedPayment): string =>
  proof.kind === 'solana' ? proof.transaction : ''

t.test('a landed payment settles without a reply of the facilitator', async (t) => {
  const at = await settling(t)
  for (const fate of ['unanswered', { refuses: 'transaction_failed', moves: true }] as const) {
    const { id, payment } = await at.claimed([fate])
    await at.elapse(MINUTE)
    t.equal(await at.stateOf(id), 'settled')
    const { txHash } = (await at.store.find(id)) ?? {}
    t.equal(txHash, facilitator.moved.get(transactionOf(payment)), 'by its own name')
  }
  const named = { refuses: 'unexpected_settle_error', moves: true, names: true } as const
  const { id } = await at.claimed([named])
  chain.asked.splice(0)
  await at.elapse(MINUTE)
  t.equal(await at.stateOf(id), 'settled')
  t.notOk(chain.asked.includes('getSignaturesForAddress'), 'what was named is not searched for')
  await assertNoInvariantViolations(t, at.sql)
})

t.test('other transfers of a payer are not taken for the payment', async (t) => {
  const at = await settling(t)
  const { id, payment } = await at.claimed(['broken'])
  const bytes = Buffer.from(transactionOf(payment), 'base64')
  for (let other = 1; other <= 70; other += 1) {
    bytes.writeUInt16BE(other, bytes.length - 50) // in its blockhash
    chain.land(bytes.toString('base64'), ALL)
  }
  await at.elapse(MINUTE)
  t.equal(await at.stateOf(id), 'unknown')
  chain.expire(true)
  await at.elapse(6 * MINUTE)
  t.equal(await at.stateOf(id), 'lost', 'after all 70 were read')
  chain.expire(false)
})

t.test('a payment is lost only if no block contains it and none can include it', async (t) => {
  const at = await settling(t)
  const { id } = await at.claimed(['broken'])
  const stays = async (why: string, ms: number, theirs = ms) => {
    await at.elapse(ms, theirs)
    t.equal(await at.stateOf(id), 'unknown', why)
  }
  await stays('its time is not over', 2 * MINUTE)
  await stays('its blockhash is good', 6 * MINUTE)
  chain.expire(true)
  chain.knowsSince(Math.floor(clock.now() / SECOND))
  await stays('the node has not all of that time', MINUTE)
  chain.knowsSince(1)
  await at.elapse(MINUTE)
  t.equal(await at.stateOf(id), 'lost')

  const late = await at.claimed(['broken'])
  await at.elapse(7 * MINUTE, 0)
  t.equal(await at.stateOf(late.id), 'unknown', 'the node is behind')
  await at.elapse(MINUTE, 8 * MINUTE)
  t.equal(await at.stateOf(late.id), 'lost')
  chain.expire(false)
  await assertNoInvariantViolations(t, at.sql)
})

t.test(
  'a failed or redirected transaction is lost, one with too small an amount stays open',
  async (t) => {
    const at = await settling(t)
    const failed = await at.claimed(['unanswered'], { ...ALL, failed: true })
    const elsewhere = await at.claimed(['unanswered'], { ...ALL, to: failed.payment.from })
    const short = await at.claimed(['unanswered'], { ...ALL, amount: 29_999n })
    await at.elapse(MINUTE)
    t.equal(await at.stateOf(failed.id), 'lost')
    t.equal(await at.stateOf(elsewhere.id), 'lost')
    t.equal(await at.stateOf(short.id), 'unknown')
    t.match(at.log.join('\n'), `has brought 29999 for settlement ${short.id}`)
  },
)

t.test('unusable replies of a node leave the payment open', async (t) => {
  const at = await settling(t)
  const { id } = await at.claimed(['unanswered'])
  chain.expire(true)
  for (const trouble of ['down', 'garbage', 'error', 'huge'] as const) {
    chain.fail(trouble)
    await at.elapse(7 * MINUTE)
    t.equal(await at.stateOf(id), 'unknown', trouble)
  }
  t.match(at.log.join('\n'), /the chain cannot be asked .* refuses get\w+: -32011/)
  t.notMatch(at.log.join('\n'), new RegExp(`${chain.url}/`), 'no path of a node is told')
  chain.fail(null)
  await at.elapse(MINUTE)
  t.equal(await at.stateOf(id), 'settled')

  const elsewhere = await settling(t)
  const gone = await elsewhere.claimed(['unanswered'])
  chain.isOf('EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG')
  await elsewhere.elapse(7 * MINUTE)
  t.equal(await elsewhere.stateOf(gone.id), 'unknown', 'the node is of another chain')
  chain.isOf()
  await elsewhere.elapse(MINUTE)
  t.equal(await elsewhere.stateOf(gone.id), 'settled')
  chain.expire(false)
})

t.test('an unsent payment is lost at once, and found if it landed anyway', async (t) => {
  const at = await settling(t)
  const never = { refuses: 'transaction_simulation_failed', moves: true } as const
  const { id } = await at.claimed([never])
  t.equal(await at.stateOf(id), 'lost', 'its payer had sent it himself')
  await at.elapse(7 * MINUTE)
  t.equal(await at.stateOf(id), 'settled')
  await assertNoInvariantViolations(t, at.sql)
})

t.test('without a node no payment that may have arrived is reported as lost', async (t) => {
  const at = await settling(t, { withNode: false })
  const { id } = await at.claimed(['unanswered'])
  // A second request fails because the first was executed; it proves nothing about the first.
  facilitator.decide([{ refuses: 'transaction_simulation_failed' }], NO)
  for (let minutes = 0; minutes < 60; minutes += 12) {
    await at.elapse(12 * MINUTE)
    t.equal(await at.stateOf(id), 'unknown')
  }
  t.match(at.log.join('\n'), `nobody can say whether settlement ${id} arrived`)
  const before = facilitator.asked()
  await at.elapse(5 * MINUTE)
  t.equal(facilitator.asked(), before, 'nor is the facilitator pressed for it')
  facilitator.decide([], 'settle')
  await at.elapse(12 * MINUTE)
  t.equal(await at.stateOf(id), 'settled', 'its yes is still heard')
})
