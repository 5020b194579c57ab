import { invalidInputError } from '../../core/errors.ts'

/** Mails that agents write must not pass for mails of the station (decision 373). */

/** The sender of the station's own mails where none is set. */
export const defaultMailFrom = (publicUrl: string): string =>
  `gas-station@${new URL(publicUrl).hostname}`

/**
 * The default sender: a sub-address of the station's own (RFC 5233), `gas+agents@host`, without its name. Mailboxes
 * and people can tell the two apart.
 */
export function toAgentSender(stationFrom: string): string {
  const [, local = 'gas-station', host = 'localhost'] =
    /([^\s@<>]+)@([^\s@<>]+)>?$/.exec(stationFrom) ?? []
  return `An agent <${local}+agents@${host}>`
}

/** The address of a From, in lower case. */
export const senderAddress = (from: string): string =>
  (/<([^<>]+)>\s*$/.exec(from)?.[1] ?? from).trim().toLowerCase()

/** Ends every mail of an agent, whatever its text says. */
export const agentMailFooter = (agentId: string, publicUrl: string): string =>
  `\n\n--\nWritten by the agent ${agentId}, a customer of ${publicUrl}, and not by that station. Mails of the station come from another address and never from this one.\n`

/** Subjects of the station's own mails, as `toComparable` leaves them. */
const STATION_SUBJECTS = [
  /^sign ?in to your agents?$/,
  /^confirm your address$/,
  / (is about to stop|runs low on credits) [\d ]+usdc left$/,
  /^a (webhook|schedule) of .+ has (been disabled|stopped)$/,
  /^the (tool|wallet) .*of .+ (was exported|is suspended)$/,
  /^what your agent .+ spends$/,
  / last week [\d ]+ spent [\d ]+ left$/,
]
/** Links that sign a person in, of this station or of one that looks like it. */
const SIGN_IN_LINK = /\/(owner|inspector)\/?#(link|code)=/i

/** What a person reads: compatibility forms, case, invisible characters, accents and punctuation make no difference. */
const toComparable = (text: string): string =>
  text
    .normalize('NFKD')
    .replace(/[\p{Default_Ignorable_Code_Point}\p{M}\p{Cf}]/gu, '')
    .toLowerCase()
    .replace(/[^\p{L}\p{N}]+/gu, ' ')
    .trim()

/** Throws 400 for a mail with the subject, or the link, of one that only the station sends. */
export function assertNoStationMail(subject: string, body: string): void {
  const shown = toComparable(subject)
  if (STATION_SUBJECTS.some((pattern) => pattern.test(shown)))
    throw invalidInputError('/subject', "is reserved for the station's own mails")
  if (SIGN_IN_LINK.test(body.normalize('NFKC').replace(/\p{Default_Ignorable_Code_Point}/gu, '')))
    throw invalidInputError(
      '/body',
      'must not have a link that signs in: only the station sends those',
    )
}
