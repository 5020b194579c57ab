import { join } from 'node:path'
import { readFileSync } from 'node:fs'
import t from 'tap'
import { encodeFunctionData, erc20Abi, parseEther, parseGwei, type Hex } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { startAnvilNode } from '../../support/chain/anvil.ts'
import { startLocalBase } from '../../support/chain/local-chain.ts'
import { createEvmReadClient } from '../../../chain/evm/evm-read-client.ts'
import { ServiceError } from '../../../core/errors.ts'
import { factCheckClaim } from '../../../tools/intelligence/hallucination-pill/fact-check-claim.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'
import { installEnsContracts } from '../../support/chain/test-ens-contracts.ts'
import { startTestPriceApis } from '../../support/upstreams/test-price-apis.ts'
import { REPOSITORY_ROOT } from '../../../scripts/repository-root.ts'
import { createRecordingToolContext } from '../../support/tools/test-tool-context.ts'

interface Known {
  readonly kind: string
  readonly claim: string
  readonly verdict: string
}
interface Result {
  readonly claim: string
  readonly verdict: string
  readonly verified: boolean
  readonly confidence: number
  readonly hallucination_risk: string
  readonly correct_value: unknown
  readonly correction: string | null
  readonly checks: readonly { source: string; observed: unknown; at: string }[]
}

const { claims } = JSON.parse(
  readFileSync(join(REPOSITORY_ROOT, 'test/fixtures/pill-claims.json'), 'utf8'),
) as { claims: Known[] }

const HOLDER = privateKeyToAccount(`0x${'42'.repeat(32)}`)
const [base, mainnet, house] = await Promise.all([
  startLocalBase(),
  startAnvilNode(['--chain-id', '1']),
  startTestPriceApis(t),
])
t.teardown(() => Promise.all([base.stop(), mainnet.stop()]))
const ethereum = createEvmReadClient(1, [mainnet.rpcUrl])
const rpc = (method: string, params: unknown[]) =>
  ethereum.request({ method, params } as never) as Promise<unknown>

/** Objects named in the claims of the fixture: transactions of each kind, a block, a funded account. */
async function plant() {
  await base.fund(HOLDER.address, parseEther('5'))
  await base.mint(HOLDER.address, 1_500_000n)
  await rpc('anvil_setBalance', [HOLDER.address, `0x${parseEther('120').toString(16)}`])
  await installEnsContracts(rpc, { address: HOLDER.address, name: 'tester.eth' })
  const send = async (nonce: number, to: Hex, data: Hex): Promise<Hex> => {
    const fields = { to, data, nonce, chainId: 8453, gas: 90_000n, gasPrice: parseGwei('20') }
    const raw = await HOLDER.signTransaction(fields)
    const hash = await base.client.sendRawTransaction({ serializedTransaction: raw })
    await base.client.waitForTransactionReceipt({ hash })
    return hash
  }
  const args = [HOLDER.address, 10n ** 30n] as const
  const tooMuch = encodeFunctionData({ abi: erc20Abi, functionName: 'transfer', args })
  const sent = await send(0, '0x00000000000000000000000000000000000b0b01', '0x')
  const failed = await send(1, base.usdc, tooMuch)
  const block = await base.client.getBlock({ blockNumber: 2n })
  return { holder: HOLDER.address, sent, failed, block: '2', block_hash: block.hash }
}

const planted: Record<string, string> = await plant()
const filled = claims.map((one) => ({
  ...one,
  claim: one.claim.replace(/\{(\w+)\}/g, (_, name: string) => planted[name] ?? name),
}))
const { ask, call, verify } = await startInProcessTestStation(t, {
  RPC_URL_BASE: base.rpcUrl,
  RPC_URL_ETHEREUM: mainnet.rpcUrl,
  COINGECKO_BASE: house.settings.coingecko,
})
let visitors = 0
const from = () => ({ 'x-forwarded-for': `203.0.113.${(visitors += 1)}` })

async function check(texts: readonly string[]): Promise<Result[]> {
  const found: Result[] = []
  for (let at = 0; at < texts.length; at += 10) {
    const json = { claims: texts.slice(at, at + 10) }
    const { body, text } = await ask('POST', '/api/pill', { json, headers: from() })
    if (body['results'] === undefined) throw new Error(text)
    found.push(...(body['results'] as Result[]))
  }
  return found
}

t.test('claims with known answers', async (t) => {
  const results = await check(filled.map(({ claim }) => claim))
  t.equal(results.length, filled.length)
  const decided = results.filter(({ verdict }) => verdict !== 'unverifiable')
  const right = decided.filter(({ verdict, claim }) => verdict === known(claim)?.verdict)
  const decidable = filled.filter(({ verdict }) => verdict !== 'unverifiable')
  const [precision, recall] = [right.length / decided.length, right.length / decidable.length]
  t.comment(
    `${filled.length} claims: precision ${precision.toFixed(3)}, recall ${recall.toFixed(3)}`,
  )
  for (const { claim, verdict, checks } of results) {
    t.equal(verdict, known(claim)?.verdict, `${claim} (${JSON.stringify(checks[0]?.observed)})`)
  }
  t.ok(precision >= 0.99, 'what it says is right')
  t.ok(recall >= 0.95, 'and it says something of nearly all that it could')
  for (const result of results) t.ok(isCoherent(result), `coherent: ${JSON.stringify(result)}`)
})

