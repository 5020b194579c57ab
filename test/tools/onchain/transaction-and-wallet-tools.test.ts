import t, { type Test } from 'tap'
import { encodeFunctionData, erc20Abi, parseEther, parseGwei, type Hex } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { startAnvilNode } from '../../support/chain/anvil.ts'
import { startLocalBase } from '../../support/chain/local-chain.ts'
import { createEvmReadClient } from '../../../chain/evm/evm-read-client.ts'
import { CHAINLINK_FEED_ADDRESSES } from '../../../providers/prices/chainlink.ts'
import { LABELLED_ETHEREUM_ADDRESSES } from '../../../providers/chain-data/ethereum-address-labels.ts'
import { WIDELY_HELD_TOKENS } from '../../../providers/chain-data/bundled-token-contract-list.ts'
import { getAddress } from 'viem'
import broadcastTool from '../../../tools/onchain/tx-broadcast.ts'
import { startRpcFaultProxy } from '../../support/chain/rpc-fault-proxy.ts'
import {
  startInProcessTestStation,
  spawnTestStationProcess,
} from '../../support/station/start-test-station.ts'
import { startTestPriceApis } from '../../support/upstreams/test-price-apis.ts'
import { installPriceOracle } from '../../support/chain/test-price-oracle-contract.ts'
import { installEnsContracts } from '../../support/chain/test-ens-contracts.ts'
import { createStationDataDir } from '../../support/station/temporary-station-data-directory.ts'

const CLOSED = 'http://127.0.0.1:1'
const SENDER = privateKeyToAccount(
  '0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d',
)
const SOMEBODY: Hex = '0x00000000000000000000000000000000000b0b01'

const [base, mainnet] = await Promise.all([startLocalBase(), startAnvilNode(['--chain-id', '1'])])
t.teardown(() => Promise.all([base.stop(), mainnet.stop()]))
const gate = await startRpcFaultProxy(t, base.rpcUrl)
const house = await startTestPriceApis(t)
const settings = {
  RPC_URL_BASE: gate.url,
  // The first node of the list does not answer.
  RPC_URL_ETHEREUM: `${CLOSED},${mainnet.rpcUrl}`,
  COINGECKO_BASE: house.settings.coingecko,
  FREE_TIER_PER_DAY: '1000',
}
const on = await startInProcessTestStation(t, settings)
const { call, onboard, balance } = on
const ethereum = createEvmReadClient(1, [mainnet.rpcUrl])
const rpc = (method: string, params: unknown[]) =>
  ethereum.request({ method, params } as never) as Promise<unknown>

let nonce = 0
const signed = (fields: object = {}) =>
  SENDER.signTransaction({
    type: 'eip1559',
    chainId: 8453,
    nonce: nonce++,
    to: SOMEBODY,
    value: 1n,
    gas: 21_000n,
    maxFeePerGas: parseGwei('20'),
    maxPriorityFeePerGas: parseGwei('1'),
    ...fields,
  })

t.test('listed addresses have valid checksums', async (t) => {
  for (const address of [
    ...LABELLED_ETHEREUM_ADDRESSES,
    ...CHAINLINK_FEED_ADDRESSES,
    ...WIDELY_HELD_TOKENS.map((one) => one.address),
  ])
    t.equal(getAddress(address.toLowerCase()), address)
})

t.test('an on-chain oracle replaces the market price unless its round is old', async (t) => {
  const [btc = '', , link = ''] = CHAINLINK_FEED_ADDRESSES
  await installPriceOracle(rpc, link, 14.5, Date.now())
  await installPriceOracle(rpc, btc, 91_000, Date.now() - 2 * 3_600_000)
  house.market.mood.coingecko = '500'
  const { status, body } = await call(null, 'price_feed', { query: 'LINK,BTC' })
  house.market.mood.coingecko = 'ok'
  t.equal(status, 200)
  t.match(body, {
    source: 'chainlink',
    prices: { LINK: { usd: 14.5 } },
    _meta: { mode: 'fixture' },
  })
  t.strictSame((body['prices'] as Record<string, unknown>)['BTC'], null)
})

