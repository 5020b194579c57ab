export type RequestFields = Record<string, unknown>

/** One writing operation: a request that is served, and which of its fields can be spoilt how. */
export interface WriteRouteCase {
  readonly path: string
  readonly method?: 'POST' | 'PATCH' | 'DELETE'
  readonly body?: RequestFields
  readonly status?: number
  /** Answers without a key too. */
  readonly anonymousAllowed?: true
  readonly amounts?: readonly string[]
  readonly texts?: readonly string[]
  readonly lists?: readonly string[]
  readonly objects?: readonly string[]
  readonly wholes?: readonly string[]
  /** Free calls: nothing is asked of the balance. */
  readonly freeOfCharge?: true
  /** Nobody has to say who asks, and nothing is kept to repeat. */
  readonly notRepeatable?: true
}
