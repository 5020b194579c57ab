/**
 * Addresses of servers with their credentials, as hosting services hand them out:
 * `scheme://user:password@host:port/path?name=value`.
 */

export interface ConnectionUrl {
  readonly scheme: string
  /** Null where the address names none; the same holds for the password. */
  readonly user: string | null
  readonly password: string | null
  /** In their order; without one the list is empty. IPv6 literals have no brackets. */
  readonly hosts: readonly { readonly host: string; readonly port: number | null }[]
  /** Decoded, without the slash before it. */
  readonly path: string
  readonly query: ReadonlyMap<string, string>
}

/** What an address may hold. */
export interface ConnectionUrlForm {
  readonly schemes: readonly string[]
  /** The names of its query. They decide between two readings of one text. */
  readonly knows: (parameter: string) => boolean
}

/** Completes the sentence "NAME …" and repeats nothing of the address but names. */
export class ConnectionUrlError extends Error {
  override readonly name = 'ConnectionUrlError'
}

const HOST_AND_PORT = '(?:\\[[0-9a-fA-F:.]+(?:%25[\\w.-]+)?\\]|[^\\s/?#@:,[\\]]*)(?::\\d{0,5})?'
const AFTER_CREDENTIALS = new RegExp(
  `^(?<hosts>${HOST_AND_PORT}(?:,${HOST_AND_PORT})*)(?<path>/[^?#@]*)?(?:\\?(?<query>[^#]*))?$`,
)
const ENCODE =
  'holds a password that can be read in two ways: write @ as %40, / as %2F, : as %3A, ? as %3F, # as %23, % as %25'

/**
 * Reads an address. Credentials may hold any character as it is, as long as the text has one
 * reading only. Throws ConnectionUrlError.
 */
export function parseConnectionUrl(text: string, form: ConnectionUrlForm): ConnectionUrl {
  const { scheme, rest } = splitScheme(text, form.schemes)
  const readings = [-1, ...positionsOf(rest, '@')].flatMap((at) => readAt(rest, at))
  const known = readings.filter(({ query }) => [...query.keys()].every(form.knows))
  const candidates = known.length > 0 ? known : readings
  const [reading] = candidates
  if (reading === undefined) throw new ConnectionUrlError(`must be a ${scheme}://host:port address`)
  if (candidates.length > 1) throw new ConnectionUrlError(ENCODE)
  const unknown = [...reading.query.keys()].find((name) => !form.knows(name))
  if (unknown !== undefined)
    throw new ConnectionUrlError(
      `has the parameter ${unknown}, which the station does not know: remove it`,
    )
  return toConnectionUrl(scheme, reading)
}

function splitScheme(text: string, schemes: readonly string[]): { scheme: string; rest: string } {
  if (/^["'`]|["'`]$/.test(text)) throw new ConnectionUrlError('has quotes around it: remove them')
  const [, scheme = '', rest = ''] = /^([a-zA-Z][\w+.-]*):\/\/(.*)$/s.exec(text) ?? []
  if (schemes.includes(scheme.toLowerCase()) && !/[\r\n\t]/.test(rest))
    return { scheme: scheme.toLowerCase(), rest }
  throw new ConnectionUrlError(
    `must start with ${schemes
      .slice(0, 2)
      .map((one) => `${one}://`)
      .join(' or ')}`,
  )
}

interface Reading {
  readonly credentials: string | null
  readonly hosts: string
  readonly path: string
  readonly query: ReadonlyMap<string, string>
}

/** The reading whose credentials end at this position; none if what follows is no address. */
function readAt(rest: string, at: number): Reading[] {
  const groups = AFTER_CREDENTIALS.exec(rest.slice(at + 1))?.groups
  if (groups === undefined) return []
  const { hosts = '', path = '', query = '' } = groups
  const pairs = query.split('&').filter((pair) => pair !== '')
  if (!pairs.every((pair) => /^[\w.-]+=/.test(pair))) return []
  return [
    {
      credentials: at < 0 ? null : rest.slice(0, at),
      hosts,
      path: path.slice(1),
      query: new Map(pairs.map(readPair)),
    },
  ]
}

function readPair(pair: string): [name: string, value: string] {
  const [name = ''] = pair.split('=', 1)
  return [name, decode(pair.slice(name.length + 1))]
}

const positionsOf = (text: string, character: string): number[] =>
  [...text.matchAll(new RegExp(character, 'g'))].map(({ index }) => index)

function toConnectionUrl(scheme: string, { credentials, hosts, path, query }: Reading) {
  const [user = ''] = credentials?.split(':', 1) ?? []
  const password = credentials?.includes(':') === true ? credentials.slice(user.length + 1) : null
  return {
    scheme,
    user: user === '' ? null : decode(user),
    password: password === null ? null : decode(password),
    hosts: hosts === '' ? [] : hosts.split(',').map(readHost),
    path: decode(path),
    query,
  }
}

function readHost(text: string): { host: string; port: number | null } {
  const [, literal, name = '', port = ''] = /^(?:\[(.+)\]|([^:]*))(?::(\d*))?$/.exec(text) ?? []
  if (Number(port) > 65_535) throw new ConnectionUrlError(`has the port ${port}, above 65535`)
  return { host: decode(literal ?? name), port: port === '' ? null : Number(port) }
}

/** A `%` that encodes nothing stands for itself, unless another one of the text encodes something. */
function decode(text: string): string {
  const encoded = text.match(/%[0-9a-fA-F]{2}/g)?.length ?? 0
  if (encoded === 0) return text
  if (encoded !== text.split('%').length - 1) throw new ConnectionUrlError(ENCODE)
  try {
    return decodeURIComponent(text)
  } catch {
    throw new ConnectionUrlError('encodes something that is no text in UTF-8')
  }
}
