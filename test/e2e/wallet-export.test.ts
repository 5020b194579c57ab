import t, { type Test } from 'tap'
import { privateKeyToAddress } from 'viem/accounts'
import { walletStore } from '../../persistence/wallets.ts'
import { spawnBeside, startStation, type Guest, type Served } from '../support/station.ts'

const handed = (node: Served, { key }: Guest, headers: Record<string, string> = {}) =>
  node.ask('POST', '/api/wallet/export', { key, json: { confirm: true }, headers })
const received = (node: Served, { key }: Guest, wallet_address: unknown) =>
  node.ask('POST', '/api/wallet/export/received', { key, json: { wallet_address } })

t.test('the key of a wallet survives an answer that was lost', async (t) => {
  const main = await startStation(t)
  const two = await spawnBeside(t, main, { MASTER_KEY: Buffer.alloc(32, 7).toString('base64') })
  const exports = async (her: Guest) =>
    (await main.sql`select from wallet_exports where agent_id = ${her.id}`).length
  const same = (t: Test, answers: Awaited<ReturnType<typeof handed>>[]) => {
    t.ok(answers.every(({ status }) => status === 200))
    const told = new Set(answers.map(({ body }) => JSON.stringify(body)))
    t.equal(told.size, 1, 'one answer')
    const { body } = answers[0] as (typeof answers)[number]
    t.equal(privateKeyToAddress(body['private_key'] as `0x${string}`), body['wallet_address'])
  }

  t.test('asked again without an Idempotency-Key it is the same wallet', async (t) => {
    const her = await main.onboard()
    same(t, [await handed(main, her), await handed(main, her), await handed(two, her)])
    t.equal(await exports(her), 1)
    const other = await main.ask('POST', '/api/keys', { key: her.key, json: {} })
    const { status, body } = await handed(main, { ...her, key: other.body.api_key })
    t.equal(status, 200)
    t.equal(await exports(her), 2, 'another key has asked for the present one')
    t.not(body['wallet_address'], (await handed(main, her)).body['wallet_address'])
  })

  t.test('asked on two nodes at once it is one wallet', async (t) => {
    for (const headers of [{}, { 'idempotency-key': 'mine' }]) {
      const her = await main.onboard()
      const nodes = [main, two, main, two]
      same(t, await Promise.all(nodes.map((node) => handed(node, her, headers))))
      t.equal(await exports(her), 1)
      same(t, [await handed(main, her, headers), await handed(two, her, headers)])
    }
  })

  t.test(
    'a crash after the hand-over and before its answer was kept changes nothing',
    async (t) => {
      const her = await main.onboard()
      const headers = { 'idempotency-key': 'mine' }
      const first = await handed(main, her, headers)
      await main.sql`delete from calls where owner = ${her.id} and idempotency_key = 'mine'`
      same(t, [first, await handed(two, her, headers)])
      t.equal(await exports(her), 1)
    },
  )

  t.test('once its owner has it, nobody else does', async (t) => {
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
    const next = await handed(main, her, { 'idempotency-key': 'next' })
    t.equal(next.body['wallet_address'], body['new_wallet_address'])
  })

  t.test('after a day it is forgotten by itself', async (t) => {
    const her = await main.onboard()
    const { body } = await handed(main, her)
    const store = walletStore(main.sql)
    const now = Date.now()
    await store.forgetOld(new Date(now - 60_000), new Date(now))
    t.equal((await handed(main, her)).body['private_key'], body['private_key'], 'not before')
    await store.forgetOld(new Date(now + 60_000), new Date(now))
    const [row] = await main.sql<{ sealed: Buffer }[]>`select sealed from wallets
      where agent_id = ${her.id} and address = ${String(body['wallet_address'])}`
    t.equal(row?.sealed.length, 0)
    t.equal((await handed(main, her)).body['wallet_address'], body['new_wallet_address'])
  })

  t.test('its owner hears of it', async (t) => {
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
  t.test('nothing is broken afterwards', () => main.verify())
})
