import { invalid, ServiceError } from '../core/errors.ts'
import { isUuid } from '../core/ids.ts'

/** Everybody's pulses; nobody publishes there. */
export const PULSES = 'pulses'

const INBOX = 'agent:'
const OWN = 'agent:me'
/** Free-form letters and signs of any script, but what can be seen and a list separated by commas can carry. */
const NAME = /^[^\p{C}\p{Z}\p{Default_Ignorable_Code_Point},]{1,128}$/u

/** The inbox of an agent: anybody may publish there, its owner alone may read. */
export const inboxOf = (agentId: string): string => `${INBOX}${agentId}`

/**
 * A channel as it is stored: `agent:me` becomes the caller's own, ids of agents are in lower case, letters
 * that can be written in two ways are composed (NFC).
 * Refuses what is no name of a channel, naming `pointer`.
 */
export function channelNamed(given: string, agentId: string | null, pointer: string): string {
  const name = given.normalize('NFC')
  if (!NAME.test(name))
    throw invalid(pointer, 'must be 1 to 128 visible characters without blanks and commas')
  if (!name.toLowerCase().startsWith(INBOX)) return name
  const owner = name.slice(INBOX.length).toLowerCase()
  if (isUuid(owner)) return inboxOf(owner)
  if (name === OWN && agentId !== null) return inboxOf(agentId)
  throw invalid(pointer, 'must name an agent by its id after agent:')
}

/** The agent whose inbox a channel is; null for a public one. */
export const ownerOf = (channel: string): string | null =>
  channel.startsWith(INBOX) ? channel.slice(INBOX.length) : null

/** Refuses to read somebody else's inbox. Says nothing of whether there is such an agent. */
export function demandReadable(channel: string, agentId: string | null): void {
  const owner = ownerOf(channel)
  if (owner === null || owner === agentId) return
  if (agentId === null) throw new ServiceError('unauthenticated', { channel })
  throw new ServiceError('channel_private', { channel })
}
