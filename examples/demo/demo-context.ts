import { assertDemoExpectation, printDemoOutputLine } from './demo-console-output.ts'
import type { DemoReply, DemoApiClient } from './demo-api-client.ts'
import type { DemoEnvironment } from './demo-environment.ts'

/** Shared state and helpers of the demo chapters. */

export interface DemoAgent {
  readonly name: string
  readonly id: string
  readonly key: string
  readonly wallet: `0x${string}`
}

/** State shared by the chapters. */
export interface DemoContext {
  readonly environment: DemoEnvironment
  readonly request: DemoApiClient
  /** Settlement ids of all payments made on a chain. */
  readonly settlements: Set<string>
}

interface OnboardingReply {
  readonly agent_id: string
  readonly api_key: string
  readonly wallet_address: string
  readonly starter_credits_usdc: number
}

export async function onboardDemoAgent(
  { request }: DemoContext,
  name: string,
  said: string,
  more: object = {},
): Promise<DemoAgent> {
  const { body } = await request<OnboardingReply>(201, 'POST /api/onboard', {
    json: { name, ...more },
  })
  const { agent_id: id, api_key: key, wallet_address: wallet } = body
  const remaining = formatCredits(body.starter_credits_usdc)
  printDemoOutputLine({
    call: 'POST /api/onboard',
    status: 201,
    result: `${name}: ${said}`,
    cost: 0,
    remaining,
  })
  return { name, id, key, wallet: wallet as DemoAgent['wallet'] }
}

export interface DemoBalance {
  readonly balance_usdc: number
  readonly promo_usdc: number
  readonly cash_usdc: number
}

export const readDemoBalance = async (
  { request }: DemoContext,
  { key }: DemoAgent,
): Promise<DemoBalance> =>
  (await request<DemoBalance>(200, 'GET /api/credits/balance', { key })).body

/** Rounds a sum of decimals to whole micros. */
export const roundUsdc = (amount: number): number => Math.round(amount * 1e6) / 1e6
export const formatCredits = (amount: number | null): string => `${roundUsdc(amount ?? 0)} credits`

/** Calls a tool with credits and prints its cost. */
export async function callDemoTool(
  { request }: DemoContext,
  { key }: DemoAgent,
  json: { tool: string } & Record<string, unknown>,
  expected: { headers?: Record<string, string>; cost: number; said: string },
): Promise<void> {
  const headers = expected.headers ?? {}
  const { body } = await request(200, 'POST /api/refuel', { key, json, headers })
  const { _meta: meta } = body
  assertDemoExpectation(
    meta.cost_usdc === expected.cost,
    `${json.tool} costs ${expected.cost}`,
    meta,
  )
  const remaining = formatCredits(meta.balance_usdc)
  printDemoOutputLine({
    call: `POST /api/refuel  ${json.tool}`,
    status: 200,
    result: expected.said,
    cost: expected.cost,
    remaining,
  })
}

interface ProblemReply {
  readonly code: string
  readonly detail?: string
}

/** Calls a tool that must be rejected and prints the error. */
export async function expectRejectedDemoCall(
  demo: DemoContext,
  agent: DemoAgent,
  tool: string,
  expected: { status: number; code: string; headers: Record<string, string>; said: string },
): Promise<void> {
  const before = await readDemoBalance(demo, agent)
  const asked = { key: agent.key, json: { tool }, headers: expected.headers }
  const { body }: DemoReply<ProblemReply> = await demo.request(
    expected.status,
    'POST /api/refuel',
    asked,
  )
  assertDemoExpectation(
    body.code === expected.code,
    `the call is refused with ${expected.code}`,
    body,
  )
  const after = await readDemoBalance(demo, agent)
  assertDemoExpectation(
    after.balance_usdc === before.balance_usdc,
    'a refused call costs nothing',
    after,
  )
  const [remaining, result] = [formatCredits(after.balance_usdc), `${body.code}: ${expected.said}`]
  printDemoOutputLine({
    call: `POST /api/refuel  ${tool}`,
    status: expected.status,
    result,
    cost: 0,
    remaining,
  })
}
