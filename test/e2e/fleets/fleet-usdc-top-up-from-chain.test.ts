import t from 'tap'
import { encodeFunctionData } from 'viem'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { PAYMENT_NETWORKS } from '../../../chain/payment-networks.ts'
import { signEip3009Authorization, eip3009TransferCall } from '../../../chain/evm/eip3009.ts'
import {
  contractArtifacts,
  startLocalBase,
  type LocalChain,
} from '../../support/chain/local-chain.ts'
import { countReplies, type TestReply } from '../../support/http/test-http-client.ts'
import {
  startInProcessTestStation,
  type TestAgent,
} from '../../support/station/start-test-station.ts'

/** Sends dollars from an account that the node signs for. */
async function pay(chain: LocalChain, from: string, to: string, amount: number) {
  const { client, usdc: token } = chain
  const [address, value] = [from as `0x${string}`, BigInt(Math.round(amount * 1e6))]
  const data = encodeFunctionData({
    abi: contractArtifacts.MockUSDC.abi,
    functionName: 'transfer',
    args: [to, value],
  })
  await client.impersonateAccount({ address })
  await chain.fund(from, 10n ** 18n)
  return client.sendTransaction({ account: address, to: token, data, chain: null })
}

t.test('topping up from the chain', async (t) => {
  const chain = await startLocalBase()
  t.teardown(() => chain.stop())
  const treasury = '0x00000000000000000000000000000000000beef1'
  const main = await startInProcessTestStation(t, {
    RPC_URL_BASE: chain.rpcUrl,
    TREASURY_ADDRESS: treasury,
  })
  const [ann, eve] = [await main.onboard(), await main.onboard()]
  const make = async ({ key }: TestAgent) => {
    const { body } = await main.ask('POST', '/api/fleet/create', { key, json: { name: 'crew' } })
    return { id: String(body['fleet_id']), address: String(body['wallet_address']) }
  }
  const { id, address } = await make(ann)
  const topUp = (tx: string, { key } = ann, fleet_id = id, headers = {}): Promise<TestReply> =>
    main.ask('POST', '/api/fleet/topup', { key, json: { fleet_id, tx_hash: tx }, headers })
  const pool = async () => {
    const { body } = await main.ask('GET', `/api/fleet/balance?fleet_id=${id}`, { key: ann.key })
    return body.balance_usdc
  }
  const stranger = privateKeyToAccount(generatePrivateKey()).address
  await chain.mint(stranger, 100_000_000n)

  t.test('a transfer to the fleet is credited after six confirmations, once', async (t) => {
    const tx = await pay(chain, stranger, address, 5)
    const young = await topUp(tx)
    t.match(young, {
      status: 422,
      body: { code: 'transfer_not_found', confirmations_missing: 5 },
    })
    await chain.mine(5)
    const hers = (await make(eve)).id
    t.match(await topUp(tx, eve, hers), { status: 422 }, 'it went to another fleet')
    t.match(await topUp(tx, eve), { status: 404, body: { code: 'fleet_not_found' } })
    const keyed = { 'idempotency-key': 'once' }
    const answers = await Promise.all([
      ...Array.from({ length: 16 }, () => topUp(tx)),
      topUp(tx, ann, id, keyed),
    ])
    t.strictSame(countReplies(answers), { 200: 1, '409 transfer_claimed': 16 })
    t.match(answers.find(({ status }) => status === 200)?.body, {
      credited_usdc: 5,
      bonus_usdc: 1.25,
    })
    t.equal(await pool(), 6.25)
    t.match(await topUp(tx.toUpperCase().replace('0X', '0x')), { status: 409 })
  })

  t.test('a repeated request gets the first answer', async (t) => {
    const tx = await pay(chain, stranger, address, 2)
    await chain.mine(6)
    const keyed = { 'idempotency-key': 'again' }
    t.match(await topUp(tx, ann, id, keyed), { status: 200, body: { bonus_usdc: 0 } })
    const again = await topUp(tx, ann, id, keyed)
    t.match(again, { status: 200, headers: { 'idempotency-replayed': 'true' } })
    t.equal(await pool(), 8.25)
  })

  t.test('another fleet of the same owner brings no second bonus', async (t) => {
    const other = await make(ann)
    const tx = await pay(chain, stranger, other.address, 1)
    await chain.mine(6)
    t.match(await topUp(tx, ann, other.id), {
      status: 200,
      body: { credited_usdc: 1, bonus_usdc: 0 },
    })
    const { body } = await main.ask('GET', '/api/wallet', { key: ann.key })
    t.equal(body['first_deposit_bonus'], false, 'nor does a deposit of the owner')
  })

  t.test('only transfers of the owner’s wallet count at the treasury', async (t) => {
    const account = privateKeyToAccount(generatePrivateKey())
    await main.sql`insert into wallets (agent_id, address, sealed, key_id, created_at, status)
      values (${ann.id}, ${account.address}, '', 'x', now(), 'exported')`
    await chain.mint(account.address, 50_000_000n)
    const own = await pay(chain, account.address, treasury, 3)
    const foreign = await pay(chain, stranger, treasury, 3)
    const signed = {
      from: account.address.toLowerCase(),
      to: treasury,
      value: 4_000_000n,
      validAfter: 0n,
      validBefore: 2_000_000_000n,
      nonce: `0x${'22'.repeat(32)}` as const,
    }
    const { domain, chainId, asset } = PAYMENT_NETWORKS.base
    const token = { address: asset, chainId, ...domain }
    const call = eip3009TransferCall(
      token,
      signed,
      await signEip3009Authorization(account, token, signed),
    )
    const authorized = await chain.client.sendTransaction({
      account: account.address,
      to: call.to as `0x${string}`,
      data: call.data,
      chain: null,
    })
    await chain.mine(6)
    t.match(await topUp(foreign), { status: 422, body: { code: 'transfer_not_found' } })
    t.match(await topUp(authorized), { status: 422 }, 'a payment is no top-up')
    const hers = (await make(eve)).id
    t.match(
      await topUp(own, eve, hers),
      { status: 422 },
      'the wallet of another agent cannot be claimed',
    )
    t.match(await topUp(own), { status: 200, body: { credited_usdc: 3 } })
    t.equal(await pool(), 11.25)
  })

  t.test('transfers of other tokens do not count', async (t) => {
    const none = `0x${'7'.repeat(64)}`
    t.match(await topUp(none), { status: 422, body: { code: 'transfer_not_found' } })
    t.match(await topUp('0x12'), { status: 400 })
    const zero = await pay(chain, stranger, address, 0)
    await chain.mine(6)
    t.match(await topUp(zero), { status: 422 }, 'a transfer of nothing')
  })

  t.test('an unreachable chain is reported as such', async (t) => {
    await chain.stop()
    t.match(await topUp(`0x${'8'.repeat(64)}`), {
      status: 503,
      body: { code: 'rail_unavailable' },
    })
  })
  t.test('gas verify finds no difference afterwards', () => main.verify())
})
