/** The shape of a write route's test case. */

export type RequestFields = Record<string, unknown>

/** A write operation: a valid request, and how each of its fields can be made invalid. */
export interface WriteRouteCase {
  readonly path: string
  readonly method?: 'POST' | 'PATCH' | 'DELETE'
  readonly body?: RequestFields
  readonly status?: number
  /** Works without a key too. */
  readonly anonymousAllowed?: true
  readonly amounts?: readonly string[]
  readonly texts?: readonly string[]
  readonly lists?: readonly string[]
  readonly objects?: readonly string[]
  readonly wholes?: readonly string[]
  /** Free of charge: the balance is not checked. */
  readonly freeOfCharge?: true
  /** Needs no key and stores nothing to replay. */
  readonly notRepeatable?: true
}
