import t, { type Test } from 'tap'
import { privateKeyToAddress } from 'viem/accounts'
import { MINUTE, createDatabaseAdjustedClock } from '../../../core/clock.ts'
import { LIMITS } from '../../../core/limits.ts'
import { createWalletStore } from '../../../persistence/payments/wallet-store.ts'
import {
  spawnSecondNode,
  startInProcessTestStation,
  type TestAgent,
  type TestStation,
} from '../../support/station/start-test-station.ts'
import { startTestStationWithPaymentChain } from '../../support/payments/test-station-with-payment-chain.ts'
import {
  requestUntilReplyMatches,
  usdcToMicrosBigint,
} from '../../support/payments/deposit-wallet-and-scanner-test-fixtures.ts'

const handed = (
  node: TestStation,
  { key }: TestAgent,
  headers: Record<string, string> = {},
  more: object = {},
) => node.ask('POST', '/api/wallet/export', { key, json: { confirm: true, ...more }, headers })
const received = (node: TestStation, { key }: TestAgent, wallet_address: unknown) =>
  node.ask('POST', '/api/wallet/export/received', { key, json: { wallet_address } })

t.test('the key of a wallet survives a lost answer', async (t) => {
  const main = await startInProcessTestStation(t)
  const two = await spawnSecondNode(t, main, { MASTER_KEY: Buffer.alloc(32, 7).toString('base64') })
  const exports = async (her: TestAgent) =>
    (await main.sql`select from wallet_exports where agent_id = ${her.id}`).length
  const same = (t: Test, answers: Awaited<ReturnType<typeof handed>>[]) => {
    t.ok(answers.every(({ status }) => status === 200))
    const told = new Set(answers.map(({ body }) => JSON.stringify(body)))
    t.equal(told.size, 1, 'one answer')
    const { body } = answers[0] as (typeof answers)[number]
    t.equal(privateKeyToAddress(body['private_key'] as `0x${string}`), body['wallet_address'])
  }

  t.test('a second request without an Idempotency-Key returns the same wallet', async (t) => {
    const her = await main.onboard()
    same(t, [await handed(main, her), await handed(main, her), await handed(two, her)])
    t.equal(await exports(her), 1)
    const other = await main.ask('POST', '/api/keys', { key: her.key, json: {} })
    const with2 = { ...her, key: other.body.api_key }
    const present = (await main.ask('GET', '/api/wallet', { key: her.key })).body['wallet_address']
    t.match(await handed(main, with2), {
      status: 422,
      body: { code: 'confirmation_required', wallet_address: present },
    })
    const wrong = { confirm_wallet_address: `0x${'1'.repeat(40)}` }
    t.equal((await handed(main, with2, {}, wrong)).status, 422, 'nor by another name')
    t.equal(await exports(her), 1, 'and nothing has begun')
    t.equal(
      (await main.ask('GET', '/api/wallet', { key: her.key })).body['wallet_address'],
      present,
    )
    const meant = { confirm_wallet_address: String(present).toLowerCase() }
    const { status, body } = await handed(main, with2, {}, meant)
    t.equal(status, 200)
    t.equal(body['wallet_address'], present)
    t.equal(await exports(her), 2, 'another key has asked for the present one')
    t.not(body['wallet_address'], (await handed(main, her)).body['wallet_address'])
  })

  t.test('the reply is repeated only to the API key that requested it', async (t) => {
    const her = await main.onboard()
    const made = await main.ask('POST', '/api/keys', { key: her.key, json: {} })
    const other = { ...her, key: made.body.api_key }
    const headers = { 'idempotency-key': 'mine' }
    const first = await handed(main, her, headers)
    const refused = { status: 422, body: { code: 'idempotency_key_reused' } }
    t.match(await handed(main, other, headers), refused)
    t.match(await handed(two, other, headers), refused)
    same(t, [first, await handed(two, her, headers)])
    t.equal(await exports(her), 1)
  })

  t.test('concurrent requests on two nodes return one wallet', async (t) => {
    for (const headers of [{}, { 'idempotency-key': 'mine' }]) {
      const her = await main.onboard()
      const nodes = [main, two, main, two]
      same(t, await Promise.all(nodes.map((node) => handed(node, her, headers))))
      t.equal(await exports(her), 1)
      same(t, [await handed(main, her, headers), await handed(two, her, headers)])
    }
  })

  t.test('a crash between export and stored reply changes nothing', async (t) => {
    const her = await main.onboard()
    const headers = { 'idempotency-key': 'mine' }
    const first = await handed(main, her, headers)
    await main.sql`delete from calls where owner = ${her.id} and idempotency_key = 'mine'`
    same(t, [first, await handed(two, her, headers)])
    t.equal(await exports(her), 1)
  })

  t.test('after the export no other owner can request the key', async (t) => {
    const her = await main.onboard()
    const eve = await main.onboard()
    const headers = { 'idempotency-key': 'mine' }
    const { body } = await handed(main, her, headers)
    const address = body['wallet_address']
    t.equal((await received(main, eve, address)).status, 404, 'not for others to say')
    t.equal((await received(main, her, body['new_wallet_address'])).status, 404, 'it is in use')
    t.equal((await handed(two, her, headers)).body['private_key'], body['private_key'])
    t.match(await received(two, her, address), { status: 200, body: { key_kept: false } })
    t.match(await received(main, her, address), { status: 200 }, 'said twice')
    t.match(await handed(main, her, headers), { status: 404, body: { code: 'wallet_not_found' } })
    const [row] = await main.sql<{ sealed: Buffer }[]>`
      select sealed from wallets where agent_id = ${her.id} and address = ${String(address)}`
    t.equal(row?.sealed.length, 0, 'the envelope is gone')
    const meant = { confirm_wallet_address: body['new_wallet_address'] }
    const next = await handed(main, her, { 'idempotency-key': 'next' }, meant)
    t.equal(next.status, 200)
    t.equal(next.body['wallet_address'], body['new_wallet_address'])
  })

  t.test('the key is deleted a day after it was read, and not before', async (t) => {
    const her = await main.onboard()
    const { body } = await handed(main, her)
    const store = createWalletStore(main.sql)
    const now = Date.now()
    const later = new Date(now + 60_000)
    await store.forgetOld(new Date(now - 60_000), new Date(now))
    t.equal((await handed(main, her)).body['private_key'], body['private_key'], 'not before')
    const kept = async () => {
      const [row] = await main.sql<{ sealed: Buffer }[]>`select sealed from wallets
        where agent_id = ${her.id} and address = ${String(body['wallet_address'])}`
      return (row?.sealed.length ?? 0) > 0
    }
    await main.sql`update wallet_exports set read_at = null where agent_id = ${her.id}`
    await store.forgetOld(later, later)
    t.ok(await kept(), 'unread: the answer was lost before it was created')
    t.equal((await handed(two, her)).body['private_key'], body['private_key'])
    await store.forgetOld(new Date(now - 60_000), later)
    t.ok(await kept(), 'read just now')
    await store.forgetOld(later, later)
    t.notOk(await kept())
    const meant = { confirm_wallet_address: body['new_wallet_address'] }
    const next = await handed(main, her, {}, meant)
    t.equal(next.status, 200)
    t.equal(next.body['wallet_address'], body['new_wallet_address'])
  })

  t.test('the owner is notified', async (t) => {
    const her = await main.onboard()
    const { body } = await handed(main, her)
    const { wallet_address, new_wallet_address } = body
    t.strictSame(
      [
        ...(await main.sql`select data from outbox where agent_id = ${her.id} and type = 'wallet.exported'`),
      ],
      [{ data: { wallet_address, new_wallet_address } }],
    )
  })
  t.test('gas verify finds no difference afterwards', () => main.verify())
})

