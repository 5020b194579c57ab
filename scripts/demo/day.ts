import { insist, tell } from './telling.ts'
import type { Answer, Door } from './door.ts'
import type { World } from './world.ts'

export interface Agent {
  readonly name: string
  readonly id: string
  readonly key: string
  readonly wallet: `0x${string}`
}

/** What the chapters share. */
export interface Day {
  readonly world: World
  readonly ask: Door
  /** Every payment that has been made on a chain, by the id of its settlement. */
  readonly settlements: Set<string>
}

interface Welcome {
  readonly agent_id: string
  readonly api_key: string
  readonly wallet_address: string
  readonly starter_credits_usdc: number
}

export async function join(
  { ask }: Day,
  name: string,
  said: string,
  more: object = {},
): Promise<Agent> {
  const { body } = await ask<Welcome>(201, 'POST /api/onboard', { json: { name, ...more } })
  const { agent_id: id, api_key: key, wallet_address: wallet } = body
  const left = credits(body.starter_credits_usdc)
  tell({ call: 'POST /api/onboard', status: 201, said: `${name}: ${said}`, cost: 0, left })
  return { name, id, key, wallet: wallet as Agent['wallet'] }
}

export interface Balance {
  readonly balance_usdc: number
  readonly promo_usdc: number
  readonly cash_usdc: number
}

export const balanceOf = async ({ ask }: Day, { key }: Agent): Promise<Balance> =>
  (await ask<Balance>(200, 'GET /api/credits/balance', { key })).body

/** Sums of decimals, as people write them. */
export const usdc = (amount: number): number => Math.round(amount * 1e6) / 1e6
export const credits = (amount: number | null): string => `${usdc(amount ?? 0)} credits`

/** Calls a tool with credits and tells what it cost. */
export async function call(
  { ask }: Day,
  { key }: Agent,
  json: { tool: string } & Record<string, unknown>,
  told: { headers?: Record<string, string>; cost: number; said: string },
): Promise<void> {
  const headers = told.headers ?? {}
  const { body } = await ask(200, 'POST /api/refuel', { key, json, headers })
  const { _meta: meta } = body
  insist(meta.cost_usdc === told.cost, `${json.tool} costs ${told.cost}`, meta)
  const left = credits(meta.balance_usdc)
  tell({
    call: `POST /api/refuel  ${json.tool}`,
    status: 200,
    said: told.said,
    cost: told.cost,
    left,
  })
}

interface Refusal {
  readonly code: string
  readonly detail?: string
}

/** Calls a tool that has to be refused, and tells why it was. */
export async function refused(
  day: Day,
  agent: Agent,
  tool: string,
  told: { status: number; code: string; headers: Record<string, string>; said: string },
): Promise<void> {
  const before = await balanceOf(day, agent)
  const asked = { key: agent.key, json: { tool }, headers: told.headers }
  const { body }: Answer<Refusal> = await day.ask(told.status, 'POST /api/refuel', asked)
  insist(body.code === told.code, `the call is refused with ${told.code}`, body)
  const after = await balanceOf(day, agent)
  insist(after.balance_usdc === before.balance_usdc, 'a refused call costs nothing', after)
  const [left, said] = [credits(after.balance_usdc), `${body.code}: ${told.said}`]
  tell({ call: `POST /api/refuel  ${tool}`, status: told.status, said, cost: 0, left })
}
