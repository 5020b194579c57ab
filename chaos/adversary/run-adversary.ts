import type { Sql } from '../../persistence/start-postgres-and-redis.ts'
import { createSeededRandom, type SeededRandom } from '../seeded-random.ts'
import {
  auditAdversaryRun,
  type AdversaryAuditTotals,
  type AuditQuietTimeAndStarterLimit,
} from './adversary-database-audit.ts'
import { adversaryCallOperationGenerators } from './adversary-call-operations.ts'
import {
  createAdversaryClient,
  type AdversaryHttpClient,
  type StationReplyToAdversary,
} from './adversary-http-client.ts'
import { adversaryCommunityToolOperationGenerators } from './adversary-community-tool-operations.ts'
import { adversaryBackpackEscapeGenerators } from './adversary-backpack-escape-operations.ts'
import { adversaryKeyOperationGenerators } from './adversary-key-operations.ts'
import { adversaryMemoryMarketplaceOperationGenerators } from './adversary-memory-marketplace-operations.ts'
import { checkStationReplyToAdversary } from './adversary-reply-checks.ts'
import { adversarySecretOperationGenerators } from './adversary-secret-operations.ts'
import { adversaryStorageOperationGenerators } from './adversary-storage-operations.ts'
import { adversaryValueTransferOperationGenerators } from './adversary-value-transfer-operations.ts'
import {
  addAdversaryAgent,
  createAdversaryState,
  type AdversaryOperationGenerator,
  type AdversaryOperation,
  type AdversaryState,
  type AdversaryWebsite,
} from './adversary-state.ts'

/** Relative frequency of each kind of operation; a missing kind is never drawn. */
export type AdversaryOperationWeights = Readonly<Record<string, number>>

/** All kinds of operations. */
export const ADVERSARY_OPERATION_GENERATORS: Readonly<Record<string, AdversaryOperationGenerator>> =
  {
    ...adversaryCallOperationGenerators,
    ...adversaryValueTransferOperationGenerators,
    ...adversaryMemoryMarketplaceOperationGenerators,
    ...adversaryCommunityToolOperationGenerators,
    ...adversaryKeyOperationGenerators,
    ...adversaryBackpackEscapeGenerators,
    ...adversarySecretOperationGenerators,
    ...adversaryStorageOperationGenerators,
  }

/** Draws all kinds; slow kinds are rare. */
export const ALL_ADVERSARY_OPERATION_WEIGHTS: AdversaryOperationWeights = {
  printAndExit: 1,
  printAndCut: 1,
  cutPill: 3,
  cutSearch: 3,
  cheapCall: 30,
  socketCall: 3,
  repeatedCall: 6,
  pipeline: 3,
  send: 10,
  postBounty: 6,
  claimBounty: 6,
  cancelBounty: 4,
  createReferral: 2,
  onboardReferred: 3,
  redeemDrop: 2,
  publishStrategy: 2,
  forkStrategy: 3,
  createFleet: 1,
  joinFleet: 1,
  installPack: 1,
  buyPass: 1,
  sellMemory: 2,
  buyListing: 5,
  withdrawListing: 1,
  registerTool: 2,
  invokeTool: 6,
  changeTool: 1,
  createKey: 4,
  rotateAndReplay: 2,
  revokeKey: 2,
  orphanSchedule: 1,
  schedule: 1,
  startTask: 2,
  changeTask: 2,
  createBackpack: 3,
  escape: 5,
  look: 2,
  onboardBound: 1,
  spendBound: 10,
  onboardTwice: 2,
  onboardBulk: 1,
  replayForeign: 6,
  keepSecret: 1,
  exportWallet: 1,
  bigAnswer: 1,
  writeHive: 4,
  writeVault: 3,
  shareVault: 1,
  oddNumber: 2,
}

