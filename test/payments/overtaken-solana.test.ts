import { json } from 'node:stream/consumers'
import t from 'tap'
import { NETWORKS } from '../../chain/networks.ts'
import { facilitatorClient } from '../../chain/x402/facilitator.ts'
import { SECOND } from '../../core/clock.ts'
import { settler } from '../../payments/settler.ts'
import { settlementStore } from '../../persistence/settlements.ts'
import { settlerLane } from '../../persistence/settler-lane.ts'
import { offer } from '../chain/offers.ts'
import { testDatabase } from '../support/database.ts'
import { soundly } from '../support/nodes.ts'
import { claim, claimOf, paymentOf, settlementOf, TIMERS } from '../support/payments.ts'
import { node } from '../support/runtime.ts'
import { serve } from '../support/upstreams/serve.ts'
import { movable, until } from './settling.ts'

const network = NETWORKS.solana.caip2
/** What a facilitator says that has tried what another of its servers has sent in the meantime. */
const REFUSED = {
  success: false,
  errorReason: 'transaction_simulation_failed',
  transaction: '',
  network,
}
const SENT_LATER = { success: true, transaction: '5later', network }
const SENT = { success: true, transaction: '5sent', network }

t.test('Solana: what one node asks to settle no other node asks for beside it', async (t) => {
  const asked: ((answer: object) => void)[] = []
  const { base: url } = await serve(t, (request, response) => {
    void json(request).then(() => asked.push((answer) => response.end(JSON.stringify(answer))))
  })
  const { sql } = await testDatabase(t)
  const clock = movable()
  const store = settlementStore(sql)
  const nodes = [1, 2].map(() => {
    const actors = node(t, sql, { clock, timerCommands: TIMERS })
    const facilitator = facilitatorClient({ url, send: fetch, clock })
    const off = { base: null, bsc: null, tempo: null, sweepMs: null }
    const rest = { actors, store, clock, lane: settlerLane(sql), facilitator, log: () => {} }
    const made = settler({ ...rest, ...off })
    t.teardown(() => made.close())
    return { actors, settler: made }
  })
  const [one, two] = nodes as [(typeof nodes)[number], (typeof nodes)[number]]
  const [, , requirement] = offer().requirements
  if (requirement === undefined) throw new Error('Solana is not offered')
  const { asset } = NETWORKS.solana
  const proof = { kind: 'solana', transaction: 'AQAB', requirement } as const
  const payment = paymentOf(0.03, { chain: network, asset, from: 'Payer', proof })
  const id = settlementOf(payment)
  const settleFirst = { chain: 'solana', mode: 'first', balance: null, balanceBlock: 0n } as const
  await claim(one.actors, claimOf(payment, settleFirst))

  const first = one.settler.settled(id, 60_000)
  await until(async () => asked.length === 1)
  const second = two.settler.settled(id, 1_000)
  t.equal(await second, 'pending')
  t.equal(asked.length, 1)
  asked[0]?.(asked.length > 1 ? REFUSED : SENT)
  t.equal(await first, 'settled')

  const other = { ...payment, nonce: `${payment.nonce}0` }
  const left = settlementOf(other)
  await claim(one.actors, claimOf(other, settleFirst))
  const never = one.settler.settled(left, 60_000)
  await until(async () => asked.length === 2)
  t.equal(await two.settler.settled(left, 500), 'pending')
  clock.pass(20 * SECOND)
  const last = two.settler.settled(left, 60_000)
  await until(async () => asked.length === 3)
  asked[2]?.(SENT_LATER)
  t.equal(await last, 'settled', 'whoever was asked first has had its time')
  asked[1]?.(REFUSED)
  t.equal(await never, 'settled')
  await soundly(t, sql)
})
