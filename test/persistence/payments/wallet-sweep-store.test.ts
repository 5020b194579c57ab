import t from 'tap'
import { newUuidV7 } from '../../../core/ids-and-api-keys.ts'
import { asMicros } from '../../../core/money.ts'
import {
  createDepositStore,
  type IncomingUsdcTransfer,
} from '../../../persistence/payments/deposit-store.ts'
import { createWalletSweepStore } from '../../../persistence/payments/wallet-sweep-store.ts'
import { createTestDatabase } from '../../support/postgres/test-database.ts'
import { pauseNextSqlStatementOnTable } from '../../support/postgres/pause-postgres-statement.ts'

const [CHAIN, ADDRESS] = ['base', `0x${'a1'.repeat(20)}`]
const AGENT = newUuidV7(Date.now())
const hash = (digits: string): string => `0x${digits.repeat(32)}`

/** A wallet with one credited deposit that a sweep has moved, in a block that is not final. */
async function swept(t: Parameters<typeof createTestDatabase>[0]) {
  const { sql } = await createTestDatabase(t)
  const at = new Date()
  await sql`insert into wallets (agent_id, address, sealed, key_id, created_at, status)
    values (${AGENT}, ${ADDRESS}, '', '', ${at}, 'active')`
  const amount = asMicros(5_000_000n)
  const place = { tx: hash('01'), logIndex: 0, block: 7n, blockHash: hash('b1') }
  const arrival: IncomingUsdcTransfer = { ...place, from: hash('ff'), to: ADDRESS, amount }
  await createDepositStore(sql).creditLate(CHAIN, [arrival], at, ({ agentId, times }) => ({
    transfer: { debit: 'world:base', credit: `agent:${agentId}:pending`, amount, kind: 'deposit' },
    message: { receiver: agentId, receiverKind: 'agent', id: `deposit:${times}`, event: {} },
  }))
  const store = createWalletSweepStore(sql)
  const terms = { to: hash('fe'), nonce: '0x01', validBefore: 0, fromBlock: 0 } as const
  const wallet = { agentId: AGENT, address: ADDRESS }
  const sweep = { id: newUuidV7(at.getTime()), terms, basis: 'credited', at } as const
  const started = await store.start(CHAIN, wallet, sweep)
  if (started === null) throw new Error('there was nothing to sweep')
  const done = { tx: hash('02'), logIndex: 1, block: 9n }
  await store.done(CHAIN, started, done, at)
  return { sql, store, amount, sweep: { ...started, swept: done } }
}

t.test('a sweep is uncertain until its block is final', async (t) => {
  const { store, amount, sweep } = await swept(t)
  t.equal(await store.owed(CHAIN, ADDRESS), 0n)
  t.equal(await store.unsure(CHAIN, ADDRESS), amount)
  await store.final(sweep, new Date())
  t.equal(await store.unsure(CHAIN, ADDRESS), 0n)
})

t.test(
  'a wallet whose sweep is reverted during the request is not reported as empty',
  async (t) => {
    const { sql, store, amount, sweep } = await swept(t)
    const unsure = await pauseNextSqlStatementOnTable(
      sql,
      'deposits',
      () => sql.begin((tx) => store.unsureIn(tx, CHAIN, ADDRESS)),
      () => store.reopen(CHAIN, sweep),
    )
    t.equal(unsure, amount, 'its money is there again, or never was away')
  },
)
