import t from 'tap'
import { privateKeyToAddress } from 'viem/accounts'
import { LIMITS } from '../../../core/limits.ts'
import { startRpcFaultProxy } from '../../support/chain/rpc-fault-proxy.ts'
import {
  spawnTestStationProcess,
  startInProcessTestStation,
  type TestAgent,
  type TestStation,
} from '../../support/station/start-test-station.ts'
import {
  startTestStationWithPaymentChain,
  startTestPaymentChain,
  type TestPaymentChain,
} from '../../support/payments/test-station-with-payment-chain.ts'
import {
  requestUntilReplyMatches,
  usdcToMicrosBigint,
} from '../../support/payments/deposit-wallet-and-scanner-test-fixtures.ts'
import { createStationDataDir } from '../../support/station/temporary-station-data-directory.ts'

const OLD = '/api/wallet'
const confirm = { confirm: true }

interface WalletBody {
  readonly [name: string]: unknown
  readonly wallet_address: string
  readonly cash_usdc: number
  readonly pending_usdc: number
}

const walletOf = async (
  station: TestStation,
  { key }: TestAgent,
  path = OLD,
): Promise<WalletBody> => (await station.ask('GET', path, { key })).body as unknown as WalletBody

/** Makes a deposit and waits until it is in the ledger. */
async function deposited(
  station: TestStation,
  till: TestPaymentChain,
  guest: TestAgent,
  amount: number,
) {
  const arrived = async () => {
    const wallet = await walletOf(station, guest, '/api/wallet/status')
    return { address: wallet.wallet_address, usdc: wallet.cash_usdc + wallet.pending_usdc }
  }
  const { address, usdc: before } = await arrived()
  await till.mintUsdc(address, usdcToMicrosBigint(amount))
  await till.base.mine(LIMITS.depositConfirmations)
  await requestUntilReplyMatches(arrived, ({ usdc: now }) => now >= before + amount)
  return address
}

const exported = (
  station: TestStation,
  guest: Pick<TestAgent, 'key'>,
  headers = {},
  json: object = confirm,
) => station.ask('POST', '/api/wallet/export', { key: guest.key, json, headers })

/** The same, mining blocks until the sweep is final. */
async function handedOver(
  station: TestStation,
  till: TestPaymentChain,
  ...asked: [Pick<TestAgent, 'key'>, object?]
) {
  for (;;) {
    const answer = await exported(station, ...asked)
    if (answer.body['state'] !== 'finalizing') return answer
    await till.base.mine(8)
  }
}

t.test('without a chain the wallet reports that deposits are off', async (t) => {
  const main = await startInProcessTestStation(t)
  const her = await main.onboard()
  const wallet = await walletOf(main, her)
  t.match(wallet, {
    wallet_address: /^0x[0-9a-fA-F]{40}$/,
    network: { chain: 'base', chain_id: 8453, asset: 'USDC' },
    deposits: 'off',
    usdc_on_chain: null,
    gas: { required: false, status: 'not_needed', reason: /Send no ETH/ },
    pending_usdc: 0,
    deposited_usdc: 0,
    minimum_usdc: 1,
    first_deposit_bonus: true,
    recent_deposits: [],
    fund_url: `http://gas.test/fund/${her.id}`,
  })
  t.match(await walletOf(main, her, '/api/wallet/status'), {
    wallet_address: wallet.wallet_address,
    deposits: 'off',
    balance_usdc: 0.5,
    promo_usdc: 0.5,
    cash_usdc: 0,
    held_usdc: 0,
    pending_usdc: 0,
    tier: 'healthy',
  })
  t.match(await walletOf(main, her, '/api/wallet/deposits'), { deposits: [], next_cursor: null })
  const { body } = await main.ask('GET', '/api/network/health')
  t.match(body, {
    status: 'ok',
    dependencies: { deposits: { ok: true, kind: 'disabled: no RPC' } },
  })
  for (const path of [OLD, '/api/wallet/status', '/api/wallet/deposits'])
    t.match(await main.ask('GET', path), { status: 401 }, path)
})

