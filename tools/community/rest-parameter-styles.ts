import type { RestParameter, RestParameterStyle } from '../../domain/community-tool-record.ts'

/** Writes values as OpenAPI parameters: the forms of RFC 6570, the delimited ones, `deepObject`, and JSON content. */

type Encode = (text: string) => string
/** A name with one of its values; both are written already. */
type Pair = readonly [name: string, value: string]

/** Each value is a part of one segment, with what its style puts around it. */
export function toPathPart(parameter: RestParameter, value: unknown): string {
  const { name, isExploded } = parameter
  const style = styleOf(parameter)
  const parts = toParts(parameter, value, encodeURIComponent)
  const isWhole = parts.every(([key]) => key === null)
  if (style !== 'label' && style !== 'matrix') return joinParts(parts, isExploded, ',')
  if (style === 'label') return `.${joinParts(parts, isExploded, isExploded ? '.' : ',')}`
  const own = encodeURIComponent(name)
  if (!isExploded) return `;${withValue(own, joinParts(parts, false, ','))}`
  return parts.map(([key, text]) => `;${withValue(isWhole ? own : (key ?? own), text)}`).join('')
}

/** The value of a header, which is not encoded. */
export const toHeaderText = (parameter: RestParameter, value: unknown): string =>
  joinParts(
    toParts(parameter, value, (text) => text),
    parameter.isExploded,
    ',',
  )

/** `name=value` pairs of a query, joined by `&`; empty for a list or an object without anything in it. */
export function toQueryPart(parameter: RestParameter, value: unknown): string {
  const { name, isExploded, isReservedKept } = parameter
  const style = styleOf(parameter)
  const encode = isReservedKept === true ? encodeUnreserved : encodeURIComponent
  const own = encodeURIComponent(name)
  if (style === 'deepObject' && isObject(value)) return joinPairs(deepPairs(name, value, encode))
  const parts = toParts(parameter, value, encode)
  if (parts.length === 0) return ''
  if (isExploded) return joinPairs(parts.map(([key, text]) => [key ?? own, text]))
  return joinPairs([[own, joinParts(parts, false, DELIMITERS[style] ?? ',')]])
}

const DELIMITERS: Partial<Record<RestParameterStyle, string>> = {
  spaceDelimited: '%20',
  pipeDelimited: '%7C',
}

/** Tools of before styles were kept have none. */
const styleOf = (parameter: RestParameter): RestParameterStyle =>
  parameter.style ?? (parameter.in === 'query' ? 'form' : 'simple')

const withValue = (name: string, value: string): string =>
  value === '' ? name : `${name}=${value}`
const joinPairs = (pairs: readonly Pair[]): string =>
  pairs.map(([name, value]) => `${name}=${value}`).join('&')

/** The members of an object with their names, those of a list without; one for any other value. */
function toParts(
  { isJson }: RestParameter,
  value: unknown,
  encode: Encode,
): (readonly [string | null, string])[] {
  if (isJson === true) return [[null, encode(JSON.stringify(value))]]
  if (Array.isArray(value))
    return value.filter(isGiven).map((one) => [null, encode(toText(one))] as const)
  if (!isObject(value)) return [[null, encode(toText(value))]]
  return Object.entries(value)
    .filter(([, one]) => isGiven(one))
    .map(([key, one]) => [encode(key), encode(toText(one))] as const)
}

/** `R=100,G=200` exploded, `R,100,G,200` otherwise. */
const joinParts = (
  parts: ReturnType<typeof toParts>,
  isExploded: boolean,
  delimiter: string,
): string =>
  parts
    .map(([key, text]) => (key === null ? text : `${key}${isExploded ? '=' : delimiter}${text}`))
    .join(delimiter)

/** `color[R]=100&color[tone][dark]=true`; a list repeats its name. */
function deepPairs(name: string, value: unknown, encode: Encode): Pair[] {
  if (!isGiven(value)) return []
  if (Array.isArray(value)) return value.flatMap((one) => deepPairs(name, one, encode))
  if (!isObject(value)) return [[encodeURIComponent(name), encode(toText(value))]]
  return Object.entries(value).flatMap(([key, one]) => deepPairs(`${name}[${key}]`, one, encode))
}

/** Reserved characters and escapes stay, but for those that end a value or the query. */
const encodeUnreserved: Encode = (text) =>
  encodeURIComponent(text)
    .replace(/%(3A|2F|3F|40|21|24|27|28|29|2A|2C|3B)/g, (escape) => decodeURIComponent(escape))
    .replace(/%25(?=[0-9A-Fa-f]{2})/g, '%')

const isGiven = (value: unknown): boolean => value !== undefined && value !== null
const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const toText = (value: unknown): string =>
  typeof value === 'string' ? value : JSON.stringify(value)
