import { openCreditDrop } from '../../../app/cli/operator/cli-credit-drops.ts'
import type { TestAgent, InProcessStation } from '../station/start-test-station.ts'

/** A call paid from credits. */
export const PAID_CALL_BODY = { tool: 'hive_trending', limit: 3 }

/** Ids of an agent's objects, used by the write routes. */
export interface WriteRouteFixtures {
  readonly friend: TestAgent
  readonly spareKey: string
  readonly keyToRevoke: string
  readonly task: string
  readonly taskToEnd: string
  readonly taskToCancel: string
  readonly schedule: string
  readonly scheduleToCancel: string
  readonly backpack: string
  readonly backpackToRevoke: string
  readonly fleet: string
  /** In the vault. */
  readonly memory: string
  readonly drop: string
  readonly referralCode: string
  readonly message: string
  readonly webhook: string
  readonly webhookToDelete: string
  readonly bountyToCancel: string
  /** Public, owned by another agent. */
  readonly foreignStrategy: string
  /** Open, posted by another agent. */
  readonly foreignBounty: string
  /** Open, of another agent, dearer than the starter credits. */
  readonly foreignListing: string
  readonly listingToWithdraw: string
}

export async function createWriteRouteFixtures(
  main: InProcessStation,
  { key: own }: TestAgent,
): Promise<WriteRouteFixtures> {
  const made = async (path: string, json: object, key = own) => {
    const { body, status, text } = await main.ask('POST', path, { key, json })
    if (status >= 300) throw new Error(`${path}: ${text}`)
    const { fleet_id: fleet, referral_code: code, bounty_id: bounty, message_id, id } = body
    const memory = (body['pack'] as { id: string } | undefined)?.id
    const named = body.task_id ?? body.backpack_id ?? body['schedule_id'] ?? fleet
    return String(named ?? code ?? bounty ?? message_id ?? memory ?? id)
  }
  const hook = (path = '') =>
    made('/api/webhook/register', { url: `https://hooks.invalid/${path}` })
  const task = () => made('/api/task/start', { name: 'x', budget_usdc: 0.1 })
  const schedule = () => made('/api/task/schedule', { interval: '1h', tool: PAID_CALL_BODY.tool })
  const pack = () => made('/api/backpack/create', { agent_name: 'x' })
  const friend = await main.onboard()
  const bounty = (key: string) =>
    made('/api/bounties', { title: 'x', description: 'x', domain: 'x', reward_usdc: 0.05 }, key)
  const note = (key: string) => made('/api/vault/write', { content: 'x', type: 'context' }, key)
  const sell = async (key: string, entry: string) => {
    const terms = { name: 'x', description: 'x', price_usdc: 0.6, accepts_promo: true }
    return made('/api/marketplace/list', { ...terms, entry_ids: [entry] }, key)
  }
  const [memory, theirs] = [await note(own), await note(friend.key)]
  return {
    friend,
    spareKey: await made('/api/keys', {}),
    keyToRevoke: await made('/api/keys', {}),
    task: await task(),
    taskToEnd: await task(),
    taskToCancel: await task(),
    schedule: await schedule(),
    scheduleToCancel: await schedule(),
    backpack: await pack(),
    backpackToRevoke: await pack(),
    fleet: await made('/api/fleet/create', { name: 'x' }),
    memory,
    foreignListing: await sell(friend.key, theirs),
    listingToWithdraw: await sell(own, memory),
    drop: (await openCreditDrop(main.sql))[0]?.code ?? '',
    referralCode: await made('/api/referrals/create', {}),
    webhook: await hook(),
    webhookToDelete: await hook('doomed'),
    foreignStrategy: await made('/api/strategies', { title: 'x', description: 'x' }, friend.key),
    bountyToCancel: await bounty(own),
    foreignBounty: await bounty(friend.key),
    message: await made('/api/messages', { to: friend.id, message: 'x' }),
  }
}