t.test('a deposit appears in the wallet, in its list and in the balance', async (t) => {
  const { main, till } = await startTestStationWithPaymentChain(t)
  const her = await main.onboard()
  const address = await deposited(main, till, her, 4)
  await deposited(main, till, her, 1)
  t.match(await walletOf(main, her), {
    wallet_address: address,
    deposits: 'on',
    usdc_on_chain: 5,
    deposited_usdc: 5,
    first_deposit_bonus: false,
    recent_deposits: [{ amount_usdc: 1 }, { amount_usdc: 4, tx_hash: /^0x[0-9a-f]{64}$/ }],
  })
  t.equal(await main.balance(her), 6.5, '0.5 to start with, 5 deposited, 1 as a bonus')
  const first = await walletOf(main, her, '/api/wallet/deposits?limit=1')
  t.match(first, { deposits: [{ amount_usdc: 1 }], next_cursor: String })
  const next = `/api/wallet/deposits?limit=1&cursor=${String(first['next_cursor'])}`
  t.match(await walletOf(main, her, next), { deposits: [{ amount_usdc: 4 }], next_cursor: null })
  const stranger = await main.onboard()
  t.match(await walletOf(main, stranger, '/api/wallet/deposits'), { deposits: [] })
  await main.verify()
})

t.test('health reports an unreachable chain, and the wallet still answers', async (t) => {
  const till = await startTestPaymentChain(t)
  const gate = await startRpcFaultProxy(t, till.base.rpcUrl)
  const main = await startInProcessTestStation(t, { ...till.settings, RPC_URL_BASE: gate.url })
  const her = await main.onboard()
  await deposited(main, till, her, 1)
  gate.decide(() => 'lost')
  const { body } = await requestUntilReplyMatches(
    () => main.ask('GET', '/api/network/health'),
    ({ body }) => body['status'] === 'degraded',
  )
  t.match(body, {
    degraded_dependencies: ['deposits'],
    dependencies: { deposits: { ok: false } },
  })
  t.match(await walletOf(main, her), { deposits: 'on', usdc_on_chain: null, deposited_usdc: 1 })
  t.equal((await exported(main, her)).body.code, 'wallet_export_pending')
  t.match(await walletOf(main, her), { deposits: 'paused', wallet_address: null })
  gate.decide(() => 'pass')
  t.match(
    await handedOver(main, till, her),
    { status: 200, body: { swept_usdc: 1 } },
    'and goes on later',
  )
  t.equal(await till.treasuryBalance(), usdcToMicrosBigint(1))
  await main.verify()
})

t.test('only the owner can export the key of a wallet', async (t) => {
  const main = await startInProcessTestStation(t)
  const her = await main.onboard()
  const keyWith = async (json: object) =>
    (await main.ask('POST', '/api/keys', { key: her.key, json })).body.api_key
  const { wallet_address: address } = await walletOf(main, her)
  const refusals: [string, Awaited<ReturnType<typeof exported>>, number, string][] = [
    [
      'no key',
      await main.ask('POST', '/api/wallet/export', { json: confirm }),
      401,
      'unauthenticated',
    ],
    ['no confirmation', await exported(main, her, {}, {}), 422, 'confirmation_required'],
    ['a denial', await exported(main, her, {}, { confirm: false }), 422, 'confirmation_required'],
    ['a word', await exported(main, her, {}, { confirm: 'true' }), 400, 'invalid_input'],
    [
      'a lesser key',
      await exported(main, { key: await keyWith({ scopes: ['read'] }) }),
      403,
      'insufficient_scope',
    ],
    [
      'a key for funds',
      await exported(main, { key: await keyWith({ scopes: ['funds'] }) }),
      403,
      'insufficient_scope',
    ],
    [
      'a key with a cap',
      await exported(main, { key: await keyWith({ cap_usdc: 1 }) }),
      403,
      'insufficient_scope',
    ],
  ]
  for (const [who, answer, status, code] of refusals) {
    t.match(answer, { status, body: { code } }, who)
    t.notMatch(answer.text, /0x[0-9a-f]{64}/, who)
  }
  t.equal((await walletOf(main, her)).wallet_address, address)
  const [{ n } = { n: -1 }] = await main.sql<
    { n: number }[]
  >`select count(*)::int as n from wallet_exports`
  t.equal(n, 0)
  for (let time = 0; time < LIMITS.walletExportsPerHour; time += 1) {
    const { wallet_address: present } = await walletOf(main, her)
    const headers = { 'idempotency-key': `time-${time}` }
    const json = { confirm: true, confirm_wallet_address: present }
    t.match(await exported(main, her, headers, json), { status: 200, body: { swept_usdc: 0 } })
  }
  const late = await exported(main, her, { 'idempotency-key': 'late' })
  t.match(late, { status: 429, body: { code: 'rate_limited' } })
  t.ok(late.body.retry_after > 3_000 && late.body.retry_after <= 3_600)
  t.match(await exported(main, await main.onboard()), { status: 200 }, 'others are not concerned')
  await main.verify()
})

