import { toPlainText, unmaskLookAlikes } from '../core/comparable-text.ts'
import { invalidInputError, ServiceError } from '../core/errors.ts'
import { isUuid } from '../core/ids-and-api-keys.ts'

/** The channel of all pulses. It accepts no publications. */
export const PULSES_CHANNEL = 'pulses'

const INBOX_PREFIX = 'agent:'
const OWN_INBOX_NAME = 'agent:me'
/** Visible characters of any script, without commas, which separate lists. */
const CHANNEL_NAME_PATTERN = /^[^\p{C}\p{Z}\p{Default_Ignorable_Code_Point},]{1,128}$/u

/** The inbox channel of an agent: anyone may publish, only the agent may read. */
export const inboxChannelOf = (agentId: string): string => `${INBOX_PREFIX}${agentId}`

/**
 * Normalizes a channel name for storage: `agent:me` becomes the caller's inbox, agent ids lower
 * case, text NFC. Throws `invalid_input` at `pointer` for an invalid name.
 */
export function parseChannelName(given: string, agentId: string | null, pointer: string): string {
  const name = given.normalize('NFC')
  if (!CHANNEL_NAME_PATTERN.test(name))
    throw invalidInputError(
      pointer,
      'must be 1 to 128 visible characters without blanks and commas',
    )
  if (!name.toLowerCase().startsWith(INBOX_PREFIX)) return name
  const owner = name.slice(INBOX_PREFIX.length).toLowerCase()
  if (isUuid(owner)) return inboxChannelOf(owner)
  if (name === OWN_INBOX_NAME && agentId !== null) return inboxChannelOf(agentId)
  throw invalidInputError(pointer, 'must name an agent by its id after agent:')
}

/** Throws `invalid_input` for a name that readers take for another one: full width, or mixed scripts. */
export function assertPlainChannelName(channel: string, pointer: string): void {
  const plain = unmaskLookAlikes(toPlainText(channel))
  if (plain !== channel) throw invalidInputError(pointer, `must be written plainly: ${plain}`)
}

/** The agent that owns an inbox channel; null for a public channel. */
export const findInboxChannelAgent = (channel: string): string | null =>
  channel.startsWith(INBOX_PREFIX) ? channel.slice(INBOX_PREFIX.length) : null

/** Throws when the channel is another agent's inbox. Does not reveal whether that agent exists. */
export function assertChannelReadable(channel: string, agentId: string | null): void {
  const owner = findInboxChannelAgent(channel)
  if (owner === null || owner === agentId) return
  if (agentId === null) throw new ServiceError('unauthenticated', { channel })
  throw new ServiceError('channel_private', { channel })
}