t.test('a simulation returns gas, its cost in dollars and the result', async (t) => {
  const { status, body } = await call(null, 'tx_simulate', {
    chain: 'base',
    to: base.usdc,
    calldata: encodeFunctionData({ abi: erc20Abi, functionName: 'decimals' }),
  })
  t.equal(status, 200)
  t.match(body, {
    success: true,
    revert_reason: null,
    network: 'local-devnet',
    chain_id: 8453,
    simulation_result: { return_data: `0x${'6'.padStart(64, '0')}`, eth_usd: 3_000 },
    _meta: { mode: 'fixture', provider: 'rpc:base' },
  })
  const gas = body['gas_estimate'] as number
  const { gas_price_wei: price } = body['simulation_result'] as { gas_price_wei: string }
  const expected = (gas * Number(price) * 3_000) / 1e18
  t.ok(gas > 21_000 && Math.abs((body['gas_cost_usdc'] as number) - expected) < 1e-5)
})

t.test('a revert is a result with its reason, also without eth_simulateV1', async (t) => {
  const calldata = encodeFunctionData({
    abi: erc20Abi,
    functionName: 'transfer',
    args: [SOMEBODY, 5n],
  })
  const fields = { chain: 'base', to: base.usdc, calldata, from: SENDER.address }
  const { status, body } = await call(null, 'tx_simulate', fields)
  t.equal(status, 200)
  t.match(body, { success: false })
  t.match(body['revert_reason'], /balance/i)
  t.match(body, { simulation_result: { method: 'eth_simulateV1' } })
  const poor = { chain: 'base', to: SOMEBODY, value_wei: String(10n ** 30n), from: SOMEBODY }
  t.match((await call(null, 'tx_simulate', poor)).body, { success: false })
  gate.decide((method) => (method === 'eth_simulateV1' ? 'lost' : 'pass'))
  const down = await call(null, 'tx_simulate', fields)
  t.match(down.body, { code: 'upstream_error', refunded: true }, 'a node that is gone says nothing')
  gate.decide(() => 'pass')
})

t.test('a simulation without a price has no cost, and an unreachable chain is free', async (t) => {
  house.market.mood.coingecko = '500'
  const { body } = await call(null, 'tx_simulate', { chain: 'ethereum', to: SOMEBODY })
  house.market.mood.coingecko = 'ok'
  t.match(body, { success: true, gas_estimate: 21_000 }, 'the second node of the list answered')
  t.ok([null, body['gas_cost_usdc']].includes(body['gas_cost_usdc'] as null))
  const down = await call(null, 'tx_simulate', { chain: 'polygon', to: SOMEBODY })
  t.match(down, { status: 502, body: { code: 'upstream_error', refunded: true } })
  const typo = { chain: 'base', to: base.usdc.replace('0x833589fc', '0x833589fC') }
  t.match((await call(null, 'tx_simulate', typo)).body, { errors: [{ pointer: '/to' }] })
  const bad = await call(null, 'tx_simulate', { chain: 'solana', to: SOMEBODY })
  t.match(bad, { status: 400, body: { code: 'invalid_input' } })
})

