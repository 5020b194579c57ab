/** An actor as it is kept: `state` is the codec's text of `{ value, context }`. */
export interface StoredActor {
  readonly kind: string
  readonly id: string
  readonly machineVersion: number
  readonly state: string
}

/** An aggregate as Postgres and the snapshot cache keep it. */
export interface StoredAggregate {
  readonly id: string
  readonly kind: string
  readonly version: number
  readonly actors: readonly StoredActor[]
}