t.test(
  'an exported wallet is empty of credited money, its owner has its key, and a new one takes deposits',
  async (t) => {
    const { main, till } = await startTestStationWithPaymentChain(t)
    const her = await main.onboard()
    const address = await deposited(main, till, her, 4)
    await deposited(main, till, her, 0.75)
    await till.mintUsdc(address, usdcToMicrosBigint(3))
    const balance = await main.balance(her)
    const headers = { 'idempotency-key': 'mine' }
    const answer = await handedOver(main, till, her, headers)
    t.match(answer, { status: 200, headers: { 'cache-control': 'no-store' } })
    const { private_key: key, new_wallet_address: fresh } = answer.body
    t.equal(privateKeyToAddress(key as `0x${string}`), answer.body['wallet_address'])
    t.equal(answer.body['wallet_address'], address)
    t.equal(answer.body['swept_usdc'], 4.75)
    t.equal(await till.treasuryBalance(), usdcToMicrosBigint(4.75))
    t.equal(
      await till.base.balanceOf(address),
      usdcToMicrosBigint(3),
      'what was not credited is hers',
    )
    t.equal(await main.balance(her), balance)
    t.equal((await walletOf(main, her)).wallet_address, fresh)

    const again = await exported(main, her, headers)
    t.match(again.headers, { 'idempotency-replayed': 'true', 'cache-control': 'no-store' })
    t.strictSame(again.body, answer.body, 'a repetition brings the same key')
    const everywhere = await main.sql<{ text: string }[]>`
    select coalesce(response, '') as text from calls union all select command::text || changed::text from journal
    union all select data::text from outbox union all select state::text from actors
    union all select row_to_json(e)::text from wallet_exports e`
    const kept = everywhere.map(({ text }) => text).join('\n')
    t.ok(kept.includes(String(fresh)))
    t.notOk(kept.includes(String(key).slice(2)), 'and it is kept nowhere in the clear')
    t.match(await main.sql`select type, data from outbox where type = 'wallet.exported'`, [
      { data: { wallet_address: address, new_wallet_address: fresh } },
    ])
    await till.mintUsdc(address, usdcToMicrosBigint(2))
    await deposited(main, till, her, 1)
    const wanted = balance + 0.75 + 1
    t.equal(await main.balance(her), wanted, 'the old address brings nothing, the new one does')
    await main.verify()
  },
)

t.test('each of many concurrent exports returns one wallet and sweeps it once', async (t) => {
  const { main, till } = await startTestStationWithPaymentChain(t)
  const her = await main.onboard()
  const address = await deposited(main, till, her, 2)
  const one = () => handedOver(main, till, her)
  const answers = await Promise.all([one(), one(), one()])
  const first = answers.filter(({ body }) => body['wallet_address'] === address)
  t.ok(first.length >= 1)
  t.ok(answers.every(({ status }) => status === 200))
  t.equal(await till.treasuryBalance(), usdcToMicrosBigint(2))
  const active =
    await main.sql`select from wallets where agent_id = ${her.id} and status = 'active'`
  t.equal(active.length, 1)
  await main.verify()
})

t.test('a wallet with credited money that cannot be moved is kept', async (t) => {
  const till = await startTestPaymentChain(t)
  const { SETTLER_PRIVATE_KEY: _gone, ...without } = till.settings as Record<string, string>
  const main = await startInProcessTestStation(t, without)
  const her = await main.onboard()
  const address = await deposited(main, till, her, 2)
  t.match(await exported(main, her), { status: 503, body: { code: 'wallet_export_pending' } })
  t.match(await walletOf(main, her), { wallet_address: address, deposits: 'on' })
  await deposited(main, till, her, 1)
  await main.verify()
})

t.test('no key of a wallet is ever logged', async (t) => {
  const till = await startTestPaymentChain(t)
  const main = await startInProcessTestStation(t)
  const station = await spawnTestStationProcess(t, {
    ...till.settings,
    LOG_LEVEL: 'trace',
    DATABASE_URL: main.database.settings.databaseUrl,
    DATA_DIR: createStationDataDir(t),
    PUBLIC_URL: 'http://gas.test',
  })
  const her = await station.onboard()
  await deposited(station, till, her, 1)
  t.equal((await exported(station, her, {}, {})).status, 422)
  const { body, status } = await handedOver(station, till, her)
  t.equal(status, 200)
  await station.end('SIGTERM')
  const said = station.outputLines.join('\n')
  t.match(said, /"route":"\/api\/wallet\/export","status":422/, 'refusals are logged')
  for (const secret of [String(body['private_key']).slice(2), her.key])
    t.notOk(said.includes(secret))
  await main.verify()
})