t.test('tx_broadcast', async (t) => {
  await base.fund(SENDER.address, parseEther('10'))
  const guest = await onboard()
  const send = (raw: string, headers = {}) =>
    call(guest, 'tx_broadcast', { chain: 'base', raw_tx: raw }, headers)
  let funds = await balance(guest)
  const charged = async (
    t: { equal(a: unknown, b: unknown, m: string): unknown },
    usdc: number,
  ) => {
    const now = await balance(guest)
    t.equal(Math.round((funds - now) * 1e6) / 1e6, usdc, `it costs ${usdc}`)
    funds = now
  }

  t.test('sends a transaction, and recognises one that was sent before', async (t) => {
    const raw = await signed()
    const { status, body } = await send(raw)
    t.match({ status, body }, { status: 200, body: { status: 'accepted', from: SENDER.address } })
    await base.client.waitForTransactionReceipt({ hash: body['tx_hash'] as Hex })
    await charged(t, 0.08)
    t.match((await send(raw)).body, { status: 'included', tx_hash: body['tx_hash'] })
    await charged(t, 0.08)
  })

  t.test('a transaction that cannot be sent is rejected without a charge', async (t) => {
    const unsigned =
      '0x02e7822105808459682f0085012a05f2008252089400000000000000000000000000000000000b0b010180c0'
    const cases = [unsigned, '0x1234', await signed({ chainId: 1, nonce: 0 })]
    for (const raw of cases) {
      const { status, body } = await send(raw)
      t.match({ status, body }, { status: 400, body: { code: 'invalid_input' } })
      t.equal(body.errors[0]?.pointer, '/raw_tx')
    }
    await charged(t, 0)
  })

  t.test('a transaction rejected by the chain is not charged', async (t) => {
    const { status, body } = await send(await signed({ nonce: 0, value: 7n }))
    t.match(
      { status, body },
      { status: 422, body: { code: 'transaction_rejected', refunded: true } },
    )
    t.match(body['reason'], /nonce/i)
    await charged(t, 0)
  })

  t.test('a transaction whose reply was lost is looked up on the chain', async (t) => {
    gate.decide((method) => (method === 'eth_sendRawTransaction' ? 'unanswered' : 'pass'))
    const { status, body } = await send(await signed())
    gate.decide(() => 'pass')
    t.equal(status, 200)
    t.match(body['status'], /included|already_known/)
    await charged(t, 0.08)
  })

  t.test('an unknown transaction is not charged, and its key never sends it again', async (t) => {
    const raw = await signed()
    const key = { 'idempotency-key': 'send-once' }
    gate.decide((method) => (method === 'eth_sendRawTransaction' ? 'lost' : 'pass'))
    const first = await send(raw, key)
    gate.decide(() => 'pass')
    t.match(first, { status: 503, body: { code: 'outcome_unknown', refunded: true } })
    const sent = gate.seen.filter((method) => method === 'eth_sendRawTransaction').length
    const again = await send(raw, key)
    t.match(again, { status: 503, body: { code: 'outcome_unknown' } })
    t.equal(gate.seen.filter((method) => method === 'eth_sendRawTransaction').length, sent)
    t.match((await send(raw)).body, { status: 'accepted' }, 'another request may')
    await charged(t, 0.08)
  })

  t.test('the example of the catalogue can be sent', async (t) => {
    t.match((await call(guest, 'tx_broadcast', broadcastTool.examples[0])).status, 200)
  })
})

t.test('after a crash during a broadcast its key never sends again', async (t) => {
  const guest = await onboard()
  const before = await balance(guest)
  const other = await spawnTestStationProcess(t, {
    ...settings,
    DATABASE_URL: on.database.settings.databaseUrl,
    DATA_DIR: createStationDataDir(t),
    PUBLIC_URL: 'http://gas.test',
  })
  const raw = await signed()
  const key = { 'idempotency-key': 'dies-with-its-station' }
  let reached = () => {}
  const sending = new Promise<void>((resolve) => (reached = resolve))
  gate.decide((method) => {
    if (method !== 'eth_sendRawTransaction') return 'pass'
    reached()
    return new Promise(() => {})
  })
  const lost = other
    .call(guest, 'tx_broadcast', { chain: 'base', raw_tx: raw }, key)
    .catch(() => null)
  await sending
  await other.end('SIGKILL')
  await lost
  gate.decide(() => 'pass')
  const sent = gate.seen.filter((method) => method === 'eth_sendRawTransaction').length
  const running = await call(guest, 'tx_broadcast', { chain: 'base', raw_tx: raw }, key)
  t.match(running, { status: 409, body: { code: 'idempotency_in_flight' } })
  await on.sql`update timers set due_at = now() where command = 'hold.expire'`
  await on.station.close()
  const heir = await startInProcessTestStation(t, settings, { database: on.database })
  let told = running
  while (told.status === 409) {
    told = await heir.call(guest, 'tx_broadcast', { chain: 'base', raw_tx: raw }, key)
  }
  t.match(told, { status: 503, body: { code: 'outcome_unknown', refunded: true } })
  t.equal(gate.seen.filter((method) => method === 'eth_sendRawTransaction').length, sent)
  t.equal(await heir.balance(guest), before)
  await t.test('wallet_investigate', (t) => wallets(t, heir))
  await heir.verify()
})

