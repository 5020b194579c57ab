import { foldLookAlikes, toLetterSkeleton, toReadText } from '../../core/comparable-text.ts'
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

/** What the subjects of the station's own mails say, by their words that do not change. */
const STATION_SUBJECTS = [
  ['sign in to your agent'],
  ['confirm your address'],
  ['is about to stop', 'usdc left'],
  ['runs low on credits', 'usdc left'],
  ['a webhook of ', ' has been disabled'],
  ['a schedule of ', ' has stopped'],
  ['the tool ', ' of ', ' is suspended'],
  ['the tool ', ' of ', ' the mark verified'],
  ['the wallet of ', ' was exported'],
  ['what your agent ', ' spends'],
  [' last week ', ' spent', ' left'],
].map((parts) => new RegExp(parts.map(toLetterSkeleton).join('.*'), 'u'))
/** The fragment of a link that signs a person in: the pages of the station read it. */
const SIGN_IN_FRAGMENT = /#(?:[^\s#]*&)?(?:link|code)=/i
const WEB_HOST = /https?:[/\\]*[^\s/\\?#<>"']+/gi

/** Addresses as a browser reads them: with each escaped character, without the line breaks that it skips. */
function readAddresses(text: string): string[] {
  const read = toReadText(text)
    .replace(/%([2-7][0-9a-f])/gi, (_, code: string) => String.fromCharCode(parseInt(code, 16)))
    .replace(/[。｡]/g, '.')
  return [read, read.replace(/[\t\n\r]+/g, '')]
}

/** Whether a text has the host, as it is or in the form of a link that browsers take for it. */
function isHostNamed(text: string, host: string): boolean {
  const name = foldLookAlikes(host).replace(/[.[\]]/g, '\\$&')
  const named = new RegExp(`(?<![\\w-])${name}(?![\\w-])`, 'i')
  const linked = [...text.matchAll(WEB_HOST)].some(
    ([link]) => URL.canParse(link) && new URL(link).hostname === host,
  )
  return linked || named.test(foldLookAlikes(text))
}

/**
 * Throws 400 for a mail whose subject says what only the station says, or that has a link to the station or one
 * that signs in.
 */
export function assertNoStationMail(subject: string, body: string, publicUrl: string): void {
  const said = toLetterSkeleton(subject)
  if (STATION_SUBJECTS.some((pattern) => pattern.test(said)))
    throw invalidInputError('/subject', "is reserved for the station's own mails")
  const { hostname } = new URL(publicUrl)
  for (const [pointer, text] of [
    ['/subject', subject],
    ['/body', body],
  ] as const)
    for (const read of readAddresses(text)) {
      if (SIGN_IN_FRAGMENT.test(read))
        throw invalidInputError(pointer, 'must not have a link that signs in')
      if (isHostNamed(read, hostname))
        throw invalidInputError(
          pointer,
          'must not have an address of this station: only it sends those',
        )
    }
}
