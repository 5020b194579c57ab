import { isRecord, parseUntrustedBase64JsonHeader } from '../untrusted-json.ts'

/** Reads MPP challenges of other servers from `WWW-Authenticate`. */

/** The charge that a challenge asks for. */
export interface DemandedCharge {
  readonly method: string
  readonly intent: string
  readonly amount: string | null
  readonly currency: string | null
  readonly recipient: string | null
  readonly chainId: number | null
}

/** A quoted parameter, an unquoted one, or a word that begins the next scheme. */
const PART =
  /[\s,]*(?:([\w-]+)\s*=\s*"((?:[^"\\]|\\.)*)"|([\w-]+)\s*=\s*([^\s",]+)|([\w-]+)(?=\s|,|$))/y

/** Parses a header of up to 8 KiB; returns the charges and what cannot be read. */
export function parsePaymentChallenges(header: string): {
  readonly charges: readonly DemandedCharge[]
  readonly problems: readonly string[]
} {
  const challenges = splitChallenges(header.trim())
  if (challenges === null) return { charges: [], problems: ['WWW-Authenticate cannot be read'] }
  const charges: DemandedCharge[] = []
  const problems: string[] = []
  for (const { scheme, fields } of challenges) {
    if (scheme !== 'payment') continue
    const charge = toCharge(fields)
    if (typeof charge === 'string') problems.push(charge)
    else charges.push(charge)
  }
  return { charges, problems }
}

interface Challenge {
  readonly scheme: string
  readonly fields: Map<string, string>
}

function splitChallenges(text: string): Challenge[] | null {
  const found: Challenge[] = []
  PART.lastIndex = 0
  while (PART.lastIndex < text.length) {
    const [match, name, quoted = '', bareName, bare = '', scheme] = PART.exec(text) ?? []
    if (match === undefined) return null
    if (scheme !== undefined) {
      found.push({ scheme: scheme.toLowerCase(), fields: new Map() })
      continue
    }
    const field = (name ?? bareName ?? '').toLowerCase()
    found.at(-1)?.fields.set(field, name === undefined ? bare : quoted.replace(/\\(.)/g, '$1'))
  }
  return found
}

/** Returns the charge, or what is wrong with the challenge. */
function toCharge(fields: ReadonlyMap<string, string>): DemandedCharge | string {
  const [method, intent] = [fields.get('method'), fields.get('intent')]
  if (method === undefined || intent === undefined)
    return 'a Payment challenge has no method or no intent'
  for (const name of ['id', 'realm', 'request'])
    if (!fields.has(name)) return `the Payment challenge of ${method} has no ${name}`
  const request = parseUntrustedBase64JsonHeader(fields.get('request') ?? '')
  if (request === null)
    return `the request of the Payment challenge of ${method} is not base64url of a JSON object`
  const details = isRecord(request['methodDetails']) ? request['methodDetails'] : {}
  const text = (value: unknown) => (typeof value === 'string' ? value : null)
  return {
    method,
    intent,
    amount: text(request['amount']),
    currency: text(request['currency']),
    recipient: text(request['recipient']),
    chainId: Number.isInteger(details['chainId']) ? (details['chainId'] as number) : null,
  }
}