/** Actions of the operator and of time between batches. */
export interface SimulatedOperatorActions {
  /** Stations over one database; only the last one limits rates and onboards agents. */
  readonly nodes: readonly string[]
  readonly sql: Sql
  readonly site: AdversaryWebsite
  readonly terms: Omit<AuditQuietTimeAndStarterLimit, 'quietSince'>
  /** Credits a deposit to an agent. */
  deposit(agentId: string, usdc: number): Promise<unknown>
  /** Credits a top-up to the pool of a fleet. */
  fundFleet(fleetId: string, usdc: number): Promise<unknown>
  /** Opens a radio drop; returns its code. */
  openDrop(): Promise<string>
  /** Makes the next slot of every schedule due. */
  makeSlotsDue(): Promise<unknown>
  /** Waits until every due slot has ended. */
  waitForSlots(): Promise<unknown>
}

export interface AdversaryRunOptions {
  readonly seed: number
  readonly operations: number
  readonly operationWeights: AdversaryOperationWeights
  /** Number of first agents that deposit. */
  readonly depositors?: number
}

export interface AdversaryRunResult {
  readonly violations: AdversaryState['violations']
  readonly totals: AdversaryAuditTotals
  /** Operations by kind, with their replies. */
  readonly kinds: ReadonlyMap<string, number>
  readonly answers: ReadonlyMap<string, number>
  /** The operations before the first violation. */
  readonly trace: readonly string[]
}

const FIRST_AGENTS = 12
const MAX_TRACE_LINES = 24
const BATCHES_PER_DAY = 12

/** Runs a seeded sequence of operations, judges every reply, then audits the database. */
export async function runAdversary(
  stage: SimulatedOperatorActions,
  course: AdversaryRunOptions,
): Promise<AdversaryRunResult> {
  const client = createAdversaryClient()
  const world = createAdversaryState(createSeededRandom(course.seed), stage.site)
  const tallies = createTallies()
  try {
    await populate(stage, client, world, course.depositors ?? 4)
    let done = 0
    for (let batch = 0; done < course.operations; batch += 1) {
      if (batch % BATCHES_PER_DAY === BATCHES_PER_DAY - 1) await stage.makeSlotsDue()
      for (const fleet of world.unfundedFleets.splice(0)) await stage.fundFleet(fleet, 1)
      if (batch % 60 === 0) world.drops.push(await stage.openDrop())
      const size = Math.min(world.chance.integer(8, 24), course.operations - done)
      const operations = drawOperations(world, course.operationWeights, size)
      await runBatch(stage, client, world, operations, tallies)
      done += operations.length
    }
    const quietSince = await runOutSchedules(stage)
    const totals = await auditAdversaryRun(stage.sql, world, { ...stage.terms, quietSince })
    return { violations: world.violations, totals, ...tallies }
  } finally {
    await client.close()
  }
}

/**
 * Makes every schedule due once more. Resolves to an earlier database time at which no other
 * operation was running.
 */
async function runOutSchedules({
  sql,
  waitForSlots,
  makeSlotsDue,
}: SimulatedOperatorActions): Promise<Date> {
  await waitForSlots()
  const [row] = await sql<{ now: Date }[]>`select clock_timestamp() as now`
  await makeSlotsDue()
  await waitForSlots()
  return (row as { now: Date }).now
}

function createTallies() {
  return {
    kinds: new Map<string, number>(),
    answers: new Map<string, number>(),
    trace: [] as string[],
  }
}

const count = (tally: Map<string, number>, name: string) =>
  tally.set(name, (tally.get(name) ?? 0) + 1)

async function populate(
  { nodes, deposit }: SimulatedOperatorActions,
  client: AdversaryHttpClient,
  world: AdversaryState,
  depositors: number,
): Promise<void> {
  for (let at = 0; at < FIRST_AGENTS; at += 1) {
    const address = `198.51.100.${at + 1}`
    const json = { name: `adversary-${at}` }
    const ask = { method: 'POST', path: '/api/onboard', json, address } as const
    const reply = await client.send(nodes[0] as string, ask)
    if (reply.status !== 201) throw new Error(`onboarding answered ${reply.status}: ${reply.text}`)
    const agent = addAdversaryAgent(world, reply.body, address)
    if (at < depositors) await deposit(agent.id, 6)
  }
  await readCatalogue(nodes[0] as string, client, world)
}

