import t from 'tap'
import type { HexString } from '../../chain/onchain-payment-types.ts'
import { LIMITS } from '../../core/limits.ts'
import { MINUTE, SECOND } from '../../core/clock.ts'
import {
  waitForFinalSettlement,
  assertPaymentsBalance,
  postPaidCall,
  HIVE_TRENDING_PRICE_ATOMIC,
  paymentSignatureHeader,
  startTestStationWithPaymentChain,
} from '../support/payments/test-station-with-payment-chain.ts'
import {
  decodePaymentResponse,
  settlementIdOfReply,
} from '../support/payments/test-station-with-payment-chain.ts'
import { startSettlerScenario, type SettlerScenario } from '../support/payments/settler-scenario.ts'

/**
 * The code of a payer, by hand: where `doubt` leaves something else than 0 on the stack it burns all
 * gas it has, else it says that any signature is its own (ERC-1271).
 *
 *   <doubt> PUSH1 burn JUMPI
 *   PUSH4 1626ba7e PUSH1 e0 SHL PUSH1 0 MSTORE PUSH1 20 PUSH1 0 RETURN
 *   burn: JUMPDEST INVALID
 */
function payerCode(doubt: string): HexString {
  const burn = (doubt.length / 2 + 3 + 16).toString(16).padStart(2, '0')
  return `0x${doubt}60${burn}57${'631626ba7e60e01b60005260206000f3'}5bfe`
}
/** PUSH1 0: never. */
const HONEST = payerCode('6000')
/** GASPRICE: true with a gas price, so in every block. */
const IF_PRICED = payerCode('3a')
/** PUSH3 1000000 GAS LT: true with less gas than a node grants to eth_call. */
const IF_BOUND = payerCode('620f42405a10')
/**
 * GASPRICE ISZERO ISZERO NUMBER PUSH1 1 AND AND: with a gas price, true in every other block. A call is
 * simulated at the newest block and executed in the next one, so the results may differ.
 */
const IF_ODD = payerCode('3a15154360011616')

t.test(
  'a smart contract payer settles first; code that fails in a block costs nothing',
  async (t) => {
    const { main, till } = await startTestStationWithPaymentChain(t)
    const { client } = till.base
    const settler = async () => {
      const [row] = await main.sql<{ sent: bigint }[]>`select count(*) as sent from settler_txs`
      return Number(row?.sent)
    }
    async function coded(bytecode: HexString) {
      const payer = await till.createPayer(HIVE_TRENDING_PRICE_ATOMIC)
      const header = await paymentSignatureHeader(payer, till, HIVE_TRENDING_PRICE_ATOMIC)
      await client.setCode({ address: payer.address, bytecode })
      return postPaidCall(main, header)
    }

    const honest = await coded(HONEST)
    t.equal(honest.status, 200, honest.text)
    t.match(
      decodePaymentResponse(honest.headers['payment-response'])['transaction'],
      /^0x[0-9a-f]{64}$/,
    )
    t.equal(await till.treasuryBalance(), HIVE_TRENDING_PRICE_ATOMIC, 'before the call ran')
    t.match(await waitForFinalSettlement(main, settlementIdOfReply(honest)), { state: 'settled' })
    const sent = await settler()

    for (const [name, bytecode] of Object.entries({ IF_PRICED, IF_BOUND })) {
      const reason = 'invalid_exact_evm_transaction_simulation_failed'
      t.match(await coded(bytecode), { status: 402, body: { reason } }, name)
    }
    t.equal(await settler(), sent, 'nothing was signed for them')
    await assertPaymentsBalance(t, main, till, HIVE_TRENDING_PRICE_ATOMIC)
  },
)

/** A delivered payment whose payer has got code since then, as EIP-7702 allows it. */
async function turned(at: SettlerScenario, bytecode: HexString) {
  const paid = await at.paid(0.03)
  await at.chain.client.setCode({ address: paid.payer.address, bytecode })
  return paid
}

t.test('a payment whose simulation fails is not signed', async (t) => {
  const at = await startSettlerScenario(t)
  const all = [await turned(at, IF_PRICED), await turned(at, IF_BOUND)]
  await at.settler.sweep()
  for (const { claimed } of all) t.equal(await at.stateOf(claimed), 'unknown/delivered')
  t.equal(await at.sent(), 0)
})

t.test('a settler without gas does not block the payer', async (t) => {
  const at = await startSettlerScenario(t, { gas: 0n })
  const { claimed } = await at.paid(0.03)
  await at.settler.sweep()
  t.equal(await at.stateOf(claimed), 'unknown/delivered')
  await at.chain.fund(at.account.address, 10n ** 18n)
  at.clock.pass(MINUTE)
  await at.settler.sweep()
  t.equal(await at.stateOf(claimed), 'settled/delivered')
})

t.test(
  'code that fails in every block is tried a limited number of times, then it is a loss',
  async (t) => {
    const at = await startSettlerScenario(t)
    const { claimed } = await turned(at, IF_ODD)
    const { client } = at.chain
    const even = async () => {
      if ((await client.getBlockNumber()) % 2n === 1n) await at.chain.mine(1)
    }
    await even()
    await at.settler.sweep()
    for (let failures = 1; failures < LIMITS.settleAttempts; failures += 1) {
      t.equal(await at.sent(), failures, 'signed, since it was right when it was asked')
      t.equal(await at.stateOf(claimed), 'unknown/delivered')
      await even()
      at.clock.pass(MINUTE)
      const since = at.clock.mono()
      await at.settler.sweep()
      t.equal(await at.stateOf(claimed), 'due/delivered')
      const rest = 2 * SECOND * 2 ** (failures - 1)
      let passed = 0
      for (; (await at.sent()) === failures && passed < 2 * rest; passed += rest / 4) {
        at.clock.pass(rest / 4)
        await at.settler.sweep()
      }
      t.ok(at.clock.mono() - since >= rest, 'not at once, and each time twice as late')
    }
    t.equal(await at.sent(), LIMITS.settleAttempts)
    t.equal(await at.stateOf(claimed), 'lost/delivered')
    t.match(at.logged.join('\n'), /has failed in 5 blocks: given up/)
    const [payer] = await at.sql`select state->>'value' as trust from actors where kind = 'payer'`
    t.match(payer, { trust: 'blocked' })
    const [loss] = await at.sql`select amount_micros as worth from transfers where kind = 'loss'`
    t.match(loss, { worth: 30_000n })
  },
)
