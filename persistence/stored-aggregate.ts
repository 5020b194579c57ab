/** A stored actor: `state` is the JSON of `{ value, context }` (core/json/bigint.ts). */
export interface StoredActor {
  readonly kind: string
  readonly id: string
  readonly machineVersion: number
  readonly state: string
}

/** An aggregate as Postgres and the snapshot cache store it. */
export interface StoredAggregate {
  readonly id: string
  readonly kind: string
  readonly version: number
  readonly actors: readonly StoredActor[]
}
