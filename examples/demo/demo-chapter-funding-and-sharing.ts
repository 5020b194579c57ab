import { parseAbi } from 'viem'
import { generatePrivateKey, privateKeyToAccount, type PrivateKeyAccount } from 'viem/accounts'
import { LIMITS } from '../../core/limits.ts'
import {
  readDemoBalance,
  callDemoTool,
  formatCredits,
  onboardDemoAgent,
  roundUsdc,
  type DemoAgent,
  type DemoContext,
} from './demo-context.ts'
import { pollUntilExpected } from './demo-api-client.ts'
import { createPayingFetch } from './demo-chapter-keyless-payments.ts'
import {
  shortenHex,
  printChapterTitle,
  assertDemoExpectation,
  printDemoOutputLine,
} from './demo-console-output.ts'

/** Demo chapters: deposits, referrals, transfers and a fleet pool. */

const erc20 = parseAbi(['function transfer(address to, uint256 value) returns (bool)'])
const OWNER_USDC_ATOMIC = 100_000_000n
const ETHER = 10n ** 18n

/** USDC arrives as a deposit, as a top-up in one request, and as a referral reward. */
export async function runDemoFundingChapter(
  demo: DemoContext,
  scout: DemoAgent,
  mentor: DemoAgent,
): Promise<Owner> {
  printChapterTitle('Money comes in')
  const owner = privateKeyToAccount(generatePrivateKey())
  await demo.environment.base.mint(owner.address, OWNER_USDC_ATOMIC)
  await demo.environment.base.fund(owner.address, ETHER)
  await deposit(demo, owner, scout)
  await topUp(demo, owner, scout)
  await referral(demo, mentor)
  return owner
}
type Owner = PrivateKeyAccount

/** Sends USDC on Base and mines blocks until the deposit is final. */
async function sendUsdc(demo: DemoContext, owner: Owner, to: `0x${string}`, dollars: number) {
  const { base } = demo.environment
  const hash = await base.client.writeContract({
    account: owner,
    address: base.usdc,
    abi: erc20,
    functionName: 'transfer',
    args: [to, BigInt(dollars) * 1_000_000n],
  })
  const { status } = await base.client.waitForTransactionReceipt({ hash })
  assertDemoExpectation(status === 'success', 'a transfer on Base succeeds', status)
  await base.mine(LIMITS.depositConfirmations)
  return hash
}

async function deposit(demo: DemoContext, owner: Owner, scout: DemoAgent): Promise<void> {
  const before = await readDemoBalance(demo, scout)
  const hash = await sendUsdc(demo, owner, scout.wallet, 5)
  const blocks = `${LIMITS.depositConfirmations} blocks`
  printDemoOutputLine({
    call: 'USDC.transfer(scout, 5)  on Base',
    result: `in ${shortenHex(hash)}, and ${blocks} more`,
  })
  const arrived = roundUsdc(before.balance_usdc + 6.25)
  const after = await pollUntilExpected(
    'the deposit arrives with 25 %',
    () => readDemoBalance(demo, scout),
    ({ balance_usdc: now }) => now === arrived,
  )
  const remaining = formatCredits(after.balance_usdc)
  printDemoOutputLine({
    call: 'GET /api/credits/balance',
    status: 200,
    result: '5 arrived, and 25 % on top: +6.25',
    remaining,
  })
}

interface TopUpReply {
  readonly balance_usdc: number
  readonly settlement_id: string
}

async function topUp(demo: DemoContext, owner: Owner, scout: DemoAgent): Promise<void> {
  const { balance_usdc: before } = await readDemoBalance(demo, scout)
  const { body } = await demo.request<TopUpReply>(200, 'POST /api/credits/topup', {
    key: scout.key,
    json: { amount_usdc: 1 },
    fetch: createPayingFetch(owner),
  })
  demo.settlements.add(body.settlement_id)
  assertDemoExpectation(
    body.balance_usdc === roundUsdc(before + 1),
    'a later top-up of 1 brings 1',
    body,
  )
  const result = '1 by @x402/fetch; no second bonus'
  printDemoOutputLine({
    call: 'POST /api/credits/topup',
    status: 200,
    result,
    remaining: formatCredits(body.balance_usdc),
  })
}

interface ReferralEarnings {
  readonly activated: number
  readonly rewards_usdc: number
  readonly shares_usdc: number
}