const known = (claim: string) => filled.find((one) => one.claim === claim)

/** The fields of a verdict say the same thing. */
function isCoherent(result: Result): boolean {
  const { verdict, verified, confidence, hallucination_risk: risk, checks } = result
  if (verdict === 'supported') return verified && confidence >= 0.9 && /^(none|low)$/.test(risk)
  if (verdict === 'unverifiable') return !verified && confidence <= 0.2 && risk === 'medium'
  const corrected = result.correct_value !== null && result.correction !== null
  return !verified && corrected && checks.length > 0 && /^(high|critical)$/.test(risk)
}

t.test('an unreachable source makes a claim unverifiable, never contradicted', async (t) => {
  const dependent = filled.filter(({ kind }) => kind === 'ledger' || kind === 'price')
  const offline = await startInProcessTestStation(t, { RPC_URL_BASE: 'http://127.0.0.1:1' })
  for (let at = 0; at < dependent.length; at += 10) {
    const texts = dependent.slice(at, at + 10).map(({ claim }) => `${claim} `)
    const { body } = await offline.ask('POST', '/api/pill', {
      json: { claims: texts, chain: 'ethereum' },
      headers: from(),
    })
    for (const { claim, verdict } of body['results'] as Result[]) {
      t.equal(verdict, 'unverifiable', claim)
    }
  }
})

t.test('a failing source is no error, and its claim is unverifiable', async (t) => {
  const failing = async () => {
    throw new ServiceError('upstream_error')
  }
  const { context: asking } = createRecordingToolContext({
    chain: { checksum: () => null } as never,
    text: {} as never,
    prices: { quote: failing } as never,
    catalogue: { entries: () => [] } as never,
    evidence: { about: failing } as never,
  })
  const { chain, prices, catalogue, signal } = asking
  const world = { chain, prices, catalogue, signal, now: asking.now(), home: 'base' } as const
  const claim = 'The price of Bitcoin is 50000 dollars'
  t.match(await factCheckClaim(claim, world, asking), { verdict: 'unverifiable', confidence: 0 })
})

t.test('the route and the tool share five checks per day and address', async (t) => {
  const headers = from()
  const json = { claim: 'The chain id of Base is 8453' }
  const first = await ask('POST', '/api/pill', { json, headers })
  t.match(first, {
    status: 200,
    body: {
      pill_version: 'gas-station-hallucination-pills-v1',
      verified: true,
      confidence: 1,
      hallucination_risk: 'none',
      correct_value: null,
      correction: null,
      _meta: { cost_usdc: 0 },
    },
  })
  for (let at = 0; at < 2; at += 1) {
    t.equal((await call(null, 'hallucination_pill', json, headers)).status, 200)
    t.equal((await ask('POST', '/api/pill', { json, headers })).status, 200)
  }
  for (const sixth of [
    await ask('POST', '/api/pill', { json, headers }),
    await call(null, 'hallucination_pill', json, headers),
  ]) {
    t.match(sixth, { status: 429, body: { code: 'free_tier_exhausted' } })
  }
  t.equal((await ask('POST', '/api/pill', { json, headers: from() })).status, 200)
})

t.test('the verdict of several claims is the worst one, and ten are the maximum', async (t) => {
  const mixed = { claims: ['2 + 2 = 4', 'The stars are angry', '2 + 2 = 5'] }
  const { body } = await ask('POST', '/api/pill', { json: mixed, headers: from() })
  t.match(body, {
    verified: false,
    hallucination_risk: 'critical',
    correct_value: '4',
    confidence: 1,
    claims_judged: 2,
  })
  t.strictSame(
    (body['results'] as Result[]).map(({ verdict }) => verdict),
    ['supported', 'unverifiable', 'contradicted'],
  )
  const about = filled.find(({ kind, verdict }) => kind === 'price' && verdict === 'supported')
  const near = { claims: ['2 + 2 = 4', about?.claim, 'The stars are angry'] }
  t.match((await ask('POST', '/api/pill', { json: near, headers: from() })).body, {
    verdict: 'unverifiable',
    confidence: 0.9,
    results: [{ confidence: 1 }, { confidence: 0.9 }, { confidence: 0 }],
  })
  const unknown = { claims: ['The stars are angry', 'The moon is sad'] }
  t.match((await ask('POST', '/api/pill', { json: unknown, headers: from() })).body, {
    verified: false,
    confidence: null,
    claims_judged: 0,
    hallucination_risk: 'medium',
  })
  const wrong = [
    {},
    { claims: Array.from({ length: 11 }, (_, at) => `${at} = ${at}`) },
    { claim: ' ' },
  ]
  for (const json of wrong) {
    t.match(await ask('POST', '/api/pill', { json, headers: from() }), { status: 400 })
  }
})

t.test('the checks change nothing in the ledger', () => verify())
