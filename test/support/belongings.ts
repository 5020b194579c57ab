import { openDrop } from '../../app/drops.ts'
import type { Guest, StartedStation } from './station.ts'

/** A call that is paid from credits. */
export const call = { tool: 'hive_trending', limit: 3 }

/** What an agent has, by its id: the objects of the writing routes. */
export interface Things {
  readonly friend: Guest
  readonly spareKey: string
  readonly doomedKey: string
  readonly task: string
  readonly doneTask: string
  readonly lostTask: string
  readonly schedule: string
  readonly doomedSchedule: string
  readonly pack: string
  readonly doomedPack: string
  readonly fleet: string
  /** In the vault. */
  readonly memory: string
  readonly drop: string
  readonly referralCode: string
  readonly letter: string
  readonly hook: string
  readonly doomedHook: string
  readonly doomedBounty: string
  /** Public, and not hers. */
  readonly foreignStrategy: string
  /** Open, and not hers. */
  readonly foreignBounty: string
}

export async function belongings(main: StartedStation, { key: own }: Guest): Promise<Things> {
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
  const schedule = () => made('/api/task/schedule', { interval: '1h', tool: call.tool })
  const pack = () => made('/api/backpack/create', { agent_name: 'x' })
  const friend = await main.onboard()
  const bounty = (key: string) =>
    made('/api/bounties', { title: 'x', description: 'x', domain: 'x', reward_usdc: 0.05 }, key)
  return {
    friend,
    spareKey: await made('/api/keys', {}),
    doomedKey: await made('/api/keys', {}),
    task: await task(),
    doneTask: await task(),
    lostTask: await task(),
    schedule: await schedule(),
    doomedSchedule: await schedule(),
    pack: await pack(),
    doomedPack: await pack(),
    fleet: await made('/api/fleet/create', { name: 'x' }),
    memory: await made('/api/vault/write', { content: 'x', type: 'context' }),
    drop: (await openDrop(main.sql))[0]?.code ?? '',
    referralCode: await made('/api/referrals/create', {}),
    hook: await hook(),
    doomedHook: await hook('doomed'),
    foreignStrategy: await made('/api/strategies', { title: 'x', description: 'x' }, friend.key),
    doomedBounty: await bounty(own),
    foreignBounty: await bounty(friend.key),
    letter: await made('/api/messages', { to: friend.id, message: 'x' }),
  }
}
