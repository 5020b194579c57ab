import { DAY } from '../core/clock.ts'
import { ServiceError } from '../core/errors.ts'
import { newId } from '../core/ids.ts'
import { LIMITS } from '../core/limits.ts'
import type { MessageStore } from '../persistence/messages.ts'
import type { Answered, Asked, Once } from '../persistence/once.ts'
import type { ProfileStore } from '../persistence/profiles.ts'
import { answered } from '../persistence/within.ts'

export interface MessagingParts {
  readonly once: Once
  readonly clock: { now(): number }
  readonly profiles: Pick<ProfileStore, 'has'>
  readonly messages: Pick<MessageStore, 'send'>
  readonly realtime: { grew(table: 'outbox'): void }
}

export interface Letter {
  readonly to: string
  readonly message: string
  readonly subject: string | null
}

/** Sends a message, through whichever door; its recipient hears of it with the commit. */
export function messaging({ once, clock, profiles, messages, realtime }: MessagingParts) {
  return async function send(asked: Asked, from: string, letter: Letter): Promise<Answered> {
    const to = letter.to.toLowerCase()
    if (!(await answered(profiles.has(to))))
      throw new ServiceError('agent_not_found', { agent_id: to })
    const { message: body, subject } = letter
    const sent = await once.write(asked, async (tx) => {
      const now = clock.now()
      const [id, at] = [newId(now), new Date(now)]
      const expiresAt = new Date(now + LIMITS.messageDays * DAY)
      await messages.send(tx, { id, from, to, kind: 'message', subject, body, at, expiresAt })
      const shown = { message_id: id, to_agent_id: to }
      const times = { created_at: at.toISOString(), expires_at: expiresAt.toISOString() }
      return { status: 200, body: { ...shown, ...times } }
    })
    realtime.grew('outbox')
    return sent
  }
}
