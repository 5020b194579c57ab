import type { Clock } from '../../core/clock.ts'
import type { Answer } from './client.ts'
import { eventually } from './mailbox.ts'
import type { Receivers } from './receivers.ts'
import type { Guest, Served, StartedStation } from './station.ts'

export interface Hook {
  readonly id: string
  readonly secret: string
  readonly path: string
}

/** What lets a station reach the receivers of a test. */
export const reaching = (house: Receivers) => ({ SSRF_ALLOW: `127.0.0.1:${house.port}` })

export async function register(
  main: Pick<Served, 'ask'>,
  house: Pick<Receivers, 'base'>,
  guest: Guest,
  path: string,
  events?: string[],
): Promise<Hook> {
  const json = { url: `${house.base}${path}`, ...(events === undefined ? {} : { events }) }
  const { status, body, text } = await main.ask('POST', '/api/webhook/register', {
    key: guest.key,
    json,
  })
  if (status !== 200) throw new Error(text)
  return { id: String(body['id']), secret: String(body['secret']), path }
}

export const list = ({ body }: Answer, name: string) => body[name] as Record<string, unknown>[]

/** Newest first. */
export async function deliveriesOf(
  main: Pick<Served, 'ask'>,
  guest: Guest,
  hook: Pick<Hook, 'id'>,
) {
  const path = `/api/webhook/${hook.id}/deliveries?limit=200`
  return list(await main.ask('GET', path, { key: guest.key }), 'deliveries')
}

/** Waits until nothing is pending for a webhook. */
export const settled = (main: Pick<Served, 'ask'>, guest: Guest, hook: Pick<Hook, 'id'>) =>
  eventually(
    async () => (await deliveriesOf(main, guest, hook)).every(({ state }) => state !== 'pending'),
    'the end of all deliveries',
  )

/**
 * Waits until no attempt is under way, nor due by the clock, where it is given: from here on it may
 * jump. One that is under way meanwhile would have lasted for as long.
 */
export const idle = (main: StartedStation, clock: Pick<Clock, 'now'> | null = null) =>
  eventually(async () => {
    const now = clock === null ? null : new Date(clock.now())
    const busy = await main.sql`
      select from webhooks where lease is not null or (state = 'active' and due_at <= ${now})`
    return busy.length === 0
  }, 'the end of the attempt')

export const callIds = (house: Receivers, path: string) =>
  house.taken(path).map(({ data }) => String(data['call_id']))
