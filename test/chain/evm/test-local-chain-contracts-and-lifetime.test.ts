import { join } from 'node:path'
import { spawn } from 'node:child_process'
import { connect } from 'node:net'
import { once } from 'node:events'
import t from 'tap'
import { createEvmClient } from '../../../chain/evm/evm-client.ts'
import { MULTICALL3_ADDRESS } from '../../../chain/evm/multicall.ts'
import { PAYMENT_NETWORKS } from '../../../chain/payment-networks.ts'
import { PERMIT2_ADDRESS, X402_EXACT_PROXY_ADDRESS } from '../../../chain/evm/permit2.ts'
import { hasExpectedEip712Domain } from '../../../chain/evm/eip3009.ts'
import { compileContracts } from '../../support/chain/compile-contracts.ts'
import {
  contractArtifacts,
  startLocalBase,
  startLocalBsc,
  startLocalTempo,
} from '../../support/chain/local-chain.ts'
import { REPOSITORY_ROOT } from '../../../scripts/repository-root.ts'

const SOMEBODY = '0x00000000000000000000000000000000000beef1'

t.test('the committed contracts are what their sources compile to', async (t) => {
  t.strictSame(contractArtifacts, await compileContracts())
})

t.test('Base has USDC at its known address, and Multicall3', async (t) => {
  const chain = await startLocalBase()
  t.teardown(chain.stop)
  t.equal(await chain.client.getChainId(), 8453)
  t.equal(chain.usdc, PAYMENT_NETWORKS.base.asset)
  t.ok(await chain.client.getCode({ address: MULTICALL3_ADDRESS }))
  const { abi } = contractArtifacts.MockUSDC
  const read = (functionName: string) =>
    chain.client.readContract({ address: chain.usdc, abi, functionName })
  const names = await Promise.all(
    ['name', 'version', 'symbol', 'decimals', 'totalSupply'].map(read),
  )
  t.strictSame(names, ['USD Coin', '2', 'USDC', 6, 0n])
  const token = { ...PAYMENT_NETWORKS.base.domain, address: chain.usdc, chainId: 8453 }
  t.equal(await hasExpectedEip712Domain(createEvmClient(chain), token), true)

  await chain.mint(SOMEBODY, 5n)
  t.equal(await chain.balanceOf(SOMEBODY), 5n)
  await chain.fund(SOMEBODY, 7n)
  t.equal(await chain.client.getBalance({ address: SOMEBODY }), 7n)
  const head = await chain.client.getBlockNumber()
  await chain.mine(3)
  t.equal(await chain.client.getBlockNumber(), head + 3n)
  await chain.reorg(4)
  t.equal(await chain.balanceOf(SOMEBODY), 0n, 'the mint was in the fourth block from the end')
})

t.test('BSC has USDC with 18 decimals, Permit2 and the proxy', async (t) => {
  const chain = await startLocalBsc()
  t.teardown(chain.stop)
  t.equal(await chain.client.getChainId(), 56)
  t.equal(chain.usdc, PAYMENT_NETWORKS.bsc.asset)
  const { abi } = contractArtifacts.MockUSDC
  const decimals = { address: chain.usdc, abi, functionName: 'decimals' }
  t.equal(await chain.client.readContract(decimals), 18)
  for (const address of [PERMIT2_ADDRESS, X402_EXACT_PROXY_ADDRESS, MULTICALL3_ADDRESS] as const) {
    t.ok(await chain.client.getCode({ address }), address)
  }
})

t.test('Tempo has its token, and a clock that differs from its genesis', async (t) => {
  const chain = await startLocalTempo()
  t.teardown(chain.stop)
  t.equal(await chain.client.getChainId(), 4217)
  t.ok((await chain.client.getBlock()).timestamp > 1_700_000_000n)
  await chain.mint(SOMEBODY, 5n)
  await chain.fund(SOMEBODY, 2n)
  t.equal(await chain.balanceOf(SOMEBODY), 7n)
})

/** Whether a server listens there. */
async function listens(rpcUrl: string): Promise<boolean> {
  const socket = connect(Number(new URL(rpcUrl).port), '127.0.0.1')
  try {
    await once(socket, 'connect')
    return true
  } catch {
    return false
  } finally {
    socket.destroy()
  }
}

t.test('a stopped chain does not answer, and may be stopped again', async (t) => {
  const chain = await startLocalBase()
  t.equal(await listens(chain.rpcUrl), true)
  await chain.stop()
  t.equal(await listens(chain.rpcUrl), false)
  await chain.stop()
})

/** Starts a chain, prints its address, and then ends or waits to be killed. */
const program = `
import { startLocalBase } from ${JSON.stringify(join(REPOSITORY_ROOT, 'test/support/chain/local-chain.ts'))}
const { rpcUrl } = await startLocalBase()
process.stdout.write(rpcUrl + '\\n')
if (process.env.WAIT === 'yes') setInterval(() => {}, 1000)`

t.test('a chain ends with its parent process in every case', async (t) => {
  for (const wait of ['no', 'yes']) {
    const options = ['--import', 'tsx', '--input-type=module', '-e', program]
    const env = { ...process.env, NODE_OPTIONS: '', TAP: '0', WAIT: wait }
    const child = spawn(process.execPath, options, { env, stdio: ['ignore', 'pipe', 'inherit'] })
    const exited = once(child, 'exit')
    const [said] = (await once(child.stdout, 'data')) as [Buffer]
    const rpcUrl = said.toString().trim()
    if (wait === 'yes') {
      t.equal(await listens(rpcUrl), true)
      child.kill('SIGKILL')
    }
    const [code] = (await exited) as [number | null]
    t.equal(code, wait === 'yes' ? null : 0, 'the chain does not keep its process alive')
    await ended(rpcUrl)
    t.pass('the chain is gone')
  }
})

/** Resolves when the node has closed its connection, the only sign of its end. */
async function ended(rpcUrl: string): Promise<void> {
  const socket = connect(Number(new URL(rpcUrl).port), '127.0.0.1')
  socket.on('error', () => {}) // it was gone already, or is now
  socket.resume()
  await new Promise((resolve) => socket.once('close', resolve))
}
