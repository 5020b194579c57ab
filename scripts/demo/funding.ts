import { parseAbi } from 'viem'
import { generatePrivateKey, privateKeyToAccount, type PrivateKeyAccount } from 'viem/accounts'
import { LIMITS } from '../../core/limits.ts'
import { balanceOf, call, credits, join, usdc, type Agent, type Day } from './day.ts'
import { eventually } from './door.ts'
import { payingFetch } from './paying.ts'
import { brief, chapter, insist, tell } from './telling.ts'

const erc20 = parseAbi(['function transfer(address to, uint256 value) returns (bool)'])
const DOLLARS = 100_000_000n
const ETHER = 10n ** 18n

/** USDC comes in: as a deposit, as a top-up in one request, and to whoever brought the agent. */
export async function moneyComesIn(day: Day, scout: Agent, mentor: Agent): Promise<Owner> {
  chapter('Money comes in')
  const owner = privateKeyToAccount(generatePrivateKey())
  await day.world.base.mint(owner.address, DOLLARS)
  await day.world.base.fund(owner.address, ETHER)
  await deposit(day, owner, scout)
  await topUp(day, owner, scout)
  await referral(day, mentor)
  return owner
}
type Owner = PrivateKeyAccount

/** Sends USDC on Base and lets the chain go on until a deposit counts. */
async function send(day: Day, owner: Owner, to: `0x${string}`, dollars: number) {
  const { base } = day.world
  const hash = await base.client.writeContract({
    account: owner,
    address: base.usdc,
    abi: erc20,
    functionName: 'transfer',
    args: [to, BigInt(dollars) * 1_000_000n],
  })
  const { status } = await base.client.waitForTransactionReceipt({ hash })
  insist(status === 'success', 'a transfer on Base succeeds', status)
  await base.mine(LIMITS.depositConfirmations)
  return hash
}

async function deposit(day: Day, owner: Owner, scout: Agent): Promise<void> {
  const before = await balanceOf(day, scout)
  const hash = await send(day, owner, scout.wallet, 5)
  const blocks = `${LIMITS.depositConfirmations} blocks`
  tell({ call: 'USDC.transfer(scout, 5)  on Base', said: `in ${brief(hash)}, and ${blocks} more` })
  const arrived = usdc(before.balance_usdc + 6.25)
  const after = await eventually(
    'the deposit arrives with 25 %',
    () => balanceOf(day, scout),
    ({ balance_usdc: now }) => now === arrived,
  )
  const left = credits(after.balance_usdc)
  tell({
    call: 'GET /api/credits/balance',
    status: 200,
    said: '5 arrived, and 25 % on top: +6.25',
    left,
  })
}

interface ToppedUp {
  readonly balance_usdc: number
  readonly settlement_id: string
}

async function topUp(day: Day, owner: Owner, scout: Agent): Promise<void> {
  const { balance_usdc: before } = await balanceOf(day, scout)
  const { body } = await day.ask<ToppedUp>(200, 'POST /api/credits/topup', {
    key: scout.key,
    json: { amount_usdc: 1 },
    by: payingFetch(owner),
  })
  day.settlements.add(body.settlement_id)
  insist(body.balance_usdc === usdc(before + 1), 'a later top-up of 1 brings 1', body)
  const said = '1 by @x402/fetch; the bonus comes once'
  tell({ call: 'POST /api/credits/topup', status: 200, said, left: credits(body.balance_usdc) })
}

interface Earned {
  readonly activated: number
  readonly rewards_usdc: number
  readonly shares_usdc: number
}

async function referral(day: Day, mentor: Agent): Promise<void> {
  const { body } = await day.ask<Earned>(200, 'GET /api/referrals/me', { key: mentor.key })
  insist(body.rewards_usdc === 0.21, "mentor has earned 0.21 by scout's deposit", body)
  const { balance_usdc: left } = await balanceOf(day, mentor)
  const said = `mentor earned 0.21 and ${body.shares_usdc} of scout's calls`
  tell({ call: 'GET /api/referrals/me', status: 200, said, left: credits(left) })
}

interface Tipped {
  readonly fee_usdc: number
  readonly received_usdc: number
  readonly balance_usdc: number
}
interface Fleet {
  readonly fleet_id: string
  readonly wallet_address: string
  readonly balance_usdc: number
}

/** Agents pay each other, and one lives from a pool. */
export async function agentsShare(
  day: Day,
  owner: Owner,
  scout: Agent,
  mentor: Agent,
): Promise<void> {
  chapter('Agents share')
  const { key } = scout
  const thanks = { to_agent_id: mentor.id, amount_usdc: 1, note: 'thanks' }
  const { body } = await day.ask<Tipped>(200, 'POST /api/tip', { key, json: thanks })
  insist(body.received_usdc === 0.95, '95 % of a tip arrive', body)
  const fee = `mentor received ${body.received_usdc}, the fee is ${body.fee_usdc}`
  tell({ call: 'POST /api/tip', status: 200, said: fee, cost: 1, left: credits(body.balance_usdc) })
  const fleet = await openFleet(day, owner, scout)
  await memberDraws(day, scout, fleet)
}

async function openFleet(day: Day, owner: Owner, scout: Agent): Promise<Fleet> {
  const { key } = scout
  const created = await day.ask<Fleet>(200, 'POST /api/fleet/create', {
    key,
    json: { name: 'crew' },
  })
  const fleet = created.body
  tell({
    call: 'POST /api/fleet/create',
    status: 200,
    said: 'a pool with a wallet of its own',
    cost: 0,
  })
  const hash = await send(day, owner, fleet.wallet_address as `0x${string}`, 4)
  const json = { fleet_id: fleet.fleet_id, tx_hash: hash }
  const { body } = await day.ask<{ credited_usdc: number; bonus_usdc: number }>(
    200,
    'POST /api/fleet/topup',
    { key, json },
  )
  insist(body.credited_usdc === 4 && body.bonus_usdc === 1, 'a first top-up brings 25 %', body)
  const said = `4 sent in ${brief(hash)}, and 25 % on top`
  tell({ call: 'POST /api/fleet/topup', status: 200, said, left: '5 in the pool' })
  return fleet
}

/** A member without a cent of its own. */
async function memberDraws(day: Day, scout: Agent, { fleet_id: fleetId }: Fleet): Promise<void> {
  const worker = await join(day, 'worker', 'a member to be')
  const member = { fleet_id: fleetId, agent_id: worker.id, agent_key: worker.key }
  await day.ask<object>(200, 'POST /api/fleet/add-agent', { key: scout.key, json: member })
  tell({
    call: 'POST /api/fleet/add-agent',
    status: 200,
    said: 'worker agrees with its key',
    cost: 0,
  })
  const { balance_usdc: all } = await balanceOf(day, worker)
  const gift = { to_agent_id: scout.id, amount_usdc: all }
  await day.ask<object>(200, 'POST /api/agent/send', { key: worker.key, json: gift })
  const said = 'worker sends scout everything it has'
  tell({ call: 'POST /api/agent/send', status: 200, said, cost: all, left: credits(0) })
  await call(day, worker, { tool: 'hive_trending' }, { cost: 0.005, said: 'worker, from the pool' })
  const query = `GET /api/fleet/balance?fleet_id=${fleetId}` as const
  const { body } = await day.ask<Fleet>(200, query, { key: worker.key })
  insist(body.balance_usdc === 4.995, 'the pool has lent just the price', body)
  tell({
    call: 'GET /api/fleet/balance',
    status: 200,
    said: 'just the price was drawn',
    left: `${body.balance_usdc} in the pool`,
  })
}
