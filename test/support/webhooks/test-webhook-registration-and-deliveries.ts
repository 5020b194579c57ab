import type { Clock } from '../../../core/clock.ts'
import type { TestReply } from '../http/test-http-client.ts'
import { eventually } from '../mail/test-mail-and-telegram-servers.ts'
import type { WebhookReceivers } from './test-webhook-receivers.ts'
import type { TestAgent, TestStation, InProcessStation } from '../station/start-test-station.ts'

/** Registers webhooks and reads their deliveries through the API. */

export interface RegisteredWebhook {
  readonly id: string
  readonly secret: string
  readonly path: string
}

/** Settings that allow a station to call local receivers. */
export const settingsAllowingWebhookReceivers = (house: WebhookReceivers) => ({
  SSRF_ALLOW: `127.0.0.1:${house.port}`,
})

export async function registerTestWebhook(
  main: Pick<TestStation, 'ask'>,
  house: Pick<WebhookReceivers, 'base'>,
  guest: TestAgent,
  path: string,
  events?: string[],
): Promise<RegisteredWebhook> {
  const json = { url: `${house.base}${path}`, ...(events === undefined ? {} : { events }) }
  const { status, body, text } = await main.ask('POST', '/api/webhook/register', {
    key: guest.key,
    json,
  })
  if (status !== 200) throw new Error(text)
  return { id: String(body['id']), secret: String(body['secret']), path }
}

export const readReplyListField = ({ body }: TestReply, name: string) =>
  body[name] as Record<string, unknown>[]

/** Newest first. */
export async function fetchWebhookDeliveries(
  main: Pick<TestStation, 'ask'>,
  guest: TestAgent,
  hook: Pick<RegisteredWebhook, 'id'>,
) {
  const path = `/api/webhook/${hook.id}/deliveries?limit=200`
  return readReplyListField(await main.ask('GET', path, { key: guest.key }), 'deliveries')
}

/** Waits until a webhook has no pending deliveries. */
export const waitForWebhookDeliveries = (
  main: Pick<TestStation, 'ask'>,
  guest: TestAgent,
  hook: Pick<RegisteredWebhook, 'id'>,
) =>
  eventually(
    async () =>
      (await fetchWebhookDeliveries(main, guest, hook)).every(({ state }) => state !== 'pending'),
    'the end of all deliveries',
  )

/**
 * Waits until no attempt is running or due at the given clock, after which the clock may jump. A
 * running attempt would otherwise last as long as the jump.
 */
export const waitForIdleWebhooks = (
  main: InProcessStation,
  clock: Pick<Clock, 'now'> | null = null,
) =>
  eventually(async () => {
    const now = clock === null ? null : new Date(clock.now())
    const busy = await main.sql`
      select from webhooks where lease is not null or (state = 'active' and due_at <= ${now})`
    return busy.length === 0
  }, 'the end of the attempt')

export const webhookDeliveredCallIds = (house: WebhookReceivers, path: string) =>
  house.taken(path).map(({ data }) => String(data['call_id']))