t.test('the key of a wallet is not released while a reorg could return money', async (t) => {
  const real = createDatabaseAdjustedClock()
  let ahead = 0
  const clock = { ...real, mono: () => real.mono() + ahead }
  const { main, till } = await startTestStationWithPaymentChain(t, {}, { clock })
  const { base } = till
  /** An agent whose wallet has received and credited the given amount. */
  async function rich(amount: number) {
    const her = await main.onboard()
    const wallet = async () => (await main.ask('GET', '/api/wallet/status', { key: her.key })).body
    const address = String((await wallet())['wallet_address'])
    await till.mintUsdc(address, usdcToMicrosBigint(amount))
    await base.mine(LIMITS.depositConfirmations)
    await requestUntilReplyMatches(wallet, (now) => Number(now['cash_usdc']) >= amount)
    return { ...her, address }
  }
  const sweepOf = async ({ address }: { address: string }) => {
    const [row] = await main.sql<{ state: string; tx: string; final: boolean }[]>`
      select state, tx, final_at is not null as final from sweeps
       where address = ${address.toLowerCase()} order by started_at desc limit 1`
    return row
  }
  const waits = { status: 503, body: { code: 'wallet_export_pending', state: 'finalizing' } }

  t.test('until the block of its sweep is final', async (t) => {
    const her = await rich(2)
    t.match(await handed(main, her), waits)
    t.equal(await base.balanceOf(her.address), 0n, 'it was swept')
    t.match(await sweepOf(her), { state: 'done', final: false })
    await base.mine(1)
    const early = await handed(main, her)
    t.match(early, waits, 'one block is not enough')
    t.notMatch(early.text, /0x[0-9a-f]{64}/)
    await base.mine(12)
    t.match(await handed(main, her), { status: 200, body: { swept_usdc: 2 } })
    t.match(await sweepOf(her), { state: 'done', final: true })
  })

  t.test('also when the sweep ended before the first request for the key', async (t) => {
    const her = await rich(2)
    await base.mine(12)
    // Wallets are swept each minute.
    ahead += MINUTE
    await requestUntilReplyMatches(
      () => sweepOf(her),
      (sweep) => sweep?.state === 'done',
    )
    t.match(await handed(main, her), waits)
    await base.mine(12)
    t.match(await handed(main, her), { status: 200, body: { swept_usdc: 2 } })
  })

  t.test('and a reorganisation that drops the sweep only delays it', async (t) => {
    const her = await rich(3)
    const before = await till.treasuryBalance()
    t.match(await handed(main, her), waits)
    const dropped = (await sweepOf(her))?.tx
    await base.reorg(1)
    t.equal(await base.balanceOf(her.address), usdcToMicrosBigint(3), 'the money is back')
    await base.mine(12)
    const answer = await requestUntilReplyMatches(
      async () => {
        await base.mine(1)
        return handed(main, her)
      },
      ({ status }) => status === 200,
    )
    t.equal(await base.balanceOf(her.address), 0n)
    t.equal(await till.treasuryBalance(), before + usdcToMicrosBigint(3))
    t.equal(answer.body['swept_usdc'], 3)
    const moves =
      await main.sql`select tx, (tx = ${String(dropped)}) as dropped from chain_transfers m
      where kind = 'sweep' and ref in (select id::text from sweeps where address = ${her.address.toLowerCase()})`
    t.equal(moves.length, 1, 'and it is booked where it is')
  })

  t.test('a sweep moved to a later block delays the key until that block', async (t) => {
    const her = await rich(2)
    t.match(await handed(main, her), waits)
    const { tx = '' } = (await sweepOf(her)) ?? {}
    await base.reorg(1)
    await base.mine(5)
    const [signed] = await main.sql<{ raw: `0x${string}` }[]>`
      select raw from settler_txs where hash = ${tx}`
    await base.client.sendRawTransaction({ serializedTransaction: signed?.raw ?? '0x' })
    t.match(await handed(main, her), waits, 'the block that it was in would be final')
    await base.mine(12)
    t.match(await handed(main, her), { status: 200, body: { swept_usdc: 2 } })
  })

  t.test('gas verify finds no difference afterwards', () => main.verify())
})