/** The catalogue prices that deliveries are compared with. */
async function readCatalogue(
  node: string,
  client: AdversaryHttpClient,
  world: AdversaryState,
): Promise<void> {
  const ask = { method: 'GET', path: '/api/tools', address: '198.51.100.1' } as const
  const { body } = await client.send(node, ask)
  for (const { slug, price_usdc: price, free_tier: free } of body['tools'] as ListedTool[]) {
    const overage = free?.overage_price_usdc ?? price
    world.tools.set(slug, { price: overage, freeCalls: free?.calls_per_day ?? 0 })
  }
}

interface ListedTool {
  readonly slug: string
  readonly price_usdc: number
  readonly free_tier?: { calls_per_day: number; overage_price_usdc: number | null } | null
}

/** Draws a batch: some follow-ups, the rest by weight. */
function drawOperations(
  world: AdversaryState,
  profile: AdversaryOperationWeights,
  size: number,
): AdversaryOperation[] {
  const { chance, followUps } = world
  const operations: AdversaryOperation[] = []
  const hat = Object.entries(profile).flatMap(([name, weight]) =>
    Array.from({ length: weight }, () => name),
  )
  while (operations.length < size) {
    const following = followUps.length > 0 && chance.integer(1, 2) === 1
    const drawn = following
      ? followUps.splice(chance.integer(0, followUps.length - 1), 1)[0]
      : (ADVERSARY_OPERATION_GENERATORS[chance.pick(hat)] as AdversaryOperationGenerator)(world)
    if (drawn !== undefined && drawn !== null) operations.push(drawn)
  }
  return operations
}

/** Sends a batch concurrently over all nodes, then judges the replies in order. */
async function runBatch(
  { nodes }: SimulatedOperatorActions,
  client: AdversaryHttpClient,
  world: AdversaryState,
  operations: readonly AdversaryOperation[],
  { kinds, answers, trace }: ReturnType<typeof createTallies>,
): Promise<void> {
  const replies = await Promise.all(
    operations.map((operation) =>
      client.send(nodeFor(nodes, world.chance, operation), operation.request),
    ),
  )
  for (const [at, operation] of operations.entries()) {
    const reply = replies[at] as StationReplyToAdversary
    world.operation += 1
    count(kinds, operation.kind)
    count(answers, answerOf(reply))
    if (world.violations.length === 0) recordTrace(trace, world.operation, operation, reply)
    checkStationReplyToAdversary(world, operation, reply)
    operation.learn?.(reply)
  }
}

/** New agents use the rate-limiting node; other requests use any other node. */
function nodeFor(
  nodes: readonly string[],
  chance: SeededRandom,
  { request }: AdversaryOperation,
): string {
  const last = nodes.length - 1
  if (request.path.startsWith('/api/onboard')) return nodes[last] as string
  return nodes[
    chance.integer(1, 6) === 1 ? last : chance.integer(0, Math.max(0, last - 1))
  ] as string
}

function answerOf({ status, body }: StationReplyToAdversary): string {
  const code = body['code']
  return status < 300 || typeof code !== 'string' ? String(status) : `${status} ${code}`
}

function recordTrace(
  trace: string[],
  at: number,
  { kind, request, credentialHolder }: AdversaryOperation,
  reply: StationReplyToAdversary,
): void {
  const said = `${answerOf(reply)} ${reply.text.slice(0, 120).replaceAll('\n', ' ')}`
  trace.push(
    `${at} ${kind} (${credentialHolder}): ${request.method} ${request.path} ${show(request)} -> ${said}`,
  )
  if (trace.length > MAX_TRACE_LINES) trace.shift()
}

const show = ({ json, headers }: AdversaryOperation['request']) =>
  `${JSON.stringify(json ?? {})} ${JSON.stringify(headers ?? {})}`