async function wallets(t: Test, { call, onboard, balance }: typeof on) {
  const guest = await onboard()
  const look = (address: string, chains?: string[]) =>
    call(guest, 'wallet_investigate', { address, ...(chains && { chains }) })

  t.test('sums up chains, names the owner and lists the chains that answered', async (t) => {
    const who = SENDER.address
    await base.mint(who, 1_500_000n)
    await rpc('anvil_setBalance', [who, `0x${parseEther('120').toString(16)}`])
    await installEnsContracts(rpc, { address: who, name: 'tester.eth' })
    const { status, body } = await look(who)
    t.equal(status, 200)
    t.strictSame(body['chains_checked'], ['ethereum', 'base'])
    t.strictSame(body['chains_failed'], ['optimism', 'arbitrum', 'polygon'])
    t.match(body, { ens_name: 'tester.eth', entity_label: null, wallet_age_days: 0 })
    t.strictSame(body['risk_flags'], ['WHALE_ETH', 'ENS_VERIFIED'])
    const tokens = body['top_tokens'] as {
      chain: string
      symbol: string
      amount: number
      usd_value: number
    }[]
    t.match(tokens[0], { chain: 'ethereum', symbol: 'ETH', amount: 120, usd_value: 360_000 })
    t.match(tokens.at(-1), { chain: 'base', symbol: 'USDC', amount: 1.5, usd_value: 1.5 })
    const sum = tokens.reduce((total, one) => total + one.usd_value, 0)
    t.ok(Math.abs((body['usd_balance'] as number) - sum) < 0.02)
    const [moved] = body['recent_txs'] as object[]
    t.match(moved, { chain: 'base', direction: 'in', token: 'USDC', amount: 1.5 })
  })

  t.test('omits a name that resolves to another address', async (t) => {
    await installEnsContracts(rpc, { address: SOMEBODY, name: 'tester.eth' })
    const { body } = await look(SENDER.address, ['ethereum'])
    t.equal(body['ens_name'], null)
  })

  t.test('flags contracts, known owners and frequent senders', async (t) => {
    const token = await look(base.usdc, ['base'])
    t.strictSame(token.body['risk_flags'], ['IS_CONTRACT'])
    const known = await look('0x28C6c06298d514Db089934071355E5743bf21d60', ['ethereum'])
    t.match(known.body, {
      entity_label: 'Binance',
      risk_flags: ['LABELED_ENTITY'],
      wallet_age_days: null,
    })
    const busy = privateKeyToAccount(`0x${'77'.repeat(32)}`)
    await base.fund(busy.address, parseEther('1'))
    for (let at = 0; at < 52; at += 1) {
      const raw = await busy.signTransaction({
        chainId: 8453,
        nonce: at,
        to: SOMEBODY,
        gas: 21_000n,
        gasPrice: parseGwei('20'),
      })
      await base.client.sendRawTransaction({ serializedTransaction: raw })
    }
    const { body } = await look(busy.address, ['base'])
    t.match(body, { wallet_age_days: 0, risk_flags: ['HIGH_VELOCITY'] })
  })

  t.test('is free if no chain answers', async (t) => {
    const before = await balance(guest)
    const { status, body } = await look(SOMEBODY, ['polygon', 'arbitrum'])
    t.match({ status, body }, { status: 502, body: { code: 'upstream_error', refunded: true } })
    t.equal(await balance(guest), before)
  })
}
