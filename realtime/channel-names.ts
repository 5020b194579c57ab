import { invalidInputError, ServiceError } from '../core/errors.ts'
import { isUuid } from '../core/ids.ts'

/** Everybody's pulses; nobody publishes there. */
export const PULSES_CHANNEL = 'pulses'

const INBOX_PREFIX = 'agent:'
const OWN_INBOX_NAME = 'agent:me'
/** Free-form letters and signs of any script, but what can be seen and a list separated by commas can carry. */
const CHANNEL_NAME_PATTERN = /^[^\p{C}\p{Z}\p{Default_Ignorable_Code_Point},]{1,128}$/u

/** The inbox of an agent: anybody may publish there, its owner alone may read. */
export const inboxChannelOf = (agentId: string): string => `${INBOX_PREFIX}${agentId}`

/**
 * A channel as it is stored: `agent:me` becomes the caller's own, ids of agents are in lower case, letters
 * that can be written in two ways are composed (NFC).
 * Refuses what is no name of a channel, naming `pointer`.
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

/** The agent whose inbox a channel is; null for a public one. */
export const findInboxOwner = (channel: string): string | null =>
  channel.startsWith(INBOX_PREFIX) ? channel.slice(INBOX_PREFIX.length) : null

/** Refuses to read somebody else's inbox. Says nothing of whether there is such an agent. */
export function assertChannelReadable(channel: string, agentId: string | null): void {
  const owner = findInboxOwner(channel)
  if (owner === null || owner === agentId) return
  if (agentId === null) throw new ServiceError('unauthenticated', { channel })
  throw new ServiceError('channel_private', { channel })
}
