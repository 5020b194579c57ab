import { DAILY_BONUS_LIMIT } from '../../../domain/pricing.ts'
import { fromUsdc } from '../../../core/money.ts'
import { topUpFleetCommand } from '../../../payments/commands/fleet-commands.ts'
import type { TestReply } from '../http/test-http-client.ts'
import type { TestAgent, TestStation, InProcessStation } from '../station/start-test-station.ts'

/** Creates fleets with members and credits through the public API. */

export const createAgentRequestSender =
  (node: TestStation, { key }: TestAgent) =>
  (method: string, path: string, json?: object, headers = {}): Promise<TestReply> =>
    node.ask(method, path, { key, headers, ...(json === undefined ? {} : { json }) })

export const fleetIdOfReply = ({ body }: TestReply) => String(body['fleet_id'])

export const createTestFleet = async (node: TestStation, owner: TestAgent) =>
  fleetIdOfReply(
    await createAgentRequestSender(node, owner)('POST', '/api/fleet/create', { name: 'crew' }),
  )

export async function addFleetMember(
  node: TestStation,
  owner: TestAgent,
  id: string,
  member: TestAgent,
): Promise<void> {
  const asked = { fleet_id: id, agent_id: member.id, agent_key: member.key }
  const { status, text } = await createAgentRequestSender(node, owner)(
    'POST',
    '/api/fleet/add-agent',
    asked,
  )
  if (status !== 200) throw new Error(`joining answered ${status}: ${text}`)
}

let topUpCount = 0
/** Books a top-up without a chain; below one dollar it brings no bonus. */
export async function bookFleetTopUps(
  { station }: InProcessStation,
  id: string,
  amounts: readonly number[],
) {
  for (const amount of amounts) {
    const tx = `0x${(topUpCount += 1).toString(16).padStart(64, '0')}`
    const transfers = [{ logIndex: 0, amount: fromUsdc(amount) }]
    await station.actors.ask(id, topUpFleetCommand, {
      tx,
      transfers,
      bonusLeft: DAILY_BONUS_LIMIT,
    })
  }
}

export const readFleetPoolBalance = async (
  node: TestStation,
  owner: TestAgent,
  id: string,
): Promise<number> =>
  (await createAgentRequestSender(node, owner)('GET', `/api/fleet/balance?fleet_id=${id}`)).body
    .balance_usdc

/** Creates a fleet with members of equal balance and a funded pool. */
export async function createFundedFleet(
  node: InProcessStation,
  own: number,
  count: number,
  money: readonly number[],
) {
  const owner = await node.onboard()
  const id = await createTestFleet(node, owner)
  const members: TestAgent[] = []
  for (let at = 0; at < count; at += 1) {
    const member = await node.onboard(own)
    await addFleetMember(node, owner, id, member)
    members.push(member)
  }
  await bookFleetTopUps(node, id, money)
  return { owner, id, members }
}
