import type { ApiConformanceStation } from './start-api-conformance-station.ts'

/** The shape of an operation as the specification lists it: a valid request, and what its answer has. */

type FromStation<T> = T | ((station: ApiConformanceStation) => T)

export interface ApiConformanceCase {
  /** Method and path as in the document; names of parameters are not compared. */
  readonly at: string
  /** Paths of fields that the specification names, apart by spaces: `ok results[].tool total_ms`. */
  readonly fields: string
  /** The address, if the path has parameters or the request a query. */
  readonly path?: FromStation<string>
  readonly body?: FromStation<object>
  readonly headers?: FromStation<Readonly<Record<string, string>>>
  /** Who sends it, if not the agent of the walk (with a key) or nobody (without one). */
  readonly as?: 'mate' | 'self' | 'nobody'
  /** 200 unless the specification lists another. */
  readonly status?: number
  /** `application/json` unless the specification says otherwise. */
  readonly type?: string
  /** The answer of an event stream that stays open. */
  readonly endless?: true
  /** A part of the answer, or a pattern of its text. */
  readonly match?: FromStation<object | RegExp>
  /** Ids that later requests need: their names here, and the fields of the answer. */
  readonly keeps?: Readonly<Record<string, string>>
  /** What has to be there before. */
  readonly before?: (station: ApiConformanceStation) => Promise<unknown>
}

/** Returns what depends on the station. */
export const resolveConformanceCaseValue = <T>(
  value: FromStation<T>,
  station: ApiConformanceStation,
): T => (typeof value === 'function' ? (value as (of: ApiConformanceStation) => T)(station) : value)

/** Reads a field by its path; `[]` is the first entry of a list. Undefined if there is none. */
export function readJsonFieldByPath(body: unknown, path: string): unknown {
  return path
    .split('.')
    .flatMap((name) => (name.endsWith('[]') ? [name.slice(0, -2), '0'] : [name]))
    .reduce<unknown>(
      (value, name) =>
        typeof value === 'object' && value !== null
          ? (value as Record<string, unknown>)[name]
          : undefined,
      body,
    )
}

/** `POST /api/t/{slug}` as `POST /api/t/{}`. */
export const withoutRouteParameterNames = (at: string): string => at.replace(/\{\w+\}/g, '{}')
