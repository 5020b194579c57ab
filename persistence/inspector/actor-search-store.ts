import type { ActorState } from '../../core/journal-actor-state-delta.ts'
import { isUuid } from '../../core/ids-and-api-keys.ts'
import { toTextArrayLiteral } from '../postgres/postgres-array-literal.ts'
import type { Sql } from '../start-postgres-and-redis.ts'

/** Finds stored actors, also those at rest. Reading never loads an aggregate into memory. */

/** A stored actor with what people call it. */
export interface ActorSearchResult {
  readonly kind: string
  readonly id: string
  readonly aggregateId: string
  readonly aggregateKind: string
  /** The version of the aggregate. */
  readonly version: number
  readonly machineVersion: number
  readonly isArchived: boolean
  readonly name: string
  readonly state: ActorState
}

export interface ActorSearchQuery {
  readonly kind?: string | undefined
  /** A part of the id or of the name. */
  readonly text?: string | undefined
  /** An agent: its own aggregate, its bounties, listings, tools and payments. */
  readonly agentId?: string | undefined
  /** One actor, in every aggregate that has it. */
  readonly actorId?: string | undefined
}

/** The last actor of a page. */
export interface ActorSearchPosition {
  readonly kind: string
  readonly id: string
  readonly aggregateId: string
}

/** Creates the directory. */
export function createActorSearchStore(sql: Sql) {
  /** The condition of a query, over `a` (actors) and the name `n`. */
  const matching = ({ kind, text, agentId, actorId }: ActorSearchQuery) => sql`
    (${kind === undefined} or a.kind = ${kind ?? ''})
    and (${actorId === undefined} or a.id = ${actorId ?? ''})
    and (${text === undefined} or a.id ilike ${toPattern(text)} or a.aggregate_id ilike ${toPattern(text)}
         or fold_text(n.name) ilike fold_text(${toPattern(text)}))
    ${agentId === undefined ? sql`` : sql`and ${ofAgent(agentId)}`}`

  const ofAgent = (agentId: string) => sql`(a.aggregate_id = ${agentId}
    or (a.kind = 'bounty' and a.id in (
      select bounty_id::text from bounties where poster_id::text = ${agentId} or claimed_by::text = ${agentId}))
    or (a.kind = 'tool' and a.state->'context'->>'builderId' = ${agentId})
    or (a.kind = 'listing' and a.state->'context'->>'sellerId' = ${agentId})
    or (a.kind = 'settlement' and a.state->'context'->>'agentId' = ${agentId}))`

  const named = sql`actors a join aggregates g on g.id = a.aggregate_id
    left join agents p on a.kind = 'agent' and p.agent_id::text = a.id
    left join bounties b on a.kind = 'bounty' and b.bounty_id::text = a.id
    cross join lateral (select coalesce(p.name, b.title, nullif(a.state->'context'->>'name', ''),
      nullif(a.state->'context'->>'agentName', ''), a.id) as name) n`

  const columns = sql`a.kind, a.id, a.aggregate_id as "aggregateId", g.kind as "aggregateKind",
    g.version::int, a.machine_version as "machineVersion", a.archived as "isArchived", n.name, a.state`

  return {
    /** One page, by kind, the newest first where ids sort by time. */
    async list(
      query: ActorSearchQuery,
      limit: number,
      after: ActorSearchPosition | null = null,
    ): Promise<ActorSearchResult[]> {
      return sql<ActorSearchResult[]>`
        select ${columns} from ${named} where ${matching(query)}
           ${
             after === null
               ? sql``
               : sql`and (a.kind > ${after.kind} or a.kind = ${after.kind} and (a.id < ${after.id}
                     or a.id = ${after.id} and a.aggregate_id < ${after.aggregateId}))`
           }
         order by a.kind, a.id desc, a.aggregate_id desc limit ${limit}`
    },

    /** The newest actors of each of these kinds, at most `limit` of a kind. */
    async newest(
      kinds: readonly string[],
      query: ActorSearchQuery,
      limit: number,
    ): Promise<ActorSearchResult[]> {
      return sql<ActorSearchResult[]>`
        select x.* from unnest(${toTextArrayLiteral(kinds)}::text[]) k(kind), lateral (
          select ${columns} from ${named} where a.kind = k.kind and ${matching(query)}
           order by a.id desc, a.aggregate_id desc limit ${limit}) x`
    },

    /** How many actors of each kind match. */
    async countByKind(query: ActorSearchQuery = {}): Promise<Record<string, number>> {
      const isAll = Object.values(query).every((value) => value === undefined)
      const rows = await sql<{ kind: string; n: number }[]>`
        select a.kind, count(*)::int as n from ${isAll ? sql`actors a` : sql`${named} where ${matching(query)}`}
         group by a.kind order by a.kind`
      return Object.fromEntries(rows.map(({ kind, n }) => [kind, n]))
    },

    /** The names of agents and the titles of bounties among these actors. */
    async namesOf(
      actors: readonly { readonly kind: string; readonly id: string }[],
    ): Promise<{ kind: string; id: string; name: string }[]> {
      const idsOf = (kind: string) =>
        toTextArrayLiteral(
          actors.filter((one) => one.kind === kind && isUuid(one.id)).map(({ id }) => id),
        )
      return sql`
        select 'agent' as kind, agent_id::text as id, name from agents
         where agent_id = any(${idsOf('agent')}::text[]::uuid[])
        union all
        select 'bounty', bounty_id::text, title from bounties
         where bounty_id = any(${idsOf('bounty')}::text[]::uuid[])`
    },

    /** An actor in each aggregate that has it; ids are unique except for the counters of agents. */
    async find(kind: string, id: string): Promise<ActorSearchResult[]> {
      return sql<ActorSearchResult[]>`
        select ${columns} from ${named} where a.kind = ${kind} and a.id = ${id}
         order by a.aggregate_id limit 10`
    },
  }
}
export type ActorSearchStore = ReturnType<typeof createActorSearchStore>

/** A pattern for ILIKE that finds the text anywhere. */
const toPattern = (text = ''): string => `%${text.replace(/[\\%_]/g, '\\$&')}%`
