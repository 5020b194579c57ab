import t from 'tap'
import { keccak256 } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { startRpcFaultProxy } from '../../support/chain/rpc-fault-proxy.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'
import { findFreePort } from '../../../chaos/free-port.ts'

const SENDER = privateKeyToAccount(
  '0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d',
)
const raw = await SENDER.signTransaction({
  type: 'eip1559',
  chainId: 1,
  nonce: 0,
  to: '0x00000000000000000000000000000000000b0b01',
  value: 1n,
  gas: 21_000n,
  maxFeePerGas: 20n,
  maxPriorityFeePerGas: 1n,
})
const nobody = async () => `http://127.0.0.1:${await findFreePort()}`

t.test('a transaction without any connection is reported as not sent', async (t) => {
  const dead = `${await nobody()},${await nobody()},http://rpc.invalid`
  const station = await startInProcessTestStation(t, { RPC_URL_ETHEREUM: dead })
  const guest = await station.onboard()
  const before = await station.balance(guest)
  const answer = await station.call(guest, 'tx_broadcast', { chain: 'ethereum', raw_tx: raw })
  t.match(answer.body, { code: 'upstream_error', provider: 'rpc:ethereum', refunded: true })
  t.equal(await station.balance(guest), before)
})

t.test('a transaction that may have arrived is unknown, and its hash is returned', async (t) => {
  const gate = await startRpcFaultProxy(t, await nobody())
  gate.decide(() => 'lost')
  const station = await startInProcessTestStation(t, {
    RPC_URL_ETHEREUM: `${gate.url},${await nobody()}`,
  })
  const guest = await station.onboard()
  const before = await station.balance(guest)
  const answer = await station.call(guest, 'tx_broadcast', { chain: 'ethereum', raw_tx: raw })
  t.match(answer, {
    status: 503,
    body: { code: 'outcome_unknown', tx_hash: keccak256(raw), refunded: true },
  })
  t.ok(gate.seen.includes('eth_sendRawTransaction'))
  t.equal(await station.balance(guest), before)
})

t.test('a call that times out while nodes are unresponsive returns the hash too', async (t) => {
  const gate = await startRpcFaultProxy(t, await nobody())
  gate.decide(() => new Promise(() => {}))
  const station = await startInProcessTestStation(t, {
    RPC_URL_ETHEREUM: Array(6).fill(gate.url).join(','),
  })
  const guest = await station.onboard()
  const answer = await station.call(guest, 'tx_broadcast', { chain: 'ethereum', raw_tx: raw })
  t.match(answer, {
    status: 503,
    body: { code: 'outcome_unknown', tx_hash: keccak256(raw), refunded: true },
  })
})