async function referral(demo: DemoContext, mentor: DemoAgent): Promise<void> {
  const { body } = await demo.request<ReferralEarnings>(200, 'GET /api/referrals/me', {
    key: mentor.key,
  })
  assertDemoExpectation(
    body.rewards_usdc === 0.21,
    "mentor has earned 0.21 by scout's deposit",
    body,
  )
  const { balance_usdc: left } = await readDemoBalance(demo, mentor)
  const result = `mentor earned 0.21 and ${body.shares_usdc} of scout's calls`
  printDemoOutputLine({
    call: 'GET /api/referrals/me',
    status: 200,
    result,
    remaining: formatCredits(left),
  })
}

interface TipReply {
  readonly fee_usdc: number
  readonly received_usdc: number
  readonly balance_usdc: number
}
interface FleetReply {
  readonly fleet_id: string
  readonly wallet_address: string
  readonly balance_usdc: number
}

/** Agents pay each other, and one spends from a fleet pool. */
export async function runDemoTipsAndFleetPoolChapter(
  demo: DemoContext,
  owner: Owner,
  scout: DemoAgent,
  mentor: DemoAgent,
): Promise<void> {
  printChapterTitle('Agents share')
  const { key } = scout
  const thanks = { to_agent_id: mentor.id, amount_usdc: 1, note: 'thanks' }
  const { body } = await demo.request<TipReply>(200, 'POST /api/tip', { key, json: thanks })
  assertDemoExpectation(body.received_usdc === 0.95, '95 % of a tip arrive', body)
  const fee = `mentor received ${body.received_usdc}, the fee is ${body.fee_usdc}`
  printDemoOutputLine({
    call: 'POST /api/tip',
    status: 200,
    result: fee,
    cost: 1,
    remaining: formatCredits(body.balance_usdc),
  })
  const fleet = await createDemoFleet(demo, owner, scout)
  await callFromFleetPool(demo, scout, fleet)
}

async function createDemoFleet(
  demo: DemoContext,
  owner: Owner,
  scout: DemoAgent,
): Promise<FleetReply> {
  const { key } = scout
  const created = await demo.request<FleetReply>(200, 'POST /api/fleet/create', {
    key,
    json: { name: 'crew' },
  })
  const fleet = created.body
  printDemoOutputLine({
    call: 'POST /api/fleet/create',
    status: 200,
    result: 'a pool with a wallet of its own',
    cost: 0,
  })
  const hash = await sendUsdc(demo, owner, fleet.wallet_address as `0x${string}`, 4)
  const json = { fleet_id: fleet.fleet_id, tx_hash: hash }
  const { body } = await demo.request<{ credited_usdc: number; bonus_usdc: number }>(
    200,
    'POST /api/fleet/topup',
    { key, json },
  )
  assertDemoExpectation(
    body.credited_usdc === 4 && body.bonus_usdc === 1,
    'a first top-up brings 25 %',
    body,
  )
  const result = `4 sent in ${shortenHex(hash)}, and 25 % on top`
  printDemoOutputLine({
    call: 'POST /api/fleet/topup',
    status: 200,
    result,
    remaining: '5 in the pool',
  })
  return fleet
}

/** Calls as a fleet member without a balance. */
async function callFromFleetPool(
  demo: DemoContext,
  scout: DemoAgent,
  { fleet_id: fleetId }: FleetReply,
): Promise<void> {
  const worker = await onboardDemoAgent(demo, 'worker', 'the future member')
  const member = { fleet_id: fleetId, agent_id: worker.id, agent_key: worker.key }
  await demo.request<object>(200, 'POST /api/fleet/add-agent', { key: scout.key, json: member })
  printDemoOutputLine({
    call: 'POST /api/fleet/add-agent',
    status: 200,
    result: 'with a key of worker as consent',
    cost: 0,
  })
  const { balance_usdc: all } = await readDemoBalance(demo, worker)
  const gift = { to_agent_id: scout.id, amount_usdc: all }
  await demo.request<object>(200, 'POST /api/agent/send', { key: worker.key, json: gift })
  const result = 'worker sends scout everything it has'
  printDemoOutputLine({
    call: 'POST /api/agent/send',
    status: 200,
    result,
    cost: all,
    remaining: formatCredits(0),
  })
  await callDemoTool(
    demo,
    worker,
    { tool: 'hive_trending' },
    { cost: 0.005, said: 'worker, from the pool' },
  )
  const query = `GET /api/fleet/balance?fleet_id=${fleetId}` as const
  const { body } = await demo.request<FleetReply>(200, query, { key: worker.key })
  assertDemoExpectation(body.balance_usdc === 4.995, 'the pool has lent just the price', body)
  printDemoOutputLine({
    call: 'GET /api/fleet/balance',
    status: 200,
    result: 'exactly the price was drawn',
    remaining: `${body.balance_usdc} in the pool`,
  })
}
