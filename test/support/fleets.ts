import { fromUsdc } from '../../core/money.ts'
import { fleetTopUp } from '../../payments/commands/fleet.ts'
import type { Answer } from './client.ts'
import type { Guest, Served, StartedStation } from './station.ts'

export const as =
  (node: Served, { key }: Guest) =>
  (method: string, path: string, json?: object, headers = {}): Promise<Answer> =>
    node.ask(method, path, { key, headers, ...(json === undefined ? {} : { json }) })

export const fleetIdOf = ({ body }: Answer) => String(body['fleet_id'])

export const makeFleet = async (node: Served, owner: Guest) =>
  fleetIdOf(await as(node, owner)('POST', '/api/fleet/create', { name: 'crew' }))

export async function join(node: Served, owner: Guest, id: string, member: Guest): Promise<void> {
  const asked = { fleet_id: id, agent_id: member.id, agent_key: member.key }
  const { status, text } = await as(node, owner)('POST', '/api/fleet/add-agent', asked)
  if (status !== 200) throw new Error(`joining answered ${status}: ${text}`)
}

let arrivals = 0
/** Money as a top-up books it, without a chain; below a dollar it brings no bonus. */
export async function fill({ station }: StartedStation, id: string, amounts: readonly number[]) {
  for (const amount of amounts) {
    const tx = `0x${(arrivals += 1).toString(16).padStart(64, '0')}`
    const transfers = [{ logIndex: 0, amount: fromUsdc(amount) }]
    await station.actors.ask(id, fleetTopUp, { tx, transfers })
  }
}

export const pool = async (node: Served, owner: Guest, id: string): Promise<number> =>
  (await as(node, owner)('GET', `/api/fleet/balance?fleet_id=${id}`)).body.balance_usdc

/** A fleet with so many members, who own so much each, and with money in its pool. */
export async function crew(
  node: StartedStation,
  own: number,
  count: number,
  money: readonly number[],
) {
  const owner = await node.onboard()
  const id = await makeFleet(node, owner)
  const members: Guest[] = []
  for (let at = 0; at < count; at += 1) {
    const member = await node.onboard(own)
    await join(node, owner, id, member)
    members.push(member)
  }
  await fill(node, id, money)
  return { owner, id, members }
}
